"""One bad record in any input. An unattended job ends as it would without it, and an attended one before it spends."""

import gzip
import io
import json

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast.engine.budget import Budget

SECRET = "zq7351"
N = 60
COUNTS = np.random.default_rng(0).integers(0, 4, (N, 4))
WORDS = ("red", "green", "blue", "pink")
TEXTS = [" ".join(word for word, n in zip(WORDS, row, strict=True) for _ in range(n)) for row in COUNTS]
LDA = ("fit", "lda", "--language", "en", "--topics", 2, "--doc-length", 8)
BLR = ("fit", "blr", "--schema", "s.toml", "--label", "ill")
VOCAB = ("--vocab", "words", "--stop-words", "none")
OWN = ("--text", "note", "--person", "patient")
SCHEMA = """[columns.age]
kind = "number"
low = 0
high = 100
missing = "fill"
center = 50
[columns.work]
kind = "category"
values = ["private", "state"]
unknown = "flag"
missing = "flag"
[columns.ill]
kind = "binary"
values = ["no", "yes"]
"""

NOTES = [f"{text},p{k // 2}".encode() for k, text in enumerate(TEXTS)]
#: Bad lines of notes in CSV, whose header is note,patient.
BAD_NOTES = [
    b"zq7351",
    b"zq7351,p1,red",
    b"red \xff,p1",
    b"red,\xffp1",
    b'"zq7351 red,p1',
    b'"zq7351"red,p1',
    b"zq7351\rred,p1",
    b"zq7351 red,",
    b"zq7351 red,  ",
]
LINES = [json.dumps({"note": text, "patient": k // 2}).encode() for k, text in enumerate(TEXTS)]
BAD_LINES = [
    b'{"note": 7351, "patient": 1}',
    b'{"note": ["zq7351"], "patient": 1}',
    b'{"note": "zq7351"}',
    b'{"note": "zq7351", "patient": null}',
    b'{"note": "zq7351", "patient": ["zq7351"]}',
    b'{"note": "zq7351", "patient": true}',
    b'{"note": "zq7351", "patient": 1e300}',
    b'{"note": "zq7351',
    b'"zq7351"',
    b'{"note": "zq7351 \xff", "patient": 1}',
    b"[" * 5000,
    b'{"note": "red", "patient": ' + b"9" * 5000 + b"}",
]
ROWS = [f"{k % 100},{('private', 'state')[k % 2]},{('no', 'yes')[k % 3 == 0]},{k // 2}".encode() for k in range(N)]
#: Of a table age,work,ill,home.
BAD_ROWS = [b"5,state", b"5,state,yes,1,zq7351", b"5,\xff,yes,1", b'"5,state,yes,1', b"zq7351,state,yes,1"]
BAD_ROWS += [b"inf,state,yes,1", b"5,state,zq7351,1", b"5,state,,1"]


def npz(value):
    """Write counts in which one number is another; numbers below 0 are invalid."""
    made = []
    for one in (COUNTS, np.where(np.arange(COUNTS.size).reshape(COUNTS.shape) == 7, value, COUNTS)):
        sp.save_npz(file := io.BytesIO(), sp.csr_matrix(one))
        made.append(file.getvalue())
    return made[0], made[1]


def lines(head, good, bad):
    return b"\n".join([head, *good, b""]).lstrip(b"\n"), b"\n".join([head, *good[:30], bad, *good[30:], b""]).lstrip(
        b"\n"
    )


CASES = [
    *((("notes.csv", *LDA, *OWN, *VOCAB), lines(b"note,patient", NOTES, bad)) for bad in BAD_NOTES),
    *((("notes.csv.gz", *LDA, *OWN, *VOCAB), lines(b"note,patient", NOTES, bad)) for bad in BAD_NOTES[3:5]),
    *((("notes.csv", *LDA, "--text", "note", *VOCAB), lines(b"note,patient", NOTES, bad)) for bad in BAD_NOTES[:7]),
    *((("notes.jsonl", *LDA, *OWN, *VOCAB), lines(b"", LINES, bad)) for bad in BAD_LINES),
    (("docs.npz", *LDA), npz(-7351)),
    *((("rows.csv", *BLR, "--person", "home"), lines(b"age,work,ill,home", ROWS, bad)) for bad in BAD_ROWS),
    (("rows.csv", *BLR, "--person", "home"), lines(b"age,work,ill,home", ROWS, b"5,state,yes,")),
    *((("rows.csv", "fit", "mixture", "--components", 2, "--schema", "s.toml"),
       lines(b"age,work,ill,home", ROWS, bad)) for bad in BAD_ROWS[:5]),
]  # fmt: skip


@pytest.fixture(scope="module")
def known():
    """Outcomes of inputs without a bad record, which many cases share."""
    return {}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "s.toml").write_text(SCHEMA)
    return tmp_path


def outcome(place, run, name, content, command, invalid):
    """Run a job on one input. Gives exit code, standard error, names of files and the charge."""
    folder = place / f"{invalid}-{len(list(place.iterdir()))}"
    folder.mkdir()
    (place / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    budget = Budget.create(folder / "b", 50.0, 1e-5, dataset="d", unit="person" if "--person" in command else "record")
    more = ["--records", N, "--epsilon", 5, "--delta", 1e-5, "--quiet", "--invalid", invalid, "--budget", folder / "b"]
    code, _, err = run(*command[:2], place / name, *more, *command[2:], "--steps", 2, "--out", folder / "m")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path != folder / "b")
    return (code, told(err), files), budget.spent


def told(err):
    """Return the output without findings about noised releases. These differ from run to run."""
    findings = (
        "vips-fast: warning: effects: ",
        "vips-fast: warning: dispersion=",
        "vips-fast: warning: --row-norm ",
        "vips-fast: warning: --invalid drop: ",
    )
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith(findings))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0][0]}-{case[0][1]}")
def test_a_bad_record(place, run, known, case):
    (name, *command), (good, bad) = case
    err = same_without(place, run, known, name, command, good, bad)
    assert "7351" not in err and err.count("\n") == 1


