"""Small fits along every path, and digests of their results: the matrix of test_same_bits.py.

A digest depends on dtypes, shapes and bytes of arrays, and on numbers of plans and events. It does not depend on names
of keys, on formats of files or on hashes of a chain, which may change where the numbers stay. `numbers` is the one
place that reads a ledger.
"""

import dataclasses
import hashlib
import io
import itertools
import json
import logging
import os
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from unittest import mock

import numpy as np
import pytest
import scipy
import scipy.sparse as sp
import threadpoolctl
from cases import COMMON, EVERY, EXAMPLES, calling, labeled, vectors
from priors import documents, prior_of
from runs import Stop, fail

import vips_fast
from vips_fast.data import Batch, write_shards
from vips_fast.engine.budget import Budget
from vips_fast.engine.sampling import KeyedRandomness, SystemRandomness
from vips_fast.models.lda import LdaOptions

KEY = b"k" * 32
PERSONS = np.random.default_rng(3).integers(0, 60, 200)
#: Read-outs whose arrays are digested by name, where a model has them.
READ = (
    "average_ class_prior_ classes_ coef_ components_ components_sd_ covariance_ hidden_bias_ intercept_ loadings_ "
    "mean_image_ means_ noise_sd_ noise_variance_ prior_precision_ probabilities_ "
    "prototype_weights_ shares_ variance_ variances_ visible_bias_ weights_ word_counts_"
).split()


def environment():
    """Return whatever may change the bits of floating-point numbers."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    blas = (pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas")
    return {
        "isa": vips_fast.runtime_info()["isa"],
        "blas": ",".join(sorted({str(pool.get("architecture")) for pool in blas})),
        "machine": os.uname().machine,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "simd": ",".join(found),
    }


def _hash(*parts):
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part if isinstance(part, bytes) else repr(part).encode())
    return hasher.hexdigest()[:24]


def _of_array(array):
    array = np.ascontiguousarray(array)
    if array.dtype.hasobject or array.dtype.kind in "US":
        return _hash(array.shape, array.tolist())
    return _hash(array.dtype.str, array.shape, array.tobytes())


def _of_arrays(arrays):
    """Of arrays in an order of their own: names may change."""
    return _hash(*sorted(map(_of_array, arrays.values())))


def _event(event):
    """Type and parameters of an event, nested."""
    fields = [getattr(event, field.name) for field in dataclasses.fields(event)]
    return [type(event).__name__, *map(_plain, fields)]


def _plain(value):
    if dataclasses.is_dataclass(value):
        return _event(value)
    if isinstance(value, (tuple, list)):
        return list(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def numbers(model):
    """Return numbers of plans, events and the statement. The same on every machine, but for the last digits."""
    ledger, said = model.ledger_, model.privacy_
    plans = [
        [plan[key] for key in ("relation", "unit", "sampling", "n_records", "batch_size", "n_steps", "delta")]
        + [plan[key] for key in ("noise_multiplier", "clip_norm", "sensitivity")]
        for plan in ledger.plans
    ]
    spent = sorted(([part or "", *_event(event), count] for (part, event), count in ledger.spent.items()), key=repr)
    worth = [said.epsilon, said.delta, said.accountant, said.steps, said.lost, list(said.shortened or ()), len(ledger)]
    return json.loads(json.dumps([plans, spent, worth, len(said.taints), model.n_steps_]))


def digests(model):
    """Return the digests of a fitted model, and its numbers."""
    result = model._fitted()
    read = {name: getattr(model, name) for name in READ if getattr(type(model), name, None) is not None}
    named = [(name, _of_array(value)) for name, value in sorted(read.items())]
    return {
        "arrays": _of_arrays(result.arrays),
        "state": _of_arrays(result.state),
        "read": _hash(*named),
        "numbers": numbers(model),
    }


@contextmanager
def known_system():
    """Make the system's randomness known. A private fit, which a budget takes, is the same at each run."""
    known, count = KeyedRandomness(KEY), itertools.count()
    keyed = {
        "words": lambda self, n, purpose, step, first=0: known.words(n, purpose, step, first),
        "key": lambda self, purpose, step: known.key(purpose, step),
        "of_step": lambda self, step: known.of_step(step),
        "noise_key": lambda self, step: known.noise_key(step),
    }
    with mock.patch.multiple(SystemRandomness, **keyed):
        with mock.patch("os.urandom", lambda n: np.random.default_rng(next(count)).bytes(n)):
            yield


