"""Measure how plainly the project writes.

`make lint` holds each folder to its stored numbers, which may only fall. No folder may have more than three
constructions per 1,000 words.

    python .ci/prose.py                  compare all places with prose.toml; exit code 1 if one differs
    python .ci/prose.py --lower          store the numbers that fell
    python .ci/prose.py --show PLACE     list every finding in a folder or file, as file:line

Python is read for docstrings and comments, C and Cython for comments, Markdown for the text outside code. Three numbers
describe a place:

    constructions    per 1,000 words: turns of phrase that make English read as translated
    long_sentences   percent of sentences with more than 25 words
    first_lines      percent of docstrings whose first line has more than 12 words or, for a function, opens with
                     no verb in the imperative
"""

import argparse
import ast
import functools
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STORED = Path(__file__).with_name("prose.toml")
#: Limits of a place without stored numbers.
GOAL = {"constructions": 3.0, "long_sentences": 15.0, "first_lines": 15.0}
#: How far a number may lie below the stored one.
SLACK = {"constructions": 0.5, "long_sentences": 2.0, "first_lines": 3.0}
#: How far it may lie above: prose that was taken out moves a rate, too.
TOLERANCE = {"constructions": 0.1, "long_sentences": 0.5, "first_lines": 0.5}
SENTENCE, LINE = 25, 12

CONSTRUCTIONS = {
    'noun "what"': r"\bwhat\b(?! (?:if|to do|about)\b)",
    "preposition before which or whom": r"\b(?:at|by|for|from|in|of|on|through|to|with) wh(?:ich|om)\b",
    "that of, those of": r"\bth(?:at|ose) of\b",
    "who without a person": (
        r"\bwhoever\b|\bwhose each\b|(?<!person )(?<!people )(?<!somebody )(?<!someone )"
        r"\b[Ww]ho (?:begins|decides|has|owns|reads|signs|wants|writes)\b"
    ),
    "is none": r"\b(?:are|is|was|were) none\b",
    "where for if": r"\bwhere (?:it|no|nobody|nothing|that|there|they|this)\b",
    "so many, as much as": r"\bso (?:large|little|many|much)\b|\bas (?:many|much) (?:as|of)\b",
    "passive of telling and keeping": (
        r"\b(?:are|be|is|was|were) (?:asked for|bought|foreseen|heard|held|kept|opened|said|told)\b"
    ),
    "alone for only": r"\balone\b",
}
_ONE = re.compile("|".join(CONSTRUCTIONS.values()))
_WORD = re.compile(r"[A-Za-z']+")
#: Openings of a function's docstring that are no imperative.
_NO_VERB = re.compile(
    r"(?:[Aa]n?|[Tt]he|[Tt]his|[Tt]hat|[Tt]hose|[Ii]t|[Ii]f|[Ii]n|[Ff]or|[Aa]s|[Hh]ow|[Ww]h\w+|[Ss]ame|[Oo]ne|[Aa]ll|[Nn]o|"
    r"[Nn]umbers?|(?:Return|Give|Make|Read|Write|Tell|Take|Check|Compute|Add|Put|Say|Hold|Predict|Raise|Yield)s)\b"
)


@dataclass
class Passage:
    """Consecutive prose of one file."""

    path: Path
    line: int
    text: str


@dataclass
class Measure:
    """Counts of one place, and where each of them comes from."""

    words: int = 0
    sentences: int = 0
    docstrings: int = 0
    found: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in GOAL})

    def rates(self) -> dict[str, float]:
        """Return the numbers of this place, as they are stored."""
        of = {"constructions": self.words / 10, "long_sentences": self.sentences, "first_lines": self.docstrings}
        return {name: round(100 * len(where) / max(of[name], 1), 1) for name, where in self.found.items()}


def passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of a file."""
    source = path.read_text("utf-8", errors="replace")
    if path.suffix == ".md":
        yield Passage(path, 1, _markdown(source))
    elif path.suffix in (".c", ".h"):
        for match in re.finditer(r"/\*(.*?)\*/|//([^\n]*)", source, re.S):
            text = re.sub(r"(?m)^\s*\*+", "", match[1] or match[2] or "")
            yield Passage(path, source.count("\n", 0, match.start()) + 1, text)
    elif path.suffix == ".py":
        for _, line, text in docstrings(source):
            yield Passage(path, line, re.sub(r"(?m)^\s*(?:>>>|\.\.\. ).*$", "", text))
        yield from _comments(path, source)
    else:
        for number, text in enumerate(source.splitlines(), 1):
            if "#" in text:
                yield Passage(path, number, text.partition("#")[2])


def _markdown(source: str) -> str:
    """Return the text outside code and tables, on its own lines.

    A link keeps its words only, and inline code its backticks, as it may begin a sentence.
    """
    blank = re.sub(r"^(```|~~~).*?^\1", lambda code: "\n" * code[0].count("\n"), source, flags=re.S | re.M)
    lines = ("" if line.startswith("    ") or line.lstrip().startswith("|") else line for line in blank.splitlines())
    text = re.sub(r"`[^`\n]*`", "``", "\n".join(lines))
    return re.sub(r"\]\([^)\n]*\)", "]", text)


@functools.lru_cache(maxsize=1)
def docstrings(source: str) -> list[tuple[ast.AST, int, str]]:
    """Owner, line and text of each docstring."""
    out: list[tuple[ast.AST, int, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if (text := ast.get_docstring(node)) is not None:
                out.append((node, node.body[0].lineno, text))
    return out


def _comments(path: Path, source: str) -> Iterator[Passage]:
    """Comments; lines that follow each other are one passage."""
    block, last = Passage(path, 0, ""), -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text, line = token.string.lstrip("#: "), token.start[0]
            if line == last + 1:
                block.text += "\n" + text
            else:
                if block.text:
                    yield block
                block = Passage(path, line, text)
            last = line
    if block.text:
        yield block


def sentences(text: str) -> list[str]:
    """Sentences of a passage: paragraphs and items of lists end one too."""
    text = re.sub(r"(?m)^[\w*, ]+ : .*$|^-{3,}$|^#+ ", "\n\n", text)  # sections of numpydoc, headings
    parts = re.split(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )|(?<=[.!?])[\s\"')*]+(?=[A-Z`\"'(_*\[α-ω])", text)
    return [joined for part in parts if (joined := " ".join(part.split()))]


def measure(path: Path, into: Measure) -> None:
    """Add a file to the counts of its place."""
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    for one in passages(path):
        into.words += len(_WORD.findall(one.text))
        for match in _ONE.finditer(one.text):
            line = one.line + one.text.count("\n", 0, match.start())
            near = " ".join(one.text[max(match.start() - 30, 0) : match.end() + 30].split())
            into.found["constructions"].append(f"{name}:{line}: [{' '.join(match[0].split())}] {near}")
        for sentence in sentences(one.text):
            into.sentences += 1
            if (length := len(sentence.split())) > SENTENCE:
                into.found["long_sentences"].append(f"{name}:{one.line}: {length} words: {sentence[:90]}")
    if path.suffix == ".py":
        for node, line, text in docstrings(path.read_text("utf-8")):
            first = text.partition("\n")[0]
            into.docstrings += 1
            if len(first.split()) > LINE or (_is_action(node) and _NO_VERB.match(first)):
                into.found["first_lines"].append(f"{name}:{line}: {first}")


def _is_action(node: ast.AST) -> bool:
    """Tell whether its docstring has to open with a verb.

    Properties, tests and special methods need none.
    """
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith(("test_", "__")):
        return False
    return not any(re.search("property|fixture|setter", ast.unparse(one)) for one in node.decorator_list)


def places(files: Sequence[str]) -> dict[str, list[Path]]:
    """Sort files by place: a folder of the package or beside it."""
    out: dict[str, list[Path]] = {}
    for name in files:
        path = Path(name)
        if path.suffix not in (".py", ".pyx", ".pxd", ".c", ".h", ".md") or not (ROOT / path).exists():
            continue
        parts = path.parts
        depth = 2 if parts[0] == "vips_fast" and len(parts) > 2 else 1
        out.setdefault("/".join(parts[:depth]), []).append(ROOT / path)
    return dict(sorted(out.items()))


def tracked() -> list[str]:
    """Files of the project, new ones too."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def rates(files: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the numbers of all places."""
    out = {}
    for place, paths in places(files).items():
        counts = Measure()
        for path in paths:
            measure(path, counts)
        out[place] = counts.rates()
    return out


def differences(now: dict[str, dict[str, float]], stored: dict[str, dict[str, float]]) -> list[str]:
    """List numbers that rose, and those that are to be lowered."""
    out = []
    for place, numbers in now.items():
        for name, number in numbers.items():
            limit, known = stored.get(place, GOAL)[name], place in stored
            if name == "constructions":  # a stored number cannot permit more
                limit = min(limit, GOAL[name])
            if number > limit + TOLERANCE[name]:
                allowed = "allowed" if known else "allowed in a new place"
                out.append(f"{place}: {name} {number}, {allowed} {limit}; see: python .ci/prose.py --show {place}")
            elif known and number < limit - SLACK[name]:
                out.append(f"{place}: {name} fell from {limit} to {number}; store that: python .ci/prose.py --lower")
    gone = sorted(stored.keys() - now.keys())
    return out + [f"{place}: is gone; take it out: python .ci/prose.py --lower" for place in gone]


def lowered(now: dict[str, dict[str, float]], stored: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Choose the smaller of both numbers; new places get the goal.

    A new place's number is at most the goal.
    """
    return {
        place: {name: min(number, stored.get(place, GOAL)[name]) for name, number in numbers.items()}
        for place, numbers in now.items()
    }


def load(path: Path = STORED) -> dict[str, dict[str, float]]:
    """Return the stored numbers of each place."""
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def save(stored: dict[str, dict[str, float]], path: Path = STORED) -> None:
    """Write the numbers, a line for each place."""
    lines = ["# Numbers of .ci/prose.py, which may only fall; `python .ci/prose.py --lower` rewrites this file."]
    for place, numbers in stored.items():
        lines.append(f'"{place}" = {{ ' + ", ".join(f"{name} = {number}" for name, number in numbers.items()) + " }")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the three commands; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lower", action="store_true", help="store the numbers that fell")
    parser.add_argument("--show", metavar="PLACE", nargs="+", help="list what counts in these folders or files")
    args = parser.parse_args(arguments)
    files = tracked()
    if args.show:
        counts = Measure()
        for place in args.show:
            whole = place.rstrip("/")
            for name in files:
                if (name == whole or name.startswith(whole + "/")) and places([name]):
                    measure(ROOT / name, counts)
        print(*(f"{where}" for found in counts.found.values() for where in found), counts.rates(), sep="\n")
        return 0
    now, stored = rates(files), load()
    if args.lower:
        save(lowered(now, stored))
        stored = load()
    lines = differences(now, stored)
    print(*lines, sep="\n", end="\n" if lines else "", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
