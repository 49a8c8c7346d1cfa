"""The shape of ``--help``: a short usage, examples that can be pasted, no line wider than the terminal."""

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Iterator

#: What can be typed, by the command's name. The tests parse each.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "vips-fast demo",
        "vips-fast fit lda notes.parquet --text note --person patient --topics 20 --epsilon 2 --out topics",
        "vips-fast fit blr table.csv --schema schema.toml --label income --epsilon 0.5 --out model",
        "vips-fast privacy --records 400000 --batch 20000 --steps 20 --epsilon 1 --delta 1e-6",
    ),
    "demo": ("vips-fast demo --epsilon 1 --topics 8", "vips-fast demo blr --out regression", "vips-fast demo sbn"),
    "fit": (
        "vips-fast fit lda counts.npz --vocab vocab.txt --topics 20 --epsilon 2 --out topics",
        "vips-fast fit blr rows.npz --labels labels.txt --epsilon 0.5 --out model",
        "vips-fast fit sbn train-images-idx3-ubyte.gz --components 50 --epsilon 0.5 --out network",
        "vips-fast fit mixture answers.npy --kind bernoulli --components 6 --epsilon 1 --out types",
    ),
    "fit lda": (
        "vips-fast fit lda notes.parquet --text note --person patient --topics 20 --epsilon 2 --out topics",
        "vips-fast fit lda counts.npz --vocab vocab.txt --topics 20 --budget notes.budget --out topics --resume",
        "vips-fast fit lda shards --topics 20 --epsilon 2 --out topics --transcript releases",
        "vips-fast fit lda notes.parquet --text note --word-vectors words.vec --topics 20 --epsilon 1 --out topics",
    ),
    "fit blr": (
        "vips-fast fit blr rows.npz --labels labels.txt --row-norm 2 --epsilon 0.5 --out model",
        "vips-fast fit blr table.csv --schema schema.toml --label income --person household --epsilon 0.5 --out model",
    ),
    "fit sbn": ("vips-fast fit sbn train-images-idx3-ubyte.gz --components 50 --epsilon 0.5 --out network",),
    "fit mixture": (
        "vips-fast fit mixture answers.npy --kind bernoulli --components 6 --epsilon 1 --out types",
        "vips-fast fit mixture vectors.npy --kind vector --projection 32 --components 20 --held held.npz "
        "--vocab words.txt --epsilon 2 --out clusters",
    ),
    "search": (
        "vips-fast search lda counts.npz --vocab vocab.txt --try topics=10,20,40 --epsilon 2 --out topics",
        "vips-fast search blr rows.npz --labels labels.txt --try row-norm=0.5,1,2 --epsilon 1 --out model",
    ),
    "search lda": (
        "vips-fast search lda counts.npz --vocab vocab.txt --try topics=10,20,40 --epsilon 2 --out topics",
        "vips-fast search lda counts.npz --vocab vocab.txt --topics 20 --try clip=.02,.05 --epsilon 2 --out topics",
    ),
    "search blr": ("vips-fast search blr rows.npz --labels labels.txt --try row-norm=0.5,1,2 --epsilon 1 --out model",),
    "search sbn": ("vips-fast search sbn images.npz --try components=20,50 --epsilon 1 --out network",),
    "topics": ("vips-fast topics topics --words 15",),
    "plan": ("vips-fast plan --records 400000 --words 7702 --topics 50 --epsilon 1",),
    "predict": (
        "vips-fast predict model new.npz --out probabilities.csv",
        "vips-fast predict types new.npy --out shares.csv",
    ),
    "plot": ("vips-fast plot network --out weights.png --shape 28x28",),
    "config": ("vips-fast config nightly.toml --check",),
    "finish": ("vips-fast finish topics.run --out topics",),
    "clean": ("vips-fast clean topics.run",),
    "schema": ("vips-fast schema draft table.csv --out schema.toml", "vips-fast schema check schema.toml table.csv"),
    "schema draft": ("vips-fast schema draft table.csv --out schema.toml",),
    "schema check": ("vips-fast schema check schema.toml table.csv",),
    "shard": ("vips-fast shard docword.txt.gz shards --vocab vocab.txt --bins 20",),
    "vectors": ("vips-fast vectors public.jsonl --text note --vocab public:en --out words.vec",),
    "report": ("vips-fast report topics --out topics.html --transcript releases",),
    "show": ("vips-fast show topics",),
    "transform": ("vips-fast transform topics new.jsonl --text note --out proportions.npy",),
    "privacy": (
        "vips-fast privacy --records 400000 --batch 20000 --steps 20 --epsilon 1 --delta 1e-6",
        "vips-fast privacy --records 400000 --batch 20000 --steps 20 --noise-multiplier 1.24 --delta 1e-6 --compare",
        "vips-fast privacy topics --export dp-accounting",
    ),
    "budget": (
        "vips-fast budget create notes.budget --epsilon 2 --delta 1e-6 --dataset notes --unit patient",
        "vips-fast budget show notes.budget",
    ),
    "budget create": ("vips-fast budget create notes.budget --epsilon 2 --delta 1e-6 --dataset notes --unit patient",),
    "budget show": ("vips-fast budget show notes.budget --json",),
    "budget check": ("vips-fast budget check notes.budget",),
    "budget reserve": ("vips-fast budget reserve notes.budget --plan runs.json --name nightly",),
    "verify": ("vips-fast verify topics --transcript releases",),
    "sign": ("vips-fast sign topics --key private.pem",),
    "audit": ("vips-fast audit lda --layers A,B,C,D,E,G",),
    "coherence": ("vips-fast coherence topics public.jsonl --text note",),
    "compare": ("vips-fast compare topics topics-of-last-year",),
    "completion": (
        "vips-fast completion bash > ~/.local/share/bash-completion/completions/vips-fast",
        "vips-fast completion zsh > ~/.zfunc/_vips-fast",
        "vips-fast completion fish > ~/.config/fish/completions/vips-fast.fish",
    ),
    "info": ("vips-fast info",),
}


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command's name behind that of the program, such as ``fit lda``, and its parser; the parser itself first."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from commands(inner, f"{name} {word}".strip())


