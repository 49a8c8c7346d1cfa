"""Persons as units, for every model. A person's rows are one contribution, and nothing else of them shows."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from cases import EVERY, MORE

from vips_fast import BayesianLogisticRegression
from vips_fast.audit.bench import squared_norm
from vips_fast.engine.backend import Threads
from vips_fast.engine.model import Release
from vips_fast.jobs.publication import verify
from vips_fast.models.logistic.model import LogisticModel
from vips_fast.models.logistic.multiclass import ClassModel

KEY = b"k" * 32
#: Models whose sensitivity is the paper's are about records of one row.
REFUSED = {"logistic-paper": {"sensitivity": "proven"}}
MODELS = {**EVERY, "classes": MORE["classes"]}
ALL = pytest.mark.parametrize("name", MODELS)


def make(name, **options):
    return MODELS[name][0](**{**REFUSED.get(name, {}), **options})


def persons(n, seed=0):
    """Labels of rows. Persons of 1 to about 12 rows, all over the data."""
    rng = np.random.default_rng(seed)
    return rng.permutation(np.repeat(np.arange(n), np.minimum(rng.geometric(0.3, n), 12))[:n])


def prepare(name, groups, data=None, **options):
    estimator = make(name, **{"n_records": 100, "sampling": "full", **options})
    made = estimator.prepare(*(data or MODELS[name][1]()), groups=groups)
    rng = np.random.default_rng(5)
    for _ in range(2):  # past the first steps, which have other statistics
        one = made.model
        size = one.clip / np.sqrt(np.prod(one.shape)) / made.plan.mechanism.spacing
        units = np.rint(rng.normal(0, size, one.shape)).astype(np.int64)
        scale = made.plan.mechanism.spacing / 100
        one.update(Release(len(made.ledger), units, scale, scale))
    return made


def total(made, units, words, n_threads=1):
    return Threads(n_threads).sum(made.model, made.records, np.asarray(units), np.asarray(words))


def words_of(n):
    return np.random.default_rng(9).integers(0, 2**64, n, dtype=np.uint64)


@ALL
@pytest.mark.parametrize("limit", [None, 3])
def test_sums_are_additive_over_shards_that_keep_persons_whole(name, limit):
    """Bits of a person's contribution. By itself, in any block, order, thread, after others, for any place of rows."""
    data, groups = MODELS[name][1](), persons(200)
    made = prepare(name, groups, options={"rows_per_group": limit})
    n, rng = made.records.n_rows, np.random.default_rng(1)
    words = words_of(n)
    whole = total(made, np.arange(n), words)
    assert whole.any() and 20 < n < 120
    for n_threads in (1, 2, 7):
        order = rng.permutation(n)
        assert (total(made, order, words[order], n_threads) == whole).all()
    singles = [total(made, [i], words[[i]]) for i in range(n)]
    assert (sum(singles) == whole).all()
    # Own data sets: each person's rows lie together, the persons in another order.
    labels = list(dict.fromkeys(groups.tolist()))
    for shard in np.array_split(rng.permutation(n), 3):
        rows = np.concatenate([np.flatnonzero(groups == labels[i]) for i in shard])
        part = tuple(sp.csr_array(x.tocsr()[rows]) if sp.issparse(x) else x[rows] for x in data)
        if len(part) == 2 and len(set(part[1].tolist())) < 2:
            continue
        own = prepare(name, groups[rows], part, options={"rows_per_group": limit})
        own.model.restore(made.model.state())
        assert (total(own, np.arange(len(shard)), words[shard]) == sum(singles[i] for i in shard)).all()


# Counts divide their bound otherwise for persons.
@pytest.mark.parametrize("name", [name for name in MODELS if name != "counts"])
def test_persons_of_one_row_give_the_bits_of_records(name, monkeypatch):
    """The sums' bits in several states, and all published bits."""
    data, how = MODELS[name][1](), {}
    if name.startswith("lda"):
        how.update(options={"word_clip": 1.0}, clip=0.2)  # persons have other defaults
    if name.startswith(("logistic", "classes")):  # intervals of persons take more releases
        monkeypatch.setattr("vips_fast.models.logistic.estimator.SandwichModel", LogisticModel)
        monkeypatch.setattr("vips_fast.models.logistic.multiclass.PersonsClassModel", ClassModel)
    estimator = make(name, n_records=100, sampling="full", **how)
    runs = [estimator.prepare(*data, groups=groups) for groups in (None, [f"p{i}" for i in range(200)])]
    for _ in range(2):
        alone, grouped = (total(made, np.arange(200), words_of(200)) for made in runs)
        assert (alone == grouped).all() and alone.any()
        state = prepare(name, persons(200), **how).model.state()  # past the first step
        for made in runs:
            made.model.restore(state)
    alone = make(name, **how).set_unsafe(test_key=KEY).fit(*data)
    grouped = make(name, **how).set_unsafe(test_key=KEY).fit(*data, groups=[f"p{i}" for i in range(200)])
    for key, array in alone._result.arrays.items():
        assert array.tobytes() == grouped._result.arrays[key].tobytes(), key


