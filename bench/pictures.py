"""Draw pictures of the pages: forecast against outcome, epsilon over steps.

They come from stored fits and from the accountant.

    python -m bench.pictures

Writes docs/forecast/outcome.png, of the fits in bench/forecast.json, and docs/accounting/steps.png.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent / "paper"))

from common import ROOT, STYLES, save, subplots

from bench.forecast import CORPORA, of_one_method, planned
from vips_fast.accounting import GaussianEvent, PoissonSampledEvent, SelfComposedEvent, epsilon

DELTA = 1e-5
#: Share of the records in a step, and noise multiplier: runs with about the same epsilon after 80 steps.
RUNS = ((1.0, 20.0), (0.1, 2.2), (0.01, 0.75))


def outcome(folder: Path) -> list[Path]:
    """Draw the measured gain of each fit beside its forecast and interval."""
    figure, axes = subplots(figsize=(5.6, 4.2))
    for style, source in zip(STYLES, dict.fromkeys(row[0] for row in CORPORA.values()), strict=False):
        points = []
        for row in of_one_method("fits"):
            if CORPORA[row["corpus"]][0] != source or "gain" not in row:
                continue
            said = planned(row)
            if not said.hopeless:
                points.append((said.expected_gain, row["gain"], said.gain_low, said.gain_high))
        x, y, low, high = np.clip(np.transpose(points), -0.3, 1.0)
        axes.hlines(y, low, high, color=style["color"], linewidth=0.6, alpha=0.5)
        axes.plot(x, y, label=source, markersize=4, **{**style, "linestyle": ""})
    axes.plot([-0.3, 0.8], [-0.3, 0.8], ":", color="0.5", linewidth=0.9)
    axes.set(xlabel="forecast of the gain, and its interval", ylabel="gain of the fit over word frequencies")
    axes.set(xlim=(-0.3, 0.8), ylim=(-0.3, 0.8))
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    figure.tight_layout()
    return save(figure, folder, "outcome")


def steps(folder: Path) -> list[Path]:
    """Draw epsilon over the steps of runs on samples."""
    figure, axes = subplots(figsize=(5.6, 3.4))
    numbers = np.unique(np.geomspace(1, 1000, 25).astype(int))
    for style, (share, noise) in zip(STYLES, RUNS, strict=False):
        step = GaussianEvent(noise, "add_remove")
        event = step if share == 1.0 else PoissonSampledEvent(share, step)
        found = [epsilon(SelfComposedEvent(event, int(number)), DELTA) for number in numbers]
        label = f"{share:.0%} of the records a step, noise {noise:g}"
        axes.plot(numbers, found, label=label, **{**style, "marker": ""})
    axes.set(xscale="log", xlabel="steps", ylabel="ε at δ = 10⁻⁵", ylim=(0, None))
    axes.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    return save(figure, folder, "steps")


def main() -> None:
    """Draw both."""
    for draw, folder in ((outcome, "forecast"), (steps, "accounting")):
        place = ROOT / "docs" / folder
        place.mkdir(exist_ok=True)
        print(*draw(place))


if __name__ == "__main__":
    main()
