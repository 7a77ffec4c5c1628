"""The random numbers of dahl (crates/dahl/src/random.rs) in numpy, bit for bit.

Value `i` of stream `s` depends on the seed, `s` and `i` alone. From these come initial weights, the order of images, the coins
of dropout and synthetic data, so PyTorch can start from dahl's weights and see dahl's batches without any file between them.
"""

import numpy as np

# Streams of a run that are not a parameter's, as in crates/dahl/src/train.
DROPOUT_STREAM = 0xD0
LAST_STREAM = 2**64 - 1


class Stream:
    """Stream number `stream` of a seed."""

    def __init__(self, seed, stream):
        with np.errstate(over="ignore"):
            self.key = _mix(_mix(_words(seed)) + _words(stream))

    def bits(self, i):
        """The values at `i`, a whole number or an array of them: 64 uniform bits each."""
        return _mix(self.key ^ _mix(_words(i)))

    def uniform(self, i):
        """The values at `i` as numbers in 0..1, multiples of 2^-24."""
        return (self.bits(i) >> np.uint64(40)).astype(np.float64) / 2.0**24

    def below(self, n, i):
        """The values at `i` as whole numbers below `n` (at most 2^32), one number or one for each value."""
        bits, n = self.bits(i), _words(n)
        low, high = bits & np.uint64(2**32 - 1), bits >> np.uint64(32)
        return (high * n + (low * n >> np.uint64(32))) >> np.uint64(32)

    def permutation(self, n):
        """A permutation of the numbers below `n`."""
        order = list(range(n))
        places = np.arange(1, n)
        for i, j in zip(range(n - 1, 0, -1), self.below(places + 1, places)[::-1].tolist(), strict=True):
            order[i], order[j] = order[j], order[i]
        return np.array(order, np.int64)


def initial_weights(seed, number, shape, fan_in):
    """Initial values of parameter `number` of a model: uniform within 1/sqrt(fan_in) of 0, as numbers of float32."""
    uniform = Stream(seed, number).uniform(np.arange(int(np.prod(shape))))
    bound = 1.0 / np.sqrt(np.float64(max(fan_in, 1)))
    return ((2.0 * uniform - 1.0) * bound).astype(np.float32).reshape(shape)


def epoch_order(seed, epoch, n_images):
    """The order in which a run sees its images in an epoch (from 1)."""
    return Stream(seed, LAST_STREAM - epoch).permutation(n_images)


def dropout_counter(seed, step):
    """What the random counter of a run holds at a step (from 0)."""
    return int(Stream(seed, DROPOUT_STREAM).bits(step)) >> 32


def dropout_factors(layer, counter, p, shape):
    """What dropout multiplies an array with; layers with dropout are numbered from 0 within a model."""
    coins = Stream(layer, counter).bits(np.arange(int(np.prod(shape)))) >> np.uint64(40)
    threshold = np.uint64(np.ceil(p * 2.0**24))
    return np.where(coins < threshold, 0.0, 1.0 / (1.0 - p)).reshape(shape)


def _words(value):
    """Whole numbers as arrays of 64-bit words, on which arithmetic wraps around."""
    return np.array(value, np.uint64)


def _mix(value):
    """The bijection of 64-bit words that all numbers are made with."""
    with np.errstate(over="ignore"):
        z = value + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
