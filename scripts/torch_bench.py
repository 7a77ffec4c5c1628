#!/usr/bin/env python3
"""PyTorch's side of `dahl bench --against torch`: one model in one mode, trained whenever dahl asks for it.

dahl starts this program, writes a line of JSON with the settings to its standard input, and then a line for each turn; each is
answered by a line of JSON on standard output. The process sleeps in between, and ends with its input. It does the work that dahl
does: bytes in memory, a random batch gathered and divided by 255, forward, loss, backward, plain SGD. The order of images is
drawn beforehand, no loss is looked at, and of PyTorch's optimisers the quickest is taken, all of which favours PyTorch.

Needs torch and numpy.
"""

import gc
import json
import os
import statistics
import sys
import time

# Steps before anything counts: the first ones allocate, choose kernels and compile.
WARM_UP_STEPS = 5
# Steps of a turn at least.
MIN_STEPS = 3
# Steps between two looks at the clock on a GPU, which works on its own meanwhile.
STEPS_PER_LOOK = 32
# Seconds that each optimiser is tried for.
TRIAL_SECONDS = 0.1


def memory(name):
    """A number of bytes that Linux tells of this process (VmRSS now, VmHWM at most), or none."""
    try:
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return int(lines[name].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def load():
    """Loads what any training needs, before it is known which. Optimisers load the compiler, whether it is used or not."""
    import torch  # noqa: F401
    import torch._dynamo  # noqa: F401

    import models  # noqa: F401


def keep_to_cores(n):
    """Keeps this process to the first of the cores that it may use, as dahl's does. To be called before torch starts threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n])


class Training:
    """A model, its data and its optimiser in one mode."""

    def __init__(self, settings):
        import torch
        from torch import nn

        import models

        self.torch, self.mode, self.device = torch, settings["mode"], settings["device"]
        if self.device != "cpu" and not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} sees no GPU")
        torch.set_num_threads(settings["workers"])
        torch.manual_seed(1)
        self.dtype = {"f32": torch.float32, "f64": torch.float64}[settings["dtype"]]
        torch.set_default_dtype(self.dtype)
        self.start_bytes = memory("VmRSS")

        n, (channels, height, width) = settings["images"], settings["shape"]
        # Channels last: images lie so from the beginning, and a batch need not be turned.
        shape = (n, height, width, channels) if self.is_channels_last() else (n, channels, height, width)
        self.images = torch.randint(0, 256, shape, dtype=torch.uint8).to(self.device)
        self.labels = (torch.arange(n) % settings["classes"]).to(self.device)
        self.data_bytes = sum(each.numel() * each.element_size() for each in (self.images, self.labels))
        order = torch.randperm(n)[: n // settings["batch"] * settings["batch"]].to(self.device)
        self.batches = order.split(settings["batch"])
        self.ready_bytes = memory("VmRSS")
        self.number = 0

        # PyTorch's own dropout: nothing depends on single coins here.
        model = models.build(settings["model"], settings["shape"], settings["classes"], lambda _, p: nn.Dropout(p))
        self.model = model.to(self.device)
        if self.is_channels_last():
            self.model = self.model.to(memory_format=torch.channels_last)
        self.loss = self.compiled(self.loss_of_index())
        self.lr = settings["lr"]
        self.optimiser_name, self.optimiser = self.quickest_optimiser()
        self.step = self.captured() if self.mode == "cuda-graph" else self.next_step

    def is_channels_last(self):
        """Whether the channels of a pixel lie side by side."""
        return self.mode == "channels-last"

    def compiled(self, function):
        """The function, compiled if the mode asks for it."""
        if self.mode == "compile":
            # On a GPU, whatever is compiled is launched as CUDA graphs.
            return self.torch.compile(function, mode="default" if self.device == "cpu" else "reduce-overhead")
        # The whole step is captured later.
        return self.torch.compile(function) if self.mode == "cuda-graph" else function

    def loss_of_index(self):
        """A function from the indices of a batch to its loss."""
        images, labels, model, dtype = self.images, self.labels, self.model, self.dtype
        is_channels_last, cross_entropy = self.is_channels_last(), self.torch.nn.functional.cross_entropy

        def loss(index):
            x = images.index_select(0, index)
            if is_channels_last:
                x = x.permute(0, 3, 1, 2)
            return cross_entropy(model(x.to(dtype).mul_(1 / 255)), labels.index_select(0, index))

        return loss

    def train(self, index):
        """One step on these images."""
        self.optimiser.zero_grad(set_to_none=True)
        self.loss(index).backward()
        self.optimiser.step()

    def next_index(self):
        """The images of the next step."""
        self.number += 1
        return self.batches[self.number % len(self.batches)]

    def next_step(self):
        """One step on the next images."""
        if self.mode == "compile" and self.device != "cpu":
            self.torch.compiler.cudagraph_mark_step_begin()
        self.train(self.next_index())

    def captured(self):
        """A step as one CUDA graph: everything but the copy of the indices is launched at once."""
        torch, index = self.torch, self.batches[0].clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_STEPS):
                self.train(index)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        self.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.loss(index).backward()
            self.optimiser.step()

        def step():
            index.copy_(self.next_index())
            graph.replay()

        return step

    def quickest_optimiser(self):
        """Plain SGD in the way that takes the least time here."""
        SGD = self.torch.optim.SGD
        found = []
        for name in ("foreach", "fused"):
            try:
                self.optimiser = SGD(self.model.parameters(), lr=self.lr, **{name: True})
                for _ in range(WARM_UP_STEPS):
                    self.next_step()
                found.append((self.turn(TRIAL_SECONDS, self.next_step)["step_seconds"], name, self.optimiser))
            except RuntimeError:
                # Not every version has every way on every device; with none, the last error is said.
                if name == "fused" and not found:
                    raise
        _, name, optimiser = min(found, key=lambda each: each[0])
        return name, optimiser

    def synchronise(self):
        """Waits for the GPU, if there is one."""
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def turn(self, seconds, step):
        """Runs steps for so long, and says what they took. The first tenth of the time is to warm up."""
        n_per_look = 1 if self.device == "cpu" else STEPS_PER_LOOK
        gc.collect()
        gc.disable()
        try:
            self.run(seconds / 10, 1, n_per_look, step)
            times, total = self.run(seconds, MIN_STEPS, n_per_look, step)
        finally:
            gc.enable()
        return {
            "steps": len(times) * n_per_look,
            "seconds": total,
            "step_seconds": statistics.median(times) / n_per_look,
            "peak_bytes": memory("VmHWM"),
            "device_peak_bytes": None if self.device == "cpu" else self.torch.cuda.max_memory_allocated(),
        }

    def run(self, seconds, n_looks, n_per_look, step):
        """Runs steps, a look at the clock at least so often; returns the times between looks, and their sum."""
        times = []
        self.synchronise()
        start = before = time.perf_counter()
        while len(times) < n_looks or before - start < seconds:
            for _ in range(n_per_look):
                step()
            self.synchronise()
            now = time.perf_counter()
            times.append(now - before)
            before = now
        return times, before - start

    def about(self):
        """What dahl wants to know before the first turn."""
        return {
            "version": self.torch.__version__,
            "optimiser": self.optimiser_name,
            "data_bytes": self.data_bytes,
            "start_bytes": self.start_bytes,
            "ready_bytes": self.ready_bytes,
        }


def first_line(error):
    """An error as a sentence: what is wrong, without the traces that torch.compile appends."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:300]


def main():
    """Answers line by line."""
    # Whatever libraries print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(reply):
        answers.write(json.dumps(reply) + "\n")
        answers.flush()

    try:
        load()
        settings = json.loads(sys.stdin.readline())
        if settings["device"] == "cpu":
            keep_to_cores(settings["workers"])
        training = Training(settings)
        answer({"ready": training.about()})
        for line in sys.stdin:
            answer({"turn": training.turn(json.loads(line)["seconds"], training.step)})
    except Exception as error:  # noqa: BLE001 - everything that can go wrong is told as a sentence
        answer({"error": first_line(error)})
        sys.exit(1)


if __name__ == "__main__":
    main()
