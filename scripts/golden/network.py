"""The operations of neural networks."""

import torch
from torch.nn import functional

from .calls import Operations, call, gradients

operation = Operations()

# Stride, padding and window size, on images of 2 x 3 x 7 x 6.
WINDOWS = [(1, 0, 3), (2, 1, 3), (2, 0, 2)]


@operation
def relu(draw):
    x = draw(4, 5)
    x[0, 0], x[1, 1] = 0.0, float("nan")
    yield call([x], [functional.relu(x)])


@operation
def relu_backward(draw):
    x, dy = draw(4, 5).requires_grad_(), draw(4, 5)
    y = functional.relu(x)
    yield call([y, dy], gradients(y, [x], dy))


@operation
def dense(draw):
    x, w, b = draw(5, 7), draw(3, 7), draw(3)
    yield call([x, w, b], [functional.linear(x, w, b)])


@operation
def dense_dx(draw):
    x, w, dy = draw(5, 7).requires_grad_(), draw(3, 7), draw(5, 3)
    yield call([dy, w], gradients(functional.linear(x, w), [x], dy))


@operation
def dense_dw(draw):
    x, w, dy = draw(5, 7), draw(3, 7).requires_grad_(), draw(5, 3)
    yield call([x, dy], gradients(functional.linear(x, w), [w], dy))


@operation
def dense_db(draw):
    x, w, b, dy = draw(5, 7), draw(3, 7), draw(3).requires_grad_(), draw(5, 3)
    yield call([dy], gradients(functional.linear(x, w, b), [b], dy))


@operation
def conv2d(draw):
    for stride, pad, size in WINDOWS:
        x, w, b = draw(2, 3, 7, 6), draw(4, 3, size, size), draw(4)
        yield call([x, w, b], [functional.conv2d(x, w, b, stride, pad)], ints=[stride, pad])


@operation
def conv2d_relu(draw):
    for stride, pad, size in WINDOWS:
        x, w, b = draw(2, 3, 7, 6), draw(4, 3, size, size), draw(4)
        y = functional.relu(functional.conv2d(x, w, b, stride, pad))
        yield call([x, w, b], [y], ints=[stride, pad])


@operation
def relu_conv2d_dx(draw):
    for stride, pad, size in WINDOWS:
        x, w = draw(2, 3, 7, 6).requires_grad_(), draw(4, 3, size, size)
        rectified = functional.relu(x)
        y = functional.conv2d(rectified, w, None, stride, pad)
        dy = draw(*y.shape)
        yield call([dy, w, rectified], gradients(y, [x], dy), ints=[stride, pad])


@operation
def conv2d_dw(draw):
    for stride, pad, size in WINDOWS:
        x, w = draw(2, 3, 7, 6), draw(4, 3, size, size).requires_grad_()
        y = functional.conv2d(x, w, None, stride, pad)
        dy = draw(*y.shape)
        yield call([x, dy], gradients(y, [w], dy), ints=[stride, pad])


@operation
def channel_sum(draw):
    dy = draw(3, 4, 2, 5)
    yield call([dy], [dy.sum((0, 2, 3))])


def places(indices, stride, pad, size, width):
    """Places in windows from places in images, which is what PyTorch gives."""
    oy = torch.arange(indices.shape[2]).reshape(-1, 1)
    ox = torch.arange(indices.shape[3])
    ky = indices // width - oy * stride + pad
    kx = indices % width - ox * stride + pad
    return (ky * size + kx).to(torch.uint8)


@operation
def max_pool(draw):
    for stride, pad, size in WINDOWS:
        # Few values, so that there are ties.
        x = draw.below(4, 2, 3, 7, 6).double()
        y, indices = functional.max_pool2d(x, size, stride, pad, return_indices=True)
        yield call([x], [y, places(indices, stride, pad, size, 6)], ints=[stride, pad, size])


