"""Tables of a model by public groups and periods: ``tabulate`` and ``drift``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from ...accounting.calibration import Target
from ...data.records import read_batches
from ...data.vocabulary import count_matrix
from ...engine.planner import Planner
from ...engine.result import Public
from ...jobs import Material, TextFile, beside
from ...jobs.clusters import encoder_and_knowledge
from ...jobs.places import kind_in
from ...jobs.text import read_settings
from ...models.clusters import DocumentClusters
from ...models.family import COLUMNS, READING, VOCABULARY, family_of
from ...models.inputs import column_names, listed
from ...models.lda import DriftingTopics, LatentDirichletAllocation
from ...models.tables import TopicTables, model_epsilon
from ...report import part_of
from ...report.whole import chain_models
from ...store.toml import read_toml
from ..inputs import load_model
from ..parser import parse
from .fit import run_fit
from .jobs import ReadBy, show_forecast

#: Options that a fit passes on to its tables.
_SHARED = (
    *("format", "text", "encoding", "person", "groups", "unit", "invalid", "relation", "vectors", "delta", "budget"),
    *("n_records", "n_jobs", "quiet", "json", "force", "resume", "report", "anyway", "debug"),
)


def tabulate(args: Namespace) -> int:
    """Release the shares of a model's topics or clusters by public groups."""
    model, clusters = _topics(args)
    after = _before(args, model)
    source = _documents(args, model, clusters, after)
    code = run_fit(args, TopicTables, lambda: source)
    if args.parquet is not None and not code:
        load_model(args.out, TopicTables, "tabulate", None).to_parquet(args.parquet)
    return code


def drift(args: Namespace) -> int:
    """Release the words of a model's topics by period."""
    model = load_model(args.model, LatentDirichletAllocation, "fit lda", args.verify_key)
    after = _before(args, model)
    words, analyzer = _words(args, model)
    args.periods = [*public_values(args.values, [args.by])[args.by]]
    args.topics, args.doc_length = model.components_, args.doc_length or model.get_params()["doc_length"]
    inputs = {name: text for name, text in model.inputs_.items() if name in (VOCABULARY, READING)}

    def read(drifting: Any) -> Material:
        found = list[Any]()
        cells, groups = _columns(
            args, model, [args.by], drifting.invalid, lambda texts: found.append(count_matrix([texts], words, analyzer))
        )
        counts = scipy.sparse.vstack(found, format="csr")
        return Material((counts, cells[args.by]), inputs, beside.shown, groups, after=after)

    return run_fit(args, DriftingTopics, lambda: ReadBy(args.input, read, args.person))


def _before(args: Namespace, model: Any) -> Any:
    """Load the last of the tables that come before, or return the model."""
    kinds = TopicTables, DriftingTopics
    earlier = [load_model(path, kinds, "tabulate or drift", args.verify_key) for path in args.after]
    return chain_models(model, earlier)[-1]


def _topics(args: Namespace) -> tuple[Any, bool]:
    """Load the model of topics, or of clusters; tell which it is."""
    clusters = family_of(kind_in(args.model)).name == "clusters"
    kind = DocumentClusters if clusters else LatentDirichletAllocation
    return load_model(args.model, kind, "fit lda or fit clusters", args.verify_key), clusters


def _documents(args: Namespace, model: Any, clusters: bool, after: Any) -> ReadBy:
    """Make the source of texts: their topics and their groups."""
    args.by = public_values(args.values, args.by.split(","))
    shares = _cluster_shares(args, model) if clusters else _topic_shares(args, model)

    def read(tables: Any) -> Material:
        found = list[np.ndarray]()
        cells, groups = _columns(args, model, args.by, tables.invalid, lambda texts: found.append(shares(texts)))
        names = part_of(model).names(model)
        inputs = {COLUMNS: listed(names)} if names else {}
        return Material((np.concatenate(found), cells), inputs, beside.shown, groups, after=after)

    return ReadBy(args.input, read, args.person)


def _columns(
    args: Namespace, model: Any, by: Sequence[str], invalid: str, take: Callable[[list[str]], None]
) -> tuple[dict[str, list[str | None]], list[Any] | None]:
    """Read columns and persons, and hand each batch of texts to ``take``."""
    text = args.text or read_settings(model).get("columns") or ["text"]
    columns = [*text, *by, *([] if args.person is None else [args.person])]
    cells, persons, empty = {name: list[str | None]() for name in by}, list[Any](), True
    how: dict[str, Any] = {"format": args.format, "encoding": args.encoding, "invalid": invalid}
    for batch in read_batches(args.input, list(dict.fromkeys(columns)), texts=text, **how):
        take(["\n".join(parts) for parts in zip(*map(_filled, (batch[n] for n in text)), strict=True)])
        for name, column in cells.items():
            column += [None if cell is None else str(cell) for cell in batch[name]]
        persons += [] if args.person is None else batch[args.person]
        empty = False
    if empty:
        raise ValueError(f"{args.input}: has no records")
    return cells, None if args.person is None else persons


