"""The C interface as data: additions at the end pass, anything else fails.

After an addition, write the new state with

    python tests/capi/test_interface.py
"""

import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
HEADER = HERE.parents[1] / "csrc" / "include" / "vips_fast" / "vips_fast.h"
FROZEN = HERE / "interface.json"


def current(text=None):
    """The header's codes, structures and functions."""
    from vips_fast.numba_api import _parse

    return _parse(HEADER.read_text() if text is None else text)


def changes(old, new):
    """What a program built against `old` would trip over in `new`."""
    found = []
    if old["abi_version"] != new["abi_version"]:
        found.append("abi_version")
    found += [f"status {name}" for name, value in old["status"].items() if new["status"].get(name) != value]
    if len(set(new["status"].values())) != len(new["status"]):
        found.append("two status codes of one number")
    for name, fields in old["structures"].items():
        # Only the table may grow: the others are allocated by the caller.
        ours = new["structures"].get(name, [])
        if (ours[: len(fields)] if name == "vf_api" else ours) != fields:
            found.append(f"struct {name}")
    for name, function in old["functions"].items():
        ours = new["functions"].get(name)
        if ours is None or any(ours[part] != function[part] for part in ("returns", "arguments")):
            found.append(f"function {name}")
    return found


def test_nothing_that_is_frozen_has_changed():
    assert changes(json.loads(FROZEN.read_text()), current()) == []


def test_the_frozen_state_is_up_to_date():
    missing = current()["functions"].keys() - json.loads(FROZEN.read_text())["functions"].keys()
    assert not missing, "run python tests/capi/test_interface.py"


TEXT = HEADER.read_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("VF_ERR_INDEX = 3", "VF_ERR_INDEX = 33"),
        ("VF_ERR_NULL = 1", "VF_ERR_NULL = 2"),
        ("#define VF_ABI_VERSION 1", "#define VF_ABI_VERSION 2"),
        ("int32_t max_iter;", "int64_t max_iter;"),
        ("    double tol;", "    double extra; double tol;"),
        ("    double spacing; ", "    double spacing; double more; "),
        ("const char *isa;", "const char *isa; int32_t (*new_one)(int64_t n);"),
        ("int32_t (*pg_mean_f64)(int64_t n, double b,", "int32_t (*pg_mean_f64)(int64_t n, float b,"),
        ("int32_t (*os_random)(int64_t n_bytes, uint8_t *out);", ""),
        ("int64_t (*blr_workspace)", "int32_t (*blr_workspace)"),
    ],
)
def test_each_kind_of_change_is_seen(old, new):
    assert TEXT.count(old) >= 1
    assert changes(current(), current(TEXT.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("VF_ERR_ABI = 10 ", "VF_ERR_ABI = 10, VF_ERR_NEW = 11 "),
        ("} vf_api;", "    int32_t (*new_one)(int64_t n);\n} vf_api;"),
        ("(int64_t n, double b, const double *c, double *out)", "(int64_t count, double b, const double *c, double *out)"),
    ],
)
def test_additions_pass(old, new):
    assert TEXT.count(old) >= 1
    assert changes(current(), current(TEXT.replace(old, new, 1))) == []


def test_the_pxd_says_what_the_header_says():
    interface = current()
    pxd = (HERE.parents[1] / "vips_fast" / "kernels" / "__init__.pxd").read_text()
    flat = " ".join(re.sub(r"#.*", "", pxd).split())
    for name, function in interface["functions"].items():
        parts = [
            kind + ("" if kind.endswith("*") else " ") + argument
            for kind, argument in zip(function["arguments"], function["names"])
        ]
        returns = function["returns"] + ("" if function["returns"].endswith("*") else " ")
        assert f"{returns}(*{name})({', '.join(parts)}) noexcept nogil" in flat, name
    for name in interface["status"]:
        assert re.search(rf"\b{name}\b", flat), name


def test_the_compiler_agrees_with_the_frozen_interface(tmp_path):
    """Each field's place and type, read by a C compiler and not by the parser above."""
    from .conftest import call, compiler

    frozen = json.loads(FROZEN.read_text())
    sizes = {"uint32_t": 4, "int32_t": 4, "double": 8}
    lines = ["#include <vips_fast/vips_fast.h>"]
    for structure, fields in frozen["structures"].items():
        at = 0
        for name, kind in fields:
            size = sizes.get(kind, 8)
            at = -(-at // size) * size
            lines.append(f'_Static_assert(offsetof({structure}, {name}) == {at}, "{structure}.{name}");')
            at += size
    for name, value in frozen["status"].items():
        lines.append(f'_Static_assert({name} == {value}, "{name}");')
    lines.append("void check(const vf_api *api); void check(const vf_api *api) {")
    for name, function in frozen["functions"].items():
        lines.append(f"    {function['returns']} (*{name})({', '.join(function['arguments'])}) = api->{name}; (void){name};")
    (tmp_path / "check.c").write_text("\n".join([*lines, "}"]))
    call([compiler(), "-std=c11", "-Wall", "-Werror", f"-I{HEADER.parents[1]}", "-c", tmp_path / "check.c", "-o", tmp_path / "check.o"])


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(current(), indent=1) + "\n")