def _unsafe(model):
    return model.set_unsafe(test_key=KEY)


BATCH = dict(batch_size=50)
#: Parameters of a fit under a test key.
SETTINGS = {
    "default": {},
    "poisson": dict(sampling="poisson", **BATCH),
    "without-replacement": dict(sampling="without_replacement", **BATCH),
    "full": dict(sampling="full"),
    "full-replace": dict(sampling="full", options={"relation": "replace_one"}),
    "allocation": dict(sampling="random_allocation", n_steps=8, **BATCH),
    "target": dict(noise_multiplier=None, epsilon=1.5, sampling="poisson", **BATCH),
    "target-allocation": dict(noise_multiplier=None, epsilon=1.5, sampling="random_allocation", n_steps=4, **BATCH),
    "target-replace": dict(noise_multiplier=None, epsilon=1.5, sampling="without_replacement", **BATCH),
    "no-target": dict(noise_multiplier=None),
    "both": dict(noise_multiplier=4.0, epsilon=5.0),
    "no-noise": dict(noise_multiplier=0.0, sampling="full"),
    "not-private": dict(noise_multiplier=None, private=False),
    "not-private-poisson": dict(noise_multiplier=None, private=False, sampling="poisson", **BATCH),
    "drop": dict(options={"invalid": "drop"}, n_records=250),
    "threads": dict(n_jobs=2, sampling="poisson", **BATCH),
}
#: The same, with persons.
GROUPED = {
    "persons": dict(sampling="full"),
    "persons-poisson": dict(sampling="poisson", batch_size=20, options={"rows_per_group": 3}),
    "persons-allocation": dict(sampling="random_allocation", batch_size=20, n_records=60, n_steps=3),
    "persons-target": dict(noise_multiplier=None, epsilon=2.0, sampling="poisson", batch_size=20),
}


def _fit(settings, **call):
    def path(name, folder):
        make, data = EVERY[name]
        return _unsafe(make(**settings)).fit(*data(), **call)

    return path


def _further(name, folder):
    """Further steps, and a target that all of them keep."""
    make, data = EVERY[name]
    model = _unsafe(make(epsilon=30.0))
    for seed in range(3):
        model.partial_fit(*data(seed=seed))
    return model


def _parts(name, folder):
    make, data = EVERY[name]
    model = _unsafe(make(n_records=200))
    for part, seed in (("mon", 0), ("tue", 1), ("mon", 0)):
        model.partial_fit(*data(seed=seed), part=part)
    return model


def _parts_of_persons(name, folder):
    make, data = EVERY[name]
    model = _unsafe(make(options={"rows_per_group": 2}))
    for part in ("mon", "tue"):
        model.partial_fit(*data(), groups=PERSONS, part=part, n_records=60)
    return model


def _stopped(name, folder):
    """Return a run that ends after its second step and is resumed."""
    make, data = EVERY[name]
    settings = dict(sampling="poisson", n_steps=5, **BATCH)
    stops = calling(make(**settings), lambda progress: progress.step == 2 and fail())
    with pytest.raises(Stop):
        _unsafe(stops).fit(*data(), checkpoint=folder / "run")
    return _unsafe(make(**settings)).fit(*data(), checkpoint=folder / "run", resume=True)


def _sharded(folder, name, groups=None, **options):
    X, y = (*EVERY[name][1](), None)[:2]
    binary = ("network-classes", "network")
    kind = "counts" if name.startswith("lda") else "binary" if name in binary else "numbers"
    batches = [
        Batch(X[a:b], None if y is None else y[a:b], None if groups is None else groups[a:b])
        for a, b in ((0, 70), (70, X.shape[0]))
    ]
    with known_system():  # which draws the bins
        return write_shards(folder / "shards", batches, kind=kind, **options)


def _shards(settings, groups=None, **options):
    def path(name, folder):
        corpus = _sharded(folder, name, groups, **options)
        call = {} if groups is None else {"groups": corpus.groups}
        return _unsafe(EVERY[name][0](**settings)).fit(corpus, **call)

    return path


def _paid(settings, groups=None, twice=False):
    """Return a fit that a budget pays for. With ``twice`` after another one."""

    def path(name, folder):
        make, data = EVERY[name]
        unit = "record" if groups is None else "person"
        relation = "replace_one" if settings.get("sampling") == "without_replacement" else "add_remove"
        budget = Budget.create(folder / "b", 3.0, 1e-5, dataset="ward", unit=unit, relation=relation)
        with known_system():
            if twice:
                make(noise_multiplier=None, epsilon=1.0, **settings).fit(*data(), groups=groups, budget=budget)
            model = make(noise_multiplier=None, **settings).fit(*data(), groups=groups, budget=budget)
        return model

    return path