@ALL
def test_a_person_is_no_longer_than_the_clip(name):
    """On the noise's lattice, for every person, however many rows. Some sums are cut to it."""
    data = tuple(sp.vstack([x] * 3).tocsr() if sp.issparse(x) else np.concatenate([x] * 3) for x in MODELS[name][1]())
    for seed in range(3):
        made = prepare(name, persons(600, seed) // (1 + 9 * seed), data, random_state=seed)
        n, spacing = made.records.n_rows, made.plan.mechanism.spacing
        words, most = words_of(n), Fraction(made.model.clip) ** 2 / Fraction(spacing) ** 2
        for i in range(n):
            contribution = made.model.round(total(made, [i], words[[i]]), spacing)
            assert squared_norm(contribution.reshape(-1)) <= most


@pytest.mark.parametrize("lost", [0, 1, 2, 9])
def test_no_refusal_tells_how_many_persons_have_no_label(lost):
    """Persons are replaced one by one: that two had lost their labels, and not one, ended the fit."""
    who = [None if i < lost else i for i in range(10)]
    how = dict(n_records=10, batch_size=5, sampling="without_replacement")
    X, stage = sp.csr_array(np.ones((10, 12), int)), make("lda", **how, options={"invalid": "drop"})
    made = stage.prepare(X, groups=who)
    drawn = [
        made.backend.minibatch(made.plan.sampler, made.records, made.randomness.of_step(0), 0)[0] for _ in range(200)
    ]
    n = min(11 - lost, 10)
    assert made.records.n_rows == n and made.plan.sampler.n_records == 10
    assert np.bincount(np.concatenate(drawn), minlength=n) == pytest.approx(np.full(n, 100), abs=45)


def many_words(n):
    """Documents of one word, as often as a count may be."""
    return (sp.csr_array((np.full(n, 2**31 - 1), np.zeros(n, int), np.arange(n + 1)), (n, 12)),)


@pytest.mark.parametrize("name, data", [("counts", None), ("classes", None), ("lda-measured", many_words)])
def test_no_number_of_a_persons_rows_ends_a_fit(name, data):
    """Kernels refused the sums of so many rows, also in the last step: which told of one person."""
    n, options = 2**20 + 1, {"n_records": 100, "sampling": "full"}
    made = make(name, **options).fit(*(data or MODELS[name][1])(n), groups=np.zeros(n, int))
    assert made.n_steps_ == 3


@ALL
def test_files_and_statement_speak_of_patients(name, tmp_path):
    data, groups = MODELS[name][1](), [f"label-{i}" for i in persons(200)]
    estimator = make(name, n_records=80, sampling="poisson", batch_size=40)
    estimator.fit(*data, groups=groups, unit="patient", transcript=tmp_path / "t")
    estimator.partial_fit(*data, groups=groups, unit="patient", n_records=80, transcript=tmp_path / "t")
    estimator.save(tmp_path / "m")
    back = type(estimator).load(tmp_path / "m")
    said = back.privacy_.statement()
    assert back.privacy_.unit == "patient" and "adding or removing one patient of 80" in said
    assert "The number of patients" in said and "record" not in said.replace("the same records add up", "")
    assert not any(b"label-" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert verify(tmp_path / "m", tmp_path / "t", cls=type(estimator)).ok
    with pytest.raises(ValueError, match="about one patient; expected one unit"):
        back.partial_fit(*data, n_records=80)


@pytest.mark.parametrize("kind", ["dense", "sparse", "ones"])
def test_sparse_and_dense_persons_of_logistic_regression(kind):
    """The same sums wherever rows lie, within the clip. Labels change the person's weight by nothing."""
    rng = np.random.default_rng(0)
    X = (rng.random((300, 40)) < 0.1) * (1.0 if kind == "ones" else rng.normal(size=(300, 40)))
    y, groups = rng.integers(0, 2, 300), rng.permutation(np.repeat(np.arange(12), 25))
    y[:2] = 0, 1
    take = (lambda rows: X[rows]) if kind == "dense" else lambda rows: sp.csr_array(X[rows])

    def sums(rows, y):
        made = BayesianLogisticRegression(n_records=12, random_state=0, noise_multiplier=1.0, sampling="full").prepare(
            take(rows), y[rows], groups=groups[rows]
        )
        order = list(dict.fromkeys(groups[rows].tolist()))
        return made, {g: total(made, [i], words_of(1)) for i, g in enumerate(order)}

    made, scattered = sums(np.arange(300), y)
    _, together = sums(np.argsort(groups, kind="stable"), y)
    _, flipped = sums(np.arange(300), 1 - y)
    bound = Fraction(made.model.clip) ** 2 / Fraction(made.plan.mechanism.spacing) ** 2
    lengths = []
    for person, sum_ in scattered.items():
        assert (sum_ == together[person]).all()
        lengths.append(squared_norm(made.model.round(sum_, made.plan.mechanism.spacing)) / bound)
        # s2 = sum of weights times x x^T: the weights are the same; s1 turns around.
        assert (sum_[41:] == flipped[person][41:]).all() and (sum_[:41] == -flipped[person][:41]).all()
    assert max(lengths) <= 1 and min(lengths) > 0.2


def test_what_is_about_records_alone_is_refused():
    X, y = MODELS["logistic"][1]()
    with pytest.raises(ValueError, match="groups: expected None with sensitivity='paper'"):
        BayesianLogisticRegression.paper(n_steps=2).fit(X, y, groups=np.arange(200) // 2)
