"""Bad parameters and bad input of every model are named, and nothing is spent."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from cases import EVERY, MORE
from priors import prior_of

from vips_fast.models.lda import LdaOptions

MODELS = {**EVERY, **MORE}
NAN = math.nan
X, Y = EVERY["logistic"][1](40)
BITS, LABELS = EVERY["network-classes"][1](100)
EYE = np.eye(2)
WARDS = {"by": {"w": ["a", "b"]}}
NO_COUNT = "^y: expected counts, whole numbers from 0; leave .*drop"


#: By case: changed parameters, changed arguments of ``fit``, and words of the refusal.
REFUSED = {
    "lda": [
        ({"n_components": 0}, {}, "n_components"),
        ({"n_components": 2.5}, {}, "n_components"),
        ({"doc_length": 0}, {}, "doc_length"),
        ({"clip": 0.0}, {}, "clip"),
        ({"clip": 1.5}, {}, "clip"),
        ({"public_prior": "public:en"}, {}, "public_prior: str; expected a PublicPrior"),
        ({"options": LdaOptions(dtype="float16")}, {}, "dtype"),
        ({"options": LdaOptions(doc_topic_prior=0.0)}, {}, "doc_topic_prior"),
        ({"options": LdaOptions(topic_word_prior=-1.0)}, {}, "topic_word_prior"),
        ({"options": LdaOptions(learning_decay=1.5)}, {}, "learning_decay"),
        ({"options": LdaOptions(learning_offset=-1.0)}, {}, "learning_offset"),
        ({"options": LdaOptions(mean_change_tol=-1.0)}, {}, "mean_change_tol"),
        ({"options": LdaOptions(topic_mean="harmonic")}, {}, "topic_mean='harmonic'"),
        ({"options": LdaOptions(measure_gain="yes")}, {}, "measure_gain"),
        *(({"options": LdaOptions(distinct_words=wrong)}, {}, "distinct_words") for wrong in (0, NAN, math.inf, "7")),
        ({}, {"groups": [1, 2]}, "^groups has shape"),
        ({}, {"groups": [None, *range(199)]}, "^groups: expected a label for each row"),
        ({}, {"unit": "patient"}, "^unit='patient': expected None without groups"),
        ({}, {"groups": range(200), "unit": "record"}, "^unit='record'"),
        ({"options": {"rows_per_group": 0}}, {"groups": range(200)}, "^rows_per_group=0"),
    ],
    "prior": [
        ({"n_components": 5}, {}, "n_components=5: expected 4, the topics of public_prior"),
        ({"public_prior": prior_of(17)}, {}, "public_prior has 17 words: expected 16, those"),
    ],
    "lda-paper": [
        ({"n_components": 4, "public_prior": prior_of(16)}, {}, "public_prior: expected None; the article's algorithm")
    ],
    "logistic": [
        ({}, {"y": np.zeros(200)}, "y has 1 class, of floating-point numbers"),
        ({}, {"y": np.arange(200) % 3}, "y has 3 classes: expected 2, or classes= that states them"),
        ({}, {"y": np.where(np.arange(200) % 2, 1.0, NAN)}, "y: expected labels, found NaN"),
        ({}, {"y": np.array(["a", 1] * 100, dtype=object)}, "y: expected labels of one kind", TypeError),
        ({}, {"X": X, "y": Y[:-1]}, "y has shape"),
        ({}, {"X": X, "y": Y[:, None]}, "y has shape"),
        ({}, {"X": np.where(X == X[3, 1], NAN, X), "y": Y}, "X: expected finite"),
        ({}, {"X": X[:, 0], "y": Y}, "X has dtype float64 and shape"),
        ({}, {"X": X.astype(str), "y": Y}, "expected a table of numbers"),
        ({}, {"X": X[:, :0], "y": Y}, "X has 0 columns: expected at least one"),
        ({}, {"X": sp.csr_array((40, 40_000)), "y": Y}, "at most 32768"),
        ({"classes": [0, 1]}, {"X": X[:0], "y": Y[:0]}, "X has no rows"),
        ({"row_norm": 0}, {}, "row_norm=0"),
        ({"row_norm": NAN}, {}, "row_norm=nan"),
        ({"fit_intercept": 1}, {}, "fit_intercept=1"),
        ({"sampling": "poisson"}, {}, "batch_size=None"),
        ({"noise_multiplier": 1e7}, {}, "noise_multiplier=1"),
        ({"covariance": "diagonal"}, {}, "covariance='diagonal'"),
        ({"options": {"intercept_scaling": -1}}, {}, "intercept_scaling=-1"),
        ({"options": {"prior_rate": 0}}, {}, "prior_rate=0"),
        ({"options": {"measure_gain": "yes"}}, {}, "measure_gain"),
        # Noise that is too coarse for the dimension.
        ({"noise_multiplier": 5000.0}, {"X": np.eye(40, 800), "y": Y}, "too large for 801 features"),
        ({"noise_multiplier": 4e6, "fit_intercept": False}, {"X": X[:, :1], "y": Y}, "too large for 1 features"),
    ],
    "logistic-paper": [
        ({"options": {"linear_share": 0}}, {}, "linear_share=0"),
        ({"options": {"learning_decay": 2}}, {}, "learning_decay=2"),
        ({"options": {"form": "paper"}}, {}, "form='paper'"),
        ({"covariance": "spherical"}, {}, "covariance='spherical'"),
        ({"classes": [0, 1, 2]}, {"y": np.arange(200) % 3}, "expected two different labels"),
    ],
    "logistic-spherical": [
        ({"classes": [0, 1, 2]}, {"y": np.arange(200) % 3}, "expected two with covariance='spherical'")
    ],
    "classes": [
        ({"classes": [0, 1, 1]}, {}, "expected 2 to 1024 different labels"),
        ({"classes": [0]}, {}, "expected 2 to 1024 different labels"),
        ({"classes": 3}, {}, "classes"),
        ({"classes": ([1], [2])}, {}, "classes"),
        ({"classes": [0, 1, 3]}, {}, "y: expected the labels of classes, 0, 1, 3; spell"),
    ],
    "counts": [
        *(({}, {"y": np.append(np.ones(199), wrong)}, NO_COUNT) for wrong in (-1.0, 0.5, NAN)),
        ({"largest": 0.5}, {}, "^largest=.*expected"),
        ({"dispersion": 0.0}, {}, "^dispersion=.*expected"),
        ({"row_norm": -1.0}, {}, "^row_norm=.*expected"),
        ({}, {"y": np.array(["a"] * 200)}, "y has dtype <U1: expected", TypeError),
        ({}, {"y": None}, "y=None"),
        ({}, {"exposure": np.ones(200)}, "^largest_exposure=.*: expected the public number"),
        ({"largest_exposure": 9.0}, {}, "^largest_exposure=.*: expected None without"),
        *(
            ({"largest_exposure": wrong}, {"exposure": np.ones(200)}, "^largest_exposure=.*: expected a number in")
            for wrong in (0, 1e-300, NAN)
        ),
        ({"largest_exposure": 9.0}, {"exposure": np.ones(5)}, "^exposure has shape"),
    ],
    "network": [
        ({"n_components": 0}, {}, "n_components"),
        ({"n_steps": 1}, {}, "n_steps"),
        ({"options": {"n_sweeps": 0}}, {}, "n_sweeps"),
        ({"options": {"measure_gain": 2}}, {}, "measure_gain"),
        (
            {"n_components": 20, "noise_multiplier": 1e6},
            {"Y": np.eye(4, 200, dtype=np.uint8)},
            r"noise_multiplier=1e\+06: too large for 4410 statistics, .* take \d+% of",
        ),
    ],
    "network-classes": [
        ({}, {"y": None}, "requires y"),
        ({}, {"Y": BITS, "y": LABELS[:99]}, "y has shape"),
        ({}, {"y": ["a"] * 200}, "1 class"),
        ({}, {"y": np.arange(200.0) * NAN}, "NaN"),
        ({"classes": [1, 2]}, {"y": [1] * 100 + ["a"] * 100}, "kind of classes", TypeError),
        ({"classes": ["a", "b"]}, {"y": ["a", "c"] * 100}, "labels of classes"),
        ({"classes": ["a"]}, {}, "classes="),
        ({"classes": list(range(257))}, {}, "2 to 256"),
        ({}, {"Y": 2 * BITS, "y": LABELS}, "only 0 and 1"),
        ({"n_components": 0}, {}, "n_components"),
        ({"n_steps": 1}, {}, "n_steps"),
        ({"options": 3}, {}, "NetworkOptions"),
        ({"n_components": 2**20}, {}, "statistics", MemoryError),
    ],
    "mixture": [
        ({"projection": None}, {"X": [[1.0, NAN]]}, "expected finite numbers"),
        ({"projection": 1}, {"X": [[math.inf, 1.0]]}, "expected finite numbers"),
        ({"projection": None}, {"X": [1.0, 2.0]}, "X has shape"),
        ({"projection": None}, {"X": [["a", "b"]]}, "expected numbers"),
        ({"projection": 3}, {"X": [[1.0, 2.0]]}, "projection=3: expected at most the 2 columns"),
        ({"projection": np.eye(3)}, {"X": [[1.0, 2.0]]}, "X has 2 columns: expected 3"),
        ({"projection": np.full((2, 2), NAN)}, {"X": [[1.0, 2.0]]}, "projection: expected finite"),
        ({"projection": np.ones(2)}, {"X": [[1.0, 2.0]]}, "projection has shape"),
        ({"projection": 0}, {}, "projection=0"),
        ({}, {"y": np.ones((200, 1))}, "y: expected None"),
        # Coarse lattices leave no room for what rounding adds to two records.
        (
            {"projection": None, "sampling": "full", "noise_multiplier": 1e6, "options": {"relation": "replace_one"}},
            {"X": np.eye(64)},
            "noise_multiplier=.* too large for .* statistics, whose rounding",
        ),
    ],
    "clusters": [
        ({}, {"X": np.full((3, 6), NAN)}, "expected finite numbers"),
        ({}, {"X": np.ones((3, 4))}, r"X has shape \(3, 4\): expected \(n, 6\), vectors of"),
        ({}, {"y": np.ones((200, 2), int)}, "y: expected None"),
        ({"public": None}, {}, "public: expected PublicVectors"),
        ({"n_components": 7}, {}, "n_components=7: expected at most 6"),
    ],
    "tables": [
        ({"by": {}}, {}, "by={}: expected public values by column"),
        ({"by": {"w": "ab"}}, {}, "by: 'w' has 'ab'; expected different texts"),
        ({"by": {"w": ["a", "a"]}}, {}, "expected different texts"),
        ({"by": {"w": {"a": 0.0}}}, {}, "expected shares of the persons, above 0"),
        ({"by": {"w": [*range(3000)]}}, {}, "by: 3000 groups; expected at most 2048"),
        (WARDS, {"y": None}, "y=None: expected the values of w"),
        (WARDS, {"X": EYE, "y": {"v": ["a", "b"]}}, "y: has no column 'w'; expected the columns w"),
        (WARDS, {"X": EYE, "y": ["a"]}, r"y: 'w' has shape \(1,\); expected \(2,\)"),
        (WARDS, {"X": EYE, "y": np.ones((2, 2))}, r"y has shape \(2, 2\): expected \(2, 1\)"),
        (WARDS, {"X": np.ones((2, 1)), "y": ["a", "b"]}, r"X has shape \(2, 1\) .* expected proportions"),
        (WARDS, {"X": np.ones((2, 2)), "y": ["a", "b"]}, "X: expected proportions >= 0 whose sum is at most 1"),
        (WARDS, {"X": -EYE, "y": ["a", "b"]}, "X: expected proportions >= 0"),
    ],
    "vocabulary": [
        ({"private": False}, {}, "private=False: expected True"),
        ({"sampling": "poisson"}, {}, "sampling='poisson': expected 'full'"),
        ({"options": {"relation": "replace_one"}}, {}, "relation='replace_one'"),
        ({"options": {"rows_per_group": 2}}, {}, "rows_per_group=2"),
        ({"noise_multiplier": 0.5}, {}, "noise_multiplier=0.5"),
        ({"noise_multiplier": None, "epsilon": 1e4}, {}, "noise_multiplier=.*change epsilon"),
        ({"max_tokens": 0}, {}, "max_tokens=0"),
        ({"max_share": 0.0}, {}, "max_share=0"),
        ({"analyzer": "no"}, {}, "analyzer"),
        ({"n_rounds": 0}, {}, "n_rounds=0"),
        ({"n_steps": 2}, {}, "n_steps=2: expected None for a vocabulary; give its rounds as n_rounds"),
        ({"stop_words": "the"}, {}, "stop_words"),
    ],
}


@pytest.mark.parametrize(
    "name, settings, call, words, error",
    [(name, *row, *[ValueError][len(row) - 3 :]) for name, rows in REFUSED.items() for row in rows],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_named_and_nothing_is_spent(name, settings, call, words, error):
    make, data = MODELS[name]
    model = make().set_params(**settings)
    names = ("Y" if name.startswith("network") else "X", "y")
    with pytest.raises(error, match=words):
        model.fit(**{**dict(zip(names, data(), strict=False)), **call})
    assert not hasattr(model, "ledger_")
