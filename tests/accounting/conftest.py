"""Golden values of the accounting tests."""

import json
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def golden():
    """Golden cases by kind, from beside the data folder; skips without them."""
    default = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
    path = Path(os.environ.get("VIPS_FAST_DATA", default)).parent / "golden_accounting.json"
    if not path.is_file():
        pytest.skip("golden_accounting.json is not beside the data folder")
    kinds = {}
    for case in json.loads(path.read_text())["cases"]:
        kinds.setdefault(case["kind"], []).append(case)
    return kinds
