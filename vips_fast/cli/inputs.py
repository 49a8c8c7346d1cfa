"""Files and folders that arguments name: records, tables, labels, keys, fitted models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..data import Corpus, Schema, ShardedCorpus, holds_records, load_corpus
from ..data.records import read_batches, read_sparse_matrix
from ..data.shards import Mapped, is_sharded
from ..jobs import TextFile
from ..jobs.job import Difference
from ..jobs.places import kind_in
from ..jobs.progress import reading
from ..jobs.text import read_settings
from ..models.estimator import PrivateEstimator
from ..models.family import COLUMNS, FAMILIES, SCHEMA, family_of
from ..models.inputs import column_names, listed
from ..store.limits import read_bytes, read_text
from .arguments import FitMixture, Predict, Regression, Shard, Texts
from .output import warn_of_taints
from .signature import COMMANDS, load, refuse_unused

#: Endings of files of a matrix.
_MATRIX_NAMES = (".npy", ".npz")
#: Options of ``predict`` that texts, rows and images have alone.
TEXTS, ROWS, IMAGES = ("format", "text"), ("schema",), ("threshold",)
#: Bytes of the largest file of labels, one a line.
_MOST_LABELS = 1 << 30


def read_labels(path: str, invalid: str) -> Any:
    """Read a label for each record: a .npy array or text lines.

    With ``invalid="drop"`` a line that is not UTF-8 text is None.
    """
    if path.endswith(".npy"):
        return read_array(path, "biufUS")
    if invalid == "raise":
        return read_text(path, _MOST_LABELS).splitlines()
    lines = read_bytes(path, _MOST_LABELS).decode("utf-8-sig", "replace").splitlines()
    return [None if "\ufffd" in line else line for line in lines]


def read_array(path: str, kinds: str) -> np.ndarray:
    """Read a .npy file with one of these dtypes (``numpy.dtype.kind``)."""
    with contextlib.suppress(ValueError):
        array = Mapped.of(Path(path)).array  # so that no size is claimed which the file lacks
        if array.dtype.kind in kinds:
            return np.array(array)
    raise ValueError(f"{path}: not a .npy file of numbers" + " or texts" * ("U" in kinds))


def read_matrix(path: str) -> Any:
    """Read rows from a file of numbers."""
    if Path(path).suffix not in _MATRIX_NAMES:
        raise ValueError(f"{path}: expected a name that ends in {' or '.join(_MATRIX_NAMES)}, or --schema for a table")
    rows = read_array(path, "biuf") if path.endswith(".npy") else read_sparse_matrix(path)
    if rows.ndim != 2:
        raise ValueError(f"{path}: expected a matrix of rows and columns; got shape {rows.shape}")
    return rows


def at_lines(args: FitMixture | Regression | Shard | Predict, lines: range) -> dict[str, Any]:
    """Say what a schema does with invalid cells of these lines, and how it names them."""
    invalid = "nan" if getattr(args, "invalid", "raise") == "drop" else "raise"
    return {"invalid": invalid, "where": f"{args.input}: record", "lines": lines}


def table_batches(
    args: FitMixture | Regression | Shard | Predict, schema: Schema, others: Sequence[str]
) -> Iterator[tuple[Any, dict[str, list[Any]], range]]:
    """Read a table: encoded rows, the cells of its ``others``, which are no features, and their lines."""
    kept, first = schema.without(*others), 1
    how: dict[str, Any] = {"invalid": getattr(args, "invalid", "raise"), "encoding": args.encoding}
    for cells in read_batches(args.input, [*kept.names, *others], **how):
        lines = range(first, first := first + len(next(iter(cells.values()))))
        yield kept.encode(cells, **at_lines(args, lines)), {name: cells[name] for name in others}, lines


def read_table(
    args: FitMixture | Regression | Predict, schema: Schema, others: Sequence[str] = ()
) -> tuple[Any, dict[str, list[Any]]]:
    """Read a whole table as `table_batches`."""
    parts = [sparse.csr_array((0, len(schema.without(*others).feature_names)))]
    cells: dict[str, list[Any]] = {name: [] for name in others}
    for rows, more, _ in table_batches(args, schema, others):
        parts.append(rows)
        for name in others:
            cells[name] += more[name]
    return sparse.vstack(parts, format="csr"), cells


@dataclass(frozen=True)
class Rows:
    """Rows of numbers: what their columns mean, the table's other columns, and whose they are."""

    rows: Any
    names: list[str]
    schema: Schema | None = None
    cells: dict[str, list[Any]] = field(default_factory=dict)
    groups: Any = None

    @property
    def inputs(self) -> dict[str, str]:
        """The schema of the columns, or their names, for the model's folder."""
        return {COLUMNS: listed(self.names)} if self.schema is None else {SCHEMA: self.schema.to_toml()}


def read_rows(args: FitMixture | Regression, *columns: str | None) -> Rows:
    """Read shards, a table with a schema, or a matrix; ``columns`` of a table are no features."""
    if (shards := open_shards(args)) is not None:
        if shards.schema is None:
            return Rows(shards, _names(args, shards.n_features), groups=shards.groups)
        return Rows(shards, list(shards.schema.feature_names), shards.schema, groups=shards.groups)
    if args.schema is None:
        rows = read_matrix(args.input)
        return Rows(rows, _names(args, rows.shape[1]))
    others = [name for name in (*columns, args.person) if name is not None]
    if len(set(others)) < len(others):
        raise ValueError(f"--label{', --exposure' * bool(columns[-1])}, --person: expected another column for each")
    schema = Schema.load(args.schema)
    if unknown := set(filter(None, columns)) - {*schema.names}:
        schema[unknown.pop()]  # refuses it
    rows, cells = read_table(args, schema, others)
    kept = schema.without(*others, label=columns[0] if columns else None)
    return Rows(rows, list(kept.feature_names), kept, cells, None if args.person is None else cells[args.person])


