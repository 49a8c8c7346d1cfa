"""The lattice of released sums: spacings and integer bounds.

Contributions are truncated toward zero to multiples of a power-of-two spacing g and added as int64. So sums are exact
whatever the order, and noise is added to integers. Everything here is a function of public numbers.
"""

import math

from . import native

#: Largest absolute value that a lattice sum may reach before noise, which needs the rest of int64.
SUM_LIMIT = 2**62

#: C/g below this keeps a contribution's sum of squares inside 64 bits.
MAX_NORM_UNITS = 2**31

#: The lattice spacings that the kernels take.
MIN_SPACING, MAX_SPACING = native.MIN_SPACING, native.MAX_SPACING
LDA_MIN_SPACING, LDA_MAX_SPACING = native.LDA_MIN_SPACING, native.LDA_MAX_SPACING


def is_power_of_two(x: float) -> bool:
    """Tell whether x is a positive finite power of two."""
    return x > 0 and math.isfinite(x) and math.frexp(x)[0] == 0.5


def checked_spacing(
    spacing: float | None, clip_norm: float, *, low: float = MIN_SPACING, high: float = MAX_SPACING
) -> float:
    """Check the given spacing, or choose one for sums without noise.

    ``clip_norm`` is the L2 bound C > 0 of one record's contribution; C/g is at least 1, and below 2^31 for every
    kernel. ``low`` and ``high`` are the range of the spacing. Raises ValueError with the argument's name and value, and
    the range that was expected.
    """
    bounds = f"[2^{math.frexp(low)[1] - 1}, 2^{math.frexp(high)[1] - 1}]"
    if spacing is None:
        spacing = noise_spacing(0.0, clip_norm)
        if not low <= spacing <= high:
            raise ValueError(f"clip_norm={clip_norm!r}: its lattice spacing is {spacing!r}, expected one in {bounds}")
    if not (is_power_of_two(spacing) and low <= spacing <= high):
        raise ValueError(f"spacing={spacing!r}: expected a power of two in {bounds}")
    if not 1 <= clip_norm / spacing < MAX_NORM_UNITS:
        raise ValueError(
            f"spacing={spacing!r}: expected clip_norm / spacing in [1, 2^31), where clip_norm={clip_norm!r}"
        )
    return spacing


def noise_spacing(noise_sd: float, clip_norm: float) -> float:
    """Choose the lattice spacing for sums with noise of standard deviation ``noise_sd``.

    g = 2^(floor(log2 sd) - 22): 2^22 to 2^23 lattice steps in one standard deviation. C > 0 is the L2 bound
    ``clip_norm`` of one record's contribution. If noise is little and C/g would pass 2^30, g is 2^-30 of the clip
    norm's power of two instead (a coarser lattice is always sound).
    """
    coarse = math.ldexp(1.0, math.frexp(clip_norm)[1] - 30)
    if noise_sd <= 0:
        return coarse
    return max(coarse, math.ldexp(1.0, math.frexp(noise_sd)[1] - 1 - 22))


def count_spacing(max_document: float, total: float) -> float:
    """Find the finest spacing that fits unclipped statistics in 62 bits.

    ``max_document`` and ``total`` are the largest numbers of words of a document, and of all documents together.
    """
    top = math.frexp(max(max_document, 1.0))[1] - 50
    return math.ldexp(1.0, max(top, math.frexp(max(total, 1.0))[1] - 61))


def check_range(n_records: int, norm_units: float) -> None:
    """Raise ValueError if n_records contributions of norm_units could leave int64."""
    if n_records * norm_units >= SUM_LIMIT:
        raise ValueError(
            f"spacing: {n_records} records of up to {norm_units:.3g} lattice units could pass 2^62; "
            "expected a coarser spacing"
        )
