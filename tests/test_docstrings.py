"""The examples in public docstrings run, and every public name has one."""

import ast
import doctest
import inspect
import re
import warnings
from pathlib import Path

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


def test_the_site_can_show_each_docstring():
    """A blank or a mark follows what stands in back quotes, or Sphinx ends `make docs` with a warning."""
    found = []
    for path in Path(vips_fast.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = re.sub(r"(?s)``.*?``", "", inspect.cleandoc(ast.get_docstring(node) or ""))
                quoted, after = text.split("`")[1::2], text.split("`")[2::2]
                good = [re.match(r"[\s'\")\]}>/:.,;!?\\-]|$", one) for one in after]
                found += [(path, one) for one, fine in zip(quoted, good, strict=True) if not fine]
    assert not found
