"""The short way to a job: its base, and private topics of texts."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ..checks import check_number
from ..data.frames import table_columns
from ..data.records import Records
from ..data.types import Matrix, Texts
from ..data.vocabulary import Vocabulary, count_matrix
from ..engine.statement import Privacy
from ..models.family import VOCABULARY, family_of
from ..models.lda import LatentDirichletAllocation, PublicPrior
from ..report import html_report, part_of
from ..store.atomic import PASSING, replace_text
from . import beside
from .folder import copy_releases, releases_folder, write_model
from .job import Job, Source, Status
from .places import kind_in
from .progress import ProgressLine, is_watched, reading
from .text import TextFile, language_of, read_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


#: The public topics of the texts' language.
PUBLIC_TOPICS = "public"


@dataclass(eq=False, repr=False)
class TextJob(ABC):
    """A job whose records are texts, by the settings of its guarantee."""

    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    n_records: int | None = None
    invalid: str = "raise"
    budget: str | os.PathLike[str] | None = None
    progress: bool | None = None
    n_jobs: int | None = None
    random_state: int | None = None
    model_: Any = field(init=False)
    releases_: Path = field(init=False)

    def fit(
        self,
        data: Texts,
        text: str | Sequence[str] = "text",
        person: str | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit the model to texts, and publish it if ``out`` is given.

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
        columns = tuple(Records(data, text, person).text)
        table: Any = list(data) if isinstance(data, Iterator) and table_columns(data) is None else data
        self.model_ = self._run(*self._job(table, columns, person), out, resume)
        return self

    @abstractmethod
    def _job(self, table: Any, columns: tuple[str, ...], person: str | None) -> tuple[Any, Source]:
        """Make the model, and the source of its records."""

    @property
    def privacy_(self) -> Privacy:
        """The guarantee; ``privacy_.statement()`` says it in words."""
        privacy: Privacy = self._fitted().privacy_
        return privacy

    def _fitted(self) -> Any:
        if (model := vars(self).get("model_")) is None:
            raise ValueError(f"{type(self).__name__} is not fitted yet: call fit first")
        return model

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about the model and its privacy."""
        replace_text(Path(path), html_report(self._fitted()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self.epsilon}, delta={self.delta})"

    def __str__(self) -> str:
        """The verdict, the model and the guarantee."""
        if (model := vars(self).get("model_")) is None:
            return repr(self)
        shown, verdict = beside.shown(model).rstrip(), str(model.verdict_)
        parts = [verdict] * (verdict not in shown) + [shown, beside.statement(model).rstrip()]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _settings(self) -> dict[str, Any]:
        """Give the settings that the model takes, too."""
        return {
            **{name: getattr(self, name) for name in ("epsilon", "delta", "n_records", "n_jobs", "random_state")},
            "options": {"invalid": self.invalid},
        }

    @property
    def _shown(self) -> bool:
        return is_watched() if self.progress is None else self.progress

    def _run(self, model: Any, source: Source, out: str | os.PathLike[str] | None, resume: bool) -> Any:
        """Run the job and return its fitted model.

        Without ``out`` only the releases are kept, in a temporary folder that ends with this object. If a budget or a
        purchase is to be kept, the job has a temporary place, too: it stays if the job fails after it spent something,
        and the error names it. Raises the errors of `Job.run`.
        """
        if resume and out is None:
            raise ValueError("resume=True: expected out= with it, beside which the run is kept")
        own = None if out is not None else Path(tempfile.mkdtemp(prefix="vips_fast-"))
        place = Path(out or "") if own is None else own / "model"
        self.releases_ = releases_folder(place)
        paid = None if self.budget is None else os.fspath(self.budget)
        kept = None if own is not None and paid is None and not source.purchases else place
        if own is not None and kept is None:
            PASSING.add(own)
        job = Job(model, source, kept, budget=paid, transcript=self.releases_, resume=resume)
        job.progress = lambda: ProgressLine("fit") if self._shown else nullcontext()
        try:
            fitted = job.run().model
        except BaseException as error:
            if own is not None and job.status is not Status.PLANNED:
                error.add_note(f"The run is kept: give out={str(job.out)!r} too")
            elif own is not None:
                _remove(own)
            raise
        if own is not None:
            shutil.rmtree(place, ignore_errors=True)  # its model is here
            weakref.finalize(self, _remove, own)
        return fitted


