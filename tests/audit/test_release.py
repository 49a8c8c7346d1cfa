"""One release through the whole engine: one draw, joint blocks, fresh keys after a fork, one result for any threads."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation, SigmoidBeliefNetwork, mechanisms
from vips_fast.inference import Schedule, State, run
from vips_fast.ledger import Ledger
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.randomness import SystemRandomness
from vips_fast.sampling import FullSampler, PoissonSampler, make_sampler

COUNTS = sp.csr_array(np.random.default_rng(0).integers(0, 4, (2500, 60)))
BITS = np.random.default_rng(1).integers(0, 2, (5000, 7))


class Blocks:
    """Two blocks, each scaled by its own bound and the whole by the root of two: one joint norm of at most 1."""

    statistics_shape = (3,)
    clip_norm = 1.0
    diagnostics = None

    def sensitivity(self, neighbors):
        return 1.0

    def estep(self, records, words, spacing, sums, n_threads):
        linear, square = 3.0 * np.sqrt(2), 9.0 * np.sqrt(2)
        for _ in records:
            sums += np.trunc(np.array([3.0 / linear, 0.0, 9.0 / square]) / spacing).astype(np.int64)

    def project(self, released):
        raise NotImplementedError

    def mstep(self, state):
        pass


@pytest.mark.parametrize("kind", ["toy", "lda", "sbn", "sbn_pg"])
def test_one_draw_and_one_event_a_minibatch(monkeypatch, kind):
    calls = []
    original = mechanisms.add_rounded_gaussian
    monkeypatch.setattr(
        mechanisms, "add_rounded_gaussian", lambda sums, *a, **k: (calls.append(sums.size), original(sums, *a, **k))
    )
    if kind == "toy":
        ledger = Ledger()
        mechanism = GaussianMechanism(1.0, 1.0, 1.0, 50)
        run(
            Blocks(), FullSampler(50), mechanism, ledger, SystemRandomness(), State(np.zeros(3)), n_steps=3,
            schedule=Schedule(1.0, 0.5), n_threads=2,
        )
        size = 3
    elif kind == "lda":
        ledger = LatentDirichletAllocation(2, noise_multiplier=3.0, n_steps=3, n_jobs=2).fit(COUNTS).ledger_
        size = 2 * 60
    else:
        bound = "pg" if kind == "sbn_pg" else "jaakkola"
        ledger = SigmoidBeliefNetwork(3, bound=bound, noise_multiplier=3.0, n_steps=3, n_jobs=2).fit(BITS).ledger_
        # Quadratic bounds: y, z, y x z and z x z; Polya-Gamma: s1, s3 ... s7 with K (K - 1) / 2 pairs a visible unit.
        size = 7 + 3 + 21 + 3 if kind == "sbn" else 3 + 7 + 7 + 21 + 21 + 21
    assert calls == [size] * 3 and len(ledger) == 3


@pytest.mark.parametrize("n_jobs", [2, 7, 16])
@pytest.mark.parametrize("kind", ["lda", "sbn", "sbn_pg"])
def test_released_bits_do_not_depend_on_threads(kind, n_jobs):
    def released(n):
        if kind == "lda":
            model = LatentDirichletAllocation(2, n_steps=2, n_jobs=n, noise_multiplier=2.0, random_state=0)
            return model.set_unsafe_test_key(b"k" * 32).fit(COUNTS).components_
        bound = "pg" if kind == "sbn_pg" else "jaakkola"
        model = SigmoidBeliefNetwork(3, bound=bound, n_steps=2, n_jobs=n, noise_multiplier=2.0, random_state=0)
        return model.set_unsafe_test_key(b"k" * 32).fit(BITS).components_

    np.testing.assert_array_equal(released(n_jobs), released(1))


def _draws_of_children(n):
    """n forked children each fit once; what each released, and their sampling words."""
    X = sp.csr_array((4, 20), dtype=np.int64)
    pipes = []
    for _ in range(n):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                model = LatentDirichletAllocation(2, n_steps=2, noise_multiplier=1.0, random_state=0).fit(X)
                words = SystemRandomness().words(20, "sample", 0)
                os.write(write, model._average.tobytes() + words.tobytes())
            finally:
                os._exit(0)
        os.close(write)
        pipes.append((read, child))
    out = []
    for read, child in pipes:
        with os.fdopen(read, "rb") as file:
            out.append(file.read())
        os.waitpid(child, 0)
    assert all(len(data) == 8 * (40 + 20) for data in out)
    return [(np.frombuffer(data[:320]), np.frombuffer(data[320:], np.uint64)) for data in out]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("released_before", [False, True])
def test_forked_children_release_different_noise(released_before):
    X = sp.csr_array((4, 20), dtype=np.int64)
    seen = []
    if released_before:
        model = LatentDirichletAllocation(2, n_steps=2, noise_multiplier=1.0, random_state=0).fit(X)
        seen.append((model._average.reshape(-1), SystemRandomness().words(20, "sample", 0)))
    seen += _draws_of_children(8)
    for i in range(len(seen)):
        for j in range(i):
            # 2^22 lattice steps a standard deviation: equal entries by chance have probability below 10^-5.
            assert (seen[i][0] != seen[j][0]).all() and (seen[i][1] != seen[j][1]).all()


def test_sampling_and_scale_come_from_the_public_number_of_records():
    for n_rows in (99, 100, 101):
        poisson = make_sampler("poisson", None, 100, 20, n_rows)
        full = make_sampler("full", None, 100, None, n_rows)
        assert poisson.sampling_probability == PoissonSampler(100, 20).sampling_probability
        assert poisson.expected_batch_size == PoissonSampler(100, 20).expected_batch_size
        assert full.expected_batch_size == 100 and len(full.draw(SystemRandomness(), 0)) == n_rows
        assert poisson.event(1.0) == PoissonSampler(100, 20).event(1.0)
        assert poisson.draw(SystemRandomness(), 0).max(initial=0) < n_rows
    # Under "replace one" neighbours have the same number of rows.
    fixed = make_sampler("without_replacement", None, 100, 20, 90)
    assert len(fixed.draw(SystemRandomness(), 0)) == 20 and fixed.n_records == 90
    with pytest.raises(ValueError, match="batch_size"):
        make_sampler("without_replacement", None, 100, 95, 90)
    model = LatentDirichletAllocation(2, n_records=3000, batch_size=300, noise_multiplier=1.0, n_steps=1).fit(COUNTS)
    assert model.ledger_.event().to_dict()["sampling_probability"] == pytest.approx(0.1, rel=1e-12)


def test_public_start_at_every_visit():
    # gamma and q(z) start from public values: a second look at a record gives the same bits, whatever came between.
    from vips_fast.audit import audit
    from vips_fast.audit.layers import Sizes

    sizes = Sizes(pairs=5, records=10, draws=4, releases=4, runs=4)
    for model, settings in (("lda", dict(n_components=2)), ("sbn", dict(n_components=3, bound="pg"))):
        checks = {c.name: c.passed for c in audit(model, settings, layers="B", sizes=sizes).layer("B").checks}
        assert checks["after other minibatches"] and checks["its own data set"]


def test_a_fixed_number_of_rounds():
    from vips_fast.kernels import lda_estep

    X = sp.csr_array(np.vstack([COUNTS.toarray()[:50], np.eye(60, dtype=np.int64)[:5] * 500]))
    beta = np.random.default_rng(2).random((3, 60))
    rounds = [lda_estep(X.indptr, X.indices, X.data, beta, 0.3, tol=t, max_iter=25).n_iter for t in (0.0, 1e-3)]
    assert (rounds[0] == 25).all() and len(set(rounds[1].tolist())) > 1
