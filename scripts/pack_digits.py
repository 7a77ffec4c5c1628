#!/usr/bin/env python3
"""Packs the UCI optical digits into crates/dahl/data/digits.bin.gz.

The digits come from the copy inside scikit-learn, so nothing is downloaded, and the same input gives
the same bytes. Layout of the packed file, before gzip, little-endian:

    offset  bytes   what
    0       8       magic "dahldigs"
    8       2       version, 1
    10      2       number of images n
    12      1       height h
    13      1       width w
    14      1       largest pixel value
    15      1       number of classes
    16      n       labels, in the order of the source
    16+n    n*h*w   pixels, image after image, row after row

Needs scikit-learn and numpy.
"""

import argparse
import gzip
import struct
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

ROOT = Path(__file__).resolve().parent.parent
VERSION = 1
LARGEST_PIXEL = 16
N_CLASSES = 10


def pack():
    """The packed file, compressed."""
    source = load_digits()
    images = source.images.astype(np.uint8)
    labels = source.target.astype(np.uint8)
    if not np.array_equal(images, source.images) or images.max() != LARGEST_PIXEL:
        raise SystemExit("expected whole pixel values from 0 to 16; has the data set in scikit-learn changed?")
    if sorted(set(labels.tolist())) != list(range(N_CLASSES)):
        raise SystemExit("expected the labels 0 to 9; has the data set in scikit-learn changed?")
    n_images, height, width = images.shape
    header = struct.pack("<8sHHBBBB", b"dahldigs", VERSION, n_images, height, width, LARGEST_PIXEL, N_CLASSES)
    # Without a time stamp the same digits give the same bytes on every day.
    return gzip.compress(header + labels.tobytes() + images.tobytes(), compresslevel=9, mtime=0)


def main():
    """Writes the packed file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "crates/dahl/data/digits.bin.gz", help="file to write")
    arguments = parser.parse_args()
    packed = pack()
    arguments.out.write_bytes(packed)
    print(f"{arguments.out.name}: {len(packed)} bytes")


if __name__ == "__main__":
    main()
