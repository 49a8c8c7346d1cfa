"""Measure a finished model in the last step of its run (`vips_fast.engine.gain`)."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ..accounting import Relation
from ..mechanisms import GaussianMechanism
from .gain import FoundGain, GainScore, Score
from .model import Model, Release, array_of, diagnose
from .sampling import Sampler
from .units import GOLDEN, scramble

#: Units that a score asks, about. More would take time, and the noise of these is small.
JUDGES = 20_000
#: Fewest steps of a run whose last one is a score, unless its settings ask for one.
MEASURED = 10


class ScoreStep:
    """One step whose release is a score: its contributions, bound, and reading.

    ``n_records`` is the public number of units; about `JUDGES` of them are asked, by their own random words.
    """

    def __init__(self, score: GainScore, clip: float, n_records: int, replaces: bool):
        self.score, self._clip = score, clip
        score.replaces = replaces
        self._share = min(1.0, JUDGES / n_records)

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, spacing: float) -> None:
        """Add a block's contributions to the first entries.

        They are truncated toward zero on the noise's lattice.
        """
        asked = scramble(words + GOLDEN) >> np.uint64(11) < np.uint64(self._share * 2**53)
        rows = self.score.rows(block, words, asked, self._clip)
        out.reshape(-1)[: self.score.cells] += np.trunc(rows / spacing).astype(np.int64).sum(axis=0)

    def read(self, release: Release, units: float) -> Score:
        """Read the score from a release; ``units`` is the expected size of a minibatch."""
        values = release.units.reshape(-1)[: self.score.cells] * (release.scale / self._share)
        return Score.read(values, release.noise_sd / self._share, self._clip, units * self._share, self.score)


class MeasuredModel(Model):
    """A model whose run ends with a score of it.

    Notes
    -----
    *Sensitivity.* All steps but the last are the model's, whose proof holds. In the last step adding or removing a unit
    moves the sum by at most a bound B, and replacing one by at most sqrt(2) B, whatever the unit holds
    (`GainScore.clip_rows`). B is at most the mechanism's sensitivity, divided by sqrt(2) for replacing, so the noise of
    every step covers the score. The model that is scored is a function of earlier releases. The unit's own random word
    decides whether it is asked, and which part of it is predicted. So the last step has the event of all others. The
    plan, the ledger, a budget, a checkpoint and a transcript treat it like them.

    *Cost.* The run has one step less for the model itself: at 20 steps its noise is 2.6 % larger.
    """

    at_root = ("model", "measured")
    measured: Score | None

    def __init__(self, model: Model, n_steps: int, n_records: int):
        self.model, self._n_steps, self._n_records = model, n_steps, n_records
        self.clip, self.capacity = model.clip, model.capacity
        self._bound, self._units, self._spacing, self._replaces = model.clip, float(n_records), 1.0, False
        self._done, self.measured = 0, None
        self._begin()

    def _begin(self) -> None:
        """Prepare the next step."""
        self._step = None
        if self._done == self._n_steps - 1:
            score = self.model.gain_score()
            assert score is not None, "the planner measures models that have a score"
            self._step = ScoreStep(score, self._bound, self._n_records, self._replaces)
        self.shape = self.model.shape if self._step is None else (self._step.score.cells,)

    def contributor(self) -> Self:
        """Copy the model, or the score, for another process."""
        other = super().contributor()
        if self._step is None:
            other.model = self.model.contributor()
        return other

    @property
    def fine_shape(self) -> tuple[int, ...]:
        """The model's, or the score's."""
        return self.model.fine_shape if self._step is None else self.shape

    def sensitivity(self, relation: Relation) -> float:
        """Give the model's proven sensitivity."""
        return self.model.sensitivity(relation)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take lattice, bound of the score and size of a minibatch."""
        self.model.prepare(mechanism, sampler)
        self._replaces = sampler.relation != Relation.ADD_REMOVE
        bound = mechanism.sensitivity / (2**0.5 if self._replaces else 1.0)
        self._bound, self._spacing = min(self.clip, bound), mechanism.spacing
        self._units = float(sampler.expected_batch_size)
        self._begin()

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add the model's contributions, or those to its score; see the notes."""
        if self._step is None:
            self.model.contribute(block, words, out, scratch)
        else:
            self._step.contribute(block, words, out, self._spacing)
            diagnose(scratch, clipped=0, norm_sum=0)

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """Round as the model does; a score is on the lattice already."""
        return self.model.round(fine, spacing) if self._step is None else super().round(fine, spacing)

    def update(self, release: Release) -> None:
        """Update the model, or read the score."""
        if self._step is None:
            self.model.update(release)
        else:
            self.measured = self._step.read(release, self._units)
        self._done += 1
        self._begin()

    def end(self) -> None:
        """End the model."""
        self.model.end()

    def state(self) -> dict[str, np.ndarray]:
        """Give the model's state, the steps done and the score."""
        more = {"measured_steps": np.array([float(self._done)])}
        if self.measured is not None:
            more |= {"score": self.measured.state(), **self.measured.shares_state()}
        return {**self.model.state(), **more}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        (done,) = array_of(state, "measured_steps", (1,)).tolist()
        if done != int(done) or not 0 <= done < 2**31:
            raise ValueError("state: 'measured_steps' is expected to be a whole number")
        self.model.restore(state)
        self._done, self.measured = int(done), None
        if done >= self._n_steps:
            score = self.model.gain_score()
            assert score is not None, "the planner measures models that have a score"
            shares = array_of(state, "shares", (score.n_shares + 1,)) if score.n_shares else None
            self.measured = Score.restore(array_of(state, "score", (score.n_candidates + 4,)), shares)
        self._begin()

    def result(self) -> dict[str, np.ndarray]:
        """Give the model's arrays."""
        return self.model.result()


def measured_gain(state: Mapping[str, np.ndarray]) -> FoundGain | None:
    """Read the found gain of a state's best candidate.

    Returns None if no step measured it.
    """
    if "score" not in state:
        return None
    score = Score.restore(array_of(state, "score"))
    return score.found(score.best())
