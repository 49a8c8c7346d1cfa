"""The recipes of docs/embedding.md as an embedder runs them. From an empty folder, against the installed package."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest
from pages import run_page

from .conftest import ROOT, call, copy_source

PAGE = ROOT / "docs" / "embedding.md"


def fresh_environment(folder, *what):
    """Make a virtual environment with only this package installed. It finds the others as this process does."""
    call([sys.executable, "-m", "venv", "--without-pip", folder])
    python = folder / "bin" / "python"
    packages = Path(call([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]).strip())
    # Other .pth files, such as an editable install of this package, are not read from there.
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", python]
    call([*pip, "install", "--no-build-isolation", "--no-deps", "--no-index", "--no-compile", *what], env=outside())
    return python


def outside():
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def from_wheel(folder, installed):
    (wheel,) = (installed.parent / "dist").glob("*.whl")
    return fresh_environment(folder / "environment", wheel), folder


def compiled_editable(folder, installed):
    copy_source(folder / "source")
    return fresh_environment(folder / "environment", "--editable", folder / "source"), folder / "source"


@pytest.mark.parametrize("install", [from_wheel, pytest.param(compiled_editable, marks=pytest.mark.slow)])
def test_the_recipes(install, installed, tmp_path):
    python, place = install(tmp_path, installed)
    empty = tmp_path / "empty"
    empty.mkdir()
    found = call([python, "-c", "import vips_fast; print(vips_fast.__file__)"], cwd=empty, env=outside())
    assert Path(found.strip()).is_relative_to(place)
    run_page(PAGE, empty, python, outside())
