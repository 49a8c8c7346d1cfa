"""The code blocks of the documentation run as they stand."""

import ast
import importlib
import os
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from pages import blocks, run_page

from vips_fast.cli import main
from vips_fast.cli.main import parse

ROOT = Path(__file__).resolve().parent.parent
# Not the site's built files, which may be there or not.
WRITTEN = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in path.parts]
#: tests/capi/test_embedding.py runs the one that is left out.
RUN = [page for page in WRITTEN if re.search("^```python$", page.read_text("utf-8"), re.M) and page.stem != "embedding"]


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_the_blocks_run(page, tmp_path, monkeypatch):
    """A page of Python alone runs in this process, as a main module, unless it starts processes itself."""
    parts = blocks(page.read_text("utf-8"))
    code = "\n".join(code for _, _, code in parts)
    if "__main__" in code or any(part[:2] != ("python", None) for part in parts):
        return run_page(page, tmp_path, sys.executable, dict(os.environ, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}"))
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(code)
    runpy.run_path(str(script), run_name="__main__")


def test_a_number_beside_a_line_is_its_value():
    """As far as its digits go; such figures are rounded outward."""
    name, names, compared = "accounting.md", {}, 0
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / name).read_text(), re.S):
        for statement in ast.parse(code).body:
            number = re.search(r"#\s*(\d+\.(\d+))", code.splitlines()[statement.end_lineno - 1])
            if isinstance(statement, ast.Expr) and number:
                value = eval(compile(ast.Expression(statement.value), name, "eval"), names)
                assert abs(value - float(number[1])) < 10.0 ** -len(number[2]), (ast.unparse(statement), value)
                compared += 1
            else:
                exec(compile(ast.Module([statement], []), name, "exec"), names)
    assert compared >= 3


def test_plans_print_what_the_pages_show(capsys):
    """Between an ellipsis and the next."""
    compared = 0
    for page in PAGES:
        plans = r"^    \$ vips-fast (plan .*)\n((?:(?:    (?!\$).*)?\n)+)"
        for command, shown in re.findall(plans, page.read_text(), re.M):
            assert main(shlex.split(command)) == 0
            printed, at = " ".join(capsys.readouterr().out.split()), 0
            for part in shown.split("…"):
                part = " ".join(part.split())
                assert part in printed[at:], (page.name, command, printed)
                at = printed.index(part, at) + len(part)
            compared += 1
    assert compared >= 6


def test_the_notebook_of_texts_takes_twelve_lines():
    """It runs as it stands, and finds the notes' subjects. Each topic that it finds is one of them."""
    code = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", (ROOT / "docs/notebooks/texts.md").read_text(), re.S)
    assert sum(bool(line.strip()) for cell in code for line in cell.splitlines()) <= 12
    names, shown = {}, []
    for cell in code:
        *lines, last = ast.parse(cell).body
        exec(compile(ast.Module(lines, []), "texts.md", "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), "texts.md", "eval"), names))
        else:
            exec(compile(ast.Module([last], []), "texts.md", "exec"), names)
    found, topics, figure, shares = shown
    assert found.privacy_.epsilon <= 2.0 and found.privacy_.unit == "person" and found.privacy_.n_records == 1_000
    subjects = [set(words.split()) for words in names["subjects"].split(", ")]
    for _, words in topics.groupby("topic")["word"]:
        assert any(set(words) <= subject for subject in subjects), list(words)
    assert len(figure.axes) in (4, 8)  # topics of the records' own may stand beside the public ones
    assert shares.argmax(axis=1)[0] != shares.argmax(axis=1)[1] and shares.max(axis=1).min() > 0.4


PAGES = [ROOT / "README.md", *WRITTEN]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_are_understood(page):
    """Lines that begin with ``vips-fast`` name commands and options that there are."""
    for line in re.findall(r"^ +vips-fast (.*)$", page.read_text(), re.M):
        assert parse(shlex.split(line, comments=True)), line


ROOT_PAGES = sorted(ROOT.glob("*.md"))
SOURCES = [*ROOT_PAGES, *WRITTEN]


def anchors(page):
    """Return the anchors of a page's headings. As GitHub and MyST make them."""
    text = re.sub(r"^(```|:::).*?^\1", "", page.read_text("utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    found, seen = set(), {}
    for heading in headings:
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower()).strip().replace(" ", "-")
        seen[slug] = seen.get(slug, -1) + 1
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
    return found


def broken_links(page):
    """List links to missing files or anchors. Other hosts are not asked."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.S | re.M)
    missing = []
    for link in re.findall(r"\]\(\s*([^)\s]+)\s*\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    return missing


@pytest.mark.parametrize("page", SOURCES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert not broken_links(page)


def test_the_reference_names_what_there_is():
    """The names that no ``__all__`` lists stand in docs/_ext/pages.py, which only Sphinx can import."""
    tree = ast.parse((ROOT / "docs" / "_ext" / "pages.py").read_text("utf-8"))
    (listed,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "OTHERS")
    for package, modules in ast.literal_eval(listed).items():
        for module, names in modules.items():
            found = importlib.import_module(f"{package}.{module}")
            assert [name for name in names if not hasattr(found, name)] == [], found


def test_a_model_takes_under_60_lines():
    page = (ROOT / "docs" / "own_model.md").read_text()
    whole = next(code for language, _, code in blocks(page) if language == "python")
    assert "class PoissonMixture(ConjugateEstimator)" in whole
    (node,) = [node for node in ast.parse(whole).body if isinstance(node, ast.ClassDef)]
    lines = [line for line in whole.splitlines()[node.lineno - 1 : node.end_lineno] if line.strip()]
    assert len(lines) < 60
