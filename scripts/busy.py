#!/usr/bin/env python3
"""Trains while another program computes on one of two cores, and compares with the undisturbed speed.

    scripts/busy.py target/release/dahl --rounds 11

All on the built-in digits and on two cores, whatever the machine has. In every round everything is measured once, one right after
the other, so that whatever else the machine does meets all of it: the default, `--schedule steal` and `--workers 1`, each without
and with a busy loop on the first core and on the second one; and one worker that is kept to the core that is free. Printed is the
median over the rounds of disturbed/undisturbed in images per second. It fails if the default keeps less than half of its speed, or
clearly less than one worker on the free core has.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = {"default": [], "steal": ["--schedule", "steal"], "1 worker": ["--workers", "1"]}
# Less than this of one worker on the free core is no noise.
LEAST, LEAST_OF_ONE = 0.5, 0.85


def kept_to(cores):
    """What makes a process that is started keep to some cores."""
    return lambda: os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def loop_on(core):
    """Another program that computes on a core, or nothing."""
    if core is None:
        yield
        return
    loop = subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=kept_to({core}))
    try:
        # A program that has just begun is favoured for a moment.
        time.sleep(0.1)
        yield
    finally:
        loop.kill()
        loop.wait()


def images_per_s(build, arguments, cores, cache, epochs):
    """What a run says that it trained per second, over all its epochs."""
    command = [build, "train", "--epochs", str(epochs), "--json", *arguments]
    env = os.environ | {"DAHL_CACHE": cache}
    run = subprocess.run(command, capture_output=True, text=True, env=env, preexec_fn=kept_to(cores))
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {run.stderr.strip()}")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    times = [(line["images_per_s"] * line["seconds"], line["seconds"]) for line in lines if "images_per_s" in line]
    return sum(images for images, _ in times) / sum(seconds for _, seconds in times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a dahl command")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--epochs", type=int, default=1000)
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("two cores are needed")

    both, speeds = set(cores), {}
    with tempfile.TemporaryDirectory() as cache:
        for turn in range(args.rounds):
            for busy in (None, *cores):
                cases = [(name, arguments, both) for name, arguments in WAYS.items()]
                if busy is not None:
                    cases.append(("1 worker on the free core", WAYS["1 worker"], both - {busy}))
                with loop_on(busy):
                    for name, arguments, where in cases:
                        speed = images_per_s(args.build, arguments, where, cache, args.epochs)
                        speeds.setdefault((name, busy), []).append(speed)
            print(f"\rround {turn + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    def ratio(case, reference):
        return statistics.median(a / b for a, b in zip(speeds[case], speeds[reference]))

    for name in WAYS:
        print(f"{name:26} undisturbed  {statistics.median(speeds[name, None]) / 1e6:.2f} million images/s")
    is_slow = False
    for busy in cores:
        for name in (*WAYS, "1 worker on the free core"):
            reference = (name if name in WAYS else "default", None)
            speed = statistics.median(speeds[name, busy]) / 1e6
            print(f"{name:26} busy core {busy}  {speed:.2f} million images/s, {ratio((name, busy), reference):.2f} of undisturbed")
        of_one = ratio(("default", busy), ("1 worker on the free core", busy))
        print(f"{'default':26} busy core {busy}  {of_one:.2f} of one worker on the free core")
        is_slow |= ratio(("default", busy), ("default", None)) < LEAST or of_one < LEAST_OF_ONE
    if is_slow:
        sys.exit(f"slower: at least {LEAST} of the undisturbed speed was expected, and {LEAST_OF_ONE} of one worker's")


if __name__ == "__main__":
    main()
