"""Folders that are replaced or removed: ours, and only if they hold nothing else.

Every folder here holds something that would be lost. Every command that replaces or removes a folder refuses it, and
leaves each file and link under the test's folder as it was.
"""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from runs import die, in_child

from vips_fast import LatentDirichletAllocation
from vips_fast.cli import main
from vips_fast.data import Batch, write_shards
from vips_fast.engine.budget import Budget
from vips_fast.jobs import folder as folders
from vips_fast.jobs import publish
from vips_fast.jobs.folder import write_model
from vips_fast.store import atomic
from vips_fast.store.atomic import new_folder, put_in_place

WORDS = ["cough", "fever", "rash", "sleep", "work", "rent"]
SETTINGS = "--text note --topics 2 --steps 2 --epsilon 8 --delta 1e-5 --anyway --quiet --jobs 1".split()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    rows = [f"{'north south'.split()[k % 2]},{' '.join(rng.choice(WORDS, 12))}" for k in range(400)]
    (root / "notes.csv").write_text("\n".join(["ward,note", *rows, ""]))
    (root / "words").write_text("\n".join(WORDS) + "\n")
    (root / "values.toml").write_text('ward = ["north", "south"]\n')
    fit = ["fit", "lda", str(root / "notes.csv"), "--vocab", str(root / "words"), *SETTINGS]
    assert main([*fit, "--out", str(root / "topics")]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "put_in_place", lambda *_: (_ for _ in ()).throw(OSError(30, "read-only")))
        main([*fit, "--out", str(root / "kept")])
    assert folders.belongs(root / "kept.run" / "model", root / "kept.run")
    publish(root / "public", root / "topics", names=["one", "two"])
    return root


@pytest.fixture
def here(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "here", symlinks=True))


def tree(root):
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    found.pop("kept.run/lock", None)  # each holder leaves the time
    return found


# ------------------------------------------------------------------- the folders


def of_a_user(here, place):
    """The folder of the finding: common names, notes, and a budget."""
    (place / "model").mkdir(parents=True)
    (place / "report.html").write_text("my page")
    (place / "notes.csv").write_text("note\nmine\n")
    of_a_budget(here, place)


def of_a_budget(here, place):
    place.mkdir(exist_ok=True)
    Budget.create(place / "notes.budget", 1.0, 1e-6, dataset="notes")


def of_common_names(here, place, *more):
    """Names that a model's inputs have too."""
    place.mkdir()
    for name in ("vocab.txt", "schema.toml", "columns.txt", "report.html", "privacy.txt", *more):
        (place / name).write_text("mine")


def _with_a_file_in_a_subfolder(place):
    (place / "model").mkdir(exist_ok=True)
    (place / "model" / "notes.csv").write_text("mine")


def _with_a_link(place):
    (place / "privacy.json").unlink()
    (place / "privacy.json").symlink_to(place.parent / "notes.csv")


def _with_notes_in_a_file_of_ours(place):
    path = place / ("names.txt" if (place / "names.txt").exists() else "vocab.txt")
    path.write_text(path.read_text() + "mine\n")


def _changed(base, change):
    def build(here, place):
        shutil.copytree(here / base, place)
        change(place)

    return build


#: Folders that hold something else, by name: some of others, and a model and a publication with a change.
FOLDERS = {
    "of a user": of_a_user,
    "of a budget": of_a_budget,
    "of a run": lambda here, place: shutil.copytree(here / "kept.run", place),
    "of common names": of_common_names,
    "of malformed markers": lambda here, place: of_common_names(
        here, place, "model.json", "publication.json", "job.json", "lock"
    ),
    "link to a model": lambda here, place: place.symlink_to(here / "topics"),
    "link to nothing": lambda here, place: place.symlink_to(here / "nothing"),
    "a file": lambda here, place: place.write_text("mine"),
}
FOLDERS |= {
    f"{base} {change}": _changed(base, make)
    for base in ("topics", "public")
    for change, make in {
        "and a file": lambda place: (place / "notes.csv").write_text("mine"),
        "and a file below": _with_a_file_in_a_subfolder,
        "and a folder": lambda place: (place / "later").mkdir(),
        "and capitals": lambda place: (place / "REPORT.HTML").write_text("mine"),
        "and a hidden file": lambda place: (place / ".git").write_text("mine"),
        "with a link": _with_a_link,
        "and a link to a folder": lambda place: (place / "words").symlink_to(place.parent / "topics"),
        "with notes in a file of ours": _with_notes_in_a_file_of_ours,
        "and another input": lambda place: (place / "schema.toml").write_text("mine"),
    }.items()
}


#: Folders that may be replaced.
OURS = {base: _changed(base, lambda place: None) for base in ("topics", "public")}


