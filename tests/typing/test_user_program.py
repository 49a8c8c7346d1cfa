"""The program that type checkers look at uses everything public. `make lint` and `make types` check it, and it runs."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import vips_fast

PROGRAM = Path(__file__).with_name("user_program.py")


def test_it_uses_every_public_name():
    tree = ast.parse(PROGRAM.read_text("utf-8"))
    imported = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "vips_fast"
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert imported == set(vips_fast.__all__) and imported <= used
    assert "# type:" not in PROGRAM.read_text() and "pyright:" not in PROGRAM.read_text()


def test_it_runs_in_a_process_of_its_own():
    environment = {**os.environ, "PYTHONPATH": str(Path(vips_fast.__file__).parent.parent)}
    done = subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "differential privacy" in done.stdout and "The model follows from its releases." in done.stdout
