"""Where things stand in the figures of a report: numbers in the units of an SVG's viewBox, drawn by the templates.

A figure is `WIDTH` units wide, so that it is readable on a phone without being scaled, and stands beside others on a
wide screen. Texts are given room by an upper estimate of their width, so that none is cut and none overlaps another.
"""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, ROW, SIZE = 340, 22, 12
#: Room for the labels of rows, and where the plot begins and ends.
LABELS, LEFT, RIGHT = 124, 132, 332
_HIGH_ROW, _MAP_HEIGHT = 34, 300
_NARROW = frozenset("fijlrtI.,:;'|!()[]/ ")


@dataclass(frozen=True)
class Tick:
    """A mark of an axis: where, what it says, and which side of the text is there."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True)
class Row:
    """A line of a figure: where its label ends up, the label, and from where to where bar and error go."""

    y: float
    label: str
    label_y: float
    start: float
    end: float
    low: float
    high: float
    weak: bool
    text: str


@dataclass(frozen=True)
class Rows:
    """A figure of rows; labels stand beside their bars, or above them where names are long."""

    above: bool
    height: float
    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    zero: float
    text: str


@dataclass(frozen=True)
class Point:
    """A topic on the map; a label that has no room is left out."""

    x: float
    y: float
    r: float
    label: str
    label_x: float
    label_y: float
    title: str


@dataclass(frozen=True)
class Map:
    """Topics in two dimensions, and the share of their squared distances that these show."""

    height: float
    points: tuple[Point, ...]
    shown: float
    text: str


@dataclass(frozen=True)
class Curve:
    """A rising line: its path and points, and what its axes say."""

    height: float
    path: str
    points: tuple[tuple[float, float, str], ...]
    base: float
    bottom: str
    top: str
    first: str
    last: str
    text: str


def text_width(text: str, size: float = SIZE) -> float:
    """An upper estimate of the width of a text in a usual sans-serif font, the widest of which is DejaVu Sans."""
    return size * sum(map(_advance, text))


def _advance(c: str) -> float:
    if unicodedata.combining(c):
        return 0.0
    if c in "mwMW@%…—" or unicodedata.east_asian_width(c) in "WF":
        return 1.05
    if not c.isascii():
        return 1.1 if c.isupper() else 0.85
    if c in _NARROW:
        return 0.41
    return 0.86 if c.isupper() or c in "<>+=#~^&*" else 0.66


def shortened(text: str, room: float, size: float = SIZE) -> str:
    """A text, or as much of it as fits the room with an ellipsis; what cannot be printed is a dot."""
    text = "".join(c if c.isprintable() else "·" for c in text)
    if text_width(text, size) <= room:
        return text
    while text and text_width(text + "…", size) > room:
        text = text[:-1]
    return text + "…"


def bars(
    names: Sequence[str], values: Sequence[float], errors: Sequence[float] | None = None, percent: bool = True
) -> Rows:
    """Bars from 0, each with one standard error on both sides; pale where the value is below two of them."""
    sizes = [0.0] * len(values) if errors is None else errors
    top = max([v + e for v, e in zip(values, sizes, strict=True)] + [1e-300])
    unit = (RIGHT - LEFT) / top
    rows = []
    for i, (name, value, error) in enumerate(zip(names, values, sizes, strict=True)):
        low, high = LEFT + unit * max(0.0, value - error), LEFT + unit * (value + error)
        weak = errors is not None and value < 2.0 * error
        said = f"{name} {number(value, percent)}" + (f" ± {number(error, percent)}" if errors is not None else "")
        y, end = ROW * i + 12.0, LEFT + unit * max(0.0, value)
        rows.append(Row(y, shortened(name, LABELS), y + 4, LEFT, end, low, high, weak, said))
    height = ROW * len(rows) + 22
    ticks = (Tick(LEFT, "0", "start"), Tick(RIGHT, number(top, percent), "end"))
    return Rows(False, height, tuple(rows), ticks, LEFT, "; ".join(row.text for row in rows))


def intervals(
    names: Sequence[str],
    means: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    span: tuple[float, float],
) -> Rows:
    """Points with intervals, pale where the interval holds 0; ``span`` is that of the axis and holds 0."""
    low, high = span
    left = WIDTH - RIGHT
    unit = (RIGHT - left - 8) / max(high - low, 1e-300)

    def place(value: float) -> float:
        return left + 4 + unit * (min(max(value, low), high) - low)

    rows = []
    for i, (name, mean, a, b) in enumerate(zip(names, means, lows, highs, strict=True)):
        said = f"{name} {mean:+.3g}, from {a:+.3g} to {b:+.3g}"
        y, at = _HIGH_ROW * i + 24.0, place(mean)
        label = shortened(name, RIGHT - left)
        rows.append(Row(y, label, y - 11, at, at, place(a), place(b), a <= 0.0 <= b, said))
    zero = place(0.0)
    ticks = [Tick(zero, "0", "middle")]
    if zero - left > text_width(f"{low:+.2g}") + 14:
        ticks.insert(0, Tick(left, f"{low:+.2g}", "start"))
    if RIGHT - zero > text_width(f"{high:+.2g}") + 14:
        ticks.append(Tick(RIGHT, f"{high:+.2g}", "end"))
    height = _HIGH_ROW * len(rows) + 24
    return Rows(True, height, tuple(rows), tuple(ticks), zero, "; ".join(row.text for row in rows))


def number(value: float, percent: bool) -> str:
    """A value of an axis."""
    return f"{100 * value:.3g} %" if percent else f"{value:.3g}"


def distances(components: np.ndarray) -> np.ndarray:
    """Hellinger distances of topics of any scale, (K, V): (K, K) float64 in [0, 1]."""
    roots = np.sqrt(components / components.sum(axis=1, keepdims=True))
    alike = np.clip(np.einsum("kv,lv->kl", roots, roots), 0.0, 1.0)
    np.fill_diagonal(alike, 1.0)
    return np.asarray(np.sqrt(1.0 - alike))


def classical_mds(distance: np.ndarray) -> tuple[np.ndarray, float]:
    """Points of a plane whose distances are about as given, (K, 2), and the share of the squares that they show.

    Classical multidimensional scaling (Torgerson 1952): the two leading eigenvectors of -J D² J / 2, J = I - 1/K, each
    with a sign that makes its largest entry positive.
    """
    centre = np.eye(len(distance)) - 1.0 / len(distance)
    values, vectors = np.linalg.eigh(-0.5 * np.einsum("ij,jk,kl->il", centre, distance**2, centre))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    plane = np.zeros((len(distance), 2))
    found = vectors[:, :2] * np.sqrt(values[:2])
    plane[:, : found.shape[1]] = found * np.sign(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])])
    total = float(values.sum())
    return plane, float(values[:2].sum()) / total if total > 0 else 0.0


def topic_map(components: np.ndarray, titles: Sequence[str], numbers: Sequence[int]) -> Map:
    """Topics, of numbers from 0, as circles whose areas are their shares of all words, placed by their distances."""
    plane, shown = classical_mds(distances(components))
    weights = components.sum(axis=1)
    radii = np.maximum(4.0, np.minimum(26.0, 60.0 * np.sqrt(weights / weights.sum()) / 2))
    spread = np.maximum(np.ptp(plane, axis=0), 1e-12)
    # One scale for both axes, so that distances are true.
    unit = min((WIDTH - 64) / spread[0], (_MAP_HEIGHT - 64) / spread[1]) if spread.max() > 1e-9 else 0.0
    middle = (plane.max(axis=0) + plane.min(axis=0)) / 2
    x, y = WIDTH / 2 + unit * (plane[:, 0] - middle[0]), _MAP_HEIGHT / 2 - unit * (plane[:, 1] - middle[1])
    boxes: list[tuple[float, float, float, float]] = []
    circles = [(a - r, b - r, a + r, b + r) for a, b, r in zip(x.tolist(), y.tolist(), radii.tolist(), strict=True)]
    points: list[Point] = []
    for k in np.argsort(-weights, kind="stable").tolist():
        label, half = str(numbers[k] + 1), text_width(str(numbers[k] + 1)) / 2
        at = None
        places = [(float(x[k]) + dx, float(y[k]) + dy) for dx, dy in _places(float(radii[k]), half)]
        # Clear of all other circles, or at least of the labels that stand already.
        for taken in (boxes + circles[:k] + circles[k + 1 :], boxes):
            for a, b in places if at is None else ():
                box = (a - half - 1, b - SIZE / 2 - 2, a + half + 1, b + SIZE / 2 + 2)
                inside = box[0] >= 0 and box[1] >= 0 and box[2] <= WIDTH and box[3] <= _MAP_HEIGHT
                if inside and not any(_overlap(box, other) for other in taken):
                    at = a, b
                    boxes.append(box)
                    break
        label_x, label_y = at or (0.0, 0.0)
        points.append(
            Point(float(x[k]), float(y[k]), float(radii[k]), label if at else "", label_x, label_y + 4, titles[k])
        )
    return Map(_MAP_HEIGHT, tuple(points), shown, "; ".join(titles))


def _places(radius: float, half: float) -> list[tuple[float, float]]:
    """Where a label may stand, from the centre: in the circle, around it, and further out."""
    places = [(0.0, 0.0)] if radius >= half + 2 else []
    for far in (radius + half + 3, radius + half + 16):
        turns = [math.pi / 4 * i for i in range(8)]
        places += [(far * math.cos(turn), (far + 2) * math.sin(turn)) for turn in turns]
    return places


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def spending_curve(spent: Sequence[tuple[int, float]]) -> Curve:
    """Epsilon over the number of releases; the last point is what is stated."""
    left, right, top, bottom = 56.0, WIDTH - 12.0, 18.0, 150.0
    n, most = max(spent[-1][0], 1), max(spent[-1][1], 1e-300)
    points = tuple(
        (
            left + (right - left) * step / n,
            bottom - (bottom - top) * min(1.0, epsilon / most),
            f"after {step} releases: epsilon = {epsilon:.4g}",
        )
        for step, epsilon in spent
    )
    path = "M" + " L".join(f"{a:.1f} {b:.1f}" for a, b, _ in points)
    return Curve(
        bottom + 28,
        path,
        points,
        bottom,
        "0",
        f"{most:.3g}",
        "0",
        f"{n} releases",
        "; ".join(said for _, _, said in points),
    )
