"""Show sigmoid belief networks: each hidden unit's weights.

The weights are pictures if the columns are pixels of a square.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import figures
from ..part import Group, Learned, Part, Picture

#: So that a page stays below 3 MB: hidden units, and pixels of all images.
_MOST_UNITS, _MOST_PIXELS = 200, 1_200_000


class Network(Part):
    """The part of a sigmoid belief network."""

    output = "unit"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show the weights of each hidden unit."""
        weights = model.components_
        n_units, n_pixels = weights.shape
        side = math.isqrt(n_pixels)
        if side * side == n_pixels and columns is None:
            shown = min(n_units, _MOST_UNITS, max(1, _MOST_PIXELS // n_pixels))
            # The 99th percentile sets the contrast, so that one large weight does not turn the rest gray.
            top = max(float(np.percentile(np.abs(weights), 99)), 1e-12)
            mean = figures.gray_png(model.mean_image_.reshape(side, side), 1.0)
            pictures = [Picture(mean, "The mean image", "mean")]
            for k, row in enumerate(weights[:shown], 1):
                source = figures.gray_png(row.reshape(side, side), top, -top)
                pictures.append(Picture(source, f"Weights of hidden unit {k}", f"unit {k}"))
            note = f"{shown} of {n_units} hidden units are shown." if n_units > shown else ""
            return Learned(
                "The released mean of the images, black being 1, and what each hidden unit adds to the log odds of "
                "each pixel: grey is 0, black is more, white is less.",
                pictures=tuple(pictures),
                note=note,
            )
        names = [f"column {j + 1}" for j in range(n_pixels)] if columns is None else list(columns)
        span = min(0.0, float(weights.min())), max(0.0, float(weights.max()))
        groups = []
        for k, row in enumerate(weights[:_MOST_UNITS]):
            chosen = np.argsort(-np.abs(row), kind="stable")[:10]
            values = row[chosen].tolist()
            rows = figures.intervals([names[j] for j in chosen], values, values, values, span)
            groups.append(Group(f"hidden unit {k + 1}", rows))
        return Learned(
            "What each hidden unit adds to the log odds of the columns that it matters most for; the points are "
            "posterior means.",
            groups=tuple(groups),
            note=f"{len(groups)} of {n_units} hidden units are shown." * (n_units > len(groups)),
        )
