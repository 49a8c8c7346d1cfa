"""One function prints every epsilon of the package. It rounds against the claim."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "vips_fast"
FILES = sorted(PACKAGE.rglob("*.py"))
TEMPLATES = sorted(PACKAGE.rglob("*.html"))
#: Names of values that are, or limit, an epsilon; `eps` is also a machine's.
NAMED = re.compile(r"(^|_)epsilons?($|_)|^(spent|left|would|spending)$", re.I)
PRINTERS = {"rounded_up", "rounded_down"}


def epsilons(node):
    """List names of epsilons outside of the calls that print them. In an expression."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in PRINTERS | {"len"}:
        return
    if isinstance(node, ast.Name) and NAMED.search(node.id):
        yield node.id
    elif isinstance(node, ast.Attribute) and NAMED.search(node.attr):
        yield node.attr
    else:
        for child in ast.iter_child_nodes(node):
            yield from epsilons(child)


def numbered(spec):
    """Tell whether a format specification is about digits of a number."""
    text = "".join(str(getattr(part, "value", "")) for part in getattr(spec, "values", []))
    return text[-1:] in tuple("gGeEfF%n")


def formats(tree):
    """Expressions that are printed as numbers with some digits: in f-strings, which ruff asks for, and by `round`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for before, value in zip(node.values, node.values[1:]):
                named = isinstance(before, ast.Constant) and re.search(r"(epsilon|ε) ?=? ?$", str(before.value), re.I)
                if named and isinstance(value, ast.FormattedValue) and numbered(value.format_spec):
                    yield node.lineno, ast.Name("epsilon")
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None and numbered(node.format_spec):
            yield node.lineno, node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("format", "round"):
            yield from ((node.lineno, one) for one in node.args[:1])


def other_prints(text):
    return [(line, name) for line, value in formats(ast.parse(text)) for name in epsilons(value)]


def test_no_epsilon_is_printed_in_another_way():
    found = {str(path): other_prints(path.read_text("utf-8")) for path in FILES}
    pattern = r"%[.\d]*[gef]'\s*%\s*\(?[\w.]*(?:epsilon|target|spent|left)\b"
    found |= {str(path): re.findall(pattern, path.read_text("utf-8")) for path in TEMPLATES}
    assert not any(found.values()), f"{found}; print it by vips_fast.accounting.rounded_up"


@pytest.mark.parametrize(
    "text",
    [
        'f"{epsilon:.4g}"',
        'f"{self.privacy_.epsilon:.3g} is spent"',
        'f"{args.epsilon / 2:g}"',
        "format(epsilon, '.3g')",
        'f"at epsilon = {one:.3g}"',
        "str(round(epsilon, 3))",
    ],
)
def test_the_search_finds_them(text):
    assert other_prints(text)
    assert not other_prints('f"{rounded_up(epsilon)} {epsilon!r} {len(epsilons):d} {delta:g}"')
