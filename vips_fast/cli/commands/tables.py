"""Tables of a model by public groups: ``tabulate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...data.groups import Numbering
from ...data.records import no_person, read_batches
from ...data.vocabulary import count_matrix
from ...jobs import Material
from ...jobs.clusters import encoder_and_knowledge
from ...jobs.job import Difference
from ...jobs.places import kind_in
from ...jobs.text import read_settings
from ...models.clusters import DocumentClusters
from ...models.family import COLUMNS, family_of
from ...models.inputs import column_names, listed
from ...models.lda import LatentDirichletAllocation
from ...models.tables import TopicTables
from ...report import part_of
from ...report.dossier import chain_models
from ...store.toml import read_toml
from ...store.words import several
from ..arguments import Tabulate
from ..inputs import load_model
from .fit import ReadBy, run_fit


def tabulate(args: Tabulate) -> int:
    """Release the shares of a model's topics or clusters by public groups."""
    clusters = family_of(kind_in(args.model)).name == "clusters"
    kind = DocumentClusters if clusters else LatentDirichletAllocation
    model = load_model(args.model, kind, "fit lda or fit clusters")
    _take_unit(args, model)
    args.text = args.text or read_settings(model).get("columns") or ["text"]
    earlier = [load_model(path, TopicTables, "tabulate") for path in args.after]
    after, by = chain_models(model, earlier)[-1], public_values(args.values, args.by)
    names = part_of(model).names(model)
    inputs = {COLUMNS: listed(names)} if names else {}
    take = _cluster_shares(args, model) if clusters else _topic_shares(args, model)

    def read(tables: Any) -> Material:
        found = list[np.ndarray]()
        cells, groups = _columns(args, model, [*by], tables._options.invalid, lambda texts: found.append(take(texts)))
        return Material((np.concatenate(found), cells), inputs, groups, after=after)

    def unlike(tables: Any) -> Iterator[Difference]:
        heads = [purchase["head"] for plan in tables.ledger_.plans if (purchase := plan.get("purchase"))]
        yield "after", heads, [after.ledger_.head]

    source = ReadBy(args.input, read, args.person, unlike=unlike)
    return run_fit(args, TopicTables, source, by=by)


def _take_unit(args: Tabulate, model: Any) -> None:
    """Take the privacy unit and the relation of the model, which one statement is about."""
    privacy = model.privacy_
    if privacy.unit != "record" and args.person is None and args.groups is None:
        who = f"the model is about one {privacy.unit}"
        raise ValueError(f"--person: expected the column that tells {several(privacy.unit)} apart, since {who}")
    if privacy.unit == "record" and (args.person, args.groups) != (None, None):
        option = "--groups" if args.person is None else "--person"
        raise ValueError(f"{option}: leave it out, since the model is about one record")
    args.unit = args.unit or (None if privacy.unit == "record" else privacy.unit)
    args.relation = args.relation or privacy.relation


def _columns(
    args: Tabulate, model: Any, by: Sequence[str], invalid: str, take: Callable[[list[str]], None]
) -> tuple[dict[str, list[Any]], list[Any] | None]:
    """Read columns and persons, and hand each batch of texts to ``take``."""
    text = args.text or ()
    columns = [*text, *by, *([] if args.person is None else [args.person])]
    cells, persons = {name: list[Any]() for name in by}, list[Any]()
    how: dict[str, Any] = {"format": args.format, "encoding": args.encoding, "invalid": invalid}
    for batch in read_batches(args.input, list(dict.fromkeys(columns)), texts=text, **how):
        labels = [] if args.person is None else batch[args.person]
        if invalid == "raise" and (nobody := np.flatnonzero(Numbering("drop")(labels) < 0)).size:
            raise ValueError(f"{args.input}: record {len(persons) + nobody[0] + 1}: {no_person(args.person)}")
        take(["\n".join(cell or "" for cell in cells) for cells in zip(*(batch[n] for n in text), strict=True)])
        for name, column in cells.items():
            column += batch[name]
        persons += labels
    if not cells[by[0]]:
        raise ValueError(f"{args.input}: has no records")
    return cells, None if args.person is None else persons


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


def _topic_shares(args: Tabulate, model: Any) -> Callable[[list[str]], np.ndarray]:
    words, analyzer = column_names(model._fitted().public), read_settings(model).get("analyzer")
    if words is None or analyzer is None:
        raise ValueError(f"{args.model}: has no words, since it was fitted to counts; expected a model of texts")

    def shares(texts: list[str]) -> np.ndarray:
        counts = count_matrix([texts], words, analyzer)
        # A text without one of the words is of no topic.
        return np.asarray(model.transform(counts) * (np.diff(counts.indptr) > 0)[:, None])

    return shares


def _cluster_shares(args: Tabulate, model: Any) -> Callable[[list[str]], np.ndarray]:
    encode, _ = encoder_and_knowledge(args.vectors, model.public)

    def shares(texts: list[str]) -> np.ndarray:
        written = [[bool(text.strip())] for text in texts]
        return np.asarray(np.eye(model.n_components)[model.predict(encode(texts))] * written)

    return shares
