"""A kernel that is added, rehearsed in a copy.

Eight files and the one that a command writes, from C to Python.
"""

import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sysconfig

import pytest
from rehearsal import ROOT, add, call, copy_tree, listed, touched

#: All that it takes, by file: its text, or a mark in an existing file ("" is its end) and the text to put before it.
ADDED = {
    "csrc/kernels.toml": (
        "",
        """
[[kernel]]
name = "sbn_count"
arguments = "int64_t n_records, int64_t n_visible, const uint8_t *y, int64_t *out"
python = "y[n_records, n_visible], out[n_visible]"
text = "out[j] = how many of the records have y[n * n_visible + j] != 0. out is no part of y."
""",
    ),
    "csrc/sbn/count.c": """/* Counts of the visible units: n J additions, exact in every order. */
#include "sbn/shared.h"

int32_t VF_FN(vf_sbn_count)(int64_t n_records, int64_t n_visible, const uint8_t *y, int64_t *out) {
    if (sizes_bad(n_records, n_visible, 1)) return VF_ERR_SIZE;
    if (!out || (n_records > 0 && !y)) return VF_ERR_NULL;
    if (VF_OFF(out)) return VF_ERR_ALIGNMENT;
    memset(out, 0, (size_t)n_visible * sizeof(int64_t));
    for (int64_t n = 0; n < n_records; ++n)
        for (int64_t j = 0; j < n_visible; ++j) out[j] += y[n * n_visible + j] != 0;
    return VF_OK;
}
""",
    "vips_fast/kernels/reference/sbn.py": (
        '__all__ = ["sbn_clip", ',
        "",
        '"sbn_cross", ',
        '"sbn_count", ',
        "",
        '''

def sbn_count(y: np.ndarray) -> np.ndarray:
    """Count the records in which each unit is on."""
    return (np.asarray(y) != 0).sum(axis=0)
''',
    ),
    "vips_fast/kernels/sbn.py": (
        '"sbn_pg", "sbn_quadratic"]',
        '"sbn_count", ',
        "",
        '''

def sbn_count(y: Any, *, isa: str | None = None) -> np.ndarray:
    """Count, for each of the J units, the records n with y[n, j] = 1: int64, (J,)."""
    y = _binary(y)
    out = np.empty(y.shape[1], dtype=np.int64)
    native.sbn_count(y, out, isa)
    return out
''',
    ),
    "tests/kernels/test_reference.py": (
        "BOTH = (SINGLE, DOUBLE)\n",
        """def sbn_count_arguments(rng, size):
    yield ((rng.random((20, size)) < 0.4).astype(np.uint8),), {}


""",
        '    "sbn_cross": Case',
        '    "sbn_count": Case(sbn_count_arguments, equal),\n',
    ),
    "tests/capi/consumers/hostile.c": (
        "    const double *wrong[] = {nan_, big, half};\n",
        '    expect(api, "sbn_count", VF_OK, api->sbn_count(1, J, y, sums));\n'
        '    require(api, "sbn_count: counts", sums[0] == 0 && sums[1] == 1);\n'
        '    expect(api, "sbn_count, sizes", VF_ERR_SIZE, api->sbn_count(INT64_MAX, INT64_MAX, y, sums));\n'
        '    expect(api, "sbn_count, NULL", VF_ERR_NULL, api->sbn_count(1, J, NULL, sums));\n',
    ),
    "tests/capi/consumers/digest.c": (
        '    memset(sums, 0, sizeof sums);\n    show("sbn_gram"',
        '    show("sbn_count", api->sbn_count(ROWS, J, y, sums), J * 8, sums);\n',
    ),
    "bench/test_bench_sbn.py": (
        "",
        '''

def test_count(paired):
    """Counts of the visible units beside numpy's."""
    from vips_fast.kernels import sbn_count

    y = (np.random.default_rng(0).random((200, J)) < 0.5).astype(np.uint8)
    paired(lambda: sbn_count(y), {"twin": lambda: reference.sbn_count(y)}, "sbn counts of 200 records", rounds=3)
''',
    ),
}
FROZEN = "tests/capi/interface.json"
PLACES = ("csrc", "vips_fast", "tests/capi", "tests/kernels", "tests/helpers", "bench")


def build(folder):
    """Compile the copy's portable kernels and their bindings, unoptimized; the static library."""
    cc, library = os.environ.get("CC") or "cc", folder / "build" / "libvips_fast.a"
    if not (shutil.which(cc) and shutil.which("make")):
        # The tests also hold an installed wheel, on machines without a compiler.
        pytest.skip(f"no {cc} or no make")
    portable = ["SETS=PORTABLE", "COMMON_FLAGS=", "CFLAGS=-O0", f"BUILD={library.parent}"]
    run("make", "-s", "-C", folder / "csrc", *portable)
    call(folder, "-m", "cython", "-3", "vips_fast/kernels/native.pyx")
    source = folder / "vips_fast" / "kernels" / "native.c"
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{folder / 'csrc' / 'include'}"]
    target = source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
    run(cc, "-O0", "-shared", "-fPIC", *include, source, library, "-lm", "-o", target)
    return library


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def consumer(folder, name, library):
    """Compile a consumer of the copy's library, and run it."""
    source, program = folder / "tests" / "capi" / "consumers" / f"{name}.c", folder / "build" / name
    run(os.environ.get("CC") or "cc", "-std=c11", f"-I{folder}/csrc/include", source, library, "-lm", "-o", program)
    return run(program).splitlines()


def test_a_kernel_takes_eight_files(tmp_path):
    copy_tree(tmp_path, *PLACES, "pyproject.toml", "tests/conftest.py")
    add(tmp_path, ADDED)
    call(tmp_path, "csrc/generate.py", "--freeze")
    generated = {
        path.relative_to(tmp_path).as_posix() for path in runpy.run_path(tmp_path / "csrc/generate.py")["files"]()
    }
    taken = touched(tmp_path, *PLACES) - generated
    assert taken == {*ADDED, FROZEN} and len(ADDED) <= 8
    assert ADDED.keys() == listed("## A kernel", NAME="count", FOLDER="sbn")
    library = build(tmp_path)
    consumer(tmp_path, "hostile", library)
    # The bits of all other kernels are as they were.
    lines = consumer(tmp_path, "digest", library)
    own = [line for line in lines if line.startswith("sbn_count 0 ")]
    old = "\n".join(line for line in lines[1 : lines.index("esteps")] if line not in own)
    stated = re.search(r"\* (\w{64}) ", (ROOT / "tests/capi/consumers/digest.c").read_text())[1]
    assert len(own) == 1 and hashlib.sha256(old.encode()).hexdigest() == stated
    tests = ["tests/kernels/test_reference.py", "tests/capi/test_interface.py", "bench/test_bench_sbn.py"]
    chosen = "sbn_count or has_a_twin or registered or wrong_result or test_interface or test_count"
    done = call(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-k", chosen, *tests)
    assert "test_kernel_matches_its_twin[sbn_count] PASSED" in done.stdout and "test_count PASSED" in done.stdout
