"""Sigmoid belief network: what it learns, what it releases, what it refuses."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.special import expit, logit

from vips_fast import SigmoidBeliefNetwork
from vips_fast.inference import State
from vips_fast.kernels import native, reference
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models import sbn
from vips_fast.models.sbn import _PolyaGammaModel, _QuadraticModel, floor_spectrum, gig_means, solve_repaired

BARS = np.zeros((6, 6, 6))
for _i in range(3):
    BARS[_i, 2 * _i] = 1
    BARS[3 + _i, :, 2 * _i] = 1
BARS = BARS.reshape(6, 36)


def bars(n, seed=0):
    """Records of 36 pixels: six bars, each present with probability 0.4, and 2 % of pixels flipped."""
    rng = np.random.default_rng(seed)
    z = rng.random((n, 6)) < 0.4
    y = (z @ BARS > 0) ^ (rng.random((n, 36)) < 0.02)
    y[:, 35] = False  # a pixel that never varies is ordinary data
    return y.astype(np.uint8)


TRAIN, TEST = bars(4000), bars(1000, seed=1)


def mean_image_accuracy(train, test):
    return ((train.mean(axis=0) > 0.5) == test).mean()


def keyed(estimator, key=b"key"):
    """The estimator with known noise, which taints it."""
    estimator._unsafe_test_key = key
    return estimator


def model_of(estimator, Y, z=1.0, neighbors="add_remove"):
    """The plug-in of the loop, its mechanism and its lattice, before the first step."""
    kind = _QuadraticModel if estimator.bound != "pg" else _PolyaGammaModel
    model = kind(estimator, np.ascontiguousarray(Y))
    mechanism = GaussianMechanism(z, model.sensitivity(neighbors), model.clip_norm, len(Y))
    model.set_spacing(mechanism.spacing)
    return model, mechanism


def sums_of(model, mechanism, records, n_threads=1):
    sums = np.zeros(model.statistics_shape, dtype=np.int64)
    model.estep(np.asarray(records), None, mechanism.spacing, sums, n_threads)
    return sums


def advance(model, mechanism, records, steps):
    """Run some steps without noise, so that the parameters are those of a run in progress."""
    for _ in range(steps):
        sums = sums_of(model, mechanism, records)
        model.mstep(State(sums * mechanism.spacing / len(records), noise_sd=1e-9))


# ------------------------------------------------------------------ learning


@pytest.mark.parametrize("bound", ["jaakkola", "bohning", "pg"])
@pytest.mark.parametrize("weight_prior", ["tpbn", "gaussian"])
def test_non_private_fit_learns_the_bars(bound, weight_prior):
    model = SigmoidBeliefNetwork(
        12, bound=bound, weight_prior=weight_prior, private=False, n_steps=20, learning_decay=0.7, random_state=0
    ).fit(TRAIN)
    # 2 % of the pixels are flipped and cannot be known; the mean image gets 0.70.
    assert mean_image_accuracy(TRAIN, TEST) < 0.75 < 0.95 < model.pixel_accuracy(TEST)
    assert not model.privacy_.private and model.n_steps_ == 20


@pytest.mark.parametrize("bound", ["jaakkola", "bohning", "pg"])
def test_non_private_fit_is_no_worse_than_the_same_update_in_plain_numpy(bound, monkeypatch):
    options = dict(n_components=8, bound=bound, private=False, n_steps=12, learning_decay=0.7, random_state=0)
    ours = SigmoidBeliefNetwork(**options).fit(TRAIN[:1500])

    class Plain:
        """The E-step's twins in float64."""

        def __getattr__(self, name):
            return getattr(native, name)

        def sbn_quadratic(self, y, w, gram, linear, start, n_sweeps, area, z):
            z[...] = reference.sbn_quadratic(y, w, gram, linear, start, n_sweeps=n_sweeps)

        def sbn_pg(self, y, table, table2, c, c_var, b, start, n_sweeps, area, z, xi):
            w, w2 = (t[:, :36].T.astype(np.float64) for t in (table, table2))
            step = reference.sbn_pg(y, w, w2, *(a.astype(np.float64) for a in (c, c_var, b, start)), n_sweeps=n_sweeps)
            z[...], xi[...] = step

    monkeypatch.setattr(sbn, "native", Plain())
    plain = SigmoidBeliefNetwork(**options).fit(TRAIN[:1500])
    assert not np.array_equal(ours.components_, plain.components_) or bound != "pg"
    # A thousandth of the pixels: half of one standard deviation of the accuracy over test sets of this size.
    assert ours.pixel_accuracy(TEST) >= plain.pixel_accuracy(TEST) - 0.001
    assert plain.pixel_accuracy(TEST) > 0.9


