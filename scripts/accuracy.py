#!/usr/bin/env python3
"""Trains a built-in model with PyTorch and with the command `dahl`, with the same settings, and compares test accuracies.

For a seed, both start from the same weights and see the images in the same order, in float32. Rounding makes them part
within some hundred steps, so single accuracies differ as those of two seeds do; the means over the seeds must be within half
a point. Prints a line of JSON per run and one per batch size, and ends with exit code 1 if means are farther apart.

Needs torch and numpy.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

import datasets
import models
from parity import run
from torch_epoch import run as run_torch

LIMIT = 0.005


def run_dahl(command, seed, arguments):
    """The test accuracy after the last epoch of one training with dahl."""
    options = {"model": arguments.model, "data": arguments.data, "epochs": arguments.epochs, "batch": arguments.batch, "seed": seed}
    options |= {"optimizer": arguments.optimizer, "lr": arguments.lr, "weight-decay": arguments.weight_decay}
    if arguments.optimizer == "sgd":
        options["momentum"] = arguments.momentum
    lines = run([command, "train", *(word for name, value in options.items() for word in (f"--{name}", value)), "--json"])
    epochs = [line for line in map(json.loads, lines.splitlines()) if "epoch" in line and "test_accuracy" in line]
    return epochs[-1]["test_accuracy"]


def main():
    """Trains every seed at every batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dahl", type=Path, default="target/release/dahl", help="the command (default: %(default)s)")
    parser.add_argument("--model", choices=models.MODELS, default="lenet5", help="built-in model (default: %(default)s)")
    parser.add_argument("--data", default="digits", help="data set, as for dahl (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the data (default: %(default)s)")
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 97], help="images per step (default: 100 97)")
    parser.add_argument("--optimizer", choices=("sgd", "adam", "adamw"), default="sgd", help="default: %(default)s")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate (default: %(default)s)")
    parser.add_argument("--momentum", type=float, default=0.9, help="of SGD (default: %(default)s)")
    parser.add_argument("--weight-decay", type=float, default=0.0, help="default: %(default)s")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6], help="default: 1 2 3 4 5 6")
    arguments = parser.parse_args()

    torch.set_num_threads(2)
    data = datasets.load(arguments.data)
    is_near = True
    for arguments.batch in arguments.batches:
        pairs = []
        for seed in arguments.seeds:
            theirs = run_torch(data, "eager", arguments.lr, seed, arguments)["test_accuracy"]
            pairs.append((theirs, run_dahl(arguments.dahl, seed, arguments)))
            print(json.dumps({"batch": arguments.batch, "seed": seed, "torch": theirs, "dahl": pairs[-1][1]}), flush=True)
        theirs, ours = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
        is_near = is_near and abs(theirs - ours) <= LIMIT
        print(json.dumps({"batch": arguments.batch, "mean torch": round(theirs, 5), "mean dahl": round(ours, 5)}), flush=True)
    sys.exit(0 if is_near else 1)


if __name__ == "__main__":
    main()
