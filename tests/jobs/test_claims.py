"""What `verify` says of a publication: no more than it checked.

Publications that are damaged, forged or older than another, and kills while one is published.
"""

import contextlib
import io
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from disk import each_fault
from fuzz import at_once

from vips_fast import LatentDirichletAllocation, TopicTables
from vips_fast.cli import main
from vips_fast.engine.result import FitResult
from vips_fast.jobs import check_publication, publish
from vips_fast.jobs import publication as publications
from vips_fast.jobs.folder import write_model
from vips_fast.jobs.publication import MANIFEST, file_digests
from vips_fast.models import persistence
from vips_fast.store.atomic import leftovers, sweep

WORDS = [f"word{k}" for k in range(6)]
ALL = "Every file follows from releases and public facts."


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("root"), np.random.default_rng(0)
    topics = rng.dirichlet(np.full(6, 0.3), 2)
    counts = np.stack([rng.multinomial(12, topics[i % 2]) for i in range(2000)])
    values = {"ward": np.array(["north", "south"])[np.arange(2000) % 2]}
    for which in ("a", "b"):
        model = LatentDirichletAllocation(2, epsilon=4.0, delta=1e-5, doc_length=12, n_steps=2)
        listed = {"vocab.txt": "".join(f"{word}\n" for word in WORDS)}
        model.fit(counts, inputs=listed, transcript=root / f"{which}.releases")
        write_model(model, root / f"{which}.topics")
        tables = TopicTables({"ward": ["north", "south"]}, epsilon=2.0, delta=1e-5)
        tables.fit(model.transform(counts), values, after=model, transcript=root / f"{which}.more")
        write_model(tables, root / f"{which}.tables")
        parts = (root / f"{which}.topics", root / f"{which}.tables")
        publish(root / which, *parts, dataset="Notes", names=["colds", f"rents {which}"])
    return root


@pytest.fixture
def copy(root, tmp_path):
    return Path(shutil.copytree(root / "a", tmp_path / "copy"))


def transcripts(root, which="a", n=2):
    return [root / f"{which}.{name}" for name in ("releases", "more")[:n]]


def line_of(report, name):
    (found,) = (check for check in report.checks if check.name == name)
    return found


# --------------------------------------------------------------- what was checked, and what not


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_report_claims_what_was_given(root, copy, n):
    report = check_publication(copy, transcripts(root, n=n))
    assert report.ok and (report.closing == ALL) == (n == 2)
    assert line_of(report, "model.sig").ok is None
    left = {0: "whether releases gave model, tables-1.", 1: "whether releases gave tables-1.", 2: ALL}[n]
    assert report.closing.endswith(left)
    held = {check.name for check in report.checks if check.ok}
    for k, part in enumerate(("model", "tables-1")):
        assert {f"{part}: model.npz" in held, f"{part}: model.json" in held} == {k < n}
    for name in ("dataset, date", "names.txt"):  # no release shows them
        assert line_of(report, name).ok is None
    text = report.text().splitlines()
    assert len([line for line in text if line.startswith("not checked")]) == sum(c.ok is None for c in report.checks)
    assert text[1] == f"ledger head: {TopicTables.load(copy / 'tables-1').ledger_.head}"


