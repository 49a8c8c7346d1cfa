"""The privacy page names only tests that exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
DOCS = TESTS.parent / "docs"

PAGE = (DOCS / "privacy.md").read_text("utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)


def test_every_test_named_on_the_page_exists():
    assert len(NAMED) > 40
    functions = {}
    for file, name in NAMED:
        if file not in functions:
            tree = ast.parse((TESTS / file).read_text("utf-8"))
            functions[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions[file], f"docs/privacy.md names {file}::{name}, which does not exist"


def test_no_other_form_of_reference_slips_through():
    assert PAGE.count("::") - PAGE.count("`file::test`") == len(NAMED)


def test_links_of_the_page_lead_somewhere():
    for target in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (DOCS / target).exists(), target
