"""Mixture of round Gaussians: who answers alike, what points or documents belong together.

One model serves rows of 0 and 1, numbers and sentence vectors (docs/mixtures.md has the measurements): a component has
a center, and all share one variance. So a release has few entries, and its noise is small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from scipy.special import logsumexp

from ..checks import check_number
from ..data.arrays import check_new_records, dense_array
from ..data.schema import Schema
from ..data.types import Array, Cells, Column, Data, Labels, Matrix, Vector
from ..engine.gain import GainScore, RowScore
from ..engine.model import Model, Schedule
from ..engine.plan import RunForecast, RunSchedule
from ..engine.result import Public
from ..engine.units import GOLDEN, scramble
from ..kernels import native
from ..kernels.threads import zeros_on_line
from .conjugate import ConjugateEstimator, check_bound, parameter
from .conjugate.block import Arrays, Bounds
from .family import SCHEMA
from .forecast import by_signal, noise_of_mean
from .readouts import Attribute

#: Grid of a vector's and of public entries, as shares of their largest. Products are integers of at most 40 bits. Sums
#: of up to 2^13 of them are exact in doubles, in any order.
GRID = 2.0**20
MOST_COLUMNS = 2**13

#: Rows that the kernel takes at a time. Their number changes no bit.
_ROWS = 64

#: Limits of a mixture's signal. Below the first no run found clusters that are far apart. From the second on most
#: found some.
_LEAST_SIGNAL, _ENOUGH_SIGNAL = 1.5, 6.0
#: Standard deviations of its noise by which the released number of rows of a unit differs from 1 if it is not 1.
_CLEAR = 4.0


class MixtureStatistics:
    """The kernels of a mixture, as `ConjugateModel` calls them; csrc/conjugate/mixture.c says what they compute."""

    def workspace(self, n_columns: int, n_statistics: int) -> Arrays:
        return zeros_on_line((n_statistics, _ROWS), np.float64), zeros_on_line(n_statistics, np.float64)

    def add(self, units: Arrays, parameters: Arrays, bounds: Bounds, work: Arrays, sums: np.ndarray) -> np.ndarray:
        (records, starts), counts = units, np.zeros(2, np.int64)
        constant, linear, weight = self._density(parameters, records.shape[1], len(sums))
        columns, carry = work
        native.mixture_units(*bounds, starts, records, constant, linear, weight, columns, carry, counts, sums)
        return counts

    def evaluate(self, records: np.ndarray, parameters: Arrays, n_statistics: int) -> np.ndarray:
        constant, linear, weight = self._density(parameters, records.shape[1], n_statistics)
        values, columns = np.empty((len(records), n_statistics)), np.empty((n_statistics, _ROWS))
        for first in range(0, len(records), _ROWS):
            part = np.ascontiguousarray(records[first : first + _ROWS], dtype=np.float64)
            native.mixture_rows(part, constant, linear, weight, columns)
            values[first : first + _ROWS] = columns[:, : len(part)].T
        return values

    @staticmethod
    def _density(parameters: Arrays, n_columns: int, n_statistics: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Return constant, linear and w: the log of a weighted density at x is constant + linear x, and a term."""
        k, shapes = (n_statistics - 1) // (1 + n_columns), [array.shape for array in parameters[:3]]
        if shapes != [(k,), (k, n_columns), (1,)] or n_statistics != k * (1 + n_columns) + 1:
            given = f"parameters of shapes {shapes} for {n_statistics} statistics of {n_columns} columns"
            raise ValueError(f"{given}: expected (K,), (K, d), (1,) and K (1 + d) + 1, or statistics of your own")
        return parameters[0], parameters[1], float(parameters[2][0])


