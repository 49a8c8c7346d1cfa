"""Texts as the source of a job: columns, words, and vocabulary purchase."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..accounting.printing import rounded_up
from ..data import (
    Analyzer,
    Corpus,
    Records,
    ShardedCorpus,
    coarse_words,
    holds_records,
    load_corpus,
    public_vocabulary,
    stop_words,
)
from ..data.frames import reads_once
from ..data.groups import group_codes
from ..data.shards import is_sharded
from ..data.tokens import segmenter_of
from ..data.vocabulary import Vocabulary
from ..engine.budget import BudgetExceededError
from ..engine.checkpoint import RunFolder, UsedUpError, forget_states
from ..engine.result import Public
from ..models.caveats import tell
from ..models.family import PURCHASE, READING, VOCABULARY
from ..models.inputs import column_names, listed
from ..models.lda import Plan, PublicPrior, load_prior, plan
from ..models.lda.prior import commonest_words, language_code
from ..models.parameters import Options
from ..models.vocabulary import PrivateVocabulary, TokenRows
from ..models.vocabulary.estimator import read_purchase
from ..store.limits import parse_json
from ..store.words import several
from .folder import MODEL
from .job import Difference, Material, PurchaseError, Reading

#: What a vocabulary may be instead of a file.
PRIVATE, NONE, PUBLIC = "private", "none", "public:"
#: Words of a public prior that a fit without another vocabulary counts.
_PRIOR_WORDS = 5000


@dataclass(frozen=True)
class TextFile:
    """Texts, counts or shards, and how texts become words.

    Parameters
    ----------
    path : path, frame, mapping of columns or list of str
        CSV, JSON Lines, Parquet, a folder of text files, counts, or shards; or texts in memory.
    text : sequence of str or None
        Columns of the text, joined with a line break; None is "text".
    person : str or None
        Column of the persons.
    vocab, vocab_size, max_share, language, stop_words, coarse_words
        As for `PrivateTopics`. With listed words none is left out unless it is asked for.
    vocab_share : float or None
        Share of epsilon for a purchase; None is planned.
    analyzer, numbers, ngrams
        How texts become words; see `vips_fast.data.Analyzer`. An analyzer of None is the segmenter of the ``language``
        if it has one, and else "unicode".
    format, encoding
        Of the file, if it does not say so itself.
    invalid : {"raise", "drop"}
        Refuse invalid records, or let them contribute nothing.
    public_prior : path, "public:LANGUAGE", PublicPrior or None
        The public prior of `vips_fast.load_prior`, which is restricted to the words. The model needs its number of
        topics.
    progress : callable(str) -> context manager
        Gives a callback for the progress of reading.
    """

    path: Any = field(repr=False)
    text: Sequence[str] | None = None
    person: str | None = None
    vocab: Vocabulary | None = None
    vocab_size: int | None = None
    vocab_share: float | None = None
    max_share: float = 0.3
    language: str | None = None
    analyzer: str | None = None
    stop_words: Vocabulary | None = None
    coarse_words: Vocabulary | None = None
    numbers: str | None = None
    ngrams: int = 1
    format: str | None = None
    encoding: str = "utf-8"
    invalid: str = "raise"
    public_prior: str | os.PathLike[str] | PublicPrior | None = None
    progress: Callable[[str], AbstractContextManager[Any]] = lambda label: nullcontext()

    def __post_init__(self) -> None:
        if isinstance(self.path, os.PathLike):
            object.__setattr__(self, "path", os.fspath(self.path))
        for name in ("vocab", "stop_words", "coarse_words"):
            given = getattr(self, name)
            if isinstance(given, os.PathLike):
                object.__setattr__(self, name, os.fspath(given))
            elif given is not None and not isinstance(given, str):
                try:
                    object.__setattr__(self, name, public_vocabulary(given))
                except (TypeError, ValueError) as error:
                    why = str(error).removeprefix("vocabulary: ")
                    raise type(error)(f"{name}=: {why}; expected words, a file of them or a name") from None
        if self.vocab not in (None, PRIVATE):
            for name in ["vocab_share"] + ["vocab_size"] * (self._words == "listed"):
                if (value := getattr(self, name)) is not None:
                    raise ValueError(f"{name}={value}: leave it out, since vocab= gives the words")
        prior = self.prior  # its file, too
        if prior is not None and self.language and prior.language not in ("", self.language):
            raise ValueError(
                f"language={self.language}: the public topics are of {prior.language!r}; expected the same language"
            )

    @cached_property
    def prior(self) -> PublicPrior | None:
        """The public prior, for all its words."""
        return None if self.public_prior is None else load_prior(self.public_prior)

    @cached_property
    def _words(self) -> str:
        """Where the words are from: "listed" ones, a "public" list, the "prior", a "private" purchase, or "counted"."""
        if self.vocab not in (None, PRIVATE):
            return "public" if isinstance(self.vocab, str) and self.vocab.startswith(PUBLIC) else "listed"
        if is_sharded(self.path) or not holds_records(self.path, self.format, self.text, self.person):
            return "counted"
        return PRIVATE if self.vocab == PRIVATE or self.prior is None else "prior"

    @property
    def sets(self) -> frozenset[str]:
        """The settings that public files make."""
        return frozenset(() if self.public_prior is None else ("public_prior",))

    def unlike(self, model: Any) -> Iterator[Difference]:
        """Compare how a finished model's texts became words."""
        columns = column_names(model._fitted().public)
        if (kept := read_settings(model)) and not is_sharded(self.path):
            yield "text", kept["columns"], list(self.text or ["text"])
            mine, theirs = self.words_analyzer.to_dict(), kept["analyzer"].to_dict()
            yield from ((name, theirs[name], mine[name]) for name in mine)
        purchase = model.inputs_.get(PURCHASE)
        if (words := PRIVATE if self.purchases else self.public_words()) is not None:
            yield "vocab", columns if purchase is None else PRIVATE, words
        if purchase is not None and self.purchases:
            bought = read_purchase(purchase)
            yield "max_share", bought.max_share, self.max_share
            yield "vocab_size", bought.max_features, self.vocab_size or bought.max_features
        # Purchased words may have left a fit without the prior.
        if self.prior is not None and columns is not None and (model.public_prior is not None or purchase is None):
            yield "public_prior", model.public_prior, self.prior.restricted_to(columns)

    @property
    def purchases(self) -> bool:
        """Whether the words are purchased."""
        return self._words == PRIVATE

    @cached_property
    def words_language(self) -> str:
        """The language that decides the words; "" if it is not known, or nothing depends on it."""
        if self.language is not None:
            return language_of(self.language)
        if self._words == "public":
            return str(self.vocab).removeprefix(PUBLIC)
        if self.prior is not None:
            return self.prior.language
        return language_of(None) if self._words == PRIVATE and None in (self.stop_words, self.coarse_words) else ""

    @cached_property
    def words_analyzer(self) -> Analyzer:
        """How texts become words; with a vocabulary file, every word counts."""
        listed, coarse, numbers = self.stop_words, self.coarse_words, self.numbers
        language = self.words_language
        if self._words != "listed":
            usual = f"{PUBLIC}{language}" if language else NONE
            listed, coarse, numbers = listed or usual, coarse or usual, numbers or "mixed"
        left_out = () if listed in (None, NONE) else stop_words(listed)
        left_out += () if coarse in (None, NONE) else coarse_words(coarse)
        words = self.analyzer or segmenter_of(language) or "unicode"
        return Analyzer(words, 1, numbers or "keep", self.ngrams, left_out)

    def public_words(self) -> tuple[str, ...] | None:
        """Load the words of a public vocabulary or prior."""
        if self._words == "prior":
            assert self.prior is not None
            return commonest_words(self.prior, self.words_analyzer, self.vocab_size or _PRIOR_WORDS)
        if self.vocab is None or self.vocab == PRIVATE:
            return None
        analyzer = None if self._words == "listed" else self.words_analyzer
        return public_vocabulary(self.vocab, analyzer, size=self.vocab_size or 8000)

    def read(self, reading: Reading) -> Material:
        """Read the texts, after the purchase of a vocabulary if needed."""
        model, prior = reading.model, self.prior
        if prior is not None and model.n_components != prior.n_topics:
            topics = f"n_components={model.n_components}: expected {prior.n_topics}"
            raise ValueError(f"{topics}, the number of topics of {self.public_prior}")
        corpus, kept, words = self._read(reading)
        columns = corpus.vocabulary
        if prior is not None:
            if columns is None:
                raise ValueError(f"public_prior={self.public_prior}: the columns have no words; expected vocab=")
            try:
                model.set_params(public_prior=prior.restricted_to(columns))
            except ValueError as error:
                if words is None:
                    raise
                warnings.warn(f"{error}. The words are paid for, so the fit continues without this prior", stacklevel=2)
                model.set_params(public_prior=None)
        return Material(
            (getattr(corpus, "counts", corpus),),
            kept if columns is None else {VOCABULARY: listed(columns), **kept},
            corpus.groups,
            words,
        )

    def _read(self, reading: Reading) -> tuple[Corpus | ShardedCorpus, dict[str, str], PrivateVocabulary | None]:
        """Read the documents, describe the reading in a file, and purchase words."""
        if is_sharded(self.path):
            shards = ShardedCorpus(self.path)
            said = shards.text(READING)
            return shards, {} if said is None else {READING: said}, None
        raw = holds_records(self.path, self.format, self.text, self.person)
        words, after, analyzer = self.public_words(), None, self.words_analyzer if raw else None
        if analyzer is not None and words is not None and self._words == "listed":
            _check_words(words, analyzer, self.vocab if isinstance(self.vocab, str) else "")
        if analyzer is not None and words is None:
            purchase = _Purchase(self, reading, analyzer)
            with self.progress("read for the vocabulary") as line:
                after = purchase.words(self.records(line))
            words = tuple(after.get_feature_names_out())
            if (counted := purchase.corpus(words)) is not None:
                return counted, reading_file(self.text, analyzer), after
        with self.progress("read") as line:
            corpus = load_corpus(
                self.path,
                words,
                self.format,
                text=self.text,
                person=self.person,
                analyzer=analyzer,
                encoding=self.encoding,
                invalid=self.invalid,
                progress=line,
            )
        return corpus, {} if analyzer is None else reading_file(self.text, analyzer), after

    def records(self, progress: Callable[[int, int], None] | None = None) -> Records:
        """Open the texts."""
        columns = self.text or ("text",), self.person
        return Records(self.path, *columns, self.format, self.encoding, self.invalid, progress)


