"""Algorithm 3 with the article's own constants: what ours is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...checks import check_choice
from ...engine.model import Model, Release
from ...engine.result import Public
from .estimator import LatentDirichletAllocation
from .model import LdaModel
from .options import LdaOptions
from .planning import DEFAULT_STEPS


class PaperLdaModel(LdaModel):
    """The running average of noised statistics whose negative entries are mapped to 0 in each step."""

    shrinks = False

    def update(self, release: Release) -> None:
        """See Algorithm 3."""
        repaired = np.maximum(release.values, 0.0)
        self._average.add_values(repaired, release, self._schedule.rate(release.step))
        self._fill_table(None)

    def _lambda(self, first: int, last: int) -> np.ndarray:
        return self._eta[first:last] + self.n_records * self._average.values[first:last]


class PaperLatentDirichletAllocation(LatentDirichletAllocation):
    """`LatentDirichletAllocation` as printed: clip 0.1, resampling, τ₀ = 1024, κ = 0.7, cut at 0.

    Parameters
    ----------
    n_components : int
    sensitivity : {"paper", "proven"}
        "paper" takes clip · N for replacing a document too, which is too small by √2, and
        marks the model NOT PRIVATE there.
    update : {"paper", "average"}
        "average" takes our update and read-out, to see what these alone change.
    **parameters
        As in `LatentDirichletAllocation`.
    """

    def __init__(
        self, n_components: int = 10, *, sensitivity: str = "paper", update: str = "paper",
        doc_topic_prior: float | None = None, topic_word_prior: float | np.ndarray | None = None,
        doc_length: int | None = 500, clip: float | None = 0.1, n_steps: int | None = DEFAULT_STEPS,
        batch_size: float | None = None, sampling: str = "without_replacement", neighbors: str | None = None,
        n_records: int | None = None, target_epsilon: float | None = None, target_delta: float | None = None,
        noise_multiplier: float | None = None, private: bool = True, invalid: str = "raise", n_jobs: int | None = None,
        random_state: Any = None, callback: Any = None, options: LdaOptions | None = None,
    ):
        super().__init__(
            n_components, doc_topic_prior=doc_topic_prior, topic_word_prior=topic_word_prior, doc_length=doc_length,
            clip=clip, n_steps=n_steps, batch_size=batch_size, sampling=sampling, neighbors=neighbors,
            n_records=n_records, target_epsilon=target_epsilon, target_delta=target_delta,
            noise_multiplier=noise_multiplier, private=private, invalid=invalid, n_jobs=n_jobs,
            random_state=random_state, callback=callback, options=options,
        )
        self.sensitivity = sensitivity
        self.update = update

    @property
    def _options(self) -> LdaOptions:
        if self.options is not None:
            return self.options
        if self.update == "paper":
            return LdaOptions(learning_decay=0.7, learning_offset=1024.0, length_method="resample")
        return LdaOptions()

    def _check_parameters(self) -> None:
        check_choice("sensitivity", self.sensitivity, ("paper", "proven"))
        check_choice("update", self.update, ("paper", "average"))
        super()._check_parameters()

    def _model(self, public: Public) -> Model:
        return (PaperLdaModel if self.update == "paper" else LdaModel)(**self._model_settings(public))

    def _sensitivity(self, model: Model, relation: str) -> float | None:
        """Eqs. 28 and 29: clip · N, whatever the relation."""
        return model.clip if self.sensitivity == "paper" else None
