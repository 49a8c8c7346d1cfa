"""Whatever takes a model out of its guarantee shows for good."""

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.models.lda import LdaOptions

COUNTS = sp.csr_array(np.random.default_rng(0).integers(0, 5, (30, 12)))
BITS = np.random.default_rng(1).integers(0, 2, (40, 6))
KEY = bytes(range(32))


def fitted(taint, kind):
    """Fit a model of two steps. It has at most one reason for not being private."""
    options = dict(noise_multiplier=0 if taint == "noise_multiplier" else 2.0, n_steps=2, sampling="full")
    unsafe = {"test_key": KEY} if taint == "test_key" else {"diagnostics": True} if taint == "diagnostics" else {}
    if taint == "sensitivity":
        model = LatentDirichletAllocation.paper(2, doc_length=20, options={"relation": "replace_one"}, **options)
    else:
        model = {
            "lda": lambda: LatentDirichletAllocation(2, doc_length=20, **options),
            "blr": lambda: BayesianLogisticRegression(**options),
            "sbn": lambda: SigmoidBeliefNetwork(3, **options),
        }[kind]()
    return model.set_unsafe(**unsafe).fit(*{"lda": (COUNTS,), "blr": (BITS, np.arange(40) % 2), "sbn": (BITS,)}[kind])


@pytest.mark.parametrize(
    "taint, kind",
    [("sensitivity", "lda")]
    + [(t, k) for t in ("test_key", "diagnostics", "noise_multiplier") for k in ("lda", "sbn", "blr")],
)
def test_taint_is_shown_and_survives_files(taint, kind, tmp_path):
    model = fitted(taint, kind)
    path = tmp_path / "model"
    model.save(path)
    for m in (model, type(model).load(path)):
        assert not m.privacy_.private and not m.ledger_.private and m.privacy_.epsilon == np.inf
        assert any(taint in reason for reason in m.ledger_.taints) and m.ledger_.taints == m.privacy_.taints
        assert "NOT PRIVATE" in m.privacy_.statement() and "NOT PRIVATE" in str(m.privacy_)
        assert "NOT PRIVATE" in repr(m) and taint in repr(m)
    assert KEY not in b"".join(file.read_bytes() for file in path.iterdir())
    assert KEY.hex() not in (path / "model.json").read_text()


def test_no_taint_without_cause():
    for model in (fitted(None, "lda"), fitted(None, "sbn"), fitted(None, "blr")):
        assert model.privacy_.private and model.ledger_.taints == () and "NOT PRIVATE" not in repr(model)
        assert model.diagnostics_ is None


def test_taint_stays_when_fitting_goes_on():
    model = LatentDirichletAllocation(2, doc_length=20, noise_multiplier=4.0).set_unsafe(test_key=KEY)
    model.partial_fit(COUNTS)
    model.set_unsafe().partial_fit(COUNTS)
    assert not model.privacy_.private and len(model.ledger_) == 2


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
