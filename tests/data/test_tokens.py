"""Tokens: Unicode words, their numbers and counts."""

import json
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
import unicodedata
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from vips_fast.data import Analyzer, TokenIndex, coarse_words, count_matrix, public_vocabulary, stop_words, tokens
from vips_fast.data.own_words import own_words


@pytest.mark.parametrize(
    "text, words",
    [
        ("T4, t3; B12 (b6)!", "t4 t3 b12 b6"),
        ("M\u00fcller STRASSE Stra\u00dfe", "m\u00fcller strasse strasse"),
        ("\u041c\u0418\u0420, \u0438!", "\u043c\u0438\u0440 \u0438"),
        ("\u6771\u4eac\u30bf\u30ef\u30fc\u306b\u884c\u304f", "\u6771 \u4eac \u30bf\u30ef\u30fc \u306b \u884c \u304f"),
        ("\uff76\uff9e\uff77 \uff21\uff22", "\u30ac\u30ad ab"),  # half and full width
        ("\u092e\u0947\u0902, \u0939\u093f\u0928", "\u092e\u0947\u0902 \u0939\u093f\u0928"),
        ("\u0e27\u0e31\u0e19\u0e14\u0e35", "\u0e27\u0e31 \u0e19 \u0e14\u0e35"),  # Thai: letters with their marks
        ("\ud55c\uad6d\uc5b4 \uae00", "\ud55c\uad6d\uc5b4 \uae00"),
        ("cafe\u0301 caf\u00e9", "caf\u00e9 caf\u00e9"),
        ("Don\u2019t 'quote' O'Neill's ''", "don't quote o'neill's"),
        ("L\u2019eau d'\u00e9t\u00e9, qu'il, aujourd'hui; dell'acqua", "eau \u00e9t\u00e9 il aujourd'hui acqua"),
        ("n_samples 3.14 e.g. vice-president l\u00b7l", "n samples 3 14 e g vice president l\u00b7l"),
        ("co\u00adoperate \ufb01ne\u00a0\u00bd", "cooperate fine 1 2"),
        ("\ud800a\udfff \u0301 \U0001f600", "a"),  # halves of surrogates, a lone mark, a picture
    ],
)
def test_unicode_words(text, words):
    assert Analyzer()(text) == words.split()


ALONE = tokens._ALONE


def slow_words(text):
    """Letter by letter. A run of letters, digits and marks after the first; apostrophes between two; or just one."""
    words = []
    for piece in re.split("[\0-&(-/:-@[-`{-\x7f]+", text.encode("utf-8", "replace").decode()):
        piece = re.sub("(\u0301{30})\u0301+", r"\1", piece.replace("\u00ad", ""))
        folded = unicodedata.normalize("NFKC", piece).casefold()
        joint, alone, open_ = "", False, False
        for c in unicodedata.normalize("NFKC", folded).replace("\u2019", "'"):
            mark = unicodedata.category(c)[0] == "M"
            if (mark and (open_ or alone)) or (c in "\u200c\u200d" and open_):
                words[-1] += c
            elif c.isalnum() and re.match(f"[{ALONE}]", c):
                words.append(c)
                joint, alone, open_ = "", True, False
            elif c.isalnum():
                if open_ or joint:
                    words[-1] += joint + c
                else:
                    words.append(c)
                joint, alone, open_ = "", False, True
            else:
                joint = c if c in "'\u00b7" and open_ else ""
                alone = open_ = False
    return words


STRANGE = "aZk9' \u2019\u00b7\u0301\u200d\u6771\u0e01\u0e31\u00ad\u00df_.\ufb01\u212a\ud800\u01c5\0\n"
SOME_TEXTS = st.lists(st.one_of(st.text(), st.text(STRANGE, max_size=40), st.none()), max_size=6)


