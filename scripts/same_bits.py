#!/usr/bin/env python3
"""Trains by two builds of dahl and compares what they leave behind, bit by bit.

    scripts/same_bits.py OLD NEW

Five built-in models, f32 and f64, batches of 1, 17 and 64, one epoch of 1,000 images: weights after it, and logits, loss
and gradients of the first step. Plan files are compared too. It prints a line per case and fails if anything differs.
"""

import argparse
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile

MODELS, DTYPES, BATCHES, IMAGES = ["seed", "mlp", "lenet5", "vggish", "resnet8"], ["f32", "f64"], [1, 17, 64], 1000


def left_behind(build, model, dtype, batch):
    """The hashes of weights, first step and plan file."""
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "plan")
        arguments = ["train", "--model", model, "--data", f"synthetic:1x28x28x10:{IMAGES}", "--dtype", dtype]
        arguments += ["--batch", str(batch), "--workers", "2", "--lr", "0.01", "--dump", folder, "--save-plan", plan]
        environment = os.environ | {"DAHL_CACHE": os.path.join(folder, "cache")}
        run = subprocess.run([build, *arguments], capture_output=True, text=True, env=environment)
        if run.returncode != 0:
            sys.exit(f"{build} {' '.join(arguments)} failed: {run.stderr.strip()}")
        names = ["final.safetensors", "step1.safetensors", "plan"]
        files = [open(os.path.join(folder, name), "rb").read() for name in names]
        return [hashlib.sha256(file).hexdigest()[:12] for file in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a dahl command")
    parser.add_argument("new", help="the one that is compared with it")
    args = parser.parse_args()

    cases = list(itertools.product(MODELS, DTYPES, BATCHES))
    n_same = 0
    for model, dtype, batch in cases:
        old, new = (left_behind(build, model, dtype, batch) for build in (args.old, args.new))
        n_same += old == new
        what = zip(("weights", "first step", "plan"), old, new)
        words = [f"{name} {a}" if a == b else f"{name} {a} NOT {b}" for name, a, b in what]
        print(f"{model:8} {dtype} {batch:3}  {', '.join(words)}", flush=True)
    print(f"{n_same} of {len(cases)} the same")
    if n_same < len(cases):
        sys.exit(1)


if __name__ == "__main__":
    main()
