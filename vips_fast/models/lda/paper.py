"""Run Algorithm 3 with the article's constants, to compare with ours."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...checks import check_choice
from ...engine.model import Model, Release
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ..parameters import Options
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


@dataclass(kw_only=True, repr=False, eq=False)
class PaperLatentDirichletAllocation(LatentDirichletAllocation):
    """`LatentDirichletAllocation` as printed: clip 0.1, resampling, τ₀ = 1024, κ = 0.7, and cut at 0.

    A ``sensitivity`` of "paper" takes clip · N for replacing a document too, which is too small by √2, and marks the
    model NOT PRIVATE there; "proven" does not. Other parameters are those of `LatentDirichletAllocation`.
    """

    sensitivity: str = "paper"
    clip: float | None = 0.1
    n_steps: int | None = DEFAULT_STEPS
    sampling: str = "without_replacement"

    @property
    def _options(self) -> LdaOptions:
        options = super()._options
        # A prior is no choice of numerics: beside it, the article's own stay.
        own = dict(vars(Options()), doc_topic_prior=None, topic_word_prior=None, measure_gain=None)
        if replace(options, **own) == LdaOptions():
            options = replace(options, learning_decay=0.7, learning_offset=1024.0, length_method="resample")
        found: LdaOptions = replace(
            options,
            word_clip=1.0 if options.word_clip is None else options.word_clip,
            word_scale=options.word_scale or 0.0,
            topic_mean=options.topic_mean or "geometric",
            mean_change_tol=1e-3 if options.mean_change_tol is None else options.mean_change_tol,
            doc_topic_prior=1.0 / self.n_components if options.doc_topic_prior is None else options.doc_topic_prior,
            measure_gain=False,  # the article measures nothing
        )
        return found

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
        return replace(super()._model_settings(public, schedule), histograms=0)  # the article releases only topics

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> None:
        """None: the forecast was fitted on our update."""

    def _sensitivity(self, model: Model, relation: str) -> float | None:
        """Eqs. 28 and 29: clip · N, whatever the relation."""
        return model.clip if self.sensitivity == "paper" else None