def same_without(place, run, known, name, command, good, bad):
    """Hold a job that drops a bad record to the one without it. Return what the refusal says otherwise."""
    key = (name, *command, good)
    if key not in known:
        known[key] = outcome(place, run, name, good, command, "drop")
    assert known[key][0][0] == 0 and known[key][1] > 0, known[key]
    assert outcome(place, run, name, bad, command, "drop") == known[key]
    (code, err, files), spent = outcome(place, run, name, bad, command, "raise")
    assert (code, files, spent) == (2, [], 0.0) and SECRET not in err
    return err


@pytest.mark.parametrize("bad", BAD_NOTES)
def test_a_bad_record_and_a_purchase(place, run, known, bad):
    """A refusal comes before the words are purchased. With "drop" it does not come after it either."""
    command = (*LDA, *OWN, "--max-share", 1, "--records", 600, "--epsilon", 8, "--anyway")
    good, bad = lines(b"note,patient", [b"red blue pink %s %d" % (line, k) for k in range(20) for line in NOTES], bad)
    same_without(place, run, known, "notes.csv", command, good, bad)


def test_a_bad_file_of_a_folder(place, run):
    for k, text in enumerate(TEXTS):
        (place / "docs" / f"p{k // 2}").mkdir(parents=True, exist_ok=True)
        (place / "docs" / f"p{k // 2}" / f"{k}.txt").write_text(text)
    (place / "docs" / "p1" / "x.txt").write_bytes(b"red \xff")
    more = ["--records", N, "--epsilon", 5, "--delta", 1e-5, "--steps", 2, "--quiet", "--person", "folder", *VOCAB]
    assert run(*LDA[:2], "docs", *LDA[2:], *more, "--out", "m")[0] == 2
    assert run(*LDA[:2], "docs", *LDA[2:], *more, "--out", "m", "--invalid", "drop")[::2] == (0, "")


