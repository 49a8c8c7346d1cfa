"""Warn of fits whose guarantee means less than it seems to.

Nothing here changes a fit, and all of it comes before a fit spends anything. Looks at values are only for
``invalid="raise"``; what else is judged follows from calls and public numbers, and reveals nothing of a record.

- Rows that repeat: one person's, or drawn with replacement. Columns that a scaler seems to have changed.
- Columns that other steps learned from the same records: a pipeline's, the calling program's, or a purchase of words
  that the matrix does not carry.
- Private fits that nothing counts: no budget pays for them, and others may have read the same records. A statement is
  about one fit. Only this process is seen: a fit in a worker, beside which others may run, always warns. A program that
  is started twice is not seen at all.
"""

import logging
import math
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import numpy as np
from scipy import sparse

from ..data.arrays import csr_arrays, new_csr, rows_of
from ..data.frames import names_persons, repeats
from ..engine.plan import RunForecast
from ..engine.result import Public
from ..store.words import counted

#: What a fit says of a frame some of whose rows have one name, or one value in a column that is called after persons.
REPEATS = "X's index repeats: rows of one person? give groups="
COLUMN_REPEATS = "X's column {!r} {}: rows of one person? give groups="

#: What it says of columns that a scaler seems to have changed.
SCALED = (
    "X's columns have {} over these very rows: scaled by private numbers? The guarantee leaves those out; scale by "
    "public numbers"
)

_log = logging.getLogger(__name__)

#: The share of the different rows that stand more than once. Blank rows, or a form that many send in, are one of them.
_SHARE = 0.25
#: Rows like it that a row may have by chance, if its columns were independent.
_BY_CHANCE = 0.01
_BLOCK, _ENTRIES, _SAMPLE = 4096, 1 << 18, 2000

TWINS = (
    "X's rows repeat, far more often than by chance: drawn with replacement (a bootstrap, bagging), or several of one "
    "person? The guarantee counts each as a record of its own; give groups="
)
#: Estimators of this process whose vocabulary was purchased, as long as they live; for `warn_of_shape`.
purchasers: weakref.WeakSet[Any] = weakref.WeakSet()
UNCARRIED = (
    "X has {} columns, as many as a vocabulary that this process purchased, but does not carry the purchase: a stack "
    "of its counts? The statement leaves the purchase out; give after= the vocabulary"
)
#: Fits of this process that no budget paid, by the heads of their ledgers; each with the fits that it includes.
_fits: dict[object, frozenset[object]] = {}
_forked = False


def _note_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_note_fork)


def warn(text: str) -> None:
    """Warn at the line that called the package, however deep this is."""
    frame, level, room = cast(Any, sys._getframe(1)), 2, __name__.partition(".")[0] + "."
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(room):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


# ------------------------------------------------------------------ rows


def warn_of_rows(
    X: Any, names: tuple[str, ...] | None, invalid: str, *, alone: bool, noised: bool, encoded: bool = False
) -> None:
    """Warn of rows, an index or a column of persons (`names_persons`) that repeat, if each row is a record ``alone``.

    If ``noised``, warn of callers, too, and of scaled columns, which a schema has not ``encoded``.
    """
    if alone:
        if invalid == "raise" and getattr(getattr(X, "index", None), "is_unique", True) is False:
            warn(REPEATS)
        for name in filter(names_persons, names or ()):
            column = X[name]
            if invalid == "drop":
                warn(COLUMN_REPEATS.format(name, "looks like a person's"))
            elif repeats([column.to_pylist() if hasattr(column, "to_pylist") else column]):
                warn(COLUMN_REPEATS.format(name, "repeats"))
        warn_of_twins(X, invalid)
    if noised and invalid == "raise" and not encoded:
        _warn_of_scaling(X)
    # An estimator is given columns, and nothing about their making. But a pipeline fits its steps, so it stands among
    # the callers. That it has a step that learns from the records is no private fact.
    for step in filter(learns, _earlier_steps() if noised and "sklearn" in sys.modules else ()):
        warn(
            f"{type(step).__name__}, a step of the pipeline before, learns from the records, and the guarantee leaves "
            "that out; expected a step that learns nothing (HashingVectorizer, ColumnEncoder, public numbers) or "
            "privately (PrivateVocabulary)"
        )


