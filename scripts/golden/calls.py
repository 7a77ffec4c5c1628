"""How golden calls are written down: one function per operation, which yields calls with inputs and results."""

import torch

INTEGERS = {torch.uint8, torch.uint32}


class Operations:
    """The operations of one file; each draws from a random source of its own, so that none disturbs the others."""

    def __init__(self):
        self.functions = {}

    def __call__(self, function):
        """Adds an operation, called as its codelet."""
        self.functions[function.__name__] = function
        return function

    def tensors(self):
        """The tensors of all calls, named OPERATION.CALL.WHAT; see golden_ops.py."""
        out = {}
        for name, function in sorted(self.functions.items()):
            for number, call in enumerate(function(Draw(name))):
                for what, value in call.items():
                    out[f"{name}.{number}.{what}"] = value.contiguous()
        return out


class Draw:
    """Random tensors; the name of the operation is the seed."""

    def __init__(self, name):
        self.generator = torch.Generator().manual_seed(sum(ord(c) * 131**i for i, c in enumerate(name)) % 2**31)

    def __call__(self, *shape, low=-1.0, high=1.0):
        """Numbers from low to high."""
        return torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low

    def below(self, n, *shape, dtype=torch.uint8):
        """Integers below n."""
        return torch.randint(n, shape, generator=self.generator).to(dtype)


def call(inputs, outputs, ints=(), scalars=(), before=()):
    """One call: the arguments that are only read, the results, and parameters, all in the codelet's order. `before` holds the
    former contents of outputs that are also read (all outputs, then)."""
    as_stored = lambda value: value.detach() if value.dtype in INTEGERS else value.detach().double()  # noqa: E731
    tensors = {f"in{i}": as_stored(value) for i, value in enumerate(inputs)}
    tensors |= {f"out{i}": as_stored(value) for i, value in enumerate(outputs)}
    tensors |= {f"before{i}": as_stored(value) for i, value in enumerate(before)}
    if ints:
        tensors["ints"] = torch.tensor(ints, dtype=torch.int64)
    if scalars:
        tensors["scalars"] = torch.tensor(scalars, dtype=torch.float64)
    # Results that are views of inputs would not be stored as tensors of their own.
    return {name: value.clone() for name, value in tensors.items()}


def gradients(result, inputs, gradient):
    """The gradients of the inputs, when the result has this one."""
    return torch.autograd.grad(result, inputs, gradient)
