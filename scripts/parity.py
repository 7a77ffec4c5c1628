#!/usr/bin/env python3
"""Trains with the command `dahl` what scripts/golden_models.py --out has trained with PyTorch, and compares.

Each case is trained from the same initial weights on the same batches, in f64 and in f32. Compared are

    f64  losses, relative, at most 1e-9 apart at any step
         logits and gradients of the first step, 1e-12 relative to the largest element of their tensor
         weights and running statistics at the end, 1e-8, likewise
         loss in evaluation mode, 1e-9, and accuracy, if `dahl eval` tells them
    f32  losses: at the step where dahl is farthest from PyTorch's f64, at most three times as far as PyTorch's own f32 is
         where that is farthest
         gradients of the first step, 1e-5 relative to the largest element of PyTorch's in f64

Prints a line per case and element type, and ends with exit code 1 if anything is farther apart.

Needs numpy and safetensors, and torch only to make what is compared with.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

LIMITS = {"losses": 1e-9, "logits": 1e-12, "gradients": 1e-12, "final": 1e-8, "test_loss": 1e-9, "test_accuracy": 0.0}
LIMIT_F32_GRADIENTS = 1e-5
LIMIT_F32_LOSSES = 3.0


def train(dahl, folder, dtype):
    """Runs `dahl train` for a case; returns the folder of its dump."""
    dump = folder / f"dahl_{dtype}"
    command = [dahl, "train", *json.loads((folder / "arguments.json").read_text()), "--dtype", dtype]
    command += ["--init", folder / "init.safetensors", "--batches", folder / "batches.safetensors", "--dump", dump]
    run(command)
    return dump


def evaluate(dahl, folder, dump):
    """What `dahl eval` says about the weights at the end, in f64."""
    words = json.loads((folder / "arguments.json").read_text())
    options = dict(zip(words[::2], words[1::2], strict=True))
    command = [dahl, "eval", dump / "final.safetensors", "--model", options["--model"], "--data", options["--data"]]
    return json.loads(run([*command, "--dtype", "f64", "--json"]).splitlines()[-1])


def run(command):
    """The output of a command that must not fail."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with code {done.returncode}:\n{done.stderr}")
    return done.stdout


def losses(dump):
    """The losses in a dump."""
    return np.array(json.loads((dump / "losses.json").read_text()))


def apart(ours, theirs):
    """The largest difference of tensors, relative to the largest element of each of `theirs`, and whose it is."""
    if ours.keys() != theirs.keys():
        raise SystemExit(f"dahl has tensors that PyTorch has not, or the other way round: {sorted(ours.keys() ^ theirs.keys())}")
    worst, where = 0.0, "none"
    for name, exact in theirs.items():
        if ours[name].shape != exact.shape:
            raise SystemExit(f"{name}: dahl's shape is {ours[name].shape}, PyTorch's is {exact.shape}")
        scale = max(np.abs(exact).max(), np.finfo(np.float64).tiny)
        distance = np.abs(ours[name].astype(np.float64) - exact).max() / scale
        # A NaN is far from anything, and nothing after it may hide it.
        if np.isnan(distance):
            return np.inf, name
        if distance > worst:
            worst, where = distance, name
    return worst, where


def gradients(dump):
    """The gradients of the first step."""
    return {name: value for name, value in load_file(dump / "step1.safetensors").items() if name.startswith("grad.")}


def compare_f64(folder, dump, evaluation):
    """What is compared in f64, as distances by name."""
    exact = folder / "f64"
    logits = [{"logits": load_file(place / "step1.safetensors")["logits"]} for place in (dump, exact)]
    tested = json.loads((exact / "evaluation.json").read_text())
    relative = abs(evaluation["test_loss"] - tested["test_loss"]) / tested["test_loss"]
    return {
        "losses": np.abs(losses(dump) / losses(exact) - 1.0).max(),
        "logits": apart(*logits)[0],
        "gradients": apart(gradients(dump), gradients(exact))[0],
        "final": apart(*(load_file(place / "final.safetensors") for place in (dump, exact)))[0],
        "test_loss": relative,
        "test_accuracy": abs(evaluation["test_accuracy"] - tested["test_accuracy"]),
    }


def compare_f32(folder, dump):
    """What is compared in f32, as distances by name."""
    exact = losses(folder / "f64")
    return {
        "losses": np.abs(losses(dump) - exact).max(),
        "losses of PyTorch": np.abs(losses(folder / "f32") - exact).max(),
        "gradients": apart(gradients(dump), gradients(folder / "f64"))[0],
        "gradients of PyTorch": apart(gradients(folder / "f32"), gradients(folder / "f64"))[0],
    }


def main():
    """Trains and compares every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what scripts/golden_models.py was given as --out")
    parser.add_argument("--dahl", type=Path, default="target/release/dahl", help="the command (default: %(default)s)")
    parser.add_argument("--cases", nargs="+", help="which cases (default: all that are there)")
    arguments = parser.parse_args()
    names = arguments.cases or sorted(path.parent.name for path in arguments.folder.glob("*/arguments.json"))
    if not names:
        parser.error(f"{arguments.folder} holds no cases; make them with scripts/golden_models.py --out {arguments.folder}")

    failures = []

    def report(case, distances, too_far):
        figures = ", ".join(f"{name} {distance:.1e}" for name, distance in distances.items())
        print(f"{case}: {figures}{' <- too far apart: ' + ', '.join(too_far) if too_far else ''}", flush=True)
        failures.extend(too_far)

    for name in names:
        folder = arguments.folder / name
        dump = train(arguments.dahl, folder, "f64")
        distances = compare_f64(folder, dump, evaluate(arguments.dahl, folder, dump))
        report(f"{name} f64", distances, [part for part, limit in LIMITS.items() if not distances[part] <= limit])

        distances = compare_f32(folder, train(arguments.dahl, folder, "f32"))
        near = {
            "losses": distances["losses"] <= LIMIT_F32_LOSSES * distances["losses of PyTorch"],
            "gradients": distances["gradients"] <= LIMIT_F32_GRADIENTS,
        }
        report(f"{name} f32", distances, [part for part, is_near in near.items() if not is_near])
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
