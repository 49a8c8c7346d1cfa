"""Run ``start``: a first run with questions, from a table to a page about its topics.

It asks by the names of the columns. Then it reads the records once, as the fit will, before it writes anything: a
table that the fit cannot read leaves no script. Of the cells it says only whether the file is UTF-8. Each question has
an option, so a script can answer them all, and but for the language a default.
"""

from __future__ import annotations

import os
import shlex
import sys
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ...accounting.printing import rounded_up
from ...data import column_names, stop_words, word_frequencies
from ...data.delimited import are_names, missing_column
from ...data.frames import names_persons, person_column
from ...data.records import is_utf8
from ...data.tokens import load_segmenter, segmenter_of
from ...engine.plan import RunForecast
from ...jobs.folder import releases_folder
from ...jobs.text import NONE, TextFile, language_of
from ...models.lda import load_prior
from ...report import paragraph
from ...report.html import environment
from ...store.atomic import PUBLIC, replace_file
from ...store.words import several
from ..arguments import POSITIVE, FitLda, Start
from ..main import parse
from ..messages import say, width
from .lda import fit

#: Words in the name of a column of texts, the likeliest first: a note may be a grade.
_TEXTS = """
comment kommentar narrative feedback review message description beschreibung complaint text testo texto texte note nota
notiz comentario befund answer remark bemerkung body content
""".split()
#: The expected gain below which a fit is no default.
_LITTLE = 0.01


def _ask(args: Start, dest: str, question: str, default: Any, convert: Callable[[str], Any] = str) -> Any:
    """Ask for an option that is not given until ``convert`` takes the answer; without one the default holds.

    Raises ValueError if nobody answers a question without a default, or an option is not good.
    """
    given, option = getattr(args, dest), f"--{dest}"
    if not isinstance(given, bool | None):
        try:
            return convert(str(given))
        except ValueError as error:
            raise ValueError(f"{option}: {str(error).removeprefix(f'{dest}=')}") from None
    while not args.yes:
        print(f"{question}{'' if default is None else f' [{default}]'} ({option}): ", end="", flush=True)
        line = sys.stdin.readline()
        if not (line.endswith("\n") and sys.stdin.isatty()):
            print()
        if not line or (not line.strip() and default is not None):
            break
        if not line.strip():
            continue
        try:
            return convert(line.strip())
        except ValueError as error:
            print(str(error).removeprefix(f"{dest}="))
    if default is None:
        raise ValueError(f"{option}: expected the {question[0].lower()}{question[1:]}, which has no default here")
    if args.yes:
        print(f"{question}: {default} ({option})")
    return convert(str(default))


def start(args: Start) -> int:
    """Ask, write a script of the fit, run it, and open the report."""
    ask, out = partial(_ask, args), Path(args.out)
    path = out.with_name(f"{out.name}.sh")
    os.stat(args.input)  # refused before any question
    options: dict[str, Any] = {"report": _look_for_packages()}
    # No public thing tells it, and topics of German texts by English words are lost epsilon: there is no default.
    language = ask("language", "Language of the texts, such as en or de", None, _language)
    options |= {"language": language, "public-prior": f"public:{language}"}
    try:
        stop_words(f"public:{language}")
    except ValueError as error:
        print(f"No words are left out: {error}")
        options["stop-words"] = NONE
    options |= _table(args, ask)
    print("\nThe guarantee is about one person, or about one row without persons. The smaller epsilon is, the less")
    print("anybody learns about one of them, and the more noise the topics have. You see what it means for your run")
    print("before anything is spent.")
    epsilon = ask("epsilon", "Epsilon", 2.0, POSITIVE.value)
    options |= dict(epsilon=epsilon, out=args.out, resume=True, transcript=os.path.relpath(releases_folder(out)))
    words = ["fit", "lda", args.input]
    given = {name: value for name, value in options.items() if value is not False}
    words += [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]
    _write(path, words, ask, out, args.force)
    again = shlex.quote(os.path.join(".", path))  # where a name begins with a hyphen, sh would take it for options
    print(f"\nWritten to {path}. To run it again: sh {again}\n")
    job = parse([*words, *["--quiet"] * args.quiet, *["--anyway"] * args.anyway])
    assert isinstance(job, FitLda)
    job.confirm = lambda forecast: _confirm(args, ask, epsilon, path, forecast)
    try:
        code = fit(job)
    except BaseException as error:  # the script resumes; `start` has no option for it
        notes = getattr(error, "__notes__", [])
        notes[:] = [note.replace("the same job with resume=True", f"sh {again}") for note in notes]
        raise
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