def test_private_fit_is_above_the_mean_image():
    model = keyed(SigmoidBeliefNetwork(12, target_epsilon=2.0, target_delta=1e-4, random_state=0)).fit(TRAIN)
    assert model.pixel_accuracy(TEST) > mean_image_accuracy(TRAIN, TEST) + 0.1
    assert model.ledger_.taints  # a known key is no privacy
    assert len(model.ledger_) == 10


def test_guarantee_is_stated_and_met():
    model = SigmoidBeliefNetwork(3, target_epsilon=1.5, target_delta=1e-5, n_steps=4).fit(TRAIN)
    assert model.privacy_.private and 1.4 < model.privacy_.epsilon <= 1.5
    assert "differential privacy" in model.privacy_.statement()
    with pytest.raises(ValueError, match="noise_multiplier"):
        SigmoidBeliefNetwork(3, target_epsilon=0.1, target_delta=1e-5, noise_multiplier=1.0, n_steps=4).fit(TRAIN)


@pytest.mark.parametrize("bound", ["jaakkola", "bohning"])
def test_estep_of_a_quadratic_bound_is_the_stated_sum(bound):
    estimator = SigmoidBeliefNetwork(5, bound=bound, random_state=0, visible_clip=1.0, latent_clip=0.5)
    model, mechanism = model_of(estimator, TRAIN[:300])
    everyone = np.arange(300)
    advance(model, mechanism, everyone, 3)
    sums = sums_of(model, mechanism, everyone) * mechanism.spacing
    # Plain numpy: E-step, clipping of the two factors, the three blocks.
    y, w, kappa = TRAIN[:300].astype(float), model._w, model._curvature
    centre = logit(model._mean_image) if bound == "bohning" else np.zeros(36)
    assert np.all(kappa == 0.25) if bound == "bohning" else 0.05 <= kappa.min() < kappa.max() < 0.25
    gram = w.T @ np.diag(kappa) @ w + model._covariance
    linear = model._b - w.T @ (expit(centre) + kappa * (model._c - centre)) - 0.5 * np.diag(gram)
    z = reference.sbn_quadratic(y, w, gram, linear, expit(model._b), n_sweeps=4)
    x, v = y - model._center, z - model._zeta
    v *= np.minimum(1, model._latent_bound / np.linalg.norm(v, axis=1))[:, None]
    v *= np.minimum(1, model._visible_bound / np.linalg.norm(x, axis=1))[:, None]
    assert 0.05 < (np.linalg.norm(x, axis=1) > model._visible_bound).mean() < 0.95
    joint = math.sqrt(1 + 0.1**2 + 0.15**2) / (1 - model._slack)
    C, B, K = model._latent_bound, model._visible_bound, 5
    # Each factor is truncated by up to 2^-20 of the bound; 300 records add up.
    tolerance = 300 * 2.0**-19
    np.testing.assert_allclose(sums[model._blocks["mean"]] * joint * C / 0.1, v.sum(axis=0), atol=tolerance * C)
    np.testing.assert_allclose(
        sums[model._blocks["cross"]].reshape(36, 5) * joint * C * B, x.T @ v, atol=tolerance * C * B
    )
    pairs = (v.T @ v)[np.triu_indices(K, 1)]
    pair_bound = C * C * math.sqrt(0.5 * (1 - 1 / K))
    np.testing.assert_allclose(sums[model._blocks["covariance"]] * joint * pair_bound / 0.15, pairs, atol=3 * tolerance * C)
    assert not sums[model._blocks["image"]].any()


