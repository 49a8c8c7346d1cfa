"""What scikit-learn asks of estimators whose ``transform`` describes records by their components."""

from __future__ import annotations

from typing import Any

import numpy as np

from .estimator import PrivateEstimator


class Transformer(PrivateEstimator):
    """An estimator with ``components_``, a row for each column of what ``transform`` gives."""

    @property
    def components_(self) -> np.ndarray:
        """What describes each component, shape (K, n_features); read-only."""
        return self._fitted().arrays["components"]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of ``transform``'s columns."""
        name = type(self).__name__.lower()
        return np.asarray([f"{name}{k}" for k in range(len(self.components_))], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64"]),
            input_tags=InputTags(sparse=True, positive_only=True), non_deterministic=bool(self.private),
        )
