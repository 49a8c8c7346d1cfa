"""Membership attacks on topic models, from the published topics.

The likelihood-ratio attack (Carlini et al. 2022, "Membership inference attacks from first principles"). It has the form
of Manzonelli, Zhang & Vadhan 2024 ("Membership inference attacks and privacy in topic modeling"). The attacker knows
the document x, draws corpora of the same kind, and fits *shadow models* to them. Each has a fair coin of its own for
every document. The statistic of a document and a model is the log-likelihood of the document under the model's topics,
its proportions fitted to it ("folded in"). Over the shadow models it has one normal law if x was in and another if x
was out. The log ratio of the two densities at the target's statistic is the score.

Here every shadow model is the target once, with the laws of all others (leave one out). So S models and D documents
give S D attacks.

**Success that a claim allows.** The scores of one document under two models are functions of published numbers, and of
coins and noise that the target did not take part in. Given the coins of all other documents, the target's corpora with
and without x are neighbors under adding or removing one record. So by the claim's trade-off curve F, P(score > t |
in) <= F(P(score > t | out)) for each document and each outcome of the other coins. F is concave: the inequality holds
for the means over documents and coins, which are the rates that are measured here. A measured rate beyond F refutes the
claim; one below it shows how much this attack attains, not how much the best one would.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vips_fast.accounting import PrivacyEvent, Relation, true_positive_rate
from vips_fast.audit.statistics import clopper_pearson
from vips_fast.checks import check_array, check_number
from vips_fast.data.counts import documents
from vips_fast.engine.sampling import run_event
from vips_fast.models.family import family_of
from vips_fast.models.lda import LatentDirichletAllocation

#: Below this number of shadow models the laws of a document share one variance (Carlini et al. 2022, section VI-B).
COMMON_VARIANCE = 64
#: False-positive rates that are reported.
RATES = (0.001, 0.01)
#: Error of each end of the reported intervals.
INTERVAL_ERROR = 0.025
#: Error of the bound that a claim has to pass.
REFUTATION_ERROR = 1e-5
#: Entries of documents that are looked at together: few enough for a cache.
_PIECE = 16_384


@dataclass(frozen=True)
class ShadowModels:
    """Statistics of documents under shadow models.

    ``statistics``, float32 (S, D), are log-likelihoods in nats; ``members``, bool (S, D), say which documents each
    model was fitted to. ``seconds`` is the processor time of the fits and of the folding in.
    """

    statistics: np.ndarray
    members: np.ndarray
    seconds: float = 0.0


def log_likelihoods(model: LatentDirichletAllocation, X: Any) -> np.ndarray:
    """Compute ln p(x | topics, proportions of x), in nats: float64 (D,).

    The topics are the means of their Dirichlet distributions, and `transform` gives the proportions. Manzonelli, Zhang
    & Vadhan 2024 take the proportions that maximize the likelihood, which are near.
    """
    corpus = documents(X, model.n_features_in_, expected_by="log_likelihoods")
    # Word-major, so that the entries of a document are gathered row by row.
    topics = np.ascontiguousarray((model.components_ / model.components_.sum(axis=1, keepdims=True)).T)
    proportions, indptr = model.transform(X), np.asarray(corpus.indptr, dtype=np.int64)
    lengths, entries = np.diff(indptr), np.empty(len(corpus.indices))
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    for first in range(0, len(entries), _PIECE):
        part = slice(first, first + _PIECE)
        words = np.einsum("nk,nk->n", proportions[row_of[part]], topics[corpus.indices[part]])
        entries[part] = corpus.data[part] * np.log(np.maximum(words, np.finfo(np.float64).tiny))
    return np.bincount(row_of, entries, minlength=len(lengths))


class ShadowFits:
    """Shadow models of one estimator and corpus, a few at once.

    Parameters
    ----------
    estimator : LatentDirichletAllocation
        Unfitted. What it would choose by itself (noise, steps) is chosen once, for half of the documents.
    X : sparse matrix or array of counts, (D, V)
        Documents that may be known: the result is about them, and is not private.
    random_state : int
        Seeds the coins. Model number i has the same coins whatever was made before. Noise takes no seed.

    ``event`` is the event of one fit's claim; None without privacy. All models have the same public start. Raises
    TypeError if the estimator is no topic model, and ValueError if X is unusable or holds fewer than 4 documents, or if
    the estimator's neighbors differ by a replacement.
    """

    def __init__(self, estimator: LatentDirichletAllocation, X: Any, *, random_state: int = 0):
        if family_of(estimator).name != "lda":
            raise TypeError(f"estimator: expected a LatentDirichletAllocation, got {type(estimator).__name__}")
        if estimator.sampling == "without_replacement" or estimator._options.relation == Relation.REPLACE_ONE:
            raise ValueError(
                f"sampling={estimator.sampling!r}, relation={estimator._options.relation!r}: expected neighbors that "
                "differ by adding or removing a document, as the attack asks whether one was there"
            )
        self._seed = int(check_number("random_state", random_state, 0, 2**63, integer=True))
        self.documents = documents(X, expected_by="membership_attack")
        n = self.documents.shape[0]
        if n < 4:
            raise ValueError(f"X has {n} documents: expected at least 4")
        half = max(1, n // 2)
        settings = {**estimator.get_params(), "n_records": half}
        if not isinstance(settings["random_state"], (int, np.integer)):
            settings["random_state"] = 0
        self._kind = type(estimator)
        plan = self._kind(**settings).prepare(self.documents).plan
        multiplier = plan.mechanism.noise_multiplier
        self.event: PrivacyEvent | None = run_event(plan.sampler, multiplier, plan.n_steps) if multiplier > 0 else None
        if self.event is not None:
            settings.update(noise_multiplier=multiplier, epsilon=None)
        self._settings = {**settings, "n_steps": plan.n_steps}

    def make(self, numbers: range) -> ShadowModels:
        """Return the shadow models of these numbers."""
        n, start = self.documents.shape[0], time.process_time()
        statistics, members = np.empty((len(numbers), n), np.float32), np.empty((len(numbers), n), bool)
        for place, number in enumerate(numbers):
            members[place] = np.random.default_rng((self._seed, number)).random(n) < 0.5
            with warnings.catch_warnings():
                # That documents repeat each other, or that topics will be noise, is no news to an attack.
                warnings.simplefilter("ignore", UserWarning)
                model = self._kind(**self._settings).fit(self.documents[members[place]])
            statistics[place] = log_likelihoods(model, self.documents)
        return ShadowModels(statistics, members, time.process_time() - start)


def likelihood_ratios(shadows: ShadowModels) -> np.ndarray:
    """Score all models and documents, higher for "in": float64 (S, D).

    ln N(s; in) - ln N(s; out) with the laws over all *other* models. Below `COMMON_VARIANCE` models both laws of a
    document share one variance. A law needs three models of others.
    """
    values = check_array("statistics", shadows.statistics, shadows.members.shape)
    # Sums of squares lose nothing where the mean of a document is taken off first.
    values = values - values.mean(axis=0)
    members = shadows.members
    laws = []
    for side in (members, ~members):
        own = np.where(side, values, 0.0)
        # Of the other models on this side: the target counts on the side where it stands, and is left out.
        count = side.sum(axis=0) - side
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (own.sum(axis=0) - own) / count
            square = (own**2).sum(axis=0) - own**2 - count * mean**2
        laws.append((count, mean, np.maximum(square, 0.0)))
    (n_in, mean_in, square_in), (n_out, mean_out, square_out) = laws
    with np.errstate(divide="ignore", invalid="ignore"):
        if len(values) < COMMON_VARIANCE:
            var_in = var_out = (square_in + square_out) / (n_in + n_out - 2)
        else:
            var_in, var_out = square_in / (n_in - 1), square_out / (n_out - 1)
        far_in, far_out = (values - mean_in) ** 2 / var_in, (values - mean_out) ** 2 / var_out
        scores = 0.5 * (far_out - far_in + np.log(var_out / var_in))
    # A document that no model moves, such as an empty one, tells nothing.
    return np.where((n_in >= 3) & (n_out >= 3) & np.isfinite(scores), scores, np.nan)


@dataclass(frozen=True)
class Operating:
    """The attack at one false-positive rate.

    ``true_positive_rate`` with its 95 % interval [``low``, ``high``], and the rate that the claim allows (1 without
    privacy). ``refuted`` says whether a bound that fails once in 10^5 lies beyond the claim.
    """

    false_positive_rate: float
    true_positive_rate: float
    low: float
    high: float
    claimed: float
    refuted: bool


@dataclass(frozen=True)
class MembershipReport:
    """What an attack attains.

    ``curve`` has the false- and true-positive rates of the whole curve, float64 (2, P); ``area`` is under it.
    """

    points: tuple[Operating, ...]
    curve: np.ndarray
    area: float
    n_models: int
    n_documents: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no point refutes the claim."""
        return not any(point.refuted for point in self.points)

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [
            f"Membership attack with {self.n_models} shadow models on {self.n_documents} documents "
            f"({self.seconds:.0f} s of processor time), area under the curve {self.area:.4f}",
            f"   {'false positives':>15}  {'true positives':>14}  {'95 % interval':>19}  {'claim allows':>12}",
        ]
        for p in self.points:
            span = f"{p.low:8.3%} – {p.high:8.3%}"
            row = f"   {p.false_positive_rate:15.2%}  {p.true_positive_rate:14.3%}  {span:>19}  {p.claimed:12.3%}"
            lines.append(row + ("  BEYOND THE CLAIM" if p.refuted else ""))
        return "\n".join([*lines, f"Verdict: {'no violation found' if self.passed else 'THE CLAIM DOES NOT HOLD'}"])

    __str__ = text