def test_common_curvature_makes_the_bound_largest():
    rng = np.random.default_rng(0)
    z = (rng.random((4000, 3)) < [0.3, 0.5, 0.8]).astype(float)
    y = (rng.random(4000) < expit(z @ [3.0, -2.0, 1.0] - 2.5)).astype(float)
    S, a, m = np.cov(z.T, bias=True), ((y - y.mean()) @ (z - z.mean(axis=0))) / 4000, y.mean()

    def bound(parameters):
        """Jaakkola and Jordan's bound of the mean log p(y | z) with one t for all records."""
        w, c, t = parameters[:3], parameters[3], parameters[4]
        psi = (z - z.mean(axis=0)) @ w + c
        kappa = math.tanh(t / 2) / (2 * t)
        return ((y - 0.5) * psi - kappa * (psi**2 - t * t) / 2).mean() - math.log(2 * math.cosh(t / 2))

    energy, factor = sbn._denoised_energy(a[None], S, 0.0)
    kappa = sbn._common_curvature(energy, np.array([m]))[0]
    assert factor[0] == 1.0
    w, c = np.linalg.solve(S, a) / kappa, (m - 0.5) / kappa
    t = math.sqrt(w @ S @ w + c * c)
    assert kappa == pytest.approx(math.tanh(t / 2) / (2 * t), rel=1e-9)
    best = bound([*w, c, t])
    found = optimize.minimize(lambda p: -bound(p), [0.1, 0.1, 0.1, 0.1, 1.0], tol=1e-12)
    assert best == pytest.approx(-found.fun, abs=1e-9)
    # It is a lower bound, and a better one than the constant curvature's at its own best.
    psi = (z - z.mean(axis=0)) @ w + c
    assert best < (y * psi - np.logaddexp(0, psi)).mean()
    start, step = logit(m), (z - z.mean(axis=0)) @ np.linalg.solve(S, a) * 4
    quadratic = (y * start - np.logaddexp(0, start) + (y - m) * step - step**2 / 8).mean()
    assert quadratic < best


def test_denoised_energy_is_right_on_average():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 4))
    S, a, sd = root @ root.T + np.eye(4), np.array([0.3, -0.2, 0.5, 0.1]), 0.1
    noised = a + sd * rng.standard_normal((40_000, 4))
    energy, factor = sbn._denoised_energy(noised, S, sd * sd)
    truth = a @ np.linalg.solve(S, a)
    # Cut at 0 for few: the mean of 40,000 has a standard error of 0.3 %.
    assert energy.mean() == pytest.approx(truth, rel=0.015)
    raw = np.einsum("jk,jk->j", noised @ np.linalg.inv(S), noised)
    np.testing.assert_allclose(raw * factor**2, energy, atol=1e-12)
    assert raw.mean() > 1.05 * truth


@pytest.mark.parametrize("private", [False, True])
def test_a_common_curvature_explains_more_than_the_constant_one(private):
    privacy = dict(target_epsilon=4.0, target_delta=1e-4) if private else dict(private=False)
    models = [
        keyed(SigmoidBeliefNetwork(8, bound=bound, random_state=0, **privacy)).fit(TRAIN) for bound in ("jaakkola", "bohning")
    ]
    # Nats a record of 36 pixels.
    assert models[0].score(TEST) / len(TEST) > models[1].score(TEST) / len(TEST) + 1


@pytest.mark.parametrize("sensitivity", ["proven", "paper"])
def test_estep_of_the_pg_bound_is_the_stated_sum(sensitivity):
    estimator = SigmoidBeliefNetwork(4, bound="pg", sensitivity=sensitivity, dtype="float64", random_state=0)
    model, mechanism = model_of(estimator, TRAIN[:200])
    advance(model, mechanism, np.arange(200), 2)
    sums = sums_of(model, mechanism, np.arange(200)) * mechanism.spacing / (1 - model._slack / model.clip_norm)
    y = TRAIN[:200].astype(float)
    z, xi = reference.sbn_pg(
        y, model._w, model._w**2 + model._variances, model._c, model._c_variance, model._b, expit(model._b), n_sweeps=4
    )
    k, l = np.triu_indices(4, 0 if sensitivity == "paper" else 1)
    products = z[:, k] * z[:, l]
    products[:, k == l] = z[:, k[k == l]]
    expected = {
        "s1": z.sum(axis=0), "s3": y.sum(axis=0), "s4": xi.sum(axis=0), "s5": xi.T @ z, "s6": y.T @ z, "s7": xi.T @ products,
    }
    if sensitivity == "paper":
        assert not sums[model._blocks["s2"]].any()  # public: it only gets the paper's noise
    for name, value in expected.items():
        got = sums[model._blocks[name]] * model._largest[name]
        # Factors on grids of 2^-20 and finer, 200 records.
        np.testing.assert_allclose(got, value.ravel(), atol=200 * 2.0**-19)


