#!/usr/bin/env python3
"""Computes single operations in float64 with PyTorch and writes inputs and results for the test `golden_ops`.

Makes crates/dahl/tests/golden/general.safetensors and network.safetensors from the files of the same name in scripts/golden.
Call NUMBER of OPERATION has the tensors (float64, integers where the codelet takes integers):

    OPERATION.NUMBER.in<i>      arguments that are only read
    OPERATION.NUMBER.out<i>     results
    OPERATION.NUMBER.before<i>  former contents of outputs, where they are read
    OPERATION.NUMBER.ints       int64, integer parameters
    OPERATION.NUMBER.scalars    floating-point parameters

To add an operation, add a function to one of the two files, called as its codelet. Needs torch and safetensors.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file

from golden import general, network

GOLDEN = Path(__file__).resolve().parent.parent / "crates/dahl/tests/golden"


def main():
    """Writes both files."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for file in (general, network):
        tensors = file.operation.tensors()
        path = GOLDEN / f"{file.__name__.rpartition('.')[2]}.safetensors"
        save_file(tensors, path, metadata={"origin": f"torch {torch.__version__}"})
        n_operations = len(file.operation.functions)
        print(f"{path.name}: {n_operations} operations, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
