"""The C interface as data: what is declared is what is frozen, generated and compiled."""

import ast
import inspect
import json
import re
import runpy

import pytest

from .conftest import ROOT, call, compiler

generate = runpy.run_path(str(ROOT / "csrc" / "generate.py"))
TOML = (ROOT / "csrc" / "kernels.toml").read_text()
FROZEN = json.loads(generate["FROZEN"].read_text())


def interface(text=TOML):
    return generate["plain"](generate["load"](text))


def test_the_frozen_state_is_up_to_date():
    """Names, types and order: any other change than an addition at the end breaks programs that were built before."""
    assert json.dumps(interface()) == json.dumps(FROZEN), "for an addition: python csrc/generate.py --freeze"


@pytest.mark.parametrize("path", list(generate["files"]()), ids=lambda path: path.name)
def test_generated_files_are_up_to_date(path):
    assert path.read_text() == generate["files"]()[path], "run python csrc/generate.py"


def test_stubs_are_those_of_the_compiled_module():
    """Every function and constant, with its keywords and defaults. No type is left open."""
    from vips_fast.kernels import native

    text = generate["files"]()[ROOT / "vips_fast" / "kernels" / "native.pyi"]
    assert "Any" not in text
    found = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    public = {name for name in vars(native) if not name.startswith("_")}
    functions = {name for name in public if "cython_function" in type(getattr(native, name)).__name__}
    assert set(found) == functions
    for name, node in found.items():
        known = inspect.signature(getattr(native, name)).parameters.values()
        assert [a.arg for a in node.args.args] == [p.name for p in known]
        assert [ast.literal_eval(d) for d in node.args.defaults] == [
            p.default for p in known if p.default is not p.empty
        ]
    constants = {node.target.id for node in ast.parse(text).body if isinstance(node, ast.AnnAssign) and not node.value}
    assert constants - {"_C_API"} == {name for name in public if name.isupper()}


def test_status_codes_are_consecutive():
    with pytest.raises(ValueError, match="status codes"):
        interface(TOML.replace("VF_ERR_INDEX = [3", "VF_ERR_INDEX = [33"))


def test_the_compiler_agrees_with_the_frozen_interface(tmp_path):
    """Each field's place and type, read by a C compiler."""
    sizes = {"uint32_t": 4, "int32_t": 4}
    table = [["abi_version", "uint32_t"], ["struct_size", "uint32_t"], ["isa", "const char *"]]
    structures = {**FROZEN["structures"], "vf_api": table + [[name, "function"] for name in FROZEN["functions"]]}
    lines = ["#include <vips_fast/vips_fast.h>"]
    for structure, fields in structures.items():
        at = 0
        for name, kind in fields:
            size = sizes.get(kind, 8)
            at = -(-at // size) * size
            lines.append(f'_Static_assert(offsetof({structure}, {name}) == {at}, "{structure}.{name}");')
            at += size
    for name, value in FROZEN["status"].items():
        lines.append(f'_Static_assert({name} == {value}, "{name}");')
    lines.append("void check(const vf_api *api); void check(const vf_api *api) {")
    for name, (returns, *arguments) in FROZEN["functions"].items():
        lines.append(f"    {returns} (*{name})({', '.join(arguments)}) = api->{name}; (void){name};")
    (tmp_path / "check.c").write_text("\n".join([*lines, "}"]))
    command = [compiler(), "-std=c11", "-Wall", "-Werror", f"-I{ROOT / 'csrc' / 'include'}"]
    call([*command, "-c", tmp_path / "check.c", "-o", tmp_path / "check.o"])


def test_status_messages_are_the_declared_ones():
    from vips_fast.kernels import numba_types

    for code, text in generate["load"]()["status"].values():
        assert numba_types.status_message(code) == text
    assert numba_types.status_message(-1) == numba_types.status_message(99) == "unknown status"
    # No kernel is declared without a description; a family's workspaces are described once.
    undescribed = {f.name for f in generate["load"]()["functions"] if not f.text and not f.name.endswith("_f64")}
    assert all(re.fullmatch(r"sbn_\w+_workspace", name) for name in undescribed)