def test_mstep_of_the_pg_bound_solves_its_equations():
    estimator = SigmoidBeliefNetwork(3, bound="pg", weight_prior="gaussian", weight_variance=2.0, private=False, random_state=0)
    model, mechanism = model_of(estimator, TRAIN[:500], z=0.0)
    records = np.arange(500)
    for _ in range(5):
        state = State(sums_of(model, mechanism, records) * mechanism.spacing / 500)
        model.mstep(state)

    def block(name):
        return state.average[model._blocks[name]] * model._largest[name] / (1 - model._slack / model.clip_norm)

    z, y, xi = block("s1"), block("s3"), block("s4")
    xi_z, y_z = block("s5").reshape(36, 3), block("s6").reshape(36, 3)
    upper = block("s7").reshape(36, 3)
    moments = np.zeros((36, 3, 3))
    for (k, l), column in zip([(0, 1), (0, 2), (1, 2)], upper.T):
        moments[:, k, l] = moments[:, l, k] = column
    for k in range(3):
        moments[:, k, k] = xi_z[:, k]
    w, c = model._w, model._c
    # Gradients of the bound in w and c at the M-step's result, per record: its joint maximum.
    grad_w = y_z - 0.5 * z - c[:, None] * xi_z - np.einsum("jkl,jl->jk", moments, w) - w / (2.0 * 500)
    grad_c = y - 0.5 - (w * xi_z).sum(axis=1) - c * xi - c / (100.0 * 500)
    assert np.abs(w).max() > 1  # the weights have left their start
    # Condition numbers of about 1e3, entries of about 10, some roundings of 2^-52 each.
    assert np.abs(grad_w).max() < 1e-10 and np.abs(grad_c).max() < 1e-10


def test_mstep_of_the_pg_bound_with_a_unit_that_is_always_on():
    """Its weights and the visible biases explain the same thing, and neither runs away."""
    estimator = SigmoidBeliefNetwork(4, bound="pg", private=False, random_state=0)
    model, mechanism = model_of(estimator, TRAIN[:500], z=0.0)
    model._b = np.array([0.0, 0.0, 0.0, 12.0])
    sums = sums_of(model, mechanism, np.arange(500))
    for _ in range(50):
        model.mstep(State(sums * mechanism.spacing / 500))
    share = TRAIN[:500].mean(axis=0)
    fitted = 0.25 * (model._c + model._w @ (sums * mechanism.spacing / 500 * model._largest["s1"])[model._blocks["s1"]])
    # At psi = 0 the bound's curvature is 1/4: its maximum has mean psi = 4 (y - 1/2), but for priors and the start's rounding.
    np.testing.assert_allclose(fitted, share - 0.5, atol=0.02)
    assert np.abs(model._w[:, 3]).max() < 5 and np.abs(model._c).max() < 5


def test_hidden_bias_is_the_log_odds_for_a_broad_prior():
    model = SigmoidBeliefNetwork(4, private=False, bias_variance=1e9, random_state=0).fit(TRAIN)
    assert np.abs(expit(model.hidden_bias_) - model.transform(TRAIN).mean(axis=0)).max() < 0.05


# ----------------------------------------------------------------- sensitivity


def neighbours(rng, n_visible, n=500):
    """Pairs (y, y') of records, from empty to full, random and worst."""
    ones, zeros = np.ones(n_visible, dtype=np.uint8), np.zeros(n_visible, dtype=np.uint8)
    yield ones, zeros
    yield zeros, ones
    for _ in range(n):
        yield tuple((rng.random(n_visible) < rng.random()).astype(np.uint8) for _ in range(2))


@pytest.mark.parametrize(
    "options",
    [
        dict(bound="bohning"), dict(bound="jaakkola"), dict(bound="jaakkola", latent_clip=0.05, visible_clip=0.2),
        dict(bound="pg"), dict(bound="pg", clip=0.3), dict(bound="pg", sensitivity="paper"),
    ],
)
@pytest.mark.parametrize("z", [0.5, 20.0])
def test_replay_no_neighbour_moves_the_sum_further_than_declared(options, z):
    rng = np.random.default_rng(0)
    J, K = 12, 3
    base = (rng.random((40, J)) < 0.4).astype(np.uint8)
    estimator = SigmoidBeliefNetwork(K, random_state=0, **options)
    data = np.vstack([base, base[:2]])
    model, mechanism = model_of(estimator, data, z)
    declared = {
        neighbors: model.sensitivity(neighbors) / mechanism.spacing for neighbors in ("add_remove", "replace_one")
    }
    longest = 0.0
    for steps in range(3):
        for y, other in itertools.islice(neighbours(rng, J), 180):
            data[40], data[41] = y, other
            model._Y = data
            with_y, with_other, without = (
                sums_of(model, mechanism, [*range(40), 40]), sums_of(model, mechanism, [*range(40), 41]),
                sums_of(model, mechanism, range(40)),
            )
            for a, b, neighbors in [
                (with_y, without, "add_remove"), (with_other, without, "add_remove"), (with_y, with_other, "replace_one")
            ]:
                square = sum(int(d) ** 2 for d in a - b)
                assert square <= declared[neighbors] ** 2
                if neighbors == "add_remove":
                    longest = max(longest, math.sqrt(square) / declared[neighbors])
        advance(model, mechanism, np.arange(40), 1)
    # The mean image's step is tight for every record, but for the rounding that is taken off.
    if options["bound"] != "pg":
        assert longest > 1 - 2.1 * model._slack - 1e-6
        assert longest > 0.99


