"""The privacy page is a list of claims, each with a test. Everything that it names exists."""

import ast
import re
from pathlib import Path

import pytest
from claims import CLAIMS, NONE, PAGE, TEST

TESTS = Path(__file__).resolve().parent.parent
NAMED = TEST.findall(PAGE)


def test_every_test_named_on_the_page_exists():
    assert len(NAMED) > 150
    functions = {}
    for file, name in NAMED:
        if file not in functions:
            tree = ast.parse((TESTS / file).read_text("utf-8"))
            functions[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions[file], f"docs/privacy.md names {file}::{name}, which does not exist"


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: row.claim[:50])
def test_every_claim_has_a_reason_and_a_test(row):
    assert row.claim and row.why and row.why != NONE and TEST.search(row.test), row
    for cell in (row.test, row.mutant):
        assert cell == NONE or not TEST.sub("", cell).strip(", "), f"{row.claim}: {cell}"
    assert row.proof == NONE or row.proof.startswith("[`"), row


def test_the_page_is_made_of_claims():
    """Only the tables name tests. No claim stands in a list between them, except the assumptions."""
    assert len(CLAIMS) > 90 and len({row.claim for row in CLAIMS}) == len(CLAIMS)
    assert sum(len(TEST.findall(row.test + row.mutant)) for row in CLAIMS) == len(NAMED)
    assert PAGE.count("::") - PAGE.count("`file::test`") == len(NAMED)
    assert not re.findall(r"^- ", PAGE, flags=re.M)
    assert {row.section for row in CLAIMS} == set(re.findall(r"^## (.*)$", PAGE, flags=re.M))
