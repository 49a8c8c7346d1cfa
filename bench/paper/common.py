"""Shared by the papers' figures: the data's place, tables, and pictures.

Tables are Markdown, and gray leaves the pictures readable.
"""

import gzip
import json
import math
import os
import re
import statistics
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# `peers` lies beside this folder, and models of one's own among the pages. A figure that is run as a script finds them
# once it has imported this module.
sys.path += [str(ROOT / "bench"), str(ROOT / "docs" / "examples")]
DATA = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data"))
#: Line, marker and color of the first, second, ... method of a picture: told apart by any one of the three.
STYLES = [
    dict(linestyle=line, marker=marker, color=color)
    for line, marker, color in zip(
        ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2))),
        "os^Dvx*",
        ("#000000", "#c8372d", "#1f5fa8", "#3b8f3b", "#8c5fb0", "#c08a00", "#555555"),
    )
]

#: Filling of the first, second, ... method's boxes.
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo")


def newsgroup_posts(part) -> list[dict]:
    """Load the posts of "train" or "test": text, person and label."""
    with gzip.open(DATA / "people" / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def markdown(columns, rows) -> str:
    """Write a table; numbers have four digits, and None is a dash."""

    def text(value):
        if value is None:
            return "–"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    lines = [columns, ["---"] * len(columns), *([text(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def spread(values, digits=4) -> str:
    """Mean ± standard deviation, without leading zeros."""
    values = list(values)
    if not values:
        return "–"
    shown = f"{statistics.mean(values):.{digits}f}"
    if len(values) > 1:
        shown += f" ± {statistics.stdev(values):.{digits}f}"
    return re.sub(r"\b0\.", ".", shown)


#: How a step of strong composition states its guarantee; see `strong_composition_noise`.
TIGHT, CLASSICAL = "strong composition, tight step", "strong composition, classical step"


def strong_composition_noise(target, size, n, steps, delta, step=TIGHT, step_delta=None, mean_share=1.0) -> float:
    """Calibrate noise by strong composition, theorem 3.20 of Dwork & Roth (2014).

    A step is a Gaussian on ``size`` of ``n`` records, replacing one. TIGHT takes the exact (ε, δ) of that step and the
    best share of delta for it. CLASSICAL takes σ = sqrt(2 ln(1.25/δ')) / ε' and amplifies (ε', δ') to
    (ln(1 + q (e^ε' - 1)), q δ'). There δ' is ``step_delta``, or leaves half of delta as the theorem's slack.
    ``mean_share`` is 1/2 in the authors' code for networks, which halves the theorem's last term.
    """
    from peers.theorems import strong_composition
    from scipy.optimize import brentq

    from vips_fast.accounting import GaussianEvent, WithoutReplacementEvent, epsilon

    q = size / n
    if step == TIGHT:

        def spent(z):
            noise = GaussianEvent(z, relation="replace_one")
            one = noise if size == n else WithoutReplacementEvent(size, n, noise)
            shares = ((share, epsilon(one, (1 - share) * delta / steps)) for share in (0.1, 0.3, 0.5, 0.7, 0.9))
            return min(strong_composition(each, 0.0, steps, share * delta)[0] for share, each in shares)

        return brentq(lambda z: spent(z) - target, 0.1, 1e4, rtol=1e-6)
    each = delta / (2 * steps * q) if step_delta is None else step_delta
    slack = delta - steps * q * each

    def excess(e0):
        one = math.log1p(q * math.expm1(e0))
        whole = strong_composition(one, 0.0, steps, slack)[0]
        return whole - (1 - mean_share) * steps * one * math.expm1(one) - target

    return math.sqrt(2 * math.log(1.25 / each)) / brentq(excess, 1e-9, 50.0, xtol=1e-14)


class Order(NamedTuple):
    """A printed order of two methods, and the settings that keep it. Others break it."""

    statement: str
    holds: list[str]
    fails: list[str]

    @property
    def count(self) -> str:
        """How often it holds."""
        return f"{len(self.holds)} of {len(self.holds) + len(self.fails)}"

    @property
    def not_at(self) -> str:
        """The settings that break it; of more than three the first two."""
        if len(self.fails) > 3:
            return "; ".join([*self.fails[:2], f"{len(self.fails) - 2} more"])
        return "; ".join(self.fails)


def order(statement, cases) -> Order:
    """Sort the settings of ``cases``. They map each to whether the order holds, or to None without a run."""
    held = {name: holds for name, holds in cases.items() if holds is not None}
    return Order(statement, [n for n, holds in held.items() if holds], [n for n, holds in held.items() if not holds])


def listed(orders) -> str:
    """Write orders: the ones that hold everywhere, then the others."""
    kept = "; ".join(f"{o.statement} ({len(o.holds)})" for o in orders if not o.fails)
    broken = [f"- {o.statement}: {o.count}, not at {o.not_at}" for o in orders if o.fails]
    return "\n\n".join(filter(None, [kept and f"Holds at every setting: {kept}.", "\n".join(broken)]))


def wrapped(text) -> str:
    """Break lines of Markdown at 120 characters, except for tables."""
    parts = text.split("\n\n")
    for i, part in enumerate(parts):
        if not part.startswith(("|", "!")):
            items = part.split("\n") if part.startswith("- ") else [part]
            lines = (
                textwrap.fill(x, 120, subsequent_indent="  " * x.startswith("- "), break_on_hyphens=False)
                for x in items
            )
            parts[i] = "\n".join(lines)
    return "\n\n".join(parts)


def crossed(corner, lines, columns, cell) -> str:
    """Write a table of ``cell(line, column)``, without empty lines. ``lines`` and ``columns`` map values to titles."""
    rows = [(title, *(cell(line, column) for column in columns)) for line, title in lines.items()]
    return markdown((corner, *columns.values()), [row for row in rows if any(value is not None for value in row[1:])])


def subplots(*shape, **options):
    """``matplotlib.pyplot.subplots`` without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(*shape, **options)


def boxes(axes, series, groups):
    """Draw box plots side by side.

    ``series`` maps a method to the values of each group, which may be empty.

    A box is the quartiles, its line the median, the filled mark the mean; a single value is a line with its mark.
    Returns the handles of a legend by their names.
    """
    width, handles = 0.84 / len(series), {}
    for i, (name, values) in enumerate(series.items()):
        held = [g for g in range(len(groups)) if values[g]]
        if not held:
            continue
        style = STYLES[i]
        face = dict(facecolor=str(1 - 0.06 * i), hatch=HATCHES[i], edgecolor="black", linewidth=0.8)
        mark = dict(marker=style["marker"], markerfacecolor=style["color"], markeredgecolor="black", markersize=5)
        drawn = axes.boxplot(
            [values[g] for g in held],
            positions=[g + (i - (len(series) - 1) / 2) * width for g in held],
            widths=0.8 * width,
            manage_ticks=False,
            patch_artist=True,
            showmeans=True,
            meanprops=mark,
            boxprops=face,
            medianprops=dict(color="black"),
            flierprops=dict(marker=".", markersize=3),
        )
        handles[name] = drawn["boxes"][0], drawn["means"][0]
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    return handles


def save(figure, folder, name) -> list[Path]:
    """Write a matplotlib figure as a PNG of 32 colors. The same figure gives the same bytes. Returns its path."""
    import matplotlib.pyplot as plt
    from PIL import Image

    path = Path(folder) / f"{name}.png"
    figure.savefig(path, dpi=90, bbox_inches="tight")
    plt.close(figure)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(32)
    small.save(path, optimize=True)
    return [path]
