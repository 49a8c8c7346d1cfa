"""Shared by the papers' figures: the data's place, Markdown tables, and pictures that gray leaves readable."""

import gzip
import json
import math
import os
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# `peers` lies beside this folder. A figure that is run as a script finds it once it has imported this module.
sys.path.append(str(ROOT / "bench"))
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
    """The posts of "train" or "test", each with its text, person and label."""
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
    return shown.replace("0.", ".")


def strong_composition_noise(target, q, steps, delta) -> float:
    """Noise multiplier that strong composition needs, as the VIPS article's baseline does it.

    A Gaussian step is (e0, d0)-DP with noise multiplier sqrt(2 ln(1.25/d0)) / e0; subsampling makes it (ln(1 + q (e^e0
    - 1)), q d0); steps compose by theorem 3.20 of Dwork & Roth (2014). Half of delta is its slack, half the steps'.
    """
    from scipy.optimize import brentq

    from vips_fast.accounting import strong_composition

    def excess(e0):
        return strong_composition(math.log1p(q * math.expm1(e0)), 0.0, steps, delta / 2)[0] - target

    return math.sqrt(2 * math.log(1.25 / (delta / (2 * steps * q)))) / brentq(excess, 1e-9, 50.0, xtol=1e-14)


def subplots(*shape, **options):
    """``matplotlib.pyplot.subplots`` without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(*shape, **options)


def boxes(axes, series, groups):
    """Box plots side by side: ``series`` maps a method to the values of each group, which may be empty.

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
    """Write a matplotlib figure as a PNG of 32 colors, the same bytes for the same figure; returns its path."""
    import matplotlib.pyplot as plt
    from PIL import Image

    path = Path(folder) / f"{name}.png"
    figure.savefig(path, dpi=90, bbox_inches="tight")
    plt.close(figure)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(32)
    small.save(path, optimize=True)
    return [path]
