"""Vocabularies purchased from the privacy budget, and the text of a purchase that is published with a model."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack, cast

import numpy as np
from scipy import sparse

from ...accounting import rounded_up
from ...checks import check_choice, check_number
from ...data.tokens import Analyzer, as_analyzer
from ...data.types import Column, Data, Names, Vector
from ...data.vocabulary import PurchasedCounts, count_matrix
from ...engine.backend import Backend
from ...engine.checkpoint import RunFolder
from ...engine.ledger import Ledger
from ...engine.model import Model
from ...engine.plan import Request, RunSchedule, Terms
from ...engine.result import FORMAT, FitResult, Public
from ...engine.sampling import words_of
from ...engine.transcript import Run
from ...store.limits import parse_json
from ...store.words import counted, several
from .. import caveats
from ..estimator import ArraySpec, PrivateEstimator
from ..family import PURCHASE
from ..fit import Fit
from ..parameters import BudgetLike
from .model import LARGEST_DELTA, ThresholdSampler, VocabularyModel, names_of, texts_of
from .planning import MOST_TOKENS, ROUNDS, THRESHOLD_SHARE
from .records import TokenRows

_BATCH = 4096
#: Settings that choose among released tokens; they may change after the purchase.
CHOICE = ("max_share", "stop_words", "max_features")


class Purchase(TypedDict, total=False):
    """Keywords of `PrivateVocabulary.fit`; see `vips_fast.models.parameters.Rows`."""

    groups: Column | None
    unit: str | None
    budget: BudgetLike
    backend: Backend | None
    checkpoint: str | Path | RunFolder | None
    resume: bool


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class PrivateVocabulary(PrivateEstimator):
    """Tokens that enough persons use, with privacy for each person, and counts over them.

    It is scikit-learn's CountVectorizer with privacy for the vocabulary. What `transform` gives describes its texts: it
    is not private.

    `vips_fast.models.vocabulary.model.VocabularyModel` has the mechanism and the proof. Most parameters are common to
    all estimators (`vips_fast.models.estimator.PrivateEstimator`). The guarantee is always about adding or removing one
    person with all texts (sampling "full").

    Parameters
    ----------
    n_rounds : int
        Rounds of the mechanism. Every person takes part in each. ``n_steps`` stays None.
    analyzer : "unicode", Analyzer or callable
        How a text becomes tokens (`vips_fast.data.tokens`); a callable cannot be saved.
    max_tokens : int
        Most distinct tokens that a person contributes, public.
    max_share : float
        Tokens that more than this share of the persons seem to hold are left out.
    stop_words : sequence of str or None
        Public words to leave out.
    max_features : int or None
        Most tokens; larger noised shares come first.
    threshold_delta : float or None
        Probability that a token of only one person is released, a part of ``delta``. None is a quarter of it,
        or a purchase's share of the budget's.

    ``max_share``, ``stop_words`` and ``max_features`` work on released tokens, and cost nothing. Columns are by noised
    share, largest first.

    Attributes
    ----------
    vocabulary_ : dict from token to column
    weights_ : float64 array of shape (n_tokens,)
        Noised sums of the weights of all rounds.
    shares_ : float64 array of shape (n_tokens,)
        Noised shares of the persons that hold each token; ``max_share`` is their bound. Each person weighs
        1/sqrt(tokens). If a person holds more than ``max_tokens``, only the kept ones count.

    Examples
    --------
    A name that only one person uses is not released.

    >>> from vips_fast import PrivateVocabulary
    >>> texts = ["cough and fever"] * 300 + ["cough, says Xenia"]
    >>> purchased = PrivateVocabulary(noise_multiplier=2.0).fit(texts)
    >>> sorted(purchased.vocabulary_), purchased.shares_.shape
    (['and', 'cough', 'fever'], (3,))
    >>> purchased.transform(["fever and fever"])[:, [purchased.vocabulary_["fever"]]].toarray()
    array([[2]], dtype=int32)
    """

    sampling: str = "full"
    n_rounds: int = ROUNDS
    analyzer: str | Analyzer | Callable[[str], Sequence[str]] = "unicode"
    max_tokens: int = MOST_TOKENS
    max_share: float = 1.0
    stop_words: Sequence[str] | None = None
    max_features: int | None = None
    threshold_delta: float | None = None

    def fit(self, X: Iterable[str | None] | TokenRows, y: object = None, **call: Unpack[Purchase]) -> Self:
        """Purchase the vocabulary of some texts.

        X are texts, None for an empty one; only some are in memory at a time. Or X are tokens of texts that were read
        in batches (`vips_fast.models.vocabulary.TokenRows`), by their own analyzer. ``y`` is ignored; other arguments
        are as for every fit (`vips_fast.models.parameters.Rows`). A budget holds several purchases if its first run
        is one (`vips_fast.engine.budget.Budget.create`), and without an ``epsilon`` all of it is spent.

        ``checkpoint`` is a folder to resume a killed run from, with the same texts. Its files, for only your account,
        hold noised sums of tokens that never leave, and the key of the persons' random words: remove it once the
        vocabulary is saved.

        Raises ValueError or TypeError if a parameter or X is unusable, or the run would overspend: nothing has been
        spent then. Warns if no token passed the threshold.
        """
        self._fit(X, **call)
        caveats.purchasers.add(self)
        if not len(self._fitted().arrays["weights"]):
            warnings.warn(
                f"the vocabulary is empty: epsilon = {rounded_up(self.privacy_.epsilon)} is spent, and no token passed "
                f"the threshold; expected a larger epsilon, more {several(self.privacy_.unit)}, or a public vocabulary",
                stacklevel=2,
            )
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = {**self.get_params(), "rows_per_group": self._options.rows_per_group}
        for name, expected in (("private", True), ("sampling", "full"), ("batch_size", None), ("rows_per_group", None)):
            if given[name] != expected:
                raise ValueError(f"{name}={given[name]!r}: expected {expected!r} for a vocabulary")
        check_choice("relation", self._options.relation, (None, "add_remove"))
        check_number("noise_multiplier", self.noise_multiplier, 1, 2.0**17, optional=True)
        if self.n_steps is not None:
            raise ValueError(f"n_steps={self.n_steps!r}: expected None for a vocabulary; give its rounds as n_rounds")
        check_number("n_rounds", self.n_rounds, 1, 100, integer=True)
        check_number("max_tokens", self.max_tokens, 1, 2**20, integer=True)
        check_number("max_share", self.max_share, 0, 1, low_open=True)
        check_number("threshold_delta", self.threshold_delta, 0, LARGEST_DELTA, low_open=True, optional=True)
        check_number("max_features", self.max_features, 1, math.inf, integer=True, optional=True)
        if isinstance(self.stop_words, str):
            raise ValueError(f"stop_words={self.stop_words!r}: expected a sequence of strings")
        as_analyzer(self.analyzer)

    @classmethod
    def _from_settings(cls, settings: Any) -> Self:
        arguments = dict(settings)
        if isinstance(arguments.get("analyzer"), dict):
            arguments["analyzer"] = Analyzer.from_dict(arguments["analyzer"])
        return super()._from_settings(arguments)

    def _read(self, X: Any, y: Any = None) -> Any:
        if not isinstance(X, TokenRows):
            texts: Iterable[str | None] = X
            X = TokenRows(self.analyzer)
            for batch in _batches(texts, self._options.invalid):
                X.extend(batch)
        return X, {"n_features": 1}

    def prepare(
        self,
        X: Data | Iterable[str | None],
        y: Column | None = None,
        *,
        groups: Column | None = None,
        folder: RunFolder | None = None,
        **call: Any,
    ) -> Fit:
        """Plan as `PrivateEstimator.prepare`; limit each person's tokens at random, once."""
        rows, _ = self._read(X)
        stage = super().prepare(rows, groups=groups, folder=folder, **call)
        try:
            state = {} if folder is None else folder.start()
            key = state["key"].tobytes() if "key" in state else stage.randomness.key("tokens", 0)
            sets = rows.sets(groups, self.max_tokens, lambda n: words_of(key, n), self._options.invalid)
            if "sets" in state and state["sets"].tobytes().hex() != sets.digest():
                raise ValueError(f"checkpoint {folder}: holds a run on other texts or persons; expected the same")
        except BaseException:
            stage.close()
            raise
        model: Any = stage.model
        model.learn(sets, b"" if folder is None else key)
        return dataclasses.replace(stage, records=sets)

    def _schedule(self, public: Public, terms: Terms) -> RunSchedule:
        rounds, delta = int(self.n_rounds), terms.threshold_delta
        if delta is None:
            delta = min(THRESHOLD_SHARE * terms.target(public.n_records).delta, LARGEST_DELTA)
        return RunSchedule(ThresholdSampler(public.n_records, rounds, int(self.max_tokens), delta), rounds, rounds)

    def request(self, public: Public, *, folder: RunFolder | None = None, **how: Any) -> Request:
        """Request as `PrivateEstimator.request`; a resumed run retains its delta."""
        request = super().request(public, folder=folder, **how)
        kept = {} if folder is None else folder.settings
        delta = request.terms.threshold_delta or kept.get("threshold_delta")
        return dataclasses.replace(request, terms=dataclasses.replace(request.terms, threshold_delta=delta))

    @property
    def _terms(self) -> Terms:
        return dataclasses.replace(super()._terms, threshold_delta=self.threshold_delta)

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        sampler: Any = (schedule or self._schedule(public, self._terms)).sampler
        return VocabularyModel(sampler)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return {
            "bytes": ArraySpec((-1,), 0, 255, "uint8"),
            "lengths": ArraySpec((-1,), 0),
            "weights": ArraySpec((-1,)),
            "shares": ArraySpec((-1,), 0, 1),
        }

    # ------------------------------------------------------------ read-outs

    def _chosen(self) -> tuple[list[str], np.ndarray]:
        """Select tokens by the settings, with their places in the release."""
        arrays = self._fitted().arrays
        names, shares = names_of(arrays), arrays["shares"]
        stopped = frozenset(self.stop_words or ())
        kept = np.array([i for i, name in enumerate(names) if shares[i] <= self.max_share and name not in stopped], int)
        ranked = kept[np.argsort(-shares[kept], kind="stable")][: self.max_features]
        return [names[i] for i in ranked], ranked

    def purchase_text(self) -> str | None:
        """Write the purchase as a text, which is published with the model over its words.

        The text is the purchase's transcript: settings, public facts and ledger, and the noised sums of every round, of
        released tokens and of the one that everybody holds. Anyone can make the vocabulary again from it, without the
        data (`read_purchase`): weights, shares and the choice of words are functions of these sums, which
        `vips_fast.models.vocabulary.model.VocabularyModel` proves that may be released. It is an input of the model, so
        the model's ledger and signature seal it. Raises ValueError if the analyzer is a callable, which cannot be
        written.
        """
        result = self._fitted()
        said = {
            "format": FORMAT,
            "model": result.kind,
            "n_steps": result.n_steps,
            "public": result.public.to_dict(),
            "settings": dict(result.settings),
            "choice": {name: value for name, value in self._settings().items() if name in CHOICE},
            "ledger": result.ledger.to_dict(),
            "tokens": names_of(result.state),
            "sums": result.state["sums"].tolist(),
        }
        return json.dumps(said, sort_keys=True, allow_nan=False) + "\n"

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Column of each token."""
        return {name: column for column, name in enumerate(self._chosen()[0])}

    @property
    def weights_(self) -> Vector:
        """Noised sum of the weights of each token; (n_tokens,) float64."""
        return np.asarray(self._fitted().arrays["weights"][self._chosen()[1]])

    @property
    def shares_(self) -> Vector:
        """Noised share of the persons that hold each token; (n_tokens,) float64."""
        return np.asarray(self._fitted().arrays["shares"][self._chosen()[1]])

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    def get_feature_names_out(self, input_features: object = None) -> Names:
        """Return the tokens of the columns, an array of objects."""
        return np.array(self._chosen()[0], dtype=object)

    def transform(self, X: Iterable[str | None]) -> sparse.csr_array:
        """Count the tokens in each text: CSR of int32, (n_texts, n_tokens).

        The counts carry the purchase. A later fit to them includes it, as if it were given by ``after=``.
        """
        names = self._chosen()[0]
        if not names:
            raise ValueError("the vocabulary is empty: expected one with tokens; see the warning of fit")
        counts = count_matrix(_batches(X, self._options.invalid), names, self.analyzer)
        return PurchasedCounts.of(counts, self.purchase())

    def fit_transform(self, X: Iterable[str | None], y: object = None, **call: Unpack[Purchase]) -> sparse.csr_array:
        """Run `fit`, then `transform` of the same texts, which are read into memory if they are an iterator."""
        texts = list(X) if isinstance(X, Iterator) else X
        return self.fit(texts, **call).transform(texts)


def _batches(texts: Iterable[str | None], invalid: str) -> Iterator[list[str | None]]:
    """Yield some texts at a time. With ``invalid="drop"``, anything else is an empty text."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValueError(f"X of type {type(texts).__name__}: expected an iterable of texts")
    each = iter(texts)
    while batch := list(islice(each, _BATCH)):
        yield [text if isinstance(text, str) else None for text in batch] if invalid == "drop" else batch


