"""The model `seed` in PyTorch: convolution 1 -> 8 of 3 x 3 without padding, ReLU, max pooling by 2, dense.

Parameters are named as in dahl, and the default initialisation of PyTorch is used.
"""

from collections import OrderedDict

from torch import nn

CHANNELS = 8
KERNEL = 3
POOL = 2


def seed_model(height, width, classes):
    """A fresh `seed` for images of one channel; it maps (n, 1, height, width) to logits (n, classes)."""
    pooled_height = (height - KERNEL + 1) // POOL
    pooled_width = (width - KERNEL + 1) // POOL
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, CHANNELS, KERNEL),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(POOL),
            flatten=nn.Flatten(),
            fc1=nn.Linear(CHANNELS * pooled_height * pooled_width, classes),
        )
    )