# ------------------------------------------------------------------- the commands


def _fit(here, place):
    return ["fit", "lda", here / "notes.csv", "--vocab", here / "words", *SETTINGS, "--out", place, "--force"]


def _tabulate(here, place):
    more = ["--by", "ward", "--values", here / "values.toml", "--epsilon", 9, "--delta", "1e-5", "--quiet"]
    return ["tabulate", here / "topics", here / "notes.csv", "--text", "note", *more, "--out", place, "--force"]


def _publish(here, place):
    return ["publish", here / "topics", "--out", place, "--force"]


def _shard(here, place):
    return ["shard", here / "notes.csv", place, "--text", "note", "--vocab", here / "words"]


def _demo(here, place):
    return ["demo", "--out", place]


COMMANDS = [_fit, _tabulate, _publish, _shard, _demo]


def called(*argv):
    return main([str(arg) for arg in argv])


#: Each folder with one command, and each command with a folder of each kind: not a model, one and more, nearly one.
PAIRS = [(COMMANDS[number % len(COMMANDS)], name) for number, name in enumerate(FOLDERS)]
KINDS = "of a user", "link to a model", "topics and a file", "public and a file"
PAIRS += [(command, name) for command in COMMANDS for name in KINDS]


@pytest.mark.parametrize("command, name", dict.fromkeys(PAIRS), ids=lambda one: getattr(one, "__name__", one))
def test_no_command_takes_a_folder_that_holds_anything_else(here, name, command, capsys):
    place = here / "place"
    FOLDERS[name](here, place)
    before = tree(here)
    capsys.readouterr()
    code, said = called(*command(here, place)), capsys.readouterr().err
    assert tree(here) == before
    assert code == 2 and said.count("\n") == 1 and str(place) in said and "internal error" not in said


@pytest.mark.parametrize("name", FOLDERS)
def test_no_function_does_either(here, made, name):
    place = here / "place"
    FOLDERS[name](here, place)
    model = LatentDirichletAllocation.load(made / "topics")
    before = tree(here)
    batch = [Batch(np.ones((3, 4), dtype=int))]
    for write in (model.save, lambda path: write_model(model, path), lambda path: write_shards(path, batch)):
        with pytest.raises((ValueError, OSError), match=re.escape(str(place))):
            write(place)
        assert tree(here) == before


@pytest.mark.parametrize(
    ("command", "folder", "name"),
    [
        (_publish, "of a user", "model/"),
        (_publish, "public and a file", "notes.csv"),
        (_publish, "public and a file below", "model/notes.csv"),
        (_publish, "public and a folder", "later/"),
        (_publish, "public and capitals", "REPORT.HTML"),
        (_publish, "topics", "model.json"),
        (_fit, "topics and a file", "notes.csv"),
        (_fit, "topics and a folder", "later/"),
        (_fit, "topics and another input", "schema.toml"),
        (_fit, "public", "model/"),
    ],
)
def test_the_refusal_names_what_would_be_lost(here, command, folder, name, capsys):
    place = here / "place"
    {**FOLDERS, **OURS}[folder](here, place)
    before = tree(here)
    assert called(*command(here, place)) == 2 and tree(here) == before
    assert repr(name) in capsys.readouterr().err


@pytest.mark.parametrize(("command", "base"), [(_publish, "public"), (_fit, "topics"), (_tabulate, "topics")])
def test_a_folder_of_ours_is_replaced(here, command, base):
    place = here / "place"
    OURS[base](here, place)
    before = tree(place)
    assert called(*command(here, place)) == 0
    assert (place / ("publication.json" if command is _publish else "model.json")).exists()
    if command is not _publish:
        assert tree(place) != before
    assert not [path.name for path in here.iterdir() if path.name.startswith(".")]


# -------------------------------------------------- the working folder, ancestors and inputs


@pytest.mark.parametrize(
    ("command", "base", "out"),
    [(command, None, ".") for command in (_fit, _tabulate, _publish, _demo)]
    + [(_publish, base, out) for base in OURS for out in (".", "..", "../place", "link")],
)
def test_never_the_folder_in_which_one_works(here, command, base, out, monkeypatch, capsys):
    place = here / "place"
    place.mkdir() if base is None else OURS[base](here, place)
    (here / "link").symlink_to(place)
    where = place if out != ".." else place / "below"
    where.mkdir(exist_ok=True)
    monkeypatch.chdir(where)
    before = tree(here)
    given = here / "link" if out == "link" else out
    assert called(*command(here, given)) == 2 and tree(here) == before
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "the folder in which you work; expected another place" in said


