"""Tables of topics by public groups: records, sums with their sensitivity, read-out, and the estimator."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from scipy.special import ndtr, ndtri

from ..accounting.solver import find_threshold
from ..checks import check_number
from ..data.arrays import DROP, column_text, dense_array, not_finite_text
from ..data.frames import named_columns
from ..data.groups import cell_form, public_places
from ..data.types import Column, Data, Matrix, Vector
from ..engine.model import BELOW, Model, Release, array_of
from ..engine.plan import RunForecast, RunSchedule
from ..engine.result import Public
from ..engine.sampling import Sampler
from ..engine.units import unpack_block
from ..kernels.lattice import checked_spacing
from ..mechanisms import GaussianMechanism
from ..store.words import several
from .conjugate.model import Table as Rows
from .estimator import ArraySpec, PrivateEstimator
from .forecast import HopelessWarning
from .inputs import column_names
from .parameters import Bookkeeping
from .readouts import kept

__all__ = ["Contrast", "Table", "TopicTables"]

#: Proportions are whole numbers of 1 / GRID.
GRID = 2.0**24
#: A row of proportions whose sum is above 1 by no more than this is rounded, not wrong.
_ROUNDED = 1e-6
#: Values of a column that a message lists.
_LISTED = 5


def grouped_documents(X: Any, y: Any, by: Mapping[str, Collection[str | int]], invalid: str) -> Rows:
    """Make records of documents: their proportions of topics, and the number of each value among the public ones.

    The number is -1 in all columns if one of a document's values is not among them.
    """
    given = dense_array(X, "X", invalid == "drop")
    if given.ndim != 2 or given.shape[1] < 2 or given.dtype.kind not in "biuf":
        raise ValueError(
            f"X has shape {given.shape} and dtype {given.dtype}: expected proportions of at least two topics, "
            "(n, K), such as transform() gives"
        )
    rows = given.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = rows.sum(axis=1)
        fits = np.isfinite(rows).all(axis=1) & (rows >= 0).all(axis=1) & (sums <= 1.0 + _ROUNDED)
    if invalid == "raise" and not fits.all():
        found = "found larger sums"
        if not np.isfinite(rows).all():
            found = not_finite_text(X, rows)
        elif (outside := ((rows < 0) | (rows > 1.0 + _ROUNDED)).any(axis=0)).any():
            found = f"found other numbers in {column_text(X, int(np.flatnonzero(outside)[0]))}"
        raise ValueError(
            f"X: expected proportions >= 0 whose sum is at most 1 in each row, {found}; {DROP} leaves out other records"
        )
    rows = np.where(fits[:, None], rows, 0.0) / np.maximum(np.where(fits, sums, 1.0), 1.0)[:, None]
    array = np.column_stack([np.trunc(rows * GRID), _places(y, by, len(rows), invalid)]).astype(np.int32)
    return Rows(array, None if fits.all() else fits)


def _places(y: Any, by: Mapping[str, Collection[str | int]], n_rows: int, invalid: str) -> np.ndarray:
    """Look up the values of each row among the public ones; with "raise" a row with any other is refused."""
    if known := named_columns(y):
        if missing := [name for name in by if name not in known]:
            raise ValueError(f"y: has no column {missing[0]!r}; expected the columns {', '.join(by)}")
        columns = [np.asarray(y[name], dtype=object) for name in by]
    else:
        array = np.asarray(y, dtype=object)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or array.shape[1] != len(by):
            raise ValueError(
                f"y has shape {np.shape(y)}: expected ({n_rows}, {len(by)}), a column each: {', '.join(by)}"
            )
        columns = list(array.T)
    for name, column in zip(by, columns, strict=True):
        if column.shape != (n_rows,):
            raise ValueError(f"y: {name!r} has shape {column.shape}; expected ({n_rows},), one value for each row of X")
    places = np.column_stack(
        [public_places(column, values) for column, values in zip(columns, by.values(), strict=True)]
    )
    others = places < 0
    if invalid == "raise" and others.any():
        row, c = (int(place) for place in np.argwhere(others)[0])
        name = [*by][c]
        listed = f"{', '.join(map(repr, [*by[name]][:_LISTED]))}{', …' * (len(by[name]) > _LISTED)}"
        what = f"not one of the public values, {listed}; spell both alike, add what is missing to these"
        if cell_form(columns[c][row]) is None:
            what = "a missing value; fill it in with a public value"
        raise ValueError(f"y: record {row + 1}, column {name!r}: {what}, or leave such records out with {DROP}")
    places[others.any(axis=1)] = -1
    return places


# ------------------------------------------------------------------ the model


def tables_of(n_columns: int) -> list[tuple[int, ...]]:
    """List the columns of each released table: all of them together and, if there are several, each by itself."""
    return [tuple(range(n_columns)), *((c,) for c in range(n_columns) if n_columns > 1)]


class TableModel(Model):
    """Sums of topic proportions by group: the table of all columns together and, beside it, one of each column.

    Notes
    -----
    *Contribution.* In table m of M, a unit has n_mg documents of group g, whose proportions p have the sum A_mg. It
    contributes all A_mg / (M^(1/2) max(1, s)) together, with s^2 = sum_mg n_mg^2 / M. A document whose group is not
    public is not among these. So the contribution is a function of the unit's own documents and of public lists.

    *Sensitivity.* Proportions are at least 0 and their sum is at most 1, so that |p| <= 1 and |A_mg| <= n_mg. The
    squared norm of a contribution is at most sum_mg n_mg^2 / (M max(1, s^2)) = s^2 / max(1, s^2) <= 1: the clip C.
    Adding or removing a unit moves the sum by at most C. Replacing one moves it by at most the root of 2 times C, since
    no entry is below 0. A person with many documents, in any groups, has the same bound as one with a single document.

    *Lattice.* Proportions are truncated to whole numbers of 1 / GRID, whose sums over a unit are exact. Contributions
    are truncated toward zero to the noise's lattice. Both raise no norm; `BELOW` is above the rounding of norms.
    """

    at_root = ("_sums",)

    def __init__(self, sizes: Sequence[int], n_topics: int):
        self.clip, self.sizes = 1.0, tuple(sizes)
        #: How the number of a group in each table follows from a document's places: factors, and the first row.
        n_columns, tables = len(self.sizes), tables_of(len(self.sizes))
        factors = [[(c in t) * math.prod(self.sizes[j] for j in t if j > c) for t in tables] for c in range(n_columns)]
        self._factors = np.array(factors, np.int64)
        ends = np.cumsum([0, *(math.prod(self.sizes[c] for c in table) for table in tables)])
        self._first, self._spacing, self.n_tables = ends[:-1], 1.0, len(tables)
        self.shape = (int(ends[-1]), n_topics)
        self._sums, self._done, self._variance = np.zeros(self.shape), 0, 0.0

    def sensitivity(self, relation: str) -> float:
        """Return the clip, times the root of 2 to replace. The root is for a unit; see the notes."""
        return self.clip * (1.0 if relation == "add_remove" else 2.0**0.5)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self._spacing = checked_spacing(mechanism.spacing, self.clip)

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add each unit's sums, brought to the bound together; see the notes."""
        (records, rows), _, starts = unpack_block(block, words)
        unit = np.arange(len(rows)) if starts is None else np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        places = records[rows, self.shape[1] :]
        known = places[:, 0] >= 0
        unit, rows, places = unit[known], rows[known], places[known]
        keys = unit[:, None] * self.shape[0] + places @ self._factors + self._first
        keys, place = np.unique(keys, return_inverse=True)
        place = place.reshape(-1, self.n_tables)
        of_unit, cells = keys // self.shape[0], keys % self.shape[0]
        sums = np.zeros((len(keys), self.shape[1]))
        for column in place.T:
            np.add.at(sums, column, records[rows, : self.shape[1]])
        # A unit's norm above 1 is brought down to it.
        counts = np.bincount(place.reshape(-1), minlength=len(keys))
        squares = np.bincount(of_unit, weights=counts.astype(np.float64) ** 2, minlength=len(words))
        factors = (BELOW / np.sqrt(np.maximum(squares, self.n_tables)))[of_unit]
        values = sums * (factors * (self.clip / (GRID * self._spacing)))[:, None]
        np.add.at(out, cells, np.trunc(values).astype(np.int64))

    def update(self, release: Release) -> None:
        """Take a release."""
        self._sums += release.values
        self._variance += release.noise_sd**2
        self._done += 1

    def result(self) -> dict[str, np.ndarray]:
        """Give released sums as means per unit, with their noise. The noise is a standard deviation."""
        done = max(self._done, 1)
        return {"sums": self._sums / done, "noise_sd": np.array([math.sqrt(self._variance) / done])}

    def state(self) -> dict[str, np.ndarray]:
        """Give the released sums."""
        return {"table_sums": self._sums.copy(), "table_steps": np.array([float(self._done), self._variance])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        done, variance = array_of(state, "table_steps", (2,)).tolist()
        if not (0 <= done < 2**31 and done == int(done) and variance >= 0):
            raise ValueError("state: 'table_steps' is out of its range")
        self._sums, self._done, self._variance = array_of(state, "table_sums", self.shape), int(done), variance


# ------------------------------------------------------------------ read-out

#: Rounds of the search for shares >= 0.
_ROUNDS = 300
#: Rounds of scaling, and the least cell before it, as a share of an even one.
_SCALINGS, _LEAST = 30, 1e-5


@dataclass(frozen=True)
class Table:
    """Shares of topics in each group.

    ``groups`` of the ``columns`` are the values of each row, G of them. ``weights``, (G,), are noised totals of groups:
    about their persons. ``shares``, (G, K), are at least 0, and rows sum to 1; a table of fewer columns is the weighted
    mean of one of more. ``low`` and ``high``, (G, K), are ends of intervals that contain the share without noise with
    the probability of the level. A ``readable`` one, (G, K), is narrow enough, and within 0 and 1.
    """

    columns: tuple[str, ...]
    groups: tuple[tuple[str | int, ...], ...]
    weights: Vector
    shares: Matrix
    low: Matrix
    high: Matrix
    readable: np.ndarray[tuple[int, int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of groups' shares, with intervals. It is (K,), for each topic, with the ends of its intervals."""

    estimate: Vector
    low: Vector
    high: Vector


class Estimate:
    """The cells of all columns together, as all released tables tell them.

    With M tables of noise sd s, table m releases M^(-1/2) B_m c of the cells c. Least squares gives c with covariance
    s^2 times the inverse of sum_m B_m' B_m / M, the same for every topic; topics are independent.
    """

    def __init__(self, sizes: Sequence[int], sums: np.ndarray, noise_sd: float):
        self._sizes, self._sd = tuple(sizes), noise_sd
        tables = tables_of(len(self._sizes))
        every = np.vstack([self.merged(columns) for columns in tables]) / len(tables) ** 0.5
        self.precision = every.T @ every
        self.inverse = np.linalg.inv(self.precision)
        self.cells = self.inverse @ (every.T @ sums)
        self._shares = self._consistent()

    def merged(self, columns: Sequence[int]) -> np.ndarray:
        """Make the matrix that adds cells up to groups of columns."""
        places = np.indices(self._sizes).reshape(len(self._sizes), -1)
        shape = [self._sizes[c] for c in columns]
        into = np.ravel_multi_index([places[c] for c in columns], shape)
        return np.asarray(into == np.arange(math.prod(shape))[:, None], dtype=np.float64)

    def variances(self, columns: Sequence[int]) -> np.ndarray:
        """Compute the covariance of the sums of groups of some columns."""
        matrix = self.merged(columns)
        return np.asarray(self._sd**2 * (matrix @ self.inverse @ matrix.T))

    def _consistent(self) -> np.ndarray:
        """Find the nearest cells >= 0 with these totals.

        They are nearest by the covariance (Beck & Teboulle 2009). Bounds at 0 draw large cells down. Sums over cells
        have less noise, so cells are scaled to the sums of each column (Deming & Stephan 1940).
        """
        totals = np.maximum(self.cells.sum(axis=1), 0.0)
        now = last = _on_simplex(self.cells, totals)
        if len(self._sizes) > 1:
            step = 1.0 / float(np.linalg.norm(self.precision, 2))
            for round_ in range(_ROUNDS):
                ahead = now + round_ / (round_ + 3.0) * (now - last)
                last, now = now, _on_simplex(ahead - step * (self.precision @ (ahead - self.cells)), totals)
            columns = [self.merged([c]) for c in range(len(self._sizes))]
            sums = [_on_simplex(column @ self.cells, column @ totals) for column in columns]
            now = now + _LEAST * totals[:, None] / now.shape[1]
            for _ in range(_SCALINGS):
                for column, target in zip(columns, sums, strict=True):
                    now = now * (column.T @ (target / np.maximum(column @ now, 1e-300)))
            now *= (totals / np.maximum(now.sum(axis=1), 1e-300))[:, None]
        return now

    def table(self, matrix: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Compute weights, shares and interval ends of groups.

        An interval has each share s with (c_k - s N)^2 <= z^2 v (1 - 2 s + K s^2). Here a sum c_k has noise variance v
        and the total N (Fieller 1954). It has the level exactly, for any N; where the noise hides N it is [0, 1].
        """
        found, sums = matrix @ self._shares, matrix @ self.cells
        n_topics, weights = sums.shape[1], found.sum(axis=1)
        shares = np.where(weights[:, None] > 0, found, 1.0) / np.where(weights > 0, weights, n_topics)[:, None]
        totals = sums.sum(axis=1, keepdims=True)
        variances = self._sd**2 * np.einsum("gc,cd,gd->g", matrix, self.inverse, matrix)
        spread = ndtri(0.5 + level / 2) ** 2 * variances[:, None]
        square = totals**2 - spread * n_topics
        middle = sums * totals - spread
        root = np.sqrt(np.maximum(middle**2 - square * (sums**2 - spread), 0.0))
        bounded = (square > 0) & (totals > 0)
        divisor = np.where(bounded, square, 1.0)
        low = np.where(bounded, np.clip((middle - root) / divisor, 0.0, 1.0), 0.0)
        high = np.where(bounded, np.clip((middle + root) / divisor, 0.0, 1.0), 1.0)
        return weights, shares, low, high

    def contrast(self, column: int, factors: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the weighted sum of the groups' shares, with interval ends to first order in the noise."""
        sums, covariance = self.merged([column]) @ self.cells, self.variances([column])
        n_topics = sums.shape[1]
        totals = np.maximum(sums.sum(axis=1), np.sqrt(np.diag(covariance) * n_topics))
        shares = sums / totals[:, None]
        # Of topic k: sum over topics j of (1[j = k] - share_k)^2, as the factors of groups with noise in common.
        own, others = (1.0 - shares).T / totals, shares.T / totals
        both = own[:, :, None] * own[:, None, :] + (n_topics - 1) * others[:, :, None] * others[:, None, :]
        variance = np.einsum("g,kgh,h->k", factors, both * covariance, factors)
        estimate, half = factors @ shares, ndtri(0.5 + level / 2) * np.sqrt(variance)
        return estimate, estimate - half, estimate + half

    def error(self, columns: Sequence[int], totals: np.ndarray, n_topics: int) -> float:
        """Compute the median error of shares of 1 / K in groups of some columns, by the totals of all cells.

        The errors of a group are normal; those of all groups are their mixture, whose median is found by bisection.
        """
        sizes = np.maximum(self.merged(columns) @ totals, 1e-9)
        sds = np.sqrt(np.diag(self.variances(columns)) * (1.0 - 1.0 / n_topics)) / sizes
        spread = np.maximum(sds, 1e-300)
        return find_threshold(lambda error: (2 * ndtr(error / spread) - 1).mean() >= 0.5, 0.0, float(sds.max()), 1e-9)


def _on_simplex(rows: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Project rows on nonnegative ones with these totals. The method is by Held, Wolfe & Crowder 1974."""
    ordered = -np.sort(-rows, axis=1)
    over = np.cumsum(ordered, axis=1) - totals[:, None]
    counts = np.arange(1, rows.shape[1] + 1)
    last = np.maximum((ordered * counts > over).sum(axis=1), 1) - 1
    return np.asarray(np.maximum(rows - (over[np.arange(len(rows)), last] / (last + 1))[:, None], 0.0))


# ------------------------------------------------------------------ the estimator

#: Groups of all columns together; the estimate has a square matrix of them.
_MOST_GROUPS = 2048
#: From this width of its interval on a cell cannot be read; the median error of one so wide at 90 %.
_WIDEST, _MOST_ERROR = 0.2, 0.041


@dataclass(kw_only=True, repr=False, eq=False)
class TopicTables(PrivateEstimator):
    """Shares of topics by public groups, such as ward and month, in one release.

    Parameters
    ----------
    by : mapping of str to sequence of str or int, or to mapping of these to float
        The columns, and the values that each may have. They are **public**: never take them from the records. Cells are
        compared by `vips_fast.data.groups.cell_form`: 7, 7.0 and "7 " are alike. A record with another value is
        refused, and with ``invalid="drop"`` contributes nothing. A mapping also says which public share of the persons
        has documents of each value, about, which only the forecast uses. If persons are in several groups, shares add
        up to more than 1.
    n_steps : int or None
        Releases; None is 1.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    The sensitivity is proven at `TableModel`. ``X`` has the topic proportions of each
    document, which have to be a function of the document itself and of released numbers. The shares are of documents in
    which a person with several of them has a weight below 1 for each. ``private=False`` adds no noise and keeps the
    bound of contributions.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import TopicTables
    >>> topics = np.eye(2)[np.arange(6000) % 3 // 2]
    >>> wards = np.array(["north", "south"])[np.arange(6000) // 3000]
    >>> tables = TopicTables({"ward": ["north", "south"]}, epsilon=1.0).fit(topics, {"ward": wards})
    >>> north = tables.table("ward")
    >>> north.groups, north.shares.round(1).tolist()
    ((('north',), ('south',)), [[0.7, 0.3], [0.7, 0.3]])
    >>> tables.contrast("ward", [-1, 1]).estimate.round(1) + 0.0
    array([0., 0.])
    >>> tables.trend("ward").estimate.round(1) + 0.0
    array([0., 0.])

    All cells:

    >>> tables.rows()[0]
    ['ward', 'topic', 'share', 'low', 'high']
    """

    _usual_steps: ClassVar[int | None] = 1

    by: Mapping[str, Sequence[str | int] | Mapping[str | int, float]] = field(default_factory=dict, kw_only=False)
    sampling: str | None = "full"

    def fit(self, X: Data, y: Column | None = None, **call: Unpack[Bookkeeping]) -> Self:
        """Release the tables of documents.

        ``X``, (n, K), are topic proportions: ``model.transform(counts)``, or ``np.eye(K)[model.predict(vectors)]`` for
        clusters. ``y`` has the values of the columns: a frame, a mapping, or an array (n, columns).
        `vips_fast.models.parameters.Bookkeeping` has the keywords: ``groups`` are the persons, and with ``after=model``
        the statement includes the model; ``epsilon`` is of the tables alone. Raises ValueError if a parameter, X or y
        is unusable, or the run would overspend. Nothing has been spent then.
        """
        return self._fit(X, y, **call)

    def _check_parameters(self) -> None:
        if not isinstance(self.by, Mapping) or not self.by:
            raise ValueError(f"by={self.by!r}: expected public values by column, such as {{'ward': ['n', 's']}}")
        for name, values in self.by.items():
            plain = not isinstance(values, str) and all(isinstance(value, (str, int, np.integer)) for value in values)
            shares = [*values.values()] if isinstance(values, Mapping) else ()
            if not all(isinstance(share, (int, float)) and 0 < share <= 1 for share in shares):
                raise ValueError(f"by: {name!r} has {values!r}; expected shares of the persons, above 0 and at most 1")
            if not (isinstance(name, str) and plain and len({*map(cell_form, values)}) == len(values) > 0):
                raise ValueError(f"by: {name!r} has {values!r}; expected different texts or whole numbers, public")
        if (n_groups := math.prod(self._sizes)) > _MOST_GROUPS:
            raise ValueError(f"by: {n_groups} groups; expected at most {_MOST_GROUPS}, so leave out a column or values")
        super()._check_parameters()

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.by.values())

    def _settings(self) -> dict[str, Any]:
        # Pairs keep their order in files.
        by = []
        for name, values in self.by.items():
            plain = [value if isinstance(value, str) else int(value) for value in values]
            by.append([name, plain, [*map(float, values.values())] if isinstance(values, Mapping) else None])
        return {**super()._settings(), "by": by}

    @classmethod
    def _from_settings(cls, settings: Mapping[str, Any]) -> Self:
        by = {
            name: list(values) if shares is None else dict(zip(values, shares, strict=True))
            for name, values, shares in settings["by"]
        }
        return super()._from_settings({**settings, "by": by})

    def _read(self, X: Any, y: Any = None) -> tuple[Rows, dict[str, Any]]:
        if y is None:
            raise ValueError(f"y=None: expected the values of {', '.join(self.by)} for each row of X")
        found = grouped_documents(X, y, self.by, self._options.invalid)
        return found, {"n_features": found.array.shape[1] - len(self.by)}

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> TableModel:
        return TableModel(self._sizes, public.n_features)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return {"sums": ArraySpec(self._model(public).shape), "noise_sd": ArraySpec((1,), low=0.0)}

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        n_topics = public.n_features
        scale = schedule.sampler.expected_batch_size * schedule.n_steps**0.5
        sensitivity = model.sensitivity(schedule.sampler.relation)
        sd = public.n_records * schedule.noise_multiplier * sensitivity / scale
        estimate = Estimate(self._sizes, np.zeros(model.shape), sd)
        names, said, least = list(self.by), [], 1.0
        totals, spreads = np.ones(1), []
        for values in self.by.values():
            shares = np.array([*values.values()] if isinstance(values, Mapping) else [1 / len(values)] * len(values))
            spreads.append(max(float(shares.sum()), 1.0))
            totals = np.outer(totals, shares / spreads[-1]).reshape(-1)
        totals *= _mean_weight(spreads)
        even = "" if any(isinstance(values, Mapping) for values in self.by.values()) else ", if all groups have as many"
        for columns in sorted(tables_of(len(names)), key=len):
            error = estimate.error(columns, public.n_records * totals, n_topics)
            shown = "hidden by the noise" if error > _MOST_ERROR else f"{100 * error:.2g}"
            said.append(f"{' and '.join(names[c] for c in columns)} {shown}")
            least = min(least, error)
        text = (
            f"Forecast: median error of a share of {1 / n_topics:.1%} in percentage points{even}"
            f"{f' {several(public.unit)} and each is in one' if even else ''}: by {', '.join(said)}."
        )
        hopeless = least > _MOST_ERROR
        advice = " Use fewer groups, fewer topics or a larger epsilon." if hopeless else ""
        return RunForecast(max(1.0 - least * n_topics, 0.0), text + advice, HopelessWarning if hopeless else None)

    # ------------------------------------------------------------ read-outs

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Names of the topics; numbers from 1 if there are none. They come from the inputs of the fit."""
        public = self._fitted().public
        return column_names(public) or tuple(str(k + 1) for k in range(public.n_features))

    @kept
    def _estimate(self) -> Estimate:
        result = self._fitted()
        n_units, sd = result.public.n_records, float(result.arrays["noise_sd"][0])
        known = self._as_fitted()._sizes
        return Estimate(known, result.arrays["sums"] * n_units, sd * n_units)

    def table(self, *columns: str, level: float = 0.9) -> Table:
        """Make the table of some columns, or of all.

        A cell is readable if its interval of this ``level`` is no wider than 20 points, and not beyond 0 or 1. All
        tables are from the same release, so that more of them cost nothing.
        """
        level = check_number("level", level, 0, 1, low_open=True, high_open=True)
        by = {name: list(values) for name, values in self._as_fitted().by.items()}
        columns = columns or tuple(by)
        if unknown := [name for name in columns if name not in by or columns.count(name) > 1]:
            raise ValueError(f"columns: {unknown[0]!r}; expected different ones of {', '.join(by)}")
        names = list(by)
        matrix = self._estimate().merged([names.index(name) for name in columns])
        groups: tuple[tuple[str | int, ...], ...] = tuple(product(*(by[name] for name in columns)))
        weights, shares, low, high = self._estimate().table(matrix, level)
        readable = (high - low <= _WIDEST) & (high > low)  # an interval beyond 0 or 1 has no length
        return Table(columns, groups, weights, shares, low, high, np.asarray(readable))

    def rows(self) -> list[list[Any]]:
        """List the cells below a head: of the table of all columns, then of one of each column.

        Values of other columns are "", and numbers that cannot be read are None.
        """
        by = list(self._as_fitted().by)
        rows: list[list[Any]] = [[*by, "topic", "share", "low", "high"]]
        for columns in tables_of(len(by)):
            shown = [by[c] for c in columns]
            table = self.table(*shown)
            for g, group in enumerate(table.groups):
                values = dict(zip(shown, group, strict=True))
                for k, name in enumerate(self.topic_names):
                    numbers = (float(array[g, k]) for array in (table.shares, table.low, table.high))
                    cells = [number if table.readable[g, k] else None for number in numbers]
                    rows.append([*(values.get(column, "") for column in by), name, *cells])
        return rows

    def contrast(self, column: str, factors: Sequence[float] | Vector, *, level: float = 0.9) -> Contrast:
        """Compare groups of a column: the sum of their shares times ``factors``.

        ``[-1, 1]`` is the difference of two groups.
        """
        level, n_groups = check_number("level", level, 0, 1, low_open=True, high_open=True), self._n_groups(column)
        given = np.asarray(factors, np.float64)
        if given.shape != (n_groups,) or not np.isfinite(given).all():
            raise ValueError(f"factors={factors!r}: expected {n_groups} finite numbers, one for each {column}")
        return Contrast(*self._estimate().contrast(list(self._as_fitted().by).index(column), given, level))

    def trend(self, column: str, *, level: float = 0.9) -> Contrast:
        """Find each share's change from one group to the next. It is by least squares over the order of ``by``."""
        n_groups = self._n_groups(column)
        if n_groups < 2:
            raise ValueError(f"column={column!r}: expected one of at least two values")
        steps = np.arange(n_groups) - (n_groups - 1) / 2
        return self.contrast(column, steps / (steps @ steps), level=level)

    def _n_groups(self, column: str) -> int:
        by = self._as_fitted().by
        if column not in by:
            raise ValueError(f"column={column!r}: expected one of {', '.join(by)}")
        return len(by[column])


def _mean_weight(spreads: Sequence[float]) -> float:
    """Expect the total weight of a person's documents, by the mean number of each column's groups that a person is in.

    Most persons are in few groups and some are in many. The number in the widest column is taken as geometric, with a
    document in each, and the others at their means.
    """
    mean, n_columns = max(spreads), len(spreads)
    numbers = np.arange(1, 1 + math.ceil(20 * mean))
    chances = (1.0 - 1.0 / mean) ** (numbers - 1) / mean
    squares = sum(numbers**2 / (numbers if one == mean else np.minimum(numbers, one)) for one in spreads)
    if n_columns > 1:
        squares = (squares + numbers) / (1 + n_columns)
    return float(chances @ (numbers / np.maximum(np.sqrt(squares), 1.0)))