def test_the_largest_record_of_the_pg_bound_reaches_root_six():
    # Ones everywhere, z = 1 (b large), psi = 0 (no weights): every block is at its longest.
    estimator = SigmoidBeliefNetwork(3, bound="pg", dtype="float64", random_state=0)
    model, mechanism = model_of(estimator, np.ones((1, 7), dtype=np.uint8))
    model._w[:], model._b[:] = 0.0, 60.0
    length = math.sqrt(sum(int(q) ** 2 for q in sums_of(model, mechanism, [0]))) * mechanism.spacing
    assert math.sqrt(6) * (1 - 1e-4) < length <= math.sqrt(6)
    assert model.sensitivity("add_remove") == model.sensitivity("replace_one") == math.sqrt(6)


def test_clipped_records_without_overlap_reach_root_two():
    # Two hidden units, each for half of the pixels; |psi| = 50 makes all xi small,
    # so the two records share next to nothing.
    estimator = SigmoidBeliefNetwork(2, bound="pg", clip=0.1, dtype="float64", random_state=0)
    data = np.repeat(np.eye(2, dtype=np.uint8), 3, axis=1)
    model, mechanism = model_of(estimator, data, neighbors="replace_one")
    model._w, model._c = 100.0 * data.T, np.full(6, -50.0)
    a, b = sums_of(model, mechanism, [0]), sums_of(model, mechanism, [1])
    distance = math.sqrt(sum(int(d) ** 2 for d in a - b)) * mechanism.spacing
    assert 1.35 * model.clip_norm < distance <= model.sensitivity("replace_one") == math.sqrt(2) * model.clip_norm


def test_paper_construction_has_seven_blocks_and_more_noise_than_it_needs():
    estimator = SigmoidBeliefNetwork(3, bound="pg", sensitivity="paper", noise_multiplier=1.0, n_steps=2, sampling="full")
    estimator.fit(TRAIN[:200])
    release = [r for r in estimator.ledger_.to_dict()["records"] if r["kind"] == "release"][0]
    assert release["sensitivity"] == pytest.approx(math.sqrt(7))
    # sqrt(7) is above the proven sqrt(6): the guarantee stands, nothing to taint.
    assert estimator.privacy_.private
    model, _ = model_of(estimator, TRAIN[:200])
    assert list(model._blocks) == ["s1", "s2", "s3", "s4", "s5", "s6", "s7"]
    with pytest.raises(ValueError, match="sensitivity"):
        SigmoidBeliefNetwork(3, sensitivity="paper").fit(TRAIN)


@pytest.mark.parametrize("bound", ["jaakkola", "bohning", "pg"])
def test_threads_order_and_earlier_batches_leave_no_trace(bound):
    estimator = SigmoidBeliefNetwork(4, bound=bound, clip=0.5, random_state=0)
    Y = np.vstack([TRAIN[:1300], 1 - TRAIN[:100]])
    model, mechanism = model_of(estimator, Y)
    advance(model, mechanism, np.arange(1300), 2)
    records = np.arange(0, 1300, 2)
    first = sums_of(model, mechanism, records)
    for n_threads in (2, 7, 16):
        assert np.array_equal(first, sums_of(model, mechanism, records, n_threads))
    assert np.array_equal(first, sums_of(model, mechanism, records[::-1].copy()))
    sums_of(model, mechanism, np.arange(1300, 1400))  # a batch of other images in between
    assert np.array_equal(first, sums_of(model, mechanism, records))
    assert not sums_of(model, mechanism, []).any()


