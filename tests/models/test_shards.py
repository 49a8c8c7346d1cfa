"""Models with rows in shards on disk, beside rows in memory. Their fits, read-outs and refusals."""

from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from ball_mean import Mean
from cases import CASES, EVERY
from runs import bits

from vips_fast import plan, verify
from vips_fast.accounting import (
    GaussianEvent,
    PoissonSampledEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    epsilon,
)
from vips_fast.data import Batch, shards, write_shards
from vips_fast.data.groups import Runs
from vips_fast.engine.backend import Threads
from vips_fast.engine.budget import Budget

KEY = b"k" * 32
KINDS = dict.fromkeys(("lda", "lda-measured", "lda-paper"), "counts")
KINDS |= dict.fromkeys(("network", "network-classes"), "binary")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Rows are read from many places of the disk."""
    monkeypatch.setattr(shards, "PIECE", 600)


def sharded(path, name, data, persons=None, **options):
    """Return the arguments of ``fit`` in shards. The same rows follow in memory, in their order."""
    columns = *data[:2], *[None] * (2 - len(data)), persons
    batches = [Batch(*(one if one is None else one[part] for one in columns)) for part in (slice(70), slice(70, None))]
    return write_shards(path, batches, kind=KINDS.get(name, "numbers"), **options)


SETTINGS = {"poisson": dict(sampling="poisson", batch_size=50), "full": dict(sampling="full")}
SETTINGS["not private"] = dict(private=False, noise_multiplier=None)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", EVERY)
def test_a_fit_has_the_bits_of_one_in_memory(tmp_path, name, settings):
    make, data = EVERY[name]
    options = {"doc_length": None} if settings == "not private" and name == "lda" else {}
    corpus = sharded(tmp_path / "shards", name, data())
    models = [make(**SETTINGS[settings], **options).set_unsafe(test_key=KEY) for _ in range(3)]
    models[2].set_params(n_jobs=4)
    models[0].fit(*data())
    for model in models[1:]:
        assert bits(model.fit(corpus)) == bits(models[0])


@pytest.mark.parametrize("name", [name for name in CASES if name != "logistic-paper"])
@pytest.mark.parametrize("bins", [None, 4])
def test_persons_in_shards(tmp_path, name, bins):
    make, data = CASES[name]
    data, persons = data(), np.random.default_rng(3).integers(0, 60, 200)
    corpus = sharded(tmp_path / "shards", name, data, persons, bins=bins)
    # In memory, in their order.
    inside = corpus.matrix(np.arange(corpus.n_rows)), *([] if corpus.labels is None else [corpus.labels])
    numbers = np.repeat(np.arange(len(set(persons))), np.diff(corpus.groups.starts))
    options = {"sampling": "poisson", "batch_size": 20, "options": {"rows_per_group": 3}}
    models = [make(**options).set_unsafe(test_key=KEY) for _ in range(2)]
    assert bits(models[0].fit(*inside, groups=numbers)) == bits(models[1].fit(corpus, groups=corpus.groups))
    assert models[1].privacy_.n_records == len(set(persons))


@pytest.mark.parametrize("name", ["lda", "network", "network-classes", "logistic"])
def test_read_outs_work_in_pieces(tmp_path, monkeypatch, name):
    make, data = EVERY[name]
    monkeypatch.setattr(shards, "PIECE", 500)
    corpus, data = sharded(tmp_path / "shards", name, data()), data()
    model = make().fit(*data)
    assert sum(1 for _ in corpus.pieces()) > 3
    read = model.predict_proba if hasattr(model, "predict_proba") else model.transform
    np.testing.assert_array_equal(read(corpus), read(data[0]))
    assert model.score(corpus) == pytest.approx(model.score(*data), rel=1e-12)
    if name == "lda":
        assert model.perplexity(corpus) == pytest.approx(model.perplexity(*data), rel=1e-12)


def test_invalid_rows_contribute_nothing(tmp_path):
    make, data = CASES["logistic"]
    X, y = data()
    X[[3, 80, 81]] = np.nan
    models = [make(sampling="full", options={"invalid": "drop"}).set_unsafe(test_key=KEY) for _ in range(2)]
    corpus = sharded(tmp_path / "shards", "logistic", (X, y), invalid="drop")
    assert bits(models[0].fit(X, y)) == bits(models[1].fit(corpus))
    with pytest.raises(ValueError, match="rows: expected finite values, found"):
        sharded(tmp_path / "other", "logistic", (X, y))
    with pytest.raises(ValueError, match="X: expected rows that were all usable"):
        make().fit(corpus)
    make, data = CASES["network"]
    corpus = sharded(tmp_path / "network", "network", (2 * data()[0],), invalid="drop")
    with pytest.raises(ValueError, match="Y: expected rows that were all usable"):
        make().fit(corpus)
    assert not make(options={"invalid": "drop"}, n_records=200).fit(corpus).privacy_.taints


class Logarithms(Mean):
    limit = np.inf

    def records(self, X, y=None):
        if (X > self.limit).any():
            raise ValueError("no record of a row")
        with np.errstate(all="ignore"):
            return np.log(X)


def test_records_of_ones_own_are_made_before_anything_is_spent(tmp_path, monkeypatch):
    X = np.random.default_rng(0).uniform(0.1, 1.0, (100, 2))
    X[[7, 93]] = -1.0, 0.0
    monkeypatch.setattr(shards, "PIECE", 256)
    corpus = write_shards(tmp_path / "shards", [Batch(X)], kind="numbers")
    settings = dict(noise_multiplier=1.0, n_steps=2, n_records=100)
    models = [Logarithms(options={"invalid": "drop"}, **settings).set_unsafe(test_key=KEY) for _ in range(2)]
    assert bits(models[0].fit(X)) == bits(models[1].fit(corpus))
    budget = Budget.create(tmp_path / "b", 9.0, 1e-5, dataset="d")
    for limit, match in ((np.inf, "X, y: expected finite numbers"), (0.9, "no record of a row")):
        monkeypatch.setattr(Logarithms, "limit", limit)
        with pytest.raises(ValueError, match=match):
            Logarithms(**settings).fit(corpus, budget=budget)
    assert budget.spent == 0
    bad = write_shards(tmp_path / "bad", [Batch(np.where(X < 0, np.nan, X))], kind="numbers", invalid="drop")
    with pytest.raises(ValueError, match="X, y: expected finite numbers"):
        Mean(**settings).fit(bad)


@pytest.mark.parametrize(
    "name, other, message",
    [
        ("lda", "network", "X: shards of binary: expected counts"),
        ("network", "lda", "Y: shards of counts: expected binary records"),
        ("own", "lda", "X: shards of sparse rows; expected dense ones"),
        ("logistic", "lda", "shards of counts"),
        ("network-classes", "logistic", "shards of numbers"),
    ],
)
def test_shards_of_another_kind_are_refused(tmp_path, name, other, message):
    corpus = sharded(tmp_path / "shards", other, CASES[other][1]())
    with pytest.raises(ValueError, match=message):
        EVERY[name][0]().fit(corpus)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64, np.uint64, np.bool_, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_any_integer_type_gives_the_same_bits(dtype, index):
    make, data = CASES["lda"]
    (X,) = data()
    if dtype is np.bool_:
        X.data[:] = 1
    Y = sp.csr_array(X.shape, dtype=dtype)
    Y.data, Y.indices, Y.indptr = X.data.astype(dtype), X.indices.astype(index), X.indptr.astype(index)
    one, other = (make(n_jobs=2).set_unsafe(test_key=KEY).fit(matrix) for matrix in (X, Y))
    assert bits(one) == bits(other)


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("name", ["lda", "logistic", "network"])
def test_bins_on_disk_are_the_minibatches(tmp_path, name, persons):
    make, data = CASES[name]
    whose = np.random.default_rng(3).integers(0, 60, 200) if persons else None
    corpus = sharded(tmp_path / "shards", name, data(), whose, bins=4)
    n = len(corpus.groups.starts) - 1 if persons else corpus.n_rows

    class Spy(Threads):
        seen: ClassVar[list[list[int]]] = []

        def minibatch(self, sampler, records, randomness, step):
            rows, words = super().minibatch(sampler, records, randomness, step)
            self.seen.append(rows.tolist())
            return rows, words

    options = {"sampling": "random_allocation", "n_steps": 8, "noise_multiplier": 3.0, "epsilon": None}
    model = make(**options).fit(corpus, groups=corpus.groups, backend=Spy())
    expected = [list(range(a, b)) for a, b in zip(corpus.bins, corpus.bins[1:])]
    assert Spy.seen == 2 * expected and sum(map(len, expected)) == n
    assert model.ledger_.event() == SelfComposedEvent(RandomAllocationEvent(4, 1, GaussianEvent(3.0), True), 2)
    # Used twice, bins say more than two fresh draws do, and the state says so after it was loaded, too.
    fresh = SelfComposedEvent(RandomAllocationEvent(4, 1, GaussianEvent(3.0)), 2)
    assert model.privacy_.epsilon > epsilon(fresh, model.privacy_.delta)
    model.save(tmp_path / "model")
    assert type(model).load(tmp_path / "model").privacy_ == model.privacy_
    assert "drawn once with the data" in str(model.privacy_)
    for wrong, more in (("batch_size", {"batch_size": n / 2}), ("n_steps", {"n_steps": 6})):
        with pytest.raises(ValueError, match=wrong):
            make(**options | more).fit(corpus, groups=corpus.groups)
    for other in [None, Runs(corpus.groups.starts[::3])] if persons else [np.arange(corpus.n_rows)]:
        with pytest.raises(ValueError, match="groups: expected"):
            make(**options).fit(corpus, groups=other)
    # Bins that are not of all units, as a damaged manifest might say.
    corpus.bins = corpus.bins[:-1]
    with pytest.raises(ValueError, match="bins are not made of all its units"):
        make(**options | {"n_steps": 6}).fit(corpus, groups=corpus.groups)


@pytest.mark.parametrize("said", [None, 1000])
def test_a_budget_knows_of_bins_before_the_data_are_read(tmp_path, said):
    make, data = CASES["logistic"]
    corpus = sharded(tmp_path / "shards", "logistic", data(), bins=3)
    budget = Budget.create(tmp_path / "budget", 3.0, 1e-5, dataset="d", filter="gaussian")
    options = {"sampling": "random_allocation", "n_steps": 3, "noise_multiplier": 3.0, "epsilon": None}
    model = make(**options, n_records=said).fit(corpus, budget=budget)
    assert model.ledger_.event() == RandomAllocationEvent(3, 1, GaussianEvent(3.0), True)
    assert budget.left < 3.0


SAMPLED = {
    "memory": lambda n: PoissonSampledEvent(0.25, GaussianEvent(3.0)),
    "disk": lambda n: RandomAllocationEvent(4, 1, GaussianEvent(3.0)),
    "bins": lambda n: RandomAllocationEvent(2, 1, GaussianEvent(3.0), True),
    "replace_one": lambda n: WithoutReplacementEvent(n // 4, n, GaussianEvent(3.0)),
    "poisson": lambda n: PoissonSampledEvent(0.25, GaussianEvent(3.0)),
}


@pytest.mark.parametrize("name", ["lda", "network"])
@pytest.mark.parametrize("where", SAMPLED)
def test_how_data_are_sampled_that_nobody_says(tmp_path, name, where):
    make, data = EVERY[name]
    X = data()[0]
    n, rows = X.shape[0], X
    if where != "memory":
        rows = sharded(tmp_path / "shards", name, data(), bins=2 if where == "bins" else None)
    options = {"n_steps": 8, "noise_multiplier": 3.0, "epsilon": None, "sampling": None}
    options["batch_size"] = None if where == "bins" else n // 4
    if where == "replace_one":
        options["options"] = {"relation": "replace_one"}
    if where == "poisson":  # the stated sampling also happens on disk
        options["sampling"] = "poisson"
    model = make(**options).fit(rows, transcript=tmp_path / "t")
    event = SAMPLED[where](n)
    per_epoch = getattr(event, "n_batches", 1)
    assert model.ledger_.event() == SelfComposedEvent(event, 8 // per_epoch)
    assert model.sampling == options["sampling"] and model.privacy_.runs[-1].sampling == event.kind.removesuffix(
        "_sampled"
    )
    model.save(tmp_path / "model")
    assert verify(tmp_path / "model", tmp_path / "t").ok
    if where in ("disk", "bins"):
        with pytest.raises(ValueError, match="n_steps=7: expected a multiple of .* or sampling='poisson'"):
            make(**{**options, "n_steps": 7}).fit(rows)
    # A call of partial_fit is one step of all rows, wherever they are.
    called = make(**{**options, "batch_size": None}).partial_fit(rows)
    assert called.privacy_.runs[-1].sampling == "full" and called.privacy_.relation == model.privacy_.relation


def test_steps_that_nobody_says_fill_epochs(tmp_path):
    make, data = CASES["lda"]
    options = {"n_steps": None, "batch_size": None, "noise_multiplier": 3.0, "epsilon": None, "sampling": None}
    corpus = sharded(tmp_path / "shards", "lda", data(), bins=3)
    assert make(**options).fit(corpus).n_steps_ in (21, 45)
    fresh, reused = (
        plan(200, 12, 2, batch_size=50, sampling="random_allocation", n_bins=b, n_steps=8) for b in (None, 4)
    )
    assert reused.noise_multiplier > 1.05 * fresh.noise_multiplier
