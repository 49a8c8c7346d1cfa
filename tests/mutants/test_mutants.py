"""Each fault of `mutants.toml` is seen by a test that is stored beside it."""

import json
import re

import mutants
import pytest

MUTANTS = mutants.read_mutants()
KILLED = json.loads(mutants.KILLED.read_text("utf-8"))


def test_every_fault_can_be_put_in_and_is_known_to_be_seen():
    """``python tests/mutants/mutants.py NAME`` tries one and stores which test sees it."""
    assert list(KILLED) == sorted(MUTANTS)
    for name, mutant in MUTANTS.items():
        assert mutant.source
        for test in mutant.tests:
            file, _, function = test.partition("[")[0].partition("::")
            assert f"def {function}" in (mutants.ROOT / file).read_text("utf-8"), (name, test)
        file, function = re.match(r"(.+?)(?:::(\w+).*)?$", KILLED[name]).groups()
        assert not function or f"def {function}(" in (mutants.ROOT / file).read_text("utf-8"), (name, KILLED[name])


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return mutants.Copy(tmp_path_factory.mktemp("tree"))


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_fault_is_seen(name, copy):
    """Some seconds each, and a minute where C is compiled."""
    assert copy.killer(MUTANTS[name], KILLED[name]), MUTANTS[name].why
