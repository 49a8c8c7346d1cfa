"""Textbook mechanisms: each returns a release together with its event.

Float noise of the usual samplers leaks (Mironov 2012), so no float is noised here. Values are truncated to a
power-of-two lattice, the sensitivity grows by the error of truncation, and the noise is an exactly rounded sample.
Rounding an integer plus a continuous sample is post-processing of the continuous mechanism. So the event's bounds hold
word for word. Random bits come from the operating system; there is no seed.

``value`` is finite, of any shape. ``sensitivity`` > 0 is its L1 (Laplace) or L2 (Gaussian) sensitivity under
``relation``, "add_remove", "replace_one" or None. ``noise_multiplier`` is the scale of the noise, or its standard
deviation, over the sensitivity. Released arrays are float64 of the shape of ``value``, multiples of a power of two.
"""

import math
import os
import secrets
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vips_fast.accounting.checks import non_negative, positive
from vips_fast.accounting.events import GaussianEvent, LaplaceEvent, RandomizedResponseEvent
from vips_fast.mechanisms import GaussianMechanism

# Lattice steps in one noise scale: rounding is far below the noise, and d coordinates raise the sensitivity by d 2^-28
# of it only.
_STEPS_PER_SCALE = 28


def _finite(value: ArrayLike) -> NDArray[np.float64]:
    value = np.asarray(value, dtype=np.float64)
    # The message must not hold the private values.
    if not np.all(np.isfinite(value)):
        raise ValueError("value must be finite")
    return value


def bernoulli_exp(a: int, b: int) -> bool:
    """Draw True with probability e^(-a/b) (Canonne et al. 2020, alg. 1).

    The first k with a failed Bernoulli(a / (b k)) is odd with probability exp(-a / b).
    """
    k = 1
    while secrets.randbelow(b * k) < a:
        k += 1
    return k % 2 == 1


def _exponential_floor(scale: int) -> int:
    """Draw floor of an exponential variate with integer mean `scale`, exactly.

    Let u be uniform below `scale`, accepted with probability exp(-u / scale), and v geometric with ratio 1/e. Then u +
    scale v has mass proportional to exp(-(u + scale v) / scale).
    """
    u = secrets.randbelow(scale)
    while not bernoulli_exp(u, scale):
        u = secrets.randbelow(scale)
    v = 0
    while bernoulli_exp(1, 1):
        v += 1
    return u + scale * v


def rounded_laplace(scale: int) -> int:
    """Draw a Laplace variate of integer scale, rounded exactly.

    For the exponential magnitude E of scale t, P(E >= 1/2) = exp(-1/(2t)). Given that, E - 1/2 is exponential again,
    and rounding E is 1 + its floor.
    """
    if not bernoulli_exp(1, 2 * scale):
        return 0
    magnitude = 1 + _exponential_floor(scale)
    return magnitude if secrets.randbits(1) else -magnitude


def laplace_mechanism(
    value: ArrayLike, sensitivity: float, noise_multiplier: float, relation: str | None = None
) -> tuple[NDArray[np.float64], LaplaceEvent]:
    """Apply the Laplace mechanism: (1 / noise_multiplier)-DP.

    Source: Dwork & Roth 2014, theorem 3.6. The scale counts sensitivity + d g, because truncation to the
    lattice with spacing g can move each of the d coordinates by g. About 30 microseconds a coordinate.
    """
    event = LaplaceEvent(noise_multiplier, relation)
    sensitivity = positive("sensitivity", sensitivity)
    value = _finite(value)
    scale = event.noise_multiplier * sensitivity
    spacing = math.ldexp(1.0, math.frexp(scale)[1] - _STEPS_PER_SCALE)
    # Integer scale in lattice units, for the sensitivity after truncation.
    moved = Fraction(sensitivity) + value.size * Fraction(spacing)
    steps = math.ceil(Fraction(event.noise_multiplier) * moved / Fraction(spacing))
    units = np.trunc(value / spacing)
    noised = [int(u) + rounded_laplace(steps) for u in units.ravel().tolist()]
    # Scaling by a power of two is exact; the conversion rounds the released integer, which is post-processing.
    released = np.array([float(n) for n in noised]).reshape(value.shape) * spacing
    return released, event


