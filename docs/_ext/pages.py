"""Write the reference, before Sphinx reads: pages for packages and commands.

The packages' names come from their ``__all__``, and the commands from the shell's classes, so neither list can be
forgotten.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

from pygments.lexers.shell import BashLexer
from sphinx.pycode import ModuleAnalyzer

import vips_fast
from vips_fast.cli.main import SUMMARY, USAGE
from vips_fast.cli.messages import Exit
from vips_fast.cli.signature import COMMANDS, Arguments, usage

#: Names for users that no ``__all__`` lists, by their modules.
OTHERS = {
    "vips_fast.engine": {
        "budget": ("Budget", "BudgetExceededError"),
        "cluster": ("connected", "DaskBackend"),
        "loop": ("Progress",),
        "model": ("Model",),
    },
    "vips_fast.models": {"parameters": ("Options", "Common", "Rows", "Bookkeeping")},
}


#: Variables of the environment, for all commands.
ENVIRONMENT = (
    ("VIPS_FAST_ISA", "instruction set of the kernels: portable, baseline, avx2 or avx512; default: the best there is"),
    ("VIPS_FAST_NUM_THREADS", "threads of a fit that does not say how many"),
    ("COLUMNS", "width of what is printed"),
)

#: Folder of the classes' pages, below the packages'.
CLASSES = "classes"


def setup(app: Any) -> dict[str, bool]:
    """Sphinx's hook."""
    app.add_lexer("cron", BashLexer)
    app.connect("autodoc-process-docstring", _prepare, priority=100)  # before napoleon
    app.connect("source-read", _keep_together)
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "reference" / "generated"))
    return {"parallel_read_safe": True}


#: Blanks of a cell where no line ends: "1 ± 2", "3 %", "ε = 4".
_KEPT = re.compile(r" (?=[±%])|(?<=±) |(?<=[εδ]) (?==)|(?<=[εδ] =) ")


def _keep_together(app: Any, page: str, source: list[str]) -> None:
    """Keep numbers of a cell on one line with their units."""
    source[0] = re.sub(r"(?m)^\|.*", lambda row: _KEPT.sub("\N{NO-BREAK SPACE}", row[0]), source[0])


