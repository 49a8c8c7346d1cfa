"""Models of several classes, made of one model for each class."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..engine.model import Model, steps_of


class PerClassModel(Model):
    """State and result of models for each class, at one step."""

    #: The model of each class.
    classes: Sequence[Any]

    def state(self) -> dict[str, np.ndarray]:
        return {f"class{k}.{name}": array for k, one in enumerate(self.classes) for name, array in one.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        before = [one.state() for one in self.classes]
        try:
            for k, one in enumerate(self.classes):
                start = f"class{k}."
                one.restore({n.removeprefix(start): array for n, array in state.items() if n.startswith(start)})
            own = {steps_of(state)} if "step" in state else set()
            if len(own | {one.step for one in self.classes}) > 1:
                raise ValueError("state: the classes are not at one step")
        except ValueError:
            for one, old in zip(self.classes, before, strict=True):
                one.restore(old)
            raise

    def result(self) -> dict[str, np.ndarray]:
        """Stack the arrays of each class: shapes (C, ...)."""
        each = [one.result() for one in self.classes]
        return {name: np.stack([result[name] for result in each]) for name in each[0]}
