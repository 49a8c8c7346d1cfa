"""Run ``start``: a first run with questions.

It leads from a table to a page about its topics.

It asks by the names of the columns. Then it reads the records once, as the fit will, before it writes anything: a
table that the fit cannot read leaves no job file. Of the cells it says only what the fit takes as public: their number,
for a forecast without public topics, and whether the file is UTF-8. Each question has a default and an option, so a
script can answer them all.
"""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...accounting.printing import rounded_up
from ...data import column_names, public_vocabulary, stop_words, word_frequencies
from ...data.delimited import missing_column
from ...data.frames import names_persons
from ...data.records import is_utf8
from ...data.tokens import load_segmenter, segmenter_of
from ...engine.plan import RunForecast
from ...jobs.folder import releases_folder
from ...jobs.text import NONE, TextFile
from ...models.lda import Plan, load_prior, plan, prior_file
from ...models.lda.planning import DOC_LENGTH
from ...report import paragraph
from ...report.html import environment
from ...store.atomic import replace_text
from ...store.words import counted
from ..arguments import FitLda, Start
from ..messages import say, width
from ..parser import parse
from ..signature import NATURAL, POSITIVE, WHOLE, in_options
from .lda import fit

#: Words in the name of a column of texts, the likeliest first: a note may be a grade.
_TEXTS = """
comment kommentar narrative feedback review message description beschreibung complaint text testo texto texte note nota
answer body content
""".split()
#: The expected gain, or the share of words that can stand clear of the noise, below which a fit is no default.
_LITTLE = 0.01
#: Commonest words of a language that are counted without public topics. On 1,500 records of three corpora topics of 500
#: were useful or unclear; of 2,000 and of 8,000 they predicted worse than counting words.
_PUBLIC_WORDS = 500
#: Words of each topic that purchased words should show: some twenty name it.
_READABLE = 20


@dataclass(frozen=True)
class Questions:
    """Questions about options that are not given.

    Without an answer the default holds.
    """

    args: Start

    def ask(self, dest: str, question: str, default: Any, convert: Callable[[str], Any] = str) -> Any:
        """Ask for an option until ``convert`` takes the answer.

        Raises ValueError if nobody answers a question without a default, or an option is not good.
        """
        given, option = getattr(self.args, dest), f"--{dest.replace('_', '-')}"
        if not isinstance(given, bool | None):
            try:
                return convert(str(given))
            except ValueError as error:
                raise ValueError(f"{option}: {error}") from None
        while not self.args.yes:
            print(f"{question} [{'' if default is None else default}] ({option}): ", end="", flush=True)
            line = sys.stdin.readline()
            if not (line.endswith("\n") and sys.stdin.isatty()):
                print()
            if not line or (not line.strip() and default is not None):
                break
            try:
                return convert(line.strip())
            except ValueError as error:
                print(error)
        if default is None:
            raise ValueError(f"{option}: expected the {question[0].lower()}{question[1:]}, which has no default here")
        return convert(str(default))


def start(args: Start) -> int:
    """Ask, write a job file, run it, and open the report."""
    ask, out = Questions(args).ask, Path(args.out)
    path = out.with_name(f"{out.name}.toml")
    os.stat(args.input)  # refused before any question
    report = _look_for_packages()
    known = _public_knowledge(args, ask)
    table, n = _table(args, ask)
    options = known | table
    options |= (target := _target(args, ask))
    if "public_prior" not in known:
        options |= _words(ask, options, n)
    elif args.doc_length:
        options["doc_length"] = args.doc_length
    options |= {"out": os.path.relpath(out, path.parent), "resume": True, "report": report}
    options["transcript"] = os.path.relpath(releases_folder(out), path.parent)
    _write(path, options, ask, args.force)
    print(f"\nWritten to {path}, a job file. To run it again: vips-fast fit lda --config {path}\n")
    switches = [*["--quiet"] * args.quiet, *["--anyway"] * args.anyway]
    job = parse(["fit", "lda", "--config", str(path), *switches])
    assert isinstance(job, FitLda)
    job.confirm = lambda forecast: _confirm(args, ask, target, path, forecast)
    code = fit(job)
    page = out / "report.html"
    if page.exists():
        print(f"The page about it: {page}")
        if not args.yes and sys.stdout.isatty():
            webbrowser.open(page.resolve().as_uri())
    return code


def _look_for_packages() -> bool:
    """Look for packages before the first question; tell whether a report can be made.

    Raises ImportError, with the remedy, without those that every run needs.
    """
    word_frequencies(("a",), "en")
    stop_words("public:en")
    try:
        environment()
    except ImportError as error:
        say(f"warning: {error}")
        return False
    return True


def _public_knowledge(args: Start, ask: Callable[..., Any]) -> dict[str, Any]:
    """Ask for the language, and look for its stop words and public topics."""
    # No public thing tells it, and topics of German texts by English words are lost epsilon.
    question = "Language of the texts, such as en or de"
    language = ask("language", question, None if args.yes else "en", _language)
    public = f"public:{language}"
    options = {"language": language}
    try:
        stop_words(public)
    except ValueError as error:
        print(f"No words are left out: {error}")
        options["stop_words"] = NONE
    if args.vocab != "private":
        try:
            load_prior(public)
            options["public_prior"] = public
        except (ValueError, ImportError) as error:
            print(f"No public topics: {error}")
    return options


def _language(text: str) -> str:
    """Take a language whose words can be found, or that has public topics."""
    if (segmenter := segmenter_of(text)) is not None:
        load_segmenter(segmenter)
    if not prior_file(text).exists():
        public_vocabulary(f"public:{text}", size=1)
    return text


