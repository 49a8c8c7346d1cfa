"""Raw records at the shell: the columns of text and person, how text becomes words, and what a model keeps of that."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import Parser, integer, whole
from .texts import READING

if TYPE_CHECKING:
    from ..data import Corpus
    from ..data.tokens import Analyzer

#: What a word list may be instead of a file.
PRIVATE, NONE, PUBLIC = "private", "none", "public:"


def add_input(parser: Parser, *, fit: bool) -> None:
    """Arguments that say where documents are, and for a fit also whose they are and how text becomes words."""
    what = (
        "CSV, JSON Lines, Parquet, a folder of .txt files, - (standard input); counts as CSR .npz, UCI docword or LDA-C"
    )
    parser.add_argument("input", metavar="INPUT", help=f"{what}; or the word docstrings")
    words = "FILE with one word on each line" + (", or public:LANGUAGE, that language's commonest words" if fit else "")
    parser.add_argument("--vocab", metavar="FILE", help=f"the public vocabulary: {words}")
    formats = "csv, jsonl, parquet, folder, npz, docword or ldac; default: look"
    parser.add_argument("--format", help=formats)
    parser.add_argument("--features", type=whole, help="number of words, where no file says it")
    what = "columns of the text, joined with a line break; default: " + ("text" if fit else "those of the fit")
    parser.add_argument("--text", metavar="COLUMN", nargs="+", help=what)
    parser.add_argument("--encoding", default="utf-8", help="of text files, default utf-8")
    if not fit:
        return
    group = parser.add_argument_group("words")
    group.add_argument("--vocab-size", type=whole, help="words taken of public:LANGUAGE, default 8000")
    what = "unicode (default), or paper: the letters a to z alone"
    group.add_argument("--analyzer", choices=("unicode", "paper"), default="unicode", help=what)
    what = "words to leave out: FILE, public:LANGUAGE or none; default: the language's own with --vocab public:LANGUAGE"
    group.add_argument("--stop-words", metavar="FILE", help=what)
    group.add_argument("--min-length", type=whole, default=1, help="least characters of a word, default 1")
    what = "words with digits: keep (default), mixed (only those with letters too) or drop"
    group.add_argument("--numbers", choices=("keep", "mixed", "drop"), default="keep", help=what)
    what = "2 or 3: also pairs (and triples) of words that follow each other, default 1"
    group.add_argument("--ngrams", type=integer, choices=(1, 2, 3), default=1, help=what)


def is_word(text: str) -> bool:
    """Whether an argument that may be a path is one of the words that stand for something else."""
    return text in ("docstrings", "-", PRIVATE, NONE) or text.startswith(PUBLIC)


def analyzer_of(args: Namespace) -> Analyzer:
    """What a fit's arguments say about words."""
    from ..data import Analyzer, stop_words

    listed = args.stop_words
    if listed is None and (args.vocab or "").startswith(PUBLIC):
        listed = args.vocab
    left_out = () if listed in (None, NONE) else stop_words(listed)
    return Analyzer(args.analyzer, args.min_length, args.numbers, args.ngrams, left_out)


def public_words(args: Namespace) -> tuple[str, ...] | None:
    """The words of a fit's ``--vocab``; None where there are none, or none that are public."""
    from ..data import public_vocabulary

    if args.vocab in (None, PRIVATE):
        return None
    return public_vocabulary(args.vocab, analyzer_of(args), size=args.vocab_size or 8000)


def read_training(args: Namespace) -> tuple[Corpus, dict[str, str]]:
    """The documents of a fit, and the file that says how they were read, by its name; none for counts."""
    from ..data import holds_records, load_corpus

    raw = holds_records(args.input, args.format, args.text, args.person)
    if raw and args.vocab in (None, PRIVATE):
        raise ValueError(f"{args.input}: raw records need --vocab FILE or --vocab public:LANGUAGE")
    analyzer = analyzer_of(args)
    corpus = load_corpus(
        args.input, public_words(args), args.format, n_features=args.features, text=args.text, person=args.person,
        analyzer=analyzer, encoding=args.encoding, invalid=args.invalid or "raise",
    )  # fmt: skip
    said = {"columns": args.text or ["text"], "analyzer": analyzer.to_dict()}
    return corpus, {READING: json.dumps(said, ensure_ascii=False, indent=1) + "\n"} if raw else {}


def read_new(args: Namespace, vocabulary: Sequence[str] | None, n_words: int) -> Corpus:
    """Documents for a fitted model, read as those of its fit were."""
    from ..data import Analyzer, load_corpus

    kept: dict[str, Any] = {}
    path = Path(args.model) / READING
    if path.exists():
        try:
            kept = json.loads(path.read_text("utf-8"))
            kept = {"columns": list(kept["columns"]), "analyzer": Analyzer.from_dict(kept["analyzer"])}
        except (ValueError, LookupError, TypeError):
            raise ValueError(f"{path}: not as fit wrote it") from None
    text = args.text
    if text is None and Path(args.input).suffix not in (".npz", ".txt", ".ldac"):
        text = kept.get("columns")
    return load_corpus(
        args.input, vocabulary, args.format, n_features=n_words, text=text, analyzer=kept.get("analyzer"),
        encoding=args.encoding,
    )  # fmt: skip
