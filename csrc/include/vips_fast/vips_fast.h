/* vips_fast: kernels for differentially private variational Bayes.
 *
 * This header is the whole C interface. It needs no Python: hold a pointer to a vf_api table (from vf_dispatch() when
 * linked statically, or from the capsule vips_fast.kernels.native._C_API) and call through it. Every function is pure,
 * single-threaded, allocates nothing, may be called from any thread without the GIL, and returns a vf_status. Sizes
 * come before arrays, outputs last. After an error nothing in the outputs is to be used. */
#ifndef VIPS_FAST_H
#define VIPS_FAST_H

#ifdef VIPS_FAST_WITH_PYTHON
#include <Python.h> /* before any standard header, as Python asks */
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Elements from one row to the next of the LDA table of K topics. */
#define VF_LDA_STRIDE(n_topics) (((int64_t)(n_topics) + 15) / 16 * 16)

/* Elements from one row to the next of the sigmoid belief network's tables of J visible units. */
#define VF_SBN_STRIDE(n_visible) (((int64_t)(n_visible) + 15) / 16 * 16)

/* Status codes, parameters and the function table. */
#include "kernels.h"

/* The table for this machine: the widest supported instruction set, or the one that the environment variable
 * VIPS_FAST_ISA names. NULL if that name is unknown or the machine lacks it. */
const vf_api *vf_dispatch(void);
/* The table for one named instruction set, or NULL. */
const vf_api *vf_api_for(const char *isa);
/* A constant English sentence for a status code. */
const char *vf_status_message(int32_t status);

/* Does a table that was handed over fit this header? VF_OK, VF_ERR_NULL or
 * VF_ERR_ABI. A table of the same version may be longer, never shorter. */
static inline int32_t vf_check_api(const vf_api *api) {
    if (!api) return VF_ERR_NULL;
    if (api->abi_version != VF_ABI_VERSION || api->struct_size < sizeof(vf_api)) return VF_ERR_ABI;
    return VF_OK;
}

#if defined(VIPS_FAST_WITH_PYTHON) || defined(Py_PYTHON_H)
#define VF_CAPSULE "vips_fast.kernels.native._C_API"

/* The table of the installed Python package, or NULL with ImportError set. Call it once, with the GIL, when your module
 * is made; the pointer stays valid for the life of the process. Needs Python.h: include it first, or define
 * VIPS_FAST_WITH_PYTHON. */
static inline const vf_api *vips_fast_import(void) {
    const vf_api *api = (const vf_api *)PyCapsule_Import(VF_CAPSULE, 0);
    if (!api) {
        if (!PyErr_ExceptionMatches(PyExc_ImportError))
            PyErr_SetString(PyExc_ImportError, "vips_fast: the installed package has no C interface (" VF_CAPSULE ")");
        return NULL;
    }
    if (vf_check_api(api) != VF_OK) {
        PyErr_Format(PyExc_ImportError,
                     "vips_fast: the installed package has C interface version %u of %u bytes, expected version %u of "
                     "at least %u bytes; %s",
                     (unsigned)api->abi_version, (unsigned)api->struct_size, (unsigned)VF_ABI_VERSION,
                     (unsigned)sizeof(vf_api),
                     api->abi_version == VF_ABI_VERSION ? "install a newer vips_fast"
                                                        : "rebuild this module against the installed vips_fast");
        return NULL;
    }
    return api;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
