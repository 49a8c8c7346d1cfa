"""Draw fitted models from their published arrays; needs matplotlib (extra ``plot``).

Each function gives a ``matplotlib.figure.Figure`` of its own, outside pyplot: a notebook shows it, ``savefig`` writes
it, and nothing has to be closed.

A model that is not private says so above.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..checks import check_number, missing_package
from ..data.types import Array
from .estimator import PrivateEstimator

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(model: PrivateEstimator, width: float, height: float) -> "Figure":
    """Make an empty figure, in inches; ImportError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_package("a plot", "matplotlib", "plot") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    if model.privacy_.taints:
        figure.suptitle("NOT PRIVATE: " + "; ".join(model.privacy_.taints), color="darkred", wrap=True, fontsize=9)
    return figure


def column_names(names: Sequence[str] | None, n: int, form: str) -> list[str]:
    """Name the columns, or number them in a form. Raises ValueError if names and columns differ in number."""
    if names is not None and len(names) != n:
        raise ValueError(f"names: {len(names)} were given; expected {n}, one for each column")
    # A dollar sign would begin a formula.
    return [form.format(k) for k in range(n)] if names is None else [str(name).replace("$", r"\$") for name in names]


def plot_topics(
    model: PrivateEstimator,
    components: Array,
    errors: Array,
    clear: Array,
    scores: Array,
    names: Sequence[str] | None,
    n_words: int,
    shown: Sequence[int],
) -> "Figure":
    """Draw a panel of the probabilities of each topic's first words, by their ``scores``.

    One standard error stands on either side, none if it is NaN; bars that are not ``clear``, (K, V), are pale. Topics
    that are ``shown`` are numbered from 0.
    """
    check_number("n_words", n_words, 1, components.shape[1], integer=True)
    known, columns = column_names(names, components.shape[1], "#{}"), min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(model, 3.0 * columns, (0.22 * n_words + 0.7) * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for k, panel in zip(shown, panels, strict=False):
        first, total = np.argsort(-scores[k], kind="stable")[:n_words], components[k].sum()
        values, sd = components[k, first] / total, errors[k, first] / total
        colors = np.where(clear[k, first], "#0b5cad", "#9db9d6")
        panel.barh(range(n_words), values, color=colors, xerr=sd if np.nan_to_num(sd).any() else None)
        panel.set_yticks(range(n_words), [known[v] for v in first], fontsize=8)
        panel.invert_yaxis()
        panel.set_xlim(0)
        panel.tick_params(axis="x", labelsize=7)
        panel.set_title(f"Topic {k + 1}", fontsize=9)
    return figure


def plot_coefficients(
    model: PrivateEstimator, means: Array, limits: Array, titles: Sequence[str], names: Sequence[str] | None, most: int
) -> "Figure":
    """Draw a panel for each row of means, with their limits.

    Means are (K, d), and limits (K, d, 2), infinite where an effect is not known: then there is no line. The ``most``
    largest means are drawn.
    """
    check_number("most", most, 1, math.inf, integer=True)
    known, shown = column_names(names, means.shape[1], "column {}"), min(most, means.shape[1])
    figure = new_figure(model, 5.0 * len(means), 0.22 * shown + 1.0)
    for panel, mean, limit, title in zip(
        figure.subplots(1, len(means), squeeze=False)[0], means, limits, titles, strict=True
    ):
        first = np.argsort(-np.abs(mean), kind="stable")[:shown]
        low, high = limit[first].T
        sure, colors = np.isfinite(low), np.where((low <= 0) & (high >= 0), "#9db9d6", "#0b5cad")
        panel.axvline(0.0, color="grey", linewidth=0.8)
        panel.hlines(np.flatnonzero(sure), low[sure], high[sure], color=colors[sure])
        panel.scatter(mean[first], range(shown), color=colors, s=16)
        panel.set_yticks(range(shown), [known[j] + " (not known)" * (not s) for j, s in zip(first, sure, strict=True)])
        panel.tick_params(axis="y", labelsize=8)
        panel.invert_yaxis()
        panel.set_title(title, fontsize=9)
    return figure
