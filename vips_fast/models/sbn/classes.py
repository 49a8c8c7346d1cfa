"""Belief networks of labeled records, one for each class, in one release a step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from ...checks import check_number, public_seed, stated_classes
from ...data.shards import ShardedCorpus
from ...data.types import Array, Bits, Column, Data, Labels, Matrix, RandomState, Vector
from ...engine.model import Model, Release, array_of, steps_of
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import unpack_block
from ...kernels.threads import resolve_n_threads
from ...mechanisms import Fraction, GaussianMechanism, rounded
from ..estimator import ArraySpec
from ..logistic.records import read_labels, usable_rows
from ..parameters import Bookkeeping, Call
from ..per_class import PerClassModel
from ..readouts import Classifier, Published, by_pieces
from .network import (
    IMAGE_BITS,
    BinaryRecords,
    NetworkEstimator,
    QuadraticModel,
    Scratch,
    Settings,
    drawn,
    row_weights,
    share_after_rounding,
)
from .score import BLOCK, PixelPrediction

#: A label is a byte of its record.
_MOST_CLASSES = 256

#: Records of a block: each class's part of it is about as large as a block of one network, up to as many classes.
_MOST_BLOCKS = 16

#: Share of a record's norm that goes to the count of its class; its network loses half a percent by it.
COUNT_SHARE = 0.1
_NETWORK_SHARE = math.sqrt(1 - COUNT_SHARE**2)

#: A class is taken to have at least this part of its share if all were alike.
_LEAST_CLASS = 0.1


@dataclass(kw_only=True, repr=False, eq=False)
class ClassConditionalNetwork(NetworkEstimator, Classifier):
    """Sigmoid belief network for each class of labeled binary records, to publish.

    c ~ Cat(pi), z_k ~ Bern(sigmoid(b_ck)), y_j ~ Bern(sigmoid(w_cj . z + c_cj)): a `SigmoidBeliefNetwork` for each
    class c. `sample` draws records and labels, to train a classifier without the data. The model is a classifier
    itself: `predict` takes the class whose network and share make a record most probable.

    Parameters
    ----------
    n_components : int
        Number of hidden units of each class.
    classes : sequence of labels, or None
        The labels, which are public, at most 256. None takes the labels of y as public. An unattended job states them,
        and a record with another label is then invalid like others.
    n_steps : int
        Releases, at least 2. The first max(1, n_steps // 10) of them release the classes' mean images only.
    options : NetworkOptions, dict or None
        The rest of the numerics; None takes the defaults.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    A record is an image with its label, and both are protected. A step is one release of the classes' sizes and of all
    networks' statistics. C networks cost no more than one, as `ClassConditionalModel` proves. One ledger and one
    statement are about all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import ClassConditionalNetwork
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.choice(["left", "right"], 2000)
    >>> images = rng.random((2000, 8)) < np.where(labels[:, None] == "left", np.arange(8) < 4, np.arange(8) >= 4)
    >>> model = ClassConditionalNetwork(2, epsilon=2.0, n_steps=3, classes=["left", "right"])
    >>> model = model.fit(images, labels)
    >>> drawn, drawn_labels = model.sample(100, random_state=0)
    >>> drawn.shape, set(drawn_labels.tolist()) <= {"left", "right"}
    ((100, 8), True)
    >>> model.score(images, labels) > 0.9, model.privacy_.epsilon <= 2.0
    (True, True)
    >>> model.predict(images).shape, model.predict_proba(images).shape, model.decision_function(images).shape
    ((2000,), (2000, 2), (2000, 2))

    One step at a time, with the given noise.

    >>> daily = ClassConditionalNetwork(2, noise_multiplier=9.0, classes=["left", "right"])
    >>> daily.partial_fit(images, labels).partial_fit(images, labels).n_steps_
    2
    """

    n_components: int = field(default=20, kw_only=False)
    classes: npt.ArrayLike | None = None
    n_steps: int | None = 10
    sampling: str = "full"

    def fit(self, Y: Data, y: Column | None = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit to binary records and their labels.

        Y, an array of shape (n, J) or a ShardedCorpus, has entries 0 and 1 (or booleans), one record a row. ``y``,
        (n,), has their labels, numbers or strings. None stands for the labels of the shards.
        `vips_fast.models.parameters.Bookkeeping` has the keywords. Raises ValueError, TypeError or MemoryError if a
        parameter or the data are out of range, or the run would pass ``epsilon``. It also does so if the statistics
        would not fit the memory. Nothing is spent then.
        """
        return self._fit(Y, y, **call)

    def partial_fit(self, Y: Data, y: Column, **call: Unpack[Call]) -> Self:
        """Do one more step, from all rows of Y.

        The labels are the first call's. Each call is one release; give a ``noise_multiplier``. Other parameters and
        errors are as in `fit`.
        """
        return self._fit(Y, y, partial=True, **call)

    def _check_parameters(self) -> None:
        stated_classes(self.classes, _MOST_CLASSES)
        super()._check_parameters()

    def _read(self, X: Any, y: Any = None) -> tuple[BinaryRecords, dict[str, Any]]:
        rows, usable = self._rows(X)
        y = X.labels if y is None and isinstance(X, ShardedCorpus) else y
        if y is None:
            raise ValueError(f"y=None: {type(self).__name__} requires y to be passed, but the target y is None")
        known = stated_classes(self.classes, _MOST_CLASSES)
        classes, numbers, problems = read_labels(y, rows.shape[0], self._options.invalid, known, _MOST_CLASSES)
        good = usable_rows(problems, self._options.invalid)
        usable = good if usable is None else usable if good is None else usable & good
        # The label of a record that is not usable is not looked at; as a byte it has to be one.
        labels = np.minimum(numbers, len(classes) - 1).astype(np.uint8)
        block = BLOCK * min(len(classes), _MOST_BLOCKS)
        records = BinaryRecords(rows, usable, block, resolve_n_threads(self.n_jobs), labels)
        return records, {"n_features": rows.shape[1], "classes": classes}

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        return ClassConditionalModel(self._network_settings(public, schedule), public)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        assert public.classes is not None
        C = len(public.classes)
        each = QuadraticModel.specs(public.n_features, int(self.n_components))
        specs = {name: ArraySpec((C, *spec.shape), spec.low, spec.high) for name, spec in each.items()}
        return {"class_prior": ArraySpec((C,), 0.0, 1.0), **specs}

    class_prior_ = Published[Vector]("class_prior", "Released shares of the classes, shape (C,); their sum is 1.")
    components_ = Published[Array]("components", "W of each class, shape (C, K, J).")
    hidden_bias_ = Published[Matrix]("hidden_bias", "b of each class, shape (C, K).")
    visible_bias_ = Published[Matrix]("visible_bias", "c of each class, shape (C, J).")
    mean_image_ = Published[Matrix]("mean_image", "Released mean of each class's records, shape (C, J).")

    def _networks(self) -> list[Mapping[str, np.ndarray]]:
        arrays, names = self._fitted().arrays, QuadraticModel.published
        return [{name: arrays[name][number] for name in names} for number in range(len(self.classes_))]

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, *, labels: Column | None = None
    ) -> tuple[Bits, Labels]:
        """Draw labeled records from the model, uint8, (n_samples, J), and labels, which may be published.

        ``labels``, (n_samples,), asks for records of these classes; None draws them by ``class_prior_``.
        ``random_state`` seeds the draws. Hidden units have their released covariance, as in
        `SigmoidBeliefNetwork.sample`. Raises ValueError if a label is not one of ``classes_``, or there are not
        ``n_samples`` of them.
        """
        n_samples = check_number("n_samples", n_samples, 0, 2**40, integer=True)
        classes, generator = self.classes_, np.random.default_rng(public_seed(random_state))
        if labels is None:
            numbers = generator.choice(len(classes), n_samples, p=self.class_prior_)
        else:
            asked = np.asarray(labels)
            if asked.shape != (n_samples,):
                raise ValueError(f"labels has shape {asked.shape}: expected ({n_samples},), a label for each record")
            if not np.isin(asked, classes).all():
                raise ValueError("labels: expected labels of classes_")
            numbers = np.searchsorted(classes, asked)
        records = np.empty((n_samples, self.n_features_in_), np.uint8)
        for number, (network, normal) in enumerate(zip(self._networks(), self._hidden_normals(), strict=True)):
            mine = numbers == number
            records[mine] = drawn(network, normal, int(mine.sum()), generator)
        return records, np.asarray(classes[numbers])

    @by_pieces(np.concatenate)
    def decision_function(self, Y: Data) -> Matrix:
        """Compute lower bounds of log p(y, c), (n, C), in nats; that of log p(y | c) is `SigmoidBeliefNetwork.score`'s.

        They describe Y, (n, J) of 0 and 1: publish them only if Y may be.
        """
        return np.asarray(np.stack(self._record_bounds(Y), axis=1) + np.log(self.class_prior_))

    def predict_proba(self, Y: Data) -> Matrix:
        """Predict probabilities of the classes, (n, C), from `decision_function`."""
        bounds = self.decision_function(Y)
        return np.asarray(np.exp(bounds - logsumexp(bounds, axis=1, keepdims=True)))

    def predict(self, Y: Data) -> Labels:
        """Predict the most probable class of each record, (n,)."""
        return np.asarray(self.classes_[self.decision_function(Y).argmax(axis=1)])

    def score(self, Y: Data, y: Column | None = None) -> float:
        """Compute accuracy on public records and labels, without noise. None takes the labels of shards."""
        return self._accuracy(Y, y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


class ClassConditionalModel(PerClassModel):
    """C classes, each with a `QuadraticModel`, and their numbers of records.

    The statistic is the sizes of the classes, (C,), and then the networks' statistics, one after the other. A record
    (y, c) contributes e_c times `COUNT_SHARE` to the first. Its own contribution in network c, times sqrt(1 -
    ``COUNT_SHARE**2``), goes to block c, and zeros go to the blocks of all other classes.

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

    *Rounding* is as in `QuadraticModel`, over all entries: retained = 1 - slack, slack a little more than sqrt(d) g.

    *Units of several rows.* Each of a unit's m rows weighs 1/m, whatever its class. The unit contributes the mean of
    its rows' contributions as records, a point of the convex hull of these. No norm and no distance of two points is
    larger there than among them. The sizes of the classes are then sums of these weights.

    *Post-processing.* Let p_c be the released share of a class, raised to a tenth of 1/C and then divided by their sum.
    Network c reads its block as means over p_c n records.
    """

    capacity = QuadraticModel.capacity
    clip = 1.0
    at_root: ClassVar[tuple[str, ...]] = ("_counts", "prior")

    def __init__(self, settings: Settings, public: Public):
        assert public.classes is not None
        self.classes: list[QuadraticModel] = [QuadraticModel(settings, public) for _ in public.classes]
        self._n_classes, self._n_records, self._n_visible = len(public.classes), public.n_records, public.n_features
        size = self.classes[0].shape[0]
        starts = range(self._n_classes, self._n_classes * (size + 1), size)
        self._places = [slice(first, first + size) for first in starts]
        self.shape = (self._n_classes * (size + 1),)
        self._counts, self.prior = np.zeros(self._n_classes), np.full(self._n_classes, 1 / self._n_classes)
        self._retained, self._spacing = 1.0, 1.0

    def sensitivity(self, relation: str) -> float:
        """Return 1 for add or remove, 2 sqrt(1 - eta^2) for replace; see the notes."""
        return 1.0 if relation == "add_remove" else 2.0 * _NETWORK_SHARE

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """See `QuadraticModel.prepare`; the slack covers all classes' entries."""
        self._retained, self._spacing = share_after_rounding(self, mechanism), mechanism.spacing
        for one in self.classes:
            one.retained, one.spacing = self._retained * _NETWORK_SHARE, mechanism.spacing

    def contributor(self) -> Self:
        other = super().contributor()
        other.classes = [one.contributor() for one in self.classes]
        return other

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: Scratch) -> None:
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
        shares = np.maximum(self._counts / (self.classes[0].step + 1), _LEAST_CLASS / self._n_classes)
        self.prior = shares / shares.sum()
        for one, place, share in zip(self.classes, self._places, self.prior.tolist(), strict=True):
            one.n_records = self._records_of(share)
            one.update(Release(release.step, release.units[place], release.scale / share, release.noise_sd / share))

    def _records_of(self, share: float) -> int:
        return max(1, round(self._n_records * share))

    @property
    def has_score(self) -> bool:
        return self.classes[0].has_score

    def gain_score(self) -> PixelPrediction:
        return PixelPrediction(self.classes)

    def state(self) -> dict[str, np.ndarray]:
        own = {"class_prior": self.prior, "counts": self._counts, "step": np.array([float(self.classes[0].step)])}
        return own | super().state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        steps_of(state)  # which is the step of all classes
        prior, counts = (array_of(state, name, (self._n_classes,)) for name in ("class_prior", "counts"))
        if not (prior.min() > 0 and abs(prior.sum() - 1) < 1e-9):
            raise ValueError("state: 'class_prior' is expected to be positive and to have the sum 1")
        super().restore(state)
        self.prior, self._counts = prior, counts
        for one, share in zip(self.classes, prior.tolist(), strict=True):
            one.n_records = self._records_of(share)

    def result(self) -> dict[str, np.ndarray]:
        return {"class_prior": self.prior, **super().result()}
