"""The code blocks of a page, and a run of them."""

import os
import re
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from alone import alone

ROOT = Path(__file__).resolve().parents[2]


def blocks(text):
    """(language, file name or None, code) of each fenced block."""
    pattern = r"(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)```"
    return [(language, name or None, code) for name, language, code in re.findall(pattern, text, re.S)]


def run_page(page, folder, python, environment):
    """Write a page's files, and run its shell and Python blocks.

    Shell blocks in their order, then all Python blocks as one script.
    """
    script, tools = [], folder / "bin"
    tools.mkdir()
    wrapper = tools / "python"
    wrapper.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    wrapper.chmod(0o755)
    path = f"{tools}{os.pathsep}{environment['PATH']}"
    # A page's own pytest is no worker of this one: pytest-benchmark measures nothing in workers.
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    environment |= {"VIPS_FAST_SOURCE": str(ROOT), "PATH": path}

    def call(*command):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"

    for language, file, code in blocks(page.read_text()):
        if file:
            (folder / file).write_text(code)
        elif language == "sh":
            for tool in ("cc", "c++", "make"):
                if re.search(rf"^{re.escape(tool)} ", code, re.M) and shutil.which(tool) is None:
                    pytest.skip(f"no {tool}")
            if "--benchmark-json" in code:
                # `make test` installs the extra; the environment of `pip install vips_fast[test]` has none.
                pytest.importorskip("pytest_benchmark", reason="needs pytest-benchmark (extra bench)")
            # The library is made in the source tree, which other tests make it in.
            with alone(ROOT / "csrc") if "make " in code else nullcontext():
                call("sh", "-euc", code)
        elif language == "python":
            script.append(code)
        else:
            pytest.fail(f"{page.name}: a block of {language} that nothing runs")
    assert script
    (folder / "script.py").write_text("\n".join(script))
    call("python", "script.py")
