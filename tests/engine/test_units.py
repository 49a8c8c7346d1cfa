"""Units of several rows. The chosen rows, their blocks, and the random words."""

import numpy as np
import pytest

from vips_fast.engine.units import UnitRecords, unpack_block


class Rows:
    def __init__(self, n_rows, usable=None):
        self.n_rows, self.usable = n_rows, usable

    def edges(self, rows):
        return np.unique(np.append(np.arange(0, len(rows), 7), len(rows)))

    def block(self, rows):
        return rows


def taken(records, units, seed=0):
    words = np.random.default_rng(seed).integers(0, 2**64, records.n_rows, dtype=np.uint64)[units]
    rows, row_words, starts = unpack_block(records.block(units), words)
    return [(rows[a:b].tolist(), row_words[a:b].tolist()) for a, b in zip(starts[:-1], starts[1:], strict=True)], words


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(0, 30, 200)


def test_a_unit_is_its_rows_in_their_order(labels):
    records = UnitRecords(Rows(200), labels)
    first = list(dict.fromkeys(labels.tolist()))
    parts, words = taken(records, np.arange(records.n_rows))
    assert [rows for rows, _ in parts] == [np.flatnonzero(labels == label).tolist() for label in first]
    # The first row's word is the unit's own, so that a unit of one row equals the row by itself.
    assert [own[0] for _, own in parts] == words.tolist()
    assert len({word for _, own in parts for word in own}) == 200


def test_a_unit_beyond_the_limit_is_cut_anew_at_each_visit(labels):
    records = UnitRecords(Rows(200), labels, 3)
    seen = [taken(records, np.arange(records.n_rows), seed)[0] for seed in range(40)]
    for parts in seen:
        assert max(len(rows) for rows, _ in parts) == 3
        assert all(rows == sorted(rows) for rows, _ in parts)
    unit = int(np.argmax(np.bincount(labels)))
    label = list(dict.fromkeys(labels.tolist())).index(unit)
    own = set(np.flatnonzero(labels == unit).tolist())
    chosen = [tuple(parts[label][0]) for parts in seen]
    assert len(set(chosen)) > 20 and {row for rows in chosen for row in rows} == own


def test_blocks_never_divide_a_unit(labels):
    records = UnitRecords(Rows(200), labels)
    edges = records.edges(np.arange(records.n_rows))
    assert edges[0] == 0 and edges[-1] == records.n_rows and (np.diff(edges) > 0).all() and len(edges) > 10
    assert UnitRecords(Rows(0), []).edges(np.arange(0)).tolist() == [0]


def test_rows_that_are_not_usable_are_nobodys(labels):
    usable = np.random.default_rng(3).random(200) < 0.5
    usable[labels == labels[0]] = False
    records = UnitRecords(Rows(200, usable), labels)
    parts, _ = taken(records, np.arange(records.n_rows))
    assert records.n_rows == 30 and records.usable is None and parts[0][0] == []
    assert sorted(row for rows, _ in parts for row in rows) == np.flatnonzero(usable).tolist()
