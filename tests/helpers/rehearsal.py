"""An addition to the package, rehearsed in a copy. The files that it takes, and those that CONTRIBUTING.md lists."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so", "native.c", ".mypy_cache")


def listed(heading, **names):
    """List the files of a numbered list of CONTRIBUTING.md, with placeholders such as NAME filled in."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(f"\n{heading}\n")[2].partition("\n#")[0]
    files = re.findall(r"^\d+\. (?:\[[^]]*\]\(|`)([^`)]+)", text, re.M)
    for name, value in names.items():
        files = [file.replace(name, value) for file in files]
    return set(files)


def copy_tree(folder, *names, compiled=False):
    """Copy files and folders of the project, without built files unless ``compiled``."""
    left_out = shutil.ignore_patterns("__pycache__") if compiled else _LEFT_OUT
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=left_out)
        else:
            shutil.copy(ROOT / name, folder / name)


def add(folder, files):
    """Write new files, given as their texts, or put texts into files before their marks; "" marks the end of one."""
    for name, text in files.items():
        path = folder / name
        if isinstance(text, tuple):
            marks, text = text, path.read_text("utf-8")
            for mark, more in zip(marks[::2], marks[1::2], strict=True):
                assert mark in text, (name, mark)
                text = text.replace(mark, more + mark, 1) if mark else text + more
        path.write_text(text, "utf-8")


def call(folder, *command):
    """Run Python in a folder, and return its output. It imports the folder's package."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
