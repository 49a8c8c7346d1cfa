"""All accountants on one setting, with the interval that is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .accountants import (
    ACCOUNTANTS,
    check_delta,
    check_event,
    default_accountant,
    epsilon,
    gaussian_mu,
)
from .accountants import _is_non_private, _is_void
from .events import PrivacyEvent, WithoutReplacementEvent, _leaves

__all__ = ["ComparisonRow", "compare", "epsilon_curve", "epsilon_lower_bound", "plot_epsilon"]


@dataclass(frozen=True)
class ComparisonRow:
    """One line of `compare`.

    Attributes
    ----------
    accountant : str
        Name; ``"attack"`` for the lower bound.
    kind : {"lower", "upper"}
        A lower bound that an explicit attack reaches, or a proven bound.
    epsilon : float
    title, source : str
        What it is and where it is proven.
    default : bool
        Whether `epsilon` would use it without being told.
    """

    accountant: str
    kind: str
    epsilon: float
    title: str
    source: str
    default: bool = False


def epsilon_lower_bound(event: PrivacyEvent, delta: float, rtol: float = 5e-3) -> float:
    """The largest epsilon at `delta` that a known attack reaches.

    No accountant can prove less.  For whole-data mechanisms and Poisson
    sampling the attack is the worst case itself, so the gap to accountant
    ``"pld"`` is numerical only.  For sampling without replacement it is the
    better of two explicit pairs of data sets: one record that differs from
    n - 1 equal ones, and three mutually equidistant values.

    Parameters
    ----------
    event : PrivacyEvent
    delta : float
        In (0, 1).
    rtol : float
        Relative accuracy; the answer is a lower bound for every value.

    Returns
    -------
    float
        >= 0.  The bound is for the worst mechanism with the event's noise
        multiplier, not for a particular model.
    """
    check_event(event)
    delta = check_delta(delta)
    leaves = _leaves(event)
    if any(_is_non_private(leaf) for leaf in leaves):
        return math.inf
    if all(_is_void(leaf) for leaf in leaves):
        return 0.0
    if gaussian_mu(event) is not None:
        # Exact up to the rounding upwards of a few 1e-12.
        return (1.0 - 1e-9) * epsilon(event, delta)
    from .pld import PrivacyLoss

    attacks = (0, 1) if any(isinstance(leaf, WithoutReplacementEvent) for leaf in leaves) else (0,)
    # A cheap upper bound of each attack tells whether it can be the best.
    known = [PrivacyLoss(event, rtol, attack=a) for a in attacks]
    upper = [loss.epsilon(delta) for loss in known] if len(known) > 1 else [math.inf]
    best = 0.0
    for bound, loss in sorted(zip(upper, known), key=lambda pair: -pair[0]):
        if bound > best:
            best = max(best, loss.epsilon_lower(delta))
    return best


def compare(
    event: PrivacyEvent, delta: float, accountants: Sequence[str] | None = None, rtol: float = 5e-3
) -> list[ComparisonRow]:
    """Every sound accountant's epsilon for one event, and the best attack's.

    Parameters
    ----------
    event : PrivacyEvent
    delta : float
        In (0, 1).
    accountants : sequence of str or None
        Names to compare; None takes all that apply.  An accountant that
        cannot bound the event, or whose package is not installed, is left
        out, unless it was named.
    rtol : float
        Accuracy of the lower bound.

    Returns
    -------
    list of ComparisonRow
        First the attack, then the bounds from the smallest epsilon up.  The
        exact value lies between the first two.
    """
    check_event(event)
    delta = check_delta(delta)
    best = default_accountant(event)
    rows = []
    for name in ACCOUNTANTS if accountants is None else accountants:
        try:
            value = epsilon(event, delta, name)
        except (ValueError, ImportError):
            if accountants is not None:
                raise
            continue
        account = ACCOUNTANTS[name]
        rows.append(
            ComparisonRow(name, "upper", value, account.title, account.source, name == best)
        )
    rows.sort(key=lambda row: (row.epsilon, not row.default))
    lower = ComparisonRow(
        "attack", "lower", epsilon_lower_bound(event, delta, rtol),
        "best attack known", "likelihood-ratio test between explicit neighbouring data sets",
    )
    return [lower, *rows]


def epsilon_curve(
    make_event: Callable[[int], PrivacyEvent], max_steps: int, delta: float,
    accountant: str | None = None, points: int = 24,
) -> tuple[np.ndarray, np.ndarray]:
    """epsilon against the number of steps.

    Parameters
    ----------
    make_event : callable
        ``make_event(steps)`` returns the event of a run of that many steps.
    max_steps : int
        >= 1.
    delta : float
        In (0, 1).
    accountant : str or None
    points : int
        At most this many numbers of steps, evenly spaced.

    Returns
    -------
    steps : ndarray of int64
    epsilons : ndarray of float64
    """
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps must be an integer >= 1, got {max_steps!r}")
    steps = np.unique(np.linspace(1, max_steps, min(points, max_steps)).round().astype(np.int64))
    values = [epsilon(make_event(int(n)), delta, accountant) for n in steps]
    return steps, np.array(values)


def plot_epsilon(
    make_event: Callable[[int], PrivacyEvent], max_steps: int, delta: float, path,
    accountants: Sequence[str] | None = None,
) -> Path:
    """Draw epsilon against the number of steps, one line an accountant.

    Parameters
    ----------
    make_event, max_steps, delta
        As in `epsilon_curve`.
    path : path-like
        Image file; its suffix chooses the format.
    accountants : sequence of str or None
        None takes the default accountant and, where they apply, "rdp",
        "wang" and "strong".

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot_epsilon needs the package matplotlib") from None

    delta = check_delta(delta)
    first = check_event(make_event(1))
    named = accountants is not None
    names = list(accountants) if named else [default_accountant(first), "rdp", "wang", "strong"]
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for name in names:
        try:
            steps, values = epsilon_curve(make_event, max_steps, delta, name)
        except ValueError:
            if named:
                raise
            continue
        axes.plot(steps, values, label=f"{name}: {ACCOUNTANTS[name].title}")
    axes.set_xlabel("steps")
    axes.set_ylabel(rf"$\epsilon$ at $\delta$ = {delta:g}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    path = Path(path)
    figure.savefig(path)
    return path