def _language(text: str) -> str:
    """Take a language with public topics."""
    if (segmenter := segmenter_of(language_of(text))) is not None:
        load_segmenter(segmenter)
    load_prior(f"public:{text}")
    return text


def _table(args: Start, ask: Callable[..., Any]) -> dict[str, Any]:
    """Ask about the table: encoding, texts, persons."""
    path, encoding = args.input, "utf-8"
    if args.encoding is not None or not is_utf8(path):
        if args.encoding is None:
            print(f"{path} is not UTF-8. All its bytes were read to find that out; no row was used otherwise.")
        encoding = ask("encoding", "Encoding", "cp1252")
    names = column_names(path, encoding, keys=True)
    shown = ", ".join(names) if are_names(names) else "not shown, since the first line looks like a record"
    print(f"Columns of {path}: {shown}")

    def column(name: str) -> str:
        if name not in names:
            raise ValueError(missing_column(name, names))
        return name

    found = (name for word in _TEXTS for name in names if word in name.lower() and not names_persons(name))
    text = ask("text", "Column of the texts", next(found, None), column)

    nobody = NONE
    while nobody in names:
        nobody = f"({nobody})"

    def whose(name: str) -> str:
        if name == text:
            raise ValueError(f"{name!r} is the column of the texts")
        return name if name == nobody else column(name)

    question = f"Column that identifies the person, or {nobody} if each row is another person"
    person = ask("person", question, person_column([name for name in names if name != text]) or nobody, whose)
    options = {"text": text, "encoding": encoding} | ({} if args.invalid == "raise" else {"invalid": args.invalid})
    if person != nobody:
        options |= {"person": person} | ({} if args.unit is None else {"unit": args.unit})
    for _ in TextFile(path, [text], options.get("person"), encoding=encoding, invalid=args.invalid).records().batches():
        pass  # it refuses what the fit cannot read
    return options


def _write(path: Path, words: list[str], ask: Callable[..., Any], out: Path, force: bool) -> None:
    """Write the script; ask before another one is replaced."""
    # Beside the data may lie a json.py; a name of two lines would end a comment; elsewhere lie other files.
    command = shlex.join([sys.executable, "-P", "-m", "vips_fast", *words])
    text = "#!/bin/sh\n# Options behind its name win: --epsilon 1 --out other --transcript other.releases\n"
    text += f'cd {shlex.quote(os.getcwd())} || exit\nexec {command} "$@"\n'
    script = os.fsencode(text)
    if path.exists() and path.read_bytes() != script:
        other = f"{path}: exists, with other settings"
        if out.exists():
            raise ValueError(f"{other}, and so does {out}, which it made; expected another --out")
        if not force and not ask("force", f"{other}. Replace it", "no", _is_yes):
            raise ValueError(f"{other}; expected --force, or another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda file: file.write(script), PUBLIC)


def _is_yes(text: str) -> bool:
    if (short := text.lower()[:1]) not in ("y", "n"):
        raise ValueError(f"{text!r}: expected yes or no")
    return short == "y"


def _confirm(args: Start, ask: Callable[..., Any], epsilon: float, path: Path, forecast: RunForecast) -> None:
    """Say what the plan bounds, and ask before anything is spent."""
    if forecast.risk:
        print(f"\n{paragraph(forecast.risk, width())}\n")
    if little := forecast.gain < _LITTLE:
        print("By the forecast hardly a word stands clear of the noise.")
    usual = "no" if little and not args.anyway else "yes"
    question = f"Spend epsilon = {rounded_up(epsilon)} of each {forecast.unit}'s privacy on that"
    if not ask("anyway", question, usual, _is_yes):
        how = f"; expected --anyway, or more {several(forecast.unit)}" if little else ""
        raise ValueError(f"nothing was spent; {path} keeps the answers{how}")
