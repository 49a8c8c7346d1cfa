"""What an installation needs. Numpy and scipy for every command, and for the rest an error with the command to type."""

import ast
import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from ball_mean import Mean

from vips_fast import LatentDirichletAllocation, accounting
from vips_fast.accounting.dp_events import to_dp_event
from vips_fast.data import Analyzer, public_vocabulary
from vips_fast.data.records import column_names
from vips_fast.data.tokens import load_segmenter
from vips_fast.data.vocabulary import stop_words
from vips_fast.engine.cluster import connected
from vips_fast.models.plots import new_figure
from vips_fast.report.html import environment

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


HERE = {**os.environ, "PYTHONPATH": str(ROOT)}


def python(*words, **how):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, **how)


def sampled():
    once = accounting.WithoutReplacementEvent(10, 1000, accounting.GaussianEvent(2.0))
    return accounting.SelfComposedEvent(once, 5)


def own_model():
    Mean(n_steps=1, private=False).fit([[0.0], [1.0]])


def fitted():
    return LatentDirichletAllocation(2, n_steps=1, private=False).fit([[1, 2], [3, 4]])


def parquet():
    Path("notes.parquet").write_bytes(b"PAR1 and more")
    column_names("notes.parquet")


def excel():
    Path("notes.xlsx").write_bytes(b"PK and more")
    column_names("notes.xlsx")


def segmented(words):
    load_segmenter.cache_clear()
    Analyzer(words)


def function_types():
    sys.modules.pop("vips_fast.kernels.numba_types", None)
    importlib.import_module("vips_fast.kernels.numba_types")


CASES = {
    "numba: own model": ("numba", "numba", own_model),
    "numba: types": ("numba", "numba", function_types),
    "dp-accounting": ("dp-accounting", "dp_accounting", lambda: to_dp_event(sampled())),
    "dp-accounting: accountant": (
        "dp-accounting",
        "dp_accounting",
        lambda: accounting.epsilon(accounting.GaussianEvent(1.0), 1e-5, "dp-accounting"),
    ),
    "wordfreq": ("text", "wordfreq", lambda: public_vocabulary("public:en", 10)),
    "stop-words": ("text", "stop_words", lambda: stop_words("public:en")),
    "jieba": ("segment", "jieba", lambda: segmented("jieba")),
    "sudachipy": ("segment", "sudachipy", lambda: segmented("sudachi")),
    "pythainlp": ("segment", "pythainlp", lambda: segmented("pythainlp")),
    "pyarrow": ("tables", "pyarrow", parquet),
    "openpyxl": ("excel", "openpyxl", excel),
    "dask": ("dask", "dask", lambda: connected(None, 1).__enter__()),
    "matplotlib": ("plot", "matplotlib", lambda: new_figure(fitted(), 1.0, 1.0)),
    "jinja2": ("report", "jinja2", environment),
}