@given(SOME_TEXTS, st.sampled_from((1, 7, 1 << 16)), st.sampled_from((0, 3, 1 << 18)))
def test_numbers_are_those_of_words_made_letter_by_letter(texts, at_once, remembered):
    """However a text is cut. It does not matter either which parts were seen before or forgotten."""
    expected = [slow_words(own_words(text or "")) for text in texts]
    columns = {word: k for k, word in enumerate(dict.fromkeys(word for each in expected[::2] for word in each))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_AT_ONCE", at_once)
        patch.setattr(tokens, "_REMEMBERED", remembered)
        free, fixed = TokenIndex(), TokenIndex(None, columns)
        for _ in range(2):
            for index, known in ((free, free.columns), (fixed, columns)):
                ids, indptr = index(texts)
                names = list(index.columns)
                found = [[names[i] for i in ids[a:b]] for a, b in zip(indptr, indptr[1:])]
                assert found == [[word for word in each if word in known] for each in expected]
    assert list(free.columns) == list(dict.fromkeys(word for each in expected for word in each))


@given(st.text())
def test_words_are_normal_and_stay_what_they_are(text):
    for word in Analyzer()(text):
        assert word == unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
        assert Analyzer()(word) == [word]
        assert any(character.isalnum() for character in word)


@pytest.mark.parametrize("marks", ["\u0301", "\u0301\u0323", "\u0344", "\uff9e", "\u0f73\u0345"])
def test_long_runs_of_marks_are_cut(marks):
    """Before sorting, which takes the square of the time, and after it, as one may become two."""
    true, longest = unicodedata.normalize, []

    def normalize(form, text):
        longest.append(len(text))
        return true(form, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens.unicodedata, "normalize", normalize)
        words = Analyzer()("x" + marks * 5000 + "y q" + marks[0])
    assert max(longest) <= 64
    assert len(words[0]) <= 64 and [Analyzer()(word) for word in words] == [[w] for w in words]


def test_settings():
    text = "The B12 of 2024 is the x"
    assert Analyzer(numbers="mixed")(text) == "the b12 of is the x".split()
    assert Analyzer(numbers="drop", min_length=2)(text) == "the of is the".split()
    some = Analyzer(stop_words=("THE", "of", "is"), ngrams=3)
    assert some(text) == ["b12", "2024", "x", "b12 2024", "2024 x", "b12 2024 x"]
    assert Analyzer.from_dict(some.to_dict()) == some and some.stop_words == ("is", "of", "the")


@pytest.mark.parametrize(
    "change", [{"words": "ascii"}, {"min_length": 0}, {"numbers": "some"}, {"ngrams": 4}, {"stop_words": "the"}]
)
def test_settings_are_refused_by_name(change):
    with pytest.raises(ValueError, match=f"^{next(iter(change))}"):
        Analyzer(**change)


WORDS = ("blue", "red", "don't", "m\u00fcller", "b12", "\u6771", "\u4eac")
TEXTS = st.lists(st.lists(st.sampled_from((*WORDS, "pink", "\u6771\u4eac", "Red,", "x-blue")), max_size=9), min_size=1)


@given(TEXTS, st.sampled_from((1, 2)))
def test_counts_are_those_of_a_counter(texts, ngrams):
    """However the texts come in batches. Whether pieces are remembered or not."""
    analyzer, texts = Analyzer(ngrams=ngrams), [" ".join(words) for words in texts]
    vocabulary = (*WORDS, "red blue")
    expected = [[Counter(analyzer(text))[word] for word in vocabulary] for text in texts]
    for batches in ([texts], [[text] for text in texts]):
        counts = count_matrix(batches, vocabulary, analyzer)
        assert counts.toarray().tolist() == expected and counts.has_canonical_format


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("vips_fast.data.tokens._REMEMBERED", 5)
    index = TokenIndex()
    for k in range(50):
        ids, _ = index([f"a'b c'{k} d'{k}'' \u6771\u4eac{k}" for k in range(k, k + 3)])
        assert len(ids) == 3 * 6 and index._pieces.n == len(index._codes) <= 5 + 3 * 4


def test_a_vocabulary_of_more_words_than_are_remembered_is_learned_once(monkeypatch):
    monkeypatch.setattr("vips_fast.data.tokens._REMEMBERED", 5)
    forgotten, true = [], TokenIndex._forget
    monkeypatch.setattr(TokenIndex, "_forget", lambda self: (forgotten.append(0), true(self)))
    index = TokenIndex(None, {f"word{k}": k for k in range(200)})
    for _ in range(9):
        assert index(["word7 word8 other"])[0].tolist() == [7, 8]
    assert len(forgotten) == 1
    for k in range(9):
        index([f"other{k} other{k}a"])
    assert 2 <= len(forgotten) <= 4  # new ones are bounded still


def test_pieces_are_hashed_by_siphash_with_a_seed_of_their_own(monkeypatch):
    """Python's own hash of bytes is SipHash-1-3, whose key PYTHONHASHSEED=0 makes zero."""
    if sys.hash_info.algorithm != "siphash13":
        # Built with another hash, Python is no second implementation to compare with.
        pytest.skip("this Python hashes by another function")
    words = [b"abcdefghijklmnopqrst"[:k] for k in range(1, 21)]
    program = f"print(*(hash(word) % 2**64 >> 32 for word in {words}))"
    run = partial(subprocess.run, capture_output=True, text=True, check=True)
    expected = run([sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": "0"}).stdout

    def tags():
        pieces = tokens._Pieces()
        assert pieces(b"\xff".join(words))[0].tolist() == list(range(20))
        return {int(slot & 0xFFFFFFFF) - 1: int(slot >> 32) for slot in pieces._slots.tolist() if slot}

    assert len({tuple(sorted(tags().items())) for _ in range(3)}) == 3
    monkeypatch.setattr(tokens.os, "urandom", bytes)
    assert [tag for _, tag in sorted(tags().items())] == list(map(int, expected.split()))


def test_counts_take_little_more_memory_than_their_matrix():
    vocabulary, peaks = [f"word{k}" for k in range(200)], []
    for n in (20, 120):
        tracemalloc.start()
        matrix = count_matrix(([" ".join(vocabulary)] * 50 for _ in range(n)), vocabulary)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert matrix.nnz == 50 * 200 * n and matrix.data.nbytes == matrix.indices.nbytes == 4 * matrix.nnz
    # Of 8 MB more of text, 8 bytes for each different word of each, and a sixteenth to grow into.
    assert peaks[1] - peaks[0] < 9 * 100 * 50 * 200


def test_vocabulary_words_are_normalized():
    counts = count_matrix([["don't don't none"]], ("DON'T", "don\u2019t", "None", "1987", "vice-president"))
    assert counts.toarray().tolist() == [[2, 0, 1, 0, 0]]
    counts = count_matrix([["New York new"]], ("NEW", "New-York", "new york city"), Analyzer(ngrams=2))
    assert counts.toarray().tolist() == [[2, 1, 0]]


def test_any_function_is_an_analyzer():
    texts = ["Red red, blue!", "blue_green BLUE"]
    vectorizer = CountVectorizer(ngram_range=(1, 2)).fit(texts)
    counts = count_matrix([texts], vectorizer.get_feature_names_out(), vectorizer.build_analyzer())
    assert np.array_equal(counts.toarray(), vectorizer.transform(texts).toarray())
    for wrong in (3, "ascii"):
        with pytest.raises(ValueError, match="^analyzer"):
            count_matrix([texts], ("red",), wrong)


def test_count_matrix_refuses():
    for batches, words, message in [
        ([[b"alpha"]], ("alpha",), "texts must hold strings"),
        (["alpha"], ("alpha",), "texts must hold strings"),
        ([], ("alpha",), "texts is empty"),
        ([["a"]], ("!", "a b"), "no word that the analyzer can find"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            count_matrix(batches, words)


def test_public_words():
    listed = stop_words("public:en")
    assert {"the", "and", "don't"} <= set(listed)
    # Addresses and HTML are of no language; the list of what makes no topic has other words, by which priors are known.
    assert all({"http", "com", "amp"} <= set(stop_words(f"public:{language}")) for language in ("en", "de"))
    assert "amp" not in stop_words("public:en", whole=True)
    analyzer = Analyzer(stop_words=listed, numbers="drop")
    words = public_vocabulary("public:en", analyzer, size=500)
    assert len(set(words)) == 500 and not {"the", "and", "2"} & set(words) and "time" in words
    assert all(analyzer(word) == [word] for word in words)
    assert "zeit" in public_vocabulary("public:de", size=500)
    for call in (public_vocabulary, stop_words):
        with pytest.raises(ValueError, match="^public:tlh: the package .* of this language$"):
            call("public:tlh")


def test_coarse_words(tmp_path):
    """A list of English leaves each word out in the form that a text has it."""
    listed = coarse_words("public:en")
    analyzer = Analyzer(stop_words=listed)
    assert analyzer.stop_words == listed and {"shit", "fucking"} <= set(listed)
    # Words of clinical notes, of names and of other senses stay.
    assert not {"anus", "breast", "penis", "rape", "rectum", "sex", "sexual", "stool", "vagina", "prick"} & set(listed)
    assert coarse_words("public:de") == ()
    (tmp_path / "own.txt").write_text("golly\n")
    assert coarse_words(tmp_path / "own.txt") == ("golly",)


@pytest.mark.parametrize(
    "words, text, expected",
    [
        ("jieba", "我来到北京清华大学。B12 low", ["我", "来到", "北京", "清华大学", "b12", "low"]),
        ("sudachi", "東京でコーヒーを飲む。", ["東京", "で", "コーヒー", "を", "飲む"]),
        ("pythainlp", "ผมรักประเทศไทย", ["ผม", "รัก", "ประเทศ", "ไทย"]),
    ],
)
def test_segmenters_make_words_where_there_are_no_spaces(words, text, expected):
    analyzer = Analyzer(words)
    assert analyzer(text) == expected
    again = Analyzer.from_dict(json.loads(json.dumps(analyzer.to_dict())))
    assert again == analyzer == pickle.loads(pickle.dumps(analyzer)) and again(text) == expected
    # One text decides about its own words only, however long it is.
    long = expected[0] * 20_000
    index = TokenIndex(analyzer)
    ids, ends = index([text, long, text])
    assert ids[: ends[1]].tolist() == ids[ends[2] :].tolist() and len(ids) > 5000


def test_a_segmenter_that_fails_gives_no_words(monkeypatch):
    monkeypatch.setattr(tokens, "_jieba", lambda: lambda text: 1 / ("北" not in text) and list(text))
    tokens.load_segmenter.cache_clear()
    assert Analyzer("jieba")("清华 北京 low") == ["清", "华", "low"]
    tokens.load_segmenter.cache_clear()


def test_words_outside_are_each_texts_own():
    counts = count_matrix(
        [["red blue the", "blue"], [None, "red red pink grey"]], ["red"], Analyzer(stop_words=["the"])
    )
    assert counts.toarray().tolist() == [[1], [0], [0], [2]] and counts.outside.tolist() == [1, 1, 0, 2]


def test_a_mapping_has_its_words_by_their_columns():
    assert public_vocabulary({"red": 0, "blue": 1}) == ("red", "blue")
