"""One small fit of each kind of model. The tests hold all of them to one contract."""

from functools import partial
from importlib import import_module

import numpy as np
import scipy.sparse as sp

COMMON = dict(noise_multiplier=2.0, delta=1e-5, random_state=0, n_steps=3)


def _lda(paper=False, **options):
    from vips_fast import LatentDirichletAllocation

    make = LatentDirichletAllocation.paper if paper else LatentDirichletAllocation
    given = options.pop("options", {})
    if isinstance(given, dict) and not paper:
        given = {"measure_gain": False, **given}
    return make(3, **{**COMMON, "options": given, "doc_length": 30, **options})


def calling(estimator, callback):
    """Give each later fit of an estimator a callback."""
    for method in {"fit", "partial_fit"} & set(dir(type(estimator))):
        vars(estimator)[method] = partial(getattr(type(estimator), method), estimator, callback=callback)
    return estimator


def _measured(**options):
    return _lda(**{**options, "options": {"measure_gain": True, **options.get("options", {})}})


def _logistic(paper=False, **options):
    from vips_fast import BayesianLogisticRegression

    make = BayesianLogisticRegression.paper if paper else BayesianLogisticRegression
    return make(**{**COMMON, "row_norm": 2.0, **options})


def _regressed(**options):
    from vips_fast import CountRegression

    return CountRegression(**{**COMMON, "row_norm": 2.0, "largest": 8.0, **options})


def _network(**options):
    from vips_fast import SigmoidBeliefNetwork

    return SigmoidBeliefNetwork(3, **{**COMMON, "n_steps": 4, **options})


def _classes(**options):
    from vips_fast import ClassConditionalNetwork

    return ClassConditionalNetwork(2, **{**COMMON, **options})


def _own(**options):
    from ball_mean import Mean

    return Mean(**{**COMMON, **options})


def _example(path, *arguments, **own):
    """Return a factory of a mixture, or of one of the models in docs/examples."""
    module, _, name = path.rpartition(":")

    def make(**options):
        kind = getattr(import_module(module or "vips_fast"), name)
        return kind(*arguments, **{**COMMON, **own, **options})

    return make


def counts(n=200, seed=0):
    """Documents over 12 words."""
    return (sp.csr_array(np.random.default_rng(seed).poisson(0.6, (n, 12))),)


def labeled(n=200, seed=0):
    """Rows of 5 columns and labels that depend on the first."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    y = (X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    y[:2] = 0, 1
    return X, y


def events(n=200, seed=0):
    """Rows of 5 columns and counts that depend on the first."""
    X, _ = CASES["logistic"][1](n, seed)
    return X, np.random.default_rng(seed + 1).poisson(np.exp(0.5 * X[:, 0]))


def binary(n=200, seed=0):
    """Binary records of 10 columns."""
    rng = np.random.default_rng(seed)
    return ((rng.random((n, 10)) < rng.random((n, 1))).astype(np.uint8),)


def coded(n=200, seed=0):
    """Return those records, and a label. Their first column tells it in part."""
    (Y,) = binary(n, seed)
    y = np.where(np.random.default_rng(seed + 1).random(n) < 0.2 + 0.6 * Y[:, 0], 1, 0)
    y[:2] = 0, 1
    return Y, y


def vectors(n=200, seed=0):
    return (0.4 * np.random.default_rng(seed).standard_normal((n, 4)),)


#: Name: (factory of an estimator, factory of the arguments of ``fit``).
CASES = {
    "lda": (_lda, counts),
    "lda-paper": (lambda **o: _lda(paper=True, **o), counts),
    "logistic": (_logistic, labeled),
    "logistic-paper": (lambda **o: _logistic(paper=True, **o), labeled),
    "network": (_network, binary),
    "mixture": (_example("GaussianMixture", 2, projection=3), vectors),
    "own": (_own, vectors),
}

#: Those, and cases that differ in ways that matter only to results, states and files.
EVERY = {
    **CASES,
    "logistic-sparse": (_logistic, lambda *a, **k: (sp.csr_array(labeled(*a, **k)[0]), labeled(*a, **k)[1])),
    "lda-measured": (_measured, counts),
    "counts": (_regressed, events),
    "logistic-spherical": (lambda **o: _logistic(**{"covariance": "spherical", **o}), labeled),
    "network-classes": (_classes, coded),
}

#: The models of one's own among the pages. `ConjugateEstimator` keeps the contract for them, as for the mixtures.
EXAMPLES = {
    "pca": (_example("probabilistic_pca:ProbabilisticPCA", center=np.full(4, 0.1)), vectors),
    "factors": (_example("factor_analysis:FactorAnalysis", center=np.full(4, 0.1)), vectors),
    "markov": (_example("hidden_markov:HiddenMarkovModel"), binary),
    "dynamics": (_example("linear_dynamics:LinearDynamicalSystem", n_outputs=2), vectors),
    "linear": (_example("linear_regression:LinearRegression", radius=2.0), CASES["logistic"][1]),
    "binomial": (_example("binomial_regression:BinomialRegression", options={"invalid": "drop"}), labeled),
}


def three_classes(n=200, seed=0):
    """Rows, and which third of the line their first column is in."""
    X, _ = labeled(n, seed)
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


def shares(n=200, seed=0):
    """Topic proportions of documents, and their wards."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), n), np.array(["n", "s"])[rng.integers(0, 2, n)]


def clustered(n=200, seed=0):
    return (np.eye(6)[np.arange(n) % 2] + 0.1 * np.random.default_rng(seed).normal(size=(n, 6)),)


def texts(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return ([" ".join(rng.choice(["red", "green", "blue", "pink", "grey"], 5)) for _ in range(n)],)


def _made(kind, *arguments, **own):
    import vips_fast

    return lambda **options: getattr(vips_fast, kind)(*arguments, **{**COMMON, **own, **options})


def _clusters(**options):
    import vips_fast

    known = vips_fast.PublicVectors(np.eye(6, 4), np.eye(6), np.ones(6), list("abcdef"), np.eye(6), "a test")
    return vips_fast.DocumentClusters(2, public=known, **{**COMMON, "n_steps": 9, **options})


def _prior(**options):
    from priors import prior_of

    import vips_fast
    from vips_fast.models.lda import LdaOptions

    own = dict(public_prior=prior_of(16), doc_length=30, options=LdaOptions(measure_gain=True))
    return vips_fast.LatentDirichletAllocation(4, **{**COMMON, **own, "n_steps": 6, **options})


def _documents(n=200, seed=0):
    """Documents over 16 words, which a public prior fits."""
    from priors import documents

    return (documents(n, 16, seed=seed),)


#: The models whose data or steps are of other kinds.
MORE = {
    "classes": (_made("BayesianLogisticRegression", row_norm=2.0, classes=[0, 1, 2]), three_classes),
    "tables": (_made("TopicTables", {"ward": ["n", "s"]}), shares),
    "clusters": (_clusters, clustered),
    "vocabulary": (_made("PrivateVocabulary", n_steps=None, n_rounds=2), texts),
    "prior": (_prior, _documents),
}
