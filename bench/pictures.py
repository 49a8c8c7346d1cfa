"""Draw epsilon over steps, by the accountant: docs/accounting/steps.png.

python -m bench.pictures
"""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent / "paper"))

from common import ROOT, STYLES, save, subplots

from vips_fast.accounting import GaussianEvent, PoissonSampledEvent, SelfComposedEvent, epsilon

DELTA = 1e-5
#: Share of the records in a step, and noise multiplier: runs with about the same epsilon after 80 steps.
RUNS = ((1.0, 20.0), (0.1, 2.2), (0.01, 0.75))


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
    """Draw the picture."""
    print(*steps(ROOT / "docs" / "accounting"))


if __name__ == "__main__":
    main()