def _paid_target(name, folder):
    budget = Budget.create(folder / "b", 3.0, 1e-5, dataset="ward", filter="gaussian")
    make, data = EVERY[name]
    with known_system():
        return make(noise_multiplier=None, epsilon=2.0, n_records=200).fit(*data(), budget=folder / "b") and (
            make(noise_multiplier=None, n_records=200).fit(*data(), budget=budget)
        )


def _paid_stopped(name, folder):
    """Return a run that a budget pays for, stopped and resumed."""
    make, data = EVERY[name]
    Budget.create(folder / "b", 3.0, 1e-5, dataset="ward")
    settings = dict(noise_multiplier=None, n_records=200, n_steps=5)
    keep = dict(checkpoint=folder / "run", resume=True, budget=folder / "b")
    with known_system():
        with pytest.raises(Stop):
            calling(make(**settings), lambda progress: progress.step == 2 and fail()).fit(*data(), **keep)
        return make(**settings).fit(*data(), **keep)


PATHS = {
    **{name: _fit(settings) for name, settings in SETTINGS.items()},
    **{name: _fit(settings, groups=PERSONS, unit="patient") for name, settings in GROUPED.items()},
    "partial": _further,
    "parts": _parts,
    "parts-persons": _parts_of_persons,
    "resumed": _stopped,
    "shards": _shards(dict(sampling="poisson", **BATCH)),
    "shards-default": _shards(dict(n_steps=4)),
    "bins": _shards(dict(n_steps=4), bins=4),
    "bins-target": _shards(dict(n_steps=8, noise_multiplier=None, epsilon=2.0), bins=4),
    "shards-persons": _shards(dict(sampling="poisson", batch_size=20, options={"rows_per_group": 3}), PERSONS),
    "bins-persons": _shards(dict(n_steps=4, noise_multiplier=None), PERSONS, bins=4),
    "budget": _paid({}),
    "budget-poisson": _paid(dict(sampling="poisson", n_records=200, **BATCH), twice=True),
    "budget-replace": _paid(dict(sampling="without_replacement", **BATCH)),
    "budget-persons": _paid(dict(sampling="full", n_records=60), PERSONS, twice=True),
    "budget-target": _paid_target,
    "budget-resumed": _paid_stopped,
}


