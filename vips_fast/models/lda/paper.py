"""Run Algorithm 3 with the article's constants, to compare with ours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from ...checks import check_choice
from ...engine.model import Model, Release
from ...engine.plan import RunSchedule
from ...engine.result import Public
from .estimator import LatentDirichletAllocation
from .model import LdaModel, LdaSettings
from .planning import DEFAULT_STEPS, LdaOptions


class PaperLdaModel(LdaModel):
    """A running average of noised statistics, whose negative entries are mapped to 0 each step."""

    shrinks = False

    def update(self, release: Release) -> None:
        """See Algorithm 3."""
        super().update(replace(release, units=np.maximum(release.units, 0)))

    def _lambda(self, first: int, last: int) -> np.ndarray:
        return self._eta + self.n_records * self._average[first:last]


@dataclass(frozen=True, kw_only=True)
class PaperLdaOptions(LdaOptions):
    """`LdaOptions` with the article's constants: Algorithm 3 has no scales of words, and measures nothing."""

    learning_decay: float | None = 0.7
    learning_offset: float = 1024.0
    length_method: Literal["scale", "resample"] = "resample"
    word_clip: float = 1.0
    word_scale: float = 0.0
    topic_mean: Literal["arithmetic", "geometric"] = "geometric"
    mean_change_tol: float | None = 1e-3
    measure_gain: bool | None = False


@dataclass(kw_only=True, repr=False, eq=False)
class PaperLatentDirichletAllocation(LatentDirichletAllocation):
    """`LatentDirichletAllocation` as printed: clip 0.1, cut at 0, and the constants of `PaperLdaOptions`.

    A ``sensitivity`` of "paper" takes clip · N for replacing a document too, which is too small by √2, and marks the
    model NOT PRIVATE there; "proven" does not. Other parameters are those of `LatentDirichletAllocation`.
    """

    _options_type: ClassVar[type] = PaperLdaOptions

    sensitivity: str = "paper"
    clip: float | None = 0.1
    n_steps: int | None = DEFAULT_STEPS
    sampling: str = "without_replacement"

    @property
    def _length(self) -> int:
        return 500 if self.doc_length is None else self.doc_length

    @property
    def _plain(self) -> bool:
        """Return False: the article's fits differ in noise and clip. Its runs without privacy differ only in these."""
        return False

    def _check_parameters(self) -> None:
        check_choice("sensitivity", self.sensitivity, ("paper", "proven"))
        if self.public_prior is not None:
            raise ValueError("public_prior: expected None; the article's algorithm has no public topics")
        super()._check_parameters()

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        return PaperLdaModel(self._model_settings(public, schedule), public)

    def _model_settings(self, public: Public, schedule: RunSchedule | None) -> LdaSettings:
        # The article releases only topics, with the same prior for documents of any length.
        settings, given = super()._model_settings(public, schedule), self._options.doc_topic_prior
        return replace(settings, histograms=0, alpha=1.0 / self.n_components if given is None else given)

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> None:
        """None: the forecast was fitted on our update."""

    def _sensitivity(self, model: Model, relation: str) -> float | None:
        """Eqs. 28 and 29: clip · N, whatever the relation."""
        return model.clip if self.sensitivity == "paper" else None