def unlike_rows(args: FitMixture | Regression, *columns: str | None) -> Callable[[Any], Iterator[Difference]]:
    """Compare the columns of a finished model's rows with the schema or their names, as `read_rows`."""
    if args.names is not None and args.schema is not None:
        raise ValueError("--names: leave it out with --schema, which has the names")

    def compare(model: Any) -> Iterator[Difference]:
        if args.schema is not None:
            theirs = Schema.parse(model.inputs_[SCHEMA]) if SCHEMA in model.inputs_ else None
            mine = Schema.load(args.schema).without(*columns, args.person, label=columns[0] if columns else None)
            yield "schema", None if theirs is None else list(theirs.names), list(mine.names)
            yield "schema", model.inputs_.get(SCHEMA), mine.to_toml()
        elif not is_sharded(args.input) and (names := column_names(model._fitted().public)) is not None:
            yield "names", list(names), _names(args, len(names))

    return compare


def _names(args: FitMixture | Regression, n: int) -> list[str]:
    """Read the names of a matrix's columns, or number them."""
    names = [f"x{j + 1}" for j in range(n)] if args.names is None else read_text(args.names).splitlines()
    if len(names) != n:
        raise ValueError(f"{args.names}: {len(names)} names; expected {n}, one for each column")
    return names


def read_new_rows(args: Predict, model: Any) -> Any:
    """Read new rows for a fitted model: shards, a matrix, or a table."""
    refuse(args, *TEXTS, *IMAGES)
    if (shards := open_shards(args)) is not None:
        return shards
    own = model.inputs_.get(SCHEMA)
    if args.schema is None and (own is None or Path(args.input).suffix in _MATRIX_NAMES):
        return read_matrix(args.input)
    if args.schema is None:
        return read_table(args, Schema.parse(own))[0]
    schema = Schema.load(args.schema)
    if own is not None:
        # The file of the fit may have a label and persons, too, which are no features.
        features = Schema.parse(own).names
        schema = schema.without(*(name for name in schema.names if name not in features))
    return read_table(args, schema)[0]


def text_file(args: Texts) -> TextFile:
    """Make the source of texts, and how they become words."""
    fields = TextFile.__dataclass_fields__.keys() - {"path", "progress"}
    given = {name: value for name in fields if (value := getattr(args, name, None)) is not None}
    return TextFile(args.input, progress=reading(not getattr(args, "quiet", True)), **given)


def open_shards(args: Any) -> ShardedCorpus | None:
    """Open INPUT as shards; None for any other INPUT."""
    if not is_sharded(args.input):
        return None
    said = ("vocab", "format", "text", "schema", "label", "person", "names")
    refuse_unused(args, said, "not with shards, which were written with what it says")
    return ShardedCorpus(args.input)


def read_documents(args: Predict, model: Any) -> Corpus | ShardedCorpus:
    """Read documents for a fitted model, by the settings of its fit."""
    vocabulary = column_names(model._fitted().public)
    if (shards := open_shards(args)) is not None:
        if None not in (vocabulary, shards.vocabulary) and vocabulary != shards.vocabulary:
            raise ValueError(f"{args.input}: other words, or another order, than those of {args.model}")
        return shards
    kept = read_settings(model)
    text = args.text
    if text is None and holds_records(args.input, args.format):
        text = kept.get("columns")
    with reading(not args.quiet)("read") as line:
        return load_corpus(
            args.input,
            vocabulary,
            args.format,
            text=text,
            analyzer=kept.get("analyzer"),
            encoding=args.encoding,
            progress=line,
        )


def load_new(args: Predict) -> tuple[Any, Any]:
    """Load the model and the new records of a command; the model's family reads the records.

    Raises ValueError if a model says nothing of new records.
    """
    kind = kind_in(args.model)
    if not (family := family_of(kind)).verb:
        commands = " or ".join(f"fit {one.command}" for one in FAMILIES if one.verb)
        found = f"{kind.__name__}.load({args.model!r}).predict(vips_fast.data.SentenceEncoder()(texts))"
        python = f"; in Python: {found}" if hasattr(kind, "predict") else ""
        raise ValueError(f"{args.model} holds a {kind.__name__}; expected a model of vips-fast {commands}{python}")
    model = load_model(args.model, kind, f"fit {family.command}")
    module = COMMANDS[f"fit {family.command}"].function.partition(":")[0]
    records = load(f"commands.{module}:read_new")(args, model)
    warn_of_taints(model)
    return model, records


def refuse(args: Predict, *names: str) -> None:
    """Refuse options that mean nothing to the model."""
    refuse_unused(args, names, f"not for a {family_of(kind_in(args.model)).title.lower()}, as in {args.model}")


def load_model(folder: str, expected: type[PrivateEstimator], name: str) -> Any:
    """Load the fitted model in a folder, of an expected class or a variant of it, whose command is ``name``.

    Raises FileNotFoundError or ValueError if there is no such model or its files differ from the saved ones.
    """
    kind = kind_in(folder)
    if not issubclass(kind, expected):
        raise ValueError(f"{folder} holds a {kind.__name__}; expected a model written by vips-fast {name}")
    return kind.load(folder)