def measure(
    scores: np.ndarray, shadows: ShadowModels, event: PrivacyEvent | None, rates: tuple[float, ...] = RATES
) -> MembershipReport:
    """Compute the attack's rates, with one threshold for all.

    All models and documents share it. The threshold of a rate a is the lowest with at most a share a of false positives
    among these scores. So it is known to within the interval of that rate. A claim has to pass its upper end. Attacks
    on one model share its noise and its topics, so the intervals are Clopper and Pearson's for an effective number of
    trials. It is divided by how much more the rate varies from model to model than it would if trials were independent
    (Korn & Graubard 1998), and never multiplied. Raises ValueError if no score is a number.
    """
    known = np.isfinite(scores)
    inside, outside = scores[known & shadows.members], scores[known & ~shadows.members]
    if not (len(inside) and len(outside)):
        raise ValueError("scores: expected some of documents in and out of models; use more shadow models")
    ranked_in, ranked_out = np.sort(inside), np.sort(outside)
    points = []
    for rate in rates:
        alarms = int(rate * len(outside))
        threshold = ranked_out[len(outside) - 1 - alarms] if alarms < len(outside) else -np.inf
        hits = np.where(known & (scores > threshold), 1.0, 0.0)
        attained, low, high, least, _ = _rate(hits, known & shadows.members)
        most_false = _rate(hits, known & ~shadows.members)[-1]
        claimed = 1.0 if event is None else true_positive_rate(event, rate)
        most = 1.0 if event is None else true_positive_rate(event, most_false)
        points.append(Operating(rate, attained, low, high, claimed, least > most))
    grid = np.unique(np.concatenate((np.geomspace(1.0 / len(outside), 1.0, 200), np.linspace(0, 1, 101))))
    places = len(outside) - 1 - np.floor(grid * len(outside)).astype(int)
    cuts = np.where(places >= 0, ranked_out[np.maximum(places, 0)], -np.inf)
    false = 1.0 - np.searchsorted(ranked_out, cuts, side="right") / len(outside)
    true = 1.0 - np.searchsorted(ranked_in, cuts, side="right") / len(inside)
    area = float(np.searchsorted(ranked_out, inside, side="left").mean() / len(outside))
    n_models, n_documents = scores.shape
    return MembershipReport(tuple(points), np.stack((false, true)), area, n_models, n_documents, shadows.seconds)