@pytest.mark.parametrize("z", [1.0, 2.0, 5.0])
def test_mu_audit_of_a_step(z):
    """Gaussian DP: two neighbours' releases, projected on their difference, are N(0, s) and N(D, s), D / s <= 1 / z."""
    draws = 30_000
    data = np.ones((3, 4), dtype=np.uint8)
    model, mechanism = model_of(SigmoidBeliefNetwork(1, random_state=0), data, z)
    a, b = sums_of(model, mechanism, [0, 1, 2]), sums_of(model, mechanism, [0, 1])
    direction = (a - b) / np.linalg.norm(a - b)
    projections = []
    for sums in (a, b):
        tiled = np.tile(sums, (draws, 1))
        mechanism.add_noise(tiled.reshape(-1), None)
        projections.append(((tiled - b) @ direction) * mechanism.spacing)
    mu = (projections[0].mean() - projections[1].mean()) / np.sqrt((projections[0].var() + projections[1].var()) / 2)
    error = math.sqrt(2 / draws + mu**2 / (4 * draws))
    # Lower bound at 1e-6 below the claim; and the claim is not loose.
    assert mu - 4.9 * error <= 1 / z
    assert mu + 4.9 * error >= 0.99 / z


# --------------------------------------------------------------------- pieces


def test_gig_means_match_quadrature():
    for a, b in [(1.0, 1.0), (1e-3, 5.0), (40.0, 1e-4), (300.0, 200.0), (2.0, 1e-8)]:
        def density(t, power):  # x = exp(t)
            return np.exp(power * t - (a * np.exp(t) + b * np.exp(-t)) / 2 + math.sqrt(a * b))

        span = np.linspace(-40, 40, 4_000_001)
        norm, mean, inverse = (integrate.trapezoid(density(span, p), span) for p in (0, 1, -1))
        ours = gig_means(np.array([a]), np.array([b]))
        # The trapezoid rule on a smooth decaying function at this spacing is exact to rounding.
        assert ours[0][0] == pytest.approx(mean / norm, rel=1e-9)
        assert ours[1][0] == pytest.approx(inverse / norm, rel=1e-9)


def test_gig_means_stay_finite_at_extremes():
    a, b = np.meshgrid([1e-12, 1.0, 1e12], [1e-12, 1.0, 1e12])
    for mean in gig_means(a, b):
        assert np.isfinite(mean).all() and (mean > 0).all()
    # Large s: X concentrates at sqrt(b/a).
    assert gig_means(np.array([1e8]), np.array([4e8]))[0][0] == pytest.approx(2.0, rel=1e-6)


def test_floor_spectrum():
    rng = np.random.default_rng(0)
    m = rng.standard_normal((5, 4, 4))
    m = m + np.swapaxes(m, 1, 2)
    out = floor_spectrum(m, 0.3)
    assert np.linalg.eigvalsh(out).min() >= 0.3 - 1e-12
    good = floor_spectrum(m, -100.0)
    np.testing.assert_allclose(good, m, atol=1e-12)


@pytest.mark.parametrize("n_hidden", [1, 2, 23])
def test_repaired_systems_are_those_of_numpy(n_hidden):
    """With nothing, something and all of the spectrum below the floor."""
    from scipy.linalg import lapack

    rng = np.random.default_rng(n_hidden)
    m = rng.standard_normal((7, n_hidden, n_hidden))
    m = m + np.swapaxes(m, 1, 2) + np.array([-99, -9, -1, 0, 1, 9, 99])[:, None, None] * np.eye(n_hidden)
    extra, right = rng.random((7, n_hidden)), rng.standard_normal((7, n_hidden, 2))
    repaired = floor_spectrum(m, 0.7)
    assert np.allclose(repaired[0], 0.7 * np.eye(n_hidden)) and np.allclose(repaired[-1], m[-1])
    inverse = np.linalg.inv(repaired + extra[:, None] * np.eye(n_hidden))
    triangle = np.triu(m)  # what is left of the diagonal is not read
    solutions, variances = solve_repaired(triangle, 0.7, extra, right, lapack)
    # Condition numbers are below 300, K roundings of 2^-52 each.
    np.testing.assert_allclose(solutions, inverse @ right, atol=1e-10)
    np.testing.assert_allclose(variances, np.diagonal(inverse, axis1=1, axis2=2), atol=1e-10)


def test_fixed_and_learned_phi():
    fixed, learned = (
        SigmoidBeliefNetwork(6, phi=phi, private=False, random_state=0).fit(TRAIN) for phi in (1e-4, None)
    )
    assert fixed.pixel_accuracy(TEST) > 0.9 and learned.pixel_accuracy(TEST) > 0.9
    assert not np.array_equal(fixed.components_, learned.components_)


@pytest.fixture(scope="module")
def mnist(data_dir):
    """All images, binarised above 0."""
    from vips_fast.data import load_mnist

    return load_mnist(data_dir / "mnist")[:2]