def columns() -> int:
    """Characters of a line of help on this terminal; argparse leaves two at the end, too."""
    return max(58, shutil.get_terminal_size().columns - 2)


def argument(action: argparse.Action) -> str:
    """An argument as it is typed: ``--out DIR``, ``INPUT``, ``COMMAND ...``."""
    option = action.option_strings[-1] if action.option_strings else ""
    if action.nargs == 0:
        return option
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices is not None else ""
    name = action.metavar if isinstance(action.metavar, str) else choices or action.dest
    name = name.upper() if option and not choices and action.metavar is None else name
    shape = {argparse.PARSER: "{} ...", "+": "{0} [{0} ...]", "*": "[{0} ...]", "?": "[{}]"}
    return f"{option} {shape.get(str(action.nargs), '{}').format(name)}".strip()


def usage(parser: argparse.ArgumentParser) -> str:
    """What a command requires; ``[options]`` stands for all else."""
    alternatives = {id(action): group for group in parser._mutually_exclusive_groups for action in group._group_actions}
    words, positional, seen, options = [], [], set[int](), False
    for action in parser._actions:
        group = alternatives.get(id(action))
        if not action.option_strings:
            positional.append(argument(action))
        elif group is not None and group.required:
            if id(group) not in seen:
                words.append(f"({' | '.join(map(argument, group._group_actions))})")
            seen.add(id(group))
        elif action.required:
            words.append(argument(action))
        else:
            options = True
    return " ".join([parser.prog, *words, *["[options]"] * options, *positional])


def wrapped(text: str, first: str, then: str, end: str = "") -> list[str]:
    """Lines of words, which are never broken; ``end`` stands behind each line but the last."""
    lines = textwrap.wrap(
        text,
        columns() - len(end),
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line + end for line in lines[:-1]] + lines[-1:]


def examples(name: str) -> str:
    """A command's examples, for the end of its help; long ones go on in the next line as a shell takes it."""
    lines = [line for example in EXAMPLES.get(name, ()) for line in wrapped(example, "  ", "      ", " \\")]
    return "\n".join(["examples:", *lines, ""]) if lines else ""


def rows(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Names, and beside each its text."""
    known = list(pairs)
    indent = max(len(name) for name, _ in known) + 4
    return [line for name, text in known for line in wrapped(text, f"  {name:<{indent - 2}}", " " * indent)]
