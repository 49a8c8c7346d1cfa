"""The topic model with persons who wrote several documents."""

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.units import UnitRecords
from vips_fast.models.lda import LdaOptions
from vips_fast.models.lda.records import Documents, unit_words

SETTINGS = dict(
    n_components=3, doc_length=40, n_steps=3, noise_multiplier=1.0, delta=1e-5, random_state=0, sampling="full"
)


def corpus(n_docs, n_words=30, seed=0):
    return sp.csr_array(np.random.default_rng(seed).poisson(0.4, (n_docs, n_words)))


def model(**options):
    return LatentDirichletAllocation(**{**SETTINGS, **options})


def unit_sum(X, groups, units, **options):
    """Return the exact sum of some units' contributions. The second result is the clip in the same integers."""
    stage = model(**options).prepare(X, groups=groups)
    words = np.arange(stage.records.n_rows, dtype=np.uint64)
    sums = stage.backend.sum(stage.model, stage.records, np.asarray(units), words[units])
    return sums, stage.model.clip / stage.plan.mechanism.spacing


def test_no_word_of_a_person_has_more_than_its_share_of_the_clip():
    alike = sp.csr_array(50 * np.tile(np.eye(30, dtype=int)[3], (7, 1)))
    sums, limit = unit_sum(alike, [0] * 7, [0], clip=0.2, options=LdaOptions(word_clip=0.3))
    assert 0.299 < np.linalg.norm(sums, axis=1).max() / limit <= 0.3 * (1 + 1e-5)


def test_documents_of_a_person_keep_their_own_topics():
    """A person's sum is the sum of the documents', within the clip. It is not the merged document's."""
    X = corpus(6)
    options = dict(clip=1.0, doc_length=10, options=LdaOptions(word_clip=1.0))
    together, _ = unit_sum(X, [0] * 6, [0], **options)
    each = sum(unit_sum(X, np.arange(6), [i], **options)[0] for i in range(6))
    assert np.abs(together).sum() > 0
    # The documents are truncated one by one, the person once.
    np.testing.assert_allclose(together, each, rtol=1e-4, atol=8)


@pytest.mark.parametrize("units", ["in a row", "scattered", "of several documents", "none"])
def test_unit_words_are_those_of_the_units(units):
    X = corpus(60)
    X.data[::7] = 0  # stored zeros are no words
    documents = Documents(X, invalid="raise", expected_by="fit")
    groups = np.arange(60) // 3 if units == "of several documents" else np.arange(60)
    chosen = {"scattered": np.array([3, 4, 9, 40, 59]), "none": np.empty(0, np.int64)}.get(units, np.arange(5, 17))
    block = (UnitRecords(documents, groups) if units == "of several documents" else documents).block(chosen)
    ends, columns, counts = unit_words(block, np.zeros(len(chosen), np.uint64), X.shape[1])
    unit = np.repeat(np.arange(len(chosen)), np.diff(ends))
    dense = np.stack([X.toarray()[groups == one].sum(axis=0) for one in chosen] or [np.zeros(X.shape[1])])
    expected = np.nonzero(dense)
    np.testing.assert_array_equal(np.stack([unit, columns]), np.stack(expected))
    np.testing.assert_array_equal(counts, dense[expected])
