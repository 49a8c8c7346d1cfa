"""Pictures of models of images: grids of dictionaries and reconstructions.

Only `save_png` needs matplotlib, and loads it when called.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

__all__ = ["dictionary_grid", "image_grid", "reconstruction_grid", "save_png", "square_shape"]


def square_shape(n_pixels: int) -> tuple[int, int]:
    """Side lengths of a square image.

    Raises
    ------
    ValueError
        If the number of pixels is no square.
    """
    side = math.isqrt(n_pixels)
    if side * side != n_pixels:
        raise ValueError(f"shape=None: {n_pixels} pixels are no square; expected (height, width)")
    return side, side


def image_grid(images, shape=None, columns=None, gap=1) -> np.ndarray:
    """Images side by side on a white ground.

    Parameters
    ----------
    images : array, shape (n, J)
        One image a row, values in [0, 1] (others are cut), 1 shown black.
    shape : (int, int) or None
        Height and width, of product J; None for square images.
    columns : int or None
        Images a row; None makes the grid about square.
    gap : int
        White pixels around each image.

    Returns
    -------
    ndarray, uint8, two dimensions
        Grey values, 0 black.

    Raises
    ------
    ValueError
        If images is no matrix, holds NaN, or the shape does not fit.
    """
    images = np.asarray(images, dtype=np.float64)
    if images.ndim != 2 or 0 in images.shape or np.isnan(images).any():
        raise ValueError(f"images has shape {images.shape}: expected (n, J) without NaN, n and J at least 1")
    height, width = square_shape(images.shape[1]) if shape is None else shape
    if height * width != images.shape[1]:
        raise ValueError(f"shape={shape!r}: expected a product of {images.shape[1]}, the number of pixels")
    columns = math.ceil(math.sqrt(len(images))) if columns is None else int(columns)
    if columns < 1:
        raise ValueError(f"columns={columns}: expected at least 1")
    rows = -(-len(images) // columns)
    grid = np.full((rows * (height + gap) + gap, columns * (width + gap) + gap), 255, dtype=np.uint8)
    grey = np.rint(255 * (1 - np.clip(images, 0, 1))).astype(np.uint8)
    for n, image in enumerate(grey):
        top, left = gap + n // columns * (height + gap), gap + n % columns * (width + gap)
        grid[top : top + height, left : left + width] = image.reshape(height, width)
    return grid


def dictionary_grid(model, shape=None, columns=None) -> np.ndarray:
    """A fitted network's weights, one image a hidden unit: grey is 0, black positive, white negative.

    Parameters
    ----------
    model : `vips_fast.SigmoidBeliefNetwork`
    shape, columns
        As in `image_grid`.
    """
    weights = model.components_
    # The 99th percentile sets the contrast: one loud pixel does not grey out the rest.
    top = max(float(np.percentile(np.abs(weights), 99)), 1e-12)
    return image_grid(0.5 + 0.5 * weights / top, shape, columns)


def reconstruction_grid(model, Y, shape=None) -> np.ndarray:
    """Records above, their reconstructions below. They describe Y: public records only.

    Parameters
    ----------
    model : `vips_fast.SigmoidBeliefNetwork`
    Y : array, shape (n, J)
    shape
        As in `image_grid`.
    """
    Y = np.asarray(Y, dtype=np.float64)
    return image_grid(np.concatenate([Y, model.reconstruct(Y)]), shape, columns=len(Y))


def save_png(grid, path, scale=3) -> None:
    """Write a grid of grey values as a PNG file.

    Parameters
    ----------
    grid : ndarray, uint8, two dimensions
    path : path-like or binary file
        A name ends in .png.
    scale : int
        Side of a pixel.

    Raises
    ------
    ValueError
        If the name does not end in .png.
    ImportError
        If matplotlib is not installed.
    """
    if isinstance(path, (str, Path)) and Path(path).suffix != ".png":
        raise ValueError(f"{path}: expected a name that ends in .png")
    try:
        from matplotlib.image import imsave
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from None
    imsave(path, np.kron(grid, np.ones((scale, scale), dtype=np.uint8)), cmap="gray", vmin=0, vmax=255, format="png")
