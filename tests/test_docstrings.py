"""The examples in public docstrings run, and every public name has one."""

import doctest
import inspect
import re
import warnings

import pytest

import vips_fast
from vips_fast.models.conventions import Conventions
from vips_fast.models.estimator import PrivateEstimator

NAMES = sorted(vips_fast.__all__)
ESTIMATORS = [name for name in NAMES if hasattr(getattr(vips_fast, name), "fit")]
#: What estimators inherit; each of their methods with an example has it in its own docstring.
INHERITED = {"PrivateEstimator": PrivateEstimator, "Conventions": Conventions}

#: Methods that no example calls, and why.
UNCALLED = {
    "plot": "needs matplotlib, which the pages of the documentation draw with",
    "prepare": "for audits, which put their own parts into a run",
    "event": "what `fit` charges",
    "request": "for the planner, which `fit` calls",
    "purchase_text": "for publication, which a job calls",
    "get_params": "scikit-learn's",
    "set_unsafe": "is shown where the estimators inherit it",
    "records": "a user's model overrides it",
    "check_parameters": "a user's model overrides it",
    "column_logs": "the measured gain calls it",
    "component_weights": "the measured gain calls it",
    "scored_columns": "the measured gain calls it",
}
#: What a model of one's own defines and the engine calls; the example of `ConjugateEstimator` shows it.
ENGINE = {name: value for name, value in vars(vips_fast.ConjugateEstimator).items() if inspect.isfunction(value)}
ENGINE = {name: value for name, value in ENGINE.items() if name not in ("fit", "partial_fit", "expected_statistics")}


def collected(name):
    if name in INHERITED:
        found = doctest.DocTestFinder().find(INHERITED[name], name, globs={})
        return [test for test in found if test.examples]
    return doctest.DocTestFinder(recurse=False).find(getattr(vips_fast, name), name, globs={})


def source_of(name):
    return "".join(example.source for test in collected(name) for example in test.examples)


@pytest.mark.parametrize("name", [*NAMES, *INHERITED])
def test_the_examples_run(name):
    tests, said = collected(name), []
    assert all(test.examples for test in tests) and tests, f"{name}: expected an example in its docstring"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # data as small as an example's
        results = [runner.run(test, out=said.append) for test in tests]
    assert not any(result.failed for result in results), "".join(said)
    # What it is about is imported as a user imports it.
    assert name in INHERITED or re.search(rf"import .*\b({name}|vips_fast)\b", source_of(name))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_example_calls_every_method_of_an_estimator(name):
    own = vars(getattr(vips_fast, name))
    methods = {n for n, value in own.items() if inspect.isfunction(value) or isinstance(value, classmethod)}
    if name != "ConjugateEstimator":
        methods -= ENGINE.keys()
    expected, source = {n for n in methods if not n.startswith("_")} - UNCALLED.keys(), source_of(name)
    assert expected and not {n for n in expected if not re.search(rf"\b{n}\(", source)}
