"""Blocks without usable rows, in every model and any place: the same sums, and no error.

A block whose persons have rows, but none that is usable, is not an empty block to the engine.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cases import COMMON, EVERY, counts, labeled
from priors import documents, prior_of

import vips_fast
from vips_fast.engine.backend import Threads
from vips_fast.engine.measured import MEASURED
from vips_fast.models.lda import LdaOptions

#: Units, rows of each with groups, and units of a block.
UNITS, ROWS, BLOCK = 60, 3, 4
PLACES = {
    "first": np.arange(2 * BLOCK),
    "middle": np.arange(5 * BLOCK, 7 * BLOCK),
    "last": np.arange(UNITS - 2 * BLOCK, UNITS),
    "all": np.arange(UNITS),
}


def three_classes(n=200, seed=0):
    """Rows, and which third of the line their first column is in."""
    X, _ = labeled(n, seed)
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


def shares(n=200, seed=0):
    """Topic proportions of documents, and their wards."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), n), np.array(["n", "s"])[rng.integers(0, 2, n)]


def dated(n=200, seed=0):
    """Counts, and their periods."""
    return *counts(n, seed), np.array(["May", "June"])[np.arange(n) % 2]


def clustered(n=200, seed=0):
    """Vectors of 6 numbers, and counts of 6 words."""
    rng = np.random.default_rng(seed)
    return np.eye(6)[np.arange(n) % 2] + 0.1 * rng.normal(size=(n, 6)), sp.csr_array(rng.poisson(0.6, (n, 6)))


def texts(n=200, seed=0):
    """Texts of five words."""
    rng = np.random.default_rng(seed)
    return ([" ".join(rng.choice(["red", "green", "blue", "pink", "grey"], 5)) for _ in range(n)],)


def _scored(name):
    """Score a model of so many steps in its last one."""
    make, data = EVERY[name]
    return lambda **options: make(**{"n_steps": MEASURED, **options}), data


def _made(kind, *arguments, **own):
    return lambda **options: getattr(vips_fast, kind)(*arguments, **{**COMMON, **own, **options})


def _clusters(**options):
    known = vips_fast.PublicVectors(np.eye(6, 4), np.eye(6), np.ones(6), list("abcdef"), np.eye(6), "a test")
    return vips_fast.DocumentClusters(2, public=known, **{**COMMON, "n_steps": 9, **options})


def _prior(**options):
    own = dict(public_prior=prior_of(16), doc_length=30, options=LdaOptions(measure_gain=True))
    return vips_fast.LatentDirichletAllocation(4, **{**COMMON, **own, "n_steps": 6, **options})


MODELS = {
    **EVERY,
    **{f"{name}-scored": _scored(name) for name in ("logistic", "network", "gaussian-mixture", "linear")},
    "classes": (_made("BayesianLogisticRegression", row_norm=2.0, classes=[0, 1, 2]), three_classes),
    "tables": (_made("TopicTables", {"ward": ["n", "s"]}), shares),
    "drift": (_made("DriftingTopics", ["May", "June"], topics=np.eye(2, 12) + 0.1, doc_length=20), dated),
    "clusters": (_clusters, clustered),
    "vocabulary": (_made("PrivateVocabulary", n_steps=None, n_rounds=2), texts),
    "prior": (_prior, lambda n=200, seed=0: (documents(n, 16, seed=seed),)),
}
ALL = pytest.mark.parametrize("name", MODELS)


class SmallBlocks(Threads):
    """Blocks of a few units, and empty ones before, between and after them."""

    def _portion(self, model, records, *rest):
        return super()._portion(model, Divided(records), *rest)


class Divided:
    """Records whose blocks have `BLOCK` units."""

    def __init__(self, records):
        self.block = records.block

    def edges(self, rows):
        cuts = np.append(np.arange(0, len(rows), BLOCK), len(rows))
        return np.sort(np.concatenate([cuts, cuts[[0, len(cuts) // 2, -1]]]))


def broken(X, rows):
    """Spoil rows of records of any kind."""
    if isinstance(X, list):
        return [None if row in set(rows.tolist()) else text for row, text in enumerate(X)]
    spoiled = np.array(X.toarray() if sp.issparse(X) else X, np.float64)
    spoiled[rows] = np.nan
    return sp.csr_array(spoiled) if sp.issparse(X) else spoiled


def fitted(name, place, groups, backend):
    make, data = MODELS[name]
    each = 1 if groups is None else ROWS
    X, *y = data(UNITS * each)
    rows = (each * PLACES[place][:, None] + np.arange(each)).reshape(-1)
    model = make(n_records=UNITS, invalid="drop").set_unsafe(test_key=b"k" * 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(broken(X, rows), *y, groups=groups, backend=backend)
    return {key: array.tobytes() for key, array in model._result.arrays.items()}


@ALL
@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(UNITS), ROWS)], ids=["records", "persons"])
@pytest.mark.parametrize("place", PLACES)
def test_blocks_without_usable_rows_leave_the_bits_alone(name, place, groups):
    if name == "logistic-paper" and groups is not None:
        pytest.skip("the paper's regression takes no persons")
    whole = fitted(name, place, groups, Threads(1))
    for threads in (1, 3):
        assert fitted(name, place, groups, SmallBlocks(threads)) == whole