@operation
def max_pool_backward(draw):
    for stride, pad, size in WINDOWS:
        x = draw(2, 3, 7, 6).requires_grad_()
        y, indices = functional.max_pool2d(x, size, stride, pad, return_indices=True)
        dy = draw(*y.shape)
        arg = places(indices, stride, pad, size, 6)
        yield call([arg, dy], gradients(y, [x], dy), ints=[stride, pad, size])


# Stride, padding and size of kernels, then stride and size of pools, on images of 2 x 3 x 9 x 8.
FUSED_WINDOWS = [(1, 0, 3, 2, 2), (1, 2, 5, 2, 2), (2, 1, 3, 3, 2), (1, 1, 2, 1, 3)]


def fused(draw, stride, pad, size, pool_stride, pool):
    """A convolution with pool and rectifier: arguments, result, and places of the maxima that have a gradient."""
    x, w, b = draw(2, 3, 9, 8), draw(4, 3, size, size).requires_grad_(), draw(4).requires_grad_()
    conv = functional.conv2d(x, w, b, stride, pad)
    y, indices = functional.max_pool2d(conv, pool, pool_stride, return_indices=True)
    y = functional.relu(y)
    arg = places(indices, pool_stride, 0, pool, conv.shape[3])
    arg[y == 0] = pool * pool
    return x, w, b, y, arg


@operation
def conv2d_relu_max_pool(draw):
    for stride, pad, size, pool_stride, pool in FUSED_WINDOWS:
        x, w, b, y, arg = fused(draw, stride, pad, size, pool_stride, pool)
        yield call([x, w, b], [y, arg], ints=[stride, pad, pool_stride, pool])


@operation
def conv2d_relu_max_pool_dw(draw):
    for stride, pad, size, pool_stride, pool in FUSED_WINDOWS:
        x, w, b, y, arg = fused(draw, stride, pad, size, pool_stride, pool)
        dy = draw(*y.shape)
        yield call([x, dy, arg], gradients(y, [w, b], dy), ints=[stride, pad, pool_stride, pool])


@operation
def softmax_ce(draw):
    logits, labels = draw(6, 4, low=-5, high=5).requires_grad_(), draw.below(4, 6)
    loss = functional.cross_entropy(logits, labels.long())
    correct = (logits.argmax(1) == labels.long()).sum()
    (dlogits,) = gradients(loss, [logits], torch.tensor(1.0, dtype=torch.float64))
    yield call([logits, labels], [loss, correct, dlogits])


@operation
def sgd(draw):
    p, g = draw(9).requires_grad_(), draw(9)
    before, p.grad = p.detach().clone(), g
    torch.optim.SGD([p], lr=0.1).step()
    yield call([g, torch.tensor(0.1, dtype=torch.float64)], [p], before=[before])


@operation
def load(draw):
    images, index = draw.below(256, 5, 1, 3, 2), draw.below(5, 7, dtype=torch.uint32)
    yield call([images, index], [images[index.long()].double() / 255], scalars=[255.0])


@operation
def load_labels(draw):
    labels, index = draw.below(10, 5), draw.below(5, 7, dtype=torch.uint32)
    yield call([labels, index], [labels[index.long()]])


@operation
def conv2d_dx(draw):
    for stride, pad, size in WINDOWS:
        x, w = draw(2, 3, 7, 6).requires_grad_(), draw(4, 3, size, size)
        y = functional.conv2d(x, w, None, stride, pad)
        dy = draw(*y.shape)
        yield call([dy, w], gradients(y, [x], dy), ints=[stride, pad])


@operation
def avg_pool(draw):
    for stride, pad, size in WINDOWS:
        x = draw(2, 3, 7, 6)
        yield call([x], [functional.avg_pool2d(x, size, stride, pad)], ints=[stride, pad, size])


