"""Lay out a report's charts, in percent for the page's style.

The page uses no plotting library. ``vips-fast verify`` makes it again and compares every byte, and a picture changes
with the version of the library that drew it. Figures for a screen come from `vips_fast.models.plots`.
"""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..accounting import rounded_up
from ..data.types import Array
from ..models.hierarchy import Hierarchy, classical_mds, hellinger

#: Labels of topics nearer than this, in percent of the map and for one digit each, would lie over each other.
_DIGIT, _LINE = 1.3, 5.0


@dataclass(frozen=True)
class Row:
    """A chart's line: name, value in words, bar and error.

    Bar and error are in percent.
    """

    name: str
    value: str
    start: float
    end: float
    low: float
    high: float
    weak: bool = False

    @property
    def text(self) -> str:
        """Name and value."""
        return f"{self.name} {self.value}"


@dataclass(frozen=True)
class Rows:
    """A chart of bars or points; 0 is at ``zero`` percent."""

    rows: tuple[Row, ...]
    zero: float | None = None


@dataclass(frozen=True)
class Point:
    """A topic on the map: center and diameter in percent.

    They are percent of its width. The label is empty if it does not fit.
    """

    x: float
    y: float
    size: float
    label: str
    label_y: float
    title: str


@dataclass(frozen=True)
class Map:
    """Topics in two dimensions, and the share of squared distances shown."""

    points: tuple[Point, ...]
    shown: float

    @property
    def text(self) -> str:
        """The topics, for a reader who cannot see the map."""
        return "; ".join(point.title for point in self.points)


def number(value: float, percent: bool) -> str:
    """Format a value of a chart."""
    return f"{100 * value:.3g} %" if percent else f"{value:.3g}"


def bars(
    names: Sequence[str],
    values: Sequence[float],
    errors: Sequence[float] | None = None,
    clear: Sequence[bool] | None = None,
    percent: bool = True,
) -> Rows:
    """Draw bars from 0 with standard errors, pale where they are not ``clear``."""
    sizes = [0.0] * len(values) if errors is None else errors
    unit = 100.0 / max([v + e for v, e in zip(values, sizes, strict=True)] + [1e-300])
    rows = []
    for name, value, error, sure in zip(names, values, sizes, clear or [True] * len(values), strict=True):
        # An error has no more decimals than its value.
        seen = error if abs(error) >= abs(value) / 100 else round(error, 2 - math.floor(math.log10(abs(value))))
        said = number(value, percent) + ("" if errors is None else f" ± {number(seen, percent)}")
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
        said = f"{mean:+.3g}" + (f", from {a:+.3g} to {b:+.3g}" if a < b else "")
        rows.append(Row(name, said, place(mean), place(mean), place(a), place(b), a <= 0.0 <= b))
    return Rows(tuple(rows), place(0.0))


def spending(spent: Sequence[tuple[str, float]]) -> Rows:
    """Draw epsilon after each of some names; the last one is stated."""
    unit = 100.0 / max(spent[-1][1], 1e-300)
    ends = [unit * min(epsilon, spent[-1][1]) for _, epsilon in spent]
    return Rows(
        tuple(
            Row(f"{name}:", f"epsilon = {rounded_up(epsilon)}", 0.0, end, end, end)
            for (name, epsilon), end in zip(spent, ends, strict=True)
        )
    )


@dataclass(frozen=True)
class Tree:
    """A drawn hierarchy: labels from the top, lines in percent."""

    labels: tuple[str, ...]
    #: Left, top, width and height of each line.
    lines: tuple[tuple[float, float, float, float], ...]

    @property
    def text(self) -> str:
        """The labels, for a reader who cannot see the lines."""
        return "; ".join(self.labels)


def tree(found: Hierarchy, labels: Sequence[str]) -> Tree:
    """Lay out a hierarchy, the closest pairs at the left."""
    wide = 100.0 / max(float(found.links[-1, 2]), 1e-300)
    high = 100.0 / len(found.order)
    lines: list[tuple[float, float, float, float]] = []
    for left, right, top, bottom, at in found.joints():
        above, below = (high * (place + 0.5) for place in (top, bottom))
        lines.append((wide * left, above, wide * (at - left), 0.0))
        lines.append((wide * right, below, wide * (at - right), 0.0))
        lines.append((wide * at, above, 0.0, below - above))
    return Tree(tuple(labels[k] for k in found.order), tuple(lines))


def topic_map(components: Array, titles: Sequence[str], numbers: Sequence[int]) -> Map:
    """Place topics by their distances.

    Topics are numbered from 0. A circle's area is the topic's share of all words.

    The largest topics come first, so that smaller circles lie over them. A label stands in its circle, above or below
    it, and is left out if earlier ones take all three places.
    """
    plane, shown = classical_mds(hellinger(components))
    shares = components.sum(axis=1) / components.sum()
    # One scale for both axes, so that distances are true; the circles at the border need space for their half.
    spread = float(np.ptp(plane, axis=0).max())
    unit = 76.0 / spread if spread > 1e-9 else 0.0
    x, y = (50.0 + unit * (plane - (plane.max(axis=0) + plane.min(axis=0)) / 2) * (1, -1)).T
    points: list[Point] = []
    for k in np.argsort(-shares, kind="stable").tolist():
        label = str(numbers[k] + 1)
        near = [p.label_y for p in points if p.label and abs(x[k] - p.x) < _DIGIT * (len(label) + len(p.label))]
        size = max(2.5, min(16.0, 18.0 * float(np.sqrt(shares[k]))))
        beside = size / 2 + _LINE / 2
        free = [at for at in (y[k], y[k] - beside, y[k] + beside) if all(abs(at - other) >= _LINE for other in near)]
        at = float((free or [y[k]])[0])
        points.append(Point(float(x[k]), float(y[k]), size, label if free else "", at, titles[k]))
    return Map(tuple(points), shown)


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
