"""What fitted estimators read out of their results, and what scikit-learn asks of those with a ``transform``."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

import numpy as np

from ..data.frames import set_output
from ..data.shards import ShardedCorpus
from ..data.types import Column, Data, Labels, Matrix, Names
from .estimator import PrivateEstimator

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


class Attribute(property, Generic[T]):
    """A property whose type a type checker knows: ``Attribute[Matrix](read, doc=...)``."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type, /) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type | None = None, /) -> T: ...
        def __get__(self, instance: object, owner: type | None = None, /) -> Any: ...


class Published(Attribute[T]):
    """A fitted attribute: a published array, read-only, or one entry of it as a float."""

    def __init__(self, name: str, doc: str, entry: int | None = None):
        def read(estimator: PrivateEstimator) -> Any:
            array = estimator._fitted().arrays[name]
            return array if entry is None else float(array[entry])

        super().__init__(read, doc=doc)


def kept(method: Method) -> Method:
    """Lets ``method(self, *key)``, a function of the fitted result and of its key alone, be computed once for each.

    What it gives must not be changed."""

    @wraps(method)
    def read(self: Any, *key: Any) -> Any:
        derived, name = self._fitted().derived, (method.__name__, *key)
        if name not in derived:
            derived[name] = method(self, *key)
        return derived[name]

    return cast(Method, read)


def by_pieces(join: Callable[[Sequence[Any]], Any]) -> Callable[[Method], Method]:
    """Lets a read-out ``method(self, X)`` of each row by itself take shards, of which it sees a few megabytes at a
    time; ``join`` makes the whole of what it says of the pieces."""

    def decorated(method: Method) -> Method:
        @wraps(method)
        def read(self: Any, X: Any, *rest: Any, **named: Any) -> Any:
            if not isinstance(X, ShardedCorpus):
                return method(self, X, *rest, **named)
            return join([method(self, piece, *rest, **named) for _, piece in X.pieces()])

        return cast(Method, read)

    return decorated


class Transformer(PrivateEstimator):
    """An estimator with ``components_``, a row for each column of what ``transform`` gives."""

    components_ = Published[Matrix]("components", "What describes each component, shape (K, n_features).")

    def set_output(self, *, transform: str | None = None) -> Self:
        """What ``transform`` gives: "default" (an array), "pandas" or "polars"; returns the estimator."""
        return cast(Self, set_output(self, transform))

    def get_feature_names_out(self, input_features: Any = None) -> Names:
        """Names of ``transform``'s columns."""
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
        """The labels, sorted, shape (C,); [0, 1] if the model counts successes of several trials."""
        classes = self._fitted().public.classes
        assert classes is not None
        return classes

    def predict(self, X: Data, /) -> Labels:
        """Predict the most probable class of each row."""
        raise NotImplementedError(f"{type(self).__name__} does not define predict")

    def _accuracy(self, X: Data, y: Column | None) -> float:
        """Compute the share of public rows whose label, y or a shard's, is predicted."""
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
