"""Belief networks of labeled records, one for each class: parameters and read-outs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from ...checks import check_memory, check_number, public_seed, stated_classes
from ...data.shards import ShardedCorpus
from ...data.types import Array, Bits, Column, Data, Labels, Matrix, RandomState, Vector
from ...engine.model import Model
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ...kernels.threads import resolve_n_threads
from ..estimator import ArraySpec
from ..logistic.records import read_labels, usable_rows
from ..parameters import Bookkeeping, Call
from ..readouts import Classifier, Published, by_pieces, kept
from .classes import ClassConditionalModel
from .estimator import NetworkEstimator
from .network import BLOCK, NetworkOptions
from .quadratic import QuadraticModel
from .readings import Normal, drawn, hidden_normal
from .records import BinaryRecords

#: A label is a byte of its record.
_MOST_CLASSES = 256

#: Records of a block: each class's part of it is about as large as a block of one network, up to as many classes.
_MOST_BLOCKS = 16


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
    weight_prior : {"tpbn", "gaussian"}
        As for `SigmoidBeliefNetwork`.
    n_steps : int
        Releases, at least 2. The first max(1, n_steps // 10) of them release the classes' mean images only.
    options : NetworkOptions or None
        The rest of the numerics; None takes the defaults.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    *Privacy.* A record is an image with its label, and both are protected. A step is one release of the classes' sizes
    and of all networks' statistics. A record has a part only in its own class's, so C networks cost no more than one.
    This is parallel composition, with the label allowed to change; `vips_fast.models.sbn.classes.ClassConditionalModel`
    has the proof. One ledger and one statement are about all of them.

    The networks' bound is Jaakkola's. ``class_prior_`` are the released shares of the classes.

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
    weight_prior: str = "tpbn"
    n_steps: int | None = 10
    sampling: str = "full"
    options: NetworkOptions | None = None

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
        classes, numbers, problems = read_labels(y, rows.shape[0], self.invalid, known, _MOST_CLASSES)
        good = usable_rows(problems, self.invalid)
        usable = good if usable is None else usable if good is None else usable & good
        # The label of a record that is not usable is not looked at; as a byte it has to be one.
        labels = np.minimum(numbers, len(classes) - 1).astype(np.uint8)
        block = BLOCK * min(len(classes), _MOST_BLOCKS)
        records = BinaryRecords(rows, usable, block, resolve_n_threads(self.n_jobs), labels)
        return records, {"n_features": rows.shape[1], "classes": classes}

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        assert public.classes is not None
        K, J, C = int(self.n_components), public.n_features, len(public.classes)
        # Sums, release, averages, priors and their state; each thread's sums.
        need = 8 * C * (J * (K + 2) + K * K) * (12 + resolve_n_threads(self.n_jobs))
        what = f"n_components={K}: the statistics of {J} visible units and {C} classes"
        check_memory(f"{what} need about {need / 2**30:.0f} GiB", need, "; expected fewer components or threads")
        return ClassConditionalModel(
            self._network_settings(False), public, "jaakkola", max(1, self._steps_of(schedule) // 10)
        )

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
        """Select the arrays of each class's network."""
        arrays = self._fitted().arrays
        names = [name for name in arrays if name != "class_prior"]
        return [{name: arrays[name][number] for name in names} for number in range(len(self.classes_))]

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, *, labels: Column | None = None
    ) -> tuple[Bits, Labels]:
        """Draw labeled records from the model: uint8, (n_samples, J), and labels.

        They may be published.

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

    @kept
    def _hidden_normals(self) -> list[Normal | None]:
        return [hidden_normal(network) for network in self._networks()]

    @by_pieces(np.concatenate)
    def decision_function(self, Y: Data) -> Matrix:
        """Compute lower bounds of log p(y, c) for records and classes.

        Y is (n, J) of 0 and 1, and the result float64, (n, C), in nats. That of log p(y | c) is the bound of
        `SigmoidBeliefNetwork.score`. It describes Y: publish it only if Y may be.
        """
        bounds = self._record_bounds(Y, self._networks())
        return np.asarray(np.stack(bounds, axis=1) + np.log(self.class_prior_))

    def predict_proba(self, Y: Data) -> Matrix:
        """Predict probabilities of the classes, (n, C), from `decision_function`."""
        bounds = self.decision_function(Y)
        return np.asarray(np.exp(bounds - logsumexp(bounds, axis=1, keepdims=True)))

    def predict(self, Y: Data) -> Labels:
        """Predict the most probable class of each record, (n,)."""
        return np.asarray(self.classes_[self.decision_function(Y).argmax(axis=1)])

    def score(self, Y: Data, y: Column | None = None) -> float:
        """Compute accuracy on public records and labels, without noise.

        None takes the labels of shards.
        """
        return self._accuracy(Y, y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
