"""The one loop of variational Bayes in private settings, for all models.

One step is (Algorithms 1, 2 and 4 of Park et al. 2020)

    draw a minibatch → sum of contributions, clipped and exact → noise lattice
    → room on the disk → budget → ledger → noise, one draw → Release
    → run folder, or transcript → the model's own M-step

The budget and the ledger are written before the noise's key is drawn. The release is on the disk before anything else
uses it, and a run that is resumed takes it from there (`vips_fast.engine.checkpoint`).
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from .backend import Backend
from .checkpoint import RunFolder
from .interrupts import uninterrupted
from .ledger import Ledger
from .model import Model, Records, Release
from .plan import RunPlan
from .sampling import Randomness, starts_event

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """A run's progress, for a callback: steps done and planned, seconds.

    Seconds count from the start. Show the seconds only to the operator: the guarantee does not cover time.
    """

    step: int
    n_steps: int
    seconds: float
    _ledger: Ledger = field(repr=False)
    _delta: float = field(repr=False)

    @property
    def epsilon(self) -> float:
        """Epsilon spent so far at the plan's delta; inf if not private."""
        return self._ledger.epsilon(self._delta) if self._ledger.private else float("inf")


def run(
    model: Model,
    records: Records,
    plan: RunPlan,
    ledger: Ledger,
    randomness: Randomness,
    backend: Backend,
    *,
    first_step: int = 0,
    on_release: Callable[[Release], None] | None = None,
    callback: Callable[[Progress], None] | None = None,
    diagnostics: list[dict[str, float]] | None = None,
    charge: Callable[[Ledger], AbstractContextManager[None]] | None = None,
    n_steps: int | None = None,
    folder: RunFolder | None = None,
) -> int:
    """Run a plan, updating model and ledger; return total steps done.

    ``model`` is as `Request.plan` prepared it. ``first_step`` are the steps done before, in earlier runs. ``n_steps``
    are those of a run whose ledger is already open; None opens it for all of the plan.

    ``on_release`` is called with each release before the model sees it, to store it; ``callback`` after each step, and
    an exception from it ends the run. ``diagnostics`` receives a dict of un-noised diagnostics for each step; the plan
    has to be tainted.

    ``charge`` is entered before the key of a step's noise is drawn, if the step starts an event. The charge to the data
    set's budget is then on the disk, and in its block the ledger records the release (`Reservation.charge`).

    ``folder`` keeps each release before it is used. Its releases of earlier attempts are used first.
    """
    if n_steps is None:
        n_steps = plan.n_steps
        ledger.open(plan.public())
        for reason in plan.taints:
            ledger.taint(reason)
    if plan.taints:
        _log.warning("plan: NOT PRIVATE: %s", "; ".join(plan.taints))
    if _log.isEnabledFor(logging.INFO):
        _log.info("plan: %s", ", ".join(f"{name} {value}" for name, value in plan.public().items()))
    _log.info("start: %d steps, %d done before, %d releases spent", n_steps, first_step, len(ledger))
    sampler, mechanism = plan.sampler, plan.mechanism
    scale = mechanism.spacing / sampler.expected_batch_size
    start, first = time.perf_counter(), True
    for number in range(n_steps):
        step = first_step + number
        if folder is not None and (kept := folder.kept(number, model.shape)) is not None:
            with uninterrupted():
                if on_release is not None:
                    on_release(kept)
                model.update(kept)
            continue
        of_step: dict[str, float] | None = None if diagnostics is None else {}
        # A new key for each new event, and the other way round: the steps of an epoch share one allocation of records.
        starts = starts_event(sampler, step, first)
        if starts:
            drawing = randomness.of_step(step - step % sampler.n_batches)
        rows, words = backend.minibatch(sampler, records, drawing, step)
        sums = model.round(backend.sum(model, records, rows, words, of_step), mechanism.spacing)
        # A step that ends before this line costs nothing: nothing was released. After it the step is spent. So a signal
        # waits until model and run folder both hold a whole number of steps.
        event = plan.event_of(starts)
        with uninterrupted():
            if folder is not None:
                folder.make_room(number, sums.nbytes)
            if event is not None:
                with charge(ledger) if charge is not None and starts else nullcontext():
                    clip_norm, sensitivity = mechanism.clip_norm, mechanism.sensitivity
                    ledger.intend(event, clip_norm=clip_norm, sensitivity=sensitivity, part=plan.part)
            mechanism.add_noise(sums, randomness.noise_key(step), backend.n_threads)
            release = Release(step, sums, scale, mechanism.noise_sd / sampler.expected_batch_size)
            if folder is not None:
                folder.keep_release(release)
            if on_release is not None:
                on_release(release)
            model.update(release)
        del sums, release  # before the next step's
        first = False
        if diagnostics is not None and of_step is not None:
            diagnostics.append(of_step)
        if callback is not None:
            callback(Progress(number + 1, n_steps, time.perf_counter() - start, ledger, plan.delta))
    model.end()
    _log.info("done: %d steps in %.3f s", first_step + n_steps, time.perf_counter() - start)
    return first_step + n_steps