def test_mnist_at_a_small_epsilon(mnist):
    train, test = mnist
    model = SigmoidBeliefNetwork(50, target_epsilon=0.5, target_delta=1e-4, random_state=0, n_jobs=-1).fit(train)
    assert model.privacy_.private and model.privacy_.epsilon <= 0.5
    # The mean image gets .843; runs differ by about .001 about .954.
    assert mean_image_accuracy(train, test) < 0.85 and model.pixel_accuracy(test) > 0.94


@pytest.mark.slow
def test_mnist_over_epsilons(mnist):
    train, test = mnist
    options = dict(target_delta=1e-4, random_state=0, n_jobs=-1)
    free = SigmoidBeliefNetwork(50, private=False, random_state=0, n_jobs=-1).fit(train).pixel_accuracy(test)
    assert free > 0.955
    for epsilon, least in [(3.34, 0.955), (1.34, 0.955), (0.5, 0.94)]:
        assert SigmoidBeliefNetwork(50, target_epsilon=epsilon, **options).fit(train).pixel_accuracy(test) > least
    algorithm_6 = SigmoidBeliefNetwork(
        50, bound="pg", private=False, sampling="without_replacement", batch_size=3200, n_steps=18, learning_decay=0.7,
        random_state=0, n_jobs=-1,
    ).fit(train)
    # Ten starts gave .9587 with a standard deviation of .0003.
    assert algorithm_6.pixel_accuracy(test) > 0.957


# ------------------------------------------------------------------ read-outs


@pytest.fixture(scope="module")
def fitted():
    return SigmoidBeliefNetwork(4, private=False, random_state=0).fit(TRAIN)


def test_score_is_a_lower_bound_of_the_exact_likelihood(fitted):
    Y = TEST[:50]
    states = np.array(list(itertools.product([0, 1], repeat=4)), dtype=float)
    psi = states @ fitted.components_ + fitted.visible_bias_
    log_prior = states @ fitted.hidden_bias_ - np.logaddexp(0, fitted.hidden_bias_).sum()
    joint = log_prior + Y @ psi.T - np.logaddexp(0, psi).sum(axis=1)
    exact = np.logaddexp.reduce(joint, axis=1).sum()
    score = fitted.score(Y)
    assert score < exact
    # The mean field and the quadratic bound cost some nats a record, not tens.
    assert exact - score < 50 * 8


def test_samples_follow_the_model(fitted):
    Y = fitted.sample(40_000, random_state=0)
    assert Y.shape == (40_000, 36) and Y.dtype == np.uint8 and set(np.unique(Y)) == {0, 1}
    states = np.array(list(itertools.product([0, 1], repeat=4)), dtype=float)
    weight = np.exp(states @ fitted.hidden_bias_ - np.logaddexp(0, fitted.hidden_bias_).sum())
    mean = weight @ expit(states @ fitted.components_ + fitted.visible_bias_)
    # Five standard deviations of a mean of 40,000 coin flips.
    assert np.abs(Y.mean(axis=0) - mean).max() < 5 * 0.5 / 200
    assert np.array_equal(Y, fitted.sample(40_000, random_state=0))
    assert fitted.sample(0).shape == (0, 36)


def test_reconstruction_and_transform(fitted):
    z = fitted.transform(TEST)
    assert z.shape == (1000, 4) and z.min() >= 0 and z.max() <= 1
    np.testing.assert_allclose(
        fitted.reconstruct(TEST), expit(z @ fitted.components_ + fitted.visible_bias_), rtol=1e-12
    )
    assert np.array_equal(fitted.transform(TEST[7:8])[0], z[7])
    assert fitted.get_feature_names_out()[3] == "sigmoidbeliefnetwork3"


def test_save_and_load(fitted, tmp_path):
    for bound in ("jaakkola", "bohning", "pg"):
        model = SigmoidBeliefNetwork(3, bound=bound, noise_multiplier=3.0, n_steps=3, random_state=0).fit(TRAIN[:500])
        model.save(tmp_path / bound)
        back = SigmoidBeliefNetwork.load(tmp_path / bound)
        assert np.array_equal(back.transform(TEST), model.transform(TEST)) and back.score(TEST) == model.score(TEST)
        assert back.privacy_ == model.privacy_ and back.n_steps_ == 3
        assert back.get_params()["bound"] == bound


def test_callback_sees_public_figures_only():
    seen = []
    SigmoidBeliefNetwork(2, noise_multiplier=4.0, n_steps=3, callback=lambda *a: seen.append(a)).fit(TRAIN[:100])
    assert [s[0] for s in seen] == [1, 2, 3] and seen[0][1] < seen[1][1] < seen[2][1]


