"""Lay out a report's charts, in percent for the page's style.

The page uses no plotting library. ``vips-fast verify`` makes it again and compares every byte, and a picture changes
with the version of the library that drew it. Figures for a screen come from `vips_fast.models.plots`.
"""

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..data.types import Array
from ..store.words import decimals


@dataclass(frozen=True)
class Row:
    """A chart's line: name, value in words, bar and error. Bar and error are in percent."""

    name: str
    value: str
    start: float
    end: float
    low: float
    high: float
    weak: bool = False


@dataclass(frozen=True)
class Rows:
    """A chart of bars or points; 0 is at ``zero`` percent."""

    rows: tuple[Row, ...]
    zero: float | None = None


def bars(
    names: Sequence[str],
    values: Sequence[float],
    errors: Sequence[float] | None = None,
    clear: Sequence[bool] | None = None,
) -> Rows:
    """Draw bars in percent from 0, with standard errors, pale where they are not ``clear``."""
    sizes = [0.0] * len(values) if errors is None else errors
    unit = 100.0 / max([v + e for v, e in zip(values, sizes, strict=True)] + [1e-300])
    rows = []
    for name, value, error, sure in zip(names, values, sizes, clear or [True] * len(values), strict=True):
        said = f"{100 * value:.3g} %"
        if error:
            digits = decimals(100 * value, 100 * (value - error), 100 * (value + error))
            said = f"{100 * value:.{digits}f} % ± {100 * error:.{digits}f} %"
        low, high = unit * max(0.0, value - error), unit * (value + error)
        rows.append(Row(name, said, 0.0, unit * max(0.0, value), low, high, not sure))
    return Rows(tuple(rows))


def shares(
    names: Sequence[str],
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    readable: Sequence[bool],
) -> Rows:
    """Draw bars from 0 with intervals, for the readable groups."""
    unit = 100.0 / max([high for high, seen in zip(highs, readable, strict=True) if seen] + [1e-300])
    rows = []
    for name, value, low, high, seen in zip(names, values, lows, highs, readable, strict=True):
        if seen:
            said = f"{value:.1%} ({low:.1%} to {high:.1%})"
            rows.append(Row(name, said, 0.0, unit * value, unit * low, unit * high))
        else:
            rows.append(Row(name, "hidden by the noise", 0.0, 0.0, 0.0, 0.0))
    return Rows(tuple(rows))


def intervals(
    names: Sequence[str],
    means: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    span: tuple[float, float],
) -> Rows:
    """Draw points with intervals, pale if they hold 0; ``span`` holds 0."""
    low, high = span
    unit = 100.0 / max(high - low, 1e-300)

    def place(value: float) -> float:
        return unit * (min(max(value, low), high) - low)

    rows = []
    for name, mean, a, b in zip(names, means, lows, highs, strict=True):
        digits = decimals(mean, a, b)
        said = f"{mean:+.{digits}f}, from {a:+.{digits}f} to {b:+.{digits}f}" if a < b else f"{mean:+.3g}"
        rows.append(Row(name, said, place(mean), place(mean), place(a), place(b), a <= 0.0 <= b))
    return Rows(tuple(rows), place(0.0))


def gray_png(images: Array, largest: float, smallest: float = 0.0) -> str:
    """Write (height, width) numbers as the address of a PNG picture."""
    dark = np.clip((images - smallest) / (largest - smallest), 0.0, 1.0)
    # Eight bits of gray a dot; each line begins with 0, the number of the filter that changes nothing.
    lines = np.pad(np.rint(255.0 * (1.0 - dark)).astype(np.uint8), ((0, 0), (1, 0))).tobytes()
    header = struct.pack(">IIBBBBB", images.shape[1], images.shape[0], 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    )
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
