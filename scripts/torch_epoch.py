#!/usr/bin/env python3
"""Trains the model `seed` in float32 with PyTorch and prints accuracy and speed as JSON: the figures dahl is compared with.

All data are converted to float32 and lie in memory beforehand, which favours PyTorch. The clock runs over the whole training
loop: gathering each batch, forward, backward and update; shuffling is included, loading and testing are not. A few steps on
another model come first, so that nothing is measured that happens only once per process. The last batch of an epoch may be
smaller than the others.

Needs torch and numpy.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch.nn import functional

import datasets
from seed_model import seed_model

MODES = ("eager", "channels-last")
WARM_UP_IMAGES = 64 * 50
TEST_BATCH = 1000


def tensors(split, mode):
    """Images in 0..1 and labels of a split, laid out for `mode`."""
    images = torch.tensor(split[0]).float() / 255
    if mode == "channels-last":
        images = images.contiguous(memory_format=torch.channels_last)
    return images, torch.tensor(split[1]).long()


def fit(model, images, labels, batch, lr, n_epochs, generator):
    """Trains `model`; returns the seconds and the mean loss of the last epoch."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    start = time.perf_counter()
    for _ in range(n_epochs):
        total = torch.zeros(())
        for chosen in torch.randperm(len(images), generator=generator).split(batch):
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(images[chosen]), labels[chosen])
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(chosen)
    return time.perf_counter() - start, total.item() / len(images)


def accuracy(model, images, labels):
    """The share of images that `model` labels correctly."""
    correct = 0
    with torch.no_grad():
        for x, y in zip(images.split(TEST_BATCH), labels.split(TEST_BATCH), strict=True):
            correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(images)


def run(data, mode, lr, seed, arguments):
    """One training from scratch; returns its figures."""
    images, labels = tensors(data["train"], mode)

    def fresh():
        model = seed_model(*images.shape[2:], data["classes"])
        return model.to(memory_format=torch.channels_last) if mode == "channels-last" else model

    torch.manual_seed(seed)
    model = fresh()
    generator = torch.Generator().manual_seed(seed)
    fit(fresh(), images[:WARM_UP_IMAGES], labels[:WARM_UP_IMAGES], arguments.batch, lr, 1, torch.Generator())
    seconds, loss = fit(model, images, labels, arguments.batch, lr, arguments.epochs, generator)
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
    parser.add_argument("--data", type=Path, help="folder of IDX files (default: the built-in digits)")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the data (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="images per step (default: %(default)s)")
    parser.add_argument("--lr", type=float, nargs="+", required=True, help="learning rates")
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
    report = {
        "model": "seed",
        "data": data["name"],
        "element": "f32",
        "batch": arguments.batch,
        "epochs": arguments.epochs,
        "threads": arguments.threads,
        "torch": torch.__version__,
        "runs": runs,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
