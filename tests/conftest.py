"""Fixtures shared by all tests."""

import os
from pathlib import Path

# Before numpy is loaded. Tests run beside each other, and a BLAS of many threads would only wait; the package has
# threads of its own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from alone import alone
from hypothesis import settings

# How long an example takes says nothing where tests run beside each other.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real data sets (VIPS_FAST_DATA); skips without it."""
    path = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"real data not found: set VIPS_FAST_DATA (looked in {path.name}/)")
    return path


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Return a function that makes a folder once, by ``make(folder)``.

    Once for all processes that run these tests together.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name, make):
        folder, part = shared / name, shared / f"{name}-part"
        with alone(shared):
            if not folder.exists():
                part.mkdir()
                make(part)
                part.rename(folder)
        return folder

    return made


def pytest_collection_modifyitems(config, items):
    """Full-size checks run only when asked for by -m."""
    if "slow" in (config.getoption("-m") or ""):
        return
    skip = pytest.mark.skip(reason="full-size check: run with -m slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)
