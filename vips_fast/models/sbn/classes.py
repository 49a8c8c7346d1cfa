"""Belief networks of several classes, in one release a step."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ...engine.lattice import Fraction, rounded
from ...engine.model import Release, array_of, steps_of
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import unpack_block
from ...mechanisms import GaussianMechanism
from ..per_class import PerClassModel
from .network import Settings, row_weights, share_after_rounding
from .quadratic import IMAGE_BITS, QuadraticModel
from .score import PixelPrediction

#: Share of a record's norm that goes to the count of its class; its network loses half a percent by it.
COUNT_SHARE = 0.1
_NETWORK_SHARE = math.sqrt(1 - COUNT_SHARE**2)

#: A class is taken to have at least this part of its share if all were alike.
_LEAST_CLASS = 0.1


class ClassConditionalModel(PerClassModel):
    """C classes, each with a `QuadraticModel`, and their numbers of records.

    The statistic is the sizes of the classes, (C,), and then the networks' statistics, one after the other. A record
    (y, c) contributes e_c times `COUNT_SHARE` to the first. Its own contribution in network c, times sqrt(1 -
    `COUNT_SHARE`^2), goes to block c, and zeros go to the blocks of all other classes.

    Notes
    -----
    *Parallel composition, as one release.* The blocks of different classes lie in different coordinates, and a record
    is in only one of them. In network c it has a norm of at most retained sqrt(1 - eta^2), eta = `COUNT_SHARE`. That is
    the factor which network c's multipliers hold (`QuadraticModel`: at most 1 without it, for every state of the
    network). In the count it has retained eta. Its norm is therefore at most retained, whatever the number of classes.
    So is the distance of the sums with and without it. C networks cost no more than one. The label is as private as the
    record, and so are the sizes of the classes: both are read from the release, and public afterwards.

    *Replacing a record.* By one of the same class. The counts are the same, and the two contributions to that class's
    block are at most retained sqrt(1 - eta^2) long. So they are at most 2 retained sqrt(1 - eta^2) apart. By one of
    another class: the two contributions share no coordinate, so they are at most sqrt(2) retained apart. So 2 sqrt(1 -
    eta^2) is enough. That is why this is one mechanism and not C of them by turns. A network for each class, run by
    itself and called parallel covers no replacement that changes the label, since it changes two of the parts.

    *Rounding* is as in `NetworkModel`, over all entries: retained = 1 - slack, slack a little more than sqrt(d) g.

    *Units of several rows.* Each of a unit's m rows weighs 1/m, whatever its class. The unit contributes the mean of
    its rows' contributions as records, a point of the convex hull of these. No norm and no distance of two points is
    larger there than among them. The sizes of the classes are then sums of these weights.

    *Post-processing.* Let p_c be the released share of a class, raised to a tenth of 1/C and then divided by their sum.
    Network c reads its block as means over p_c n records.
    """

    capacity = QuadraticModel.capacity
    clip = 1.0
    at_root: ClassVar[tuple[str, ...]] = ("_counts", "prior")

    def __init__(self, settings: Settings, public: Public, bound: str, mean_steps: int):
        assert public.classes is not None
        self.classes: list[QuadraticModel] = [
            QuadraticModel(settings, public, bound, mean_steps) for _ in public.classes
        ]
        self._n_classes, self._n_records, self._n_visible = len(public.classes), public.n_records, public.n_features
        size = self.classes[0].shape[0]
        self._places = [
            slice(first, first + size) for first in range(self._n_classes, self._n_classes * (size + 1), size)
        ]
        self.shape = (self._n_classes * (size + 1),)
        self._counts, self.prior = np.zeros(self._n_classes), np.full(self._n_classes, 1 / self._n_classes)
        self._retained, self._spacing, self._step = 1.0, 1.0, 0

    def sensitivity(self, relation: str) -> float:
        """Return 1 for add or remove, 2 sqrt(1 - eta^2) for replace.

        See the notes.
        """
        return 1.0 if relation == "add_remove" else 2.0 * _NETWORK_SHARE

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """See `NetworkModel.prepare`; the slack covers all classes' entries."""
        self._retained, self._spacing = share_after_rounding(self, mechanism), mechanism.spacing
        for one in self.classes:
            one.retained, one.spacing = self._retained * _NETWORK_SHARE, mechanism.spacing

    def contributor(self) -> Self:
        other = super().contributor()
        other.classes = [one.contributor() for one in self.classes]
        return other

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """See `Model.contribute`; a block's last column numbers the class."""
        rows, _, starts = unpack_block(block, words)
        weights, labels = row_weights(starts), rows[:, self._n_visible]
        for number, (one, place) in enumerate(zip(self.classes, self._places, strict=True)):
            mine = np.flatnonzero(labels == number)
            if not len(mine):
                continue
            own = None if weights is None else weights[mine]
            ones = len(mine) << IMAGE_BITS if own is None else int(np.floor(np.ldexp(own, IMAGE_BITS)).sum())
            out[number] += ones
            one.add_rows(np.ascontiguousarray(rows[mine, : self._n_visible]), None, own, out[place], scratch)

    def _count_fraction(self, spacing: float) -> Fraction:
        return Fraction.below(COUNT_SHARE * self._retained * 2.0**-IMAGE_BITS / spacing)

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        out = np.zeros(self.shape, dtype=np.int64)
        out[: self._n_classes] = rounded(fine[: self._n_classes], self._count_fraction(spacing))
        for one, place in zip(self.classes, self._places, strict=True):
            out[place] = one.round(fine[place], spacing)
        return out

    def update(self, release: Release) -> None:
        """Update the shares from all releases, and each network from its block."""
        scale = release.scale / (self._count_fraction(self._spacing).value * 2.0**IMAGE_BITS * self._spacing)
        self._counts = self._counts + release.units[: self._n_classes] * scale
        self._step += 1
        shares = np.maximum(self._counts / self._step, _LEAST_CLASS / self._n_classes)
        self.prior = shares / shares.sum()
        for one, place, share in zip(self.classes, self._places, self.prior.tolist(), strict=True):
            one.n_records = self._records_of(share)
            one.update(Release(release.step, release.units[place], release.scale / share, release.noise_sd / share))

    def _records_of(self, share: float) -> int:
        return max(1, round(self._n_records * share))

    @property
    def has_score(self) -> bool:
        """Whether half of the columns can predict the other half."""
        return self._n_visible > 1

    def gain_score(self) -> PixelPrediction:
        return PixelPrediction(self.classes)

    def state(self) -> dict[str, np.ndarray]:
        """Collect the networks' states, and the sums of the released shares."""
        own = {"class_prior": self.prior, "counts": self._counts, "step": np.array([float(self._step)])}
        return own | super().state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        prior, counts = (array_of(state, name, (self._n_classes,)) for name in ("class_prior", "counts"))
        step = steps_of(state)
        if not (prior.min() > 0 and abs(prior.sum() - 1) < 1e-9):
            raise ValueError("state: 'class_prior' is expected to be positive and to have the sum 1")
        super().restore(state)
        self.prior, self._counts, self._step = prior, counts, step
        for one, share in zip(self.classes, prior.tolist(), strict=True):
            one.n_records = self._records_of(share)

    def result(self) -> dict[str, np.ndarray]:
        """Stack the arrays of each class, with the classes' shares."""
        return {"class_prior": self.prior, **super().result()}
