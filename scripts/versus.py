#!/usr/bin/env python3
"""Trains by two builds of dahl in turn and compares their speed.

    scripts/versus.py OLD NEW --rounds 31

Five built-in models at batch 64, on one worker and on two. In every round both builds train each of the ten for about half a
second, one right after the other, the older first in even rounds and the newer in odd ones, so that whatever else the machine does
meets both. Printed is the median over the rounds of new/old in images per second: 1.05 is 5 % faster. It fails if the geometric
mean of the ten medians is below 0.98, or the lowest below 0.95.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

# Images and epochs of a run, which takes about half a second on a core.
RUNS = {"seed": (6400, 20), "mlp": (3200, 5), "lenet5": (3200, 10), "vggish": (320, 1), "resnet8": (320, 1)}
WORKERS = (1, 2)
LEAST_MEAN, LEAST = 0.98, 0.95


def images_per_s(build, model, workers, cache):
    """What a run says that it trained per second, over all its epochs."""
    images, epochs = RUNS[model]
    arguments = ["train", "--model", model, "--data", f"synthetic:1x28x28x10:{images}", "--batch", "64"]
    arguments += ["--workers", str(workers), "--epochs", str(epochs), "--json"]
    run = subprocess.run([build, *arguments], capture_output=True, text=True, env=os.environ | {"DAHL_CACHE": cache})
    if run.returncode != 0:
        sys.exit(f"{build} {' '.join(arguments)} failed: {run.stderr.strip()}")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return statistics.harmonic_mean([line["images_per_s"] for line in lines if "images_per_s" in line])


def named(workers):
    return f"{workers} worker" + (" " if workers == 1 else "s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a dahl command")
    parser.add_argument("new", help="the one that is compared with it")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--models", nargs="+", choices=RUNS, default=list(RUNS))
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds is at least 1")

    cases = [(model, workers) for model in args.models for workers in WORKERS]
    ratios = {case: [] for case in cases}
    # What either has measured must not choose plans for the other.
    with tempfile.TemporaryDirectory() as caches:
        for turn in range(args.rounds):
            for case in cases:
                builds = [args.old, args.new]
                order = (0, 1) if turn % 2 == 0 else (1, 0)
                speed = {i: images_per_s(builds[i], *case, os.path.join(caches, str(i))) for i in order}
                ratios[case].append(speed[1] / speed[0])
            print(f"\rround {turn + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    medians = {case: statistics.median(ratios[case]) for case in cases}
    for (model, workers), median in medians.items():
        quartiles = statistics.quantiles(ratios[model, workers], n=4) if args.rounds > 1 else [median] * 3
        print(f"{model:8} {named(workers)}  {median:.3f}  (half of the rounds from {quartiles[0]:.3f} to {quartiles[2]:.3f})")
    mean = math.exp(statistics.fmean(math.log(median) for median in medians.values()))
    lowest = min(medians, key=medians.get)
    print(f"mean {mean:.3f}, lowest {medians[lowest]:.3f} ({lowest[0]}, {named(lowest[1]).strip()})")
    if mean < LEAST_MEAN or medians[lowest] < LEAST:
        sys.exit(f"slower: a mean of at least {LEAST_MEAN} and a lowest of at least {LEAST} were expected")


if __name__ == "__main__":
    main()
