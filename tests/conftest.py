"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real data sets (VIPS_FAST_DATA); skips where it is absent."""
    path = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"real data not found: set VIPS_FAST_DATA (looked in {path.name}/)")
    return path


def pytest_collection_modifyitems(config, items):
    """Full-size checks run only when asked for by -m."""
    if "slow" in (config.getoption("-m") or ""):
        return
    skip = pytest.mark.skip(reason="full-size check: run with -m slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)
