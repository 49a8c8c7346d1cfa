"""Damaged run folders count every release, without a traceback.

Some are cut or flipped, others are written to a failing disk.
"""

import contextlib
import io
import json
import os
import random
import shutil
from itertools import pairwise

import numpy as np
import pytest
from cases import CASES
from disk import FAULTS, each_fault
from fuzz import at_once, of_arrays, of_log, of_value
from runs import Stop, Witnessed, begun, bits, data, drawn, ends, estimator, fail, read_ledger, stopping_after, whole

from vips_fast.engine.budget import Budget
from vips_fast.engine.checkpoint import LEDGER, LOCK, RELEASES, RUN
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.result import plain
from vips_fast.jobs import folder as folders
from vips_fast.store.atomic import leftovers
from vips_fast.store.folder import Folder
from vips_fast.store.log import _WIDTH, LogDamagedError, _first_line, canonical_json, json_digest
from vips_fast.store.npz import read_npz, write_npz


@pytest.fixture
def quick_disk(monkeypatch):
    """Without waiting for the disk, for tests that write thousands of files."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def plan_of(name):
    return estimator(name).prepare(*data(name)).plan


def crashes(content):
    """(records whose append may have returned, file) of each state that an append can leave.

    A part of a record, the first line old or new: an append returns after both are on the disk.
    """
    starts = [place + 1 for place, byte in enumerate(content) if byte == 10]
    for number, (start, end) in enumerate(pairwise(starts)):
        for cut in (start, *range(start + 1, end - 1, 4), end - 1, end):
            for count in (number, number + 1):
                yield count, _first_line("ledger", count) + content[_WIDTH:cut]


def releases_among(content, count):
    return sum(b'"kind":"release"' in line for line in content.splitlines()[1 : 1 + count])


def test_a_crash_at_any_byte_of_the_ledger_counts_what_was_drawn(tmp_path, quick_disk):
    """A key is drawn after its record's append has returned."""
    begun(tmp_path / "r")
    path, plan = tmp_path / "r" / LEDGER, plan_of("own")
    content = path.read_bytes()
    for number, (count, state) in enumerate(crashes(content)):
        path.write_bytes(state)
        spent, lines = releases_among(content, count), state.count(b"\n") - 1
        ledger = read_ledger(path, plan)
        # A lost record of another kind is taken for a release as well. A record that is written counts, and a part of
        # one whose append did not return does not.
        assert spent <= len(ledger) <= spent + 1
        assert lines != count or len(ledger) == spent
        if number % 7:
            continue
        rewritten = path.read_bytes()
        assert read_ledger(path, plan).head == ledger.head and path.read_bytes() == rewritten


def test_a_ledger_cut_at_any_byte_is_counted_or_refused(tmp_path, quick_disk):
    """Only the end of the last record may be missing. The first line counts the records."""
    begun(tmp_path)
    path, plan = tmp_path / LEDGER, plan_of("own")
    content = path.read_bytes()
    spent, last = releases_among(content, content.count(b"\n")), content[:-1].rindex(b"\n") + 1
    for cut in (*range(0, last - 1, 5), *range(last - 1, len(content) + 1)):
        path.write_bytes(content[:cut])
        if cut < last:
            with pytest.raises(LogDamagedError, match=f"{path}: "):
                read_ledger(path, plan)
        else:
            assert len(read_ledger(path, plan)) == spent


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_goes_on_after_a_crash_at_any_byte_of_the_ledger(kept, tmp_path, quick_disk):
    begun(tmp_path / "s")
    path = tmp_path / "s" / LEDGER
    if not kept:
        shutil.rmtree(tmp_path / "s" / RELEASES)
    content, first = path.read_bytes(), shutil.copytree(tmp_path / "s", tmp_path / "kept")
    went_on = 0
    for count, state in list(crashes(content))[1::21]:
        shutil.rmtree(tmp_path / "s")
        shutil.copytree(first, tmp_path / "s")
        path.write_bytes(state)
        spent = releases_among(content, count)
        try:
            done = estimator("own").fit(*data("own"), checkpoint=tmp_path / "s", resume=True)
        except ValueError as error:
            assert kept and "does not extend" in str(error)  # the releases know better
            continue
        went_on += 1
        assert len(done.ledger_) >= spent + (1 if kept else 3) and bits(done) == whole("own")
    assert went_on >= 3