@operation
def avg_pool_backward(draw):
    for stride, pad, size in WINDOWS:
        x = draw(2, 3, 7, 6).requires_grad_()
        y = functional.avg_pool2d(x, size, stride, pad)
        dy = draw(*y.shape)
        yield call([dy], gradients(y, [x], dy), ints=[stride, pad, size])


@operation
def relu_mask(draw):
    x = draw(4, 5)
    x[0, 0], x[1, 1] = 0.0, float("nan")
    yield call([x], [functional.relu(x), (x > 0).to(torch.uint8)])


@operation
def relu_mask_backward(draw):
    x, dy = draw(4, 5).requires_grad_(), draw(4, 5)
    yield call([(x > 0).to(torch.uint8), dy], gradients(functional.relu(x), [x], dy))


@operation
def softmax(draw):
    x = draw(6, 5, low=-20, high=20)
    yield call([x], [functional.softmax(x, 1)])


@operation
def softmax_backward(draw):
    x, dy = draw(6, 5, low=-3, high=3).requires_grad_(), draw(6, 5)
    y = functional.softmax(x, 1)
    yield call([y, dy], gradients(y, [x], dy))


def mean_cross_entropy(p, labels):
    """From probabilities rather than from logits, of which PyTorch has the cross-entropy."""
    return functional.nll_loss(p.log(), labels.long())


@operation
def cross_entropy(draw):
    p, labels = functional.softmax(draw(6, 4), 1), draw.below(4, 6)
    yield call([p, labels], [mean_cross_entropy(p, labels)])


@operation
def cross_entropy_backward(draw):
    p, labels = functional.softmax(draw(6, 4), 1).requires_grad_(), draw.below(4, 6)
    one = torch.tensor(1.0, dtype=torch.float64)
    yield call([p, labels], gradients(mean_cross_entropy(p, labels), [p], one))


@operation
def argmax(draw):
    # Few values, so that there are ties.
    x = draw.below(4, 9, 5).double()
    x[2, 3] = float("nan")
    yield call([x], [x.argmax(1).to(torch.uint32)])


@operation
def accuracy(draw):
    x, labels = draw.below(4, 9, 5).double(), draw.below(5, 9)
    yield call([x, labels], [(x.argmax(1) == labels.long()).sum()])


CHANNELS = (0, 2, 3)
EPS = 1e-5


def statistics(x):
    """Mean and biased variance per channel."""
    return x.mean(CHANNELS), x.var(CHANNELS, unbiased=False)


@operation
def batch_norm_mean(draw):
    x = draw(4, 3, 2, 5)
    yield call([x], [statistics(x)[0]])


@operation
def batch_norm_square_sum(draw):
    x = draw(4, 3, 2, 5)
    mean, var = statistics(x)
    yield call([x, mean], [var])


@operation
def batch_norm_normalise(draw):
    x, gamma, beta = draw(4, 3, 2, 5), draw(3), draw(3)
    out = functional.batch_norm(x, None, None, gamma, beta, training=True, eps=EPS)
    yield call([x, *statistics(x), gamma, beta], [out], scalars=[EPS])


@operation
def batch_norm_running(draw):
    x, momentum = draw(4, 3, 2, 5), 0.1
    before = [draw(3), draw(3, low=0.5, high=2)]
    after = [statistic.clone() for statistic in before]
    functional.batch_norm(x, *after, training=True, momentum=momentum, eps=EPS)
    yield call([*statistics(x)], after, before=before, scalars=[momentum, x.numel() / 3])


@operation
def batch_norm_inference(draw):
    x, mean, var, gamma, beta = draw(4, 3, 2, 5), draw(3), draw(3, low=0.5, high=2), draw(3), draw(3)
    out = functional.batch_norm(x, mean, var, gamma, beta, training=False, eps=EPS)
    yield call([x, mean, var, gamma, beta], [out], scalars=[EPS])


