"""Hidden Markov model of sequences of symbols."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import digamma

from vips_fast.checks import check_number
from vips_fast.data.types import Array, Matrix, Vector
from vips_fast.models.conjugate import ConjugateEstimator, check_bound, parameter

#: Least weight of a state or symbol in the forward pass, so that no sequence has a probability of 0.
_LEAST = 1e-30


@dataclass(kw_only=True, repr=False, eq=False)
class HiddenMarkovModel(ConjugateEstimator):
    """Variational Bayes for a hidden Markov model.

    The source is Beal 2003, chapter 3. A sequence is a record.

    Parameters
    ----------
    n_components : int
        Number of states.
    n_symbols : int
        Public number of different symbols.
    staying : float
        Public share, in [0, 1), of the first step's transitions that stay in a state; the others are random. Where
        states alternate, such as vowels and consonants, 0 finds them sooner.
    pseudocount : float
        Parameter of the Dirichlet priors of the first state, of each state's successors and of its symbols.
    posterior : {"dirichlet", "point"}
        Form of the parameters' posterior. "point" is a point mass: EM, as variational Bayes with a delta distribution
        (Park et al. 2020, appendix 6). Its prior is Dirichlet with 1 + ``pseudocount``.
    **common
        Of `ConjugateEstimator`. Each row of X is a sequence: symbols 0 to n_symbols - 1, then -1 up to the row's end.
        Its columns, T, are the public largest length.

    Notes
    -----
    Statistics of a sequence come by the forward-backward recursion under the expected logarithms of the parameters.
    They are the distribution of the first state; the expected transitions, divided by T - 1; and the expected symbols
    by state, divided by T. All are >= 0 and each block adds up to at most 1, which bounds its L2 norm. So the bound is
    sqrt(3), reached by one state and T equal symbols, and replacing a sequence costs sqrt(2) times that. The bound
    holds for all parameters, and so for both forms of the posterior.

    Examples
    --------
    Runs of two symbols:

    >>> import numpy as np
    >>> from hidden_markov import HiddenMarkovModel
    >>> coins = np.random.default_rng(0).random((4000, 6)) < 0.9
    >>> X = np.cumsum(~coins, axis=1) % 2
    >>> model = HiddenMarkovModel(2, n_symbols=2, epsilon=2.0, random_state=1).fit(X)
    >>> np.diag(model.transitions_).shape, float(model.score(X)) > -0.6
    ((2,), True)
    """

    n_components: int = field(default=2, kw_only=False)
    n_symbols: int = 2
    staying: float = 0.5
    pseudocount: float = 1.0
    posterior: str = "dirichlet"

    @property
    def nonnegative(self) -> bool:
        return True

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        first, moves, emits = parameters[:3]
        n, length = records.shape
        k, symbols = emits.shape
        forward, scales = np.zeros((length, k)), np.zeros(length)
        after, before = np.zeros(k), np.zeros(k)
        per_move, per_symbol = 1.0 / max(length - 1, 1), 1.0 / length
        for i in range(n):
            last = 0
            while last < length and records[i, last] >= 0.0 and records[i, last] < symbols:
                last += 1
            for t in range(last):
                symbol = int(records[i, t])
                scales[t] = 0.0
                for b in range(k):
                    reached = first[b]
                    if t > 0:
                        reached = 0.0
                        for a in range(k):
                            reached += forward[t - 1, a] * moves[a, b]
                    forward[t, b] = reached * emits[b, symbol]
                    scales[t] += forward[t, b]
                for b in range(k):
                    forward[t, b] /= scales[t]
            for b in range(k):
                after[b] = 1.0
            for back in range(last):
                t = last - 1 - back
                symbol = int(records[i, t])
                for b in range(k):
                    held = forward[t, b] * after[b]
                    out[i, k + k * k + b * symbols + symbol] += held * per_symbol
                    if t == 0:
                        out[i, b] = held
                    after[b] *= emits[b, symbol] / scales[t]
                if t > 0:
                    for a in range(k):
                        before[a] = 0.0
                        for b in range(k):
                            step = moves[a, b] * after[b]
                            before[a] += step
                            out[i, k + a * k + b] += forward[t - 1, a] * step * per_move
                    for a in range(k):
                        after[a] = before[a]

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * (1 + self.n_components + self.n_symbols)

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(3.0) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**10, integer=True)
        check_number("n_symbols", self.n_symbols, 1, 2**20, integer=True)
        check_number("staying", self.staying, 0, 0.999)
        check_bound("pseudocount", self.pseudocount)
        if self.posterior not in ("dirichlet", "point"):
            raise ValueError(f"posterior={self.posterior!r}: expected 'dirichlet' or 'point'")

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        k, n = self.n_components, self.n_records_
        weights = n * n_columns / k * rng.dirichlet(np.ones(self.n_symbols), k)
        random = rng.dirichlet(np.ones(k), k)
        moves = n * n_columns / k * ((1.0 - self.staying) * random + self.staying * np.eye(k))
        return self._parameters(np.full(k, n / k), moves, weights)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, n, length = self.n_components, self.n_records_, self.n_columns_
        counts = np.maximum(mean, 0.0) * n  # noise may take a count below 0
        moves, weights = np.split(counts[k:], [k * k])
        return self._parameters(
            counts[:k], moves.reshape(k, k) * max(length - 1, 1), weights.reshape(k, self.n_symbols) * length
        )

    def _parameters(self, *counts: Array) -> tuple[Array, ...]:
        posterior = [self.pseudocount + each for each in counts]
        means = [a / a.sum(axis=-1, keepdims=True) for a in posterior]
        if self.posterior == "point":
            # The largest posterior density under the prior with 1 more, which is the mean under this one.
            return *(np.maximum(mean, _LEAST) for mean in means), *(np.maximum(mean, _LEAST) for mean in means)
        expected = [np.exp(digamma(a) - digamma(a.sum(axis=-1, keepdims=True))) for a in posterior]
        return (*(np.maximum(weights, _LEAST) for weights in expected), *means)

    start_ = parameter(3, "(K,) expected probabilities of the first state.")
    transitions_ = parameter(4, "(K, K) expected probabilities of the next state, by the state before it.")
    symbols_ = parameter(5, "(K, n_symbols) expected probabilities of a state's symbols.")

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the mean log-probability of a symbol of sequences.

        The sequences are public, the parameters expected ones, and the unit nats.
        """
        X = np.asarray(self._held(X))
        total, symbols = 0.0, 0
        state: Matrix = np.tile(self.start_, (len(X), 1))
        inside = np.ones(len(X), bool)
        for t in range(X.shape[1]):
            inside &= (X[:, t] >= 0) & (X[:, t] < self.n_symbols)
            if t:
                state = state @ self.transitions_
            joint = state * self.symbols_[:, np.where(inside, X[:, t], 0).astype(int)].T
            chance = joint.sum(axis=1)
            total, symbols = total + float(np.log(chance[inside]).sum()), symbols + int(inside.sum())
            state = joint / chance[:, None]
        if not symbols:
            raise ValueError("X: expected at least one symbol")
        return total / symbols

    def predict(self, X: Any) -> Matrix:
        """Find the most probable state paths of public sequences.

        The result is (n, T), by Viterbi; -1 stands beyond a sequence's end.
        """
        X = np.asarray(self._held(X))
        known = np.logical_and.accumulate((X >= 0) & (X < self.n_symbols), axis=1)
        moves, emits = np.log(self.transitions_), np.log(self.symbols_)
        best, came = np.tile(np.log(self.start_), (len(X), 1)), np.zeros((*X.shape, self.n_components), int)
        came[:] = np.arange(self.n_components)  # beyond the end a path does not move
        for t in range(X.shape[1]):
            if t:
                through = best[:, :, None] + moves
                came[known[:, t], t] = through.argmax(axis=1)[known[:, t]]
                best = np.where(known[:, t, None], through.max(axis=1), best)
            best = best + np.where(known[:, t], emits[:, np.where(known[:, t], X[:, t], 0).astype(int)], 0.0).T
        path, at = np.full(X.shape, -1), best.argmax(axis=1)
        for t in range(X.shape[1] - 1, -1, -1):
            path[:, t] = np.where(known[:, t], at, -1)
            at = came[np.arange(len(X)), t, at]
        return path