@pytest.mark.parametrize("extra, package, call", CASES.values(), ids=CASES)
def test_a_missing_package_is_said_with_the_line_to_type(extra, package, call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in [package, *(name for name in sys.modules if name.startswith(package + "."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as caught:
        call()
    shown = package.replace("_", "-")
    assert str(caught.value).endswith(f' needs the package {shown}: pip install "vips_fast[{extra}]"')
    assert not Path("curve.png").exists()


def test_the_errors_name_extras_that_hold_their_packages():
    """By the one function for it: besides, only the place of the sentence model, which no extra has, names pip."""
    found = set()
    for path in (ROOT / "vips_fast").rglob("*.py"):
        text = path.read_text("utf-8")
        assert "pip install" not in text or path.name in ("checks.py", "embeddings.py"), path
        for node in ast.walk(ast.parse(text)) if "missing_package(" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("missing_package"):
                found.add(ast.literal_eval(node.args[2]))
    assert found == {extra for extra, _, _ in CASES.values()}
    for extra, package, _ in CASES.values():
        assert any(one.startswith(package.replace("_", "-")) for one in EXTRAS[extra]), extra
    assert EXTRAS["all"] == [f"vips_fast[{','.join(name for name in EXTRAS if name in found)}]"]
    assert "vips_fast[all]" in EXTRAS["test"]


ALONE = """
import importlib.abc, pkgutil, sys
class Others(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        required = {"numpy", "scipy", "threadpoolctl", "vips_fast"}
        if top not in {*required, *sys.stdlib_module_names} and not top.startswith("_"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Others())
import vips_fast
for module in pkgutil.walk_packages(vips_fast.__path__, "vips_fast."):
    if module.name != "vips_fast.kernels.numba_types":  # numba's own types
        __import__(module.name)
from vips_fast.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_what_is_required_is_enough(tmp_path):
    """Every module is imported and a topic model fitted. Without any other package."""
    table = tmp_path / "notes.csv"
    rows = [f"p{n},{'red green blue ' * 4 if n % 2 else 'pink grey teal ' * 4}" for n in range(60)]
    table.write_text("\n".join(["who,note", *rows, ""]))
    (tmp_path / "words.txt").write_text("red\ngreen\nblue\npink\ngrey\nteal\n")
    fit = "fit lda notes.csv --text note --vocab words.txt --topics 2 --epsilon 2 --person who --out model --steps 3"
    fit += " --quiet --anyway"
    done = python("-c", ALONE, *fit.split(), cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""})
    said = [line for line in done.stderr.splitlines() if "forecast: " not in line]
    assert done.returncode == 0 and not said, done.stderr
    assert (tmp_path / "model" / "topics.txt").exists()


def test_a_clone_after_an_installation_says_how_to_use_it(tmp_path):
    """Python in a clone finds the uncompiled source first."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "vips_fast", tmp_path / "vips_fast", ignore=ignored)
    for code in (["-m", "vips_fast", "--version"], ["-c", "from vips_fast import LatentDirichletAllocation"]):
        done = python(*code, cwd=tmp_path)
        last = done.stderr.splitlines()[-1]
        assert done.returncode == 1 and "source code without compiled kernels; run python -P, or" in last, done.stderr
    safe = python("-P", "-m", "vips_fast", "--version", cwd=tmp_path)
    assert safe.returncode == 0 and safe.stdout.startswith("vips_fast"), safe.stderr


@pytest.mark.parametrize(
    "name, value, this", [("sys.maxsize", 2**31 - 1, ""), ("os.name", "nt", ""), ("sys.version_info", (3, 9), "3.9")]
)
def test_a_build_that_cannot_be_says_what_can(name, value, this, monkeypatch):
    monkeypatch.setattr(name, value)
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(ROOT / "setup.py"))
    said, supported = str(caught.value), "Linux and macOS on 64-bit x86 and Arm, with Python 3.11 or newer"
    assert said.startswith(f"vips_fast: built for {supported}; this is ")
    assert said.endswith(this) and "\n" not in said


def test_a_build_without_a_compiler_says_what_to_install(tmp_path):
    shutil.copy(ROOT / "setup.py", tmp_path)
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    (tmp_path / "vips_fast" / "kernels").mkdir(parents=True)
    shutil.copy(ROOT / "vips_fast" / "kernels" / "native.pyx", tmp_path / "vips_fast" / "kernels")
    done = python("setup.py", "-q", "build_ext", cwd=tmp_path, env={**os.environ, "CC": "no-such-compiler"})
    what = "install a wheel, or gcc or clang, or name yours in CC"
    expected = f"vips_fast: no C compiler found (no-such-compiler): {what}"
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == expected and "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.o"))


SUBINTERPRETER = """
import sys
{first}
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
code = '''
import warnings
warnings.simplefilter("ignore")
try:
    import vips_fast.kernels.native
    print("imported")
except ImportError as error:
    print(type(error).__name__, error)
'''
interpreters.run_string(interpreters.create(), code)
"""


@pytest.mark.parametrize("first", ["", "import vips_fast.kernels.native"])
def test_a_subinterpreter_imports_the_kernels_or_is_told_why_not(first):
    """numpy may be loaded by one interpreter of a process, from Python 3.12 on only by the main one."""
    done = python("-c", SUBINTERPRETER.format(first=first), env=HERE)
    assert done.returncode == 0, done.stderr
    if not first and sys.version_info < (3, 12):
        assert done.stdout == "imported\n"
    else:
        assert done.stdout == "imported\n" or re.match("ImportError .*(subinterpreter|per process)", done.stdout, re.S)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="not a free-threaded CPython")
def test_the_interpreters_lock_stays_off():
    """A free-threaded CPython turns it on for modules that do not declare otherwise, and warns."""
    code = "import sys, vips_fast, vips_fast.kernels.native; print(sys._is_gil_enabled())"
    done = python("-W", "error", "-c", code, env=HERE)
    assert done.returncode == 0 and done.stdout == "False\n", done.stderr
