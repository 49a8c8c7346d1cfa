"""The paper's own private logistic regression: Algorithm 5 of Park et al. 2020."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...checks import check_choice, check_number
from ...engine.model import Model, Release, Schedule
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ...kernels.psd import psd_project
from .estimator import BayesianLogisticRegression
from .model import LogisticOptions, LogisticSettings, LogisticStatistics
from .posterior import cholesky, inverse


@dataclass(frozen=True)
class PaperOptions(LogisticOptions):
    """Options of `PaperLogisticRegression`, after the fields of `LogisticOptions`.

    Parameters
    ----------
    form : {"analyze_gauss", "orthonormal"}
        Noise of s2 off the diagonal: the same as on it (Eq. 58), or 1/sqrt(2) of that, which the Frobenius sensitivity
        needs.
    sensitivity : {"paper", "proven"}
        "paper" takes Eqs. 57 and 59: 2 b R for s1 and b R^2 / 2 for s2. It takes them as if they were one block's, in
        place of ``linear_share``. They are larger than needed, so the stated guarantee covers the fit.
    linear_share : float
        Share of the squared bound of a contribution that s1 may use, with sensitivity="proven".
    learning_decay, learning_offset : float
        kappa and tau_0 of the averaging rate (tau_0 + t)^-kappa, t = 0, 1, …
    """

    intercept_scaling: float | None = 1.0
    form: str = "analyze_gauss"
    sensitivity: str = "paper"
    linear_share: float = 0.5
    learning_decay: float = 0.5
    learning_offset: float = 1.0
    # The article measures nothing.
    measure_gain: bool | None = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("form", self.form, ("analyze_gauss", "orthonormal"))
        check_choice("sensitivity", self.sensitivity, ("paper", "proven"))
        check_number("linear_share", self.linear_share, 0, 1, low_open=True, high_open=True)
        check_number("learning_decay", self.learning_decay, 0, 1)
        check_number("learning_offset", self.learning_offset, 0, 2**53)


class PaperLogisticRegression(BayesianLogisticRegression):
    """`BayesianLogisticRegression` in the paper's form; `BayesianLogisticRegression.paper` makes one."""

    _options_type: ClassVar[type] = PaperOptions
    _most_classes: ClassVar[int] = 2
    _covariances: ClassVar[tuple[str, ...]] = ("full",)

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        options = self._options
        if options.sensitivity == "paper" and public.unit != "record":
            raise ValueError("groups: expected None with sensitivity='paper', which is about records of one row")
        return AlgorithmFive(public, self._model_settings(schedule))

    def _sensitivity(self, model: Model, relation: str) -> float | None:
        # Each block's own sensitivity is its unit.
        return 1.0 if self._options.sensitivity == "paper" else None


class AlgorithmFive(LogisticStatistics):
    """Running averages of projected statistics, ignoring noise (Eqs. 51-55).

    There is no center: s1 = (y - b/2) x. Negative eigenvalues of each noised s2 go to 0, and the natural parameters
    move by rho_t.

    Notes
    -----
    *Replacing a record.* |s1|/C1 <= a and |s2|/C2 <= c for every record. For a share of the squared bound a^2 + c^2 =
    1. For the paper's scales (2 b R and b R^2 / 2) a = 1/4 and c = 1/2. Let two records be (p u, q u u^T) and (p' u',
    q' u' u'^T). Here |u| = |u'| = 1, u . u' = t, |p|, |p'| <= a, 0 <= q, q' <= c. Then |difference|^2 = p^2 + p'^2 - 2
    p p' t + q^2 + q'^2 - 2 q q' t^2 <= 2 a^2 (1 + |t|) + q^2 + q'^2 - 2 q q' t^2. That is convex in q and in q', so the
    largest is at (c, c) or (c, 0). The largest over t is B^2. It is max{2 a^2 + 2 c^2 + a^4/(2 c^2) if a^2 <= 2 c^2
    else 4 a^2, 4 a^2 + c^2}.

    *Truncation.* B is about directions that both parts have in common, which truncation changes a little. It does so by
    less than g in an entry of s1/C1 and h in one of f, |f|^2 <= clip. So it changes a contribution by less than sqrt(d)
    (g + 2 h sqrt(clip)). Twice that (and a hundredth of it for rounding in double precision, below 2^-38 of the clip)
    is part of the slack e of `LogisticStatistics`. It is absorbed as there.
    """

    label_free = False
    options: PaperOptions
    kept: ClassVar[dict[str, str]] = {**LogisticStatistics.kept, "first": "_first", "second": "_second"}

    def __init__(self, public: Public, settings: LogisticSettings):
        assert isinstance(settings.options, PaperOptions)
        share = settings.options.linear_share
        self._bounds = math.sqrt(share), math.sqrt(1 - share)
        if settings.options.sensitivity == "paper":
            self._bounds, self.clip = (1 / 4, 1 / 2), math.hypot(1 / 4, 1 / 2)
        super().__init__(public, settings)
        self.off_diagonal = math.sqrt(2.0) if settings.options.form == "orthonormal" else 1.0
        self._first, self._second = np.zeros(self.n_features), np.zeros((self.n_features, self.n_features))

    def _blocks(self, first: bool) -> tuple[float, float]:
        return self._bounds

    def _around(self) -> tuple[np.ndarray | None, None]:
        return self._covariance + np.outer(self.point, self.point) if self.step else None, None

    def sensitivity(self, relation: str) -> float:
        """Return the clip to add or remove, twice to replace units of several rows; of one row see the notes."""
        if relation == "add_remove" or not self.private or not self._of_records:
            return super().sensitivity(relation)
        return replace_one_bound(*self._bounds)

    def _slack(self, spacing: float) -> float:
        truncation = math.sqrt(self.n_features) * (spacing + 2 * self._grid * math.sqrt(self.clip))
        return super()._slack(spacing) + 2.01 * truncation

    def _update(self, release: Release) -> None:
        linear, quadratic = self.lattice.scale_linear, self.lattice.scale_quadratic
        values, options = release.values, self.options
        rate = Schedule(float(options.learning_offset), float(options.learning_decay)).rate(self.step)
        self._first += rate * (values[: self.n_features] * (self._n * linear) - self._first)
        self._second += rate * (psd_project(self._unpack(values)) * (self._n * quadratic) - self._second)
        precision = self._second.copy()
        precision.flat[:: self.n_features + 1] += self._prior[0] / self._prior[1]
        covariance = inverse(cholesky(precision))
        mean = covariance @ self._first
        self._mean, self._covariance = mean, covariance
        prior_rate = options.prior_rate + 0.5 * (mean @ mean + np.trace(covariance))
        self._prior = options.prior_shape + self.n_features / 2, float(prior_rate)
        self.step, self.point = self.step + 1, mean


def replace_one_bound(a: float, c: float) -> float:
    """Bound the distance of two records' statistics. Their parts are at most a and c; see `AlgorithmFive`."""
    both = 2 * a * a + 2 * c * c + a**4 / (2 * c * c) if a * a <= 2 * c * c else 4 * a * a
    return math.sqrt(max(both, 4 * a * a + c * c))
