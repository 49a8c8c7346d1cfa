"""The docstrings of this Python as a corpus."""

import asyncio
import gc
import os
import re
import sys

import numpy as np
import pytest

from vips_fast.demo import STOP_WORDS, docstrings_corpus, language_reference_words


def test_language_reference():
    words = language_reference_words()
    assert list(words) == sorted(set(words))
    # 3,009 words in 3.11; a new Python's reference changes by a few dozen.
    assert 2_000 < len(words) < 5_000
    assert all(re.fullmatch("[a-z]{3,}", word) for word in words)
    assert not STOP_WORDS & set(words)
    assert {"iterator", "exception", "module"} <= set(words)


@pytest.fixture(scope="module")
def standard_library():
    return docstrings_corpus(packages=())


@pytest.fixture
def small_library(monkeypatch):
    """A part of the standard library, which is quick to read twice."""
    part = {"stdlib": os.path.dirname(asyncio.__file__)}
    monkeypatch.setattr("sysconfig.get_path", part.__getitem__)


def test_docstrings_of_the_standard_library(standard_library):
    corpus = standard_library
    assert corpus.details == {"standard library": len(corpus)}
    assert len(corpus) > 2_000
    assert corpus.vocabulary == language_reference_words()
    assert corpus.counts.sum(axis=1).min() >= 10
    # Files are read one after another, and numbered as they are.
    assert corpus.groups[0] == 0 and set(np.diff(corpus.groups)) == {0, 1}


def test_docstrings_are_read_as_they_stand(tmp_path, monkeypatch):
    package = tmp_path / "madeup_package"
    (package / "tests").mkdir(parents=True)
    body = "iterator exception module " * 4
    (package / "__init__.py").write_text(
        f'"""{body}"""\n'
        "raise SystemExit('imported')\n"
        "if True:\n"
        "    class A:\n"
        f'        """{body} class"""\n'
        "        async def f():\n"
        f'            """{body} function"""\n'
        "        def g():\n"
        f'            """{body} class"""\n'
        "        def h():\n"
        '            """Too few words: iterator exception."""\n'
    )
    (package / "broken.py").write_text('"""' + body)
    (package / "tests" / "a.py").write_text(f'"""{body} tests"""\n')
    (package / "test_a.py").write_text(f'"""{body} tests"""\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "no_library"))
    corpus = docstrings_corpus(packages=("madeup_package", "absent_package"))
    assert "madeup_package" not in sys.modules
    assert corpus.details == {"madeup_package": 3} and corpus.groups.tolist() == [0, 0, 0]
    column = {word: k for k, word in enumerate(corpus.vocabulary)}
    words = [column[word] for word in ("iterator", "class", "function")]
    assert corpus.counts[:, words].toarray().tolist() == [[4, 0, 0], [4, 1, 0], [4, 0, 1]]
    with pytest.raises(ValueError, match="no docstrings found"):
        docstrings_corpus(packages=())


def test_docstrings_are_the_same_each_time_and_capped(small_library):
    whole = docstrings_corpus(packages=())
    capped = docstrings_corpus(max_documents=20, packages=("numpy",))
    assert len(whole) > 50 and len(capped) == 20 and list(capped.details) == ["standard library"]
    again = docstrings_corpus(max_documents=20, packages=())
    assert np.array_equal(capped.counts.toarray(), again.counts.toarray())
    rows = {tuple(row) for row in whole.counts.toarray()}
    assert rows.issuperset(map(tuple, capped.counts.toarray()))


@pytest.mark.parametrize("name", ("min_words", "max_documents"))
def test_docstrings_refuses(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        docstrings_corpus(**{name: 0})


def test_docstrings_leave_the_garbage_collector_as_it_was(small_library):
    enabled = gc.isenabled()
    try:
        for state in (gc.enable, gc.disable):
            state()
            before = gc.isenabled()
            docstrings_corpus(packages=())
            assert gc.isenabled() is before
    finally:
        (gc.enable if enabled else gc.disable)()
