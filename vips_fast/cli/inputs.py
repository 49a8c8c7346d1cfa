"""Files and folders that arguments name: records, tables, labels, keys, fitted models."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from scipy import sparse

from ..data import Corpus, Schema, ShardedCorpus, holds_records, load_corpus
from ..data.readers import read_sparse_matrix
from ..data.records import read_batches
from ..data.shards import is_sharded
from ..jobs import TextFile
from ..jobs.places import kind_in
from ..jobs.progress import ReadingLine
from ..jobs.text import PRIVATE, read_settings
from ..models.estimator import PrivateEstimator
from ..models.family import COLUMNS, FAMILIES, SCHEMA, family_of, resolve
from ..models.inputs import listed
from ..store.limits import read_bytes, read_text
from .arguments import FitMixture, Predict, Prior, Regression, Texts
from .output import warn_of_taints
from .signature import refuse_unused

#: Endings of files of a matrix.
_MATRIX_NAMES = (".npy", ".npz")
#: Options of ``predict`` that texts, rows and images have alone.
TEXTS, ROWS, IMAGES = ("vocab", "format", "text"), ("schema",), ("threshold",)
#: Bytes of the largest file of labels, one a line.
_MOST_LABELS = 1 << 30


def read_lines(path: str) -> list[str]:
    """Read the lines of a text file."""
    return read_text(path).splitlines()


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
    array: Any = None
    # The head is Python source, which numpy's own reader splits into tokens.
    with contextlib.suppress(ValueError, EOFError, SyntaxError, TokenError, ArithmeticError):
        array = np.load(path, mmap_mode="r", allow_pickle=False)  # so that no size is claimed which the file lacks
        array = np.array(array)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
        raise ValueError(f"{path}: not a .npy file of numbers" + " or texts" * ("U" in kinds))
    return array


def read_matrix(path: str) -> Any:
    """Read rows from a file of numbers."""
    if Path(path).suffix not in _MATRIX_NAMES:
        raise ValueError(f"{path}: expected a name that ends in {' or '.join(_MATRIX_NAMES)}, or --schema for a table")
    return read_array(path, "biuf") if path.endswith(".npy") else read_sparse_matrix(path)


def read_table(path: str, schema: Schema, invalid: str, others: Sequence[str] = ()) -> tuple[Any, dict[str, list[Any]]]:
    """Read a table's encoded rows, and the cells of its ``others``.

    The others are no features.
    """
    kept, parts, n = schema.without(*others), [], 0
    cells: dict[str, list[Any]] = {name: [] for name in others}
    for batch in read_batches(path, [*kept.names, *others], invalid="raise" if invalid == "raise" else "drop"):
        rows = len(next(iter(batch.values())))
        lines = range(n + 1, n + rows + 1)
        parts.append(kept.encode(batch, invalid=invalid, where=f"{path}: record", lines=lines))
        for name, column in cells.items():
            column.extend(batch[name])
        n += rows
    return sparse.vstack(parts, format="csr") if parts else sparse.csr_array((0, len(kept.feature_names))), cells


def matrix_names(args: FitMixture | Regression, n: int) -> list[str]:
    """Read the names of a matrix's columns, or number them."""
    names = [f"x{j + 1}" for j in range(n)] if args.names is None else read_lines(args.names)
    if len(names) != n:
        raise ValueError(f"{args.names}: {len(names)} names; expected {n}, one for each column")
    return names


def column_inputs(names: Sequence[str] | None, schema: Schema | None) -> dict[str, str]:
    """Write a model's schema, or its names of columns."""
    if schema is not None:
        return {SCHEMA: schema.to_toml()}
    return {} if names is None else {COLUMNS: listed(names)}


def read_new_rows(args: Predict, model: Any) -> Any:
    """Read new rows for a fitted model: a matrix, or a table."""
    own = model.inputs_.get(SCHEMA)
    if args.schema is None and (own is None or Path(args.input).suffix in _MATRIX_NAMES):
        return read_matrix(args.input)
    if args.schema is None:
        return read_table(args.input, Schema.parse(own), "raise")[0]
    schema = Schema.load(args.schema)
    if own is not None:
        # The file of the fit may have a label and persons, too, which are no features.
        features = Schema.parse(own).names
        schema = schema.without(*(name for name in schema.names if name not in features))
    return read_table(args.input, schema, "raise")[0]


def text_file(args: Texts, **more: Any) -> TextFile:
    """Make the source of texts, and how they become words."""
    fields = TextFile.__dataclass_fields__.keys() - {"path", "progress", "verify"}
    given = {name: value for name in fields if (value := getattr(args, name, None)) is not None}
    return TextFile(
        args.input,
        progress=lambda label: nullcontext() if getattr(args, "quiet", True) else ReadingLine(label),
        **given,
        **more,
    )


def read_public(args: Prior) -> Corpus:
    """Read public documents with the words of their columns."""
    raw = holds_records(args.input, args.format, args.text, None)
    if raw and args.vocab in (None, PRIVATE):
        raise ValueError("--vocab: expected a public vocabulary, FILE or public:LANGUAGE")
    source = text_file(args)
    corpus = load_corpus(
        args.input,
        source.public_words(),
        args.format,
        text=args.text,
        analyzer=source.words_analyzer() if raw else None,
        encoding=args.encoding,
    )
    if corpus.vocabulary is None:
        raise ValueError(f"{args.input}: the columns have no words; expected --vocab")
    return corpus


def open_shards(args: Any) -> ShardedCorpus | None:
    """Open INPUT as shards; None for any other INPUT."""
    if not is_sharded(args.input):
        return None
    said = ("vocab", "format", "text", "schema", "label", "person", "names")
    refuse_unused(args, said, "not with shards, which were written with what it says")
    return ShardedCorpus(args.input)


def read_documents(args: Predict, model: Any, vocabulary: Sequence[str] | None) -> Corpus | ShardedCorpus:
    """Read documents for a fitted model, by the settings of its fit."""
    if (shards := open_shards(args)) is not None:
        if None not in (vocabulary, shards.vocabulary) and tuple(vocabulary or ()) != shards.vocabulary:
            raise ValueError(f"{args.input}: other words, or another order, than those of {args.model}")
        return shards
    kept = read_settings(model)
    text = args.text
    if text is None and holds_records(args.input, args.format):
        text = kept.get("columns")
    lines: AbstractContextManager[Any] = nullcontext() if getattr(args, "quiet", True) else ReadingLine("read")
    with lines as line:
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
        commands = dict.fromkeys(f"fit {one.command}" for one in FAMILIES if one.verb)
        raise ValueError(
            f"{args.model} holds a {kind.__name__}; expected a model written by vips-fast {' or '.join(commands)}"
        )
    model = load_model(args.model, kind, f"fit {family.command}")
    records = resolve(family.shell).read_new(args, model)
    warn_of_taints(model)
    return model, records


def refuse(args: Predict, *names: str) -> None:
    """Refuse options that mean nothing to the model."""
    refuse_unused(args, names, f"not for a {family_of(kind_in(args.model)).title.lower()}, as in {args.model}")


def load_model(folder: str, expected: type[PrivateEstimator] | tuple[type[PrivateEstimator], ...], name: str) -> Any:
    """Load the fitted model in a folder.

    It has an expected class, or a variant of it, and its command is ``name``. Raises FileNotFoundError or ValueError
    if there is no such model or its files differ from the saved ones.
    """
    kind = kind_in(folder)
    if not issubclass(kind, expected):
        raise ValueError(f"{folder} holds a {kind.__name__}; expected a model written by vips-fast {name}")
    return kind.load(folder)
