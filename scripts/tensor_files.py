"""Writes the small files that dahl's readers are tested with, by the libraries that people write such files with.

    python scripts/tensor_files.py

Needs numpy, torch and safetensors. Element i of six is i - 2 for signed types, i for unsigned ones, odd or not for truths,
and (i - 2) / 4 for floating point; tests/tensors.rs expects that.
"""

import io
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

FOLDER = Path(__file__).parent.parent / "crates/dahl/tests/tensor_files"


def six(dtype):
    """The six elements, as two rows of three."""
    dtype = np.dtype(dtype)
    i = np.arange(6).reshape(2, 3)
    values = {"b": i % 2 == 1, "u": i, "i": i - 2, "f": (i - 2) / 4}[dtype.kind]
    return values.astype(dtype)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for order in ("<", ">"):
        word = {"<": "little", ">": "big"}[order]
        types = ["b1", "u1", "i1"] + [order + code for code in "u2 i2 u4 i4 u8 i8 f2 f4 f8".split()]
        arrays = {code.lstrip(order): six(code) for code in types}
        arrays["scalar"] = np.array(1.5, order + "f4")
        arrays["empty"] = np.zeros((3, 0), order + "f8")
        arrays["fortran"] = np.asfortranarray(six(order + "i4"))
        np.savez(FOLDER / f"{word}.npz", **arrays)
        np.savez_compressed(FOLDER / f"{word}_deflated.npz", **arrays)
    for version in (1, 2, 3):
        with open(FOLDER / f"version{version}.npy", "wb") as file:
            np.lib.format.write_array(file, six("<f4"), version=(version, 0))
    cube = (np.arange(24) - 2).astype(">f8").reshape(2, 3, 4)
    np.save(FOLDER / "fortran.npy", np.asfortranarray(cube))
    np.savetxt(FOLDER / "spaces.csv", six("f4"))
    np.savetxt(FOLDER / "names.csv", six("f8"), delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    np.savetxt(FOLDER / "column.csv", six("i4").ravel(), fmt="%d")

    types = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64".split()
    kinds = {"bool": "b1", "uint": "u8", "int": "i8", "float": "f8", "bfloat": "f8"}
    tensors = {}
    for name in types:
        values = torch.from_numpy(six(kinds[name.rstrip("0123456789")]))
        tensors[name] = values.to(getattr(torch, name)).contiguous()
    tensors["scalar"] = torch.tensor(1.5)
    tensors["empty"] = torch.zeros(3, 0, dtype=torch.float64)
    save_file(tensors, FOLDER / "torch.safetensors", metadata={"format": "pt"})
    buffer = io.BytesIO()
    torch.save({"weight": torch.zeros(2)}, buffer)
    (FOLDER / "torch.pt").write_bytes(buffer.getvalue())


if __name__ == "__main__":
    main()
