"""A public description of a table's columns, before any row is read.

A schema fixes how each cell becomes numbers, from public bounds and lists of values. Nothing is learned from the
rows, so an encoding spends no privacy, and a row's is the same in any company. The file is TOML, a table a column in
the order of the features::

    nulls = ["", "?", "-9"]          # cells that stand for a missing value, unless a column lists them

    [columns.age]
    kind = "number"
    low = 16
    high = 90
    step = 10                        # effects are of 10 years
    beyond = "refuse"                # by default such values are moved to the bound

    [columns."capital gain"]
    kind = "number"
    low = 0
    high = 20000
    centered = false                  # [0, 1] in place of [-1, 1]
    decimal = ","                    # 1.234,5 in place of 1234.5
    missing = "fill"
    center = 0                       # a missing value counts as this

    [columns.work]
    kind = "category"
    values = ["private", "state", "none"]
    unknown = "flag"

    [columns.smoker]
    kind = "binary"
    values = ["no", "yes"]

    [columns.id]
    kind = "ignore"

A category may have a ``reference``, the value that the effects of its other values are measured from; by default its
first. ``missing`` and ``unknown`` decide about a cell without a value and about one that is not among ``values``. They
are "refuse" (the default), "fill", which takes a number's ``center``, a category's reference or the first of two
values for it, or "flag": a column of their own, ``name=?`` and ``name=*``. ``beyond`` decides about a number beyond its
bounds: "clip" (the default) moves it to the bound, "missing" takes it as a cell without a value, "refuse" refuses it.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from ..checks import check_choice
from ..store.limits import read_text
from ..store.toml import parse_toml
from ._files import naming
from .arrays import DROP, INT32_MAX
from .frames import is_missing, names_persons
from .groups import cell_form

#: Each cell of a record that is broken in its form: a missing value for everybody, and one that no rule fills in.
BROKEN = math.nan + 0.0

KINDS, RULES = ("number", "category", "binary", "ignore"), ("refuse", "fill", "flag")
BEYOND_RULES = ("clip", "missing", "refuse")
#: Fields that only some kinds of columns have.
_ONLY = {
    **dict.fromkeys(("low", "high", "step", "center", "beyond", "centered", "decimal"), ("number",)),
    **dict.fromkeys(("values", "unknown"), ("category", "binary")),
    "reference": ("category",),
}
#: The absolute entry of a value that was moved to its bound, exact in float32. A hair within the bound, it tells such
#: values from others, so that a fit can count them (`moved_to_bounds`); a bound at 0 has 1 - MOVED.
MOVED = 1.0 - 2.0**-16
#: Cells that usually stand for a missing value: what `draft` proposes.
NULLS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", ".", "-", "?")

#: What a cell is that has no place among the columns made of it.
_MISSING, _UNKNOWN, _WRONG, _BEYOND = -1, -2, -3, -4
#: A number with a decimal comma, and points between its thousands or none.
_COMMAS = re.compile(r"[+-]?([0-9]{1,3}([.][0-9]{3})+|[0-9]*)(,[0-9]*)?([eE][+-]?[0-9]+)?")
#: A remedy that is said whatever the cell holds.
_NULLS = 'a mark of missing values, such as R\'s NA, belongs in the schema\'s nulls = ["", "NA"]'
_OTHERS = f"first, take off percent signs, units and blanks or commas of thousands, and make a date a number; {_NULLS}"
#: The problem of a cell; the remedies of a feature and of a label.
_PROBLEMS = {
    -1: ("a missing value", f"drop such records with {DROP}, or give the column a rule for missing"),
    -2: ("not one of the schema's values", f"spell both alike, or give the column a rule for unknown; {_NULLS}"),
    -3: ("expected a finite number", f'with a decimal point; give the column decimal = "," for a comma; {_OTHERS}'),
    -4: (
        "beyond the column's bounds",
        f'drop such records with {DROP}, or give the column beyond = "clip" or "missing"',
    ),
}
_OF_LABEL = {
    -1: f"a label has no rule for that; drop such records with {DROP}",
    -2: f"spell both alike, or drop such records with {DROP}; {_NULLS}",
    -3: _PROBLEMS[-3][1],
    -4: f'drop such records with {DROP}, or let a fit cut them by beyond = "clip"',
}
#: Values of a column that a message lists.
_LISTED = 5


class Change(NamedTuple):
    """A change in a column's units, as changes of encoded columns.

    ``text`` names it, such as "+1" or "yes instead of no", and is empty for a category's reference. ``weights`` are
    places of encoded columns and how much they change. ``beside`` are the places of all that are made of the column.
    ``step`` is the change of a number in its units, and ``per_unit`` the change of its entry by one of them; 0 of other
    columns. ``middle`` is the number that has the entry 0. Of a missing number without a stated center ``number`` is
    the place of its column, whose released mean is the center.
    """

    text: str
    weights: tuple[tuple[int, float], ...]
    beside: tuple[int, ...] = ()
    step: float = 0.0
    per_unit: float = 0.0
    middle: float = 0.0
    number: int | None = None


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
    kind : {"number", "category", "binary", "ignore"}
        A number is scaled by its bounds. A category has a column of 0 and 1 for each value, and a binary one for the
        second of its two values.
    low, high : float or None
        Public bounds of a number.
    values : tuple of str
        Public values of a category or binary column. A cell is compared as text without blanks around it, else by
        `vips_fast.data.groups.cell_form`: 1, 1.0 and "1.0" are "1", a day at midnight is the day, and a truth value is
        "true", "True" or "TRUE".
    centered : bool
        Numbers are scaled to [-1, 1]; False: to [0, 1], for amounts that are mostly zero.
    decimal : {".", ","}
        The mark in numbers that are texts. With a comma, "1.234,5" is a number, and "1.5" is not.
    reference : str or None
        The value of a category that effects of its others are measured from; None is its first.
    step : float or None
        The change of a number that its effect is of; None is the largest power of ten within a tenth of its range, and
        at least 1 of a range of 2 or more.
    center : float or None
        A public typical value of a number, within its bounds: what a missing one counts as with ``missing="fill"``, and
        is compared with by ``missing="flag"``.
    missing, unknown : {"refuse", "fill", "flag"}
        See the module.
    beyond : {"clip", "missing", "refuse"}
        See the module.

    Raises ValueError or TypeError if these do not go together.
    """

    name: str
    kind: str
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    centered: bool = True
    decimal: str = "."
    reference: str | None = None
    step: float | None = None
    center: float | None = None
    missing: str = "refuse"
    unknown: str = "refuse"
    beyond: str = "clip"

    def __post_init__(self) -> None:
        def expect(good: bool, what: str) -> None:
            if not good:
                raise ValueError(f"column {self.name!r}: {what}")

        expect(self.kind in KINDS, f"kind={self.kind!r}: expected one of {', '.join(KINDS)}")
        for rule, rules in (("missing", RULES), ("unknown", RULES), ("beyond", BEYOND_RULES)):
            expect(getattr(self, rule) in rules, f"{rule}={getattr(self, rule)!r}: expected one of {', '.join(rules)}")
        expect(isinstance(self.values, (list, tuple)), f"values={self.values!r}: expected a list")
        object.__setattr__(self, "values", tuple(map(text_of, self.values)))
        for field in fields(self):
            of = _ONLY.get(field.name, KINDS)
            at_default = getattr(self, field.name) == field.default
            expect(self.kind in of or at_default, f"{field.name}: expected for a {' or '.join(of)} column only")
        if self.kind == "number":
            low, high = self._bounds
            expect(
                _is_real(low) and _is_real(high) and low < high,
                f"low={low!r}, high={high!r}: expected numbers, low < high, from a code book or the unit",
            )
            expect(
                self.step is None or (_is_real(self.step) and self.step > 0), f"step={self.step!r}: expected above 0"
            )
            expect(
                self.center is None or (_is_real(self.center) and low <= self.center <= high),
                f"center={self.center!r}: expected a number from low to high",
            )
            expect(
                self.missing != "fill" or self.center is not None,
                'missing="fill": expected center, a public typical value that a missing one counts as',
            )
        expect(isinstance(self.centered, bool), f"centered={self.centered!r}: expected true or false")
        expect(self.decimal in (".", ","), f"decimal={self.decimal!r}: expected '.' or ','")
        expect(len(set(self.values)) == len(self.values), "values: expected no value twice")
        expect(
            self.kind != "binary" or len(self.values) == 2, f"{len(self.values)} values: expected 2 of a binary column"
        )
        expect(self.kind != "category" or len(self.values) >= 1, "values: expected a list of them")
        if self.reference is not None:
            object.__setattr__(self, "reference", text_of(self.reference))
            expect(self.reference in self.values, f"reference={self.reference!r}: expected one of its values")

    @property
    def _bounds(self) -> tuple[float, float]:
        """Bounds of a number, which has both."""
        return cast(float, self.low), cast(float, self.high)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the columns that are made of it."""
        if self.kind == "ignore":
            return ()
        own = tuple(f"{self.name}={value}" for value in self.values)
        own = own[1:] if self.kind == "binary" else own or (self.name,)
        flags = (("missing", "?"), ("unknown", "*"))
        return own + tuple(f"{self.name}={mark}" for rule, mark in flags if getattr(self, rule) == "flag")

    @property
    def changes(self) -> tuple[Change, ...]:
        """A change in the column's own units for each of `features`."""
        if self.kind == "number":
            low, high = self._bounds
            weight = (2 if self.centered else 1) / (high - low)
            middle = (low + high) / 2 if self.centered else low
            step = 10.0 ** math.floor(math.log10((high - low) / 10)) if self.step is None else self.step
            if self.step is None and high - low >= 2:
                step = max(step, 1.0)  # of grades 1 to 7 nobody knows a tenth
            made = [Change(f"+{step:,g}", ((0, weight * step),), step=step, per_unit=weight, middle=middle)]
            start = f"{middle if self.center is None else self.center:g}"
        elif self.kind == "binary":
            start = self.values[0]
            made = [Change(f"{self.values[1]} instead of {start}", ((0, 1.0),))]
        else:
            start, made = self.reference or (self.values or ("",))[0], []
            for code, value in enumerate(self.values):
                other = ((code, 1.0), (self.values.index(start), -1.0))
                made.append(Change("", ()) if value == start else Change(f"{value} instead of {start}", other))
        against = ((self.values.index(start), -1.0),) if self.kind == "category" else ()
        more: dict[str, Any] = {}
        if self.kind == "number" and self.center is None:
            more = {"number": 0, "per_unit": weight, "middle": middle}
        elif self.kind == "number":
            against = ((0, -weight * (cast(float, self.center) - middle)),)
        for code, name in list(enumerate(self.features))[len(made) :]:
            what = "missing" if name.endswith("?") else "another value"
            made.append(Change(f"{what} instead of {start}", ((code, 1.0), *against), **more))
        return tuple(made)

    def codes(self, cells: Any, nulls: frozenset[str]) -> np.ndarray:
        """Find the number of each cell's value among ``values``, negative without one."""
        known = {value: code for code, value in enumerate(self.values)}
        # What the column lists is an answer, though it may stand for a missing value elsewhere.
        forms: dict[Any, int] = {cell_form(null): _MISSING for null in nulls}
        forms |= {value.title(): known[value] for value in reversed(self.values) if value.title() in ("True", "False")}
        forms |= {cell_form(value): known[value] for value in reversed(self.values)} | {None: _MISSING}

        def code(cell: Any) -> int:
            found = _MISSING if is_missing(cell) else known.get(text_of(cell))
            return forms.get(cell_form(cell), _UNKNOWN) if found is None else found

        return np.fromiter(map(code, _listed(cells)), dtype=np.int64)

    def numbers(self, cells: Any, nulls: frozenset[str]) -> tuple[np.ndarray, np.ndarray]:
        """Convert cells to float64 and codes, negative if a cell is refused; ``beyond`` is followed, but for "clip"."""
        array = cells if isinstance(cells, np.ndarray) else None
        if array is not None and array.dtype.kind in "iufb":
            values = array.astype(np.float64)
            codes = np.where(np.isnan(values), _MISSING, np.where(np.isinf(values), _WRONG, 0))
        else:
            listed = _listed(cells)
            values, codes = np.zeros(len(listed)), np.zeros(len(listed), dtype=np.int64)
            for i, cell in enumerate(listed):
                if cell.strip() in nulls if isinstance(cell, str) else is_missing(cell):
                    codes[i] = _MISSING
                    continue
                try:
                    values[i] = float(self._point_decimals(cell))
                except (TypeError, ValueError, OverflowError):
                    codes[i] = _WRONG
            codes[(codes == 0) & ~np.isfinite(values)] = _WRONG
        for null in nulls:  # -9 is missing as a number of a frame, too, and so is "-9.0"
            with suppress(TypeError, ValueError, OverflowError):
                codes[(codes == 0) & (values == float(self._point_decimals(null)))] = _MISSING
        if self.beyond != "clip":
            low, high = self._bounds
            outside = (codes == 0) & ((values < low) | (values > high))
            codes[outside] = _MISSING if self.beyond == "missing" else _BEYOND
        return np.where(codes == 0, values, 0.0), codes

    def refuse(
        self,
        codes: np.ndarray,
        where: str,
        lines: Sequence[int] | None,
        label: bool = False,
        others: Sequence[str] = (),
    ) -> None:
        """Raise ValueError for the first negative code.

        ``where`` and ``lines`` are as for `Schema.encode`. With ``label`` the column is y. ``others`` are columns that
        are to be refused, too.
        """
        if not (codes < 0).any():
            return
        row = int((codes < 0).argmax())
        problem, remedy = _PROBLEMS[int(codes[row])]
        if label:
            remedy = _OF_LABEL[int(codes[row])]
        if codes[row] == _UNKNOWN:
            problem += f", {', '.join(map(repr, self.values[:_LISTED]))}{', …' * (len(self.values) > _LISTED)}"
        if codes[row] == _WRONG and self.decimal == ",":
            remedy = f'with a decimal comma, as the column has decimal = ","; {_OTHERS.replace(" or commas", "")}'
        text = f"{problem}{', ' if codes[row] == _WRONG else '; '}{remedy}"
        text += f" (such cells are in {', '.join(map(repr, others))}, too)" if others else ""
        raise ValueError(f"{where} {row if lines is None else lines[row]}, column {self.name!r}: {text}")

    def _point_decimals(self, cell: Any) -> Any:
        """Write a decimal comma as a point; None for other texts, and for codes such as 2026_1, a number to Python."""
        if not isinstance(cell, str) or (self.decimal == "." and "_" not in cell):
            return cell
        return cell.replace(".", "").replace(",", ".") if _COMMAS.fullmatch(cell.strip()) else None

    def encode(self, cells: Any, nulls: frozenset[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Encode cells as entries, places among `features`, and codes."""
        if self.kind == "number":
            values, codes = self.numbers(cells, nulls)
            low, high = self._bounds
            above, below = (codes == 0) & (values > high), (codes == 0) & (values < low)
            if self.missing == "fill":
                missing = codes == _MISSING
                values[missing], codes[missing] = cast(float, self.center), 0
            entries = (np.clip(values, low, high) - low) / (high - low)
            entries = 2 * entries - 1 if self.centered else entries
            if self.beyond == "clip":
                entries[above], entries[below] = MOVED, -MOVED if self.centered else 1.0 - MOVED
            places = np.zeros(len(codes), dtype=np.int64)
        else:
            codes = self.codes(cells, nulls)
            for code, rule in ((_MISSING, self.missing), (_UNKNOWN, self.unknown)):
                if rule == "fill":
                    codes[codes == code] = self.values.index(self.reference or self.values[0])
            places = np.maximum(codes - (self.kind == "binary"), 0)
            entries = (codes >= (self.kind == "binary")).astype(np.float64)
        for code, rule, mark in ((_MISSING, self.missing, "?"), (_UNKNOWN, self.unknown, "*")):
            if rule == "flag":
                flagged = codes == code
                entries[flagged], places[flagged] = 1.0, self.features.index(f"{self.name}={mark}")
                codes[flagged] = 0
        return entries, places, codes


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in the order of the features.

    ``nulls`` are the cells that stand for a missing value, beside empty ones and NaN. ``label_name`` names the label
    of a fit, which is none of the columns: readers of its effects would not know what was 1 and not 0.
    """

    columns: tuple[Column, ...]
    nulls: frozenset[str] = frozenset({""})
    label_name: str | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError("columns: expected no name twice")
        features = self.feature_names
        if len(set(features)) != len(features):
            twice = next(name for name in features if features.count(name) > 1)
            raise ValueError(f"columns: two features would be called {twice!r}")

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        listed = ", ".join(repr(column.name) for column in self.columns)
        raise ValueError(f"the schema has no column {name!r}; it has {listed}")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that features are made of."""
        return tuple(column.name for column in self.columns if column.kind != "ignore")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns. A number keeps its name; the values of others are "name=value"."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def changes(self) -> tuple[Change, ...]:
        """A change in a column's own units for each of `feature_names`. Its weights are of all encoded columns."""
        made: list[Change] = []
        for column in self.columns:
            first = len(made)
            places = tuple(range(first, first + len(column.features)))
            for one in column.changes:
                weights = tuple((first + place, weight) for place, weight in one.weights)
                number = None if one.number is None else first + one.number
                made.append(one._replace(weights=weights, beside=places, number=number))
        return tuple(made)

    @property
    def row_norm(self) -> float:
        """The largest L2 norm that an encoded row can have. Each column makes one entry of at most 1."""
        return math.sqrt(len(self.names))

    def without(self, *names: str | None, label: str | None = None) -> Schema:
        """Return the schema without these columns and a ``label``, whose name it keeps."""
        kept = tuple(column for column in self.columns if column.name not in (*names, label))
        return Schema(kept, self.nulls, label or self.label_name)

    def check_columns(self, names: Collection[str]) -> None:
        """Raise ValueError if a table with columns of these names lacks one of `names`."""
        for name in self.names:
            if name not in names:
                without = f"if it is a label, leave it out: schema.without({name!r})"
                raise ValueError(f"there is no column {name!r}, which the schema has; {without}")

    def encode(
        self,
        cells: Mapping[str, Any],
        *,
        invalid: str = "raise",
        where: str = "row",
        lines: Sequence[int] | None = None,
    ) -> sparse.csr_array:
        """Encode columns of cells, as float64 CSR of shape (n, len(feature_names)).

        ``cells`` maps each of `names` to a list or array of texts, numbers or missing values (None, NaN), equally many.
        A cell that the schema refuses ends the encoding, or with ``invalid="nan"`` becomes NaN, for an estimator's own
        ``invalid`` to settle. For messages, ``where`` is the name of a row, and ``lines`` its number in place of
        that from 0.

        Raises ValueError if a column is missing, or a cell is refused. The message has row and column, never the cell.
        """
        check_choice("invalid", invalid, ("raise", "nan"))
        self.check_columns(cells)
        entries, places, start = [], [], 0
        refused: list[tuple[Column, np.ndarray]] = []
        for column in self.columns:
            if column.kind == "ignore":
                continue
            kind = getattr(getattr(cells[column.name], "dtype", None), "kind", "O")
            if kind not in "iufbOUST":
                dtype = cells[column.name].dtype
                raise ValueError(f"column {column.name!r} has dtype {dtype}: expected numbers or texts")
            values, here, codes = column.encode(cells[column.name], self.nulls)
            if isinstance(cells[column.name], list):
                codes[[cell is BROKEN for cell in cells[column.name]]] = _WRONG
            refused += [(column, codes)] if (codes < 0).any() else []
            values[codes < 0] = np.nan
            entries.append(values)
            places.append(here + start)
            start += len(column.features)
        if refused and invalid == "raise":
            (first, codes), *more = refused
            first.refuse(codes, where, lines, others=[column.name for column, _ in more])
        if len({len(values) for values in entries}) > 1:
            raise ValueError("the columns have not the same number of rows")
        if not entries:
            raise ValueError("the schema has no column that features are made of")
        table, columns = np.stack(entries, axis=1), np.stack(places, axis=1)
        present = table != 0
        indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        # Some users of sparse matrices, such as liblinear, read only int32 indices.
        dtype = np.int32 if indptr[-1] <= INT32_MAX else np.int64
        matrix = (table[present], columns[present].astype(dtype), indptr.astype(dtype))
        return sparse.csr_array(matrix, shape=(len(table), start))

    def label(
        self,
        name: str,
        cells: Any,
        *,
        counts: bool = False,
        invalid: str = "nan",
        where: str = "row",
        lines: Sequence[int] | None = None,
    ) -> np.ndarray:
        """Return a column as y of a fit.

        It is a category or binary one, whose ``values`` are the classes, or with ``counts`` a number. Gives texts, ""
        for a cell with another value; with ``counts`` float64, NaN for one that is no number. One beyond its bounds
        stays, for the fit to cut, unless ``beyond`` says otherwise: then it is NaN, too. The rules ``missing`` and
        ``unknown`` are for features. With ``invalid="raise"`` such a cell is refused, and ``where`` and ``lines`` are
        as for `encode`. Raises ValueError then, or if the column is of another kind or not in the schema.
        """
        column = self[name]
        kinds = ("number",) if counts else ("category", "binary")
        if column.kind not in kinds:
            raise ValueError(f"column {name!r}: kind={column.kind!r}: expected {' or '.join(kinds)} of a label")
        values, codes = column.numbers(cells, self.nulls) if counts else (None, column.codes(cells, self.nulls))
        if invalid == "raise":
            column.refuse(codes, where, lines, label=True)
        if values is not None:
            return np.where(codes == 0, values, np.nan)
        return np.asarray(np.array([*column.values, ""])[codes.clip(-1)])

    def to_toml(self) -> str:
        """Return the text that `parse` reads."""
        lines = [] if self.nulls == {""} else [f"nulls = {json.dumps(sorted(self.nulls))}", ""]
        lines += [] if self.label_name is None else [f"label = {_quote(self.label_name)}", ""]
        for column in self.columns:
            lines.append(f"[columns.{_quote(column.name)}]")
            for field in fields(column)[1:]:
                value = getattr(column, field.name)
                if value != field.default:
                    lines.append(f"{field.name} = {_toml(value)}")
            lines.append("")
        return "\n".join(lines)

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Read the schema in a text of TOML; ValueError for other texts."""
        said = parse_toml(text)
        if extra := sorted(said.keys() - {"nulls", "label", "columns"}):
            raise ValueError(f"{extra[0]}: unknown key; expected nulls, label and columns")
        columns, nulls, label = said.get("columns"), said.get("nulls", [""]), said.get("label")
        if not isinstance(columns, dict) or not all(isinstance(value, dict) for value in columns.values()):
            raise ValueError("columns: expected a table for each column, [columns.NAME]")
        if not isinstance(nulls, list) or not all(isinstance(null, str) for null in nulls):
            raise ValueError("nulls: expected a list of texts")
        if not (label is None or (isinstance(label, str) and label)) or label in columns:
            raise ValueError(f"label={label!r}: expected the name of a column that is no feature")
        known, made = {field.name for field in fields(Column)} - {"name"}, []
        for name, value in columns.items():
            if extra := sorted(value.keys() - known):
                listed = ", ".join(sorted(known))
                raise ValueError(f"column {name!r}: {extra[0]}: unknown key; expected one of {listed}")
            if value.get("kind") in (None, "?"):
                raise ValueError(f"column {name!r}: its kind is not said; expected one of {', '.join(KINDS)}")
            made.append(Column(name, **value))
        return cls(tuple(made), frozenset({"", *nulls}), label)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """Return the schema in a file; OSError or ValueError, with its path."""
        text = read_text(path)
        with naming(path):
            return cls.parse(text)


#: The lines of each kind that a draft proposes.
_SKELETONS = {
    "number": 'low = 0\nhigh = 100\n# step = 10\n# center = 50\n# missing = "flag"\n# beyond = "refuse"\n',
    "category": 'values = ["a", "b", "c"]\n# reference = "a"\n# missing = "flag"\n# unknown = "flag"\n',
    "binary": 'values = ["no", "yes"]\n# missing = "fill"\n',
    "ignore": "",
}
_DRAFT = f"""\
# Fill in from public knowledge, never from the rows. Give each column the lines of its kind:
#
{{skeletons}}#
# Optional lines are marked with a second #. low and high are public bounds, step is the change that an effect is of,
# and center a typical value. missing (a cell of nulls), unknown (a value that is not listed) and beyond (a number past
# its bounds) are rules: "refuse"; "fill", by center, reference or the first value; "flag", a column of its own; of
# beyond "clip", "missing" or "refuse". centered = false is for amounts from 0, decimal = "," for 1.234,5. Of a label
# the last of two values is reported.
nulls = {json.dumps(NULLS)}
"""


def draft(names: Iterable[str]) -> str:
    """Write a template of a schema, to fill in from public knowledge; a column of persons is no feature."""
    skeletons = "".join(
        f"#   kind = {_quote(kind)}\n" + "".join(f"#   {line}\n" for line in lines.splitlines())
        for kind, lines in _SKELETONS.items()
    )
    head = _DRAFT.replace("{skeletons}", skeletons)
    ask, persons = '"?"', '"ignore"  # tells persons apart by its name: give it as --person'
    kinds = ((name, persons if names_persons(name) else ask) for name in names)
    return head + "".join(f"\n[columns.{_quote(name)}]\nkind = {kind}\n" for name, kind in kinds)


def moved_to_bounds(values: np.ndarray) -> np.ndarray:
    """Find the entries of values that were moved to a bound."""
    return np.asarray((np.abs(values) == MOVED) | (values == 1.0 - MOVED))


def text_of(cell: Any) -> str:
    """Return a cell as it is compared with the schema's values."""
    if isinstance(cell, (float, np.floating)) and cell == int(cell if math.isfinite(cell) else 0):
        cell = int(cell)
    return str(cell).strip()


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _listed(cells: Any) -> Sequence[Any]:
    listed: Sequence[Any] = cells.tolist() if isinstance(cells, np.ndarray) else cells
    return listed


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_quote, value)) + "]"
    return _quote(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
