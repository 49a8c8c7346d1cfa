"""The C kernels inside Numba functions.

The function table is in ``vips_fast/kernels.h`` of ``vips_fast.get_include()``. Each of its kernels is an attribute of
this module under its name, such as ``numba_types.lda_estep_f32``. It is a ctypes function with its full signature.
Numba's ``@njit`` code calls it directly, with no Python and no GIL in between. Arrays are passed as ``array.ctypes``,
optional ones as ``null()``; a status other than 0 is a failure (`status_message`).

    from numba import njit
    from vips_fast.kernels import numba_types

    pg_mean = numba_types.pg_mean_f64

    @njit(nogil=True)
    def means(c, out):
        return pg_mean(len(c), 1.0, c.ctypes, out.ctypes)

The functions do not know the arrays' sizes: as in C, the caller answers for them. Numba cannot cache a compiled
function that holds such an address. This module imports Numba; ``import vips_fast`` does not.
"""

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import missing_package
from . import native

try:
    from numba import types
    from numba.extending import intrinsic
except ImportError:
    raise missing_package("vips_fast.kernels.numba_types", "numba", "numba") from None

__all__ = ["null", "parameters", "status_message", "structure_dtype"]

_INTERFACE = json.loads(Path(__file__).with_name("interface.json").read_text(encoding="utf-8"))
ABI_VERSION: int = _INTERFACE["abi_version"]
#: Return type and types of the arguments.
FUNCTIONS: dict[str, list[str]] = _INTERFACE["functions"]
#: Fields and their types.
STRUCTURES: dict[str, list[list[str]]] = _INTERFACE["structures"]

# The C types of the declarations; every other one is a pointer.
_NUMBERS: dict[str, Any] = {
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


class _Table(ctypes.Structure):
    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("isa", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in FUNCTIONS),
    ]


def _table() -> _Table:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = _Table.from_address(get(native._C_API, b"vips_fast.kernels.native._C_API"))
    if table.abi_version != ABI_VERSION or table.struct_size < ctypes.sizeof(_Table):
        raise ImportError(
            f"vips_fast: the function table has version {table.abi_version} and {table.struct_size} bytes, expected "
            f"version {ABI_VERSION} and {ctypes.sizeof(_Table)} bytes: install vips_fast again"
        )
    return table


_API = _table()
_KERNELS = {
    name: ctypes.CFUNCTYPE(*(_NUMBERS.get(kind, ctypes.c_void_p) for kind in kinds))(getattr(_API, name))
    for name, kinds in FUNCTIONS.items()
}
globals().update({name: kernel for name, kernel in _KERNELS.items() if name != "status_message"})


def structure_dtype(name: str) -> np.dtype[np.void]:
    """Make the dtype of a structure; ValueError for an unknown name."""
    if name not in STRUCTURES:
        raise ValueError(f"name={name!r}: expected one of {list(STRUCTURES)}")
    kinds = [(field, np.dtype(_NUMBERS[kind]) if kind in _NUMBERS else np.uintp) for field, kind in STRUCTURES[name]]
    return np.dtype(kinds, align=True)


def parameters(name: str, **values: float | np.ndarray) -> np.ndarray:
    """Make a structure as an array of one element: pass its ``.ctypes``.

    ``values`` are its fields; those that are not given are 0 or NULL. An array gives its address, and must outlive the
    structure. The kernel checks the ranges. Raises ValueError if there is no structure, or no field, of the name.
    """
    out = np.zeros(1, dtype=structure_dtype(name))
    for field, value in values.items():
        if field not in (known := out.dtype.names or ()):
            raise ValueError(f"{field}={value!r}: {name} has no such field, expected one of {list(known)}")
        out[field] = value.ctypes.data if isinstance(value, np.ndarray) else value
    return out


def status_message(status: int) -> str:
    """Say a kernel's status code in a sentence (outside of ``@njit`` code)."""
    text = ctypes.cast(_KERNELS["status_message"](status), ctypes.c_char_p).value
    return "" if text is None else text.decode()


@intrinsic
def null(typingctx: Any) -> Any:
    """Make the null pointer, for an optional array inside of ``@njit`` code."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant_null(types.voidptr)

    return types.voidptr(), codegen
