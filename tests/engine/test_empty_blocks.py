"""Blocks without usable rows, in every model and any place: the same sums, and no error.

A block whose persons have rows, but none that is usable, is not an empty block to the engine.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import EVERY, MORE
from runs import bits

from vips_fast.engine.backend import Threads
from vips_fast.engine.gain import MEASURED

#: Units, rows of each with groups, and units of a block.
UNITS, ROWS, BLOCK = 60, 3, 4
FIRST, MIDDLE, LAST = (np.arange(start, start + 2 * BLOCK) for start in (0, 5 * BLOCK, UNITS - 2 * BLOCK))
PLACES = {"some": np.concatenate([FIRST, MIDDLE, LAST]), "all": np.arange(UNITS)}


def _scored(name):
    """Score a model of so many steps in its last one."""
    make, data = EVERY[name]
    return lambda **options: make(**{"n_steps": MEASURED, **options}), data


MODELS = {**EVERY, **{f"{name}-scored": _scored(name) for name in ("logistic", "network", "mixture")}, **MORE}


class SmallBlocks(Threads):
    """Blocks of a few units, and empty ones before, between and after them."""

    def sum(self, model, records, *rest):
        return super().sum(model, Divided(records), *rest)


class Divided:
    """Records whose blocks have `BLOCK` units."""

    def __init__(self, records):
        self.block = records.block

    def edges(self, rows):
        cuts = np.append(np.arange(0, len(rows), BLOCK), len(rows))
        return np.sort(np.concatenate([cuts, cuts[[0, len(cuts) // 2, -1]]]))


def broken(X, rows):
    if isinstance(X, list):
        return [None if row in set(rows.tolist()) else text for row, text in enumerate(X)]
    spoiled = np.array(X.toarray() if sp.issparse(X) else X, np.float64)
    spoiled[rows] = np.nan
    return sp.csr_array(spoiled) if sp.issparse(X) else spoiled


def fitted(name, place, groups, backend):
    make, data = MODELS[name]
    each = 1 if groups is None else ROWS
    X, *y = data(UNITS * each)
    rows = (each * PLACES[place][:, None] + np.arange(each)).reshape(-1)
    model = make(n_records=UNITS, options={"invalid": "drop"}).set_unsafe(test_key=b"k" * 32)
    return bits(model.fit(broken(X, rows), *y, groups=groups, backend=backend))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "groups"),
    [(name, None) for name in MODELS]
    # The paper's regression takes no persons.
    + [(name, np.repeat(np.arange(UNITS), ROWS)) for name in MODELS if name != "logistic-paper"],
)
@pytest.mark.parametrize("place", PLACES)
def test_blocks_without_usable_rows_leave_the_bits_alone(name, place, groups):
    assert fitted(name, place, groups, SmallBlocks(3)) == fitted(name, place, groups, Threads(1))