def texts_in(texts: Iterable[str | None]) -> list[str]:
    """List texts, with "" for None; TypeError for one text, or a table."""
    if isinstance(texts, str) or table_columns(texts):
        raise TypeError(f"texts: {type(texts).__name__}; expected a list of texts, or one column of a table")
    return [text or "" for text in texts]


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    PASSING.discard(folder)


class TopicWord(NamedTuple):
    """A word of a topic.

    ``topic`` counts from 1, ``name`` is of its words, and ``share`` is the topic's part of all words. ``lift`` is how
    many times its share of public text the topic has. ``low`` and ``high`` are an interval of the word's probability,
    about the noise. These are NaN for a topic of the records' own.
    """

    topic: int
    share: float
    lift: float
    word: str
    probability: float
    low: float
    high: float
    name: str


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateTopics(TextJob):
    """Topics of texts that may be published.

    It is a `Job` with `LatentDirichletAllocation`. One ledger holds all that it spends, for words and for topics.
    With a public prior, words and topics are public, and the releases tell which of them the records are about.
    Without one, both come from the records. That takes thousands of persons.

    Parameters
    ----------
    epsilon, delta : float or None
        The guarantee for a person, or for a record if there are no persons. An epsilon of None takes all that is left
        of the budget, a delta of None is min(1e-5, 1/(10 n)).
    language : str or None
        The language of the texts, such as "it", for public topics, words to leave out and segmenter. None is that of
        the prior or of public words, and English without one.
    public_prior : "public", "public:LANGUAGE", path, PublicPrior or None
        The public topics (`vips_fast.load_prior`): of the ``language``, of a file, or None for topics that come from
        the records only.
    n_topics : int or None
        Number of topics; None is that of the prior. Without one it has to be given, and `vips_fast.plan` proposes one.
    vocab : "private", "public:LANGUAGE", sequence of str, path or None
        The counted words: purchased with a share of epsilon, the commonest of a language, words or a file of them. None
        takes the words of the prior, or without one "private".
    vocab_size : int or None
        Most words. None is 5,000 of the prior, 8,000 of a language, and planned for "private".
    max_share : float
        A purchase leaves out words that more than this share of the persons use.
    stop_words : "public:LANGUAGE", "none", sequence of str, path or None
        Words to leave out; None is those of the language.
    coarse_words : "public:LANGUAGE", "none", sequence of str, path or None
        Coarse words to leave out, too; None is as for ``stop_words``, and there is a list of English.
    doc_length : int or None
        Words that each text is brought to, a public number; None is the default of `LatentDirichletAllocation`.
    n_records : int or None
        The public number of persons, or of records. None counts them, and takes the number as public.
    invalid : {"raise", "drop"}
        Refuse invalid records, or let them contribute nothing.
    budget : path or None
        The budget of the data set.
    progress : bool or None
        Whether to show progress; None shows it on a terminal and in a notebook.
    n_jobs, random_state
        As for `LatentDirichletAllocation`.

    Attributes
    ----------
    model_ : LatentDirichletAllocation
        The fitted topic model.
    releases_ : Path
        Folder of the releases (noised sums), ``out.releases`` or, until `save`, a temporary one.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import PrivateTopics, PublicPrior
    >>> words = "cough fever rash ache pain nausea clinic nurse rent salary debt loan wages bank landlord money".split()
    >>> ratios = np.where(np.arange(16) < 8, [[5.0], [0.2]], [[0.2], [5.0]])
    >>> prior = PublicPrior(words, ratios, [1, 1], np.ones(16), "an example")
    >>> notes = {"note": ["cough and fever, rash", "rent and debt"] * 500, "patient": np.arange(1000) // 2}
    >>> found = PrivateTopics(2.0, 1e-6, public_prior=prior, random_state=0).fit(notes, text="note", person="patient")
    >>> print(found)
    Verdict: ...
    >>> found.topics(3).columns[0], len(found.transform(["fever", "rent"]))
    ('topic', 2)

    The folder of a fit has its texts and its guarantee, and can be loaded again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found.save(f"{folder}/topics")
    ...     again = PrivateTopics.load(f"{folder}/topics")
    ...     again.report(f"{folder}/page.html")
    >>> again.privacy_ == found.privacy_
    True
    """

    language: str | None = None
    public_prior: str | os.PathLike[str] | PublicPrior | None = PUBLIC_TOPICS
    n_topics: int | None = None
    vocab: Vocabulary | None = None
    vocab_size: int | None = None
    max_share: float = 0.3
    stop_words: Vocabulary | None = None
    coarse_words: Vocabulary | None = None
    doc_length: int | None = None
    model_: LatentDirichletAllocation = field(init=False)

    # ------------------------------------------------------------- fitting

    def _job(self, table: Any, columns: tuple[str, ...], person: str | None) -> tuple[Any, Source]:
        check_number("vocab_size", self.vocab_size, 16, 10**6, integer=True, optional=True)
        if self.epsilon is None and self.budget is None:
            raise ValueError("epsilon=None: expected a number, or budget=, of which the fit takes all that is left")
        names = ("vocab", "vocab_size", "max_share", "stop_words", "coarse_words", "language", "invalid")
        how: dict[str, Any] = {name: getattr(self, name) for name in names}
        prior, n_topics = self.public_prior, self.n_topics
        if isinstance(prior, str) and prior == PUBLIC_TOPICS:
            prior = f"public:{language_of(self.language)}"
        source = TextFile(table, columns, person, public_prior=prior, progress=reading(self._shown), **how)
        if source.prior is not None:
            if n_topics not in (None, source.prior.n_topics):
                raise ValueError(f"n_topics={n_topics}: expected None, or {source.prior.n_topics} as in public_prior")
            n_topics = source.prior.n_topics
        if n_topics is None:
            raise ValueError("n_topics=None: expected a number without public_prior; vips_fast.plan proposes one")
        return LatentDirichletAllocation(n_topics, doc_length=self.doc_length, **self._settings()), source

    # ------------------------------------------------------------ read-outs

    def _words(self) -> list[str]:
        model: LatentDirichletAllocation = self._fitted()
        return model.inputs_[VOCABULARY].split("\n")[: model.n_features_in_]

    def topics(self, n_words: int = 10, level: float = 0.9) -> DataFrame | list[TopicWord]:
        """List the first words of each topic, topics and words in the order that `print` shows.

        Intervals of the words' probabilities are at a ``level``; a topic of the records' own has none. Names join
        words (`vips_fast.report.topic_names`). Returns a frame with the fields of `TopicWord` as columns, or a list of
        `TopicWord` without pandas.
        """
        check_number("n_words", n_words, 1, 10**6, integer=True)
        model, words = self._fitted(), self._words()
        sums = model.components_.sum(axis=1)
        intervals = model.components_interval(level) / sums[:, None, None]
        rows, names = [], part_of(model).names(model)
        scores = model._word_scores()
        for k in model._topic_order()[0].tolist():
            about = k + 1, float(sums[k] / sums.sum()), float("nan" if model.lift_ is None else model.lift_[k])
            for v in np.argsort(-scores[k], kind="stable")[:n_words].tolist():
                low, high = intervals[k, v].tolist()
                rows.append(TopicWord(*about, words[v], float(model.components_[k, v] / sums[k]), low, high, names[k]))
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(rows, columns=list(TopicWord._fields))

    def transform(self, texts: Iterable[str | None]) -> Matrix:
        """Compute topic proportions of texts, (n_texts, K). They describe these texts, and are not private."""
        model: LatentDirichletAllocation = self._fitted()
        counts = count_matrix([texts_in(texts)], self._words(), read_settings(model)["analyzer"])
        return model.transform(counts)

    def plot(self, n_topics: int = 12, n_words: int = 10) -> Figure:
        """Draw the topics that `print` shows, with standard errors.

        A notebook shows the figure; in a script, ``plot().savefig("topics.png")`` writes it. Raises ImportError without
        matplotlib.
        """
        model: LatentDirichletAllocation = self._fitted()
        return model.plot(self._words(), n_words, n_topics)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, its topics and its guarantee to a folder, and its releases beside it.

        Both hold public files only. With ``PATH.releases``, ``vips-fast verify PATH`` makes the model again without the
        data. Raises the errors of `LatentDirichletAllocation.save`.
        """
        write_model(self._fitted(), Path(path))
        copy_releases(self.releases_, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a folder of `save`, or of ``vips-fast fit lda`` with texts.

        Raises ValueError if its model is about other data, and the errors of `LatentDirichletAllocation.load`.
        """
        place = os.fspath(path)
        kind = kind_in(place)
        model: Any = kind.load(place) if family_of(kind).command == "lda" else None
        if model is None or not read_settings(model):
            raise ValueError(f"{path}: a {kind.__name__} without texts; expected a folder of PrivateTopics.save")
        found = cls(
            model.epsilon,
            model.delta,
            public_prior=model.public_prior,
            n_topics=int(model.n_components),
            doc_length=model.doc_length,
            n_records=model.n_records,
        )
        found.model_, found.releases_ = model, releases_folder(place)
        return found