def with_tables(args: Namespace, fit: Callable[[], int]) -> int:
    """Fit a model, and release its tables with ``--tabulate``.

    The fit leaves them their part of epsilon. Bad options are refused before either.
    """
    if args.tabulate is None:
        for option in ("values", "table_epsilon"):
            if getattr(args, option) is not None:
                raise ValueError(f"--{option.replace('_', '-')}: expected only with --tabulate")
        return fit()
    risk, delta = args.target_attack_success, args.delta or 1e-6
    if (args.epsilon or risk) is None or args.values is None:
        raise ValueError(
            "--tabulate: expected with --values, and with --epsilon or --attack-success, which is for model and tables"
        )
    by, part = public_values(args.values, args.tabulate.split(",")), args.table_epsilon or 0.5
    left = model_epsilon(args.epsilon or Target.of_success(risk, delta).epsilon, part, delta)
    _refuse_hidden(args, TopicTables(by, epsilon=part, delta=args.delta))
    whole = ["--attack-success", str(risk)] if risk else ["--epsilon", str(args.epsilon)]
    options = ["--by", args.tabulate, "--values", args.values, *whole]
    tables = parse(["tabulate", args.out, args.input, *options, "--out", f"{args.out}-tables"])
    for name in _SHARED:
        if name in args and name in tables:
            setattr(tables, name, getattr(args, name))
    if args.transcript is not None:
        tables.transcript = f"{args.transcript}-tables"
    args.epsilon, args.target_attack_success = left, None
    code = fit()
    return code or tabulate(tables)


def _refuse_hidden(args: Namespace, tables: TopicTables) -> None:
    """Refuse tables that noise would hide, before their model spends anything."""
    if args.anyway or args.resume or args.groups is not None or not isinstance(args.input, str):
        return
    text = tuple(args.text or ["text"])
    source = TextFile(
        args.input, text, args.person, format=args.format, encoding=args.encoding, invalid=args.invalid or "raise"
    )
    n_records = args.n_records or source.count()
    n_topics = int(args.n_components or DocumentClusters().n_components)
    request = tables.request(Public(n_topics, n_records, seed=0, unit="record" if args.person is None else "person"))
    forecast = Planner().plan(request, None).forecast
    if forecast is not None and forecast.warning is not None:
        show_forecast(args)(forecast)


def public_values(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Read the public values of columns from a TOML file, as texts.

    A column has a list, or a table of the values' shares of persons, for the forecast.
    """
    try:
        said = read_toml(path)
    except ValueError as error:
        fault = str(error).removeprefix(f"{path}: ")
        raise ValueError(f"--values {path}: {fault}; expected such as ward = ['north', 'south']") from None
    values: dict[str, Any] = {}
    for name in names:
        column = said.get(name)
        if not isinstance(column, (list, dict)) or not column:
            raise ValueError(f"--values {path}: has no list {name!r}; expected the public values of {', '.join(names)}")
        values[name] = {str(v): s for v, s in column.items()} if isinstance(column, dict) else [*map(str, column)]
    return values


def _filled(column: Sequence[str | None]) -> list[str]:
    return [text or "" for text in column]


def _words(args: Namespace, model: Any) -> tuple[tuple[str, ...], Any]:
    """Find a model's words, and how texts become words."""
    words, analyzer = column_names(model._fitted().public), read_settings(model).get("analyzer")
    if words is None or analyzer is None:
        raise ValueError(f"{args.model}: has no words, since it was fitted to counts; expected a model of texts")
    return words, analyzer


def _topic_shares(args: Namespace, model: Any) -> Callable[[list[str]], np.ndarray]:
    words, analyzer = _words(args, model)

    def shares(texts: list[str]) -> np.ndarray:
        counts = count_matrix([texts], words, analyzer)
        # A text without one of the words is of no topic.
        return np.asarray(model.transform(counts) * (np.diff(counts.indptr) > 0)[:, None])

    return shares


def _cluster_shares(args: Namespace, model: Any) -> Callable[[list[str]], np.ndarray]:
    encode, _ = encoder_and_knowledge(args.vectors, model.public)
    return lambda texts: np.asarray(np.eye(model.n_components)[model.predict(encode(texts))])
