"""Programs of other people. Built against the installed wheel, run in threads of their own, the same bits out."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from .conftest import CONSUMERS, build_program, build_shared, call, compiler

HERE = Path(__file__).resolve().parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def folder(tmp_path, counts):
    np.savez(tmp_path / "input.npz", **counts)
    return tmp_path


@pytest.fixture(scope="session")
def extension(installed, tmp_path_factory):
    target = tmp_path_factory.mktemp("extension") / f"extension{SUFFIX}"
    build_shared(CONSUMERS / "extension.c", target, include_of(installed))
    return target


def compare(kind, folder, environment):
    out = call([sys.executable, CONSUMERS / "compare.py", kind, folder], env=environment, cwd=folder)
    assert "the same bits: 300 documents" in out


def include_of(installed):
    return installed / "vips_fast" / "include"


def test_the_wheel_holds_the_header_and_the_pxd(installed, environment):
    package = installed / "vips_fast"
    assert (package / "include" / "vips_fast" / "vips_fast.h").is_file()
    assert (package / "kernels" / "__init__.pxd").is_file()
    out = call([sys.executable, "-c", "import vips_fast; print(vips_fast.get_include())"], env=environment)
    assert out.strip() == str(package / "include")
    assert not list(package.rglob("*.c")) and not list(package.rglob("*.pyx"))


def test_c_extension(folder, extension, environment):
    shutil.copy(extension, folder)
    compare("extension", folder, environment)


@pytest.mark.slow
def test_cython_extension(folder, installed, environment):
    """The recipes of `test_embedding.py` call a kernel from Cython and from Numba quickly."""
    c_file = folder / "cython_extension.c"
    call([sys.executable, "-m", "cython", "-3", CONSUMERS / "cython_extension.pyx", "-o", c_file], env=environment)
    build_shared(c_file, folder / f"cython_extension{SUFFIX}", include_of(installed))
    compare("cython_extension", folder, environment)


def test_cpp_program(folder, installed, environment, library):
    command = [compiler("c++"), "-O2", "-std=c++17", "-Wall", "-Wextra", "-pthread", f"-I{include_of(installed)}"]
    call([*command, CONSUMERS / "program.cpp", library, "-o", folder / "program"])
    compare("program", folder, environment)


@pytest.mark.slow
def test_numba_function(folder, environment):
    shutil.copy(CONSUMERS / "numba_function.py", folder)
    compare("numba_function", folder, environment)


def test_ten_line_program_without_python(tmp_path, library):
    source = CONSUMERS / "ten_lines.c"
    assert len(source.read_text().splitlines()) == 10
    build_program(source, tmp_path / "ten", library)
    means = [float(x) for x in call([tmp_path / "ten"]).split()]
    exact = [0.25, np.tanh(0.5) / 2, np.tanh(10) / 40]
    # Documented: within 2 units in the last place.
    np.testing.assert_allclose(means, exact, rtol=4 * 2.0**-52)


def test_static_library_has_no_python_in_it(library):
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    undefined = call(["nm", "-u", library])
    assert "memcpy" in undefined and "Py" not in undefined
    assert "malloc" not in undefined and "free" not in undefined  # kernels allocate nothing


def test_no_writable_globals(library):
    """Kernels keep nothing between calls: no symbol in a writable section."""
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    symbols = [line.split() for line in call(["nm", library]).splitlines() if len(line.split()) == 3]
    assert any(kind == "T" for _, kind, _ in symbols)
    # Tables of pointers are relocated once by the loader and lie in .data.rel.ro (kind d or D).
    tables = re.compile(r"vf_table_|order|messages")
    writable = [name for _, kind, name in symbols if kind in "bBC" or (kind in "dD" and not tables.match(name))]
    assert writable == []


def test_every_status_code_from_c(tmp_path, library):
    build_program(CONSUMERS / "errors.c", tmp_path / "errors", library)
    out = call([tmp_path / "errors"])
    seen = {int(line.split()[0]) for line in out.splitlines() if re.match(r"\d+ ", line)}
    assert seen == set(json.loads((HERE / "interface.json").read_text())["status"].values())


def test_hostile_input_from_c(tmp_path, library):
    build_program(CONSUMERS / "hostile.c", tmp_path / "hostile", library)
    call([tmp_path / "hostile"])


def fake_package(folder, change):
    package = folder / "vips_fast" / "kernels"
    package.mkdir(parents=True)
    (folder / "vips_fast" / "__init__.py").write_text("from .kernels import native\n")
    (package / "__init__.py").write_text("")
    (package / "native.py").write_text(change)
    return folder


VERSION = json.loads((HERE / "interface.json").read_text())["abi_version"]
CHANGED = """
import ctypes
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name = b"vips_fast.kernels.native._C_API"
table = (ctypes.c_uint32 * 2000)({version}, {size})
_C_API = new(ctypes.addressof(table), name, None)
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (CHANGED.format(version=999, size=8000), f"version 999 of 8000 bytes, expected version {VERSION} of at least"),
        (
            CHANGED.format(version=VERSION, size=64),
            f"version {VERSION} of 64 bytes, expected version {VERSION} of at least",
        ),
        ("", "has no C interface"),
        ("_C_API = 3", "has no C interface"),
    ],
)
def test_a_package_that_does_not_fit_is_refused_at_import(tmp_path, extension, change, message):
    path = fake_package(tmp_path, change)
    code = f"import sys; sys.path[:0] = [{str(path)!r}, {str(extension.parent)!r}]; import extension"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError: vips_fast: the installed package" in done.stderr and message in done.stderr


def test_no_package_is_an_import_error(extension):
    folder = str(extension.parent)
    code = f"import sys; sys.modules['vips_fast'] = None; sys.path.insert(0, {folder!r}); import extension"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "ImportError" in done.stderr


def test_read_only_outputs_are_refused(extension, environment):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import extension, numpy as np\n"
        "out = np.zeros(2); out.flags.writeable = False\n"
        "extension.estep(np.array([0, 1]), np.zeros(1, dtype=np.int32), np.ones(1), np.ones(2), np.ones(2),"
        " 1e-3, 5, 1.0, 2.0**-10, 1, out, np.zeros(2, dtype=np.int64))"
    )
    command = [sys.executable, "-c", code, str(extension.parent)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "read-write bytes-like object" in done.stderr, done.stderr


def test_numba_types_in_this_process():
    import numba

    from vips_fast.kernels import numba_types

    c, out, pg_mean = np.array([0.0, 2.0]), np.empty(2), numba_types.pg_mean_f64
    assert numba.njit(lambda c, out: pg_mean(len(c), 1.0, c.ctypes, out.ctypes))(c, out) == 0
    np.testing.assert_allclose(out, [0.25, np.tanh(1) / 4], rtol=4 * 2.0**-52)
    assert numba_types.parameters("vf_lda_params", clip_norm=2.0)["clip_norm"][0] == 2.0
    assert numba_types.structure_dtype("vf_logistic_params").itemsize == 80
    for wrong in (lambda: numba_types.structure_dtype("vf_api"), lambda: numba_types.parameters("vf_lda_params", x=1)):
        with pytest.raises(ValueError, match="expected"):
            wrong()
