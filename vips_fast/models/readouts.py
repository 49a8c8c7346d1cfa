"""Read results out of fitted estimators, as scikit-learn expects.

scikit-learn expects more of estimators with a ``transform``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

import numpy as np

from ..data.frames import set_output
from ..data.shards import ShardedCorpus
from ..data.types import Column, Data, Labels, Matrix, Names
from .estimator import PrivateEstimator
from .parameters import Bookkeeping

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


class Attribute(property, Generic[T]):
    """A property whose type a type checker knows: ``Attribute[Matrix](read, doc=...)``."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, kind: type, /) -> Self: ...
        @overload
        def __get__(self, instance: object, kind: type | None = None, /) -> T: ...
        def __get__(self, instance: object, kind: type | None = None, /) -> Any: ...


class Published(Attribute[T]):
    """A fitted attribute: a read-only published array, or one entry. An entry is a float."""

    def __init__(self, name: str, doc: str, entry: int | None = None):
        def read(estimator: PrivateEstimator) -> Any:
            array = estimator._fitted().arrays[name]
            return array if entry is None else float(array[entry])

        super().__init__(read, doc=doc)


def kept(method: Method) -> Method:
    """Cache ``method(self, *key)``, computed once for each key.

    The method is a function of only the fitted result and its key. What it gives must not be changed."""

    @wraps(method)
    def read(self: Any, *key: Any) -> Any:
        derived, name = self._fitted().derived, (method.__name__, *key)
        if name not in derived:
            derived[name] = method(self, *key)
        return derived[name]

    return cast(Method, read)


def by_pieces(join: Callable[[Sequence[Any]], Any]) -> Callable[[Method], Method]:
    """Let a row-wise read-out ``method(self, X)`` take shards.

    It sees a few megabytes of them at a time. ``join`` puts its results for the pieces together.
    """

    def decorated(method: Method) -> Method:
        @wraps(method)
        def read(self: Any, X: Any, *rest: Any, **named: Any) -> Any:
            if not isinstance(X, ShardedCorpus):
                return method(self, X, *rest, **named)
            return join([method(self, piece, *rest, **named) for _, piece in X.pieces()])

        return cast(Method, read)

    return decorated


class Transformer(PrivateEstimator):
    """An estimator with ``components_``, one row a ``transform`` column."""

    components_ = Published[Matrix]("components", "What describes each component, shape (K, n_features).")

    def fit_transform(self, X: Data, y: object = None, **call: Unpack[Bookkeeping]) -> Matrix:
        """Fit, then ``transform`` X; the result describes X's records, so it is not private."""
        return cast(Matrix, cast(Any, self).fit(X, **call).transform(X))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the type that ``transform`` returns; return the estimator.

        The types are "default" (an array), "pandas" and "polars".
        """
        return cast(Self, set_output(self, transform))

    def get_feature_names_out(self, input_features: Any = None) -> Names:
        """Return the names of ``transform``'s columns."""
        name = type(self).__name__.lower()
        return np.asarray([f"{name}{k}" for k in range(len(self.components_))], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64"])
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags


class Classifier(PrivateEstimator):
    """An estimator of labels, which are public."""

    _estimator_type = "classifier"

    @property
    def classes_(self) -> Labels:
        """Sorted labels, shape (C,)."""
        classes = self._fitted().public.classes
        assert classes is not None
        return classes

    def predict(self, X: Data, /) -> Labels:
        """Predict the most probable class of each row."""
        raise NotImplementedError(f"{type(self).__name__} does not define predict")

    def _accuracy(self, X: Data, y: Column | None) -> float:
        """Compute the share of public rows with a correct label. The labels are y or the shard's."""
        known = np.asarray(X.labels if y is None and isinstance(X, ShardedCorpus) else y)
        predicted = self.predict(X)
        if known.shape != predicted.shape:
            raise ValueError(f"y has shape {known.shape}: expected ({len(predicted)},), one entry for each row")
        return float((predicted == known).mean())

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.target_tags.required, tags.input_tags.sparse = "classifier", True, True
        tags.classifier_tags = ClassifierTags(multi_class=True)
        return tags
