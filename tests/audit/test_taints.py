"""Diagnostics of training records, which take a model out of its guarantee."""

import numpy as np
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.models.lda import LdaOptions

BITS = np.random.default_rng(1).integers(0, 2, (40, 6))


def test_diagnostics_are_those_of_each_step():
    heavy = sp.csr_array(np.eye(12, dtype=np.int64)[:10] * 7)
    options = dict(noise_multiplier=2.0, n_steps=3)
    lda = dict(doc_length=20, sampling="full", options=LdaOptions(word_clip=1, word_scale=0))
    X = sp.vstack([heavy, sp.csr_array((5, 12), dtype=np.int64)]).tocsr()
    model = LatentDirichletAllocation(2, **lda, **options).set_unsafe(diagnostics=True).fit(X)
    assert [d["records"] for d in model.diagnostics_] == [15, 15, 15]
    # One word: a norm of at least 20 / sqrt(2), above the clip; empty documents are never clipped.
    assert [d["clipped"] for d in model.diagnostics_] == [10, 10, 10]
    assert all(20 / np.sqrt(2) * 10 * 0.999 < d["norm_sum"] < 20 * 10 * 1.001 for d in model.diagnostics_)
    model = SigmoidBeliefNetwork(3, **options).set_unsafe(diagnostics=True).fit(BITS)
    assert len(model.diagnostics_) == 3
    assert all(0 <= d.get("clipped", 0) <= d["records"] for d in model.diagnostics_)