@dataclass(kw_only=True, repr=False, eq=False)
class Mixture(ConjugateEstimator):
    """Mixture of round Gaussians that share one variance, over records whose L2 norm is at most 1.

    Notes
    -----
    *Sensitivity.* Take a record x with a = ||x|| <= 1 (a longer one is scaled down), and responsibilities r. The
    statistics are the blocks (w r_k), (r_k x_j) and (w a^2), with public w^2 = 1 / (2 sqrt(d)) <= 1/2. As sum_k r_k^2
    <= 1, the squared norm is at most w^2 + 1 + w^2 = C^2. It is reached by a record of norm 1 in one certain component.
    So C is the sensitivity to adding or removing a record. The w is where the noise of a count and of a center do equal
    harm to a center half way to 1.

    *Replacing a record.* Contributions of norm at most c are at most 2 c / C apart, so replacing costs 2. Let u = (w n,
    M, w E) be such a contribution: any sum over rows i, each times a number l_i >= 0. So n_k = sum_i l_i r_ik, and with
    e_k = sum_i l_i r_ik a_i^2 it is E = sum_k e_k >= ||e||. By Cauchy and Schwarz ||M_k|| <= sum_i l_i r_ik a_i <=
    sqrt(n_k e_k). So ||M||^2 <= sum_k n_k e_k <= ||n|| E <= (||n||^2 + E^2) / 2, and c^2 >= ||u||^2 = w^2 (||n||^2 +
    E^2) + ||M||^2 >= C^2 ||M||^2. Let v = (w n', M', w E') be another one. Then -M.M' is at most ||M|| ||M'|| <= c^2 /
    C^2. It is also at most sum_k sqrt(n_k e_k n'_k e'_k) <= (n.n' + e.e') / 2 <= (n.n' + E E') / 2. Take 1 - 2 w^2 of
    the first and 2 w^2 of the second bound: ||u - v||^2 = ||u||^2 + ||v||^2 - 2 w^2 (n.n' + E E') - 2 M.M' <= 2 c^2 + 2
    (1 - 2 w^2) c^2 / C^2 = (2 c / C)^2. It is reached by x and -x of norm 1 in one certain component.
    `ConjugateModel` charges the rounding.

    The noise of a release is known, and taken out. The length that it adds to a center is subtracted (James & Stein
    1961). Each center moves towards the mean of all records by the share of its squared distance that is noise.
    """

    n_components: int = field(default=10, kw_only=False)

    #: Whether the last step of a private fit measures a finished mixture in place of improving it (``found_gain_``).
    #: None measures runs of at least 10 steps; False measures none.
    measure_gain: ClassVar[bool | None] = None

    _kernel = MixtureStatistics()

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * (1 + n_columns) + 1

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(1.0 + 2.0 * count_weight(n_columns) ** 2) * (1 + 1e-12)  # the bound, and rounding

    def _apart(self, n_columns: int) -> float:
        # The proof is about these statistics, with their bound and the w that start and M-step hand to them. A model of
        # your own may change any of these, and so may functions set on one object: it is held to its norm alone.
        own = vars(self).keys() & {"norm_bound", "start", "mstep", "_parameters"}
        ours = type(self).__module__.startswith(f"{__package__}.") and not own
        return 2.0 / self.norm_bound(n_columns) if ours else super()._apart(n_columns)

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        k, d = self.n_components, n_columns
        means = rng.normal(0, 1, (k, d)) * (0.5 / math.sqrt(d))
        return self._parameters(np.full(k, 1.0 / k), means, 0.25 / d)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, n, d = self.n_components, self.n_records_, self.n_columns_
        weight = count_weight(d)
        mean, noise_sd = self._of_rows(mean, noise_sd)
        counts = np.maximum(mean[:k] / weight, 0.0)  # noise may have taken a count below 0
        counts = counts / counts.sum() if counts.sum() > 0 else np.full(k, 1.0 / k)  # responsibilities add up to 1
        first = mean[k : k + k * d].reshape(k, d)
        held = np.maximum(counts, max(noise_sd / weight, 1.0 / n))[:, None]
        center = first.sum(axis=0)
        apart = first / held - center
        square = (apart**2).sum(axis=1, keepdims=True)
        noise = d * (noise_sd / held) ** 2
        kept = np.maximum(1.0 - noise / np.maximum(square, 1e-300), 0.0)
        means = center + kept * apart
        means /= np.maximum(np.sqrt((means**2).sum(axis=1, keepdims=True)), 1.0)
        # What is left of the mean squared length between centers, whose noise is taken out of it too.
        energy = np.clip(mean[k + k * d] / weight, 0.0, 1.0)
        between = (counts[:, None] * kept * square).sum() + center @ center
        variance = max(energy - between, 0.05 * energy, 1e-6) / d
        weights = (1.0 + n * counts) / (k + n)  # with a Dirichlet prior of ones
        return self._parameters(weights, means, variance)

    def _of_rows(self, mean: Vector, noise_sd: float) -> tuple[Vector, float]:
        """Divide a mean over units, and its noise, by the rows of a unit that the release tells.

        Responsibilities add up to 1 in a row. So they do in a unit of one row, and the mean is left as it is, unless
        units have several rows, or `n_records` is not their number, clear of the noise.
        """
        k, weight = self.n_components, count_weight(self.n_columns_)
        rows = float(mean[:k].sum() / weight)
        if rows <= 0.0 or abs(rows - 1.0) <= _CLEAR * math.sqrt(k) * noise_sd / weight + 1e-6:
            return mean, noise_sd
        return mean / rows, noise_sd / rows

    def _parameters(self, weights: np.ndarray, means: np.ndarray, variance: float) -> tuple[Any, ...]:
        """Make the E-step's parameters, then weights, means and variance."""
        constant = np.log(weights) - (means**2).sum(axis=1) / (2 * variance)
        return constant, means / variance, [count_weight(means.shape[1])], weights, means, [variance]

    def _rows(self, X: Data, y: Column | None) -> np.ndarray:
        """Check that X are numbers, (n, d), and that there is no y."""
        rows = dense_array(X, "X", self._options.invalid == "drop")
        if rows.ndim != 2 or rows.shape[1] == 0 or rows.dtype.kind not in "biuf":
            raise ValueError(f"X has shape {rows.shape} and dtype {rows.dtype}: expected numbers, (n, d), d >= 1")
        if y is not None:
            raise ValueError("y: expected None")
        return rows

    def _noise_of_mean(self, schedule: RunSchedule, model: Model) -> float:
        """Compute the noise in an averaged mean's entry; 0 without privacy."""
        rate = Schedule(1.0, float(self.learning_decay))
        return noise_of_mean(schedule, model, rate, schedule.n_steps - schedule.measured) if self.private else 0.0

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        noise = self._noise_of_mean(schedule, model)
        if not noise or self.n_components == 1:
            return None
        # A component has one record of K, and the noise of all columns stands against its center.
        signal = 1.0 / (noise * self.n_components * (public.n_columns or 1) ** 0.5)
        return by_signal(signal, _LEAST_SIGNAL, _ENOUGH_SIGNAL, "clusters")

    def gain_score(self, parameters: tuple[Array, ...]) -> GainScore:
        n_columns, text = parameters[4].shape[1], (self._public or self._fitted().public).inputs.get(SCHEMA)
        encoded = Schema.parse(text).changes if text is not None else ()
        # Projected rows have no column of the schema's.
        same = len(encoded) == n_columns and getattr(self, "projection", None) is None
        return ColumnPrediction(parameters, [one.beside[0] for one in encoded] if same else range(n_columns))

    # ------------------------------------------------------------ read-outs

    weights_ = parameter(3, "(K,) weights.")

    means_ = parameter(4, "(K, d) centers.")

    def predict_proba(self, X: Any) -> Matrix:
        """Compute (n, K) responsibilities of public records."""
        r = self.expected_statistics(X)[:, : self.n_components]
        check_new_records(X, dense_array(X, "X", True))
        return cast(Matrix, r / r.sum(axis=1, keepdims=True))

    def predict(self, X: Data) -> Labels:
        """Find the likeliest component of each public record, (n,), from 0."""
        return cast(Labels, self.predict_proba(X).argmax(axis=1))