def _prepare(app: Any, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """Bring a docstring to a form for napoleon and reStructuredText.

    Bars of absolute values are no substitutions. A paragraph that ends a section, with the errors that are raised, is
    no further entry of its list.
    """
    out: list[str] = []
    listing = False
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if after and not after.strip("-"):
            listing = line in ("Parameters", "Attributes")
        elif listing and line and not out[-1] and not line.startswith(" ") and not after.startswith(" "):
            out.append("")
            listing = False
        out.append(_bars(line))
    lines[:] = out


def _bars(line: str) -> str:
    parts = line.split("``")
    return "``".join(part if number % 2 else part.replace("|", "\\|") for number, part in enumerate(parts))


def write(folder: Path) -> None:
    """Write the pages into ``folder``; remove pages that are no longer written."""
    (folder / CLASSES).mkdir(parents=True, exist_ok=True)
    pages = {f"{name}.md": page for name, page in packages().items()} | {"commands.md": commands_page()}
    pages["summary.txt"] = summary()
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def public() -> dict[str, list[tuple[str, str]]]:
    """List for each public package its names: (where Sphinx finds it, name)."""
    names = ["vips_fast"]
    names += [found.name for found in pkgutil.walk_packages(vips_fast.__path__, "vips_fast.") if found.ispkg]
    known = {}
    for name in names:
        module = importlib.import_module(name)
        if name in OTHERS:
            known[name] = [(f"{name}.{part}.{one}", one) for part, ones in OTHERS[name].items() for one in ones]
        elif name != "vips_fast.cli" and hasattr(module, "__all__"):
            known[name] = [(f"{name}.{one}", one) for one in module.__all__]
    return known


def packages() -> dict[str, str]:
    """Write a page for each package and class.

    An object is described once; on other pages a line leads there.
    """
    seen: dict[int, str] = {}
    pages = {}
    for package, names in public().items():
        here, elsewhere = [], []
        for path, name in names:
            holder, _, last = path.rpartition(".")
            thing = getattr(importlib.import_module(holder), last)
            known = seen.setdefault(id(thing), path) if callable(thing) else path
            (here if known == path else elsewhere).append((path, name, thing, known))
        doc = inspect.cleandoc(importlib.import_module(package).__doc__ or "")
        lines = [f"# {package}", "", "```{eval-rst}", f".. py:module:: {package}", "", doc, ""]
        for _, _, thing, known in here + elsewhere:
            about = (inspect.getdoc(thing) or "").partition("\n\n")[0] if callable(thing) else ""
            lines.append(f"- :py:obj:`~{known}`" + (": " + _bars(" ".join(about.split())) if about else ""))
        classes = [path for path, _, thing, _ in here if isinstance(thing, type)]
        for path, name, thing, _ in here:
            if path in classes:
                pages[f"{CLASSES}/{path}"] = "\n".join(
                    [f"# {name}", "", "```{eval-rst}", *_directive(path, thing), "```", ""]
                )
            else:
                lines += ["", *_directive(path, thing)]
        lines += ["```", ""]
        if classes:
            lines += ["```{toctree}", ":hidden:", "", *(f"{CLASSES}/{path}" for path in classes), "```", ""]
        pages[package] = "\n".join(lines)
    return pages


def summary() -> str:
    """Write a table of the packages with their docstrings' first lines."""
    rows = ["| page | content |", "| --- | --- |", f"| [Commands](generated/commands.md) | {_cell(SUMMARY)} |"]
    for package in public():
        first = inspect.cleandoc(importlib.import_module(package).__doc__ or "").partition("\n\n")[0]
        rows.append(f"| [{package}](generated/{package}.md) | {_bars(' '.join(first.split()))} |")
    return "\n".join([*rows, ""])


def _directive(path: str, thing: object) -> list[str]:
    if isinstance(thing, type):
        lines = [f".. autoclass:: {path}", "   :members:"]
        inherits = any(base.__module__.startswith("vips_fast") for base in thing.__mro__[1:])
        outside = [base.__name__ for base in thing.__mro__[1:] if not base.__module__.startswith("vips_fast")]
        return lines + [f"   :inherited-members: {','.join(outside)}"] * inherits
    if callable(thing):
        return [f".. autofunction:: {path}"]
    return [f".. py:data:: {path}", "", *(f"   {line}" for line in _comment(path))]


def _comment(path: str) -> list[str]:
    """Find the comment ``#:`` at a constant's definition.

    It may be in any module of its package.
    """
    package, _, name = path.rpartition(".")
    module = importlib.import_module(package)
    inner = [found.name for found in pkgutil.iter_modules(module.__path__, f"{package}.")]
    for one in [package, *inner]:
        if importlib.import_module(one).__dict__.get(name) is not None:
            found = ModuleAnalyzer.for_module(one).find_attr_docs().get(("", name))
            if found:
                return found
    raise ValueError(f"{path}: a public constant without a comment that begins with #:")


def commands_page() -> str:
    """List the commands with their options and examples, as ``--help`` does."""
    lines = ["# Commands", "", SUMMARY, "", "```text", USAGE, "```"]
    for name, one in COMMANDS.items():
        lines += ["", f"## vips-fast {name}", ""]
        lines += [_text(f"{one.summary()}."), "", "```text", usage(one), "```", "", *_options(one)]
        lines += ["", "```sh", *one.examples(), "```"]
    lines += ["", "## Exit codes", ""]
    lines += ["| code | meaning |", "| --- | --- |", *(f"| {int(code)} | {_cell(code.meaning)} |" for code in Exit)]
    lines += ["", "## Environment", "", "| variable | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in ENVIRONMENT]
    return "\n".join([*lines, ""])


def _options(command: type[Arguments]) -> list[str]:
    rows = [f"| `{one.typed().replace('|', '/')}` | {_cell(one.help)} |" for one in command.options()]
    return ["| argument | meaning |", "| --- | --- |", *rows] if rows else []


def _text(text: str) -> str:
    """Words of a terminal as Markdown shows them: as they are."""
    for mark in "\\`*_<>[]#":
        text = text.replace(mark, "\\" + mark)
    return text


def _cell(text: str) -> str:
    return " ".join(_text(text).replace("|", "\\|").split())