def read_purchase(text: str) -> PrivateVocabulary:
    """Make the `PrivateVocabulary` in a text, which may be anybody's, again from its releases.

    Raises ValueError if the text is malformed, or its plan, ledger, releases and digest do not agree.
    """
    try:
        said = parse_json(text)
        if said["format"] != FORMAT or said["model"] != PrivateVocabulary.__name__:
            raise ValueError("not a vocabulary of this format")
        return _rebuilt(said)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"malformed ({type(error).__name__})"
        raise ValueError(f"{PURCHASE}: not a purchase as it was published: {reason}") from None


def _rebuilt(said: dict[str, Any]) -> PrivateVocabulary:
    ledger, public, settings = Ledger.from_dict(said["ledger"]), Public(**said["public"]), dict(said["settings"])
    tokens, sums = said["tokens"], said["sums"]
    if not all(isinstance(token, str) for token in tokens) or tokens != sorted(set(tokens)):
        raise ValueError("its tokens are not those of a release, each once and by alphabet")
    if not all(type(value) is int for units in sums for value in units):
        raise ValueError("its sums are not whole numbers")
    words = PrivateVocabulary._from_settings(settings)
    planned = words.request(public, taints=ledger.taints).plan()
    plan, model = planned.plan, cast(VocabularyModel, planned.model)
    if [plan.public()] != ledger.plans:
        raise ValueError("its plan is not the one that its settings lead to")
    records = tuple(record for record in ledger.records if record["kind"] != "close")
    run = Run(Path(PURCHASE), said["model"], settings, public, plan.public(), plan.taints, None, 0, False, records)
    run.ledger(Ledger(), plan)
    if not run.done == said["n_steps"] == len(sums):
        raise ValueError(f"it has sums of {counted(len(sums), 'round')}, its ledger {run.done}")
    state = {"sums": np.array(sums, dtype=np.int64).reshape(len(sums), -1), **texts_of(tokens)}
    model.restore(state)
    if not model.passed().all():
        raise ValueError("a token does not pass the threshold of its plan")
    result = FitResult(said["model"], settings, public, run.done, model.result(), model.state(), ledger)
    result.check()
    words._result = result
    return words.set_params(**{name: said["choice"][name] for name in CHOICE})