def gaussian_mechanism(
    value: ArrayLike, sensitivity: float, noise_multiplier: float, relation: str | None = None
) -> tuple[NDArray[np.float64], GaussianEvent]:
    """Apply the Gaussian mechanism, noise_multiplier in (0, 2^20].

    Calibrate with `gaussian_noise_multiplier` (Balle & Wang 2018); the classical sqrt(2 ln(1.25 / delta)) / epsilon is
    proven for epsilon < 1 only. The standard deviation counts sensitivity + sqrt(d) g for the truncation of d
    coordinates to the lattice with spacing g.
    """
    event = GaussianEvent(noise_multiplier, relation)
    sensitivity = positive("sensitivity", sensitivity)
    if event.noise_multiplier > 2.0**20:
        raise ValueError(f"noise_multiplier must be <= 2^20, got {noise_multiplier!r}")
    value = _finite(value)

    def mechanism(moved: float) -> GaussianMechanism:
        return GaussianMechanism(event.noise_multiplier, moved, moved)

    # The spacing depends on the sensitivity and the other way round. So take the spacing of twice the sensitivity,
    # which is not smaller, to charge for it.
    coarse = mechanism(2.0 * sensitivity).spacing
    moved = sensitivity + math.sqrt(value.size) * coarse * (1.0 + 1e-15)
    if moved > 2.0 * sensitivity:
        raise ValueError(f"value has {value.size} coordinates, too many for this sensitivity and noise")
    final = mechanism(moved)
    units = np.trunc(value / final.spacing)
    if not np.all(np.abs(units) < 2.0**62):
        raise OverflowError("value is too large for this sensitivity and noise")
    sums = np.ascontiguousarray(units.astype(np.int64).reshape(-1))
    final.add_noise(sums, None)
    return np.asarray(sums * final.spacing).reshape(value.shape), event


def randomized_response_truth_probability(epsilon: float, n_categories: int = 2) -> float:
    """Compute the true answer's probability in K-ary response.

    It is e^eps / (K - 1 + e^eps). Rounded down, so that the response is never less private than `epsilon` says.
    """
    epsilon = non_negative("epsilon", epsilon)
    k = RandomizedResponseEvent(0.5, n_categories).n_categories
    p = 1.0 / (1.0 + (k - 1) * math.exp(-epsilon))
    p = max(p, 1.0 / k)
    while p > 1.0 / k and RandomizedResponseEvent(p, k).epsilon > epsilon:
        p = math.nextafter(p, 0.0)
    return p


def randomized_response(
    categories: ArrayLike, truth_probability: float, n_categories: int = 2
) -> tuple[NDArray[np.int64], RandomizedResponseEvent]:
    """Randomize each individual's K-ary response (Kairouz, Oh & Viswanath 2016, section 3).

    `categories`, integers in [0, K), K = `n_categories` >= 2, are the true ones. Each is reported with
    `truth_probability` in [1 / K, 1), else one of the other K - 1 categories, uniformly. The comparison with 64-bit
    words rounds the probability down, toward privacy. The reports are int64 of the same shape, and the event belongs to
    one individual's response.
    """
    event = RandomizedResponseEvent(truth_probability, n_categories)
    k = event.n_categories
    true = np.asarray(categories)
    if not np.issubdtype(true.dtype, np.integer):
        raise TypeError(f"categories must be integers, got dtype {true.dtype}")
    if true.size and (int(true.min()) < 0 or int(true.max()) >= k):
        raise ValueError(f"categories must be in [0, {k})")
    flat = true.astype(np.int64).ravel()
    threshold = math.floor(Fraction(event.truth_probability) * 2**64)
    truthful = _words(flat.size) < np.uint64(threshold)
    # Uniform shift in 1 .. K - 1; words above the last multiple of K - 1 are redrawn.
    limit = 2**64 - 2**64 % (k - 1)
    words = _words(flat.size)
    if limit < 2**64:
        again = np.flatnonzero(words >= np.uint64(limit))
        while again.size:
            words[again] = _words(again.size)
            again = again[words[again] >= np.uint64(limit)]
    shift = 1 + (words % np.uint64(k - 1)).astype(np.int64)
    reported = np.where(truthful, flat, (flat + shift) % k)
    return reported.reshape(true.shape), event


def secret_permutation(n: int) -> NDArray[np.int64]:
    """Draw a permutation of n places by the operating system's random bits."""
    order = list(range(n))
    secrets.SystemRandom().shuffle(order)
    return np.array(order, dtype=np.int64)


def _words(n: int) -> NDArray[np.uint64]:
    return np.frombuffer(bytearray(os.urandom(8 * n)), dtype=np.uint64)


def randomized_response_frequencies(reported: ArrayLike, event: RandomizedResponseEvent) -> NDArray[np.float64]:
    """Estimate category frequencies (K,) without bias from randomized responses.

    They sum to 1, and entries may be negative. Post-processing.
    """
    k, p = event.n_categories, event.truth_probability
    counts = np.bincount(np.asarray(reported).ravel(), minlength=k)
    other = (1.0 - p) / (k - 1)
    if p == other:
        raise ValueError("responses with truth_probability = 1 / n_categories carry no information")
    return np.asarray((counts / max(1, counts.sum()) - other) / (p - other), dtype=np.float64)
