"""All accountants on one setting, and the interval that remains."""

from collections.abc import Sequence
from dataclasses import dataclass

from .accountants import ACCOUNTANTS, default_accountant, epsilon, trivial_epsilon
from .checks import open_probability, real
from .events import GroupEvent, PrivacyEvent, WithoutReplacementEvent, check_event
from .gaussian import gaussian_mu
from .privacy_loss import PrivacyLoss
from .privacy_loss.distribution import largest


@dataclass(frozen=True)
class ComparisonRow:
    """One line of `compare`."""

    #: Name; "attack" for the lower bound by an explicit attack, the others are proven upper bounds.
    accountant: str
    epsilon: float
    #: The name of the theorem, and its source.
    title: str
    source: str
    #: Whether `epsilon` would use it if no accountant were named.
    default: bool = False


def epsilon_lower_bound(event: PrivacyEvent, delta: float, rtol: float = 5e-3) -> float:
    """Return the largest epsilon at `delta` that a known attack reaches.

    No accountant can prove less. For whole-data mechanisms, Poisson sampling and random allocation the attack is the
    worst case itself, so that the gap to accountant ``"pld"`` is numerical only. For sampling without replacement it is
    the better of two explicit pairs of data sets. One is a record that differs from n - 1 equal ones, the other three
    mutually equidistant values. For a group of several records it is as many equal ones among zeros.

    The bound is for the worst mechanism with the event's noise multiplier, not for a particular model. `rtol` is its
    relative accuracy; it is a lower bound for every value of it.
    """
    trivial, delta = trivial_epsilon(check_event(event)), open_probability("delta", delta)
    rtol = real("rtol", rtol, 1e-9, 0.5)
    if trivial is not None:
        return trivial
    if gaussian_mu(event) is not None:
        # Exact up to the rounding upwards of a few 1e-12.
        return (1.0 - 1e-9) * epsilon(event, delta)
    leaves = (leaf.event if isinstance(leaf, GroupEvent) else leaf for leaf in event.leaves())
    # Of random allocation and Poisson sampling every attack is the worst case, or a lower bound of it.
    numbers = (0, 1) if any(isinstance(leaf, WithoutReplacementEvent) for leaf in leaves) else (0,)
    # A cheap upper bound of each attack tells whether it can be the better one.
    attacks = [PrivacyLoss(event, rtol, attack=number, smallest=delta) for number in numbers]
    return largest([a.epsilon(delta) for a in attacks], attacks, lambda attack, bound: attack.epsilon_lower(delta))


def compare(
    event: PrivacyEvent, delta: float, accountants: Sequence[str] | None = None, rtol: float = 5e-3
) -> list[ComparisonRow]:
    """Compute every sound accountant's epsilon, and the best attack's.

    The attack, whose accuracy is `rtol`, comes first, then the bounds from the smallest epsilon up; the exact value
    lies between the first two. Without `accountants` all are compared that can bound the event and whose packages
    are installed.
    """
    best, delta, rtol = default_accountant(event), open_probability("delta", delta), real("rtol", rtol, 1e-9, 0.5)
    rows = []
    for name in ACCOUNTANTS if accountants is None else accountants:
        if accountants is None and not ACCOUNTANTS[name].supports(event):
            continue
        try:
            value = epsilon(event, delta, name)
        except ImportError:
            if accountants is not None:
                raise
            continue
        known = ACCOUNTANTS[name]
        rows.append(ComparisonRow(name, value, known.title, known.source, name == best))
    rows.sort(key=lambda row: (row.epsilon, not row.default))
    lower = ComparisonRow(
        "attack",
        epsilon_lower_bound(event, delta, rtol),
        "best attack known",
        "likelihood-ratio test between explicit neighboring data sets",
    )
    return [lower, *rows]