def check_purchase(
    model: Any, columns: tuple[str, ...] | None, statement: Callable[[Any], Any]
) -> list[tuple[str, bool, str]]:
    """Compare a model's purchase with its ledger and its columns: name, result and detail of each comparison.

    ``statement`` compares the stated epsilon of an estimator with its ledger's.
    """
    text = model.inputs_.get(PURCHASE)
    # An earlier fit that chose no columns has files of its own.
    purchases = [
        plan["purchase"] for plan in model.ledger_.plans if "purchase" in plan and not plan["purchase"].get("fit")
    ]
    if text is None and not purchases:
        return []
    if text is None or len(purchases) != 1:
        said = f"{counted(len(purchases), 'purchase')} in the ledger, {int(text is not None)} published"
        return [(PURCHASE, False, said)]
    try:
        words = read_purchase(text)
    except ValueError as error:
        return [(PURCHASE, False, str(error))]
    stated, names = statement(words), tuple(words.get_feature_names_out())
    said = f"{counted(len(words.ledger_), 'release')}, {counted(len(names), 'word')}, by their noised sums"
    share = f"epsilon = {rounded_up(words.privacy_.epsilon, 6)} of the model's"
    return [
        (PURCHASE, True, said),
        ("epsilon of the vocabulary", stated.ok, stated.detail),
        ("vocabulary in the ledger", words.purchase() == purchases[0], share),
        ("words of the columns", columns is None or columns == names, ""),
    ]
