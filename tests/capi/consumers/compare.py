"""Run one consumer, and compare it with the Python result.

On the saved input, bit for bit.

    python compare.py KIND FOLDER        KIND: extension, cython_extension, numba_function, program

FOLDER holds input.npz and the built consumer. Runs in a process of its own, which
imports the installed vips_fast.
"""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np

import vips_fast
from vips_fast.kernels import lda_estep

N_THREADS = 3

kind, folder = sys.argv[1], Path(sys.argv[2])
assert (Path(vips_fast.__file__).parent / "include").is_dir(), "the installed package, not the source tree"
with np.load(folder / "input.npz") as file:
    data = dict(file)
indptr, indices, counts, beta, alpha = (data[name] for name in ("indptr", "indices", "counts", "beta", "alpha"))
tol, max_iter, clip_norm, spacing = 1e-3, 100, 20.0, 2.0**-20
expected = lda_estep(
    indptr, indices, counts, beta, alpha, tol=tol, max_iter=max_iter, clip_norm=clip_norm, spacing=spacing
)
n_topics, n_words = beta.shape
gamma = np.zeros((len(indptr) - 1, n_topics))
sums = np.zeros((n_words, n_topics), dtype=np.int64)
if kind == "program":
    with open(folder / "input.bin", "wb") as file:
        np.array([len(gamma), n_topics, n_words, len(indices), N_THREADS, max_iter], dtype=np.int64).tofile(file)
        np.array([tol, clip_norm, spacing]).tofile(file)
        for array in (indptr, counts, beta, alpha, indices):
            array.tofile(file)
    subprocess.run([folder / "program", folder / "input.bin", folder / "output.bin"], check=True)
    with open(folder / "output.bin", "rb") as file:
        gamma = np.fromfile(file, count=gamma.size).reshape(gamma.shape)
        sums = np.fromfile(file, dtype=np.int64).reshape(sums.shape)
else:
    sys.path.insert(0, str(folder))
    consumer = importlib.import_module(kind)
    status = consumer.estep(
        indptr, indices, counts, beta, alpha, tol, max_iter, clip_norm, spacing, N_THREADS, gamma, sums
    )
    assert status == 0, status
assert sums.any()
np.testing.assert_array_equal(gamma, expected.gamma)
np.testing.assert_array_equal(sums.T * spacing, expected.sstats)
print("the same bits:", len(gamma), "documents")
