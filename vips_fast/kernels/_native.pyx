# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Thin bindings of the C kernels (csrc). Callers check; these only convert and release the GIL.

Each kernel family has its own .pxi. The chosen function table is also offered to
other extensions through the capsule ``_C_API``.
"""
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import os

import numpy as np

cdef extern from "vips_fast/vips_fast.h" nogil:
    ctypedef struct vf_lda_params:
        double tol
        int32_t max_iter
        double clip_norm
        double spacing
    ctypedef struct vf_blr_params:
        double row_norm
        double n_trials
        double scale_linear
        double scale_quadratic
        double clip_norm
        double spacing
        double factor_spacing
        int32_t label_free
    ctypedef struct vf_api:
        uint32_t abi_version
        uint32_t struct_size
        const char *isa
        int32_t (*lda_table_f32)(int64_t, int64_t, const double *, int64_t, int64_t, float *) noexcept nogil
        int32_t (*lda_table_f64)(int64_t, int64_t, const double *, int64_t, int64_t, double *) noexcept nogil
        int64_t (*lda_workspace_f32)(int64_t, int64_t) noexcept nogil
        int64_t (*lda_workspace_f64)(int64_t, int64_t) noexcept nogil
        int32_t (*lda_estep_f32)(int64_t, int64_t, int64_t, const vf_lda_params *, const int64_t *, const int32_t *,
                                 const double *, const float *, const double *, void *, int64_t, double *, int64_t *,
                                 int32_t *, double *) noexcept nogil
        int32_t (*lda_estep_f64)(int64_t, int64_t, int64_t, const vf_lda_params *, const int64_t *, const int32_t *,
                                 const double *, const double *, const double *, void *, int64_t, double *, int64_t *,
                                 int32_t *, double *) noexcept nogil
        int32_t (*lda_gather)(int64_t, int64_t, int64_t, int32_t, int64_t, const int64_t *, const int64_t *,
                              const int32_t *, const int32_t *, const uint64_t *, int64_t, uint32_t *, int64_t *,
                              int32_t *, double *) noexcept nogil
        int32_t (*os_random)(int64_t, uint8_t *) noexcept nogil
        int32_t (*chacha20_fill)(int64_t, const uint8_t *, const uint8_t *, uint32_t, uint8_t *) noexcept nogil
        int32_t (*chacha20_words)(int64_t, int64_t, const uint8_t *, uint64_t *) noexcept nogil
        int32_t (*rounded_gaussian)(int64_t, int64_t, double, const uint8_t *, int64_t *) noexcept nogil
        int32_t (*add_rounded_gaussian)(int64_t, int64_t, double, const uint8_t *, int64_t *) noexcept nogil
        int32_t (*symmetric_gaussian_i64)(int64_t, int64_t, int64_t, double, double, const uint8_t *, int64_t,
                                          int64_t *) noexcept nogil
        int32_t (*symmetric_gaussian_f64)(int64_t, int64_t, int64_t, double, double, double, const uint8_t *, int64_t,
                                          double *) noexcept nogil
        int32_t (*symmetric_check_i64)(int64_t, int64_t, int64_t, int64_t, int64_t, const int64_t *) noexcept nogil
        int32_t (*symmetric_check_f64)(int64_t, int64_t, int64_t, int64_t, double, int64_t,
                                       const double *) noexcept nogil
        int32_t (*int64_check)(int64_t, int64_t, const int64_t *) noexcept nogil
        int32_t (*gaussian_flagged)(int64_t, int64_t, double, const uint8_t *, int64_t, int64_t *,
                                    int64_t *) noexcept nogil
        int32_t (*gaussian_exact)(uint64_t, uint64_t, int64_t, double, int32_t, const uint8_t *,
                                  int64_t *) noexcept nogil
        int32_t (*pg_mean_f32)(int64_t, float, const float *, float *) noexcept nogil
        int32_t (*pg_mean_f64)(int64_t, double, const double *, double *) noexcept nogil
        int64_t (*blr_workspace)(int64_t, int32_t) noexcept nogil
        int32_t (*blr_weights_f32)(int64_t, int64_t, const vf_blr_params *, const int64_t *, const int32_t *,
                                   const float *, const double *, const double *, const double *, const double *,
                                   void *, int64_t, double *, double *, double *, double *) noexcept nogil
        int32_t (*blr_weights_f64)(int64_t, int64_t, const vf_blr_params *, const int64_t *, const int32_t *,
                                   const double *, const double *, const double *, const double *, const double *,
                                   void *, int64_t, double *, double *, double *, double *) noexcept nogil
        int32_t (*blr_accumulate_f32)(int64_t, int64_t, int64_t, int64_t, const int64_t *, const int32_t *,
                                      const float *, const double *, const double *, void *, int64_t, int64_t *,
                                      int64_t *) noexcept nogil
        int32_t (*blr_accumulate_f64)(int64_t, int64_t, int64_t, int64_t, const int64_t *, const int32_t *,
                                      const double *, const double *, const double *, void *, int64_t, int64_t *,
                                      int64_t *) noexcept nogil
        int32_t (*blr_round)(int64_t, double, double, int64_t *) noexcept nogil
        int32_t (*shrink_means)(int64_t, int64_t, int64_t, int64_t, double, const double *, const double *,
                                const double *, const float *, const float *, const int32_t *, float *, float *,
                                double *) noexcept nogil
        int64_t (*sbn_pg_workspace_f32)(int64_t, int64_t) noexcept nogil
        int64_t (*sbn_pg_workspace_f64)(int64_t, int64_t) noexcept nogil
        int64_t (*sbn_quadratic_workspace)(int64_t, int64_t) noexcept nogil
        int64_t (*sbn_moments_workspace)(int64_t, int64_t) noexcept nogil
        int64_t (*sbn_gram_workspace)(int64_t) noexcept nogil
        int32_t (*sbn_pg_f32)(int64_t, int64_t, int64_t, int32_t, const uint8_t *, const float *, const float *,
                              const float *, const float *, const float *, const float *, void *, int64_t, double *,
                              double *) noexcept nogil
        int32_t (*sbn_pg_f64)(int64_t, int64_t, int64_t, int32_t, const uint8_t *, const double *, const double *,
                              const double *, const double *, const double *, const double *, void *, int64_t, double *,
                              double *) noexcept nogil
        int32_t (*sbn_quadratic)(int64_t, int64_t, int64_t, int32_t, const uint8_t *, const double *, const double *,
                                 const double *, const double *, void *, int64_t, double *) noexcept nogil
        int32_t (*sbn_clip)(int64_t, int64_t, double, double, const double *, const double *, const double *,
                            double *, double *) noexcept nogil
        int32_t (*sbn_visible_norms)(int64_t, int64_t, const uint8_t *, const double *, double *) noexcept nogil
        int32_t (*sbn_cross)(int64_t, int64_t, int64_t, const uint8_t *, const double *, int64_t *) noexcept nogil
        int32_t (*sbn_gram)(int64_t, int64_t, const double *, void *, int64_t, int64_t *) noexcept nogil
        int32_t (*sbn_moments)(int64_t, int64_t, int64_t, int64_t, int64_t, double, const double *, const double *,
                               void *, int64_t, int64_t *) noexcept nogil
    const vf_api *vf_dispatch()
    const vf_api *vf_api_for(const char *isa)
    const char *vf_status_message(int32_t status)
    int VF_ABI_VERSION
    int VF_LDA_RESAMPLE_TOKENS
    int VF_SHRINK_GRID
    int VF_LDA_AS_IS
    int VF_LDA_RESAMPLE
    int VF_LDA_SCALE
    int64_t VF_LDA_STRIDE(int64_t)
    int64_t VF_SBN_STRIDE(int64_t)
    double VF_GAUSSIAN_MAX_SCALE
    int VF_GAUSSIAN_REACH
    int VF_ERR_PARAMETER
    int VF_ERR_RANGE
    int VF_ERR_ENTROPY

cdef const vf_api *_api = vf_dispatch()

if _api == NULL:
    raise ImportError(
        f"VIPS_FAST_ISA={os.environ.get('VIPS_FAST_ISA')!r}: expected an instruction set that this machine has, one of "
        + ", ".join(name for name in ("portable", "baseline", "avx2", "avx512") if vf_api_for(name.encode()) != NULL)
    )

_C_API = PyCapsule_New(<void *> _api, "vips_fast.kernels._native._C_API", NULL)


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
    if status == 3:  # VF_ERR_INDEX
        raise IndexStatus("kernel: " + vf_status_message(status).decode())
    if status != 0:
        raise RuntimeError("kernel: " + vf_status_message(status).decode())
    return 0


include "_lda.pxi"
include "_shrink.pxi"
include "_noise.pxi"
include "_blr.pxi"
include "_sbn.pxi"
