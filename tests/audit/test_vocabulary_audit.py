"""Audit purchased vocabularies. Honest ones pass all layers, and each layer sees a fault of its own."""

from functools import cache

import faults
import numpy as np
import pytest
from vocabulary_adapter import VocabularyAdapter

from vips_fast import PrivateCountVectorizer, PrivateVocabulary
from vips_fast.audit import Part, Seams, Sizes, audit
from vips_fast.engine.statement import Privacy

# D: mu = sqrt(2) against 1, known to +- 0.18. E: 250 purchases a side bound the delta of a lone token to +- 0.05.
SIZES = Sizes(pairs=60, records=15, draws=200_000, releases=1_500, runs=250, rows=2**12, canaries=3_000)


def adapter(kind=PrivateVocabulary):
    return VocabularyAdapter(kind().get_params(), kind)


def failed(layer, kind=PrivateVocabulary, **seams):
    """Names of the checks of one layer that fail."""
    report = audit(
        VocabularyAdapter(kind().get_params(), kind), layers=layer, sizes=SIZES, random_state=0, seams=Seams(**seams)
    )
    print(report.text())
    return {check.name for check in report.layer(layer).checks if not check.passed}


@cache
def honest(layer):
    return failed(layer)


@pytest.mark.parametrize("layer", "ABCDEGH")
def test_vocabularies_pass(layer):
    assert honest(layer) == set()


def test_counts_are_of_the_same_vocabulary():
    assert failed("G", PrivateCountVectorizer) == set()


class LongWeights(Part):
    """Weights of the first round pass the norm by a fifth."""

    def __init__(self, inner):
        super().__init__(inner)
        inner._first = inner._first * 6 // 5


class LowThreshold(Part):
    """The threshold leaves no space for a person's own token. That is, for the weight that a person adds to it."""

    def __init__(self, inner):
        super().__init__(inner)
        inner.threshold *= 0.1


class ExactShares(Part):
    """The shares of the first round are published without noise."""

    def round(self, fine, spacing):
        if self.inner._round == 0:
            self.exact = dict(zip(self.inner._names, np.clip(fine / max(fine[0], 1), 0, 1), strict=True))
        return self.inner.round(fine, spacing)

    def result(self):
        arrays = self.inner.result()
        return {**arrays, "shares": np.array([self.exact[name] for name in self.inner._names[1:]])}


class CountsTokens(Part):
    """Weights follow the private number of tokens. They change by a tenth of a percent if it is odd."""

    def __init__(self, inner):
        super().__init__(inner)
        self.odd = len(inner._names) % 2

    def result(self):
        arrays = self.inner.result()
        return {**arrays, "weights": arrays["weights"] * (1 + 0.001 * self.odd)}


class HalfStated(PrivateVocabulary):
    """Half of the epsilon of the purchase is stated."""

    @property
    def privacy_(self):
        said = Privacy.of(self.ledger_)
        object.__setattr__(said, "epsilon", said.epsilon / 2)
        return said


# Its purchase is written under the name of the honest class.
HalfStated.__name__ = "PrivateVocabulary"


@pytest.mark.parametrize(
    ("layer", "seen", "mutant"),
    [
        ("A", {"distance of neighbors"}, dict(model=LongWeights)),
        ("B", {"alone and together"}, dict(model=faults.KnowsNeighbors)),
        ("C", {"standard deviation"}, dict(mechanism=faults.WeakNoise)),
        ("C", {"charged"}, dict(sampler=faults.Undercharged)),
        ("D", {"noise multiplier 1"}, dict(mechanism=faults.RootHalfOfNoise)),
        ("E", {"tokens of one person"}, dict(model=LowThreshold)),
        ("G", {"rebuilt bit for bit, data set 1"}, dict(model=LowThreshold)),
        ("G", {"rebuilt bit for bit, data set 1"}, dict(model=ExactShares)),
        ("G", {"rebuilt bit for bit, data set 2"}, dict(model=CountsTokens)),
        ("G", {"statement, data set 1"}, dict(kind=HalfStated)),
        ("H", {"mu of one fit"}, dict(mechanism=faults.FiftiethOfNoise)),
    ],
    ids=lambda value: "_".join(getattr(v, "__name__", "") for v in value.values()) if isinstance(value, dict) else None,
)
def test_wrong_vocabularies(layer, seen, mutant):
    assert honest(layer) == set() and seen <= failed(layer, **mutant)


def test_sums_with_too_little_noise_are_seen_over_whole_purchases():
    report = audit(adapter(), layers="E", sizes=SIZES, random_state=0, seams=Seams(mechanism=faults.FiftiethOfNoise))
    print(report.text())
    assert not report.layer("E").checks[0].passed
