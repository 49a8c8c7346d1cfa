"""Networks of binary images: ``fit sbn``."""

from typing import Any

import numpy as np

from ...jobs import Material
from ...models.inputs import asked
from ...models.sbn import SigmoidBeliefNetwork
from ..arguments import FitSbn, Predict
from ..inputs import ROWS, TEXTS, open_shards, read_array, refuse
from .fit import ReadBy, run_fit


def read_images(path: str, threshold: int, invalid: str = "raise") -> np.ndarray:
    """Read binary records from a file."""
    images = read_array(path, "biuf")
    if images.ndim < 2 or len(images) == 0:
        raise ValueError(f"{path}: expected images, one in each row or slice; got shape {images.shape}")
    rows = images.reshape(len(images), -1)
    records = np.ascontiguousarray(rows >= threshold, dtype=np.uint8)
    if (bad := np.isnan(rows).any(axis=1)).any():
        if invalid == "raise":
            raise ValueError(f"{path}: holds NaN; expected real numbers")
        records[bad] = 2  # which no model takes
    return records


def read_new(args: Predict, model: Any) -> Any:
    """Read new binary records for a fitted network."""
    refuse(args, *TEXTS, *ROWS)
    if (shards := open_shards(args)) is not None:
        return shards
    fitted = asked(model._fitted().public).get("threshold", 1)
    return read_images(args.input, fitted if args.threshold is None else args.threshold)


def fit(args: FitSbn) -> int:
    """Fit a sigmoid belief network."""

    def read(model: Any) -> Material:
        shards = open_shards(args)
        if shards is not None:
            return Material((shards,), groups=shards.groups)
        return Material((read_images(args.input, args.threshold, model._options.invalid),))

    return run_fit(args, SigmoidBeliefNetwork, ReadBy(args.input, read, args.person))
