"""Corpora beside the panel's: texts of people on the net and in offices, and draws of our own.

The files are public data sets that the repository does not have; `VIPS_FAST_OTHERS` is their folder. A person is a row,
if no column names her. Words and public topics are English by default; for German articles they are made from half of
these, which nobody fits.

    python -m bench.panel.text complaints sms --rows bench/panel/others.json
"""

import csv
import html
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from vips_fast.data import load_corpus
from vips_fast.jobs.text import TextFile
from vips_fast.models.lda import PublicPrior, load_prior

from .corpora import PanelCorpus, by_person

DATA = Path(os.environ.get("VIPS_FAST_OTHERS", Path(__file__).resolve().parents[3] / "others"))
#: Tables: the file, and the columns of the text, the person (None: the row) and the label.
TABLES = {
    "complaints": ("airline_tweets.csv", ["text"], "name", "negativereason"),
    "headlines": ("agnews.csv", [1], None, 0),
    "agnews": ("agnews.csv", [1, 2], None, 0),
    "tweets": ("tweets.csv", ["tweet"], None, "class"),
    "sms": ("sms.tsv", [1], None, 0),
    "clickbait": ("clickbait.txt", [0], None, None),
    "titles": ("stackoverflow_titles.txt", [0], None, None),
    "trump": ("trump_tweets.csv", ["text"], None, "source"),
    "trumpdays": ("trump_tweets.csv", ["text"], "created_at", None),
    "medical": ("medical_notes.csv", ["text"], None, "label"),
    "banking": ("banking.csv", ["text"], None, "category"),
    "webkb": ("webkb.txt", [0], None, None),
    "r8": ("r8.tsv", [1], None, 0),
    "subjective": ("subj.all", [1], None, 0),
    "opinions": ("rt-polarity.all", [1], None, 0),
    "products": ("custrev.all", [1], None, 0),
    "questions": ("TREC.train.all", [1], None, 0),
}
GERMAN, DRAWN = "gnad", ("zipf", "unequal")
NAMES = (*TABLES, "movies", "soposts", "clinc", "twolang", GERMAN, *DRAWN)
Row = tuple[str, str, str]


