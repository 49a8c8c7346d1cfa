"""The proofs that the privacy page names hold in exact arithmetic.

A proof is a paragraph of a docstring. What it says of sensitivities is checked here without floating point: for every
pair of small integer contributions, as the lattice has them, or by branch and bound over all records. Each check is
also made of a claim that is false, which it must refuse.
"""

import math
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import pytest

from vips_fast.models.conjugate.model import ConjugateEstimator, ConjugateModel
from vips_fast.models.lda.model import LdaModel
from vips_fast.models.logistic.model import LogisticStatistics
from vips_fast.models.logistic.paper import replace_one_bound
from vips_fast.models.sbn import classes
from vips_fast.models.sbn.network import QuadraticModel

#: A clip that is a whole number of spacings, which makes the distance of two sums a whole number.
CLIP = 5


def contributions(low, entries=3):
    """Return all integer vectors whose norm is at most the clip. Their entries are at least ``low``."""
    values = range(low, CLIP + 1)
    return [x for x in product(values, repeat=entries) if sum(v * v for v in x) <= CLIP * CLIP]


def distances(vectors, relation):
    """Return the largest square of the distance that neighboring sums can have."""
    if relation == "add_remove":
        return max(sum(v * v for v in x) for x in vectors)
    return max(sum((v - w) ** 2 for v, w in zip(x, y, strict=True)) for x in vectors for y in vectors)


def covers(declared, square):
    """Tell whether a sensitivity covers the root of a square. It is a double, and may be below by its rounding."""
    return Fraction(declared) ** 2 >= Fraction(square) * (1 - Fraction(1, 2**50))


def own_sensitivity(nonnegative, relation):
    apart = ConjugateEstimator._apart(SimpleNamespace(nonnegative=nonnegative), 1)
    return ConjugateModel.sensitivity(SimpleNamespace(clip=float(CLIP), _apart=apart), relation)


NONNEGATIVE, SIGNED = contributions(0), contributions(-CLIP, 2)
SUMS = {
    "lda": (NONNEGATIVE, lambda relation: LdaModel.sensitivity(SimpleNamespace(clip=float(CLIP)), relation)),
    "own, >= 0": (NONNEGATIVE, lambda relation: own_sensitivity(True, relation)),
    "own": (SIGNED, lambda relation: own_sensitivity(False, relation)),
    "blr": (SIGNED, lambda relation: LogisticStatistics.sensitivity(SimpleNamespace(clip=float(CLIP)), relation)),
    "sbn": (SIGNED, lambda relation: CLIP * QuadraticModel.sensitivity(SimpleNamespace(), relation)),
}


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("case", SUMS)
def test_sensitivity_of_a_clipped_sum(case, relation):
    """No pair of contributions moves a sum further than declared. One pair moves it as far."""
    vectors, declared = SUMS[case]
    largest = distances(vectors, relation)
    assert covers(declared(relation), largest)
    assert not covers(declared(relation) * 0.999, largest)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_sensitivity_of_disjoint_classes(monkeypatch, relation):
    """Two classes under a clip of 5. A count of 3, and in one of them a network's part of norm 4 at most."""
    monkeypatch.setattr(classes, "_NETWORK_SHARE", 0.8)
    parts = [x for x in product(range(-4, 5), repeat=2) if sum(v * v for v in x) <= 16]
    vectors = [(3, 0, *x, 0, 0) for x in parts] + [(0, 3, 0, 0, *x) for x in parts]
    declared = CLIP * classes.ClassConditionalModel.sensitivity(SimpleNamespace(), relation)
    largest = distances(vectors, relation)
    assert covers(declared, largest) and not covers(declared * 0.999, largest)
    # Another class is never the worst replacement, and one part's sensitivity is not enough for it.
    other = max(sum((v - w) ** 2 for v, w in zip(x, y, strict=True)) for x in vectors for y in vectors if x[0] != y[0])
    assert CLIP**2 < other == 2 * CLIP**2 < 64


def test_the_papers_claim_for_replacing_a_document_is_refused():
    assert not covers(CLIP, distances(NONNEGATIVE, "replace_one"))
    assert not covers(math.sqrt(2) * CLIP, distances(SIGNED, "replace_one"))


def enclosed(a, c, square):
    """Tell whether 2 a^2 (1 + t) + q^2 + q'^2 - 2 q q' t^2 <= square for all q, q' in [0, c] and t in [0, 1].

    Interval arithmetic in exact fractions on boxes that are halved until each is decided; False for a box whose
    midpoint is above, or that no halving decides.
    """
    boxes = [((Fraction(0), c), (Fraction(0), c), (Fraction(0), Fraction(1)), 0)]
    while boxes:
        q, r, t, depth = boxes.pop()
        if 2 * a * a * (1 + t[1]) + q[1] ** 2 + r[1] ** 2 - 2 * q[0] * r[0] * t[0] ** 2 <= square:
            continue
        if depth == 36:
            return False
        sides = [q, r, t]
        widest = max(range(3), key=lambda i: (sides[i][1] - sides[i][0]) / (c if i < 2 else 1))
        low, high = sides[widest]
        for part in ((low, (low + high) / 2), ((low + high) / 2, high)):
            boxes.append((*(part if i == widest else side for i, side in enumerate(sides)), depth + 1))
    return True


@pytest.mark.parametrize("a, c", [(1, 1), (1, 2), (2, 1), (1, Fraction(3, 4)), (Fraction(1, 4), Fraction(1, 2))])
def test_sensitivity_of_the_joint_blocks_without_a_center(a, c):
    """The logistic regression's two blocks. The bound holds to a hundredth for all records, and a pair attains it."""
    a, c = Fraction(a), Fraction(c)
    bound = Fraction(replace_one_bound(float(a), float(c))) ** 2
    assert enclosed(a, c, bound * Fraction(101, 100))
    t = min(Fraction(1), a * a / (2 * c * c))
    attained = max(2 * a * a * (1 + t) + 2 * c * c * (1 - t * t), 4 * a * a + c * c)
    assert covers(float(bound) ** 0.5, attained) and attained >= bound * (1 - Fraction(1, 2**40))
    assert not enclosed(a, c, attained * Fraction(99, 100))
    assert bound <= 4 * (a * a + c * c)
