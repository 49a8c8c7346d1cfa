"""Payment of a run: reserve, draw each release, return the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Self

from ..accounting.calibration import Target
from .budget import Budget, BudgetExceededError, Reservation
from .ledger import Ledger
from .plan import RunPlan
from .sampling import n_events

if TYPE_CHECKING:
    from .checkpoint import RunFolder


class Payment:
    """Payment of one run: a plan's releases are reserved, or the rest of a resumed run.

    ``what`` names the run in the budget's file. A resumed ``run`` reserves the releases that are left below ``target``.
    Raises BudgetExceededError if they do not fit. A run that kept a step may resume without a reservation: it then
    publishes the steps that it kept.
    """

    def __init__(
        self, budget: Budget, what: str, plan: RunPlan, run: RunFolder | None = None, target: Target | None = None
    ) -> None:
        self.budget, event = budget, plan.event
        self._reservation: Reservation | None = None
        assert event is not None, "the planner refuses a budget for a fit without noise"
        least, kept, count = None, 0, n_events(plan.sampler, range(plan.n_steps))
        if run is not None and run.begun:
            kept, count = run.progress(event, target)
            least = 1
        if count:
            with suppress(BudgetExceededError) if kept else nullcontext():
                self._reservation = budget.reserve(event, count, least=least, what=what, part=plan.part)

    @property
    def paid(self) -> int:
        """Events that the budget pays for."""
        return 0 if self._reservation is None else self._reservation.count

    def record(self, ledger: Ledger) -> None:
        """Write the budget that pays into the ledger.

        The record names the data set, the budget, the reservation, and the head of the budget's file.
        """
        if (held := self._reservation) is not None:
            ledger.charge_to(
                {"dataset": self.budget.dataset, "budget": self.budget.identity, "run": held.run, "head": held.head}
            )

    @contextmanager
    def charge(self, ledger: Ledger) -> Iterator[None]:
        """Charge one release, which the block records in the ledger.

        If the block fails, the charge is given back, unless the ledger's file may hold the record all the same. A
        process that is killed here gives nothing back.

        *Why this is sound.* The key of the noise is drawn after the block, by this process alone. If the block fails,
        the loop ends: no key was drawn for this charge, and none will be. Nothing depends on a release that was never
        made, so the budget's sum of the others is what it was before. A later process cannot know this, since the
        folder that it finds may be an older copy: for it the charge stays.
        """
        if self._reservation is None:
            yield
            return
        self._reservation.release()
        try:
            yield
        except BaseException:
            # A charge that cannot be given back stays a charge.
            with suppress(OSError, ValueError, RuntimeError):
                if ledger.stored:
                    self._reservation.undo()
            raise

    def close(self) -> None:
        """Give back the releases that were not drawn."""
        if self._reservation is not None:
            # A budget that cannot be written now must not end a paid run. The rest then counts as reserved until this
            # process ends.
            with suppress(OSError, ValueError):
                self._reservation.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
