"""Texts that give a model's numbers their meaning.

They are words, columns of a table, or how texts were read. A fit seals them in its result, so in the ledger's closing
record and in the signature. `save` writes them as files, and `load` takes no other. Everything that names columns reads
them from the model.
"""

from collections.abc import Collection, Mapping
from typing import Any

from ..data.schema import Schema
from ..data.vocabulary import parse_vocabulary
from ..engine.result import FitResult, Public
from ..store.folder import MOST_TEXT
from ..store.limits import parse_json
from .family import ASKED, COLUMNS, PURCHASE, SCHEMA, VOCABULARY


def input_texts(
    inputs: Any, known: Collection[str], before: FitResult | None, purchase: str | None = None
) -> dict[str, str]:
    """Check a fit's ``inputs``, or take an earlier call's.

    ``known`` are the names of the family. ``purchase`` is the text of the columns' purchase, which joins them.

    Raises ValueError or TypeError if they are not texts of these names, or differ from those before.
    """
    earlier = None if before is None else dict(before.public.inputs)
    if earlier is not None:
        purchase = earlier.get(PURCHASE)
    more = {} if purchase is None else {PURCHASE: purchase}
    if inputs is None:
        return more if earlier is None else earlier
    if isinstance(inputs, Schema):
        inputs = {SCHEMA: inputs.to_toml()}
    if not isinstance(inputs, Mapping) or not all(isinstance(text, str) for text in inputs.values()):
        raise TypeError(f"inputs of type {type(inputs).__name__}: expected a mapping of file names to texts, or None")
    if extra := sorted(map(repr, inputs.keys() - {*known, ASKED})):
        raise ValueError(f"inputs: {extra[0]}: expected one of {', '.join(sorted(known)) or 'no inputs'}")
    for name, text in inputs.items():
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise ValueError(f"inputs: {name}: expected text that UTF-8 can write") from None
        if size > MOST_TEXT:
            raise ValueError(f"inputs: {name}: {size} bytes; expected at most {MOST_TEXT}")
    if earlier is not None and earlier != {**inputs, **more}:
        raise ValueError("inputs: expected those of the calls before, or None")
    return {**inputs, **more}


def column_names(public: Public) -> tuple[str, ...] | None:
    """Find the names of a model's columns.

    They are in its inputs or its frame. Raises ValueError if an input is malformed, or names another number of columns.
    """
    source = next((name for name in (VOCABULARY, SCHEMA, COLUMNS) if name in public.inputs), None)
    if source is None:
        return public.feature_names
    text = public.inputs[source]
    try:
        if source == VOCABULARY:
            names: Collection[str] = parse_vocabulary(text)
        else:
            names = Schema.parse(text).feature_names if source == SCHEMA else text.removesuffix("\n").split("\n")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source}: {error}") from None
    if len(names) != public.n_features:
        own = "; leave out the label's, Schema.without" if source == SCHEMA else ""
        raise ValueError(f"{source} has {len(names)} names; expected {public.n_features}, one for each column{own}")
    return tuple(names)


def asked(public: Public) -> dict[str, Any]:
    """Read the options of a model's job that no setting holds; ValueError if they are no JSON."""
    said = parse_json(public.inputs.get(ASKED, "{}"))
    return said if isinstance(said, dict) else {}


def listed(names: Collection[str]) -> str:
    """Write names, one on each line."""
    return "".join(f"{name}\n" for name in names)
