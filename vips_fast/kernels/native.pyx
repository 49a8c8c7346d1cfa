# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""Bindings of the C kernels (csrc), which check shapes alone: the kernels see to the rest.

Most of them, and the constants, are generated: csrc/kernels.toml says how. The chosen
function table is also offered to other extensions through the capsule ``_C_API``.
"""
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import os

import numpy as np

from vips_fast.kernels cimport *

# What only the package itself links.
cdef extern from "vips_fast/vips_fast.h" nogil:
    const vf_api *vf_dispatch()
    const vf_api *vf_api_for(const char *isa)
    const char *vf_status_message(int32_t status)

cdef const vf_api *_api = vf_dispatch()


def isas_available() -> list[str]:
    """Names of the instruction sets that this machine can run, narrowest first."""
    return [name for name in ("portable", "baseline", "avx2", "avx512") if vf_api_for(name.encode()) != NULL]


if _api == NULL:
    raise ImportError(
        f"VIPS_FAST_ISA={os.environ.get('VIPS_FAST_ISA')!r}: expected an instruction set that this machine has, one of "
        + ", ".join(isas_available())
    )

_C_API = PyCapsule_New(<void *> _api, "vips_fast.kernels.native._C_API", NULL)

ctypedef fused real:
    float
    double


def isa() -> str:
    """Name of the instruction set in use."""
    return _api.isa.decode()


cdef const vf_api *_table(isa) except NULL:
    """The function table of a named instruction set; the one in use for None."""
    if isa is None:
        return _api
    cdef const vf_api *table = vf_api_for(isa.encode())
    if table == NULL:
        raise ValueError(f"isa={isa!r}: expected one of {isas_available()}")
    return table


class IndexStatus(RuntimeError):
    """A kernel found a column index out of range or out of order."""


class ParameterStatus(ValueError, RuntimeError):
    """A kernel found a parameter out of its range."""


cdef int _check(int32_t status) except -1:
    if status == 0:
        return 0
    kinds = {
        VF_ERR_INDEX: IndexStatus,
        VF_ERR_PARAMETER: ParameterStatus,
        VF_ERR_RANGE: OverflowError,
        VF_ERR_ENTROPY: OSError,
    }
    raise kinds.get(status, RuntimeError)("kernel: " + vf_status_message(status).decode())


cdef int _same(int64_t have, int64_t want) except -1:
    if have != want:
        raise RuntimeError("kernel: an array has the wrong shape")
    return 0


cdef int _room(int64_t have, int64_t need) except -1:
    if have < need:
        raise RuntimeError("kernel: an array is too short")
    return 0


cdef int64_t _size(int64_t size) except -1:
    if size < 0:
        raise MemoryError("the kernel's workspace does not fit the address space")
    return size


cdef int64_t _end_of_rows(const int64_t[::1] rows, const int64_t[::1] indptr):
    """One past the last entry of the given rows; the kernel refuses rows that are not there."""
    cdef int64_t end = 0, i
    for i in range(rows.shape[0]):
        if 0 <= rows[i] < indptr.shape[0] - 1:
            end = max(end, indptr[rows[i] + 1])
    return end


cdef class Key:
    """A 256-bit key in C memory, zeroed by wipe() and when the object dies.

    Key() asks the operating system; Key(data) copies 32 given bytes, whose
    original stays wherever it was.
    """
    cdef unsigned char bytes[32]
    cdef bint live

    def __cinit__(self, const unsigned char[::1] data=None):
        self.live = False
        if data is None:
            _check(_api.os_random(32, self.bytes))
        else:
            if data.shape[0] != 32:
                raise ValueError(f"key: expected 32 bytes, got {data.shape[0]}")
            self.bytes[:] = &data[0]
        self.live = True

    def __reduce__(self):
        raise TypeError("a key cannot be copied or pickled")

    cpdef wipe(self):
        """Zero the key; using it afterwards is an error."""
        cdef volatile unsigned char *p = self.bytes
        cdef int i
        self.live = False
        for i in range(32):
            p[i] = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.wipe()

    def __dealloc__(self):
        self.wipe()


cdef const unsigned char *_key_bytes(Key key) except NULL:
    if not key.live:
        raise RuntimeError("the key has been wiped")
    return key.bytes


include "bindings.pxi"


def lda_stride(int64_t n_topics) -> int:
    """Columns of the table for a number of topics."""
    return VF_LDA_STRIDE(n_topics)


def sbn_stride(int64_t n_visible) -> int:
    """Elements from one row of a hidden-unit-major table to the next."""
    return VF_SBN_STRIDE(n_visible)


def lda_table(const double[:, :] exp_elog_beta not None, real[:, ::1] table not None, isa=None) -> None:
    """Fill the word-major (V x K) scaled table from a K x V array of any strides."""
    cdef const vf_api *api = _table(isa)
    cdef int64_t n_topics = exp_elog_beta.shape[0], n_words = exp_elog_beta.shape[1]
    cdef int64_t st = exp_elog_beta.strides[0] // 8, sw = exp_elog_beta.strides[1] // 8
    cdef int32_t status
    _same(table.shape[0], n_words)
    _same(table.shape[1], VF_LDA_STRIDE(n_topics))
    with nogil:
        if real is float:
            status = api.lda_table_f32(n_topics, n_words, &exp_elog_beta[0, 0], st, sw, &table[0, 0])
        else:
            status = api.lda_table_f64(n_topics, n_words, &exp_elog_beta[0, 0], st, sw, &table[0, 0])
    _check(status)


def symmetric_gaussian(Key key not None, int64_t row_begin, int64_t row_end, double scale_diagonal, double scale_off,
                       int64_t[:, :] matrix not None, isa=None) -> None:
    """Noise for rows of the upper triangle, added and mirrored."""
    cdef const vf_api *api = _table(isa)
    cdef const unsigned char *k = _key_bytes(key)
    cdef int64_t d = matrix.shape[0], stride = matrix.strides[0] // 8 if d > 1 else 1
    cdef int32_t status
    with nogil:
        status = api.symmetric_gaussian(d, row_begin, row_end, scale_diagonal, scale_off, k, stride, &matrix[0, 0])
    _check(status)


def symmetric_check(int64_t row_begin, int64_t row_end, int64_t limit, const int64_t[:, :] matrix not None, isa=None) -> bool:
    """OverflowError: an entry beyond limit. False: not symmetric."""
    cdef const vf_api *api = _table(isa)
    cdef int64_t d = matrix.shape[0], stride = matrix.strides[0] // 8 if d > 1 else 1
    cdef int32_t status
    with nogil:
        status = api.symmetric_check(d, row_begin, row_end, limit, stride, &matrix[0, 0])
    if status == VF_ERR_PARAMETER:
        return False
    _check(status)
    return True
