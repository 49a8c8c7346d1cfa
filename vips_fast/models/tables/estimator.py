"""Tables of topics by public groups: settings and read-outs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self, Unpack

import numpy as np

from ...checks import check_number, missing_package
from ...data.types import Column, Data, Vector
from ...engine.model import Model
from ...engine.plan import RunForecast, RunSchedule, Terms
from ...engine.result import Public
from ...store.atomic import PUBLIC, replace_file
from ...store.words import several
from ..estimator import ArraySpec, PrivateEstimator
from ..forecast import HopelessWarning
from ..inputs import column_names
from ..parameters import Bookkeeping
from ..readouts import kept
from .model import TableModel
from .readout import Contrast, Estimate, Table, groups_of
from .records import GroupedDocuments

#: Groups of all columns together; the estimate has a square matrix of them.
_MOST_GROUPS = 2048
#: From this width of its interval on a cell cannot be read; the median error of one so wide at 90 %.
_WIDEST, _MOST_ERROR = 0.2, 0.041


@dataclass(kw_only=True, repr=False, eq=False)
class TopicTables(PrivateEstimator):
    """Shares of topics by public groups, in one release.

    The groups may be ward and month.

    Parameters
    ----------
    by : mapping of str to sequence of str or int, or to mapping of these to float
        The columns, and the values that each may have. They are **public**: never take them from the records. A record
        with another value contributes nothing. A mapping also says which public share of the persons has documents of
        each value, about, which only the forecast uses. If persons are in several groups, shares add up to more than 1.
    n_steps : int or None
        Releases; None is 1.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    The sensitivity is proven at `vips_fast.models.tables.model.TableModel`. ``X`` has the topic proportions of each
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

    All cells, as a list or a file:

    >>> import io
    >>> tables.to_parquet(io.BytesIO())
    >>> tables.rows()[0]
    ['ward', 'topic', 'share', 'low', 'high']
    """

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
            if not isinstance(name, str) or not plain or not len(values) or len(set(values)) != len(values):
                raise ValueError(f"by: {name!r} has {values!r}; expected different texts or whole numbers, public")
        if (n_groups := math.prod(self._sizes)) > _MOST_GROUPS:
            raise ValueError(f"by: {n_groups} groups; expected at most {_MOST_GROUPS}, so leave out a column or values")
        self._check_privacy_parameters()

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

    def _read(self, X: Any, y: Any = None) -> tuple[GroupedDocuments, dict[str, Any]]:
        if y is None:
            raise ValueError(f"y=None: expected the values of {', '.join(self.by)} for each row of X")
        found = GroupedDocuments(X, y, self.by, self.invalid)
        return found, {"n_features": found.n_topics}

    def _horizon(self, public: Public, terms: Terms) -> int:
        return 1 if self.n_steps is None else int(self.n_steps)

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
        every = {(c,) for c in range(len(names))} | {tuple(range(len(names)))}
        for columns in sorted(every, key=len):
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
        """Names of the topics; numbers from 1 if there are none.

        They come from the inputs of the fit.
        """
        public = self._fitted().public
        return column_names(public) or tuple(str(k + 1) for k in range(public.n_features))

    @kept
    def _estimate(self) -> Estimate:
        result = self._fitted()
        n_units, sd = result.public.n_records, float(result.arrays["noise_sd"][0])
        known = self._as_fitted()._sizes
        return Estimate(known, result.arrays["sums"] * n_units, sd * n_units)

    def table(
        self,
        *columns: str,
        parts: Mapping[str, Sequence[str | int]] | None = None,
        level: float = 0.9,
        widest: float = _WIDEST,
    ) -> Table:
        """Make the table of some columns, or of all.

        A cell is readable if its interval of this ``level`` is no wider than ``widest``, and not beyond 0 or 1.
        ``parts`` joins the groups of one column, such as the wards of each district, and the parts add up to the
        districts. All tables are from the same release, so that more of them cost nothing.
        """
        level = check_number("level", level, 0, 1, low_open=True, high_open=True)
        widest = check_number("widest", widest, 0, 1, low_open=True)
        by = {name: list(values) for name, values in self._as_fitted().by.items()}
        columns = columns or tuple(by)
        if unknown := [name for name in columns if name not in by or columns.count(name) > 1]:
            raise ValueError(f"columns: {unknown[0]!r}; expected different ones of {', '.join(by)}")
        names = list(by)
        matrix, groups = self._estimate().merged([names.index(name) for name in columns]), groups_of(by, columns)
        if parts is not None:
            known = [value for values in parts.values() for value in values]
            if len(columns) > 1 or not set(known) <= set(by[columns[0]]) or len(set(known)) < len(known):
                raise ValueError(f"parts={parts!r}: expected different values of one column, {columns[0]}")
            matrix = np.array([[value in values for (value,) in groups] for values in parts.values()]) @ matrix
            groups = tuple((name,) for name in parts)
        weights, shares, low, high = self._estimate().table(matrix, level)
        readable = (high - low <= widest) & (high > low)  # an interval beyond 0 or 1 has no length
        return Table(columns, groups, weights, shares, low, high, np.asarray(readable))

    def rows(self) -> list[list[Any]]:
        """List the cells of all tables, below a head.

        The table of all columns comes first, then one of each column.

        Values of other columns are "", and numbers that cannot be read are None.
        """
        by = list(self._as_fitted().by)
        rows: list[list[Any]] = [[*by, "topic", "share", "low", "high"]]
        for shown in (by, *([name] for name in by if len(by) > 1)):
            table = self.table(*shown)
            for g, group in enumerate(table.groups):
                values = dict(zip(shown, group, strict=True))
                for k, name in enumerate(self.topic_names):
                    numbers = (float(array[g, k]) for array in (table.shares, table.low, table.high))
                    cells = [number if table.readable[g, k] else None for number in numbers]
                    rows.append([*(values.get(column, "") for column in by), name, *cells])
        return rows

    def to_parquet(self, path: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write the `rows` as a Parquet file; ImportError without pyarrow."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise missing_package("a Parquet file", "pyarrow", "tables") from None
        head, *rows = self.rows()
        columns = [list(column) for column in zip(*rows, strict=True)]
        columns[:-3] = [[str(value) for value in column] for column in columns[:-3]]
        table = pyarrow.table(dict(zip(head, columns, strict=True)))
        if isinstance(path, (str, os.PathLike)):
            replace_file(Path(path), lambda file: parquet.write_table(table, file), PUBLIC)
        else:
            parquet.write_table(table, path)

    def contrast(self, column: str, factors: Sequence[float] | Vector, *, level: float = 0.9) -> Contrast:
        """Compare groups of a column: the sum of their shares times ``factors``.

        ``[-1, 1]`` is the difference of two groups.
        """
        level, place, n_groups = check_number("level", level, 0, 1, low_open=True, high_open=True), *self._place(column)
        given = np.asarray(factors, np.float64)
        if given.shape != (n_groups,) or not np.isfinite(given).all():
            raise ValueError(f"factors={factors!r}: expected {n_groups} finite numbers, one for each {column}")
        return Contrast(*self._estimate().contrast(place, given, level))

    def trend(self, column: str, *, level: float = 0.9) -> Contrast:
        """Find each share's change from one group to the next.

        It is by least squares over the order of ``by``.
        """
        _, n_groups = self._place(column)
        if n_groups < 2:
            raise ValueError(f"column={column!r}: expected one of at least two values")
        steps = np.arange(n_groups) - (n_groups - 1) / 2
        return self.contrast(column, steps / (steps @ steps), level=level)

    def _place(self, column: str) -> tuple[int, int]:
        """Find the number of a column, and of its groups."""
        by = self._as_fitted().by
        if column not in by:
            raise ValueError(f"column={column!r}: expected one of {', '.join(by)}")
        return list(by).index(column), len(by[column])


def _mean_weight(spreads: Sequence[float]) -> float:
    """Expect the total weight of a person's documents.

    It depends on the mean number of groups of each column that the person is in.

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
