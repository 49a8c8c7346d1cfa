"""Load small real data of scikit-learn: a table and binary images."""

from typing import Any

import numpy as np

from ..checks import missing_package

#: For each of ten measurements of cell nuclei, the bounds of its mean, its standard error and its worst value. They are
#: round numbers near the ranges that the data set's public description prints. They are public; a value beyond one is
#: moved to it.
_BOUNDS = {
    "radius": (30.0, 3.0, 40.0),
    "texture": (40.0, 5.0, 50.0),
    "perimeter": (200.0, 20.0, 250.0),
    "area": (2500.0, 300.0, 4000.0),
    "smoothness": (0.2, 0.03, 0.25),
    "compactness": (0.4, 0.15, 1.2),
    "concavity": (0.5, 0.4, 1.5),
    "concave points": (0.25, 0.05, 0.3),
    "symmetry": (0.4, 0.08, 0.7),
    "fractal dimension": (0.1, 0.03, 0.2),
}


def breast_cancer() -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Load Wisconsin breast cancer: measurements, diagnoses and the measurements' names.

    The measurements, float64 of shape (569, 30), lie in [-1, 1]: 0 and a public bound of each are its ends. The
    diagnoses, shape (569,), are 'benign' and 'malignant'. Raises ImportError without scikit-learn.
    """
    table = _datasets("vips-fast demo blr").load_breast_cancer()
    bounds = np.array(list(_BOUNDS.values())).T.ravel()
    names = tuple(f"{which} {name}" for which in ("mean", "error of", "worst") for name in _BOUNDS)
    scaled = 2.0 * np.clip(table.data / bounds, 0.0, 1.0) - 1.0
    return scaled, table.target_names[table.target].astype(str), names


def digits() -> np.ndarray:
    """Load handwritten digits of 8 x 8 pixels: uint8 (1797, 64).

    Raises ImportError without scikit-learn.
    """
    return np.asarray(_datasets("vips-fast demo sbn").load_digits().data >= 8, dtype=np.uint8)


def _datasets(what: str) -> Any:
    try:
        from sklearn import datasets
    except ImportError:
        raise missing_package(what, "scikit-learn", "demo") from None
    return datasets
