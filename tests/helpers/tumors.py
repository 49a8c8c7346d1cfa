"""Wisconsin breast cancer, scaled by public bounds."""

import numpy as np
from sklearn.datasets import load_breast_cancer

#: For each of ten measurements of cell nuclei, the bounds of its mean, its standard error and its worst value. They are
#: round numbers near the ranges that the data set's public description prints. They are public; a value beyond one is
#: moved to it.
BOUNDS = {
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


def tumors():
    """Return measurements in [-1, 1], float64 of shape (569, 30), and diagnoses."""
    table = load_breast_cancer()
    bounds = np.array(list(BOUNDS.values())).T.ravel()
    return 2.0 * np.clip(table.data / bounds, 0.0, 1.0) - 1.0, table.target_names[table.target].astype(str)
