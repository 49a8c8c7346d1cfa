"""Define an accountant: a method that bounds (epsilon, delta) of events.

An accountant is a class in one file, with its proof beside it, and one entry of `vips_fast.accounting.ACCOUNTANTS`.
Every answer is an upper bound: it is rounded up, never down.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from .events import PrivacyEvent


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

    @abstractmethod
    def epsilon(self, event: PrivacyEvent, delta: float, *args: Any, **options: Any) -> float:
        """Bound the smallest epsilon >= 0 at `delta`.

        Raises ValueError, with an accountant that can, for events beyond this one.
        """

    @abstractmethod
    def delta(self, event: PrivacyEvent, epsilon: float, *args: Any, **options: Any) -> float:
        """Bound the smallest delta at `epsilon` >= 0; otherwise as `epsilon`."""
