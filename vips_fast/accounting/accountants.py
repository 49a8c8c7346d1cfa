"""The accountants: named methods that turn events into (epsilon, delta).

`epsilon` and `delta` take an event and, optionally, the name of an accountant. Without a name the tightest sound one
is used.
"""

import math
from functools import lru_cache
from typing import Any

from ..checks import check_choice
from .accountant import Accountant
from .checks import non_negative, open_probability
from .dp_events import DpAccountingAccountant
from .events import NonPrivateEvent, PrivacyEvent, check_event, rate_and_mechanism, touching_leaves
from .gaussian import GaussianAccountant, gaussian_mu
from .privacy_loss.distribution import PldAccountant
from .rdp import RdpAccountant

#: Every accountant by the name that `epsilon` and `delta` take.
ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant
    for accountant in (GaussianAccountant(), PldAccountant(), RdpAccountant(), DpAccountingAccountant())
}


def default_accountant(event: PrivacyEvent) -> str:
    """Name of the tightest sound accountant for `event`.

    It is ``"gaussian"`` for compositions of whole-data Gaussian mechanisms, which it bounds exactly. It is
    ``"pld"`` for everything else.
    """
    return "gaussian" if gaussian_mu(event) is not None else "pld"


def trivial_epsilon(event: PrivacyEvent) -> float | None:
    """Answer without an accountant: 0, infinity, or else None.

    Epsilon is 0 for no record, and infinity without guarantee.
    """
    leaves = touching_leaves(event)
    if any(isinstance(rate_and_mechanism(leaf)[1], NonPrivateEvent) for leaf in leaves):
        return math.inf
    return None if leaves else 0.0


def epsilon(event: PrivacyEvent, delta: float, accountant: str | Accountant | None = None, **options: Any) -> float:
    """Bound the smallest epsilon >= 0 at `delta` in (0, 1).

    `accountant` is a key of `ACCOUNTANTS` or an `Accountant`; None takes `default_accountant`. It has options:
    ``rtol`` (pld), ``conversion`` and ``orders`` (rdp). The function is pure, and the last answers are
    kept, so that asking again costs nothing.

    Raises ValueError for delta outside (0, 1), an unknown accountant, or an event that the named accountant cannot
    bound (the message names one that can).
    """
    check_event(event)
    return _ask("epsilon", event, open_probability("delta", delta), accountant, options)


def delta(event: PrivacyEvent, epsilon: float, accountant: str | Accountant | None = None, **options: Any) -> float:
    """Bound the smallest delta at `epsilon` >= 0; otherwise as `epsilon`."""
    check_event(event)
    return _ask("delta", event, non_negative("epsilon", epsilon), accountant, options)


def _ask(
    quantity: str, event: PrivacyEvent, at: float, name: str | Accountant | None, options: dict[str, Any]
) -> float:
    if name is not None and not isinstance(name, Accountant):
        check_choice("accountant", name, tuple(sorted(ACCOUNTANTS)))
        name = ACCOUNTANTS[name]
    items = tuple(sorted(options.items()))
    try:
        hash(items)
    except TypeError:
        # An array of orders cannot be part of the cache's key.
        return _answer.__wrapped__(quantity, event, at, name, items)
    return _answer(quantity, event, at, name, items)


@lru_cache(maxsize=256)
def _answer(
    quantity: str, event: PrivacyEvent, at: float, known: Accountant | None, items: tuple[tuple[str, Any], ...]
) -> float:
    trivial = trivial_epsilon(event)
    if trivial is not None:
        return trivial if quantity == "epsilon" else min(trivial, 1.0)
    accountant = ACCOUNTANTS[default_accountant(event)] if known is None else known
    options = dict(items)
    if known is None and accountant.name != "pld":
        # A closed form needs no accuracy.
        options.pop("rtol", None)
    found = (accountant.epsilon if quantity == "epsilon" else accountant.delta)(event, at, **options)
    # What is no number guarantees nothing.
    return float(found) if found >= 0.0 else math.inf if quantity == "epsilon" else 1.0
