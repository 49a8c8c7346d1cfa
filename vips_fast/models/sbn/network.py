"""Base of both kinds of bound: a statistic of blocks, rounded once."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...checks import check_choice, check_flag, check_number
from ...engine.averaging import RunningAverage, Schedule
from ...engine.lattice import Fraction, rounded
from ...engine.model import Model, Release, array_of, steps_of
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...mechanisms import GaussianMechanism
from ..estimator import ArraySpec
from .priors import WeightPrior

Scratch = dict[str, Any]  #: Buffers of one thread.
Sums = dict[str, np.ndarray]  #: Sums of each block.
OfRows = np.ndarray | None  #: An entry for each row, or none.

#: Records of a block of the E-step: its arrays stay in a core's second-level cache.
BLOCK = 512

#: Visible units whose K x K systems are solved at a time.
BLOCK_SOLVE = 32


@dataclass(frozen=True)
class NetworkOptions:
    """Numerics of a belief network, which few fits need to change.

    Parameters
    ----------
    weight_variance, bias_variance : float
        Prior variances of the weights (``weight_prior="gaussian"``) and of b and c (nu_b and nu_c).
    phi : float or None
        Scale phi of the shrinkage prior; None learns phi_k and omega.
    n_sweeps : int
        Sweeps of the mean-field update of q(z), each from the same public start.
    learning_decay, learning_offset : float
        kappa and tau_0 of the step size (tau_0 + t)^-kappa of the running average, at most 1. Step t = 0 is the first
        step after the mean image and an offset of None is 0. So the first update, made with random weights, is
        forgotten. With the Polya-Gamma bound t = 0 is the first step and None is 1.
    latent_clip, visible_clip : float
        Bounds of two norms. That of z - E[z] is in units of sqrt(K) / 2 (reached by z in {0, 1} around 1/2). The one of
        y - E[y] is in units of the root mean square sqrt(sum_j m_j (1 - m_j)) that the released mean image m implies. A
        record's contribution is scaled to them. The Polya-Gamma bound does not use them.
    dtype : {"float32", "float64"}
        Precision of the Polya-Gamma E-step, which `score` uses under every bound.
    measure_gain : bool or None
        Whether the last step of a private `fit` measures the finished network in place of improving it. Then
        ``found_gain_`` says how well half of a record's columns predict the other half. It costs no epsilon. None
        measures runs of at least 10 steps. The Polya-Gamma bound measures nothing.
    """

    weight_variance: float = 1.0
    bias_variance: float = 100.0
    phi: float | None = None
    n_sweeps: int = 4
    learning_decay: float = 1.0
    learning_offset: float | None = None
    latent_clip: float = 0.9
    visible_clip: float = 1.15
    dtype: str = "float32"
    measure_gain: bool | None = None

    def check(self) -> None:
        """Raise a ValueError for a number out of its range."""
        for name in ("weight_variance", "bias_variance", *(["phi"] if self.phi is not None else [])):
            check_number(name, getattr(self, name), 0, 1e12, low_open=True)
        check_number("n_sweeps", self.n_sweeps, 1, 2**31 - 1, integer=True)
        check_number("learning_decay", self.learning_decay, 0, 1)
        check_number("learning_offset", self.learning_offset, 0, math.inf, high_open=True, optional=True)
        check_number("latent_clip", self.latent_clip, 0, 2, low_open=True)
        check_number("visible_clip", self.visible_clip, 0, 100, low_open=True)
        check_choice("dtype", self.dtype, ("float32", "float64"))
        if self.measure_gain is not None:
            check_flag("measure_gain", self.measure_gain)


@dataclass(frozen=True)
class Settings:
    """Settings that a model takes from its estimator."""

    n_hidden: int
    weight_prior: str
    options: NetworkOptions
    private: bool
    n_threads: int
    joint: bool  # whether a unit contributes several rows together


class NetworkModel(Model):
    """A statistic of several blocks, each over its norm's bound.

    Notes
    -----
    *Rounding.* A block of the statistic is a multiplier times the value of its fine integers. The multipliers hold the
    factor retained = 1 - slack / clip. The slack is a little more than sqrt(d) g for d entries on a lattice of spacing
    g. Let D be the distance that neighbors could reach without that factor: `sensitivity`, at least ``clip``. Sums of
    neighbors are then at most retained D apart, whatever the records, since the factor shrinks every contribution and
    not only clipped ones. Each is rounded once, exactly, from its exact fine sum: in each coordinate the distance grows
    by at most one lattice unit. So the rounded sums are at most retained D + sqrt(d) g <= D - slack + sqrt(d) g <= D
    apart. Slack passes sqrt(d) g by a thousandth, and g is at least 2^-31 of the clip. That is far more than the error
    of the multipliers in double precision. As the multipliers are rounded *down* to fractions p / 2^k, the statistics
    read back are divided by those fractions themselves.

    *Units of several rows.* Sums are read as means per unit, and nothing in them tells how many rows they hold. So,
    unless a model says otherwise, each of a unit's m rows weighs 1/m. The unit contributes the mean of its rows'
    contributions as records: a point of the convex hull of records' contributions. No norm and no distance of two
    points is larger there than among records. All that is proven of records then holds of units, whatever m. The weight
    enters before truncation, which makes no norm larger; its own rounding, below 2^-52, is covered by the thousandth of
    slack.
    """

    clip = 1.0
    #: Released probabilities stay this far from 0 and 1.
    least_pixel, least_hidden = 1e-3, 0.02
    at_root: ClassVar[tuple[str, ...]] = ("start_weights", "prior", "_average", "variances", "c_variance")
    #: The published arrays, and the attributes that hold them; those with two axes of units lie the other way there.
    published: ClassVar[dict[str, str]]

    def __init__(
        self, settings: Settings, public: Public, blocks: Mapping[str, int], first_offset: float, n_averaged: int
    ):
        self.settings, self.options = settings, settings.options
        self.n_visible, self.n_hidden, self.n_records = public.n_features, settings.n_hidden, public.n_records
        offset = first_offset if self.options.learning_offset is None else float(self.options.learning_offset)
        self._schedule = Schedule(offset, float(self.options.learning_decay))
        self._average = RunningAverage(np.zeros(n_averaged))
        self.step = 0
        #: Where each block of the statistic lies.
        self.blocks: dict[str, slice] = {}
        first = 0
        for name, size in blocks.items():
            self.blocks[name] = slice(first, first + size)
            first += size
        self.shape = (first,)
        self.prior = WeightPrior(
            settings.weight_prior, self.n_visible, self.n_hidden, self.options.weight_variance, self.options.phi
        )
        self.start_weights = np.random.default_rng(public.seed).standard_normal((self.n_visible, self.n_hidden))
        self.retained, self.spacing = 1.0, 1.0

    @abstractmethod
    def multiplier(self, name: str) -> float:
        """Return the statistic that one natural unit of a block gives."""

    @abstractmethod
    def unit(self, name: str) -> float:
        """Return a fine integer's value in natural units.

        It is a power of two, for each block.
        """

    @abstractmethod
    def parts(self, fine: np.ndarray) -> dict[str, np.ndarray]:
        """Return each block's exact integers, from the fine sums; linear."""

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Lower the bounds by the error of rounding to the lattice."""
        self.retained, self.spacing = share_after_rounding(self, mechanism), mechanism.spacing

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """Round exact sums times their multipliers to the lattice."""
        out = np.zeros(self.shape, dtype=np.int64)
        for name, part in self.parts(fine).items():
            out[self.blocks[name]] = rounded(part.reshape(-1), self._fraction(name, spacing))
        return out

    def _fraction(self, name: str, spacing: float) -> Fraction:
        return Fraction.below(self.multiplier(name) * self.unit(name) / spacing)

    def exact_multiplier(self, name: str) -> float:
        """Find the fraction just below `multiplier` that `round` uses."""
        return self._fraction(name, self.spacing).value * (self.spacing / self.unit(name))

    def read(self, release: Release, name: str) -> np.ndarray:
        """Compute a block's noised mean per record, in natural units."""
        return release.units[self.blocks[name]] * (release.scale / self.exact_multiplier(name))

    @classmethod
    def specs(cls, n_visible: int, n_hidden: int) -> dict[str, ArraySpec]:
        """Return shape and range of each published array."""
        J, K = n_visible, n_hidden
        every = {
            "components": ArraySpec((K, J)),
            "weight_variances": ArraySpec((K, J), 0.0),
            "weight_covariance": ArraySpec((K, K)),
            "hidden_bias": ArraySpec((K,)),
            "hidden_covariance": ArraySpec((K, K), -0.25, 0.25),
            "visible_bias": ArraySpec((J,)),
            "visible_variance": ArraySpec((J,), 0.0),
            "expansion": ArraySpec((J,)),
            "curvature": ArraySpec((J,), 0.0, 0.25),
            "mean_image": ArraySpec((J,), 0.0, 1.0),
        }
        return {name: every[name] for name in cls.published}

    def result(self) -> dict[str, np.ndarray]:
        return {name: _turn(name, getattr(self, attribute)) for name, attribute in self.published.items()}

    def state(self) -> dict[str, np.ndarray]:
        """Return all inputs of the next step, with the published arrays."""
        return {**self.result(), **self.prior.state(), **self._average.state(), "step": np.array([float(self.step)])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        step, arrays = steps_of(state), {}
        for name, spec in self.specs(self.n_visible, self.n_hidden).items():
            arrays[name] = array_of(state, name, spec.shape)
            if not spec.low <= arrays[name].min() <= arrays[name].max() <= spec.high:
                raise ValueError(f"state: {name!r} is out of its range")
        self.prior.restore(state)
        self._average.restore(state)
        for name, attribute in self.published.items():
            setattr(self, attribute, _turn(name, arrays[name]))
        self.step = step


def _turn(name: str, array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.T) if name in ("components", "weight_variances") else array


def share_after_rounding(model: Model, mechanism: GaussianMechanism) -> float:
    """Compute the factor retained of `NetworkModel`."""
    slack = 1.001 * math.sqrt(model.shape[0]) * mechanism.spacing
    if slack > 0.5 * model.clip:
        raise ValueError("noise_multiplier: too large for the number of statistics; expected less noise a step")
    return 1.0 - slack / model.clip


def row_weights(starts: np.ndarray | None) -> np.ndarray | None:
    """Weigh each row of a unit of m rows by 1/m.

    None if m is always 1.
    """
    sizes = np.diff([0] if starts is None else starts)
    if sizes.max(initial=0) <= 1:
        return None
    return 1.0 / np.repeat(sizes, sizes)
