"""The examples in public docstrings run, and every public name has one."""

import doctest
import re
import warnings

import pytest

import vips_fast
from vips_fast.models.estimator import PrivateEstimator

NAMES = sorted(vips_fast.__all__)
#: What estimators inherit; each of their methods with an example has it in its own docstring.
INHERITED = {"PrivateEstimator": PrivateEstimator}


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
