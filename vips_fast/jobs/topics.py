"""Private topics of texts: the short way to a job."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from ..checks import check_number
from ..data import Corpus, Records
from ..data.frames import named_columns
from ..data.vocabulary import count_matrix
from ..models.lda import LatentDirichletAllocation, PublicPrior, load_prior
from ..models.vocabulary import PrivateVocabulary
from . import beside
from .job import Job, Reading
from .text import TextFile, read_settings, reading_file


class Word(NamedTuple):
    """A word of a topic, its probability and an interval for it."""

    word: str
    probability: float
    low: float
    high: float


class TopicRow(NamedTuple):
    """A topic.

    ``number`` counts from 1, ``share`` is of all words, ``from_records`` the part that is not public, ``words`` are its
    first ones.
    """

    number: int
    share: float
    from_records: float
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Texts(TextFile):
    """Texts in memory: ``data`` is a frame or a mapping of columns."""

    data: Any = None

    @property
    def purchases(self) -> bool:
        """Whether the words are purchased: never."""
        return False

    @property
    def _by_prior(self) -> bool:
        return True

    def _read(self, reading: Reading) -> tuple[Corpus, dict[str, str], PrivateVocabulary | None]:
        analyzer, words = self.words_analyzer(), self.public_words() or ()
        records = Records(self.data, self.text or ("text",), self.person, invalid=self.invalid)
        return records.corpus(words, analyzer), reading_file(self.text, analyzer), None


class PrivateTopics:
    """Topics of texts, made with public knowledge of the language.

    The topics may be published. It is a `Job` with `LatentDirichletAllocation` and a public prior. Words and topics are
    public, and the releases tell which of them the records are about. For purchased words or many records use these
    classes.

    Parameters
    ----------
    epsilon, delta : float, float or None
        The guarantee for a person, or for a record if there are no persons; a delta of None is min(1e-5, 1/(10 n)).
    prior : "public:LANGUAGE", path or PublicPrior
        The public topics (`vips_fast.load_prior`).
    vocab_size : int
        Words of the prior that are counted, the commonest first.
    n_records : int or None
        The public number of persons, or of records. None counts them, and takes the number as public.
    invalid : {"raise", "drop"}
        Refuse invalid records, or let them contribute nothing.
    budget : path or None
        The budget of the data set.
    n_jobs, random_state
        As for `LatentDirichletAllocation`.

    Attributes
    ----------
    model_ : LatentDirichletAllocation
        The fitted topic model.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import PublicPrior
    >>> from vips_fast.jobs import PrivateTopics
    >>> words = "cough fever rash ache pain nausea clinic nurse rent salary debt loan wages bank landlord money".split()
    >>> ratios = np.where(np.arange(16) < 8, [[5.0], [0.2]], [[0.2], [5.0]])
    >>> prior = PublicPrior(words, ratios, [1, 1], np.ones(16), "an example")
    >>> notes = {"note": ["cough and fever, rash", "rent and debt"] * 500, "patient": np.arange(1000) // 2}
    >>> found = PrivateTopics(2.0, 1e-6, prior=prior, random_state=0).fit(notes, text="note", person="patient")
    >>> sorted((topic.number, len(topic.words)) for topic in found.topics(3))
    [(1, 3), (2, 3)]
    >>> print(found)
    Found in a release: ...
    >>> found.transform(["fever", "rent"]).shape
    (2, 2)
    """

    def __init__(
        self,
        epsilon: float,
        delta: float | None = None,
        *,
        prior: str | os.PathLike[str] | PublicPrior = "public:en",
        vocab_size: int = 5000,
        n_records: int | None = None,
        invalid: str = "raise",
        budget: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ):
        self.epsilon, self.delta, self.prior, self.vocab_size = epsilon, delta, prior, vocab_size
        self.n_records, self.invalid, self.budget = n_records, invalid, budget
        self.n_jobs, self.random_state = n_jobs, random_state

    def fit(
        self,
        data: Any,
        text: str | Sequence[str] = "text",
        person: str | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit topics to texts, and publish them if ``out`` is given.

        Parameters
        ----------
        data : path, frame, mapping of columns or iterable of str
            CSV, JSON Lines or Parquet; a frame of pandas, polars or pyarrow; or the texts.
        text, person : str or sequence of str, str or None
            Columns of the text, and of the persons' labels; a list of texts has no columns.
        out : path or None
            Folder of the published model, beside which the run folder lies: a fit that was stopped resumes from it.
        resume : bool
            Whether to resume.

        Raises the errors of `Job.run`.
        """
        check_number("vocab_size", self.vocab_size, 16, 10**6, integer=True)
        prior = load_prior(self.prior)
        common: dict[str, Any] = dict(
            text=(text,) if isinstance(text, str) else tuple(text),
            person=person,
            vocab_size=self.vocab_size,
            public_prior=prior,
            invalid=self.invalid,
        )
        model = LatentDirichletAllocation(
            prior.n_topics,
            epsilon=self.epsilon,
            delta=self.delta,
            n_records=self.n_records,
            invalid=self.invalid,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(data, (str, os.PathLike)):
                source = TextFile(os.fspath(data), **common)
            else:
                # A table says the names of its columns; anything else is a list of texts.
                table = data if named_columns(data) else {common["text"][0]: list(data)}
                source = Texts(str(Path(folder) / "records"), data=table, **common)
            place = Path(folder) / "topics" if out is None else Path(out)
            budget = None if self.budget is None else os.fspath(self.budget)
            self.model_ = Job(model, source, place, budget=budget, resume=resume).run().model
        return self

    def topics(self, n_words: int = 10, level: float = 0.9) -> list[TopicRow]:
        """List the topics, the largest first.

        Intervals of the words' probabilities are at a ``level``.
        """
        check_number("n_words", n_words, 1, 10**6, integer=True)
        model, words = self.model_, self.model_.inputs_["vocab.txt"].split("\n")
        totals = model.components_.sum(axis=1)
        best = np.argsort(-model.components_, axis=1, kind="stable")[:, :n_words]
        intervals = model.components_interval(level) / totals[:, None, None]
        rows = []
        for k in np.argsort(-totals, kind="stable").tolist():
            named = tuple(
                Word(words[v], float(model.components_[k, v] / totals[k]), *map(float, intervals[k, v]))
                for v in best[k].tolist()
            )
            rows.append(TopicRow(k + 1, float(totals[k] / totals.sum()), float(model.from_records_[k]), named))
        return rows

    def transform(self, texts: Iterable[str | None]) -> np.ndarray:
        """Compute topic proportions of texts, (n_texts, K).

        They describe these texts, and are not private.
        """
        words = self.model_.inputs_["vocab.txt"].split("\n")[: self.model_.n_features_in_]
        counts = count_matrix([list(texts)], words, read_settings(self.model_)["analyzer"])
        return np.asarray(self.model_.transform(counts))

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about the topics and their privacy."""
        Path(path).write_text(beside.report(self.model_), encoding="utf-8")

    def __str__(self) -> str:
        """The verdict, the topics and the guarantee."""
        verdict, texts = beside.verdict(self.model_), beside.shown(self.model_)
        return "\n\n".join(part for part in (verdict, texts.rstrip(), beside.statement(self.model_).rstrip()) if part)
