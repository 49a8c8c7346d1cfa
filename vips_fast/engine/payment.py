"""How a run pays from the budget of its data set: it reserves, draws release by release, and gives back the rest."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Self

from .budget import Budget, BudgetExceededError, Reservation
from .ledger import Ledger
from .plan import RunPlan
from .request import KeptRun
from .sampling import n_events


class Payment:
    """The payment of one run. Without a budget, every method does nothing.

    ``what`` names the run in the budget's file.
    """

    def __init__(self, budget: Budget | None = None, what: str = "") -> None:
        self.budget, self._what = budget, what
        self._reservation: Reservation | None = None

    def reserve(self, plan: RunPlan, run: KeptRun | None = None, target: float | None = None) -> None:
        """Reserve the releases of a plan; of a ``run`` that goes on, those that are left below ``target``.

        Raises BudgetExceededError if they do not fit. A run that has kept steps may go on without a reservation: it
        then publishes these.
        """
        event = plan.event
        if self.budget is None or event is None:
            return
        least, kept, count = None, 0, n_events(plan.sampler, range(plan.n_steps))
        if run is not None and run.begun:
            kept, count = run.progress(event, target)
            least = 1
        if count:
            with suppress(BudgetExceededError) if kept else nullcontext():
                self._reservation = self.budget.reserve(event, count, least=least, what=self._what, part=plan.part)

    @property
    def paid(self) -> int | None:
        """Events that the budget pays for; None without a budget."""
        return None if self.budget is None else 0 if self._reservation is None else self._reservation.count

    def record(self, ledger: Ledger) -> None:
        """Write into the ledger which budget pays: data set, budget, reservation, and head of the budget's file."""
        if self.budget is not None and self._reservation is not None:
            held = self._reservation
            ledger.charge_to(
                {"dataset": self.budget.dataset, "budget": self.budget.identity, "run": held.run, "head": held.head}
            )

    def draw(self) -> None:
        """Charge one release, before the key of its noise is drawn."""
        if self._reservation is not None:
            self._reservation.release()

    def close(self) -> None:
        """Give back what was not drawn."""
        if self._reservation is not None:
            # A budget that cannot be written now must not end a run that has been paid for: what is not given back
            # counts as reserved until this process ends.
            with suppress(OSError, ValueError):
                self._reservation.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
