"""The program that type checkers look at uses everything public. `make lint` and `make types` check it, and it runs."""

import ast
import runpy
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


def test_it_runs(capsys):
    runpy.run_path(str(PROGRAM), run_name="__main__")
    printed = capsys.readouterr().out
    assert "differential privacy" in printed and "The model follows from its releases." in printed
