"""The files beside the code are up to date. Names of tests, targets and versions, and no model is forgotten."""

import re
import tomllib
from pathlib import Path

import pytest
from cases import EVERY, EXAMPLES, MORE
from own_models import EXAMPLES as AUDITED

import vips_fast

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "docs/releasing.md")]


def test_every_example_is_held_to_the_contract_and_audited():
    found = {path.stem for path in (ROOT / "docs" / "examples").glob("*.py")}
    assert found == {kind.__module__ for kind in AUDITED if "." not in kind.__module__}, "tests/helpers/own_models.py"
    shipped = {kind.__name__ for kind in AUDITED}
    assert shipped <= {type(make()).__name__ for make, _ in {**EVERY, **EXAMPLES, **MORE}.values()}, (
        "tests/helpers/cases.py"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page):
    """Tests, as file::test under tests/. Files, as a path with a slash; targets of make."""
    text = page.read_text("utf-8")
    for file, name in re.findall(r"`([\w/]+\.py)::(\w+)`", text):
        assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8"), f"{file}::{name}"
    for path in re.findall(r"`((?:csrc|vips_fast|tests|docs)/[\w./]+)`", text):
        assert "NAME" in path or "FOLDER" in path or (ROOT / path).exists(), path
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for line in re.findall(r"(?:`|^ +)make ((?:[\w-]+ ?)+)", text, re.M):
        assert set(line.split()) <= set(targets), line


def test_the_lock_file_names_the_public_index_alone_and_what_is_asked_for():
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text and " @ " not in text and "index" not in text.replace("--no-emit-index-url", "")
    pinned = set(re.findall(r"^([\w.-]+)==", text, re.M))
    assert len(re.findall(r"^[\w.-]+==.* \\\n    --hash=sha256:", text, re.M)) == len(pinned)
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(one for name in extras["all"][0][10:-1].split(",") for one in extras[name])]
    wanted += [one for name in ("test", "bench", "lint") for one in extras[name] if not one.startswith("vips_fast")]
    names = {re.match(r"[\w-]+", one)[0].lower().replace("_", "-") for one in wanted}
    assert names <= pinned, "make lock"


def test_one_version_everywhere():
    version = PROJECT["version"]
    assert vips_fast.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in changelog
    assert version.endswith(".dev0") or f"## [{version}]" in changelog
