"""Tokenisation, and the docstrings of this Python."""

import asyncio
import gc
import os
import re
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vips_fast.data import count_texts, docstrings_corpus, words_of
from vips_fast.data.docstrings import STOP_WORDS, language_reference_words


def by_the_rule(text):
    """onlineldavb's parse_doc_list, character by character."""
    text = re.sub(r"[\s-]+", " ", text).lower()
    return [word.encode() for word in re.sub(r"[^a-z ]", "", text).split()]


@given(st.text())
def test_words_of_any_text(text):
    assert words_of(text) == by_the_rule(text)


@given(st.text(alphabet="aZ -\n\t'\x1c\x0b.9_"))
def test_words_of_ascii(text):
    assert words_of(text) == by_the_rule(text)


def test_words_by_example():
    text = "Don't re-do the 3 \u212aELVIN\u00a0caf\u00e9s, n_samples!"
    assert b" ".join(words_of(text)) == b"dont re do the kelvin cafs nsamples"


@given(st.lists(st.lists(st.sampled_from(("red", "green", "blue", "pink")), max_size=9), min_size=1))
def test_counts_are_those_of_a_counter(documents):
    vocabulary = ("blue", "red", "green")
    corpus = count_texts((" ".join(words) for words in documents), vocabulary)
    for row, words in zip(corpus.counts.toarray(), documents, strict=True):
        assert dict(zip(vocabulary, row, strict=True)) == {
            word: Counter(words)[word] for word in vocabulary
        }


def test_vocabulary_words_are_normalised():
    corpus = count_texts(["dont dont none"], ("Don't", "dont", "None", "1987", "vice-president"))
    assert corpus.counts.toarray().tolist() == [[2, 0, 1, 0, 0]]


def test_count_texts_refuses():
    with pytest.raises(TypeError, match="texts must hold strings"):
        count_texts([b"alpha"], ("alpha",))
    with pytest.raises(ValueError, match="texts is empty"):
        count_texts([], ("alpha",))


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


def test_docstrings_of_the_standard_library(standard_library):
    corpus = standard_library
    assert corpus.details == {"standard library": len(corpus)}
    assert len(corpus) > 2_000
    assert corpus.vocabulary == language_reference_words()
    assert corpus.counts.sum(axis=1).min() >= 10


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
    assert corpus.details == {"madeup_package": 3}
    column = {word: k for k, word in enumerate(corpus.vocabulary)}
    words = [column[word] for word in ("iterator", "class", "function")]
    assert corpus.counts[:, words].toarray().tolist() == [[4, 0, 0], [4, 1, 0], [4, 0, 1]]
    with pytest.raises(ValueError, match="no docstrings found"):
        docstrings_corpus(packages=())


def test_docstrings_are_the_same_each_time_and_capped(monkeypatch):
    # A part of the library is quick to read twice.
    part = {"stdlib": os.path.dirname(asyncio.__file__)}
    monkeypatch.setattr("sysconfig.get_path", part.__getitem__)
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


def test_docstrings_leave_the_garbage_collector_as_it_was(monkeypatch):
    part = {"stdlib": os.path.dirname(asyncio.__file__)}
    monkeypatch.setattr("sysconfig.get_path", part.__getitem__)
    enabled = gc.isenabled()
    try:
        for state in (gc.enable, gc.disable):
            state()
            before = gc.isenabled()
            docstrings_corpus(packages=())
            assert gc.isenabled() is before
    finally:
        (gc.enable if enabled else gc.disable)()
