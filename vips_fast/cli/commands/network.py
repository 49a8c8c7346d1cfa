"""Networks of binary images: ``fit sbn``."""

from pathlib import Path
from typing import Any

import numpy as np

from ...data import binarize, read_idx
from ...jobs import Material
from ...models.sbn import SigmoidBeliefNetwork
from ..arguments import FitSbn, Predict
from ..inputs import ROWS, TEXTS, open_shards, read_array, refuse
from .fit import run_fit
from .jobs import ReadBy


def read_images(path: str, threshold: int, invalid: str = "raise") -> np.ndarray:
    """Read binary records from a file."""
    images = read_array(path, "biuf") if Path(path).suffix == ".npy" else read_idx(path)
    if images.ndim < 2 or len(images) == 0:
        raise ValueError(f"{path}: expected images, one in each row or slice; got shape {images.shape}")
    return binarize(images, threshold, invalid)


def read_new(args: Predict, model: Any) -> Any:
    """Read new binary records for a fitted network."""
    refuse(args, *TEXTS, *ROWS)
    shards = open_shards(args)
    return read_images(args.input, 1 if args.threshold is None else args.threshold) if shards is None else shards


def fit(args: FitSbn) -> int:
    """Fit a sigmoid belief network."""

    def read(model: Any) -> Material:
        shards = open_shards(args)
        if shards is not None:
            return Material((shards,), groups=shards.groups)
        return Material((read_images(args.input, args.threshold, model._options.invalid),))

    return run_fit(args, SigmoidBeliefNetwork, lambda: ReadBy(args.input, read, args.person))
