"""Wrong ways with persons that the audit must catch."""

from copy import copy
from dataclasses import replace

import numpy as np

from vips_fast import BayesianLogisticRegression
from vips_fast.audit import Part
from vips_fast.engine.units import UnitBlock, unpack_block


class ClipsRows(Part):
    """Each row is clipped on its own, and their sum is not."""

    def contribute(self, block, words, out, scratch):
        rows, words, _ = unpack_block(block, words)
        self.inner.contribute(rows, words, out, scratch)


class SplitsPersons(Part):
    """A person's rows go to two blocks, as if to two persons."""

    def contribute(self, block, words, out, scratch):
        halves, starts = copy(block.records), block.records._starts
        halves._starts = np.append(np.stack([starts[:-1], (starts[:-1] + starts[1:] + 1) // 2], axis=1), starts[-1])
        for half in (0, 1):
            self.inner.contribute(UnitBlock(halves, 2 * block.units + half), words, out, scratch)


class CutsByCompany(Part):
    """Other units in the block decide which rows are left out."""

    def contribute(self, block, words, out, scratch):
        self.inner.contribute(block, words ^ words[-1], out, scratch)


class RateFromRows(BayesianLogisticRegression):
    """The number of rows at hand serves as persons' public number."""

    def prepare(self, X, *data, **how):
        self._rows = len(X)
        return super().prepare(X, *data, **how)

    def _with_records(self, public, n_rows, *call):
        return replace(super()._with_records(public, n_rows, *call), n_records=self._rows)
