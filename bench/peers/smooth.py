"""Noise that follows the data: smooth sensitivity and sample-and-aggregate.

Both are of Nissim, Raskhodnikova & Smith (2007), in integers, so that no rounding enters the proof. They are for one
release: the events compose, and no model of this package uses them.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peers.textbook import rounded_laplace, secret_permutation
from vips_fast.accounting.checks import positive
from vips_fast.accounting.events import ApproximateDPEvent

#: Lattice steps of the public range, and the least noise scale in steps, times the inverse of the scales' growth.
_STEPS, _LEAST = 1 << 50, 1 << 10


def growth(epsilon: float, delta: float) -> Fraction:
    """Compute b: noise scales grow by 1 + b at most."""
    return min(Fraction(epsilon), Fraction(2)) / (2 * Fraction(math.log(1 / delta) * (1 + 1e-12) + 1))


def scales(epsilon: float, delta: float, top: int, least: int = _LEAST) -> list[int]:
    """List integer noise scales, up to one that hides the range."""
    b = growth(epsilon, delta)
    found = [least * math.ceil(1 / b)]
    while Fraction(epsilon) * found[-1] < 2 * top:
        found.append(found[-1] + math.floor(found[-1] * b))
    return found


def median_and_scale(units: list[int], top: int, epsilon: float, known: list[int]) -> tuple[int, int]:
    """Find a median of integers in [0, top], and its noise scale.

    Notes
    -----
    Let x be u_1 <= ... <= u_n, with 0 before and ``top`` after them, and m the median's place. Let A_k(x) be the
    largest of u_(m+t) - u_(m+t-k-1) for 0 <= t <= k + 1. It is the most that one replaced record changes the median, of
    all data sets that differ from x in at most k records. So A_0 bounds the change here, and A_k(x) <= A_(k+1)(y) for
    neighbors x and y.

    Let s_0 < s_1 < ... be the known scales, s_(j+1) <= (1 + b) s_j. The scale is s_j for the least j with 2 A_k(x) <=
    epsilon s_(j+k) for all k. Beyond the last scale this holds, because that one hides the range.

    *Proof.* If j is enough for y, then j + 1 is enough for x: 2 A_k(x) <= 2 A_(k+1)(y) <= epsilon s_(j+1+k). So the
    scales of neighbors, s and s', differ by a factor of at most 1 + b. Let W be the Laplace noise of x, |W| / s
    exponential. If s <= s', the density of scale s is at most s'/s <= 1 + b <= e^(epsilon/2) times the one of s'.
    Otherwise it is at most exp(b |W| / s) times that. This exceeds e^(epsilon/2) only if |W| / s > epsilon / (2 b). The
    right side is at least ln(1/delta), so the probability is at most delta. So the noise of x is within (epsilon/2,
    delta) of the noise of y at the same place. Now move the latter from the median of x to the median of y. The
    distance is at most A_0(y) <= epsilon s' / 2, which costs a factor of e^(epsilon/2). Together this is (epsilon,
    delta) for replacing a record; the same holds with x and y exchanged. Rounding to integers is post-processing.
    """
    n, rank = len(units), (len(units) + 1) // 2
    ordered = np.array([0] * (n + 2) + sorted(units) + [top] * (n + 2), dtype=np.int64)
    place, level = n + 1 + rank, 0
    for k in range(min(len(known), n + 1)):
        t = np.arange(k + 2)
        change = int((ordered[place + t] - ordered[place + t - k - 1]).max())
        # The first scale with epsilon s >= 2 change.
        level = max(level, bisect_left(known, math.ceil(2 * change / Fraction(epsilon))) - k)
    return int(ordered[place]), known[min(level, len(known) - 1)]


def smooth_median(
    values: ArrayLike, bounds: tuple[float, float], epsilon: float, delta: float
) -> tuple[float, ApproximateDPEvent]:
    """Release a median with noise that follows the data's smooth sensitivity.

    ``values``, (n,), are one number a record. A value beyond the public ``bounds`` counts as the nearer one, and one
    that is not finite as the lower. n is public. Values that lie close together take little noise. The event is for
    replacing a record. Raises ValueError if bounds, epsilon or delta are out of range.

    Returns the release, a multiple of a public spacing, and its event.
    """
    low, high = (float(bound) for bound in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"bounds={bounds!r}: expected two finite numbers that rise")
    epsilon = positive("epsilon", epsilon)
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta!r}: expected a number in (0, 1)")
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"values has the shape {array.shape}: expected one number a record, at least one")
    # Each value's place on the lattice is a function of it.
    share = (np.clip(np.where(np.isfinite(array), array, low), low, high) - low) / (high - low)
    units = [min(int(x), _STEPS) for x in share * _STEPS]
    middle, scale = median_and_scale(units, _STEPS, epsilon, scales(epsilon, delta, _STEPS))
    released = low + (middle + rounded_laplace(scale)) * ((high - low) / _STEPS)
    return released, ApproximateDPEvent(epsilon, delta, "replace_one")


def sample_and_aggregate(
    records: ArrayLike,
    estimator: Callable[[NDArray[np.float64]], ArrayLike],
    bounds: ArrayLike,
    n_blocks: int,
    epsilon: float,
    delta: float,
) -> tuple[NDArray[np.float64], ApproximateDPEvent]:
    """Release any estimate, as the median over blocks of records.

    The noise follows how well the blocks agree. ``estimator`` takes a block, (n_b, ...), and returns d numbers, such as
    a mean or the triangle of a covariance. ``bounds``, (d, 2), are their public ranges. A block whose estimate raises
    or is not finite counts as the lower bounds. Every record is in one of ``n_blocks`` blocks, at random, and the
    number of records is public.

    A replaced record changes the estimates of one block. So each coordinate's median is (epsilon / d, delta /
    d)-private, by the proof of `median_and_scale`. All of them together are (epsilon, delta)-private, by basic
    composition.

    Returns the release, (d,), and its event.
    """
    array, ranges = np.asarray(records, dtype=np.float64), np.atleast_2d(np.asarray(bounds, dtype=np.float64))
    if not 1 <= n_blocks <= len(array):
        raise ValueError(f"n_blocks={n_blocks}: expected from 1 to the number of records, {len(array)}")
    if ranges.ndim != 2 or ranges.shape[1] != 2:
        raise ValueError(f"bounds has the shape {ranges.shape}: expected (d, 2)")
    order, d = secret_permutation(len(array)), len(ranges)
    estimates = np.tile(ranges[:, 0], (n_blocks, 1))
    for block in range(n_blocks):
        try:
            found = np.asarray(estimator(array[order[block::n_blocks]]), dtype=np.float64).reshape(d)
        except Exception:  # whether it raises depends on the records
            continue
        estimates[block] = found
    released = [
        smooth_median(column, (low, high), epsilon / d, delta / d)[0]
        for column, (low, high) in zip(estimates.T, ranges.tolist(), strict=True)
    ]
    return np.array(released), ApproximateDPEvent(epsilon, delta, "replace_one")
