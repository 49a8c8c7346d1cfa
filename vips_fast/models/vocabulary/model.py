"""Mathematics of a vocabulary purchase: its threshold, the event of a round, and the rounds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from ...accounting import ApproximateDPEvent, ComposedEvent, GaussianEvent, PrivacyEvent
from ...engine.model import Model, Release
from ...engine.sampling import FullSampler, Sampler
from ...mechanisms import GaussianMechanism
from .records import TokenBlock, TokenSets

#: No weight of a round after the first is larger.
LARGEST_LATER = 0.25
#: No threshold lets more delta through; `VocabularyModel` needs it for runs with fewer rounds than planned.
LARGEST_DELTA = 0.05
#: Standard deviations of the noise to come that a token's weight is to be above the threshold.
_MARGIN = 1.5
#: Most tokens of a person that weigh in a later round: keeps sums of squares inside int64.
_MOST_LATER = 1 << 20
#: Most lattice units of a norm: squares of weights stay below 2^44.
_MOST_UNITS = 1 << 22
#: Most lattice units that a token may want: keeps the order of a person's tokens in one int64.
_MOST_WANTED = float(1 << 31)


def _bounds(max_tokens: int, n_rounds: int) -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(1, max_tokens + 1, dtype=np.float64)
    return t, 1.0 / np.sqrt(t) + (n_rounds - 1) * LARGEST_LATER


def threshold_delta(threshold: float, sigma: float, max_tokens: int, n_rounds: int = 1) -> float:
    """Bound the probability that a token of only one person is released.

    ``max over 1 <= t <= max_tokens of 1 - Phi((threshold - 1/sqrt(t) - (R - 1)/4) / (sigma sqrt(R)))^t`` with R rounds.
    For one round this is Gopi et al. 2020, "Differentially private set union", theorem 4; `VocabularyModel` proves it.
    ``sigma`` is the standard deviation of the noise in a token's weight in each round.
    """
    t, held = _bounds(max_tokens, n_rounds)
    below = t * scipy.special.log_ndtr((threshold - held) / (sigma * math.sqrt(n_rounds)))
    return float(-np.expm1(below).min())


def threshold_for(delta: float, sigma: float, max_tokens: int, n_rounds: int = 1) -> float:
    """Find the smallest threshold, within 1e-12, with `threshold_delta` at most ``delta``."""
    t, held = _bounds(max_tokens, n_rounds)
    # Phi(x)^t >= 1 - delta, read from the upper tail.
    tail = -np.expm1(np.log1p(-delta) / t)
    found = float((-scipy.special.ndtri(tail) * sigma * math.sqrt(n_rounds) + held).max())
    while threshold_delta(found, sigma, max_tokens, n_rounds) > delta:
        found += 1e-12 * abs(found)
    return found


class ThresholdSampler(FullSampler):
    """Sampler of all persons in each round, charged for the threshold.

    ``n_records`` is the public number of persons, ``delta`` the probability that a token of only one person is
    released. Each round is charged with its share x of it, an (0, x) event beside the Gaussian's, with
    1 - (1 - x)^n_rounds >= delta.
    """

    name = "vocabulary"

    def __init__(self, n_records: int, n_rounds: int, max_tokens: int, delta: float) -> None:
        super().__init__(n_records)
        self.n_rounds, self.max_tokens, self.delta = n_rounds, max_tokens, delta
        self.round_delta = math.nextafter(-math.expm1(math.log1p(-delta) / n_rounds) * (1 + 1e-14), 1.0)

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Return the event of one round."""
        leak = ApproximateDPEvent(0.0, self.round_delta, self.relation)
        return ComposedEvent((GaussianEvent(noise_multiplier, self.relation), leak))


