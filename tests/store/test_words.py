"""Numbers, articles and plurals of what is said."""

import re
import warnings

import numpy as np
import pytest
from priors import prior_of

from vips_fast import GaussianMixture, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.models.verdict import Verdict
from vips_fast.store.words import a, several

COUNTS = np.random.default_rng(0).integers(0, 3, (6, 8))


def said(unit, n_steps):
    model = LatentDirichletAllocation(2, n_steps=n_steps, noise_multiplier=5.0, doc_length=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(COUNTS, groups=[1, 1, 2, 3, 4, 5], unit=unit)
    return f"{model.privacy_.statement()} {Verdict.of_topics(model.found_gain_, unit)} {model.verdict_}"


@pytest.mark.parametrize("unit", ("author", "family", "class", "user"))
@pytest.mark.parametrize("n_steps", (1, 2))
def test_a_statement_has_the_articles_and_plurals_of_its_unit(unit, n_steps):
    text = said(unit, n_steps)
    assert f" {several(unit)}" in text and (unit + "s" == several(unit) or f"{unit}s " not in text)
    assert a(unit).split()[0] in ("a", "an") and not re.search(r"\ba author|\ban (user|family|class)", text)
    assert ("1 release," in text) == (n_steps == 1) and not re.search(r"\b1 [a-z]+s\b", text)


@pytest.mark.parametrize("cls", (LatentDirichletAllocation, GaussianMixture, SigmoidBeliefNetwork))
@pytest.mark.parametrize("n_components", (6, 7))
def test_more_components_than_records_are_warned_of_by_public_numbers(cls, n_components):
    X = COUNTS if cls is LatentDirichletAllocation else COUNTS % 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cls(n_components, noise_multiplier=9.0, n_steps=2, n_records=6).fit(X[:5])
    told = [str(one.message) for one in caught if "n_components" in str(one.message)]
    assert told == ["n_components=7: expected far fewer than there are records (6 records)"] * (n_components > 6)


def test_public_topics_are_not_too_many_for_few_records():
    prior = prior_of(16)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "n_components")
        how = dict(noise_multiplier=9.0, n_steps=2, n_records=3)
        LatentDirichletAllocation(prior.n_topics, public_prior=prior, **how).fit(np.ones((3, 16), np.int32))
