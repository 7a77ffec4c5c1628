"""Reads data sets for the PyTorch scripts exactly as `dahl::dataset` does: same images, order and splits.

A data set is a dictionary: "name", "classes", and for "train" and "test" a pair of arrays, images (n, c, h, w) and
labels (n), both uint8.
"""

import gzip
import struct
from pathlib import Path

import numpy as np

from random_stream import Stream

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "crates/dahl/data/digits.bin.gz"
TEST_EVERY = 6
PATTERN, NOISE = 0x70617474, 0x6E6F6973
TRAIN_PER_TEST = 4


def load(name):
    """The data set that dahl's option --data names: `digits`, a folder of IDX files, or `synthetic:CxHxW[xCLASSES][:COUNT]`."""
    if str(name) == "digits":
        return digits()
    if str(name).startswith("synthetic:"):
        return synthetic(str(name))
    return idx(name)


def digits():
    """The built-in digits; scripts/pack_digits.py describes the layout of the file."""
    packed = gzip.decompress(DIGITS.read_bytes())
    magic, version, n_images, height, width, largest, classes = struct.unpack_from("<8sHHBBBB", packed)
    if magic != b"dahldigs" or version != 1:
        raise SystemExit(f"{DIGITS}: expected packed digits of version 1; make them with scripts/pack_digits.py")
    labels = np.frombuffer(packed, np.uint8, n_images, offset=16)
    ink = np.frombuffer(packed, np.uint8, offset=16 + n_images).reshape(n_images, 1, height, width)
    # Ink is spread over 0 to 255 with halves rounded up, in whole numbers as in Rust.
    images = ((2 * 255 * ink.astype(np.uint32) + largest) // (2 * largest)).astype(np.uint8)

    # Every sixth image of each class is for testing.
    is_test = np.zeros(n_images, bool)
    for label in range(classes):
        is_test[np.flatnonzero(labels == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    return {
        "name": "digits",
        "classes": classes,
        "train": (images[~is_test], labels[~is_test]),
        "test": (images[is_test], labels[is_test]),
    }


def idx(folder):
    """The data set in a folder of IDX files, plain or compressed."""
    folder = Path(folder)
    train = (idx_file(folder, "train-images-idx3-ubyte"), idx_file(folder, "train-labels-idx1-ubyte"))
    test = (idx_file(folder, "t10k-images-idx3-ubyte"), idx_file(folder, "t10k-labels-idx1-ubyte"))
    for images, labels in (train, test):
        if len(images) != len(labels):
            raise SystemExit(f"{folder}: expected a label for each image, but {len(images)} images have {len(labels)}")
    return {
        "name": folder.resolve().name,
        "classes": int(train[1].max()) + 1,
        "train": (train[0][:, np.newaxis], train[1]),
        "test": (test[0][:, np.newaxis], test[1]),
    }


def idx_file(folder, stem):
    """The array in one IDX file of unsigned bytes."""
    plain, compressed = folder / stem, folder / f"{stem}.gz"
    if plain.is_file():
        data = plain.read_bytes()
    elif compressed.is_file():
        data = gzip.decompress(compressed.read_bytes())
    else:
        raise SystemExit(f"{folder}: expected a file {stem} or {stem}.gz in this folder; check the path")
    rank = 3 if "idx3" in stem else 1
    if data[:4] != bytes([0, 0, 8, rank]):
        raise SystemExit(f"{folder / stem}: expected unsigned bytes with {rank} dimensions, but the header is {data[:4].hex()}")
    dims = struct.unpack_from(f">{rank}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(dims)


def synthetic(name):
    """Patterns under noise; crates/dahl/src/dataset/synthetic.rs gives the formula."""
    sizes, _, count = name.removeprefix("synthetic:").partition(":")
    sizes = [int(size) for size in sizes.split("x")]
    shape, classes = sizes[:3], sizes[3] if len(sizes) > 3 else 10
    channels, height, width = shape
    n_train = int(count or 2000)
    cells = np.arange(16 * channels)
    patterns = np.stack([Stream(PATTERN, label).bits(cells) >> np.uint64(56) for label in range(classes)])
    patterns = patterns.reshape(classes, channels, 4, 4)
    rows, columns = 4 * np.arange(height) // height, 4 * np.arange(width) // width
    patterns = patterns[:, :, rows][:, :, :, columns]

    def part(number, n_images):
        n_pixels = channels * height * width
        words = np.arange(-(-n_pixels // 8))
        noise = np.stack([Stream(NOISE + number, image).bits(words) for image in range(n_images)]).astype("<u8")
        noise = noise.view(np.uint8)[:, :n_pixels].reshape(n_images, *shape).astype(np.uint64)
        labels = np.arange(n_images) % classes
        return ((patterns[labels] + 3 * noise + 2) // 4).astype(np.uint8), labels.astype(np.uint8)

    return {
        "name": name,
        "classes": classes,
        "train": part(0, n_train),
        "test": part(1, -(-n_train // TRAIN_PER_TEST)),
    }