def _warn_of_scaling(X: Any) -> None:
    """Warn if a scaler seems to have been fitted to the columns.

    Looks at the first columns of an array or frame with numbers that are not whole. A scaler fitted to other rows, or a
    selection of columns, leaves no trace here.
    """
    values = X.iloc[:, :8].to_numpy() if hasattr(X, "iloc") and X.ndim == 2 else X
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind != "f" or len(values) < 10:
        return
    near, some, standard, ranged = 1e-5, False, True, True
    for column in values[:, :8].T:
        column = column.astype(np.float64)
        if (column == np.rint(column)).all():
            continue
        least, most, some = float(column.min()), float(column.max()), True
        if not max(-least, most) < 1e100:
            return  # no scaled column, and its square is no number
        standard = standard and abs(column.mean()) + abs(column.std() - 1.0) < near
        ranged = ranged and abs(most - 1.0) + min(abs(least), abs(least + 1.0)) < 1e-12
        if not (standard or ranged):
            return
    for found, what in ((standard, "mean 0 and standard deviation 1"), (ranged, "a range that ends at 1")):
        if some and found:
            warn(SCALED.format(what))


def warn_of_twins(X: Any, invalid: str) -> None:
    """Warn the operator if a quarter of the different rows or more repeat, which chance does not explain.

    It looks at dense tables and at CSR matrices.
    """
    rows = X.to_numpy() if hasattr(X, "iloc") and X.ndim == 2 else X
    if invalid != "raise" or not (isinstance(rows, np.ndarray) or (sparse.issparse(rows) and rows.format == "csr")):
        return
    if rows.ndim != 2 or rows.shape[0] < 20 or rows.dtype.kind not in "fiub":
        return
    sums, chance = _of_sparse(rows) if sparse.issparse(rows) else _of_dense(rows)
    sums.sort()
    again = sums[1:] == sums[:-1]
    # Different rows, and those of them that stand more than once.
    n, several = len(sums) - again.sum(), again.sum() - (again[1:] & again[:-1]).sum()
    if n and chance * n <= _BY_CHANCE and several >= _SHARE * n:
        warn(TWINS)


