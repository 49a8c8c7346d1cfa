"""A wheel from the source tree, and the consumers' input. It is installed in a temporary folder."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from alone import alone

ROOT = Path(__file__).resolve().parents[2]
CONSUMERS = Path(__file__).resolve().parent / "consumers"


def compiler(language="c"):
    """Return the compiler of this Python, or cc and c++. Skips without one."""
    name = (os.environ.get("CC") or "cc") if language == "c" else (os.environ.get("CXX") or "c++")
    if shutil.which(name) is None:
        pytest.skip(f"no {name} compiler")
    return name


def call(command, **options):
    """Run a command; its output is in the message if it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command[0]} failed\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build_shared(source, target, include):
    python = sysconfig.get_paths()["include"]
    command = [compiler(), "-O1", "-Wall", "-shared", "-fPIC", "-pthread", f"-I{python}", f"-I{include}"]
    call([*command, source, "-o", target])


def build_program(source, target, library):
    command = [compiler(), "-std=c11", "-Wall", "-Wextra", f"-I{ROOT / 'csrc' / 'include'}"]
    call([*command, source, library, "-lm", "-o", target])


@pytest.fixture(scope="session")
def installed(once):
    return once("installed", install) / "target"


def copy_source(source):
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "csrc", "vips_fast"):
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "*.so", "native.c", "*.o", "*.a")
            shutil.copytree(ROOT / name, source / name, ignore=ignore)
        else:
            source.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    # What is shown here depends on no optimization, which is most of the time of a build.
    for name, optimized in (("csrc/sources.mk", "-O3"), ("setup.py", "-O1")):
        text = (source / name).read_text()
        assert optimized in text
        (source / name).write_text(text.replace(optimized, "-O0"))


def install(base):
    source = base / "source"
    copy_source(source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    call([*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", base / "dist", source])
    (wheel,) = (base / "dist").glob("*.whl")
    call([*pip, "install", "--no-deps", "--no-index", "--no-compile", "--target", base / "target", wheel])


@pytest.fixture(scope="session")
def environment(installed):
    """Return an environment that sees the installed package only. It hides the source tree."""
    # Python finds the other packages (numpy, numba) as this process does.
    return dict(os.environ, PYTHONPATH=str(installed), PYTHONSAFEPATH="1")


@pytest.fixture(scope="session")
def library():
    """The kernels as a static library, made by csrc/Makefile without Python."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    compiler()
    with alone(ROOT / "csrc"):
        call(["make", "-s", "-j", "2", "-C", ROOT / "csrc"])
    return ROOT / "build" / "c" / "libvips_fast.a"


@pytest.fixture(scope="session")
def counts():
    """Documents: 300 Wikipedia articles where the data are there, else simulated ones. Topics for them."""
    rng = np.random.default_rng(0)
    root = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data"))
    if (root / "wiki" / "train.npz").is_file():
        X = sp.csr_array(sp.load_npz(root / "wiki" / "train.npz"))[:300]
    else:
        topics = rng.dirichlet(np.full(900, 0.05), 10)
        X = sp.csr_array(np.array([rng.multinomial(400, rng.dirichlet(np.full(10, 0.1)) @ topics) for _ in range(300)]))
    X.sort_indices()
    return {
        "indptr": X.indptr.astype(np.int64),
        "indices": X.indices.astype(np.int32),
        "counts": X.data.astype(np.float64),
        "beta": rng.gamma(1.0, 1.0, (10, X.shape[1])),
        "alpha": rng.uniform(0.05, 0.5, 10),
    }
