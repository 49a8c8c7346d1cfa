"""Define an accountant: a method that bounds (epsilon, delta) of events.

An accountant is a class in one file, with its proof beside it, and one entry of `vips_fast.accounting.ACCOUNTANTS`.
Every answer is an upper bound: it is rounded up, never down.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

from .checks import non_negative, open_probability
from .events import PrivacyEvent, check_event
from .solver import find_threshold


def _checked(method: Any, argument: str, check: Callable[[str, Any], float]) -> Any:
    @wraps(method)
    def checked(self: Any, event: PrivacyEvent, at: float, *args: Any, **options: Any) -> float:
        found = method(self, check_event(event), check(argument, at), *args, **options)
        # What is no number guarantees nothing.
        return float(found) if found >= 0.0 else math.inf if argument == "delta" else 1.0

    return checked


class Accountant(ABC):
    """A named method that bounds the (epsilon, delta) of events.

    `vips_fast.accounting.epsilon` and `delta` check the arguments and answer for events that are trivial; an accountant
    sees the others. Its docstring states a published value, as an example that the tests run.
    """

    #: The name that `vips_fast.accounting.epsilon` takes.
    name: ClassVar[str]
    #: Its name in a privacy statement.
    title: ClassVar[str]
    #: The theorem, and its proof's source.
    source: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        """Check event and number at the door of each accountant's own methods."""
        super().__init_subclass__(**options)
        for name, argument, check in (("epsilon", "delta", open_probability), ("delta", "epsilon", non_negative)):
            if name in vars(cls):
                setattr(cls, name, _checked(vars(cls)[name], argument, check))

    @abstractmethod
    def check(self, event: PrivacyEvent) -> None:
        """Raise ValueError, with an accountant that can, for events beyond this one."""

    def supports(self, event: PrivacyEvent) -> bool:
        """Tell whether this accountant can bound the event."""
        try:
            self.check(event)
        except ValueError:
            return False
        return True

    @abstractmethod
    def epsilon(self, event: PrivacyEvent, delta: float, *args: Any, **options: Any) -> float:
        """Bound the smallest epsilon >= 0 at `delta`; ValueError as `check`."""

    def delta(self, event: PrivacyEvent, epsilon: float, *args: Any, **options: Any) -> float:
        """Bound the smallest delta at `epsilon` >= 0; ValueError as `check`.

        An accountant without a formula for it inverts its `epsilon`.
        """
        event, epsilon = check_event(event), non_negative("epsilon", epsilon)

        def enough(t: float) -> bool:
            return self.epsilon(event, math.exp(t), *args, **options) <= epsilon

        low, high = math.log(1e-300), -1e-12
        if not enough(high):
            return 1.0
        return math.exp(low if enough(low) else find_threshold(enough, low, high, atol=1e-9, rtol=1e-9))
