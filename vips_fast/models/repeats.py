"""A word, once, where private fits to the same data add up and no budget counts them."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from .parameters import Parameters


class _Fits:
    """Private fits without a budget, of an estimator and of all its clones, and whether that has been said."""

    count = 0
    said = False


class Repeatable(Parameters):
    """An estimator that knows of its own earlier fits and of its clones'."""

    def __sklearn_clone__(self) -> Self:
        """What scikit-learn's ``clone`` gives: an unfitted copy, whose fits count with this estimator's."""
        params: dict[str, Any] = {name: copy.deepcopy(value) for name, value in self.get_params(deep=False).items()}
        other = type(self)(**params)
        vars(other)["_fits"] = self._shared_fits()
        # What a user has said of the estimator, and no fit has found.
        vars(other).update({name: vars(self)[name] for name in ("_output", "_requests") if name in vars(self)})
        return other

    def _shared_fits(self) -> _Fits:
        fits: _Fits = vars(self).setdefault("_fits", _Fits())
        return fits

    @contextmanager
    def _counted(self, counts: bool) -> Iterator[None]:
        """Around a fit; ``counts`` where it is private, and no budget pays."""
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
