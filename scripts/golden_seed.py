#!/usr/bin/env python3
"""Trains the model `seed` in float64 with PyTorch and writes every number that dahl must reproduce.

Without --data it uses the built-in digits and makes crates/dahl/tests/golden/seed_digits_f64.safetensors; with an IDX folder
it makes the same for a long check. Pixels are divided by 255 and nothing else; the loss is the mean softmax cross-entropy;
the optimiser is plain SGD. Tensors in the file (float64 unless noted):

    init.<p>    parameters at the start, <p> being conv1.weight, conv1.bias, fc1.weight and fc1.bias
    lr          the learning rate, one element
    indices     int64 (steps, batch): the images of each step, as indices into the train split
    logits      (batch, classes) of the first step
    grad.<p>    gradients of the first step
    losses      (steps): the loss of each step, before its update
    final.<p>   parameters after the last step

One thread and deterministic algorithms make a run repeat itself to the last bit with the same PyTorch on the same kind of CPU;
others may round differently, far below the tolerance of any comparison.

Needs torch, numpy and safetensors.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn import functional

import datasets
from seed_model import seed_model

GOLDEN = datasets.ROOT / "crates/dahl/tests/golden/seed_digits_f64.safetensors"


def batches(n_images, n_steps, batch, generator):
    """Indices (n_steps, batch) cut from random permutations; what a permutation has left over is dropped."""
    per_epoch = n_images // batch
    n_epochs = -(-n_steps // per_epoch)
    epochs = [torch.randperm(n_images, generator=generator)[: per_epoch * batch] for _ in range(n_epochs)]
    return torch.cat(epochs).reshape(-1, batch)[:n_steps].contiguous()


def train(data, n_steps, batch, lr, seed):
    """Trains from scratch; returns all tensors of the file and the accuracy on the test split."""
    images = torch.tensor(data["train"][0]).double() / 255
    labels = torch.tensor(data["train"][1]).long()
    generator = torch.Generator().manual_seed(seed)
    indices = batches(len(images), n_steps, batch, generator)
    torch.manual_seed(seed)
    model = seed_model(*images.shape[2:], data["classes"])
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)

    out = {"lr": torch.tensor([lr]), "indices": indices}
    out |= {f"init.{name}": value.detach().clone() for name, value in model.named_parameters()}
    losses = []
    for step, chosen in enumerate(indices):
        optimiser.zero_grad()
        logits = model(images[chosen])
        loss = functional.cross_entropy(logits, labels[chosen])
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            out["logits"] = logits.detach().clone()
            out |= {f"grad.{name}": value.grad.clone() for name, value in model.named_parameters()}
        optimiser.step()
    out["losses"] = torch.stack(losses)
    out |= {f"final.{name}": value.detach().clone() for name, value in model.named_parameters()}

    with torch.no_grad():
        predicted = model(torch.tensor(data["test"][0]).double() / 255).argmax(1)
    accuracy = (predicted == torch.tensor(data["test"][1])).double().mean().item()
    return out, accuracy


def main():
    """Trains and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of IDX files (default: the built-in digits)")
    parser.add_argument("--batch", type=int, default=60, help="images per step (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="training steps (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and batches (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="file to write (default: the golden file of the tests)")
    arguments = parser.parse_args()
    if arguments.data is not None and arguments.out is None:
        parser.error("with --data, also give --out: the golden file of the tests is for the digits")
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(torch.float64)
    data = datasets.load(arguments.data)
    n_images = len(data["train"][0])
    if not 1 <= arguments.batch <= n_images:
        parser.error(f"--batch must be from 1 to {n_images}, the images of {data['name']}")
    tensors, accuracy = train(data, arguments.steps, arguments.batch, arguments.lr, arguments.seed)

    out = arguments.out or GOLDEN
    out.parent.mkdir(parents=True, exist_ok=True)
    # A single entry, because the order of several is not fixed and the file would change from run to run.
    origin = {"model": "seed", "data": data["name"], "seed": arguments.seed, "torch": torch.__version__}
    save_file(tensors, out, metadata={"origin": json.dumps(origin)})
    losses = tensors["losses"]
    print(
        f"{out.name}: {out.stat().st_size} bytes, loss {losses[0]:.6f} -> {losses[-1]:.6f} in {len(losses)} steps, "
        f"test accuracy {accuracy:.4f}"
    )


if __name__ == "__main__":
    main()
