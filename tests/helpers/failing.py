"""A topic model that fails on a cluster's workers. In a chosen step."""

import os

from vips_fast import LatentDirichletAllocation
from vips_fast.models.lda.model import LdaModel


class FailsLate(LatentDirichletAllocation):
    """The way that the third sum fails; "no" does not fail."""

    failure = "no"

    def _model(self, public, schedule=None):
        model = FailingModel(self._model_settings(public, schedule), public)
        model.failure = self.failure
        return model


class FailingModel(LdaModel):
    """Learns like any other."""

    steps = 0

    def update(self, release):
        super().update(release)
        self.steps += 1

    def contribute(self, block, words, out, scratch):
        if self.steps == 2 and self.failure == "die":
            os._exit(1)
        if self.steps == 2 and self.failure == "raise MemoryError":
            raise MemoryError("numbers of a record")
        super().contribute(block, words, out, scratch)