def batch_norm_gradients(draw):
    """An input, a gradient of the output, gamma, and the gradients of input, gamma and beta."""
    x, dy, gamma, beta = draw(4, 3, 2, 5).requires_grad_(), draw(4, 3, 2, 5), draw(3).requires_grad_(), draw(3).requires_grad_()
    out = functional.batch_norm(x, None, None, gamma, beta, training=True, eps=EPS)
    return x, dy, gamma, gradients(out, [x, gamma, beta], dy)


@operation
def batch_norm_backward_sums(draw):
    x, dy, _, (_, dgamma, dbeta) = batch_norm_gradients(draw)
    yield call([x, dy, *statistics(x)], [dgamma, dbeta], scalars=[EPS])


@operation
def batch_norm_dx(draw):
    x, dy, gamma, (dx, dgamma, dbeta) = batch_norm_gradients(draw)
    yield call([x, dy, *statistics(x), gamma, dgamma, dbeta], [dx], scalars=[EPS])


def mix(value):
    """The finaliser of SplitMix64."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def coins(shape, counter, p, seed):
    """1 / (1 - p) where elements stay, else 0: PyTorch's mask, from our random numbers."""
    key = mix((mix(seed) + counter) % 2**64)
    numbers = [(mix(key ^ mix(i)) >> 40) / 2**24 for i in range(shape.numel())]
    factors = [0.0 if number < p else 1 / (1 - p) for number in numbers]
    return torch.tensor(factors, dtype=torch.float64).reshape(shape)


@operation
def dropout(draw):
    for counter, p, seed in [(0, 0.5, 1), (41, 0.3, 2**53 - 1)]:
        x = draw(5, 3, 7)
        y = x * coins(x.shape, counter, p, seed)
        yield call([x, torch.tensor(counter, dtype=torch.uint32)], [y], scalars=[p, seed])


@operation
def dropout_backward(draw):
    counter, p, seed = 7, 0.4, 12345
    x, dy = draw(5, 3, 7).requires_grad_(), draw(5, 3, 7)
    y = x * coins(x.shape, counter, p, seed)
    counter = torch.tensor(counter, dtype=torch.uint32)
    yield call([dy, counter], gradients(y, [x], dy), scalars=[p, seed])


def steps(draw, optimiser, state):
    """Three steps of an optimiser: for each, the gradient, and parameters and state before and after."""
    p = draw(21).requires_grad_()
    optimiser = optimiser([p])
    values = lambda: [p.detach().clone()] + [optimiser.state[p].get(name, torch.zeros(21)).clone() for name in state]  # noqa: E731
    for _ in range(3):
        before, p.grad = values(), draw(21)
        optimiser.step()
        yield p.grad.clone(), before, values()


@operation
def sgd_momentum(draw):
    lr, momentum, decay = 0.1, 0.9, 0.05
    for nesterov in [False, True]:
        sgd = lambda p: torch.optim.SGD(p, lr, momentum, weight_decay=decay, nesterov=nesterov)  # noqa: B023, E731
        for g, before, after in steps(draw, sgd, ["momentum_buffer"]):
            lr_ = torch.tensor(lr, dtype=torch.float64)
            yield call([g, lr_], after, before=before, scalars=[momentum, decay, float(nesterov)])


def adam_steps(draw, optimiser):
    """Three steps of Adam or AdamW."""
    lr, betas, eps, decay = 0.02, (0.9, 0.99), 1e-7, 0.1
    adam = lambda p: optimiser(p, lr, betas, eps, decay)  # noqa: E731
    for number, (g, before, after) in enumerate(steps(draw, adam, ["exp_avg", "exp_avg_sq"])):
        inputs = [g, torch.tensor(lr, dtype=torch.float64), torch.tensor(number, dtype=torch.uint32)]
        yield call(inputs, after, before=before, scalars=[*betas, eps, decay])


@operation
def adam(draw):
    yield from adam_steps(draw, torch.optim.Adam)


@operation
def adamw(draw):
    yield from adam_steps(draw, torch.optim.AdamW)