@dataclass(kw_only=True, repr=False, eq=False)
class GaussianMixture(Mixture):
    """Clusters of records: survey answers, numbers or sentence vectors.

    It is a mixture of round Gaussians that share one variance. `vips_fast.DocumentClusters` tells the words of clusters
    too, where public vectors are at hand.

    Parameters
    ----------
    n_components : int
    radius : float
        Public R: records are scaled down to an L2 norm of at most R, after the projection. For m questions with a
        column of 0 and 1 for each choice it is ``m**0.5``; a record with more ones weighs less.
    projection : int, (D, d) array or None
        Public matrix that X of D columns is multiplied by. It is an array; or the number d of dimensions, for a random
        orthonormal frame. The frame depends only on D and d, times sqrt(D / d), so that lengths stay as they are on
        average. Or it is None, which takes X as it is. The noise of a center grows with sqrt(d): 16 to 64 are usual.
    **options
        Of `ConjugateEstimator`.

    Notes
    -----
    `Mixture` has the statistics of a projected record over R, and the proof of their bound. Projecting is exact
    (`exact_product`), so a record's projection is the same bits in any company. Multiplying matrices is no door around
    the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import GaussianMixture
    >>> answers = np.tile([[1, 1, 0, 0], [0, 0, 1, 1]], (3000, 1))
    >>> model = GaussianMixture(2, radius=2**0.5, epsilon=2.0, random_state=0).fit(answers)
    >>> np.sort(np.abs(model.means_[:, 0])).round(1).tolist()
    [0.0, 1.0]
    >>> model.predict_proba(answers[:2]).shape, bool(model.score(answers) > 0.0)
    ((2, 2), True)
    """

    radius: float = 1.0
    projection: Any = None

    def check_parameters(self) -> None:
        super().check_parameters()
        check_bound("radius", self.radius)
        if self.projection is not None:
            matrix = np.asarray(self.projection)
            if matrix.ndim == 0:
                check_number("projection", self.projection, 1, MOST_COLUMNS, integer=True)
            elif matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "iuf":
                raise ValueError(f"projection has shape {matrix.shape}: expected (D, d), a number d, or None")
            elif not np.isfinite(matrix).all() or not 1e-100 < abs(matrix).max() < 1e100:
                raise ValueError("projection: expected finite numbers, not all of them 0")

    def records(self, X: Data, y: Column | None = None) -> Cells:
        """Return projected records over the radius, float32."""
        return self._projected(np.ascontiguousarray(self._rows(X, y), dtype=np.float64))

    def _projected(self, rows: np.ndarray) -> np.ndarray:
        """Project rows to d numbers. Each step but the product acts on single rows, and the product is exact."""
        with np.errstate(all="ignore"):  # a warning would tell of a value
            if self.projection is not None:
                finite = np.isfinite(rows).all(axis=1, keepdims=True)
                rows = np.where(finite, exact_product(rows, self._matrix(rows.shape[1])), np.nan)
            return np.asarray((rows / self.radius).astype(np.float32))

    def _matrix(self, n_columns: int) -> np.ndarray:
        matrix = np.asarray(self.projection)
        if matrix.ndim == 0:
            d = int(matrix)
            if d > n_columns:
                raise ValueError(f"projection={d}: expected at most the {n_columns} columns of X")
            normal = np.random.default_rng([n_columns, d]).standard_normal((n_columns, d))
            matrix = np.linalg.qr(normal)[0] * math.sqrt(n_columns / d)
        if len(matrix) != n_columns:
            raise ValueError(f"X has {n_columns} columns: expected {len(matrix)}, the rows of projection")
        if n_columns > MOST_COLUMNS:
            raise ValueError(f"X has {n_columns} columns: expected at most {MOST_COLUMNS} for a projection")
        return matrix.astype(np.float64)

    means_ = Attribute[Matrix](
        lambda self: self.parameters_[4] * self.radius,
        doc="(K, d) centers, in the units of X; of projected records if there is a projection.",
    )

    @property
    def variance_(self) -> float:
        """The variance of each column around its center, in these units."""
        return float(self.parameters_[5][0]) * self.radius**2

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the mean log-density of public records, in nats, under the expected parameters.

        Records are projected, but not scaled down.
        """
        rows = np.asarray(self.records(self._held(X)), np.float64) * self.radius
        means, variance = self.means_, self.variance_
        squares = (rows**2).sum(axis=1)[:, None] - 2.0 * rows @ means.T + (means**2).sum(axis=1)
        log = logsumexp(np.log(self.weights_) - squares / (2.0 * variance), axis=1)
        return float(log.mean() - 0.5 * means.shape[1] * math.log(2 * math.pi * variance))


def exact_product(rows: Matrix, matrix: Matrix) -> Matrix:
    """Multiply exactly, but for a truncation of each factor to a grid.

    Notes
    -----
    *Purity.* Products of entries are integers, and sums of these stay below 2^53. So a row of the product has the same
    bits in any company.
    """
    with np.errstate(all="ignore"):  # a warning would tell of a value
        unit = np.abs(matrix).max() / GRID
        largest = np.abs(rows).max(axis=1, keepdims=True)
        largest = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
        whole = np.trunc(np.nan_to_num(rows / largest) * GRID)
        return cast(Matrix, whole @ np.trunc(matrix / unit) * (largest * (unit / GRID)))


def count_weight(n_columns: int) -> float:
    """Return w of `Mixture`."""
    return float((4.0 * n_columns) ** -0.25)


class ColumnPrediction(RowScore):
    """Contributions to a score of mixture components.

    Each column is in the known half by a bit of the row's random word; all ``questions``, (d,), of one number together,
    as the columns of a category's values: one of them tells the others. The known half gives the responsibilities of
    the components, and these the mean of each other column. The nats compare its squared error with that of the
    released mean of all records, over twice the columns' variance. (The components' densities fit no column of 0 and 1:
    of the variance that columns share they make too much where a value is rare.) All columns are worked through one by
    one, so that a row's numbers depend on that row only, bit for bit. Rows of a unit are added up.
    """

    def __init__(self, parameters: tuple[np.ndarray, ...], questions: Sequence[int]):
        self._weights, self._means, (self._variance,) = parameters[3:6]
        self._questions, part = questions, (self._weights / self._weights.sum())[:, None]
        self._mean = (part * self._means).sum(axis=0)
        self._total = self._variance + float((part * (self._means - self._mean) ** 2).sum()) / len(self._mean)

    def predict(
        self, records: tuple[np.ndarray, np.ndarray], words: np.ndarray, kept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        array, chosen = records
        points, words = np.array(array[chosen[kept]], np.float64), words[kept]
        square = np.zeros(len(points))
        for j in range(points.shape[1]):
            square += points[:, j] ** 2
        points = points / np.maximum(np.sqrt(square), 1.0)[:, None]
        known = [scramble(words + np.uint64(q + 1) * GOLDEN) >> np.uint64(63) == 0 for q in self._questions]
        held = np.log(self._weights) + np.zeros((len(points), 1))
        for j, own in enumerate(known):
            squares = (points[:, j][:, None] - self._means[:, j]) ** 2
            held += np.where(own[:, None], -squares / (2.0 * self._variance), 0.0)
        shares = np.exp(held - held.max(axis=1, keepdims=True))
        nats, predicted, whole, some = *np.zeros((3, len(points))), np.zeros(len(points), bool)
        for k in range(len(self._weights)):
            whole += shares[:, k]
        for j, own in enumerate(known):
            found = np.zeros(len(points))
            for k, mean in enumerate(self._means[:, j].tolist()):
                found += shares[:, k] / whole * mean
            saved = (points[:, j] - self._mean[j]) ** 2 - (points[:, j] - found) ** 2
            nats += np.where(own, 0.0, saved / (2.0 * self._total))
            predicted += ~own
            some |= own
        return np.where(some, nats, 0.0), np.where(some, predicted, 0.0)