@pytest.mark.parametrize("sampling,batch", [("poisson", 300), ("without_replacement", 300), ("full", None)])
@pytest.mark.parametrize("bound", ["jaakkola", "bohning", "pg"])
def test_samplings(bound, sampling, batch):
    model = keyed(
        SigmoidBeliefNetwork(
            4, bound=bound, sampling=sampling, batch_size=batch, noise_multiplier=0.3, n_steps=12, learning_decay=0.7, random_state=0
        )
    ).fit(TRAIN[:600])
    assert model.privacy_.neighbors == ("replace_one" if sampling == "without_replacement" else "add_remove")
    assert np.isfinite(model.components_).all() and 0 <= model.pixel_accuracy(TEST) <= 1


def test_same_seed_same_fit_and_threads_do_not_matter():
    fits = [
        keyed(SigmoidBeliefNetwork(4, noise_multiplier=2.0, random_state=3, n_jobs=jobs)).fit(TRAIN[:1500]) for jobs in (1, 4)
    ]
    assert np.array_equal(fits[0].components_, fits[1].components_)


# ------------------------------------------------------------------ bad input


def test_bad_data_is_refused_before_anything_is_spent():
    nan = TRAIN[:5].astype(float)
    nan[2, 3] = np.nan
    cases = [
        (nan, "NaN"), (TRAIN[:5] * 7, "0 and 1"), (TRAIN[:5] - 0.5, "0 and 1"), (TRAIN[0], "shape"), (TRAIN[:0], "shape"),
        (np.array([["a"]]), "dtype"),
    ]
    for data, word in cases:
        model = SigmoidBeliefNetwork(2, noise_multiplier=1.0)
        with pytest.raises(ValueError, match=word) as caught:
            model.fit(data)
        assert "7" not in str(caught.value).replace("0 and 1", "")
        assert not hasattr(model, "ledger_")
    fitted = SigmoidBeliefNetwork(2, private=False).fit(TRAIN[:50])
    with pytest.raises(ValueError, match="features"):
        fitted.transform(TRAIN[:5, :30])


def test_bad_parameters_are_named():
    for change in [
        dict(n_components=0), dict(bound="other"), dict(weight_prior="horseshoe"), dict(weight_variance=0), dict(phi=-1),
        dict(n_sweeps=0), dict(latent_clip=0), dict(visible_clip=-1), dict(clip=1.5), dict(dtype="float16"),
        dict(update="paper"), dict(n_steps=1), dict(bias_variance=math.inf), dict(target_epsilon=0),
        dict(sensitivity="wrong"), dict(noise_multiplier=1e6),
    ]:
        with pytest.raises(ValueError, match=next(iter(change))):
            SigmoidBeliefNetwork(**change).fit(TRAIN[:20])
    with pytest.raises(ValueError, match="clip"):
        SigmoidBeliefNetwork(bound="pg", sensitivity="paper", clip=0.5).fit(TRAIN[:20])


def test_too_many_components_for_the_memory_are_refused():
    with pytest.raises(MemoryError, match="GiB"):
        SigmoidBeliefNetwork(100_000, bound="pg").fit(TRAIN[:20])
    with pytest.raises(MemoryError, match="GiB"):
        SigmoidBeliefNetwork(1_000_000).fit(TRAIN[:20])


def test_not_fitted():
    for call in ("transform", "score", "reconstruct", "pixel_accuracy"):
        with pytest.raises(ValueError, match="not fitted"):
            getattr(SigmoidBeliefNetwork(), call)(TEST)
    with pytest.raises(ValueError, match="not fitted"):
        SigmoidBeliefNetwork().sample()


def test_columns_that_never_vary_are_ordinary(recwarn):
    Y = TRAIN[:300].copy()
    Y[:, 0], Y[:, 1] = 0, 1
    for bound in ("jaakkola", "bohning", "pg"):
        model = SigmoidBeliefNetwork(3, bound=bound, noise_multiplier=1.0, n_steps=3).fit(Y)
        assert np.isfinite(model.score(Y))
    assert not recwarn.list


@pytest.mark.parametrize("bound", ["jaakkola", "bohning", "pg"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (7, 1), (3, 2)])
def test_smallest_sizes(bound, shape):
    Y = np.ones(shape, dtype=bool)
    for K in (1, 2):
        model = SigmoidBeliefNetwork(K, bound=bound, noise_multiplier=1.0, n_steps=3).fit(Y)
        assert model.transform(Y).shape == (shape[0], K) and np.isfinite(model.score(Y))
