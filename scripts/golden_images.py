"""Makes small images in every format that dahl reads, and what PIL makes of them, for tests/dataset/images.rs.

Needs Pillow, numpy and safetensors. Writes the images and expected.safetensors to crates/dahl/tests/golden/images: for each
image file NAME the tensors NAME/CxHxW (uint8, CHW), converted and resized as torchvision's loaders do (convert, then resize with
BILINEAR).
"""

from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

FOLDER = Path(__file__).resolve().parent.parent / "crates/dahl/tests/golden/images"
SHAPES = [(3, 5, 4), (3, 16, 16), (1, 8, 8), (1, 1, 1), (3, 40, 3)]


def drawing(height, width, seed):
    """Smooth colours with some noise and an edge, as photographs have them."""
    noise = np.random.default_rng(seed).integers(-12, 13, (height, width, 3))
    y, x = np.mgrid[0:height, 0:width]
    colours = [40 + 170 * x / width, 220 - 190 * y / height, 90 + 60 * np.sin(x / 3.0) + 50 * np.cos(y / 4.0)]
    values = np.stack(colours, axis=-1) + noise
    values[height // 3 : height // 2, width // 4 : width // 2] = (250, 10, 30)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def files():
    """Name, picture and how to save it."""
    colour = Image.fromarray(drawing(13, 17, 1))
    grey = Image.fromarray(drawing(11, 9, 2)).convert("L")
    alpha = colour.copy()
    alpha.putalpha(Image.fromarray(drawing(13, 17, 3)).convert("L"))
    grey_alpha = grey.copy()
    grey_alpha.putalpha(128)
    large = Image.fromarray(drawing(50, 70, 4))
    yield "colour.png", colour, {}
    yield "grey.png", grey, {}
    yield "alpha.png", alpha, {}
    yield "grey_alpha.png", grey_alpha, {}
    yield "palette.png", colour.quantize(20), {}
    yield "bits.png", grey.convert("1"), {}
    yield "one.png", colour.crop((0, 0, 1, 1)), {}
    yield "large.png", large, {}
    yield "colour.ppm", colour, {}
    yield "grey.pgm", grey, {}
    yield "grey.jpg", grey, {"quality": 90}
    yield "colour_444.jpg", colour, {"quality": 95, "subsampling": 0}
    yield "colour_420.jpg", large, {"quality": 90, "subsampling": 2}
    yield "progressive.jpeg", large, {"quality": 85, "subsampling": 0, "progressive": True}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name, picture, options in files():
        picture.save(FOLDER / name, **options)
        with Image.open(FOLDER / name) as loaded:
            loaded.load()
            for mode, channels in [("L", 1), ("RGB", 3)]:
                converted = loaded.convert("RGB").convert(mode) if loaded.mode == "P" else loaded.convert(mode)
                own = (channels, loaded.height, loaded.width)
                for shape in [own] + [shape for shape in SHAPES if shape[0] == channels]:
                    # Rows before columns, as dahl does; PIL itself takes what is faster first, which can differ by 1.
                    resized = converted.resize((shape[2], loaded.height), Image.Resampling.BILINEAR)
                    resized = resized.resize((shape[2], shape[1]), Image.Resampling.BILINEAR)
                    values = np.asarray(resized).reshape(shape[1], shape[2], channels).transpose(2, 0, 1)
                    key = f"{name}/{'x'.join(map(str, shape))}"
                    expected[key] = np.ascontiguousarray(values)
    save_file(expected, FOLDER / "expected.safetensors")


if __name__ == "__main__":
    main()
