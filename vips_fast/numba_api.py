"""The C kernels inside Numba functions.

Each kernel of the public header (``vips_fast.get_include()``) is an attribute of
this module under its name in the table, ``numba_api.lda_estep_f32`` and so on: a
ctypes function with its full signature, which ``@njit`` code calls directly, with
no Python and no GIL in between. Arrays are passed as ``array.ctypes``, optional
ones as ``null()``; a status other than 0 is a failure (`status_message`).

    from numba import njit
    from vips_fast import numba_api

    pg_mean = numba_api.pg_mean_f64

    @njit(nogil=True)
    def means(c, out):
        return pg_mean(len(c), 1.0, c.ctypes, out.ctypes)

The functions do not know the arrays' sizes: as in C, the caller answers for them.
Numba cannot cache a compiled function that holds such an address. This module
imports Numba; ``import vips_fast`` does not.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
from numba import types
from numba.extending import intrinsic

from . import get_include
from .kernels import native

__all__ = ["address", "lda_params", "names", "null", "signature", "status_message", "structure_dtype"]

_NUMBERS = {
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float, "double": ctypes.c_double,
}


def _parse(text: str) -> dict:
    """Status codes, structures and the function table of the public header.

    The header keeps to a form that this reads: one ``name = number`` for each
    code, and fields that are numbers, pointers or function pointers.
    """
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    codes = re.search(r"typedef enum vf_status \{(.*?)\}", text, re.S).group(1)
    out = {
        "abi_version": int(re.search(r"#define VF_ABI_VERSION (\d+)", text).group(1)),
        "status": {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", codes)},
        "structures": {},
        "functions": {},
    }
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.S):
        fields = []
        for field in filter(None, (" ".join(part.split()) for part in body.split(";"))):
            call = re.fullmatch(r"(.*?) ?\(\*(\w+)\)\((.*)\)", field)
            if call:
                kinds = [re.fullmatch(r"(.*?)(\w+)", argument.strip()).groups() for argument in call[3].split(",")]
                out["functions"][call[2]] = {
                    "returns": call[1],
                    "arguments": [kind.strip() for kind, _ in kinds],
                    "names": [argument for _, argument in kinds],
                }
                fields.append([call[2], "function"])
            else:
                kind, field_name = re.fullmatch(r"(.*?)(\w+)", field).groups()
                fields.append([field_name, kind.strip()])
        out["structures"][name] = fields
    return out


def _ctype(kind: str):
    return ctypes.c_void_p if "*" in kind or kind == "function" else _NUMBERS[kind]


def _read_header() -> dict:
    return _parse((Path(get_include()) / "vips_fast" / "vips_fast.h").read_text(encoding="utf-8"))


_HEADER = _read_header()


class _Table(ctypes.Structure):
    _fields_ = [(name, _ctype(kind)) for name, kind in _HEADER["structures"]["vf_api"]]


def _table() -> _Table:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = _Table.from_address(get(native._C_API, b"vips_fast.kernels.native._C_API"))
    if table.abi_version != _HEADER["abi_version"] or table.struct_size < ctypes.sizeof(_Table):
        raise ImportError(
            f"vips_fast: the function table has version {table.abi_version} and {table.struct_size} bytes, but its header "
            f"says version {_HEADER['abi_version']} and {ctypes.sizeof(_Table)} bytes: install vips_fast again"
        )
    return table


_API = _table()
_FUNCTIONS = {}
for _name, _function in _HEADER["functions"].items():
    if not all(kind in _NUMBERS or "*" in kind for kind in [_function["returns"], *_function["arguments"]]):
        raise ImportError(f"vips_fast: the header's {_name} has an argument of an unknown type")
    _prototype = ctypes.CFUNCTYPE(_ctype(_function["returns"]), *map(_ctype, _function["arguments"]))
    _FUNCTIONS[_name] = _prototype(getattr(_API, _name))
globals().update({name: function for name, function in _FUNCTIONS.items() if name != "status_message"})

_TO_NUMBA = {
    ctypes.c_int32: types.int32, ctypes.c_int64: types.int64, ctypes.c_uint32: types.uint32,
    ctypes.c_uint64: types.uint64, ctypes.c_float: types.float32, ctypes.c_double: types.float64,
    ctypes.c_void_p: types.voidptr,
}


def names() -> list[str]:
    """Names of the kernels, in the table's order."""
    return [name for name in _FUNCTIONS if name != "status_message"]


def _function(name: str):
    if name not in _FUNCTIONS:
        raise ValueError(f"name={name!r}: expected one of {names()}")
    return _FUNCTIONS[name]


def address(name: str) -> int:
    """Address of a kernel.

    Raises
    ------
    ValueError
        If there is no kernel of this name.
    """
    return ctypes.cast(_function(name), ctypes.c_void_p).value


def signature(name: str):
    """Numba signature of a kernel; pointers are ``voidptr``.

    Raises
    ------
    ValueError
        If there is no kernel of this name.
    """
    function = _function(name)
    return _TO_NUMBA[function.restype](*(_TO_NUMBA[kind] for kind in function.argtypes))


def structure_dtype(name: str) -> np.dtype:
    """Numpy dtype of a structure of the header, "vf_lda_params" or "vf_blr_params".

    Raises
    ------
    ValueError
        If there is no such structure.
    """
    if name not in _HEADER["structures"] or name == "vf_api":
        raise ValueError(f"name={name!r}: expected 'vf_lda_params' or 'vf_blr_params'")
    return np.dtype([(field, np.dtype(_ctype(kind))) for field, kind in _HEADER["structures"][name]], align=True)


def lda_params(tol=1e-3, max_iter=100, clip_norm=0.0, spacing=2.0**-20) -> np.ndarray:
    """Parameters of the LDA E-step as an array of one structure: pass its ``.ctypes``.

    The fields are those of ``vf_lda_params``; the kernel checks their ranges.
    """
    out = np.zeros(1, dtype=structure_dtype("vf_lda_params"))
    out[0] = (tol, max_iter, clip_norm, spacing)
    return out


def status_message(status: int) -> str:
    """A sentence for a kernel's status code (outside of ``@njit`` code)."""
    return ctypes.cast(_FUNCTIONS["status_message"](status), ctypes.c_char_p).value.decode()


@intrinsic
def null(typingctx):
    """The null pointer, for an optional array; inside of ``@njit`` code only."""

    def codegen(context, builder, signature, arguments):
        return context.get_constant_null(types.voidptr)

    return types.voidptr(), codegen
