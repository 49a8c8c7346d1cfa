"""The accountants' paper in bench/paper. Its accountants, the settings behind its table, its runs, their pages."""

import math

import acc_common
import acc_fig1
import acc_fig2
import acc_fig3
import acc_table1
import acc_vi
import numpy as np
import pytest
from scipy import sparse

#: Why a test of the convolutional network is not run.
PAPER = "the network of Figure 1 needs PyTorch, and Opacus beside it (extra paper)"


def data(n=400, d=5, seed=0):
    """Rows near the unit sphere and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    return X, (X @ np.arange(1, d + 1) + rng.logistic(size=n) > 0).astype(int)


def test_printed_epsilons_of_the_moments_accountant_come_from_one_setting_each():
    """2.18, with the generic accountant's 1.62, 7.6 and 2.90. To the printed digits."""
    c = acc_common
    assert f"{c.moments(c.Q, c.NOISE, c.steps_of(c.EPOCHS), c.DELTA):.2f}" == "2.18"
    assert f"{c.generic(c.Q, c.NOISE, c.steps_of(c.EPOCHS), c.DELTA):.2f}" == "1.62"
    for name, printed in (("abalone", "7.6"), ("adult", "2.90")):
        s = acc_vi.SETTINGS[name]
        assert acc_table1.rounds_to(c.moments(s["q"], min(s["sigmas"]), s["steps"], acc_vi.DELTA_VI / 2, 159), printed)


def test_no_other_setting_that_was_tried_gives_them(monkeypatch):
    monkeypatch.setitem(acc_table1.SEARCHED["mnist"], "sigma", [0.9, 1.0, 1.1])
    found = acc_table1.search("mnist")["found"]
    assert [(round(hit["sigma"], 6), hit["delta"], hit["both"]) for hit in found] == [(1.0, 1e-5, True)]
    monkeypatch.setitem(acc_table1.PRINTED, "mnist", ("2.19", "1.62", ".95"))
    assert acc_table1.search("mnist")["found"] == []


@pytest.mark.parametrize("name", ["moments", "generic"])
def test_delta_is_the_inverse_of_epsilon(name):
    epsilon, delta = getattr(acc_common, name), getattr(acc_common, f"{name}_delta")
    assert delta(0.01, 1.0, 500, epsilon(0.01, 1.0, 500, 1e-5)) == pytest.approx(1e-5, rel=1e-6)


def test_bayesian_accountant_as_printed_is_the_least_over_the_orders():
    squared, order = 0.02, np.geomspace(0.1, 1e3, 100_001)
    least = ((squared * order * (order + 1) + math.log(1e5)) / order).min()
    assert acc_common.bayesian_v1(squared, 1e-5) == pytest.approx(least, rel=1e-6)


