"""Pictures of models of images."""

import io

import numpy as np
import pytest
from matplotlib.image import imread

from vips_fast.report import dictionary_grid, image_grid, reconstruction_grid, save_png


def test_grid_places_images_in_order():
    images = np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0], [2.0, -1, 0.5, 0]])
    grid = image_grid(images, columns=2)
    assert grid.shape == (7, 7) and grid.dtype == np.uint8
    assert grid[1:3, 1:3].tolist() == [[0, 255], [255, 255]]
    assert grid[1:3, 4:6].tolist() == [[255, 255], [255, 0]]
    assert grid[4:6, 1:3].tolist() == [[0, 255], [128, 255]]
    assert (grid[0] == 255).all() and (grid[:, 3] == 255).all() and (grid[4:, 4:] == 255).all()
    assert image_grid(images, shape=(1, 4)).shape == (5, 11)


def test_grid_refuses_what_does_not_fit():
    for images, options, word in [
        (np.ones((2, 5)), {}, "shape"),
        (np.ones((2, 4)), dict(shape=(3, 2)), "shape"),
        (np.ones(4), {}, "images"),
        (np.full((1, 4), np.nan), {}, "images"),
        (np.ones((1, 4)), dict(columns=0), "columns"),
    ]:
        with pytest.raises(ValueError, match=word):
            image_grid(images, **options)


class Model:
    """What the pictures ask of a fitted model."""

    components_ = np.array([[1.0, -1, 0, 0.5], [0, 0, 1, -1], [1, 1, 1, 1]])

    def reconstruct(self, Y):
        return 1 - Y


def test_pictures_of_a_model():
    weights = dictionary_grid(Model())
    assert weights.shape == (7, 7)
    # Black is the largest weight, white its negative, mid-grey 0.
    assert weights[1:3, 1:3].tolist() == [[0, 255], [128, 64]]
    Y = np.array([[0, 1, 1, 0], [1, 1, 0, 0]])
    pair = reconstruction_grid(Model(), Y)
    assert pair.shape == (7, 7)
    # Records stand in the upper row, reconstructions in the lower.
    for column, record in zip((slice(1, 3), slice(4, 6)), Y.reshape(-1, 2, 2), strict=True):
        assert np.array_equal(pair[1:3, column], 255 * (1 - record))
        assert np.array_equal(pair[4:6, column], 255 * record)


def test_png_files(tmp_path):
    grid = np.arange(6, dtype=np.uint8).reshape(2, 3) * 50
    save_png(grid, tmp_path / "grid.png", scale=2)
    back = imread(tmp_path / "grid.png")
    assert np.array_equal(np.rint(255 * back), grid.repeat(2, axis=0).repeat(2, axis=1))
    file = io.BytesIO()
    save_png(grid, file, scale=2)
    assert file.getvalue() == (tmp_path / "grid.png").read_bytes()
    with pytest.raises(ValueError, match="png"):
        save_png(grid, tmp_path / "grid.jpg")
    assert not (tmp_path / "grid.jpg").exists()
