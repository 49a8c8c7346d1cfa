"""Pictures of models of images: grids of dictionaries and reconstructions, as arrays and as PNG files."""

import math
import os
import struct
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

Shape = tuple[int, int]


def square_shape(n_pixels: int) -> Shape:
    """Side lengths of a square image; ValueError if the number of pixels is not a square."""
    side = math.isqrt(n_pixels)
    if side * side != n_pixels:
        raise ValueError(f"shape=None: {n_pixels} pixels do not make a square; expected (height, width)")
    return side, side


def image_grid(images: Any, shape: Shape | None = None, columns: int | None = None, gap: int = 1) -> np.ndarray:
    """Images, a row of shape (J,) each, side by side on a white ground: uint8 grey values in two dimensions, 0 black.

    Values are in [0, 1] (others are moved to the nearer bound), 1 shown black. `shape` is height and width, of product
    J, None for square images; `columns` the images in each row of the grid, None makes it about square; `gap` the white
    pixels around each image. Raises ValueError if images is not a matrix, holds NaN, or the shape does not fit.
    """
    images = np.asarray(images, dtype=np.float64)
    if images.ndim != 2 or 0 in images.shape or np.isnan(images).any():
        raise ValueError(f"images has shape {images.shape}: expected (n, J) without NaN, n and J at least 1")
    n_images, n_pixels = images.shape
    height, width = square_shape(n_pixels) if shape is None else shape
    if height * width != n_pixels:
        raise ValueError(f"shape={shape!r}: expected a product of {n_pixels}, the number of pixels")
    columns = math.ceil(math.sqrt(n_images)) if columns is None else int(columns)
    if columns < 1:
        raise ValueError(f"columns={columns}: expected at least 1")
    rows = -(-n_images // columns)
    cells = np.full((rows * columns, height + gap, width + gap), 255, dtype=np.uint8)
    grey = np.rint(255 * (1 - np.clip(images, 0, 1)))
    cells[:n_images, gap:, gap:] = grey.reshape(n_images, height, width)
    grid = cells.reshape(rows, columns, height + gap, width + gap).transpose(0, 2, 1, 3)
    return np.pad(grid.reshape(rows * (height + gap), -1), ((0, gap), (0, gap)), constant_values=255)


def dictionary_grid(model: Any, shape: Shape | None = None) -> np.ndarray:
    """Weights ``components_``, shape (K, J), of a fitted model such as `SigmoidBeliefNetwork`, as `image_grid`.

    An image for each hidden unit: grey is 0, black positive, white negative.
    """
    weights = np.asarray(model.components_)
    # The 99th percentile sets the contrast, so that one large weight does not turn the rest grey.
    top = max(float(np.percentile(np.abs(weights), 99)), 1e-12)
    return image_grid(0.5 + 0.5 * weights / top, shape)


def reconstruction_grid(model: Any, Y: Any, shape: Shape | None = None) -> np.ndarray:
    """Records Y, shape (n, J), above, and below what ``reconstruct`` of a fitted model makes of them, as `image_grid`.

    They describe Y, which must be public.
    """
    Y = np.asarray(Y, dtype=np.float64)
    return image_grid(np.concatenate([Y, model.reconstruct(Y)]), shape, columns=len(Y))


def save_png(grid: np.ndarray, path: str | os.PathLike[str] | IO[bytes], scale: int = 3) -> None:
    """Write a grid of uint8 grey values as a PNG file, or to a binary file; each pixel has `scale` dots on each side.

    Raises ValueError if the file's name does not end in .png.
    """
    dots = np.asarray(grid, np.uint8).repeat(scale, axis=0).repeat(scale, axis=1)
    height, width = dots.shape
    # Eight bits of grey for each dot; every line begins with 0, the number of the filter that changes nothing.
    lines = np.pad(dots, ((0, 0), (1, 0))).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    )
    if isinstance(path, (str, os.PathLike)):
        if Path(path).suffix != ".png":
            raise ValueError(f"{path}: expected a name that ends in .png")
        Path(path).write_bytes(content)
    else:
        path.write(content)