def test_langevins_printed_epsilon_is_that_of_its_printed_noise():
    """Their variance on the whole gradient. It is 128 N T L^2 / (b epsilon^2) ln(5 N T / (2 b delta)) ln(2 / delta)."""
    n, b, passes, bound, z, delta = 1000, 50, 3, 2.0, 1.5, 1e-3
    eps = acc_vi.langevin_printed(b / n, z, passes * n // b, delta)
    logs = math.log(5 * n * passes / (2 * b * delta)) * math.log(2 / delta)
    assert 128 * n * passes * bound**2 / (b * eps**2) * logs == pytest.approx((z * bound * n / b) ** 2)


def test_sampling_vi_learns_and_its_accountants_see_the_pairs():
    X, y = data()
    options = dict(q=0.2, steps=200, noise_sd=0.05, clip=10.0, learning_rate=10.0)
    for theta, found in (acc_vi.sampling_vi(X, y, **options), acc_vi.as_printed(X, y, 0, **options)):
        assert ((X @ theta > 0) == y).mean() > 0.75
        assert found["printed"] > 0
    # Distances: nobody's score is longer than the row.
    longest = 2 * np.linalg.norm(X, axis=1).max()
    assert 0 < acc_vi.sampling_vi(X, y, **options)[1]["mean_square"] < longest**2


def test_as_printed_the_noise_does_not_enter_what_is_learned():
    X, y = data()
    options = dict(q=0.5, steps=300, clip=10.0, learning_rate=10.0)
    loud, quiet = (acc_vi.as_printed(X, y, 0, noise_sd=sd, **options)[0] for sd in (50.0, 1e-9))
    sd = 50.0 / 0.5 * 10.0 / len(y) / math.sqrt(300)
    assert np.abs(loud - quiet).max() < 8 * sd < 2.5


def test_the_bayesian_accountant_fails_a_constructed_person(monkeypatch):
    X, y = data()
    monkeypatch.setattr(acc_vi, "load", lambda name: (sparse.csr_array(X), y, X, y))
    monkeypatch.setitem(acc_vi.SETTINGS, "adult", dict(q=0.1, steps=100))
    monkeypatch.setattr(acc_table1, "NOISE_SD", 1.0)
    monkeypatch.setattr(acc_table1, "HERS", 40.0)
    found = acc_table1.constructed(4)
    assert found["above_printed"] == 4
    assert found["delta_printed"] > 0.1 and max(found["losses"]) < found["exact"]
    # Somebody like the others is hidden as it says.
    monkeypatch.setattr(acc_table1, "USUAL", 1.0)
    monkeypatch.setattr(acc_table1, "HERS", 0.5)
    found = acc_table1.constructed(4)
    assert found["above_printed"] == 0 and found["delta_printed"] == 0.0


def test_pages_and_pictures_of_what_was_run(monkeypatch, tmp_path):
    X, y = data()
    monkeypatch.setattr(acc_vi, "load", lambda name: (X, y, X, y))
    monkeypatch.setattr(acc_fig2, "EPOCHS", 10)
    pages = {}
    monkeypatch.setattr(acc_fig2, "steps_of", lambda epochs: 10 * epochs)
    monkeypatch.setattr(acc_fig2, "Q", 0.01)
    for module, cells in ((acc_fig2, acc_fig2.cells(10)[1:3]), (acc_fig3, acc_fig3.cells(10))):
        rows = [cell | module.run(cell) | {"seconds": 1.0} for cell in cells]
        pages[module] = module.report(rows)
        assert [path.suffix for path in module.draw(rows, tmp_path)] == [".png"]
    monkeypatch.setitem(acc_vi.SETTINGS["abalone"], "steps", 30)
    monkeypatch.setitem(acc_vi.SETTINGS["abalone"], "sgld", 30)
    monkeypatch.setitem(acc_vi.SETTINGS["abalone"], "sigmas", [2.0])
    rows = [cell | acc_vi.run(cell) | {"seconds": 1.0} for cell in acc_vi.cells("abalone", 10)]
    assert {row["method"] for row in rows} == {*acc_vi.METHODS, "non-private"}
    pages[acc_vi] = acc_vi.report(rows)
    assert acc_vi.draw(rows, tmp_path, "figure")[0].exists()
    assert all("NOT PRIVATE" in page for page in pages.values())
    for row in rows:
        if row["method"] in ("DPVI", "DP-SGLD"):
            assert row["exact"] < row["printed"]


def test_network_in_the_engine():
    """Contributions are clipped, as a whole and only the image's. The ledger holds each step and says the taint."""
    torch = pytest.importorskip("torch", reason=PAPER)
    import acc_network

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    X, y = torch.rand(40, 1, 28, 28, generator=generator), torch.randint(0, 10, (40,), generator=generator)
    seen = []
    options = dict(batch=8, noise=1.0, clip=0.5, rate=0.1, steps=3, delta=1e-5)
    model, ledger = acc_network.train(acc_network.network(), X, y, **options, pairs=4, see=seen.append)
    assert len(ledger) == 3 and ledger.taints == (acc_network.TAINT,) and not ledger.private
    assert ledger.epsilon(1e-5) == pytest.approx(acc_common.exact(8 / 40, 1.0, 3, 1e-5))
    assert len(seen) == 3 and all(d.shape == (4,) and (d >= 0).all() and (d <= 1.0).all() for d in seen)
    X[0] = torch.nan
    alone = []
    for k in range(3):
        out = np.zeros(model.shape, np.int64)
        model.contribute((X[[k]], y[[k]]), None, out, {})
        alone.append(out)
    assert not alone[0].any()
    assert 0.99 < np.linalg.norm(alone[1] * model.spacing) / 0.5 <= 1.0
    together = np.zeros(model.shape, np.int64)
    model.contribute((X[:3], y[:3]), None, together, {})
    assert np.abs(together - sum(alone)).max() * model.spacing < 1e-5
    # Against plain backpropagation of one image.
    net = acc_network.network()
    names = model.parameters()
    net.load_state_dict(names)
    torch.nn.functional.cross_entropy(net(X[[2]]), y[[2]]).backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in net.parameters()]).double().numpy()
    expected = gradient * min(1.0, 0.5 / np.linalg.norm(gradient))
    assert np.abs(alone[2] * model.spacing - expected).max() < 1e-4


def test_figure_1_beside_opacus(monkeypatch, tmp_path):
    torch = pytest.importorskip("torch", reason=PAPER)
    pytest.importorskip("opacus", reason=PAPER)
    generator = torch.Generator().manual_seed(0)
    X, y = torch.rand(200, 1, 28, 28, generator=generator), torch.randint(0, 10, (200,), generator=generator)
    monkeypatch.setattr(acc_fig1, "load", lambda: (X, y, X, y))
    monkeypatch.setattr(acc_fig1, "steps_of", lambda epochs: 3 * epochs)
    monkeypatch.setattr(acc_fig1, "EPOCHS", 2)
    monkeypatch.setattr(acc_fig1, "RUN", 2)
    rows = [cell | acc_fig1.run(cell) | {"seconds": 1.0} for cell in acc_fig1.cells(1)]
    assert all(len(row["accuracy"]) == 2 for row in rows)
    assert rows[0]["ledger"] > 0 and rows[0]["exact"][-1] < rows[0]["moments"][-1]
    assert rows[1]["exact"] <= rows[1]["rdp"] * (1 + 1e-6)
    assert "NOT PRIVATE" in acc_fig1.report(rows)
    assert acc_fig1.draw(rows, tmp_path)[0].exists()
