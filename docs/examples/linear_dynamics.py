"""Linear dynamical systems of sequences of vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vips_fast.checks import check_number
from vips_fast.data.types import Array, Matrix, Vector
from vips_fast.kernels import floor_spectrum, unpack_upper
from vips_fast.models.conjugate import ConjugateEstimator, check_bound, parameter

#: Largest spectral radius of the transitions, and their largest singular value: noise may have made more of them.
_RADIUS, _GAIN = 0.9999, 10.0
#: Least variance of an output, as a share of R^2 / d, and least eigenvalue of the states' covariances.
_LEAST = 1e-6
#: Precision of the normal prior of transitions and loadings.
_RIDGE = 1e-3


@dataclass(kw_only=True, repr=False, eq=False)
class LinearDynamicalSystem(ConjugateEstimator):
    """Linear dynamical system with normal noise; a sequence is a record.

    It is fitted by EM (Shumway & Stoffer 1982).

    Parameters
    ----------
    n_components : int
        Number k of hidden dimensions.
    n_outputs : int
        Number d of outputs at a time. A row of X has the T times one after the other: T d columns.
    radius : float
        Public R: the outputs of a time are scaled down to an L2 norm of at most R.
    latent_radius : float or None
        Public B: a smoothed state is scaled down to an L2 norm of at most B. None is sqrt(k) + 3.
    **common
        Of `ConjugateEstimator`. Subtract a public center from X.

    Notes
    -----
    States x_1 ~ N(0, P), x_t = A x_(t-1) + N(0, Q); outputs y_t = C x_t + N(0, diag(r)). Each step brings the states to
    a mean square of 1 in every direction, which changes no distribution of outputs.

    Statistics of a sequence with ||y_t|| <= R, by the Kalman filter and smoother, whose means m_t have ||m_t|| <= B:

    - sum_t y_t m_t^T / (T R B),
    - the upper triangle of sum_t m_t m_t^T / (T B^2), with its off-diagonal times sqrt(2),
    - sum_t m_t m_(t-1)^T / ((T - 1) B^2), for t > 1,
    - the triangles of m_1 m_1^T and m_T m_T^T, over sqrt(T) B^2,
    - sum_t y_tj^2 / (T R^2) for each output j.

    A sum of T terms of norm at most 1, over T, has a norm of at most 1. The norm of the squares is at most their sum,
    which is at most 1. The two triangles have at most 1 / sqrt(T) each. So the bound is sqrt(4 + 2 / T), reached by a
    sequence whose outputs and smoothed states stay at one place on their bounds. Entries have signs: replacing a
    sequence costs twice the bound. The smoothed covariances are functions of the released parameters, and are added in
    the M-step.

    A unit is to be one sequence: the smoothed covariances count once a unit, and no number of sequences is released. So
    of persons of several sequences, or of a wrong `n_records`, loadings and variances are of another scale. Give
    the option ``rows_per_group=1`` then.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_dynamics import LinearDynamicalSystem
    >>> rng = np.random.default_rng(0)
    >>> walk = np.cumsum(rng.normal(size=(5000, 8)), axis=1) + rng.normal(size=(5000, 8))
    >>> model = LinearDynamicalSystem(1, n_outputs=1, radius=8.0, epsilon=2.0, n_steps=20, random_state=0).fit(walk)
    >>> bool(model.transitions_[0, 0] > 0.7)
    True
    """

    n_components: int = field(default=2, kw_only=False)
    n_outputs: int = 1
    radius: float = 1.0
    latent_radius: float | None = None

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        carry, gain, back, keep, scale = parameters[:5]
        length, k, d = gain.shape
        n = len(records)
        states, norm = np.zeros((length, k, n)), np.zeros(n)
        for t in range(length):
            for i in range(n):
                norm[i] = 0.0
            for j in range(d):
                for i in range(n):
                    norm[i] += records[i, t * d + j] * records[i, t * d + j]
            for j in range(d):
                for i in range(n):
                    records[i, t * d + j] *= scale[0] / max(math.sqrt(norm[i]), scale[0])
            for a in range(k):
                for j in range(d):
                    for i in range(n):
                        states[t, a, i] += gain[t, a, j] * records[i, t * d + j]
                for b in range(k if t > 0 else 0):
                    for i in range(n):
                        states[t, a, i] += carry[t, a, b] * states[t - 1, b, i]
        means, place = np.zeros((length, k, n)), np.zeros((length, k, n))
        for step in range(length):
            t = length - 1 - step
            for i in range(n):
                norm[i] = 0.0
            for a in range(k):
                for b in range(k):
                    for i in range(n):
                        means[t, a, i] += keep[t, a, b] * states[t, b, i]
                for b in range(k if step > 0 else 0):
                    for i in range(n):
                        means[t, a, i] += back[t, a, b] * means[t + 1, b, i]
                for i in range(n):
                    norm[i] += means[t, a, i] * means[t, a, i]
            for a in range(k):
                for i in range(n):
                    place[t, a, i] = means[t, a, i] / max(math.sqrt(norm[i]), scale[1])
        moved, first = d * k + k * (k + 1) // 2, d * k + k * (k + 1) // 2 + k * k
        last, squares = first + k * (k + 1) // 2, first + k * (k + 1)
        edge = 1.0 / math.sqrt(length)
        for t in range(length):
            for j in range(d):
                for i in range(n):
                    y = records[i, t * d + j] / scale[0]
                    out[i, squares + j] += y * y / length
                    for a in range(k):
                        out[i, j * k + a] += y * place[t, a, i] / length
            at = 0
            for a in range(k):
                for b in range(a, k):
                    weight = 1.0 if a == b else math.sqrt(2.0)
                    for i in range(n):
                        product = place[t, a, i] * place[t, b, i] * weight
                        out[i, d * k + at] += product / length
                        if t == 0:
                            out[i, first + at] = product * edge
                        if t == length - 1:
                            out[i, last + at] = product * edge
                    at += 1
                for b in range(k if t > 0 else 0):
                    for i in range(n):
                        out[i, moved + a * k + b] += place[t, a, i] * place[t - 1, b, i] / (length - 1)

    def _length(self, n_columns: int) -> int:
        if n_columns % self.n_outputs or n_columns < 2 * self.n_outputs:
            raise ValueError(
                f"n_outputs={self.n_outputs}: expected two or more times of these in X's {n_columns} columns"
            )
        return n_columns // self.n_outputs

    def n_statistics(self, n_columns: int) -> int:
        k, d = self.n_components, self.n_outputs
        return d * k + 3 * (k * (k + 1) // 2) + k * k + d

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(4.0 + 2.0 / self._length(n_columns)) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**10, integer=True)
        check_number("n_outputs", self.n_outputs, 1, 2**15, integer=True)
        check_bound("radius", self.radius)
        if self.latent_radius is not None:
            check_bound("latent_radius", self.latent_radius)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        k, d = self.n_components, self.n_outputs
        self._length(n_columns)
        spread = self.radius / math.sqrt(d)
        loadings = rng.normal(0, 0.3 * spread, (d, k))
        return self._system(0.7 * np.eye(k), 0.5 * np.eye(k), loadings, np.full(d, (0.5 * spread) ** 2), np.eye(k))

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, d, length = self.n_components, self.n_outputs, self._length(self.n_columns_)
        bound, covariances, crossed = parameters[4][1], parameters[10], parameters[11]
        size = k * (k + 1) // 2
        cross, every, moved, first, last, square = np.split(mean, np.cumsum([d * k, size, k * k, size, size]))
        cross = cross.reshape(d, k) * (self.radius * bound)

        def moment(packed: Array, covariance: Array) -> Matrix:
            """Compute E[x x^T].

            Noise may have taken an eigenvalue of the means' part below 0.
            """
            means = unpack_upper(np.asarray(packed) * bound**2, k, math.sqrt(0.5))
            return np.asarray(floor_spectrum(means, 0.0) + covariance)

        edge = math.sqrt(length)
        states = moment(every, covariances.sum(axis=0) / length)
        before = moment((length * every - edge * last) / (length - 1), covariances[:-1].sum(axis=0) / (length - 1))
        after = moment((length * every - edge * first) / (length - 1), covariances[1:].sum(axis=0) / (length - 1))
        step = moved.reshape(k, k) * bound**2 + crossed.sum(axis=0) / (length - 1)
        ridge = np.eye(k) * _RIDGE / (self.n_records_ * length)
        transitions = np.linalg.solve(before + ridge, step.T).T
        loadings = np.linalg.solve(states + ridge, cross.T).T
        rest = after - transitions @ step.T - step @ transitions.T + transitions @ before @ transitions.T
        left = square * self.radius**2 - 2 * (loadings * cross).sum(1) + ((loadings @ states) * loadings).sum(1)
        # Bring the states to a mean square of 1.
        root = np.linalg.cholesky(states)

        def scaled(matrix: Array) -> Matrix:
            return np.asarray(np.linalg.solve(root, np.linalg.solve(root, matrix).T).T)

        return self._system(
            np.linalg.solve(root, transitions @ root),
            scaled(rest),
            loadings @ root,
            np.maximum(left, noise_sd * self.radius**2),  # a variance below the noise of the squares is unknown
            scaled(moment(edge * first, covariances[0])),
        )

    def _system(
        self, transitions: Array, noise: Array, loadings: Array, variances: Array, first: Array
    ) -> tuple[Any, ...]:
        """Parameters and the smoother's gains, which no record changes."""
        k, d, length = self.n_components, self.n_outputs, self._length(self.n_columns_)
        left, values, right = np.linalg.svd(transitions)
        transitions = (left * np.minimum(values, _GAIN)) @ right
        transitions = transitions * min(1.0, _RADIUS / max(np.abs(np.linalg.eigvals(transitions)).max(), _LEAST))
        noise, first = (floor_spectrum((matrix + matrix.T) / 2, _LEAST) for matrix in (noise, first))
        left, values, right = np.linalg.svd(loadings, full_matrices=False)
        loadings = (left * np.minimum(values, self.radius)) @ right
        variances = np.clip(variances, _LEAST * self.radius**2 / d, self.radius**2)
        carry, gain, filtered = np.zeros((length, k, k)), np.zeros((length, k, d)), np.zeros((length, k, k))
        for t in range(length):
            ahead = transitions @ filtered[t - 1] @ transitions.T + noise if t else first
            # Information form: no inverse of the size of the outputs.
            filtered[t] = np.linalg.inv(np.linalg.inv(ahead) + (loadings.T / variances) @ loadings)
            gain[t] = filtered[t] @ (loadings.T / variances)
            carry[t] = transitions - gain[t] @ loadings @ transitions
        back, keep, covariances = np.zeros((length, k, k)), np.zeros((length, k, k)), filtered.copy()
        keep[-1], crossed = np.eye(k), np.zeros((length - 1, k, k))
        for t in range(length - 2, -1, -1):
            ahead = transitions @ filtered[t] @ transitions.T + noise
            back[t] = np.linalg.solve(ahead, transitions @ filtered[t]).T
            keep[t] = np.eye(k) - back[t] @ transitions
            covariances[t] = filtered[t] + back[t] @ (covariances[t + 1] - ahead) @ back[t].T
            crossed[t] = covariances[t + 1] @ back[t].T  # of the state after t with the state at t
        bound = math.sqrt(k) + 3.0 if self.latent_radius is None else self.latent_radius
        gains = carry, gain, back, keep, [self.radius, bound]
        return *gains, transitions, noise, loadings, variances, first, covariances, crossed

    transitions_ = parameter(5, "(k, k) A.")
    state_noise_ = parameter(6, "(k, k) Q.")
    loadings_ = parameter(7, "(d, k) C.")
    variances_ = parameter(8, "(d,) r.")
    first_covariance_ = parameter(9, "(k, k) P.")

    def _filtered(self, X: Any) -> tuple[Array, float]:
        """Compute filtered states, (n, T, k), of public sequences.

        Also returns the log-density of all.
        """
        carry, gain = self.parameters_[:2]
        Y = np.asarray(self._held(X), dtype=float)
        Y = Y.reshape(len(Y), len(gain), self.n_outputs)
        states, covariance, total = np.zeros((len(Y), len(gain), self.n_components)), self.first_covariance_, 0.0
        for t in range(len(gain)):
            ahead = states[:, t - 1] @ self.transitions_.T if t else states[:, 0]
            spread = self.loadings_ @ covariance @ self.loadings_.T + np.diag(self.variances_)
            error = Y[:, t] - ahead @ self.loadings_.T
            log = float(np.linalg.slogdet(2 * np.pi * spread)[1])
            total -= 0.5 * (len(Y) * log + float((error * np.linalg.solve(spread, error.T).T).sum()))
            states[:, t] = states[:, t - 1] @ carry[t].T + Y[:, t] @ gain[t].T if t else Y[:, t] @ gain[t].T
            covariance = covariance - gain[t] @ self.loadings_ @ covariance
            covariance = self.transitions_ @ covariance @ self.transitions_.T + self.state_noise_
        return states, total

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of an output vector of public sequences, in nats."""
        states, total = self._filtered(X)
        return total / (len(states) * states.shape[1])

    def transform(self, X: Any) -> Array:
        """(n, T, k) smoothed states of public sequences."""
        back, keep = self.parameters_[2:4]
        states = self._filtered(X)[0]
        for t in range(len(keep) - 2, -1, -1):
            states[:, t] = states[:, t] @ keep[t].T + states[:, t + 1] @ back[t].T
        return states