def _texts(n=400, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array(["red", "green", "blue", "pink", "grey", "teal", "one", "two", "three", "four"])
    law = np.array([[4, 4, 3, 3, 2, 2, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 4, 4, 3, 3]], dtype=float)
    law /= law.sum(axis=1, keepdims=True)
    return [" ".join(rng.choice(words, rng.integers(5, 30), p=law[i % 2])) for i in range(n)]


OWNERS = np.random.default_rng(5).integers(0, 150, 400)


def _vocabulary(groups=None, **settings):
    def path(folder):
        made = vips_fast.PrivateVocabulary(**{"noise_multiplier": 2.0, "delta": 1e-5, **settings})
        return _unsafe(made).fit(_texts(), groups=groups)

    return path


def _topics(**settings):
    return vips_fast.LatentDirichletAllocation(
        2, **{"doc_length": 20, "n_steps": 4, "delta": 1e-5, "random_state": 0, **settings}
    )


def _after(words, topics, budget=None, groups=None, checkpoint=False):
    """Return a vocabulary and then its topics. With or without a budget for both."""

    def path(folder):
        if budget is not None:
            unit = "record" if groups is None else "person"
            Budget.create(folder / "b", budget, 1e-5, dataset="ward", unit=unit)
        call = dict(groups=groups, budget=None if budget is None else folder / "b")
        with known_system():
            made = vips_fast.PrivateVocabulary(delta=1e-5, max_tokens=20, **words)
            counts = made.fit(_texts(), **call).transform(_texts())
            more = dict(checkpoint=folder / "run") if checkpoint else {}
            return _topics(**topics).fit(counts, after=made, **call, **more)

    return path


def _planned(n_rows=3000, fit=None, **settings):
    def path(folder):
        rng = np.random.default_rng(0)
        counts = sp.csr_array(rng.poisson(1.5, (n_rows, 20)))
        settings["options"] = LdaOptions(measure_gain=False)
        made = vips_fast.LatentDirichletAllocation(3, random_state=0, delta=1e-6, **settings)
        return _unsafe(made).fit(counts, **(fit or {}))

    return path


def _public(noise, length=40, **call):
    """Public topics, with topics of the records' own unless texts are short or the noise is large."""

    def path(folder):
        made = vips_fast.LatentDirichletAllocation(
            4, public_prior=prior_of(64), noise_multiplier=noise, n_steps=20, sampling="full", random_state=0
        )
        return _unsafe(made).fit(documents(600, 64, length=length), **call)

    return path


def _prior_number(folder):
    make, data = EVERY["lda"]
    return _unsafe(make(options=LdaOptions(topic_word_prior=0.7))).fit(*data())


def _classes(**settings):
    def path(folder):
        X, _ = labeled()
        y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
        settled = {**COMMON, "row_norm": 2.0, "classes": ["a", "b", "c"], **settings}
        return _unsafe(vips_fast.BayesianLogisticRegression(**settled)).fit(X, y)

    return path


def _example(name):
    make, data = EXAMPLES[name]
    return lambda folder: _unsafe(make()).fit(*data())


def _clusters(n=400, **settings):
    def path(folder):
        rng = np.random.default_rng(0)
        z = rng.integers(0, 2, n)
        X = np.eye(6)[z] + 0.1 * rng.normal(size=(n, 6))
        known = vips_fast.PublicVectors(np.eye(6, 4), np.eye(6), np.ones(6), list("abcdef"), np.eye(6), "a test")
        made = vips_fast.DocumentClusters(2, public=known, delta=1e-5, random_state=0, **settings)
        return _unsafe(made).fit(X, groups=np.arange(n) // 2)

    return path


OTHERS = {
    "vocabulary": _vocabulary(),
    "vocabulary-persons": _vocabulary(groups=OWNERS, max_tokens=5),
    "vocabulary-target": _vocabulary(noise_multiplier=None, epsilon=2.0),
    "vocabulary-no-target": _vocabulary(noise_multiplier=None, max_features=6),
    "vocabulary-shares": _vocabulary(n_rounds=2, max_share=0.9),
    "after-target": _after(dict(epsilon=3.0), dict(epsilon=4.0, batch_size=200)),
    "after-noise": _after(dict(epsilon=3.0), dict(noise_multiplier=3.0, n_records=400)),
    "after-persons": _after(dict(epsilon=3.0), dict(epsilon=4.0), groups=OWNERS),
    "after-budget": _after(dict(epsilon=3.0), dict(n_records=400), budget=5.0),
    "after-budget-poisson": _after(dict(epsilon=3.0), dict(batch_size=200), budget=5.0, checkpoint=True),
    "after-budget-persons": _after(dict(epsilon=3.0), {}, budget=6.0, groups=OWNERS),
    "after-budget-target": _after(dict(epsilon=2.0), dict(epsilon=3.0, n_records=400), budget=4.0),
    "lda-planned": _planned(epsilon=2.0),
    "lda-planned-length": _planned(epsilon=8.0, doc_length=30),
    "lda-planned-persons": _planned(epsilon=4.0, fit=dict(groups=np.arange(3000) // 3)),
    "lda-planned-not-private": _planned(300, private=False),
    "lda-planned-allocation": _planned(epsilon=3.0, sampling="random_allocation"),
    "lda-prior-number": _prior_number,
    "lda-public": _public(5.0, 8),
    "lda-public-own": _public(5.0),
    "lda-public-persons": _public(60.0, groups=np.arange(600) // 3),
    "classes": _classes(),
    "classes-poisson": _classes(sampling="poisson", **BATCH),
    "classes-target": _classes(noise_multiplier=None, epsilon=3.0),
    "classes-not-private": _classes(noise_multiplier=None, private=False),
    "clusters": _clusters(epsilon=8.0),
    "clusters-poisson": _clusters(epsilon=8.0, sampling="poisson", batch_size=50),
}


def _command(*argv):
    from vips_fast.cli import main

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        code = main([str(arg) for arg in argv])
    if code:
        raise AssertionError(f"vips-fast {' '.join(map(str, argv))}: exit code {code}: {said.getvalue()}")


def _notes(folder):
    texts = _texts(600)
    lines = [f"p{i % 200},{text}" for i, text in enumerate(texts)]
    (folder / "notes.csv").write_text("\n".join(["patient,note", *lines, ""]))
    (folder / "words").write_text("\n".join(["red", "green", "blue", "one", "two", "three"]) + "\n")
    return folder / "notes.csv"


PLAIN = ("--quiet", "--seed", 1, "--anyway")


def _shell_lda(*more, budget=None, twice=False):
    def path(folder):
        source, out = _notes(folder), folder / "model"
        read = "--text note --person patient --language en --topics 2".split()
        fit = ["fit", "lda", source, *read, *PLAIN, "--out", out]
        with known_system():
            if budget is not None:
                create = ["budget", "create", folder / "b", "--dataset", "ward", "--unit", "person"]
                _command(*create, "--epsilon", budget, "--delta", 1e-5)
                fit += ["--budget", folder / "b"]
            words = ["--vocab", folder / "words"] if "words" in more else ["--max-share", 1]
            settings = [one for one in more if one != "words"]
            if twice:
                _command(*fit, *words, *settings, "--epsilon", 2, "--out", folder / "first")
            _command(*fit, *words, *settings)
        return vips_fast.LatentDirichletAllocation.load(out)

    return path


def _shell_rows(command, kind, *more):
    def path(folder):
        X, y = labeled()
        np.save(folder / "X.npy", X if command == "blr" else vectors()[0])
        np.save(folder / "y.npy", y)
        np.save(folder / "B.npy", EVERY["network"][1]()[0])
        np.save(folder / "groups.npy", PERSONS)
        source = folder / ("B.npy" if command == "sbn" else "X.npy")
        given = [folder / f"{one}.npy" if one in ("y", "groups") else one for one in more]
        with known_system():
            _command("fit", command, source, *given, "--out", folder / "m", "--quiet", "--seed", 1, "--delta", 1e-5)
        return getattr(vips_fast, kind).load(folder / "m")

    return path


SHORT = ("--steps", 4, "--doc-length", 20)
SHELL = {
    "shell-lda-bought": _shell_lda("--epsilon", 6, "--delta", 1e-5, "--set", "measure_gain=False"),
    "shell-lda-bought-short": _shell_lda(*SHORT, "--epsilon", 6, "--delta", 1e-5, "--vocab-share", 0.4),
    "shell-lda-budget": _shell_lda(*SHORT, "--records", 200, budget=8),
    "shell-lda-budget-unknown": _shell_lda(*SHORT, budget=8),
    "shell-lda-budget-target": _shell_lda(*SHORT, "--epsilon", 5, budget=8),
    "shell-lda-words": _shell_lda("words", *SHORT, "--epsilon", 2, "--delta", 1e-5, "--batch-size", 50),
    "shell-lda-words-budget": _shell_lda("words", *SHORT, "--records", 200, budget=8, twice=True),
    "shell-lda-noise": _shell_lda("words", *SHORT, "--noise-multiplier", 3, "--sampling", "poisson"),
    "shell-lda-plain": _shell_lda("words", "--non-private", "--steps", 3),
    "shell-blr": _shell_rows("blr", "BayesianLogisticRegression", "--label", "y", "--epsilon", 3, "--steps", 3),
    "shell-blr-persons": _shell_rows(
        "blr", "BayesianLogisticRegression", "--label", "y", "--groups", "groups", "--epsilon", 3, "--steps", 3
    ),
    "shell-sbn": _shell_rows("sbn", "SigmoidBeliefNetwork", "--components", 2, "--epsilon", 3, "--steps", 3),
    "shell-mixture": _shell_rows("mixture", "GaussianMixture", "--components", 2, "--epsilon", 3, "--steps", 3),
}

#: Paths that a model lacks: shards hold one label of a row; the paper's logistic regression has no persons.
LEFT_OUT = {
    *(("mixture", path) for path in PATHS if "shards" in path or "bins" in path),
    *(("logistic-paper", path) for path in PATHS if "persons" in path),
}

#: Name of every case, and the function that makes its fitted model in a new folder.
MATRIX = {
    **{
        f"{name}/{path}": (lambda folder, n=name, p=path: PATHS[p](n, folder))
        for name in EVERY
        for path in PATHS
        if (name, path) not in LEFT_OUT
    },
    **{f"{name}/default": _example(name) for name in EXAMPLES},
    **OTHERS,
    **SHELL,
}


def measured(case, folder):
    """Return the digests and numbers of a case, or the class of the refusal if a model refuses a path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            return digests(MATRIX[case](folder))
        except (ValueError, TypeError) as error:
            return {"refused": type(error).__name__, "said": str(error)}
        finally:
            logging.disable(logging.NOTSET)
