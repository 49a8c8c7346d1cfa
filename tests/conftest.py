"""Fixtures shared by all tests."""

import hashlib
import os
import secrets
import weakref
from itertools import count
from pathlib import Path
from types import SimpleNamespace

# Before numpy is loaded. Tests run beside each other, and a BLAS of many threads would only wait; the package has
# threads of its own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from alone import alone
from hypothesis import HealthCheck, settings

from vips_fast import checks
from vips_fast.engine.sampling import KeyedRandomness, SystemRandomness
from vips_fast.models import caveats

# How long an example takes says nothing where tests run beside each other; and no example comes by chance.
settings.register_profile("shared", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

ROOT = Path(__file__).resolve().parent.parent
#: Tests of the randomness itself, and of a mechanism that takes no key: they draw from the operating system.
FRESH = tuple(f"tests/{place}" for place in ("audit", "capi", "engine", "kernels", "peers/test_dpsgd", "torture"))


class Stream:
    """A test's own words of known keys; what is set up for a whole file is the same whichever test comes first."""

    def __init__(self):
        self._process, self._test, self._numbers = os.getpid(), "", count()

    @property
    def test(self):
        return os.environ.get("PYTEST_CURRENT_TEST", "")

    @property
    def known(self):
        """Whether the running test may draw from here. A forked process may not."""
        return os.getpid() == self._process and not self.test.startswith(FRESH)

    def bytes(self, n=32):
        if self.test != self._test:
            self._test, self._numbers = self.test, count()
        stream = self._test.partition("::")[0] if self._test.endswith("(setup)") else self._test
        return hashlib.blake2b(f"{stream}/{next(self._numbers)}".encode(), digest_size=n).digest()


@pytest.fixture(scope="session", autouse=True)
def known_randomness():
    """Let private fits draw from known streams. So no test of theirs fails by chance."""
    stream = Stream()

    def known(true, draw):
        return lambda *given: draw() if stream.known else true(*given)

    with pytest.MonkeyPatch.context() as patch:
        for name, draw in (
            ("key", stream.bytes),
            ("noise_key", stream.bytes),
            ("of_step", lambda: KeyedRandomness(stream.bytes())),
        ):
            patch.setattr(SystemRandomness, name, known(getattr(SystemRandomness, name), draw))
        # Seeds of public starts that no test gives.
        seed = known(secrets.randbits, lambda: int.from_bytes(stream.bytes(8)) >> 1)
        patch.setattr(checks, "secrets", SimpleNamespace(randbits=seed))
        yield


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real data sets (VIPS_FAST_DATA); skips without it."""
    path = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"real data not found: set VIPS_FAST_DATA (looked in {path.name}/)")
    return path


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Return a function that makes a folder, by ``make(folder)``, once for all processes that run these tests."""
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


@pytest.fixture(autouse=True)
def fits_of_other_tests(monkeypatch):
    """Forget fits without a budget, and purchases, but in tests of the warnings about them: records are few here."""
    monkeypatch.setattr(caveats, "_fits", type("Forgotten", (dict,), {"__setitem__": lambda *_: None})())
    monkeypatch.setattr(caveats, "purchasers", weakref.WeakSet())