def test_bad_labels_in_a_file_of_their_own(place, run):
    """Of persons, of classes and of counts."""
    sp.save_npz(place / "X.npz", sp.csr_array(COUNTS))
    np.save(place / "x.npy", COUNTS.astype(float))
    more = ["--records", N, "--epsilon", 5, "--delta", 1e-5, "--steps", 2, "--quiet", "--out"]
    for number, (bad, named) in enumerate([(b"\xff", False), (b"", False), (b" ", False), (b"\xff", True)]):
        labels = [b"yes" if k % 2 else b"no" for k in range(N)]
        (place / "who.txt").write_bytes(b"\n".join([*labels[:-1], bad, b""]))
        if named:
            argv = ["fit", "blr", "x.npy", "--label", "who.txt", "--classes", "no", "yes", "--row-norm", 4]
        else:
            argv = [*LDA[:2], "X.npz", *LDA[2:], "--groups", "who.txt"]
        assert run(*argv, *more, f"m{number}")[0] == 2
        code, _, err = run(*argv, *more, f"m{number}", "--invalid", "drop")
        assert (code, told(err)) == (0, "")
    for number, bad in enumerate(("zq7351", "nan", "", "-1")):
        (place / "y.txt").write_text("1\n" * (N - 1) + f"{bad}\n")
        argv = ["fit", "counts", "x.npy", "--label", "y.txt", "--row-norm", 4]
        code, _, err = run(*argv, *more, f"t{number}")
        assert code == 2 and SECRET not in err
        code, _, err = run(*argv, *more, f"t{number}", "--invalid", "drop")
        assert (code, told(err)) == (0, "")


def test_bad_images(place, run):
    images = np.random.default_rng(0).random((N, 6))
    images[3, 2] = np.nan
    np.save(place / "x.npy", images)
    argv = ["fit", "sbn", "x.npy", "--components", 2, "--records", N, "--epsilon", 5, "--delta", 1e-5, "--quiet"]
    argv += ["--threshold", 1, "--steps", 2, "--out", "m"]
    assert run(*argv)[0] == 2
    assert run(*argv, "--invalid", "drop")[::2] == (0, "")


@pytest.mark.parametrize("kind", ["notes", "rows", "docs"])
def test_bad_records_in_shards(place, run, kind):
    """Written without a word, and as rows that contribute nothing."""
    if kind == "notes":
        argv = ["shard", "t.csv", "out", *OWN, *VOCAB]
        cases = [lines(b"note,patient", NOTES, bad)[1] for bad in BAD_NOTES]
    elif kind == "docs":
        argv = ["shard", "t.csv", "out", "--format", "npz"]
        cases = [npz(bad)[1] for bad in (-7351, 1.5, np.nan)]
    else:
        argv = ["shard", "t.csv", "out", "--schema", "s.toml", "--label", "ill", "--person", "home"]
        cases = [lines(b"age,work,ill,home", ROWS, bad)[1] for bad in [*BAD_ROWS, b"5,state,yes,"]]
    for number, content in enumerate(cases):
        (place / "t.csv").write_bytes(content)
        argv[2] = f"shards{number}"
        if kind != "rows" or number < 5:
            assert run(*argv)[0] == 2
        code, _, err = run(*argv, "--invalid", "drop")
        assert (code, told(err)) == (0, "")
        fit = ("fit", "blr") if kind == "rows" else LDA
        more = ["--records", N, "--epsilon", 5, "--delta", 1e-5, "--quiet", "--steps", 2, "--sampling", "full"]
        code, _, err = run(*fit[:2], argv[2], *fit[2:], *more, "--invalid", "drop", "--out", f"m{number}")
        assert (code, told(err)) == (0, "")