def _rate(hits: np.ndarray, trials: np.ndarray) -> tuple[float, ...]:
    """Bound a rate: its 95 % interval, and nearly certain bounds. The latter fail once in 10^5."""
    n, k = float(trials.sum()), float((hits * trials).sum())
    p, per_model = k / n, trials.sum(axis=1)
    spread = float((((hits * trials).sum(axis=1) - p * per_model) ** 2).sum())
    effect = max(1.0, spread / (n * p * (1 - p))) if 0 < p < 1 else 1.0
    return p, *(
        clopper_pearson(k / effect, n / effect, error)[end]
        for error, end in ((INTERVAL_ERROR, 0), (INTERVAL_ERROR, 1), (REFUTATION_ERROR, 0), (REFUTATION_ERROR, 1))
    )


def invented_documents(n: int = 300, n_words: int = 500, length: int = 60, seed: int = 0) -> sparse.csr_array:
    """Draw documents of ten topics to attack: int32 counts (n, n_words)."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.05), 10)
    words = rng.dirichlet(np.full(10, 0.2), n) @ topics
    return sparse.csr_array(rng.multinomial(length, words / words.sum(axis=1, keepdims=True)).astype(np.int32))


def membership_attack(
    estimator: LatentDirichletAllocation, X: Any, *, n_models: int = 64, random_state: int = 0
) -> MembershipReport:
    """Attack fits to halves of a corpus, and compare with their claim.

    Parameters
    ----------
    estimator, X, random_state : see `ShadowFits`
        X must be documents that may be known: the fits charge no budget, and the report is about X.
    n_models : int
        Shadow models, at least 8. At a false-positive rate a the attack needs some 100 / a scores, models times
        documents.

    Raises as `ShadowFits` does, and ValueError if a parameter is out of its range.
    """
    check_number("n_models", n_models, 8, 10**6, integer=True)
    fits = ShadowFits(estimator, X, random_state=random_state)
    shadows = fits.make(range(n_models))
    return measure(likelihood_ratios(shadows), shadows, fits.event)
