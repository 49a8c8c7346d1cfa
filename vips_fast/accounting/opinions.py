"""A second opinion, by the package dp-accounting."""

from importlib import import_module
from typing import Any

from .accountant import Accountant
from .dp_events import to_dp_event
from .events import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    Relation,
    SelfComposedEvent,
    rate_and_mechanism,
    touching_leaves,
)

#: Grid of losses, in which the package rounds up.
_GRID = 1e-3
#: More steps take long on a grid that is not chosen for them.
_MOST_STEPS = 100_000


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        from ..checks import missing_package

        raise missing_package("accountant='dp-accounting'", "dp-accounting", "dp-accounting") from None


class DpAccountingAccountant(Accountant):
    """Privacy-loss distributions by the package dp-accounting.

    >>> from vips_fast.accounting import GaussianEvent, epsilon
    >>> round(epsilon(GaussianEvent(1.0), 1e-5, "dp-accounting"), 2)
    4.38
    """

    name = "dp-accounting"
    title = "privacy-loss distribution of the dp-accounting package"
    source = "Doroshenko et al. 2022; https://github.com/google/differential-privacy"

    def check(self, event: PrivacyEvent) -> None:
        """Accept at most 10^5 Gaussian and Laplace mechanisms.

        They are on whole data or Poisson samples.
        """
        leaves = touching_leaves(event)
        for leaf in leaves:
            known = isinstance(rate_and_mechanism(leaf)[1], (GaussianEvent, LaplaceEvent))
            if event.relation == Relation.REPLACE_ONE or not known or sum(leaves.values()) > _MOST_STEPS:
                raise ValueError(
                    "accountant='dp-accounting' covers Gaussian and Laplace mechanisms, on whole data or Poisson "
                    f"samples, under add_remove, in at most {_MOST_STEPS} steps; use accountant='pld'"
                )

    def _compose(self, event: PrivacyEvent) -> Any:
        self.check(event)
        pld = _module("dp_accounting.pld")
        relation = _module("dp_accounting").NeighboringRelation.ADD_OR_REMOVE_ONE
        accountant = pld.PLDAccountant(relation, value_discretization_interval=_GRID)
        # Leaves have equivalents for events that are ours.
        leaves = touching_leaves(event).items()
        return accountant.compose(to_dp_event(ComposedEvent(tuple(SelfComposedEvent(leaf, n) for leaf, n in leaves))))

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon; ImportError without the package."""
        return float(self._compose(event).get_epsilon(delta))

    def delta(self, event: PrivacyEvent, epsilon: float) -> float:
        """Bound delta, likewise."""
        return float(self._compose(event).get_delta(epsilon))
