"""The general operations: element by element, reductions, linear algebra."""

import torch

from .calls import Operations, call

operation = Operations()

NAN, INFINITY = float("nan"), float("inf")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, INFINITY, -INFINITY, NAN]


def pairs():
    """Every pair of special values, as two vectors."""
    special = torch.tensor(SPECIAL, dtype=torch.float64)
    return special.repeat_interleave(len(SPECIAL)), special.repeat(len(SPECIAL))


def binary(name, function):
    """An operation on two arrays, element by element."""

    def calls(draw):
        a, b = draw(3, 4, 5), draw(3, 4, 5)
        yield call([a, b], [function(a, b)])
        a, b = pairs()
        yield call([a, b], [function(a, b)])

    calls.__name__ = name
    operation(calls)


binary("add", torch.add)
binary("sub", torch.sub)
binary("mul", torch.mul)
binary("div", torch.div)


@operation
def scale(draw):
    x = draw(4, 5)
    yield call([x], [x * -2.5], scalars=[-2.5])


@operation
def add_value(draw):
    x = draw(4, 5)
    yield call([x], [x + 0.7], scalars=[0.7])


@operation
def power(draw):
    special = torch.tensor(SPECIAL, dtype=torch.float64)
    for exponent in [0.0, 1.0, 2.0, 3.0, 7.0, -1.0, -2.0, -3.0]:
        x = torch.cat([draw(8, low=-2, high=2), special])
        yield call([x], [torch.pow(x, exponent)], scalars=[exponent])
    # PyTorch takes the square root for 0.5, which differs from C for minus infinity alone.
    for exponent in [0.5, 1.5, -0.3, 2.7, -1.9]:
        x = torch.cat([draw(8, low=0.1, high=5), torch.tensor([0.0, 1.0, -1.0, -2.5, INFINITY, NAN], dtype=torch.float64)])
        yield call([x], [torch.pow(x, exponent)], scalars=[exponent])


@operation
def clip(draw):
    x = torch.cat([draw(12), torch.tensor(SPECIAL, dtype=torch.float64)])
    for low, high in [(-0.4, 0.3), (0.5, 0.5), (0.6, -0.6), (-INFINITY, 0.0)]:
        yield call([x], [torch.clamp(x, low, high)], scalars=[low, high])


@operation
def round(draw):
    halves = torch.arange(-9, 10, dtype=torch.float64) / 2
    x = torch.cat([draw(9, low=-9, high=9), halves, torch.tensor([1e10 + 0.5, INFINITY, -INFINITY, NAN])])
    yield call([x], [torch.round(x)])


@operation
def fill(draw):
    yield call([], [torch.full((3, 4), 0.3, dtype=torch.float64)], scalars=[0.3])


@operation
def copy(draw):
    x = draw(3, 4)
    yield call([x], [x])


def reduction(name, whole, axis):
    """A reduction of everything and along each axis; one value of the arrays is NaN in a second call."""

    def calls_whole(draw):
        x = draw(3, 4, 5)
        yield call([x], [whole(x)])
        x[1, 2, 3] = NAN
        yield call([x], [whole(x)])

    def calls_axis(dim):
        def calls(draw):
            x = draw(2, 3, 4, 5)
            yield call([x], [axis(x, dim)])
            x[1, 2, 3, 4], x[0, 0, 0, 0] = NAN, INFINITY
            yield call([x], [axis(x, dim)])

        return calls

    calls_whole.__name__ = name
    operation(calls_whole)
    for dim in range(4):
        calls = calls_axis(dim)
        calls.__name__ = f"{name}_axis{dim}"
        operation(calls)


reduction("sum", torch.sum, torch.sum)
reduction("mean", torch.mean, torch.mean)
reduction("min", torch.min, torch.amin)
reduction("max", torch.max, torch.amax)


@operation
def matmul(draw):
    for i, k, j in [(3, 4, 5), (13, 7, 17)]:
        a, b = draw(i, k), draw(k, j)
        yield call([a, b], [a @ b])


@operation
def matmul_nt(draw):
    a, b = draw(9, 7), draw(17, 7)
    yield call([a, b], [a @ b.T])


@operation
def matmul_tn(draw):
    a, b = draw(7, 9), draw(7, 17)
    yield call([a, b], [a.T @ b])


@operation
def matmul_tt(draw):
    a, b = draw(7, 9), draw(17, 7)
    yield call([a, b], [a.T @ b.T])


@operation
def matvec(draw):
    a, x = draw(5, 7), draw(7)
    yield call([a, x], [torch.mv(a, x)])


@operation
def vecmat(draw):
    x, a = draw(7), draw(7, 5)
    yield call([x, a], [x @ a])


@operation
def outer(draw):
    x, y = draw(4), draw(6)
    yield call([x, y], [torch.outer(x, y)])


@operation
def dot(draw):
    x, y = draw(11), draw(11)
    yield call([x, y], [torch.dot(x, y)])


@operation
def transpose(draw):
    x = draw(4, 6)
    yield call([x], [x.T])


@operation
def diagonal(draw):
    x = draw(5, 5)
    yield call([x], [torch.diagonal(x)])