def _target(args: Start, ask: Callable[..., Any]) -> dict[str, float]:
    """Ask for epsilon, if no share of right guesses is given."""
    if args.target_attack_success is not None:
        return {"attack_success": args.target_attack_success}
    print("\nThe guarantee is about one person, or about one row without persons. The smaller epsilon is, the less")
    print("anybody learns about one of them, and the more noise the topics have. You see what it means for your run")
    print("before anything is spent.")
    return {"epsilon": ask("epsilon", "Epsilon", 2.0, POSITIVE.value)}


def _table(args: Start, ask: Callable[..., Any]) -> tuple[dict[str, Any], int]:
    """Ask about the table: encoding, texts, persons, whom it counts."""
    path, encoding = args.input, "utf-8"
    if args.encoding is not None or not is_utf8(path):
        if args.encoding is None:
            print(f"{path} is not UTF-8. All its bytes were read to find that out; no row was used otherwise.")
        encoding = ask("encoding", "Encoding", "cp1252")
    names = column_names(path, encoding, keys=True)
    print(f"Columns of {path}: {', '.join(names)}")

    def column(name: str) -> str:
        if name not in names:
            raise ValueError(missing_column(name, names))
        return name

    found = (name for word in _TEXTS for name in names if word in name.lower() and not names_persons(name))
    text = ask("text", "Column of the texts", next(found, None), column)
    # A bare id is most often a row's.
    whose = next((name for name in names if names_persons(name) and name.strip().lower() != "id"), NONE)
    question = "Column that identifies the person, or none if each row is another person"
    person = ask("person", question, whose, lambda name: name if name == NONE else column(name))
    options = {"input": path, "text": [text], "encoding": encoding}
    if person != NONE:
        options |= {"person": person} | ({} if args.unit is None else {"unit": args.unit})
    # It refuses what the fit cannot read.
    n = TextFile(path, [text], None if person == NONE else person, encoding=encoding).count()
    return {**options, "input": os.path.relpath(path, Path(args.out).parent)}, n


def _words(ask: Callable[..., Any], asked: dict[str, Any], n: int) -> dict[str, Any]:
    """Ask for the source of words and the number of topics, where no topics are public."""
    question = "About how many words does a text have without stop words, which are half of all? 0 if unknown"
    length = ask("doc_length", question, 0, NATURAL.value)
    print("\nA public list of words costs nothing. If no list fits your texts, private words are")
    print("purchased with a part of epsilon; that takes thousands of persons.")
    unit, success = "person" if "person" in asked else "row", asked.get("attack_success")
    print(f"\nForecasts for {counted(n, unit, ',')}, whose number is taken as public, with texts of ", end="")
    print(f"{length or DOC_LENGTH} words without stop words:")
    terms: dict[str, Any] = {"epsilon": asked.get("epsilon"), "options": {"target_attack_success": success}}
    terms |= {"doc_length": length or None, "unit": "person" if "person" in asked else "record"}
    plans = {"private": plan(n, None, None, **terms), "public": plan(n, _PUBLIC_WORDS, None, **terms)}
    for source, one in plans.items():
        what = f"{source} words, {counted(one.n_components, 'topic')}"
        print(f"  {what}: {in_options(FitLda, one.forecast()).removeprefix('forecast: ')}")
    words = ask("vocab", "Words: public or private", _usual(plans["private"]), _source)
    topics = ask("topics", "Number of topics", plans[words].n_components, WHOLE.value)
    options = {"doc_length": length} if length else {}
    if words == "private":
        return {**options, "vocab": "private", "topics": topics}
    return {**options, "vocab": f"public:{asked['language']}", "vocab_size": _PUBLIC_WORDS, "topics": topics}


def _usual(private: Plan) -> str:
    """Choose the source of words: the records' own if topics can show enough of them."""
    return "private" if private.readable_words >= _READABLE and not private.hopeless else "public"


def _source(text: str) -> str:
    if text not in ("public", "private"):
        raise ValueError(f"{text!r}: expected public or private")
    return text


def _write(path: Path, options: dict[str, Any], ask: Callable[..., Any], force: bool) -> None:
    """Write the job file; ask before another one is replaced."""

    def shown(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

    lines = ['command = "fit lda"', "", "[options]", *(f"{name} = {shown(value)}" for name, value in options.items())]
    text = "\n".join(lines) + "\n"
    if not force and path.exists() and path.read_text("utf-8", "replace") != text:
        other = f"{path}: exists, with other settings"
        if not ask("force", f"{other}. Replace it", "no", _is_yes):
            raise ValueError(f"{other}; expected --force, or another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)


def _is_yes(text: str) -> bool:
    """Read yes or no."""
    if (short := text.lower()[:1]) not in ("y", "n"):
        raise ValueError(f"{text!r}: expected yes or no")
    return short == "y"


def _confirm(args: Start, ask: Callable[..., Any], target: dict[str, float], path: Path, forecast: RunForecast) -> None:
    """Say what the plan bounds, and ask before anything is spent."""
    if forecast.risk:
        print(f"\n{paragraph(forecast.risk, width())}\n")
    [(name, value)] = target.items()
    cost = f"{name.replace('_', ' ')} = {rounded_up(value)}"
    if little := forecast.gain < _LITTLE:
        print("By the forecast the records add little to what is public.")
    usual = "no" if little and not args.anyway else "yes"
    if not ask("anyway", f"Spend {cost} of these persons' privacy on that", usual, _is_yes):
        how = "; expected --anyway, or more persons" if little else ""
        raise ValueError(f"nothing was spent; {path} keeps the answers{how}")
