"""Stand-in until the reader is merged."""
import numpy as np


def read_npz(path, *, max_bytes=None):
    with np.load(path, allow_pickle=False) as file:
        return {k: np.ascontiguousarray(file[k]) for k in file}


def write_npz(file, arrays):
    np.savez(file, **{k: arrays[k] for k in sorted(arrays)})
