"""Raw records at the shell: the arguments that say where texts are and how they become words."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ..data import Corpus, ShardedCorpus, holds_records, load_corpus
from ..data.shards import is_sharded
from ..jobs import TextFile
from ..jobs.text import PRIVATE, read_settings
from .progress import ReadingLine


def text_file(args: Namespace, **more: Any) -> TextFile:
    """The texts that the arguments name, and how they become words."""
    fields = TextFile.__dataclass_fields__.keys() - {"path", "corpus", "progress", "n_words", "verify"}
    given = {name: value for name in fields if (value := getattr(args, name, None)) is not None}
    return TextFile(
        args.input,
        verify=not getattr(args, "no_verify", False),
        progress=lambda label: nullcontext() if getattr(args, "quiet", True) else ReadingLine(label),
        **given,
        **more,
    )


def read_public(args: Namespace) -> Corpus:
    """Read public documents with the words of their columns."""
    raw = holds_records(args.input, args.format, args.text, None)
    if raw and args.vocab in (None, PRIVATE):
        raise ValueError("--vocab: expected a public vocabulary, FILE or public:LANGUAGE")
    source = text_file(args)
    corpus = load_corpus(
        args.input,
        source.public_words(),
        args.format,
        n_features=args.features,
        text=args.text,
        analyzer=source.words_analyzer() if raw else None,
        encoding=args.encoding,
    )
    if corpus.vocabulary is None:
        raise ValueError(f"{args.input}: the columns have no words; expected --vocab")
    return corpus


def sharded(args: Namespace) -> ShardedCorpus | None:
    """The corpus that INPUT is a folder of shards of; None for any other INPUT."""
    if not is_sharded(args.input):
        return None
    for option in ("vocab", "format", "features", "text", "schema", "label", "labels", "person", "names"):
        if getattr(args, option, None) is not None:
            raise ValueError(f"--{option}: not with shards, which were written with what it says")
    return ShardedCorpus(args.input, verify=not getattr(args, "no_verify", False))


def read_new(args: Namespace, model: Any, vocabulary: Sequence[str] | None) -> Corpus | ShardedCorpus:
    """Documents for a fitted model, read as those of its fit were."""
    if (shards := sharded(args)) is not None:
        if None not in (vocabulary, shards.vocabulary) and tuple(vocabulary or ()) != shards.vocabulary:
            raise ValueError(f"{args.input}: other words, or another order, than those of {args.model}")
        return shards
    kept = read_settings(model)
    text = args.text
    if text is None and Path(args.input).suffix not in (".npz", ".txt", ".ldac"):
        text = kept.get("columns")
    lines: AbstractContextManager[Any] = nullcontext() if getattr(args, "quiet", True) else ReadingLine("read")
    with lines as line:
        return load_corpus(
            args.input,
            vocabulary,
            args.format,
            n_features=model.n_features_in_,
            text=text,
            analyzer=kept.get("analyzer"),
            encoding=args.encoding,
            progress=line,
        )