def load(name: str) -> PanelCorpus:
    """Load a corpus; FileNotFoundError without its file."""
    if name in DRAWN:
        return _drawn(name)
    rows, prior = list(_rows(name)), load_prior("public:en")
    if name == GERMAN:
        order = np.random.default_rng(5).permutation(len(rows))
        half = len(rows) // 2
        prior, rows = _german([rows[i][1] for i in order[:half]]), [rows[i] for i in order[half:]]
    persons, texts, labels = zip(*rows, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        file = _written(folder, texts, persons)
        source = TextFile(file, ("text",), "person", public_prior=prior, language=prior.language)
        words = source.public_words() or ()
        analyzer = source.words_analyzer
        corpus = load_corpus(file, words, None, text=("text",), person="person", analyzer=analyzer)
    _, first, person = np.unique(np.asarray(corpus.groups), return_index=True, return_inverse=True)
    counts = by_person(scipy.sparse.csr_matrix(corpus.counts), person)
    return _split(counts, prior.restricted_to(words), np.array(labels)[first])


def _split(counts: scipy.sparse.csr_matrix, prior: PublicPrior, labels: np.ndarray | None) -> PanelCorpus:
    order, unseen = np.random.default_rng(11).permutation(counts.shape[0]), min(3000, counts.shape[0] // 4)
    apart = order[:unseen]
    return PanelCorpus(counts[order[unseen:]], counts[apart], prior, None if labels is None else labels[apart])


def _rows(name: str) -> Iterator[Row]:
    """Read persons, texts and labels."""
    if name in TABLES:
        yield from _table(*TABLES[name])
    elif name == GERMAN:
        yield from _table("gnad_german.csv", [1], None, 0, delimiter=";", quotechar="'")
    elif name == "movies":
        with tarfile.open(DATA / "movie_reviews.tar.gz") as archive:
            for number, member in enumerate(one for one in archive if "/cv" in one.name):
                content = archive.extractfile(member)
                assert content is not None
                yield str(number), content.read().decode("latin-1"), member.name.split("/")[1]
    elif name == "clinc":
        for number, (text, label) in enumerate(json.loads((DATA / "clinc.json").read_text("utf-8"))["train"]):
            yield str(number), text, label
    elif name == "soposts":
        for number, line in enumerate((DATA / "stackoverflow_posts.jsonl").read_text("utf-8").splitlines()):
            post = json.loads(line)
            yield str(number), f"{post['title']}\n{html.unescape(re.sub('<[^>]+>', ' ', post['body']))}", ""
    else:  # as many German texts of 40 words as English ones
        german = [(" ".join(text.split()[:40]), "de") for _, text, _ in _rows(GERMAN)]
        both = german + [(text, "en") for _, text, _ in _rows("agnews")][: len(german)]
        for number in np.random.default_rng(3).permutation(len(both)).tolist():
            yield str(number), *both[number]


def _table(
    name: str, text: list[str] | list[int], person: str | None, label: str | int | None, **how: str
) -> Iterator[Row]:
    csv.field_size_limit(10**9)
    spaced = name.endswith(".all")
    with open(DATA / name, encoding="latin-1" if spaced else "utf-8", newline="") as lines:
        rows: Iterable[dict[Any, str]]
        if isinstance(text[0], str):
            rows = csv.DictReader(lines)
        elif name.endswith("csv"):
            rows = (dict(enumerate(row)) for row in csv.reader(lines, **how))
        else:
            rows = (dict(enumerate(line.rstrip("\n").split(" " if spaced else "\t", 1))) for line in lines)
        for number, row in enumerate(rows):
            if row.get("airline_sentiment", "negative") == "negative":
                who = str(number) if person is None else row[person][: 10 if person == "created_at" else None]
                yield who, "\n".join(row[column] for column in text), "" if label is None else row[label]


def _written(folder: str, texts: tuple[str, ...] | list[str], persons: tuple[str, ...] | None = None) -> str:
    path = Path(folder, "texts.jsonl")
    with path.open("w") as out:
        for number, text in enumerate(texts):
            out.write(json.dumps({"text": text, "person": persons[number] if persons else ""}) + "\n")
    return str(path)


def _german(texts: list[str]) -> PublicPrior:
    with tempfile.TemporaryDirectory() as folder:
        file, out = _written(folder, texts), str(Path(folder, "de.prior"))
        how = ("prior", file, "--text", "text", "--language", "de", "--out", out)
        subprocess.run([sys.executable, "-m", "vips_fast", *how], check=True, capture_output=True)
        return load_prior(out)


def _drawn(name: str) -> PanelCorpus:
    """Words as frequent as English ones are not; or 90 % of persons with 3 words, and 10 % with 300."""
    rng, full, n = np.random.default_rng(17), load_prior("public:en"), 6000
    words = [full.words[v] for v in np.argsort(-full.frequencies)[:5000]]
    prior = full.restricted_to(words)
    if name == "zipf":
        frequencies = 1.0 / (np.arange(len(words)) + 3.0)
        frequencies = frequencies[rng.permutation(len(words))]
        topics = frequencies / frequencies.sum() * np.exp(rng.normal(0, 1.2, (12, len(words))))
        topics /= topics.sum(axis=1, keepdims=True)
        lengths = rng.poisson(25, n)
    else:
        mixed = rng.dirichlet(np.full(prior.n_topics, 0.05), 12) @ prior.topics()
        topics = mixed * np.exp(rng.normal(0, 0.8, (1, len(words))))
        topics /= topics.sum(axis=1, keepdims=True)
        lengths = np.where(rng.random(n) < 0.9, 3, 300)
    shares = rng.dirichlet(np.full(12, 0.15), n) @ topics
    counts = [rng.multinomial(length, share / share.sum()) for length, share in zip(lengths, shares, strict=True)]
    return _split(scipy.sparse.csr_matrix(np.array(counts, dtype=np.int32)), prior, None)
