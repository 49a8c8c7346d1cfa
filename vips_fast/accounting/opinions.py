"""Second opinions by the packages dp-accounting and PLD_accounting."""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .accountant import Accountant
from .dp_events import to_dp_event
from .events import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    SelectedAllocationEvent,
    SelfComposedEvent,
    gaussian_mu_squared,
    rate_and_mechanism,
    touching_leaves,
)
from .relation import Relation

#: Grid of losses of both packages, in which they round up, and the mass that PLD_accounting may cut.
_GRID, _CUT = 1e-3, 1e-6
#: More steps take long on a grid that is not chosen for them.
_MOST_STEPS = 100_000


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        from ..checks import missing_package

        if name == "PLD_accounting":
            raise missing_package("accountant='PLD_accounting'", "PLD-accounting", "pld-accounting") from None
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


class PldAccountingAccountant(Accountant):
    """Random allocation by the package PLD_accounting of Feldman and Shenfeld.

    The published bracket of four minibatches and five epochs is .933 to .934. The grid of losses used here is coarser:

    >>> from vips_fast.accounting import GaussianEvent, RandomAllocationEvent, epsilon
    >>> round(epsilon(RandomAllocationEvent(4, 5, GaussianEvent(3.8397)), 1e-4, "PLD_accounting"), 2)
    0.94
    """

    name = "PLD_accounting"
    title = "random allocation by the PLD_accounting package"
    source = "Feldman & Shenfeld 2026; https://github.com/moshenfeld/PLD_accounting"

    def check(self, event: PrivacyEvent) -> None:
        """Accept equal epochs of random allocation with fresh minibatches."""
        leaves = [*touching_leaves(event)]
        known = isinstance(leaves[0], (RandomAllocationEvent, SelectedAllocationEvent)) if leaves else False
        if len(leaves) != 1 or not known or leaves[0].reuses_minibatches:
            raise ValueError(
                "accountant='PLD_accounting' covers equal epochs of random allocation with fresh minibatches; use "
                "accountant='pld'"
            )

    def _ask(self, event: PrivacyEvent, ask: Callable[[Any, Any, dict[str, Any]], float], smallest: float) -> float:
        self.check(event)
        package = _module("PLD_accounting")
        ((leaf, count),) = touching_leaves(event).items()
        assert isinstance(leaf, (RandomAllocationEvent, SelectedAllocationEvent))
        run = {
            "sigma": 1.0 / math.sqrt(gaussian_mu_squared(leaf.event)),
            "num_steps": leaf.n_batches,
            "num_selected": leaf.n_selected if isinstance(leaf, SelectedAllocationEvent) else 1,
            "num_epochs": count * leaf.n_epochs,
        }
        config = package.AllocationSchemeConfig(loss_discretization=10.0 * _GRID, tail_truncation=_CUT * smallest)
        return float(ask(package, config, run))

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon; ImportError without the package."""

        def ask(package: Any, config: Any, run: dict[str, Any]) -> float:
            params = package.PrivacyParams(**run, delta=delta)
            return float(package.gaussian_allocation_epsilon_configurable(params=params, config=config))

        return self._ask(event, ask, delta)

    def delta(self, event: PrivacyEvent, epsilon: float) -> float:
        """Bound delta, likewise; at epsilon = 0 from a tiny one."""

        def ask(package: Any, config: Any, run: dict[str, Any]) -> float:
            params = package.PrivacyParams(**run, epsilon=max(epsilon, 1e-9))
            return float(package.gaussian_allocation_delta_configurable(params=params, config=config))

        # delta falls with epsilon, so that one at less epsilon is a bound.
        return self._ask(event, ask, 1e-6) if epsilon >= 1e-9 else min(1.0, self._ask(event, ask, 1e-6) + 1e-9)
