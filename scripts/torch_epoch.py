#!/usr/bin/env python3
"""Trains a built-in model in float32 with PyTorch and prints accuracy and speed as JSON: the figures dahl is compared with.

For a seed, initial weights and the order of images are dahl's for that seed. All data are converted to float32 and lie in
memory beforehand, and the order of images is drawn beforehand, which favours PyTorch. The clock runs over the whole training
loop: gathering each batch, forward, backward and update; loading and testing are not included. A few steps on another model
come first, so that nothing is measured that happens only once per process. The last batch of an epoch may be smaller than
the others.

Needs torch and numpy.
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional

import datasets
import models
import random_stream

MODES = ("eager", "channels-last")
WARM_UP_STEPS = 50
TEST_BATCH = 1000


def tensors(split, mode):
    """Images in 0..1 and labels of a split, laid out for `mode`."""
    images = torch.tensor(split[0]).float() / 255
    if mode == "channels-last":
        images = images.contiguous(memory_format=torch.channels_last)
    return images, torch.tensor(split[1]).long()


def fit(model, images, labels, epochs, settings):
    """Trains `model` on batches of indices; returns the seconds and the mean loss of the last epoch."""
    optimiser = models.optimiser(model, settings)
    start = time.perf_counter()
    for batches in epochs:
        total, n_images = torch.zeros(()), 0
        for chosen in batches:
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(images[chosen]), labels[chosen])
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(chosen)
            n_images += len(chosen)
    return time.perf_counter() - start, total.item() / n_images


def accuracy(model, images, labels):
    """The share of images that `model` labels correctly."""
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in zip(images.split(TEST_BATCH), labels.split(TEST_BATCH), strict=True):
            correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(images)


def run(data, mode, lr, seed, arguments):
    """One training from scratch; returns its figures."""
    images, labels = tensors(data["train"], mode)
    settings = vars(arguments) | {"lr": lr}

    def fresh():
        # PyTorch's own dropout: nothing depends on single coins here.
        model = models.build(arguments.model, images.shape[1:], data["classes"], lambda _, p: nn.Dropout(p))
        model = models.initialise(model, seed)
        return model.to(memory_format=torch.channels_last) if mode == "channels-last" else model

    orders = [random_stream.epoch_order(seed, epoch, len(images)) for epoch in range(1, arguments.epochs + 1)]
    epochs = [torch.tensor(order).split(arguments.batch) for order in orders]
    torch.manual_seed(seed)
    fit(fresh(), images, labels, [epochs[0][:WARM_UP_STEPS]], settings)
    model = fresh()
    seconds, loss = fit(model, images, labels, epochs, settings)
    return {
        "mode": mode,
        "lr": lr,
        "seed": seed,
        "test_accuracy": accuracy(model, *tensors(data["test"], mode)),
        "train_loss": round(loss, 6),
        "seconds": round(seconds, 3),
        "images_per_s": round(arguments.epochs * len(images) / seconds),
    }


def main():
    """Runs every combination of mode, learning rate and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=models.MODELS, default="seed", help="built-in model (default: %(default)s)")
    parser.add_argument("--data", default="digits", help="data set, as for dahl (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the data (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="images per step (default: %(default)s)")
    parser.add_argument("--optimizer", choices=("sgd", "adam", "adamw"), default="sgd", help="default: %(default)s")
    parser.add_argument("--lr", type=float, nargs="+", required=True, help="learning rates")
    parser.add_argument("--momentum", type=float, default=0.0, help="of SGD (default: %(default)s)")
    parser.add_argument("--weight-decay", type=float, default=0.0, help="default: %(default)s")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="seeds of weights and order (default: 1 2 3)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["eager"], help="memory layouts (default: eager)")
    parser.add_argument("--threads", type=int, default=2, help="threads of PyTorch (default: %(default)s)")
    arguments = parser.parse_args()
    for name in ("epochs", "batch", "threads"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")

    torch.set_num_threads(arguments.threads)
    data = datasets.load(arguments.data)
    runs = [
        run(data, mode, lr, seed, arguments) for mode in arguments.modes for lr in arguments.lr for seed in arguments.seeds
    ]
    accuracies = [run["test_accuracy"] for run in runs]
    report = {
        "model": arguments.model,
        "data": data["name"],
        "element": "f32",
        "optimizer": arguments.optimizer,
        "momentum": arguments.momentum,
        "weight_decay": arguments.weight_decay,
        "batch": arguments.batch,
        "epochs": arguments.epochs,
        "threads": arguments.threads,
        "torch": torch.__version__,
        "mean_test_accuracy": round(sum(accuracies) / len(accuracies), 6),
        "runs": runs,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