class VocabularyModel(Model):
    """Weighted set union, in R rounds that favor missing weight.

    They put weight on tokens that lack it. A person keeps a set of at most D0 tokens, chosen once by the person's own
    random word. In each round every person adds weights w >= 0, of L2 norm at most 1, to tokens of this set. Each kept
    token's sum gets N(0, sigma^2). What rounds find stays inside; after the last one the tokens whose sums over all
    rounds pass the threshold are released, with these sums. In round 1 the k tokens of a person, and one more that
    everybody holds and that is no word, get 1/sqrt(k + 1) each. In a later round a token's *wanted* weight is a
    function of three things. These are that token's own noised sums, the sum of the token that everybody holds, and
    public numbers. It is the weight that the token lacks, over the rounds left and the persons who seem to hold it. A
    person serves the tokens by wanted weight, least first, with at most 1/4 each, as far as the norm reaches. Then it
    doubles all (to at most 1/4 each) if that leaves the norm within 1, and gives the rest nothing. So common words,
    which need little from each, leave norm for rare ones, and hopeless ones take nothing from those.

    *Theorem.* Let persons be added or removed. Then the release is dominated by the composition of R Gaussian
    mechanisms of sensitivity 1 and noise sigma, and one (0, delta_rho) event. That delta_rho is the maximum over 1 <=
    t <= D0 of 1 - Phi((rho - 1/sqrt(t) - (R-1)/4) / (sigma sqrt(R)))^t. At every epsilon, delta(epsilon) <= delta_rho +
    (1 - delta_rho) delta_Gauss(epsilon). One privacy-loss distribution composes it so with whatever else is released.

    *Proof.* Let D' be D and one person u. Fix all random words. D' is then a mixture over u's word, which D does not
    know, and the hockey-stick divergence is convex in each argument. S are the tokens that somebody in D keeps (with
    the common one), T the tokens that only u keeps, t <= D0 of them. Others hold tokens of T, if at all, without
    keeping them, which is for good; so they never give them weight.

    1. *What S shows.* Fix the noise of T in all rounds. In round r, given the noised sums of S so far, the others weigh
       as in D. The wanted weights of tokens of S depend only on these sums. So the sums of S differ by u's own weights,
       of norm at most 1, whatever they depend on. (They may depend on T's sums, which are fixed numbers now.) With
       noise that is one Gaussian mechanism of sensitivity 1 a round, adaptively composed. The tokens that pass the
       threshold are a function of the noised sums: M(D), and for D' we call it M'.
    2. *What T adds.* On T the sum of a token over the rounds is at most 1/sqrt(t) + (R-1)/4 plus its own noise N(0, R
       sigma^2). In round 1 u weighs at most 1/sqrt(t + 1), later at most 1/4, whatever was seen. These noises are
       independent over T, so with probability at least Phi(...)^t >= 1 - delta_rho none passes.
    3. *Together.* So M(D') = (1 - p) M' + p X with p <= delta_rho, where M' is a mixture over the noise of T. Write H
       for the hockey-stick divergence at e^epsilon. H(M(D') | M(D)) <= p + (1 - p) H(M' | M(D)), and H(M(D) | M(D')) <=
       sup_A [M(D)(A) - e^epsilon (1 - p) M'(A)] <= p + (1 - p) H(M(D) | M'). Both rise with p, and at p = delta_rho are
       the profile of the Gaussian's pair times the profile of a (0, delta_rho) event.

    *Released sums.* The proof holds for any function of the noised sums in step 1. So the released tokens come with
    their sums of every round, and the sums of the token that everybody holds. `VocabularyModel` makes all else again
    from these (`vips_fast.models.vocabulary.estimator.read_purchase`). The other tokens' sums have no part in it.

    *Fewer rounds.* If a run ends after Q < R rounds, the threshold of R rounds stays. Every round that was begun is
    charged its share of delta_rho, which is 1 - (1 - delta_rho)^(1/R). The bound of step 2 is then 1 - Phi(x)^t with
    x >= a sqrt(R/Q), for a >= 0 of R rounds. Own weights are fewer, and the noise's deviation is sigma sqrt(Q). That is
    at most 1 - (1 - delta_rho)^(Q/R), as s -log Phi(a sqrt(s)) falls in s >= 1: its slope is -log Phi(u) - (u/2)
    phi(u)/Phi(u) at u = a sqrt(s), and -log Phi(u) <= phi(u)/(u Phi(u)) is less if u >= sqrt(2). So a >= sqrt(2), which
    holds as delta_rho is at most `LARGEST_DELTA` < 1 - Phi(sqrt(2)). Rounds whose sums are lost release nothing.

    *State.* Before the last round the state has the noised sums of all tokens, in the order of the first sight, and the
    key of the persons' random words. These never leave, and stay in the private folder of an unfinished run. So a
    resumed run has the same tokens under the same numbers, chosen once. The state has no names and no key of noise.
    After the last round it has only the released sums.

    R = 1 is Gopi et al. 2020, "Differentially private set union"; rounds that move weight are the idea of MAD2R
    (Chen et al. 2025). Theirs moves it in one round, and by global numbers, which would fail in step 1.

    *In integers.* Let C be the lattice units of norm 1. The first weights are floor(sqrt(floor(C^2 / (k + 1)))), so
    that k + 1 squares add up to at most C^2. Later ones are integers whose squares are added and held against C^2. Sums
    are exact in int64. The noise's rounding moves a sum by at most R/2 units, which the threshold is raised by.
    """

    clip = 1.0
    at_root = ("_names", "_sums", "_selection", "_total", "_shares", "_persons", "_precision")

    def __init__(self, sampler: ThresholdSampler) -> None:
        self._plan, self._selection, self._ended = sampler, dict[str, np.ndarray](), False
        self._begin([""])

    def _begin(self, names: list[str]) -> None:
        self._names, self._round, self.shape = names, 0, (len(names),)
        self._sums = list[np.ndarray]()
        self._total = self._wanted = np.zeros(len(names), dtype=np.int64)

    def learn(self, sets: TokenSets, key: bytes = b"") -> None:
        """Take the tokens' private names, and the key of the persons' words."""
        self._begin(sets.names)
        self._selection = {"sets": _bytes(bytes.fromhex(sets.digest())), "key": _bytes(key)} if key else {}

    @property
    def secret_start(self) -> bool:
        """Whether a resumed run needs the persons' words: its releases are about the tokens that these chose."""
        return bool(self._selection)

    def sensitivity(self, relation: str) -> float:
        """Return 1, for adding or removing a person."""
        if relation != "add_remove":
            raise ValueError(f"relation={relation!r}: expected 'add_remove' or None for a vocabulary")
        return 1.0

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        plan = self._plan
        self._spacing, self._sd = mechanism.spacing, mechanism.noise_sd
        self._units = int(mechanism.clip_norm / mechanism.spacing)
        if not plan.max_tokens < self._units**2 <= _MOST_UNITS**2:
            raise ValueError(
                f"noise_multiplier={mechanism.noise_multiplier:g}: expected a number from 1 to "
                f"{2.0**22 / math.sqrt(plan.max_tokens + 1):.3g} for a vocabulary; change epsilon or n_rounds"
            )
        self.threshold = threshold_for(plan.delta, self._sd, plan.max_tokens, plan.n_rounds)
        self._first = np.array(
            [0, *(math.isqrt(self._units**2 // k) for k in range(1, plan.max_tokens + 2))], dtype=np.int64
        )

    def contribute(self, block: TokenBlock, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        row_of, n, limit = block.row_of, len(block.ends) - 1, self._units**2
        if self._round == 0:
            each = self._first[np.diff(block.ends) + 1]
            ids, weights = block.ids, each[row_of]
            out[0] += each.sum()
        else:
            # Stable: equals stand in the order of the person's own first sight; tokens' numbers decide nothing.
            wanted = self._wanted[block.ids]
            served = np.flatnonzero(wanted)
            served = served[np.argsort((row_of[served] << 32) | wanted[served], kind="stable")]
            row_of, ids, weights = row_of[served], block.ids[served], np.minimum(wanted[served], self._largest)
            begin = np.searchsorted(row_of, np.arange(n + 1))
            # Differences of sums modulo 2^64 are exact, as one person's are below 2^63.
            total = np.concatenate(([0], np.cumsum(weights * weights)))
            reach = total[1:] - total[begin[row_of]]
            fits = (np.arange(len(row_of)) - begin[row_of] < _MOST_LATER) & (reach <= limit)
            row_of, ids, weights = row_of[fits], ids[fits], weights[fits]
            used = np.bincount(row_of, weights=weights * weights, minlength=n)  # exact: at most 2^44
            twice = 4 * used[row_of] <= limit
            weights = np.where(twice, np.minimum(2 * weights, self._largest), weights)
        # Exact: a block's sums of integers are below 2^53.
        out += np.bincount(ids, weights=weights, minlength=len(out)).astype(np.int64)

    @property
    def _largest(self) -> int:
        return int(self._units * LARGEST_LATER)

    def update(self, release: Release) -> None:
        sums, plan = release.units * self._spacing, self._plan
        self._sums.append(release.units)
        if self._round == 0:
            self._total = np.zeros(len(sums), dtype=np.int64)
            everybody = max(float(sums[0]), 1.0)
            self._shares = np.clip(sums / everybody, 0.0, 1.0)
            # The mean weight in round 1, within its range.
            mean = min(max(everybody / plan.n_records, 1 / math.sqrt(plan.max_tokens + 1)), 1.0)
            self._persons, self._precision = sums / mean, np.full(len(sums), (mean / self._sd) ** 2)
        else:
            weights = np.minimum(self._wanted, self._largest) * self._spacing
            precision = (weights / self._sd) ** 2
            found = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)
            self._persons = self._persons * self._precision + found * precision
            self._precision += precision
            self._persons /= self._precision
        self._total += release.units
        self._round += 1
        left = plan.n_rounds - self._round
        if left:
            lacks = self.threshold + _MARGIN * self._sd * math.sqrt(left) - self._total * self._spacing
            weights = np.maximum(lacks / left / np.maximum(self._persons, 1.0), 0.0)
            weights[(self._persons <= 1.0) | (np.arange(len(weights)) == 0)] = 0.0
            self._wanted = np.minimum(weights / self._spacing, _MOST_WANTED).astype(np.int64)

    def passed(self) -> np.ndarray:
        """Tell for each token whether its noised sums pass the threshold."""
        least = math.ceil(self.threshold / self._spacing + self._plan.n_rounds / 2)
        return np.asarray((self._total[1:] >= least) & (self._round > 0))

    def end(self) -> None:
        """Drop all tokens that do not pass the threshold; sort by alphabet."""
        if self._ended:
            return
        passed = np.flatnonzero(self.passed()) + 1
        order = [0, *sorted(passed.tolist(), key=self._names.__getitem__)]
        names, sums = [self._names[i] for i in order], [units[order] for units in self._sums]
        self._replay(names, sums)
        self._selection, self._ended = {}, True

    def _replay(self, names: list[str], sums: Sequence[np.ndarray]) -> None:
        self._begin(names)
        for number, units in enumerate(sums):
            self.update(Release(number, units, self._spacing, self._sd))

    def state(self) -> dict[str, np.ndarray]:
        """Give the noised sums of the rounds so far.

        After the last one they are only of released tokens, and have names.
        """
        sums = np.stack(self._sums) if self._sums else np.zeros((0, *self.shape), dtype=np.int64)
        return {"sums": sums, **(texts_of(self._names[1:]) if self._ended else self._selection)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """See `Model.restore`; a state after the last round brings its own tokens."""
        sums, names = state.get("sums", np.zeros(0)), self._names
        ended = "bytes" in state
        if ended:
            names = ["", *names_of(state)]
        if sums.dtype != np.int64 or sums.shape[1:] != (len(names),) or len(sums) > self._plan.n_rounds:
            raise ValueError("state: 'sums' is expected to be int64, of each round and token")
        self._ended = ended
        if hasattr(self, "_spacing"):
            self._replay(names, [*sums])

    def result(self) -> dict[str, np.ndarray]:
        """Give the released tokens by alphabet.

        The arrays are their UTF-8 bytes, lengths, noised sums, and shares of persons.
        """
        self.end()
        shares = self._shares[1:] if self._round else np.zeros(0)
        return {**texts_of(self._names[1:]), "weights": self._total[1:] * self._spacing, "shares": shares}


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype=np.uint8)


def texts_of(names: Sequence[str]) -> dict[str, np.ndarray]:
    """Write tokens as arrays: their UTF-8 bytes, and lengths."""
    texts = [name.encode("utf-8", "surrogatepass") for name in names]
    lengths = np.array([len(text) for text in texts], dtype=np.float64)
    return {"bytes": _bytes(b"".join(texts)), "lengths": lengths}


def names_of(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Read the tokens in arrays; ValueError if they are malformed."""
    ends, data = np.concatenate(([0], np.cumsum(arrays["lengths"]))).astype(int), arrays["bytes"].tobytes()
    if ends[-1] != len(data):
        raise ValueError("state: the tokens' lengths are not those of their bytes")
    return [data[a:b].decode("utf-8", "surrogatepass") for a, b in zip(ends, ends[1:], strict=False)]