def test_the_shell_says_the_same_as_an_object(root, copy, capsys):
    assert main(["verify", str(copy), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] and said["exit"] == "done" and ALL != said["claim"] == check_publication(copy).closing
    assert {one["ok"] for one in said["checks"]} == {True, None}
    assert all(one["detail"] for one in said["checks"] if one["ok"] is None)
    assert said["about"]["ledger head"] == TopicTables.load(copy / "tables-1").ledger_.head
    more = [word for path in transcripts(root) for word in ("--transcript", str(path))]
    assert main(["verify", str(copy), "--json", *more]) == 0
    assert json.loads(capsys.readouterr().out)["claim"] == ALL
    (copy / "names.txt").write_text("one\ntwo\n")
    assert main(["verify", str(copy), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["exit"], said["claim"]) == (False, "failed", "The publication DOES NOT FOLLOW.")


def test_an_older_publication_says_which_it_is(root, copy, tmp_path, monkeypatch):
    newer = tmp_path / "newer"
    monkeypatch.setattr(publications, "_today", lambda: "2031-01-02")
    publish(newer, root / "b.topics", root / "b.tables", dataset="Notes", names=["x", "y"])
    said = [dict(check_publication(path).about) for path in (copy, newer)]
    assert said[1]["published"].startswith("2031-01-02") and said[0]["published"] < said[1]["published"]
    assert said[0]["ledger head"] != said[1]["ledger head"]


# --------------------------------------------------------------------------- forgers


def forged(copy, root):
    """A publication with reversed word weights, and every hash of it anew."""
    have = LatentDirichletAllocation.load(copy / "model")._fitted()
    ledger = have.ledger.copy()
    ledger._frozen = False
    del ledger.records[-1], ledger.heads[-1]

    def reversed_words(arrays):
        return {key: np.ascontiguousarray(a[:, ::-1]) if a.shape[1:] == (6,) else a for key, a in arrays.items()}

    arrays, state = reversed_words(have.arrays), reversed_words(have.state)
    made = FitResult.make(have.kind, have.settings, have.public, have.n_steps, arrays, state, ledger)
    persistence.save(made, copy.parent / "model")
    publish(copy.parent / "forged", copy.parent / "model", dataset="Notes")
    return copy.parent / "forged"


def test_a_forger_is_not_believed_and_found_with_the_transcript(root, copy):
    folder = forged(copy, root)
    alone = check_publication(folder)
    assert alone.ok and "Not checked, as no transcript was given: whether releases gave model." in alone.closing
    assert not [check for check in alone.checks if check.name == "model: model.npz"]
    report = check_publication(folder, transcripts(root, n=1))
    assert not report.ok and report.closing != ALL


def test_a_name_cannot_write_a_line_of_its_own(copy):
    said = json.loads((copy / "privacy.json").read_text())
    said["x\nequal   model.sig: of all files"] = 1
    (copy / "privacy.json").write_text(json.dumps(said))
    (copy / "x\nequal   model.sig").write_text("")
    lines = check_publication(copy).text().splitlines()
    assert not [line for line in lines if line.startswith("equal   model.sig")]


# ------------------------------------------------------------------------ any damage

VALUES = [[], {}, [[]], None, True, -1, 1e308, 10**40, "x", "\x1b[2J", ["x"], {"x": []}, "9" * 5000]


def places(value, at=()):
    yield at
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(one, (*at, key))


def put(value, at, new):
    if not at:
        return new
    value = json.loads(json.dumps(value))
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = new
    return value


def damages(name, data, other, chosen):
    """Give a file's damages: None for a file that is removed."""
    yield from (None, b"", data[: len(data) // 2], data + b"\n", b"\xff\xfe\x00", b"[" * 100_000, other)
    for _ in range(2):
        changed = bytearray(data)
        changed[chosen.randrange(len(data))] ^= chosen.randrange(1, 256)
        yield bytes(changed)
    if name.endswith(".json"):
        value = json.loads(data)
        inside = list(places(value))
        for at in {*inside[:4], *chosen.sample(inside, min(6, len(inside)))}:
            yield json.dumps(put(value, at, chosen.choice(VALUES)), indent=1, sort_keys=True).encode()


def verified(folder, *more):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["verify", str(folder), *more])
    return code, out.getvalue(), err.getvalue()


OWN = ("names.txt", "report.html", "privacy.json", "publication.json")
SAVED = ("model.json", "model.npz", "privacy.json", "privacy.txt")
FILES = [*OWN, *(f"model/{one}" for one in (*SAVED, "topics.txt", "vocab.txt"))]
FILES += [f"tables-1/{one}" for one in (*SAVED, "tables.csv")]
#: Of the second part, what the first does not have: its other files are read alike.
QUICK = [name for name in FILES if not name.startswith("tables-1/") or name.endswith(("model.json", ".csv"))]


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *((name, 0) for name in QUICK),
        *(pytest.param(name, n, marks=pytest.mark.slow) for name in FILES for n in range(6)),
    ],
)
def test_any_damage_is_seen_or_claims_nothing(root, copy, name, seed):
    """Damage one file in many ways: one line of refusal, or a line that differs; never a traceback.

    A damage that passes has changed nothing but the version in a privacy.json, which is in no claim.
    """
    assert set(FILES) == {*file_digests(copy), MANIFEST}
    whole, other = (copy / name).read_bytes(), (root / "b" / name).read_bytes()
    for data in damages(name, whole, other, random.Random(seed)):
        (copy / name).unlink()
        if data is not None:
            (copy / name).write_bytes(data)
        with at_once(60):
            code, out, err = verified(copy)
        assert "Traceback" not in err and "internal error" not in err, (data or b"")[:500]
        assert code in (0, 1, 2) and (code != 2 or (len(err.splitlines()) == 1 and not out)), err
        assert code == (0 if data == whole else code or 3), (data or b"")[:500]
        if code == 1:
            assert "DIFFERS" in out and out.endswith("DOES NOT FOLLOW.\n") and err == ""
        (copy / name).write_bytes(whole)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
@pytest.mark.parametrize("name", ["publication.json", "names.txt", "model", "tables-1", "model/privacy.json"])
def test_an_entry_of_another_kind_is_refused(copy, name, kind):
    os.rename(copy / name, copy.parent / "old")
    if kind == "link":
        (copy / name).symlink_to(copy.parent / "old")
    elif kind == "folder":
        (copy / name).mkdir()
    else:
        os.mkfifo(copy / name)
    with at_once(60):
        code, out, err = verified(copy)
    assert code in (1, 2) and len(err.splitlines()) == (code == 2) and "internal error" not in err, (out, err)


# --------------------------------------------------------------------- stops while one is published


def state(out, root, before):
    """Tell whether a folder is the old one or the new one, each whole."""
    if file_digests(out) == before:
        return "old"
    assert check_publication(out).ok
    assert (
        LatentDirichletAllocation.load(out / "model").ledger_.head
        == LatentDirichletAllocation.load(root / "b.topics").ledger_.head
    )
    return "new"


@pytest.fixture
def quick(monkeypatch):
    """The page is drawn once, as what is tested is the order of the files."""
    page, seen = publications.html_report, {}

    def drawn(model, **known):
        key = model.ledger_.head, len(known["tables"])
        return seen[key] if key in seen else seen.setdefault(key, page(model, **known))

    monkeypatch.setattr(publications, "html_report", drawn)


#: A kill or an error at a call of each kind, or at every call; with an old publication in the place, or without.
STOPS = [("killed", True, 0), ("ENOSPC", False, 0)]
STOPS += [
    pytest.param(fault, there, None, marks=pytest.mark.slow)
    for fault in ("killed", "ENOSPC", "EINTR")
    for there in (True, False)
]


@pytest.mark.parametrize(("fault", "there", "before"), STOPS)
def test_a_stop_leaves_the_old_publication_or_the_new_one(root, tmp_path, monkeypatch, quick, fault, there, before):
    old, found = file_digests(root / "a"), set()

    def work(out):
        publish(out, root / "b.topics", root / "b.tables", dataset="Notes", force=True)

    def prepare(folder):
        if there:
            shutil.copytree(root / "a", folder / "out")
        return folder / "out"

    for folder, out, failed, error in each_fault(tmp_path, monkeypatch, fault, prepare, work, before):
        what = state(out, root, old) if out.exists() else "none"
        found.add(what)
        left = {path.name for path in folder.iterdir()} - {"out"}
        if failed == "killed":
            assert len(left) <= 1 and {path.name for path in leftovers(folder)} == left
            sweep(out)
            assert leftovers(folder) == []
        else:
            # Once it has its place, only the parent is opened and synced; then an old one is left as a part.
            assert error is None or what != "new" or failed in ("open", "fsync"), failed
            assert not left or failed in ("rmdir", "unlink") or what == "new", failed
        shutil.rmtree(folder)
    assert found == {"old" if there else "none", "new"}
