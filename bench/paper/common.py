"""What the figures of the papers share: where the data lie, Markdown tables, and pictures that grey leaves readable."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data"))
#: Line, marker and colour of the first, second, ... method of a picture: told apart by each of the three alone.
STYLES = [
    dict(linestyle=line, marker=marker, color=color)
    for line, marker, color in zip(
        ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2))), "os^Dvx*",
        ("#000000", "#c8372d", "#1f5fa8", "#3b8f3b", "#8c5fb0", "#c08a00", "#555555"),
    )
]  # fmt: skip


def markdown(columns, rows) -> str:
    """A table; what is no text is shown to four digits, and None as a dash."""

    def text(value):
        if value is None:
            return "–"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    lines = [columns, ["---"] * len(columns), *([text(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def subplots(*shape, **options):
    """``matplotlib.pyplot.subplots`` without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(*shape, **options)


def save(figure, folder, name) -> list[Path]:
    """Write a matplotlib figure as PNG and SVG, the same bytes for the same figure; returns both paths."""
    import matplotlib
    import matplotlib.pyplot as plt

    paths = [Path(folder) / f"{name}.png", Path(folder) / f"{name}.svg"]
    matplotlib.rcParams["svg.hashsalt"] = name
    figure.savefig(paths[0], dpi=90, bbox_inches="tight")
    figure.savefig(paths[1], bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    return paths
