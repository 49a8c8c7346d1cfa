# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Thin bindings of the C kernels (csrc). Callers check; these only convert and release the GIL.

Each kernel family has its own .pxi. The chosen function table is also offered to
other extensions through the capsule ``_C_API``.
"""
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import os

import numpy as np

from vips_fast.kernels cimport (
    VF_ERR_ENTROPY, VF_ERR_INDEX, VF_ERR_PARAMETER, VF_ERR_RANGE, VF_GAUSSIAN_MAX_SCALE, VF_GAUSSIAN_REACH,
    VF_LDA_AS_IS, VF_LDA_RESAMPLE,
    VF_LDA_RESAMPLE_TOKENS, VF_LDA_SCALE, VF_LDA_STRIDE, VF_SBN_STRIDE, VF_SHRINK_GRID, vf_api, vf_blr_params,
    vf_gather_params, vf_lda_params, vf_sbn_params, vf_shrink_params,
)

# What only the package itself links.
cdef extern from "vips_fast/vips_fast.h" nogil:
    const vf_api *vf_dispatch()
    const vf_api *vf_api_for(const char *isa)
    const char *vf_status_message(int32_t status)

cdef const vf_api *_api = vf_dispatch()

if _api == NULL:
    raise ImportError(
        f"VIPS_FAST_ISA={os.environ.get('VIPS_FAST_ISA')!r}: expected an instruction set that this machine has, one of "
        + ", ".join(name for name in ("portable", "baseline", "avx2", "avx512") if vf_api_for(name.encode()) != NULL)
    )

_C_API = PyCapsule_New(<void *> _api, "vips_fast.kernels.native._C_API", NULL)


def isa():
    """Name of the instruction set in use."""
    return _api.isa.decode()


def isas_available():
    """Names of the instruction sets that this machine can run, narrowest first."""
    return [name for name in ("portable", "baseline", "avx2", "avx512") if vf_api_for(name.encode()) != NULL]


cdef const vf_api *_table(isa) except NULL:
    """The function table of a named instruction set; the one in use for None."""
    if isa is None:
        return _api
    cdef bytes name = isa.encode()
    cdef const vf_api *table = vf_api_for(name)
    if table == NULL:
        raise ValueError(f"isa={isa!r}: expected one of {isas_available()}")
    return table


class IndexStatus(RuntimeError):
    """A kernel found a column index out of range or out of order."""


cdef int _check(int32_t status) except -1:
    if status == VF_ERR_INDEX:
        raise IndexStatus("kernel: " + vf_status_message(status).decode())
    if status != 0:
        raise RuntimeError("kernel: " + vf_status_message(status).decode())
    return 0


cdef int _same(int64_t have, int64_t want) except -1:
    if have != want:
        raise RuntimeError("kernel: an array has the wrong shape")
    return 0


cdef int _room(int64_t have, int64_t need) except -1:
    if have < need:
        raise RuntimeError("kernel: an array is too short")
    return 0


include "_lda.pxi"
include "_noise.pxi"
include "_blr.pxi"
include "_sbn.pxi"
