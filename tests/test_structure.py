"""The structure that docs/explanation/design.md draws. Layers, and no private names abroad."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "vips_fast"

#: From the ground up, the rooms of a layer together. A room imports rooms of lower layers, and itself.
LAYERS = "checks, store, kernels, accounting data, mechanisms, engine, models, report, jobs, audit demo, cli, "
LAYERS += "__init__ __main__"
LEVEL = {room: number for number, rooms in enumerate(LAYERS.split(", ")) for room in rooms.split()}
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(name, path):
    """(module, name) of each import of this package, also in functions and for types."""
    package = name.split(".") if path.name == "__init__.py" and name != "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ["vips_fast", *package][: len(package) + 2 - node.level] if node.level else []
            target = ".".join([*above, *filter(None, [node.module])])
            found = [(target, alias.name) for alias in node.names]
        else:
            continue
        for target, imported in found:
            first, _, target = target.partition(".")
            inside = f"{target}.{imported}".strip(".")
            if first == "vips_fast" and inside:
                yield (inside, imported) if inside in MODULES else (target, imported)


def room(module):
    return module.split(".")[0]


@pytest.mark.parametrize("name", sorted(name for name in MODULES if name))
def test_imports_run_downwards_and_take_no_private_name_of_another_room(name):
    for target, imported in imports(name, MODULES[name]):
        # The compiled bindings are no Python file; nothing can be imported from there upwards.
        if (target, imported) == ("kernels", "native") or not target:
            continue
        here, there = LEVEL[room(name)], LEVEL[room(target)]
        assert there < here or room(target) == room(name), f"{name} imports {target}, which is not below it"
        same_folder = target.rpartition(".")[0] == name.rpartition(".")[0] or room(target) != "models"
        if room(target) != room(name) or not same_folder:
            private = imported.startswith("_") and not imported.startswith("__")
            assert not private, f"{name} imports {imported} from {target}"
