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
