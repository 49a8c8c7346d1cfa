"""The panel: its page is made from the stored rows, and its rivals and figures compute what they say."""

import json

import numpy as np
import scipy.sparse
from panel import text
from peers import topics as peers
from priors import documents, prior_of

from vips_fast.models.lda import public_topics


def test_the_page_has_the_stored_rows():
    page = text.PAGE.read_text("utf-8")
    for name, table in text.tables(json.loads(text.STORED.read_text())).items():
        assert f"<!-- bench.panel.text {name} -->\n{table}\n<!-- end -->" in page, "python -m bench.panel.text --page"


def test_the_constants_are_those_that_the_rules_choose():
    rows, own = (json.loads(path.read_text()) for path in (text.STORED, text.OWN))
    widening, signal = text.choice(rows, own)
    assert widening == (public_topics._MISS, public_topics._MISS_FEW) and signal == public_topics._OWN_SIGNAL


def test_a_histogram_with_hardly_any_noise_beats_public_topics_and_frequencies():
    prior, counts = prior_of(64), scipy.sparse.csr_matrix(documents(400, 64))
    told, asked = text.halves(scipy.sparse.csr_matrix(documents(200, 64, seed=5)))
    topics, alpha, masses = peers.one_histogram(counts, prior, 500.0, 1e-6, np.random.default_rng(0))
    ours = text.completion(told, asked, topics, alpha)
    np.testing.assert_allclose(topics.sum(axis=1), 1.0)
    assert ours < text.by_frequencies(asked, peers.exact_frequencies(counts))
    assert ours < 1.01 * text.completion(told, asked, prior.topics(), alpha)
    assert (
        abs(text.by_frequencies(asked, masses) / text.by_frequencies(asked, peers.exact_frequencies(counts)) - 1) < 0.02
    )


def test_halves_are_of_one_person_and_lose_no_word():
    whole = scipy.sparse.csr_matrix(documents(50, 64))
    told, asked = text.halves(whole)
    assert ((told + asked) != whole).nnz == 0