def _of_dense(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Give a number for each row, which equal ones share, and the chance that two are equal.

    It is the chance of rows whose columns are independent. Columns of two values tell nothing: pixels and answers go
    together, and rows of them repeat by themselves.
    """
    weights = np.random.default_rng(0).random(rows.shape[1])
    sums, chance = np.empty(rows.shape[0]), 1.0
    with np.errstate(all="ignore"):
        for first in range(0, len(sums), _BLOCK):
            sums[first : first + _BLOCK] = (rows[first : first + _BLOCK] * weights).sum(axis=1)
    for column in rows[:: max(1, len(sums) // _SAMPLE)].T:
        counts = np.unique(column, return_counts=True)[1]
        if len(counts) > 2:
            chance *= float(np.square(counts / len(column)).sum())
        if chance * len(sums) <= _BY_CHANCE:
            break
    return sums, chance


def _of_sparse(X: Any) -> tuple[np.ndarray, float]:
    """Do as `_of_dense`, with parts that are checked first: scipy's loops would trust them."""
    try:
        parts = csr_arrays(X, "X")
    except ValueError:
        return np.zeros(0), 1.0  # the one place that reads it says why
    weights, sums = np.random.default_rng(0).random(X.shape[1]), np.zeros(X.shape[0])
    size = max(1, _ENTRIES * len(sums) // max(len(parts[0]), 1))
    for first in range(0, len(sums), size):
        data, indices, indptr = rows_of(parts, np.arange(first, min(first + size, len(sums))))
        block = new_csr((data.astype(np.float64), indices, indptr), (len(indptr) - 1, X.shape[1]))
        sums[first : first + size] = block @ weights
    n = min(X.shape[0], _SAMPLE)
    held = np.bincount(parts[1][: parts[2][n]], minlength=X.shape[1]) / n
    held = np.minimum(held, 1.0)
    # Answers of one question are columns that go together, so only half of the columns count as independent.
    return sums, math.exp(0.5 * float(np.log(held**2 + (1.0 - held) ** 2).sum()))


# ------------------------------------------------------------------ columns


def warn_of_shape(public: Public, n_components: Any, invalid: str, *, unsaid: bool) -> None:
    """Warn of more components than records.

    If no purchase is said, warn also if columns equal in number a vocabulary that this process purchased, or what a
    caller's step learned.
    """
    if isinstance(n_components, int) and n_components > public.n_records:
        there = counted(public.n_records, public.unit)
        warn(f"n_components={n_components}: expected far fewer than there are records ({there})")
    for vocabulary in list(purchasers) if unsaid else ():
        if len(vocabulary.get_feature_names_out()) == public.n_features:
            warn(UNCARRIED.format(public.n_features))
            break
    if unsaid and invalid == "raise" and "sklearn" in sys.modules:
        _warn_of_learned_columns(public.n_features)


def _earlier_steps() -> Iterator[Any]:
    """List the steps that the calling pipelines of scikit-learn ran before this one."""
    seen = set[int]()
    for frame in _frames("sklearn.pipeline"):
        known = frame.f_locals
        if "fit" in frame.f_code.co_name and id(pipeline := known.get("self")) not in seen:
            # The inner one of a pipeline's functions says how far it is; none does so of the last step.
            seen.add(id(pipeline))
            steps = getattr(pipeline, "steps", ())
            yield from (step for _, step in steps[: known.get("step_idx", len(steps) - 1)])


def _warn_of_learned_columns(n_columns: int) -> None:
    """Warn if the calling program holds a step of scikit-learn that has learned as many columns as X has.

    An array says nothing of its making, but the vectorizer or selector that made it is most often a variable of one of
    the callers. It sees no step whose object is gone, and none of another process.
    """
    seen = {id(step) for step in _earlier_steps()}
    for frame in _frames(""):
        for value in list(frame.f_locals.values()):
            module = getattr(type(value), "__module__", "")
            if not isinstance(module, str) or not module.startswith("sklearn.") or id(value) in seen:
                continue
            seen.add(id(value))
            if _columns_made(value) == n_columns:
                warn(
                    f"{type(value).__name__}, in the calling program, has learned as many columns as X has: from these "
                    "records? The guarantee leaves that out; expected public columns (a vocabulary or a list), or "
                    "PrivateVocabulary"
                )


def _columns_made(step: Any) -> int | None:
    """Count the columns that a fitted step learned; None for any other object."""
    with suppress(Exception):  # of any library's own kind: not fitted, without names, or no step at all
        return len(step.get_feature_names_out()) if hasattr(step, "transform") and learns(step) else None
    return None


def _frames(module: str) -> Iterator[Any]:
    """List the callers' frames in modules of a name."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(module):
            yield frame
        frame = frame.f_back


def learns(step: Any) -> bool:
    """Tell whether a step of scikit-learn learns from records."""
    for name in ("steps", "transformer_list", "transformers"):
        if inner := getattr(step, name, None):
            return any(learns(one[1]) for one in inner)
    public = getattr(step, "categories", "auto") != "auto" or (
        type(step).__name__ == "CountVectorizer" and step.vocabulary is not None
    )
    ours = hasattr(type(step), "ledger_") or type(step).__module__.startswith("vips_fast.")
    if step is None or isinstance(step, str) or ours or public:
        return False
    from sklearn.utils import get_tags

    return bool(get_tags(step).requires_fit)


def tell(forecast: RunForecast, on_forecast: Callable[[RunForecast], None] | None, stacklevel: int) -> None:
    """Pass a forecast to ``on_forecast``, or warn if it is hopeless.

    A forecast with prospects is logged. ``stacklevel`` is as in `warnings.warn`, for the caller.
    """
    if forecast.warning is None:
        _log.info("%s", forecast.text)
    if on_forecast is not None:
        on_forecast(forecast)
    elif forecast.warning is not None:
        warnings.warn(forecast.text, forecast.warning, stacklevel=stacklevel + 1)


# ------------------------------------------------------------------ fits that nothing counts


def begin_uncounted(name: str, continues: str | None, purchase: str | None) -> Callable[[str], None]:
    """Warn if a fit without budget adds to others, and remember it. Call the answer with the head of its ledger.

    ``continues`` and ``purchase`` are heads of the ledgers that the fit goes on from and includes. A fit that ends in
    an error may have spent something, and counts.
    """
    from multiprocessing import parent_process

    own: frozenset[object] = frozenset({continues, purchase} - {None})
    own = own.union(*map(_fits.get, own, [()] * len(own)))
    # A process that works for another: a child, forked or of a pool, or a worker of Dask, which without a nanny is
    # nobody's child.
    worker = _forked or parent_process() is not None
    with suppress(KeyError, ValueError, AttributeError):
        worker = worker or sys.modules["distributed"].get_worker() is not None
    where = "in a worker process" if worker else "after another such fit in this process"
    if worker or set(_fits) - own:
        warn(
            f"{name} is fitted with privacy and without a budget, {where}: the epsilons of fits to the "
            "same records add up, and no statement says to how much. Give budget= to count and bound them"
        )
    key = object()
    _fits[key] = own

    def end(head: str) -> None:
        for one in (key, continues):
            _fits.pop(one, None)
        _fits[head] = own

    return end
