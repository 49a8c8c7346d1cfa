"""What of a text its writer did not write."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vips_fast.data import Analyzer, TokenIndex, tokens
from vips_fast.data.own_words import own_words

MAIL = """From: Ann Roe <ann@example.org>
To: Bo Lee <bo@example.org>
Subject: late parcel
Content-Type: text/plain;
 charset="utf-8"

The parcel came late.
{}
It was broken.
"""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "between",
    [
        "",
        "On 3 May 2023 at 10:00 PM Bo Lee\nwrote:\n\n> when did\n>> it\n > come?",
        "Am 3. Mai schrieb Bo:\n> wann?",
        "--\nAnn Roe | Manager\nPhone 123\n",
        "-- \nAnn Roe\n",
        "Sent from my phone",
        "-----Original Message-----\nVon: Bo\nGesendet: Montag\nAn: Ann",
    ],
)
def test_of_an_e_mail_only_the_subject_and_the_writers_words_count(between, ends):
    words = Analyzer()(MAIL.format(between).replace("\n", ends))
    assert words == "late parcel the parcel came late it was broken".split()


@pytest.mark.parametrize(
    "text",
    [
        """<html><style type="text/css">p {color: red}</style><p class="a"\n id='b'>the <br/>parcel<!-- x --></p>""",
        "<SCRIPT>var x = 1 < 2;</script >the<script>y()</script> <o:p></o:p>parcel <ann@example.org>",
        "the par-\n  cel",
        "the par-\r\ncel",
    ],
)
def test_tags_are_no_words_and_broken_words_are_joined(text):
    assert Analyzer()(text) == ["the", "parcel"]


@pytest.mark.parametrize(
    "text",
    [
        "CRP <LOD, then normal; ferritin >500",
        "a <b and c> d, p<0.05 and q>3",
        "Date: today\nPriority: high\nproblem: broken",
        "To: the ward\nDate: today",
        "From: the ward\nthe patient is well",
        "we found:\n- one\n- two",
        ">>> f(1)\n1",
        "plain\n--- part two ---\ntext--dash\n--option",
        "Anglo-\nAmerican, the years 1990-\n95",
        "a <script that never ends",
    ],
)
def test_what_only_looks_like_it_stays(text):
    assert own_words(text) == text


@given(st.lists(st.text("ab :-\t", max_size=9), max_size=6))
def test_lines_without_a_mark_stay(lines):
    text = "\n".join(line + "." for line in lines)
    assert own_words(text) == text


def test_an_index_reads_a_text_of_any_length_as_its_analyzer_does(monkeypatch):
    """A text is cut in parts after it was read as a whole."""
    monkeypatch.setattr(tokens, "_AT_ONCE", 5)
    text = MAIL.format('<a href="x"\ntitle="one two three">link</a>\n> the quoted\n> words') * 3
    ids, _ = (index := TokenIndex())([text])
    assert [list(index.columns)[i] for i in ids] == Analyzer()(text)


BAD = ["<a ", "<script ", "</script><script ", "<a b=", "<a b='", "<!--", "<@", "<a@", "From: a\n", "From: a\n "]
BAD += ["a:\n", "x:y: ", ">\n", "a\n:\n", "--\n", "-----", "a-\n", "wrote:\n", "> \n\n", " \t"]


@pytest.mark.parametrize("bad", BAD)
def test_no_text_takes_more_than_linear_time(bad):
    """A search of quadratic time would take hours."""
    text, began = "\n>\n--\nFrom: \n<" + bad * (400_000 // len(bad)), time.process_time()
    own_words(text)
    assert time.process_time() - began < 20
