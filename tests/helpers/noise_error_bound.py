"""Upper bound of the error of the fast path in csrc/noise/gaussian.c.

The polynomials and constants are read from the C file, so that the bound is about
the code as it stands. Every step of `box_muller` and of the scaling after it is
followed over small intervals that cover the whole domain. For each step two things
are carried: an interval that holds its exact value, and a bound of how far the
computed value may be from it (the standard model: one operation, one relative
error of at most 2^-53; a fused multiply-add has one, another two).
Interval arithmetic is mpmath's, which rounds outwards.
"""

import re
from fractions import Fraction
from functools import cache
from pathlib import Path

from mpmath import iv, mpf

iv.prec = 150
SOURCE = Path(__file__).resolve().parents[2] / "csrc" / "noise" / "gaussian.c"
U = iv.mpf(2) ** -53
FEW = 24  # Taylor terms; the rest is bounded as a geometric series
NEAR_ZERO = Fraction(1, 2**16)  # below it the logarithm's polynomial is compared by its coefficients


def constants(text=None):
    """Polynomials and thresholds of gaussian.c as exact fractions."""
    text = SOURCE.read_text() if text is None else text
    out = {}
    for name in ("BOUND", "GUARD", "SLACK", "TAIL_LOW", "TAIL_HIGH", "LN2"):
        (value,) = re.findall(rf"^#define {name} (\S+)$", text, re.M)
        out[name] = Fraction(float.fromhex(value))
    for name in ("LOG_POLY", "SIN_POLY", "COS_POLY"):
        (body,) = re.findall(rf"{name}\[\d+\] = \{{(.*?)\}};", text, re.S)
        out[name] = tuple(Fraction(float.fromhex(c)) for c in re.findall(r"-?0x[0-9a-fp.+-]+", body))
    return out


def exact(x: Fraction):
    """Return a dyadic fraction as an interval of width 0."""
    return iv.mpf(x.numerator) / iv.mpf(x.denominator)


def top(x):
    """Largest absolute value in an interval."""
    return max(abs(mpf(x.a)), abs(mpf(x.b)))


def up(x):
    """Return the upper end of an interval, as an interval."""
    return iv.mpf(x.b)


class Rounded:
    """A step: its exact value's interval and its error bound. The error is |computed - exact|."""

    def __init__(self, value, error=0):
        self.value, self.error = iv.mpf(value), up(iv.mpf(error))

    def _round(self, value, error):
        return Rounded(value, error + U * (iv.mpf(top(value)) + error))

    def __add__(self, other):
        return self._round(self.value + other.value, self.error + other.error)

    def __sub__(self, other):
        return self._round(self.value - other.value, self.error + other.error)

    def _product_error(self, other):
        a, b = iv.mpf(top(self.value)), iv.mpf(top(other.value))
        return a * other.error + b * self.error + self.error * other.error

    def __mul__(self, other):
        return self._round(self.value * other.value, self._product_error(other))

    def fma(self, other, third, fused):
        if not fused:
            return self * other + third
        return self._round(self.value * other.value + third.value, self._product_error(other) + third.error)


def horner(coefficients, x, fused):
    p = Rounded(exact(coefficients[-1]))
    for c in reversed(coefficients[:-1]):
        p = p.fma(x, Rounded(exact(c)), fused)
    return p


def log_poly(coefficients, g, fused):
    """Return the four chains of box_muller."""
    g2 = g * g
    g4 = g2 * g2
    q = [horner(coefficients[j::4], g4, fused) for j in range(4)]
    return q[3].fma(g, q[2], fused).fma(g2, q[1].fma(g, q[0], fused), fused)


def shifted(coefficients, c: Fraction):
    """Taylor coefficients of a polynomial at c, exactly."""
    out = list(coefficients)
    for i in range(len(out) - 1):
        for k in range(len(out) - 2, i - 1, -1):
            out[k] += c * out[k + 1]
    return out


@cache
def log_defect(poly, c: Fraction, h: Fraction):
    """Bound the logarithm's error on [c - h, c + h]. It is |g P(g) + ln(1 - g)|, by Taylor series of both at c."""
    mine = shifted([Fraction(0), *poly], c)
    one_minus = exact(1 - c)
    total = iv.mpf(0)
    for k in range(max(FEW, len(mine))):
        theirs = -iv.log(one_minus) if k == 0 else 1 / (k * one_minus**k)
        total += iv.mpf(top((exact(mine[k]) if k < len(mine) else 0) - theirs)) * exact(h) ** k
    ratio = exact(h) / one_minus  # the rest: sum over k >= n of ratio^k / k
    n = max(FEW, len(mine))
    return up(total + ratio**n / (n * (1 - ratio)))


@cache
def log_defect_near_zero(poly, top_g: Fraction):
    """Bound of |P(g) + ln(1 - g)/g| on [0, top_g]. The same series at 0, divided by g."""
    total = iv.mpf(0)
    n = max(4 * FEW, len(poly))
    for k in range(n):
        mine = exact(poly[k]) if k < len(poly) else iv.mpf(0)
        total += iv.mpf(top(mine - iv.mpf(1) / (k + 1))) * exact(top_g) ** k
    return up(total + exact(top_g) ** n / (1 - exact(top_g)))


