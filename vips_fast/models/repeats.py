"""Warn once if repeated private fits have no budget to count them."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from .parameters import Parameters


class _Fits:
    """Private fits without budget of an estimator and its clones."""

    count = 0
    said = False


class Repeatable(Parameters):
    """Estimator that counts its own earlier fits and its clones'."""

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy for scikit-learn's ``clone``; both count their fits together."""
        params: dict[str, Any] = {name: copy.deepcopy(value) for name, value in self.get_params(deep=False).items()}
        other = type(self)(**params)
        vars(other)["_fits"] = self._shared_fits()
        # Requests of the user, and no results of fits.
        vars(other).update({name: vars(self)[name] for name in ("_output", "_requests") if name in vars(self)})
        return other

    def _shared_fits(self) -> _Fits:
        fits: _Fits = vars(self).setdefault("_fits", _Fits())
        return fits

    @contextmanager
    def _count_fit(self, counts: bool) -> Iterator[None]:
        """Count a fit if it is private and no budget pays."""
        fits = self._shared_fits()
        if counts and fits.count and not fits.said:
            fits.said = True
            warnings.warn(
                f"{type(self).__name__} is fitted again, or a clone of it (a search, cross-validation), with privacy "
                "and without a budget: each fit has spent its own epsilon, and on the same data they add up; no "
                "statement says how much. Give budget= to count and bound them",
                stacklevel=5,
            )
        yield
        fits.count += counts
