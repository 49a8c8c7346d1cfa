"""The structure that docs/explanation/design.md draws. Layers, no circles, no private names abroad."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "vips_fast"

#: From the ground up. A room imports rooms of lower layers, and itself.
LAYERS = [
    {"checks"},
    {"store"},
    {"kernels"},
    {"accounting", "data"},
    {"mechanisms"},
    {"engine"},
    {"models"},
    {"report"},
    {"jobs"},
    {"audit", "demo"},
    {"cli"},
    {"__init__", "__main__"},
]
LEVEL = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}


def modules():
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


MODULES = modules()


#: Arrows that run back inside a room, each with its reason; nothing else may.
BACK = {
    ("models.lda.estimator", "models.lda.paper"): "`paper` makes the article's variant, a subclass",
    ("models.logistic.estimator", "models.logistic.paper"): "`paper` makes the article's variant, a subclass",
    ("engine.model", "engine.gain"): "the type of a model's score",
    ("engine.plan", "engine.checkpoint"): "the type of a run that is resumed",
    ("models.fit", "models.estimator"): "the type of a fit's estimator",
    ("models.persistence", "models.estimator"): "the type of a saved estimator",
    ("audit.bench", "audit.adapter"): "the type of a bench's adapter",
}


def imports(name, path):
    """(module, names, late) of each import of this package. Late are those in functions and only for types."""
    tree = ast.parse(path.read_text("utf-8"))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = []

    def visit(node, late):
        for child in ast.iter_child_nodes(node):
            for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if isinstance(child, ast.ImportFrom):
                names = [alias.name for alias in child.names]
                if child.level:
                    parts = package.split(".") if package and package != "__init__" else []
                    parts = parts[: len(parts) - child.level + 1]
                    target = ".".join([*parts, *([child.module] if child.module else [])])
                    found.append((target, names, late))
                elif (child.module or "").split(".")[0] == "vips_fast":
                    found.append((child.module.partition(".")[2], names, late))
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    if alias.name.split(".")[0] == "vips_fast":
                        found.append((alias.name.partition(".")[2], [], late))
            deeper = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            visit(child, late or deeper or for_types)

    visit(tree, False)
    out = []
    for target, names, late in found:
        # The compiled bindings are no Python file; nothing can be imported from there upwards.
        names = [n for n in names if not (PACKAGE.joinpath(*target.split("."), f"{n}.pyx")).exists()]
        if target == "kernels" and not names:
            continue
        split = [f"{target}.{n}".lstrip(".") for n in names]
        out += [(full, n, late) for full, n in zip(split, names, strict=True) if full in MODULES]
        rest = [n for full, n in zip(split, names, strict=True) if full not in MODULES]
        if (rest or not names) and target:
            out += [(target, n, late) for n in rest] or [(target, "", late)]
    return out


def room(module):
    return module.split(".")[0]


GRAPH = {name: imports(name, path) for name, path in MODULES.items()}


def test_every_room_has_a_layer():
    assert {room(name) for name in MODULES if name} <= set(LEVEL)


@pytest.mark.parametrize("name", sorted(n for n in MODULES if n))
def test_no_import_runs_upwards(name):
    for target, _, _ in GRAPH[name]:
        here, there = LEVEL[room(name)], LEVEL[room(target)]
        allowed = there < here or room(target) == room(name)
        assert allowed, f"{name} imports {target}, which is not below it"


def test_no_circle():
    """Imports in functions and for types are arrows too. Reasons for exceptions are in `BACK`."""
    arrows = {
        name: {t for t, _, _ in found if t != name and (name, t) not in BACK} for name, found in GRAPH.items() if name
    }
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for target in sorted(arrows.get(name, ())):
            # A package's own front door imports its rooms; they do not import the door.
            if target:
                visit(target)
        path.pop()
        done.add(name)

    for name in sorted(arrows):
        visit(name)


def test_every_arrow_that_runs_back_is_there():
    assert all(any(target == to for target, _, _ in GRAPH[name]) for name, to in BACK) and len(BACK) <= 20


@pytest.mark.parametrize("name", sorted(n for n in MODULES if n))
def test_no_private_name_of_another_room(name):
    for target, imported, _ in GRAPH[name]:
        same_folder = target.rpartition(".")[0] == name.rpartition(".")[0] or room(target) != "models"
        if room(target) == room(name) and same_folder:
            continue
        assert not imported.startswith("_") or imported.startswith("__"), f"{name} imports {imported} from {target}"