@pytest.mark.parametrize("lacks", ["budget", "dataset", "head", "run", None])
def test_a_ledger_names_all_of_the_budget_that_pays(lacks):
    """A record without its name, with hashes made anew, ended a resume by a KeyError."""
    ledger = Ledger()
    ledger.charge_to({name: "x" for name in ("budget", "dataset", "head", "run") if name != lacks})
    with contextlib.nullcontext() if lacks is None else pytest.raises(ValueError, match="a record is malformed"):
        assert Ledger.of(ledger.records).head == ledger.head


@pytest.mark.parametrize("number", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_flip_in_the_ledger_hides_a_release(number, tmp_path, quick_disk):
    begun(tmp_path)
    path, plan, rng = tmp_path / LEDGER, plan_of("own"), np.random.default_rng(0)
    content = path.read_bytes()
    spent, refused = releases_among(content, content.count(b"\n")), 0
    flips = [(int(rng.integers(len(content))), int(rng.integers(1, 256))) for _ in range(number)]
    flips += [(place, 1 << bit) for place, byte in enumerate(content) if byte == 10 for bit in range(8)]
    for place, mask in flips:
        damaged = bytearray(content)
        damaged[place] ^= mask
        path.write_bytes(damaged)
        try:
            ledger = read_ledger(path, plan)
        except ValueError as error:
            refused += 1
            assert f"{path}: " in str(error) and "damaged" in str(error) or "of this version" in str(error)
            continue
        assert len(ledger) >= spent
    assert refused > 500


@pytest.mark.parametrize("file", [f"{RELEASES}/release-000001.npz", RUN])
def test_a_flip_in_another_file_is_refused(file, tmp_path, quick_disk):
    begun(tmp_path)
    path, rng = tmp_path / file, np.random.default_rng(0)
    content, ledger, went_on = path.read_bytes(), (tmp_path / LEDGER).read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= rng.integers(1, 256)
        path.write_bytes(damaged)
        try:
            done = estimator("own").fit(*data("own"), checkpoint=tmp_path, resume=True)
        except ValueError as error:
            assert str(path) in str(error)
            there = (tmp_path / LEDGER).read_bytes()
            assert there == ledger if path.name == RUN else there.count(b'"release"') == ledger.count(b'"release"')
        else:
            # Some bytes of an archive say nothing.
            went_on += 1
            assert bits(done) == whole("own") and len(done.ledger_) == 4
        path.write_bytes(content)
        (tmp_path / LEDGER).write_bytes(ledger)
        (tmp_path / RELEASES / "release-000002.npz").unlink(missing_ok=True)
    assert went_on < 30


def resealed(path, seed):
    """Change a file, and compute its digest anew, as its owner can."""

    def changed(facts):
        del facts["digest"]
        while True:
            with contextlib.suppress(ValueError):  # a number that JSON does not have
                if isinstance(other := json.loads(canonical_json(of_value(facts, chosen))), dict):
                    return other

    chosen = random.Random(seed)
    if path.name == LEDGER:
        with contextlib.suppress(ValueError, TypeError):  # no records, or no JSON
            path.write_bytes(of_log(path.read_bytes(), chosen))
        return
    if path.suffix == ".json":
        facts = changed(json.loads(path.read_bytes()))
        path.write_bytes(canonical_json({**facts, "digest": json_digest(facts)}))
        return
    arrays = read_npz(path)
    meta = json.loads(arrays.pop("meta").tobytes())
    if chosen.random() < 0.5:
        meta = changed(meta)
    else:
        del meta["digest"]
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        arrays = dict(np.load(io.BytesIO(of_arrays(buffer.getvalue(), chosen))))
    text = canonical_json({**meta, "digest": json_digest([meta, plain(arrays)])})
    with open(path, "wb") as file:
        write_npz(file, {**arrays, "meta": np.frombuffer(text, np.uint8)})


@pytest.mark.parametrize("name", ["lda", "own"])
@pytest.mark.parametrize("file", [RUN, LEDGER, f"{RELEASES}/release-000001.npz"])
def test_a_file_that_its_owner_sealed_again_is_taken_or_named(file, name, tmp_path, quick_disk):
    """Without a key it can hold anything. What is no state, release or fact is named."""
    with stopping_after(2):
        estimator(name).fit(*data(name), checkpoint=tmp_path / "r")
    refused = 0
    for seed in range(60):
        folder = shutil.copytree(tmp_path / "r", tmp_path / str(seed))
        resealed(folder / file, seed)
        try:
            estimator(name).fit(*data(name), checkpoint=folder, resume=True)
        except ValueError as error:
            refused += 1
            assert str(folder) in str(error) and "\n" not in str(error)
        with contextlib.suppress(LogDamagedError):
            assert folders.state(folder) and folders.spent(folder)
    assert refused > 30


# ---------------------------------------------------------------------- faults


# Quick: a call of each kind fails once in either folder. Slow: every call, in every way.
QUICK = [("ENOSPC", True, 2), ("short", True, 2), ("EINTR", False, 2), ("killed", False, 2)]
EVERY = [pytest.param(fault, way, None, marks=pytest.mark.slow) for fault in FAULTS for way in (True, False)]


@pytest.mark.parametrize(("fault", "resumed", "before"), [*QUICK, *EVERY])
def test_a_fault_at_each_call_of_the_system(fault, resumed, before, tmp_path, monkeypatch, quick_disk):
    """Every release counts after a fault, and the next run starts.

    In a new folder, or one with a torn line to be mended.
    """
    name, went_on, seen = "own", set(), set()

    def prepare(folder):
        draws = tmp_path / f"{folder.name}.draws"
        if resumed:
            with pytest.raises(Stop):
                ends(estimator(name, draws), 2, fail).fit(*data(name), checkpoint=folder / "r")
            ledger = folder / "r" / LEDGER
            ledger.write_bytes(ledger.read_bytes()[:-30])
        return estimator(name, draws), draws, folder

    def work(made):
        model, _, folder = made
        model.fit(*data(name), checkpoint=folder / "r", resume=resumed)

    for folder, (model, draws, _), failed, error in each_fault(tmp_path, monkeypatch, fault, prepare, work, before):
        seen.add(failed)
        if fault != "killed" and error is None:  # the lock's descriptor is closed; a release is written once more
            went_on.add(failed)
            assert bits(model) == whole(name)
        done = estimator(name, draws).fit(*data(name), checkpoint=folder / "r", resume=True)
        assert bits(done) == whole(name)
        assert drawn(draws) <= len(done.ledger_) <= done.n_steps_ + 1 + resumed
        assert {path.name for path in (folder / "r").iterdir()} == {LEDGER, RUN, LOCK, RELEASES}
    if fault not in ("short", "killed"):
        assert {"write", "rename", "unlock"} <= went_on
        assert {"open", "write", "fsync", "rename", "flock", "unlock", "ftruncate", "pwrite"} <= seen


@pytest.mark.parametrize(
    ("name", "fault", "before"),
    [
        *(("logistic", fault, 0) for fault in ("ENOSPC", "killed")),
        *(pytest.param(name, fault, None, marks=pytest.mark.slow) for name in ("lda", "network") for fault in FAULTS),
    ],
)
def test_a_fault_at_each_call_of_a_paid_run_and_its_files(name, fault, before, tmp_path, monkeypatch, quick_disk):
    """No under-count after a fault, and always a whole model.

    A fit resumes, pays from a budget and replaces a saved model.
    """
    make, records = CASES[name]
    earlier, seen = make().fit(*records()), set()
    # A record that a kill has cut short: all that was reserved counts.
    more = 2 if fault != "killed" else 1 + earlier.n_steps_

    def paid(folder):
        model = make(n_records=200)
        model._randomness = lambda public: Witnessed(tmp_path / f"{folder.name}.draws")
        return model

    def prepare(folder):
        Budget.create(folder / "b", 90.0, 1e-5, dataset="ward")
        earlier.save(folder / "m")
        with pytest.raises(Stop):
            ends(paid(folder), 2, fail).fit(*records(), checkpoint=folder / "r", budget=folder / "b")
        return folder

    def counts(folder):
        spent = [run["counted"] for run in Budget(folder / "b").show()["runs"]]
        return drawn(tmp_path / f"{folder.name}.draws"), sum(spent)

    def work(folder):
        made = paid(folder).fit(*records(), checkpoint=folder / "r", resume=True, budget=folder / "b")
        made.save(folder / "m")

    for folder, _, failed, _ in each_fault(tmp_path, monkeypatch, fault, prepare, work, before):
        seen.add(failed)
        n_draws, counted = counts(folder)
        assert n_draws <= counted <= n_draws + more
        assert len(type(earlier).load(folder / "m").ledger_) >= earlier.n_steps_
        work(folder)
        done = type(earlier).load(folder / "m")
        n_draws, counted = counts(folder)
        # A line of the ledger that was torn counts there as a release.
        assert n_draws <= counted <= n_draws + more and n_draws <= len(done.ledger_) <= n_draws + 2
        assert done.n_steps_ == earlier.n_steps_ and done.ledger_.budget["dataset"] == "ward"
        parts = {path.name for path in folder.iterdir()} - {"b", "m", "r"}
        # If the parent cannot be synced after an exchange, the old folder stays until the next write.
        assert (
            not parts or failed in ("open", "fsync", "unlink", "rmdir") or {p.name for p in leftovers(folder)} == parts
        )
    if fault not in ("short", "killed"):
        assert {"mkdir", "exchange", "open", "write", "fsync", "rename", "flock", "pwrite", "unlink", "rmdir"} <= seen


@pytest.mark.parametrize("made", [os.mkdir, os.mkfifo, lambda path: os.symlink("release-000001.npz", path)])
def test_what_is_no_file_in_the_place_of_a_release_is_named(made, tmp_path):
    """And not waited for."""
    begun(tmp_path)
    made(tmp_path / RELEASES / "release-000002.npz")
    with pytest.raises(ValueError, match=r"release-000002.npz: damaged; restore it, or remove it"):
        estimator("own").fit(*data("own"), checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("file", [LEDGER, LOCK, RUN])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(file, tmp_path):
    begun(tmp_path)
    (tmp_path / file).unlink()
    os.mkfifo(tmp_path / file)
    with at_once(), pytest.raises((OSError, ValueError), match="is a (symbolic link or a )?pipe"):
        estimator("own").fit(*data("own"), checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("gone", [False, True])
def test_a_model_that_is_exchanged_while_it_is_read(gone, tmp_path, monkeypatch):
    first, second = (estimator("own", n_steps=n).fit(*data("own")) for n in (2, 3))
    first.save(tmp_path / "m")
    read = Folder.arrays

    def exchanged(folder, name):
        monkeypatch.setattr(Folder, "arrays", read)
        shutil.rmtree(tmp_path / "m") if gone else second.save(tmp_path / "m")
        return read(folder, name)

    monkeypatch.setattr(Folder, "arrays", exchanged)
    if gone:
        with pytest.raises(FileNotFoundError, match="m"):
            type(first).load(tmp_path / "m")
    else:
        assert type(first).load(tmp_path / "m").ledger_.head == second.ledger_.head
