"""Folders of runs that were cut, flipped or written to a failing disk: no release is left uncounted, no traceback."""

import errno
import os
import shutil
import warnings

import numpy as np
import pytest
from runs import Ends, Stop, begun, bits, data, drawn, estimator, fail, whole

from vips_fast.engine import durable, journal
from vips_fast.engine.checkpoint import CHECKPOINT, RUN
from vips_fast.engine.journal import LEDGER, LedgerFile


@pytest.fixture
def quick_disk(monkeypatch):
    """Without waiting for the disk, for tests that write thousands of files."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def releases_in(content):
    """(where each release's line begins, …) in a ledger's bytes."""
    places, at = [], 0
    for line in content.splitlines(keepends=True):
        if b'"kind":"release"' in line:
            places.append(at)
        at += len(line)
    return places


def plan_of(name):
    return estimator(name).prepare(*data(name)).plan


def test_a_ledger_cut_at_any_byte_counts_what_was_begun(tmp_path, quick_disk):
    begun(tmp_path / "r")
    path, plan = tmp_path / "r" / LEDGER, plan_of("own")
    content = path.read_bytes()
    begins = releases_in(content)
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        spent = sum(place < cut for place in begins)
        ledger = LedgerFile(path).read(plan)
        # A line of another kind that is torn is taken for a release as well.
        assert spent <= len(ledger) <= spent + 1
        if cut % 7:
            continue
        rewritten = path.read_bytes()
        assert LedgerFile(path).read(plan).head == ledger.head and path.read_bytes() == rewritten
    for cut in range(0, len(content), 23):
        path.write_bytes(content[:cut])
        spent = sum(place < cut for place in begins)
        try:
            done = estimator("own").fit(*data("own"), checkpoint=tmp_path / "r", resume=True)
        except ValueError as error:
            assert "does not extend" in str(error)  # the checkpoint knows better
            continue
        assert len(done.ledger_) >= spent + 1 and bits(done) == whole("own")
        break
    begun(tmp_path / "s")
    (tmp_path / "s" / CHECKPOINT).unlink()
    path = tmp_path / "s" / LEDGER
    content, kept = path.read_bytes(), shutil.copytree(tmp_path / "s", tmp_path / "kept")
    for cut in range(1, len(content), 41):
        shutil.rmtree(tmp_path / "s")
        shutil.copytree(kept, tmp_path / "s")
        path.write_bytes(content[:cut])
        done = estimator("own").fit(*data("own"), checkpoint=tmp_path / "s", resume=True)
        assert len(done.ledger_) >= sum(place < cut for place in begins) + 3 and bits(done) == whole("own")


def test_no_flip_in_the_ledger_hides_a_release(tmp_path, quick_disk):
    begun(tmp_path)
    path, plan, rng = tmp_path / LEDGER, plan_of("own"), np.random.default_rng(0)
    content = path.read_bytes()
    spent, refused = len(releases_in(content)), 0
    flips = [(int(rng.integers(len(content))), int(rng.integers(1, 256))) for _ in range(1000)]
    flips += [(place, 1 << bit) for place, byte in enumerate(content) if byte == 10 for bit in range(8)]
    for place, mask in flips:
        damaged = bytearray(content)
        damaged[place] ^= mask
        path.write_bytes(damaged)
        try:
            ledger = LedgerFile(path).read(plan)
        except ValueError as error:
            refused += 1
            assert f"{path}, line " in str(error) and "damaged" in str(error)
            continue
        assert len(ledger) >= spent
    assert refused > 500


@pytest.mark.parametrize("file", [CHECKPOINT, RUN])
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
            assert (tmp_path / LEDGER).read_bytes() == ledger
        else:
            # Some bytes of an archive say nothing.
            went_on += 1
            assert bits(done) == whole("own") and len(done.ledger_) == 4
        path.write_bytes(content)
        (tmp_path / LEDGER).write_bytes(ledger)
    assert went_on < 30


# ---------------------------------------------------------------------- faults


class Faults:
    """Lets the n-th call of the system fail; a write writes half before."""

    def __init__(self, monkeypatch, target, code):
        self.calls, self.target, self.code = 0, target, code
        for name in ("write", "pwrite", "ftruncate", "fsync", "rename", "open", "mkdir"):
            monkeypatch.setattr(os, name, self.failing(getattr(os, name), name))
        original = durable.write_file
        monkeypatch.setattr(journal, "write_file", lambda path, write: original(path, self.half(write)))

    def hit(self):
        self.calls += 1
        return self.calls == self.target

    def failing(self, original, name):
        def call(*arguments, **options):
            if self.hit():
                if name == "write":
                    original(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                # The system's calls name the path that they were given, if it was one.
                names = [str(arguments[0])] if name in ("open", "mkdir", "rename") else []
                raise OSError(self.code, os.strerror(self.code), *names)
            return original(*arguments, **options)

        return call

    def half(self, write):
        def call(file):
            if self.hit():
                file.write(b"half")
                raise OSError(self.code, os.strerror(self.code))
            return write(file)

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("resumed", [False, True])
def test_a_fault_at_each_call_of_the_system(code, resumed, tmp_path, monkeypatch):
    name, target, went_on = "own", 0, 0
    while True:
        target += 1
        folder, draws = tmp_path / str(target), tmp_path / f"draws{target}"
        if resumed:
            model = estimator(name, draws)
            model._backend = lambda: Ends(2, fail)
            with pytest.raises(Stop):
                model.fit(*data(name), checkpoint=folder, checkpoint_every=1)
            ledger = folder / LEDGER
            ledger.write_bytes(ledger.read_bytes()[:-30])  # a torn line to be mended as well
        model, records = estimator(name, draws), data(name)
        prepared = model._randomness(None)
        model._randomness = lambda public, drawing=prepared: drawing
        with monkeypatch.context() as patch:
            faults = Faults(patch, target, code)
            failed = False
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    model.fit(*records, checkpoint=folder, resume=resumed, checkpoint_every=1)
                except OSError as error:
                    failed = True
                    assert error.errno == code and str(tmp_path) in str(error) and model._result is None
        if not failed and faults.calls < target:
            break
        if not failed:
            # A checkpoint that cannot be written does not throw a paid run away, but it is said.
            (said,) = [str(w.message) for w in warned]
            assert os.strerror(code) in said and str(folder) in said and bits(model) == whole(name)
            went_on += 1
        done = estimator(name, draws).fit(*records, checkpoint=folder, resume=True, checkpoint_every=1)
        assert bits(done) == whole(name)
        assert drawn(draws) <= len(done.ledger_) <= done.n_steps_ + 1 + resumed
    assert target > 20 and went_on >= 6
