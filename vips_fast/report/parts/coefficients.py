"""Logistic regression: coefficients with their intervals, and ``coefficients.csv``."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import figures
from ..part import MOST_ROWS, Group, Learned, Part

#: So that a page stays below 3 MB.
_MOST_CELLS = 5_000


class Coefficients(Part):
    """The part of a logistic regression."""

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show the largest coefficients of each class."""
        means, d = model.coef_, model.n_features_in_
        limits = model.credible_interval(0.9).reshape(*means.shape, 2)
        names = [f"column {j + 1}" for j in range(d)] if columns is None else list(columns)
        classes = [str(label) for label in model.classes_.tolist()]
        titles = [f"for {c} against the rest" for c in classes]
        if len(means) == 1:
            titles = [f"for {classes[1]} against {classes[0]}"]
        most = max(5, MOST_ROWS // len(means))
        groups, table, clear = [], [], 0
        for k, title in enumerate(titles):
            chosen = np.argsort(-np.abs(means[k]), kind="stable")[:most]
            low, high = limits[k, :, 0], limits[k, :, 1]
            clear += int(((low > 0) | (high < 0)).sum())
            span = min(0.0, float(low[chosen].min())), max(0.0, float(high[chosen].max()))
            for first in range(0, len(chosen), 20):
                part = chosen[first : first + 20]
                rows = figures.intervals(
                    [names[j] for j in part], means[k, part].tolist(), low[part].tolist(), high[part].tolist(), span
                )
                groups.append(Group(title + (", continued" if first else ""), rows))
            listed = np.sort(np.argsort(-np.abs(means[k]), kind="stable")[: max(1, _MOST_CELLS // len(means))])
            table += [
                ((title,) if len(means) > 1 else ())
                + (names[j], *(f"{v:+.4g}" for v in (means[k, j], low[j], high[j])))
                for j in listed.tolist()
            ]
        head = (("class",) if len(means) > 1 else ()) + ("column", "mean", "5 %", "95 %")
        return Learned(
            "A coefficient is how much a column adds to the log odds, all others being the same. The point is the "
            "posterior mean, the line the 90 % interval, which takes the noise into account. Pale intervals hold 0: "
            f"their sign is not known. Shown are the {most * len(means) if most < d else means.size} largest of "
            f"{means.size}; of all, {clear} have an interval without 0.",
            groups=tuple(groups),
            columns=head,
            table=tuple(table),
            caption="All coefficients" if len(table) == means.size else f"The {len(table)} largest coefficients",
        )

    def text(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write posterior means and intervals, of each class if there are several."""
        if columns is None:
            return ""
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        several, intervals = len(model.coef_) > 1, model.credible_interval(0.9).reshape(*model.coef_.shape, 2)
        table.writerow([*["class"] * several, "feature", "mean", "low_90", "high_90"])
        for k, label in enumerate(model.classes_.tolist() if several else [None]):
            own = [label] * several
            table.writerow([*own, "(intercept)", f"{model.intercept_[k]:.6g}", "", ""])
            for name, mean, interval in zip(columns, model.coef_[k], intervals[k], strict=True):
                table.writerow([*own, name, *(f"{number:.6g}" for number in (mean, *interval))])
        return out.getvalue()

    def outputs(self, model: Any, n: int) -> list[str]:
        """Name the probabilities by their labels."""
        return [f"p({label})" for label in model.classes_.tolist()]
