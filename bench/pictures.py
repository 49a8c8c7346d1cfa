"""Draw the pictures of pages: epsilon over steps, and the first page's topics.

    python -m bench.pictures           # docs/accounting/steps.png, by the accountant
    python -m bench.pictures topics    # docs/topics/texts.png, texts.txt and report.png, from one fit to the posts

The head of a report is looked at in Chromium, and left out without one.
"""

import os
import shutil
import subprocess
import sys
import tempfile
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


def topics(folder: Path) -> list[Path]:
    """Fit topics to the posts as README does; write what it prints, its picture, and the head of its report."""
    import pandas

    from vips_fast import PrivateTopics

    data = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data")) / "people" / "train.parquet"
    frame = pandas.read_parquet(data).rename(columns={"text": "note", "person": "patient"})
    found = PrivateTopics(epsilon=2.0, language="en").fit(frame, text="note", person="patient")
    made = [folder / "texts.txt", folder / "texts.png"]
    made[0].write_text(f"{found}\n", "utf-8")
    found.plot(n_topics=8).savefig(made[1], dpi=100)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is not None:
        with tempfile.TemporaryDirectory() as place:
            found.report(page := Path(place) / "page.html")
            look = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            look += ["--window-size=1000,480", f"--screenshot={folder / 'report.png'}", page.as_uri()]
            subprocess.run(look, check=True, capture_output=True)
        made.append(folder / "report.png")
    return made


def main() -> None:
    """Draw a picture."""
    if sys.argv[1:] == ["topics"]:
        print(*topics(ROOT / "docs" / "topics"))
    else:
        print(*steps(ROOT / "docs" / "accounting"))


if __name__ == "__main__":
    main()