@cache
def trig_defect(poly_in_t, phase, c: Fraction, h: Fraction):
    """Bound the cosine's error on [c - h, c + h]. It is |p(t) - cos((pi/2)(t - phase))|; phase 1 is the sine."""
    mine = shifted(poly_in_t, c)
    w = iv.pi / 2
    total, factorial = iv.mpf(0), iv.mpf(1)
    for k in range(FEW):
        factorial *= max(k, 1)
        theirs = w**k * iv.cos(w * (exact(c) - phase + k)) / factorial
        total += iv.mpf(top((exact(mine[k]) if k < len(mine) else 0) - theirs)) * exact(h) ** k
    return up(total + 2 * (w * exact(h)) ** FEW / factorial)


def between(lo: Fraction, hi: Fraction):
    return iv.mpf([exact(lo).a, exact(hi).b])


def radius_errors(k, fused):
    """Compute (largest radius, its error) for each interval of U."""
    head = iv.mpf(2) ** -64  # the most that further bits of U can add
    dln2 = iv.mpf(top(exact(k["LN2"]) - iv.log(2)))
    poly = k["LOG_POLY"]

    def finish(part, e, defect, input_error):
        # part: g P(g) as computed; e + defect + input_error: all else that moves -ln U.
        computed = Rounded(iv.mpf(e)).fma(Rounded(exact(k["LN2"])), part, fused)
        error = computed.error + defect + e * dln2 + input_error
        low = iv.mpf(computed.value.a) - error
        high = iv.mpf(computed.value.b) + error
        radius = iv.sqrt(high)
        # |sqrt x - sqrt y| = |x - y| / (sqrt x + sqrt y), both >= sqrt(low); and one rounding
        return up(radius), up(error / (2 * iv.sqrt(low)) + U * radius)

    # U >= 1/2: g = 1 - U from the signed conversion, in octaves down to the tail.
    smallest = -k["TAIL_LOW"] / 2**64
    lo = Fraction(1, 2)
    while lo > smallest:
        lo /= 2
        pieces = 64 if lo >= Fraction(1, 8) else 8
        for i in range(pieces):
            a, b = lo + lo * i / pieces, lo + lo * (i + 1) / pieces
            g = between(a, b)
            p = log_poly(poly, Rounded(g), fused)
            if lo >= NEAR_ZERO:
                defect = log_defect(poly, (a + b) / 2, (b - a) / 2)
            else:
                defect = log_defect_near_zero(poly, b) * iv.mpf(g.b)
            g_error = U * iv.mpf(g.b) + head
            yield finish(p * Rounded(g), 0, defect, g_error / (1 - iv.mpf(g.b) - g_error))
    # U < 1/2: U = (1 - g) 2^-e to a relative 2^-53; 1 - g is in [1/2, 1] and g is exact.
    largest_e = 0
    while Fraction(1, 2 ** (largest_e + 1)) > k["TAIL_HIGH"] / 2**64:
        largest_e += 1
    pieces = 128
    for i in range(pieces):
        a, b = Fraction(i, 2 * pieces), Fraction(i + 1, 2 * pieces)
        g = between(a, b)
        part = log_poly(poly, Rounded(g), fused) * Rounded(g)
        defect = log_defect(poly, (a + b) / 2, (b - a) / 2)
        for e in range(1, largest_e + 1):
            relative = U + head / (iv.mpf(2) ** -e * (1 - iv.mpf(g.b)))
            yield finish(part, e, defect, relative / (1 - relative))


def angle_error(k, fused):
    """Bound the errors of cos a - sin a and cos a + sin a over |t| <= 1/2; t < 0 is its mirror image."""
    sine, cosine = k["SIN_POLY"], k["COS_POLY"]
    sine_t = tuple(c for s in sine for c in (Fraction(0), s))
    cosine_t = tuple(c for s in cosine for c in (s, Fraction(0)))
    worst = mpf(0)
    pieces = 64
    for i in range(pieces):
        a, b = Fraction(i, 2 * pieces), Fraction(i + 1, 2 * pieces)
        t = Rounded(between(a, b))
        z = t * t
        s, c = horner(sine, z, fused) * t, horner(cosine, z, fused)
        middle, half = (a + b) / 2, (b - a) / 2
        defect = trig_defect(sine_t, 1, middle, half) + trig_defect(cosine_t, 0, middle, half)
        # The conversion of t rounds and leaves out its bits beyond the 62nd.
        input_error = (U * iv.mpf(t.value.b) + iv.mpf(2) ** -62) * iv.pi / 2 * iv.sqrt(2)
        for both in (c - s, c + s):
            worst = max(worst, mpf((both.error + defect + input_error).b))
    return iv.mpf(worst)


def bound(fused, k=None):
    """Bound |computed x - x| over all that the fast path keeps. x is a standard normal draw."""
    k = constants() if k is None else k
    angle = angle_error(k, fused)
    root2 = iv.sqrt(2) + angle
    worst = mpf(0)
    for radius, error in radius_errors(k, fused):
        # scale * radius and its product with the cosine: a rounding each.
        total = radius * angle + error * root2 + (2 * U + U * U) * radius * root2
        worst = max(worst, mpf(total.b))
    return worst
