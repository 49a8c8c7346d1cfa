"""VIPS article, Figure 4: the mean of the Polya-Gamma variable, by the kernel and of draws."""

from pathlib import Path

import numpy as np
from common import STYLES, listed, markdown, order, save, subplots

from vips_fast.kernels import pg_mean

TITLE = "VIPS article, Figure 4: the mean of the Pólya-Gamma variable against its argument"
NEEDS: tuple[str, ...] = ()
DRAWS, TERMS = 200_000, 200


def cells(scale: int) -> list[dict]:
    return [dict(argument=argument, draws=DRAWS // scale) for argument in (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)]


def run(cell: dict) -> dict:
    """Compute the kernel's mean, and the mean of draws: PG(1, c) is a weighted sum of exponentials (Polson, Scott &
    Windle 2013).

    The terms after the last that is drawn are replaced by their mean.
    """
    c = cell["argument"]
    k = np.arange(1, 100 * TERMS + 1)
    weights = 1 / (2 * np.pi**2 * ((k - 0.5) ** 2 + (c / (2 * np.pi)) ** 2))
    generator, sums = np.random.default_rng(round(c)), []
    for _ in range(0, cell["draws"], 10_000):
        sums.append(generator.exponential(size=(min(10_000, cell["draws"]), TERMS)) @ weights[:TERMS])
    draws = np.concatenate(sums) + weights[TERMS:].sum()
    error = float(draws.std() / np.sqrt(len(draws)))
    return dict(mean=float(pg_mean(c)), drawn=float(draws.mean()), error=error)


def orders(rows: list[dict]) -> list:
    """Check the maximum, the fall of the mean, and the draws."""
    pairs = list(zip(rows, rows[1:]))
    return [
        order(
            "the mean is 0.25 at 0", {f"c = {r['argument']:g}": r["mean"] == 0.25 for r in rows if r["argument"] == 0}
        ),
        order(
            "the mean falls with the argument",
            {f"c = {a['argument']:g} to {b['argument']:g}": a["mean"] > b["mean"] for a, b in pairs},
        ),
        order(
            "draws are within 4 standard errors of the kernel",
            {f"c = {r['argument']:g}": abs(r["mean"] - r["drawn"]) < 4 * r["error"] for r in rows},
        ),
    ]


def report(rows: list[dict]) -> str:
    columns = ("argument", "printed", "kernel `pg_mean`", "mean of draws ± its error")
    shown = [
        (
            f"{r['argument']:g}",
            "0.25" if r["argument"] == 0 else None,
            f"{r['mean']:.6f}",
            f"{r['drawn']:.5f} ± {r['error']:.5f}",
        )
        for r in rows
    ]
    return f"""No data: the function that Algorithms 5 and 6 take ⟨ξ⟩ from, b tanh(c/2)/(2c) with b = 1, beside
{rows[0]["draws"]:,} draws of the variable's own definition.

{listed(orders(rows))}

{markdown(columns, shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    figure, axes = subplots(figsize=(6, 3.6))
    c = np.linspace(0, 20, 401)
    axes.plot(c, pg_mean(c), color="black", label="kernel pg_mean")
    points = [[row[name] for row in rows] for name in ("argument", "drawn")]
    axes.plot(*points, **STYLES[1] | dict(linestyle="none"), label="mean of draws")
    axes.axhline(0.25, color="grey", linestyle=":", label="maximum, 0.25")
    axes.set(xlabel="argument c, the root of xᵀ⟨mmᵀ⟩x", ylabel="⟨ξ⟩ = E PG(1, c)", ylim=(0, 0.27), xlim=(-0.4, 20.4))
    axes.legend()
    return save(figure, folder, "pg_fig4")
