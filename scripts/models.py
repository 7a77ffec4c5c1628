"""The built-in models of dahl in PyTorch, with the same names of parameters and, for a seed, the same initial weights."""

from collections import OrderedDict

import numpy as np
import torch
from torch import nn

import random_stream


class CountedDropout(nn.Module):
    """Dropout with dahl's coins, which follow from the layer, the counter of the step and the index of each element."""

    def __init__(self, layer, p):
        super().__init__()
        self.layer, self.p, self.counter = layer, p, 0

    def forward(self, x):
        """`x` times its factors when training, `x` otherwise."""
        if not self.training:
            return x
        factors = random_stream.dropout_factors(self.layer, self.counter, self.p, x.shape)
        return x * torch.tensor(factors).to(x.dtype)


class Residual(nn.Module):
    """The sum of a body and a shortcut, without a shortcut of the input itself. The body's layers are named directly."""

    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body = [name for name, _ in body]
        for name, layer in body:
            self.add_module(name, layer)
        if shortcut is not None:
            self.add_module("shortcut", nn.Sequential(OrderedDict(shortcut)))

    def forward(self, x):
        """The sum."""
        y = x
        for name in self.body:
            y = getattr(self, name)(y)
        return y + (self.shortcut(x) if hasattr(self, "shortcut") else x)


def seed(channels):
    """The small network that dahl was started with."""
    return [("conv1", nn.Conv2d(channels, 8, 3)), ("relu1", nn.ReLU()), ("pool1", nn.MaxPool2d(2))], []


def lenet5(channels):
    """LeNet-5 with ReLU and maxima."""
    features = [
        ("conv1", nn.Conv2d(channels, 6, 5, padding=2)),
        ("relu1", nn.ReLU()),
        ("pool1", nn.MaxPool2d(2)),
        ("conv2", nn.Conv2d(6, 16, 5)),
        ("relu2", nn.ReLU()),
        ("pool2", nn.MaxPool2d(2)),
    ]
    return features, [120, 84]


def vggish(channels):
    """Three blocks of two convolutions and a maximum."""
    features = []
    for block, filters in enumerate([32, 64, 128]):
        for number in (2 * block + 1, 2 * block + 2):
            features.append((f"conv{number}", nn.Conv2d(channels, filters, 3, padding=1)))
            features.append((f"relu{number}", nn.ReLU()))
            channels = filters
        features.append((f"pool{block + 1}", nn.MaxPool2d(2)))
    return features, [256]


def resnet8(channels):
    """Three residual blocks with batch normalisation, then the mean of each channel."""
    features = [("conv1", nn.Conv2d(channels, 16, 3, padding=1, bias=False)), ("bn1", nn.BatchNorm2d(16)), ("relu1", nn.ReLU())]
    channels = 16
    for block, (filters, stride) in enumerate([(16, 1), (32, 2), (64, 2)], start=1):
        body = [
            ("conv1", nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False)),
            ("bn1", nn.BatchNorm2d(filters)),
            ("relu1", nn.ReLU()),
            ("conv2", nn.Conv2d(filters, filters, 3, padding=1, bias=False)),
            ("bn2", nn.BatchNorm2d(filters)),
        ]
        shortcut = [("conv1", nn.Conv2d(channels, filters, 1, stride, bias=False)), ("bn1", nn.BatchNorm2d(filters))]
        has_same_shape = (channels, stride) == (filters, 1)
        features.append((f"block{block}", Residual(body, None if has_same_shape else shortcut)))
        features.append((f"relu{block + 1}", nn.ReLU()))
        channels = filters
    return features + [("pool1", nn.AdaptiveAvgPool2d(1))], []


def mlp(channels):
    """Two wide dense layers with dropout."""
    return [], [512, 512]


MODELS = {model.__name__: model for model in (seed, lenet5, vggish, resnet8, mlp)}
DROPOUT = {"mlp": 0.2}


def build(name, shape, classes, dropout=CountedDropout):
    """A built-in model for images of `shape` (channels, height, width), in the default dtype of PyTorch.

    It is a convolutional part, then dense layers with ReLU between them. `dropout` makes a layer from its number and its
    probability.
    """
    features, widths = MODELS[name](shape[0])
    with torch.no_grad():
        n_inputs = nn.Sequential(OrderedDict(features)).eval()(torch.zeros(1, *shape)).numel()
    n_relus = sum(isinstance(layer, nn.ReLU) for _, layer in features)
    layers = features + [("flatten", nn.Flatten())]
    for i, width in enumerate(widths):
        layers += [(f"fc{i + 1}", nn.Linear(n_inputs, width)), (f"relu{n_relus + i + 1}", nn.ReLU())]
        if name in DROPOUT:
            layers.append((f"dropout{i + 1}", dropout(i, DROPOUT[name])))
        n_inputs = width
    layers.append((f"fc{len(widths) + 1}", nn.Linear(n_inputs, classes)))
    return nn.Sequential(OrderedDict(layers)).train()


def optimiser(model, settings):
    """The optimiser that `settings` (optimizer, lr, momentum and weight_decay) ask for, as dahl's options of these names do."""
    if settings["optimizer"] == "sgd":
        return torch.optim.SGD(
            model.parameters(), lr=settings["lr"], momentum=settings["momentum"], weight_decay=settings["weight_decay"]
        )
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings["optimizer"]]
    return kind(model.parameters(), lr=settings["lr"], weight_decay=settings["weight_decay"])


def initialise(model, seed):
    """Gives `model` the weights that dahl draws for a seed. PyTorch draws from the same distribution by default."""
    fan_in = 0
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.dim() > 1:
                fan_in = int(np.prod(parameter.shape[1:]))
            if _is_normalisation(name):
                parameter.fill_(1.0 if name.endswith(".weight") else 0.0)
            else:
                # A bias comes after its weights and has the same range.
                parameter.copy_(torch.tensor(random_stream.initial_weights(seed, number, tuple(parameter.shape), fan_in)))
    return model


def _is_normalisation(name):
    return name.split(".")[-2].startswith("bn")


def set_dropout_counter(model, counter):
    """Sets the counter of the step in every layer with dropout."""
    for layer in model.modules():
        if isinstance(layer, CountedDropout):
            layer.counter = counter


def state(model):
    """Parameters and running statistics by name. How many batches PyTorch has seen is not among them."""
    return {name: value.detach().clone() for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}