def language_of(language: str | None) -> str:
    """Return the code of a language, English by default: a fit says which it read, its verdict if it was another."""
    return "en" if language is None else language_code(language)


def _check_words(words: Sequence[str], analyzer: Analyzer, name: str) -> None:
    """Refuse a vocabulary with entries that no text can have, as the analyzer reads texts."""
    lost = [(word, read) for word in words if word not in (read := analyzer(word))]
    if lost:
        shown = "; ".join(f"{word!r} is read as {' + '.join(map(repr, read)) or 'nothing'}" for word, read in lost[:5])
        raise ValueError(
            f"vocab={name}: {len(lost)} of {len(words)} entries can never be counted: {shown}; expected words as texts "
            "are read"
        )


def reading_file(text: Sequence[str] | None, analyzer: Analyzer) -> dict[str, str]:
    """Write the file that describes how texts were read, by its name."""
    said = {"columns": list(text or ["text"]), "analyzer": analyzer.to_dict()}
    return {READING: json.dumps(said, ensure_ascii=False, indent=1) + "\n"}


class _Purchase:
    """Vocabulary purchase of a job, for a share of the epsilon.

    The share is of the fit's epsilon or, without one, of the budget's rest. The run folder keeps the purchase, so a
    job purchases once: a later attempt uses the released words, and reads the texts again to count them. The attempt
    that purchases counts them from their tokens' numbers.
    """

    _rows: TokenRows | None = None

    def __init__(self, source: TextFile, reading: Reading, analyzer: Analyzer) -> None:
        self._source, self._reading, self._analyzer = source, reading, analyzer
        assert reading.folder is not None  # a job that purchases has one
        self._model, self._budget, self._folder = reading.model, reading.budget, reading.folder
        self._delta = self._model.delta
        if self._delta is None and self._budget is not None:
            self._delta = self._budget.delta

    def words(self, records: Records) -> PrivateVocabulary:
        """Purchase the words, or take those that the run folder keeps.

        Raises ValueError, before anything is spent, if the fit itself would be refused or a kept purchase has other
        settings. Raises PurchaseError if no word was released.
        """
        path, model = self._source.path, self._model
        if reads_once(path):
            what = "-: standard input" if isinstance(path, str) else "records: a stream"
            raise ValueError(f"{what} can be read once only; expected a file or a query, or a public vocabulary")
        if model.epsilon is None and (self._budget is None or model.noise_multiplier or not model.private):
            raise ValueError(
                "vocab='private': expected epsilon=, or only budget=, of which it takes a share, or a public vocabulary"
            )
        place = self._folder.words / MODEL
        if place.exists():
            words = PrivateVocabulary.load(place)
            words = self._again(words, words.privacy_.n_records)
        else:
            try:
                with RunFolder(self._folder.words, resume=True) as run:
                    words = self._purchased(records, run)
            except UsedUpError:
                why = "the releases of the vocabulary purchase were lost, and its target pays for no further one"
                raise UsedUpError(f"{self._folder.words}: {why}; give up this run, and start another") from None
        # The analyzer drops stop words before anything is released, so they are never among these.
        released = copy(words).set_params(max_share=1.0, max_features=None).shares_
        if not len(released):
            self._folder.forget_words()
        elif not place.exists():
            words.save(place)
        forget_states(self._folder.words)
        if not len(words.get_feature_names_out()):
            raise PurchaseError(self._nothing(words, released))
        if not self._folder.keep_columns(words.get_feature_names_out()):
            why = "gives other words than the topics that resume=True continues"
            raise ValueError(f"max_share={self._source.max_share:g}: {why}")
        return words

    def corpus(self, words: tuple[str, ...]) -> Corpus | None:
        """Count the words in the texts that this attempt read, if any."""
        if (rows := self._rows) is None:
            return None
        self._rows = None
        groups = None if self._source.person is None else self._persons
        return Corpus(rows.counts(words), words, self._source.records().name, groups=groups)

    def _plan(self, n_records: int, epsilon: float | None) -> Plan:
        return plan(
            n_records,
            None,
            self._model.n_components,
            doc_length=self._model.doc_length,
            epsilon=epsilon,
            delta=self._delta,
            vocab_share=self._source.vocab_share,
            options=self._model.options,
        )

    def _settings(self, planned: Plan | None) -> dict[str, Any]:
        """Return the settings of the purchase; without a plan, those that are not planned."""
        settings = {
            "analyzer": self._analyzer,
            "n_records": self._model.n_records,
            "options": Options(invalid=self._source.invalid),
            "max_share": self._source.max_share,
            "delta": self._delta,
        }
        if planned is not None:
            assert planned.vocabulary is not None
            settings |= planned.vocabulary.parameters()
            if self._source.vocab_size is not None:
                settings["max_features"] = self._source.vocab_size
        return settings

    def _again(self, words: PrivateVocabulary, n_records: int) -> PrivateVocabulary:
        """Compare the settings of a stored purchase; update its free choices."""
        # A resumed fit may have a larger target than the one that this was planned for.
        epsilon = self._folder.settings.get("epsilon", self._model.epsilon)
        # The budget no longer knows its rest before the purchase.
        wanted = self._settings(self._plan(n_records, epsilon) if self._model.epsilon is not None else None)
        # Processing of released words is free.
        words.set_params(**{name: wanted[name] for name in ("max_share", "max_features") if name in wanted})
        if words.get_params() != {**words.get_params(), **wanted}:
            raise ValueError(f"{self._folder.words}: purchased with other settings; expected the same with resume=True")
        return words

    def _purchased(self, records: Records, run: RunFolder) -> PrivateVocabulary:
        """Purchase the words, or resume their purchase."""
        reading, model, budget = self._reading, self._model, self._budget
        rows, codes = TokenRows(self._analyzer), list[int]()
        for texts, persons in records.batches():
            rows.extend(texts)
            codes += range(len(codes), rows.n_rows) if persons is None else persons
        self._rows, self._persons = rows, np.array(codes, np.int64)
        whose: dict[str, Any] = {}
        if self._source.person is not None or reading.groups is not None:
            groups = codes if reading.groups is None else reading.groups
            codes = group_codes(groups, rows.n_rows, self._source.invalid).tolist()
            whose = {"groups": groups, "unit": reading.unit}
        n_records = model.n_records or max(1, len(set(codes)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty vocabulary is an error here
            if run.begun:
                made = self._again(PrivateVocabulary._from_settings(run.settings), n_records)
            else:
                if budget is not None:
                    _ = budget.purchase_delta  # refuses a purchase that the budget has no delta for
                epsilon = budget.left if model.epsilon is None and budget is not None else model.epsilon
                assert epsilon is not None  # `words` refuses neither
                planned = self._plan(n_records, epsilon)
                made = PrivateVocabulary(**self._settings(planned))
                self._check_both(made, n_records, epsilon)
                if planned.hopeless:
                    tell(planned.run_forecast(), reading.on_forecast, 4)
            made.set_params(n_jobs=model.n_jobs)
            try:
                return made.fit(rows, budget=budget, backend=reading.backend, checkpoint=run, **whose)
            finally:
                if run.drawn:
                    reading.on_spent()

    def _check_both(self, made: PrivateVocabulary, n_records: int, epsilon: float) -> None:
        """Refuse a purchase beyond the budget, or without a fit."""
        reading, relation = self._reading, "add_remove"
        public = Public(1, n_records, seed=0, unit=reading.unit)
        try:
            event = made.request(public).cost(self._budget)
            assert event is not None
            # Topics over fewer words may have more steps.
            for size in (made.max_features or 1, 1):
                public = Public(size, n_records, seed=0, unit=reading.unit)
                relation = self._model.request(public).check_after(self._budget, event)
        except BudgetExceededError as refused:
            less = "less, or only budget=: words and topics then share what is left"
            why = f"epsilon={rounded_up(epsilon)}: {refused}, with the words reserved before the topics"
            raise BudgetExceededError(f"{why}; nothing was spent; expected {less}") from None
        if relation != "add_remove":
            raise ValueError(f"vocab='private': about add_remove, the fit {relation}; expected a public vocabulary")

    def _nothing(self, words: PrivateVocabulary, released: np.ndarray) -> str:
        """Explain why there are no words, and how to get some; ``released`` are the shares of those left out."""
        budget = self._budget
        figure = words.privacy_.epsilon if budget is None else budget.spent
        spent = f"epsilon = {rounded_up(figure, 3)}{'' if budget is None else f' of {budget.path}'} is spent"
        if len(released):
            least = math.ceil(100 * released.min()) / 100
            more = f"expected at least max_share={least:g}, the share of the rarest, with resume=True, at no cost"
            share = f"max_share={self._source.max_share:g}"
            return f"{share}: leaves out all {len(released)} released words; {spent}; {more}"
        more = f"a larger epsilon, more {several(words.privacy_.unit)}, or a public vocabulary"
        return f"vocab='private': no word can be released; {spent}; expected {more}"


def read_settings(model: Any) -> dict[str, Any]:
    """Read "columns" and "analyzer" of a fitted model, if any."""
    if (text := model.inputs_.get(READING)) is None:
        return {}
    try:
        kept = parse_json(text)
        return {"columns": list(kept["columns"]), "analyzer": Analyzer.from_dict(kept["analyzer"])}
    except (ValueError, LookupError, TypeError):
        raise ValueError(f"{READING}: not as fit wrote it") from None
