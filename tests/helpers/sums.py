"""The kernels of a network's sums. Called as their twins in `vips_fast.kernels.reference` are."""

import numpy as np

from vips_fast.kernels import native
from vips_fast.kernels.sbn import workspaces


def sbn_clip(x, center=None, factor=None, *, clip_norm=None, spacing, isa=None):
    x = np.array(x, dtype=float)
    units, norms = np.empty_like(x), np.empty(len(x))
    native.sbn_clip(x, center, factor, clip_norm or 0.0, spacing, units, norms, isa)
    return units, norms


def sbn_visible_norms(y, center, isa=None):
    norms = np.empty(len(y))
    native.sbn_visible_norms(y, center, norms, isa)
    return norms


def sbn_cross(y, v, isa=None):
    sums = np.zeros((y.shape[1], v.shape[1]), dtype=np.int64)
    native.sbn_cross(y, v, sums, isa)
    return sums


def sbn_gram(v, isa=None):
    K = v.shape[1]
    sums = np.zeros(K * (K - 1) // 2, dtype=np.int64)
    native.sbn_gram(v, workspaces("gram", 1, K, 1, isa)[0], sums, isa)
    return sums
