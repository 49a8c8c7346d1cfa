"""Numerical settings of private logistic regression that few users need."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...checks import check_flag, check_number
from ..parameters import Options


@dataclass(frozen=True)
class LogisticSettings:
    """Settings that a model takes from its estimator; `BayesianLogisticRegression` has the names."""

    constant: float  #: The entry that is appended to each row for the intercept; 0 without one.
    row_norm: float
    n_trials: float
    n_steps: int
    private: bool
    options: "LogisticOptions"


#: Share of the squared contribution bound that goes to the linear statistic. The first is of step one, the second of
#: the others, where both are released around a center.
LINEAR_SHARE = (0.3, 0.95)


@dataclass(frozen=True)
class LogisticOptions(Options):
    """Options of `vips_fast.BayesianLogisticRegression`.

    Parameters
    ----------
    intercept_scaling : float or None
        The constant that is appended to each row for the intercept. It counts in the
        norm: rows are bounded by hypot(row_norm, intercept_scaling). None is 0.3 row_norm, and
        1 with private=False, which has no bound.
    prior_shape, prior_rate : float
        a0 and b0 of alpha's Gamma prior. A spherical q(m) takes their ratio for alpha.
    linear_share : float, pair of float, or None
        How the noise is split. It is the share of the squared bound of a contribution that s1 may use, in the first
        step and in the others (or in all). The noise of s1 has a standard deviation in proportion to share^-1/2, the
        noise of s2 to (1 - share)^-1/2. None is (0.3, 0.95), or (0.3, 0.6) if public numbers say that the noise of s1
        is small. A spherical q(m) has no s2.
    residual_clip : float or None
        A record's s1 is bounded by residual_clip * b * row norm. (The largest that can be is 1.) A weight that does not
        depend on its y does that. At 0.5 and less the weight is in proportion to 1/max(p, 1 - p), p the released
        model's probability for the record. None is 0.5, or 1, so that no record has a weight, if public numbers (of
        records and columns, row_norm, the noise) say that the noise of s1 is small.
    noise_aware : bool
        True makes the posterior of m given the noised statistics. False takes the statistics as if they had no noise
        (Eq. 54), but for eigenvalues that the noise can hide. Not used with covariance="spherical".
    measure_gain : bool or None
        Whether the last step of a private `fit` measures the finished regression in place of improving it. Then
        ``found_gain_`` says how much better the columns predict than the base rate does. It costs no epsilon. None
        measures runs of at least 10 steps. Not used without an intercept, or with covariance="spherical", whose rows
        predict mostly themselves.

    Raises ValueError if an option is out of its range.
    """

    intercept_scaling: float | None = None
    prior_shape: float = 0.01
    prior_rate: float = 0.01
    linear_share: float | Sequence[float] | None = None
    residual_clip: float | None = None
    noise_aware: bool = True
    measure_gain: bool | None = None

    def __post_init__(self) -> None:
        check_number("intercept_scaling", self.intercept_scaling, 1e-12, 1e12, optional=True)
        for name in ("prior_shape", "prior_rate"):
            check_number(name, getattr(self, name), 0, 1e12, low_open=True)
        check_number("residual_clip", self.residual_clip, 0, 1, low_open=True, optional=True)
        check_flag("noise_aware", self.noise_aware)
        if self.measure_gain is not None:
            check_flag("measure_gain", self.measure_gain)
        _ = self.shares  # reading them checks them

    def _default_share(self) -> float | Sequence[float]:
        return LINEAR_SHARE

    @property
    def shares(self) -> tuple[float, float]:
        """The linear statistic's share in the first step and in the others."""
        share = self._default_share() if self.linear_share is None else self.linear_share
        pair = tuple(share) if isinstance(share, (tuple, list)) else (share, share)
        if len(pair) != 2:
            raise ValueError(f"linear_share={share!r}: expected a number or a pair")
        first = check_number("linear_share", pair[0], 0, 1, low_open=True, high_open=True)
        return first, check_number("linear_share", pair[1], 0, 1, low_open=True)