@pytest.mark.parametrize("out", ["topics", "topics/public", "alias", "."])
@pytest.mark.parametrize("command", [_tabulate, _publish], ids=lambda one: one.__name__)
def test_never_an_input_nor_what_holds_one(here, command, out, capsys):
    (here / "alias").symlink_to(here / "topics")
    before = tree(here)
    assert called(*command(here, here / out)) == 2 and tree(here) == before
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and re.search(r"expected another place", said)


def test_never_the_part_of_a_publication_that_is_published_again(here):
    before = tree(here)
    assert called("publish", here / "public" / "model", "--out", here / "public", "--force") == 2
    with pytest.raises(ValueError, match="holds .*model, which is in use"):
        publish(here / "public", here / "public" / "model", force=True)
    assert tree(here) == before


def test_a_file_that_is_read_is_not_written(here, capsys):
    before = tree(here)
    assert called("predict", here / "topics", here / "notes.csv", "--text", "note", "--out", here / "notes.csv") == 2
    assert tree(here) == before


# ------------------------------------------------------------------- leftovers, and races


@pytest.mark.parametrize(
    "name", ["notes.csv", "model/notes.csv", "words/notes.csv", "releases/notes.csv", "words/model/notes.csv"]
)
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_a_job_removes_only_what_it_put_into_its_folder(here, name, kind):
    run = here / "kept.run"
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    if kind == "folder":
        (run / name).mkdir()
    elif kind == "link":
        (run / name).symlink_to(here / "topics")
    else:
        (run / name).write_text("mine")
    others = {key: value for key, value in tree(here).items() if not key.startswith("kept.run")}
    folders.remove(run)
    kept = {str(parent) for parent in Path("kept.run", name).parents} - {"."}
    assert tree(here).keys() - others.keys() == {*kept, f"kept.run/{name}"}
    assert {key: value for key, value in tree(here).items() if key in others} == others


@pytest.mark.parametrize("inside", ["thesis.doc", "model/thesis.doc", "later/"])
def test_the_next_writer_leaves_what_is_in_a_part_and_not_ours(here, inside):
    in_child(lambda: (new_folder(here / "topics"), die()))
    (part,) = (path for path in here.iterdir() if path.name.startswith(".topics."))
    (part / inside).parent.mkdir(exist_ok=True)
    (part / inside).mkdir() if inside.endswith("/") else (part / inside).write_text("mine")
    (part / "model.npz").write_text("half")
    atomic.sweep(here / "topics")
    assert (part / inside).exists() and not (part / "model.npz").exists()


def test_a_file_that_comes_at_the_last_moment_stays(here, monkeypatch):
    """Between the look at a folder and its exchange."""
    place, exchange = here / "place", atomic._exchange
    OURS["public"](here, place)

    def late(first, second):
        (second / "model" / "notes.csv").write_text("mine")
        return exchange(first, second)

    monkeypatch.setattr(atomic, "_exchange", late)
    publish(place, here / "topics", force=True)
    (kept,) = (path for path in here.iterdir() if path.name.endswith(".kept"))
    assert tree(kept) == {"model": None, "model/notes.csv": b"mine"} and not (place / "model" / "notes.csv").exists()


def test_a_folder_that_comes_at_the_last_moment_is_not_replaced(here):
    (here / "new").mkdir()
    (here / "new" / "model.json").write_text("new")
    (here / "place").mkdir()
    (here / "place" / "notes.csv").write_text("mine")
    before = tree(here)
    with pytest.raises(FileExistsError, match="another process wrote it meanwhile"):
        put_in_place(here / "new", here / "place")
    assert tree(here) == before


def test_without_an_exchange_the_old_folder_comes_back(here, monkeypatch):
    """A system that cannot exchange, and whose second rename fails."""
    place, rename = here / "place", os.rename
    OURS["public"](here, place)
    before = tree(here)

    def fails(source, target):
        if (
            Path(target) == place
            and Path(source).name.endswith(".part")
            and (Path(source) / "names.txt").exists() is False
        ):
            raise OSError(5, "input/output error")
        rename(source, target)

    monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(OSError, match="input/output"):
        publish(place, here / "topics", force=True)
    assert tree(here) == before


def test_parts_are_known_by_the_names_that_their_writers_give():
    from vips_fast.data.shards import ARRAYS, MANIFEST
    from vips_fast.engine.transcript import TRANSCRIPT_FILES
    from vips_fast.jobs.publication import PUBLICATION_FILES
    from vips_fast.models.persistence import MODEL_FILES
    from vips_fast.store.owned import MADE

    assert MADE == MODEL_FILES | PUBLICATION_FILES | TRANSCRIPT_FILES | folders.JobFolder.OWN | {MANIFEST, *ARRAYS}
