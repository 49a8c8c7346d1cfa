"""The privacy page is a list of claims, each with a test and a proof's place. Everything that it names exists."""

import ast
import fnmatch
import importlib.util
import inspect
import re
import tomllib
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pytest

from vips_fast.engine.sampling import SAMPLINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "privacy.md").read_text("utf-8")
HEAD = "| Claim | Why | Proof | Test | Mutant |"
NONE = "–"
#: `file::test`, or `file::test[parameters]`, in which * is anything.
TEST = re.compile(r"`([\w/]+\.(?:py|toml))::([\w-]+)(?:\[([^`\]]+)\])?`")


class Claim(NamedTuple):
    section: str
    claim: str
    why: str
    proof: str
    test: str
    mutant: str


def claims():
    """Return all rows under the head of claims. With the title that they stand under."""
    found, section, inside = [], "", False
    for line in PAGE.splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        inside = line == HEAD or (inside and line.startswith("|"))
        if inside and line != HEAD and set(line) - set("| -"):
            found.append(Claim(section, *(cell.strip() for cell in line.strip("|").split(" | "))))
    return found


CLAIMS = claims()
NAMED = TEST.findall(PAGE)
#: [`name`](../file): *Heading*
LINKS_IN = re.compile(r"\[`([\w.]+)`\]\(\.\./(vips_fast/[\w/]+\.py)\): \*([^*]+)\*")
LINKS = sorted(set(LINKS_IN.findall(PAGE)))


def test_every_test_named_on_the_page_exists():
    assert len(NAMED) > 150
    functions = {}
    for file, name, _ in NAMED:
        if file not in functions:
            text = (ROOT / "tests" / file).read_text("utf-8")
            found = tomllib.loads(text) if file.endswith(".toml") else ast.parse(text).body
            functions[file] = {getattr(one, "name", one) for one in found}  # statements, or tables
        assert name in functions[file], f"docs/privacy.md names {file}::{name}, which does not exist"


def test_every_parameter_named_on_the_page_exists():
    spec = importlib.util.spec_from_file_location("layers_of_the_audit", ROOT / "tests" / "audit" / "test_layers.py")
    layers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layers)
    known = {
        "test_honest_models_pass": ["-".join([name, one, str(rows or "records")]) for name, one, rows in layers.HONEST],
        "test_a_fault_is_seen": [str(fault) for fault in layers.FAULTS],
    }
    for _, name, pattern in NAMED:
        assert not pattern or fnmatch.filter(known[name], pattern), f"docs/privacy.md names {name}[{pattern}]"


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
    assert PAGE.count("](../vips_fast/") == len(LINKS_IN.findall(PAGE)) >= 40
    assert PAGE.count("::") - PAGE.count("`file::test`") == len(NAMED)
    assert not re.findall(r"^- ", PAGE, flags=re.M)
    assert {row.section for row in CLAIMS} == set(re.findall(r"^## (.*)$", PAGE, flags=re.M))


def test_each_row_of_the_tables_has_its_proof():
    """Each way to sample, each released sum, and whatever composes."""
    proven = [row for row in CLAIMS if LINKS_IN.search(row.proof)]
    assert len(proven) >= 35
    for name in SAMPLINGS:
        assert any(row.claim.startswith(f"`{name}`") for row in proven), name
    sums = [row for row in CLAIMS if row.section == "Sensitivity" and ": at most " in row.claim]
    assert len(sums) == 11 and set(sums) <= set(proven)


@pytest.mark.parametrize("name, file, heading", LINKS, ids=lambda text: text.replace("/", "."))
def test_each_proof_is_where_the_page_says(name, file, heading):
    module = file.removesuffix(".py").replace("/", ".")
    home = importlib.import_module(module)
    assert Path(home.__file__).resolve() == ROOT / file
    what = home if home.__name__.endswith("." + name) else reduce(getattr, name.split("."), home)
    assert getattr(what, "__module__", home.__name__) == module
    assert f"*{heading}" in inspect.getdoc(what), (name, heading)
