"""Base of all estimators: settings, ONE fit for all models, one result.

A subclass defines how its data are read (`_read`) and which `Model` goes with its settings and with public facts
(`_model`). Everything else is here, once: planning, the run, the result, files, rebuilding from a transcript.
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack, cast

import numpy as np

from ..checks import check_choice, check_flag, check_name, check_number
from ..data.frames import named_columns, warn_of_repeats, warn_of_scaling
from ..data.twins import warn_of_twins
from ..data.types import Column, Data
from ..data.vocabulary import carried_purchase, warn_of_purchase
from ..engine.backend import Backend, Threads
from ..engine.budget import Budget
from ..engine.checkpoint import RunFolder, ledger_in, open_folder
from ..engine.interrupts import Stopped
from ..engine.ledger import Ledger, purchase_of
from ..engine.loop import run
from ..engine.measured import MEASURED
from ..engine.model import MAX_RECORDS, Model, Records
from ..engine.payment import Payment
from ..engine.planner import Cost, Planned, Planner
from ..engine.randomness import KeyedRandomness, Randomness, SystemRandomness
from ..engine.request import Design, Earlier, Request, RunForecast, RunSchedule, Terms
from ..engine.result import FitResult, Public
from ..engine.sampling import SAMPLINGS, make_sampler, resolve_sampling
from ..engine.transcript import Run, TranscriptWriter, release_digest
from ..engine.units import UnitRecords
from ..kernels.threads import resolve_n_threads
from ..store.words import counted
from .conventions import warn_of_ensemble, warn_of_learned_columns, warn_of_pipeline
from .family import family_of
from .fitted import Fitted
from .forecast import tell
from .inputs import column_names, input_texts
from .parameters import BudgetLike, Purchased, Reading
from .repeats import uncounted_fit
from .settings import public_seed, unit_name
from .stage import Stage, bins_of, deal


class PrivateEstimator(Fitted):
    """Base of the estimators: parameters as in scikit-learn, private fits.

    `fit` makes one immutable result and takes it over at the end: an interrupted fit leaves the estimator exactly as
    it was.
    """

    #: Whether a fit without privacy keeps ``diagnostics_`` unasked.
    _diagnostics_without_privacy: ClassVar[bool] = False

    _test_key: bytes | None = None
    _diagnose: bool = False

    # ------------------------------------------- definitions of a subclass

    def _check_parameters(self) -> None:
        """Raise ValueError for any parameter out of its range."""
        self._check_privacy_parameters()

    def _read(self, X: Any, y: Any = None) -> tuple[Records, dict[str, Any]]:
        """Read checked records and their public facts.

        The facts are ``n_features``, and ``classes`` or ``scale``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define _read")

    @property
    def _has_score(self) -> bool:
        """Whether the settings make a model that has a score."""
        return True

    def _whole_schedule(self, public: Public, terms: Terms) -> RunSchedule | None:
        """Schedule a whole fit; its last step may score the model."""
        schedule = self._schedule(public, terms)
        asked = getattr(self, "measure_gain", getattr(self._options, "measure_gain", None))
        if schedule is None or not terms.noised or asked is False or not self._has_score:
            return schedule
        return replace(schedule, measured=schedule.n_steps >= (2 if asked else MEASURED))

    def _schedule(self, public: Public, terms: Terms) -> RunSchedule | None:
        """Plan minibatches and steps of a whole fit; see `Design.schedule`."""
        size, bins = self.batch_size, public.n_bins
        sampler = make_sampler(self.sampling, self.relation, public.n_records, size, bins)
        n_steps = self._horizon(public, terms)
        return RunSchedule(sampler, n_steps, n_steps)

    def _horizon(self, public: Public, terms: Terms) -> int:
        """Count the steps of a whole fit."""
        if self.n_steps is None:
            raise ValueError("n_steps=None: expected an integer")
        return int(self.n_steps)

    def _steps_of(self, schedule: RunSchedule | None) -> int:
        """Find the horizon of a schedule, or of the settings, or 1."""
        return int(self.n_steps or 1) if schedule is None else schedule.horizon

    def _joint(self, public: Public) -> bool:
        """Tell whether a unit contributes all its rows together, as one record."""
        return public.unit != "record"

    def _sensitivity(self, model: Model, relation: str) -> float | None:
        """Declare a sensitivity in place of the proven one, or None."""
        return None

    def _taints(self) -> tuple[str, ...]:
        """List reasons, known from the settings, why the guarantee will not hold."""
        return ()

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        """Predict the worth of a run; None if nothing predicts it."""
        return None

    def _inspect(self, model: Model) -> None:
        """Warn before a fit if a model fails on public test records."""

    # ------------------------------------------------------------- settings

    def _check_privacy_parameters(self) -> None:
        check_flag("private", self.private)
        check_number("n_steps", self.n_steps, 1, 2**31, integer=True, optional=True)
        check_number("epsilon", self.epsilon, 0, math.inf, low_open=True, high_open=True, optional=True)
        check_number("delta", self.delta, 0, 1, low_open=True, high_open=True, optional=True)
        check_number("noise_multiplier", self.noise_multiplier, 0, math.inf, high_open=True, optional=True)
        check_number(
            "target_attack_success", self.target_attack_success, 0.5, 1, low_open=True, high_open=True, optional=True
        )
        if self.target_attack_success is not None:
            for name, free in (("epsilon", None), ("noise_multiplier", None), ("private", True)):
                if getattr(self, name) is not free:
                    raise ValueError(
                        f"{name}={getattr(self, name)!r}: expected {free} beside "
                        f"target_attack_success={self.target_attack_success!r}, which decides the noise"
                    )
        check_number("batch_size", self.batch_size, 0, math.inf, low_open=True, high_open=True, optional=True)
        check_number("n_records", self.n_records, 1, MAX_RECORDS, integer=True, optional=True)
        check_number("rows_per_group", self.rows_per_group, 1, MAX_RECORDS, integer=True, optional=True)
        check_choice("sampling", self.sampling, (*SAMPLINGS, None))
        check_choice("invalid", self.invalid, ("raise", "drop"))
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback={self.callback!r}: expected a callable or None")
        resolve_n_threads(self.n_jobs)
        _ = self._options  # reading them checks their class

    @property
    def _terms(self) -> Terms:
        """Limits of a fit's cost, by the settings."""
        return Terms(
            bool(self.private),
            self.epsilon,
            self.delta,
            self.noise_multiplier,
            target_attack_success=self.target_attack_success,
        )

    def set_unsafe(self, *, test_key: bytes | None = None, diagnostics: bool = False) -> Self:
        """Disable privacy for tests, audits and public data.

        All later fits are NOT PRIVATE for good. With a ``test_key`` of 32 bytes, sampling, per-record randomness and
        noise come from this known key. Such fits can be repeated bit for bit. ``diagnostics=True`` keeps un-noised
        diagnostics of the training records in ``diagnostics_``. Neither is a parameter; files and pickles hold neither.
        Returns the estimator; raises TypeError or ValueError if the key is not 32 bytes.

        >>> import numpy as np
        >>> from vips_fast import SigmoidBeliefNetwork
        >>> model = SigmoidBeliefNetwork(2, noise_multiplier=9.0, n_steps=2).set_unsafe(diagnostics=True)
        >>> len(model.fit(np.eye(50, 4, dtype=int)).diagnostics_), model.privacy_.epsilon
        (2, inf)
        >>> print(model.privacy_)
        NOT PRIVATE: unsafe diagnostics: computed from the training records without noise.
        """
        if test_key is not None:
            if not isinstance(test_key, (bytes, bytearray)):
                raise TypeError(f"test_key: expected 32 bytes or None, got {type(test_key).__name__}")
            if len(test_key) != 32:
                raise ValueError(f"test_key: expected 32 bytes or None, got {len(test_key)}")
        check_flag("diagnostics", diagnostics)
        self._test_key = None if test_key is None else bytes(test_key)
        self._diagnose = bool(diagnostics)
        return self

    # ------------------------------------------------------------- fitting

    def _fit(
        self,
        X: Any,
        y: Any = None,
        *,
        partial: bool = False,
        transcript: str | Path | None = None,
        checkpoint: str | Path | RunFolder | None = None,
        resume: bool = False,
        checkpoint_every: int | None = None,
        budget: BudgetLike = None,
        on_forecast: Callable[[RunForecast], None] | None = None,
        **call: Any,
    ) -> Self:
        """Run `fit` or `partial_fit` of any model.

        ``call`` has the other keywords of `prepare`. ``on_forecast`` is called with the forecast of a new run, before
        anything is spent on it, and may raise. None logs it, or warns if the run is hopeless.
        """
        method = "partial_fit" if partial else "fit"
        known = inspect.signature(getattr(self, method)).parameters
        unknown = call.keys() - known.keys()
        if unknown and not any(one.kind is one.VAR_KEYWORD for one in known.values()):
            raise TypeError(f"{type(self).__name__}.{method}() got an unexpected keyword argument {min(unknown)!r}")
        if partial and (checkpoint is not None or resume or checkpoint_every is not None):
            raise TypeError("partial_fit() takes no checkpoint: a call is one step")
        uncounted = bool(self.private) and budget is None and not (resume or self._unsafe_taints())
        with self._alone(), open_folder(checkpoint, resume, checkpoint_every) as folder:
            first, resumed = not partial or self._result is None, folder is not None and folder.begun
            writer = None if transcript is None else TranscriptWriter(transcript, first=first, resume=resumed)
            stage = self.prepare(X, y, partial=partial, budget=budget, folder=folder, **call)
            with stage.payment:
                if stage.forecast is not None and not (partial or resumed):
                    tell(stage.forecast, on_forecast, 3)
                if not uncounted:
                    return self.run(stage, writer, folder)
                included = (stage.plan.purchase or {}).get("head")
                with uncounted_fit(type(self).__name__, stage.follows, included) as done:
                    self.run(stage, writer, folder)
                    done(self._fitted().head)
        return self

    def prepare(
        self,
        X: Data,
        y: Column | None = None,
        *,
        partial: bool = False,
        budget: BudgetLike = None,
        folder: RunFolder | None = None,
        part: str | None = None,
        n_records: int | None = None,
        groups: Column | None = None,
        unit: str | None = None,
        after: Purchased | None = None,
        inputs: Mapping[str, str] | None = None,
        backend: Backend | None = None,
        planner: Planner | None = None,
        **extra: Unpack[Reading],
    ) -> Stage:
        """Plan a fit to these data; draw, spend and change nothing.

        `fit` is ``prepare`` followed by `run`. Between the two, an audit puts its own parts in. A budget reserves the
        run; `run` gives back the releases that it does not draw. Raises the errors of `fit`.
        """
        self._check_parameters()
        if partial and self.private and self.noise_multiplier is None:
            raise ValueError(
                "noise_multiplier=None: expected a number with partial_fit, which cannot know how many calls will come"
            )
        if part is not None:
            check_name("part", part)
        check_number("n_records", n_records, 1, MAX_RECORDS, integer=True, optional=True)
        planner, payer = planner or Planner(), None if budget is None else Budget.of(budget)
        call: dict[str, Any] = {"part": part, "call_records": n_records}
        call["unit"] = unit_name(groups, unit)
        call["n_bins"], bins = (None, None) if partial else bins_of(X, groups, self.sampling, self.relation)
        before = self._result if partial else None
        published = None if after is None else after.purchase_text()
        call["inputs"] = input_texts(inputs, family_of(self).inputs, before, published)
        how: dict[str, Any] = {"partial": partial, "before": before, "folder": folder}
        how["purchase"] = self._purchase_before(X, after, before)
        known = self.n_records or n_records
        if payer is not None and known is not None and how["purchase"] is None:
            # A fit that the budget refuses does not touch the data, if public numbers say so.
            unread = self.request(Public(n_features=0, n_records=int(known), seed=0, **call), **how)
            planner.cost(unread, payer, folder if folder is not None and folder.begun else None)
        names = named_columns(X if before is None else self._held(X))
        call["feature_names"] = names or (before and before.public.feature_names)
        if groups is None and self.private:
            warn_of_repeats(X, self.invalid)
            warn_of_twins(X, self.invalid)
        if self._terms.noised and self.invalid == "raise":
            warn_of_scaling(X)
        if self._terms.noised:
            warn_of_pipeline()
            warn_of_ensemble()
        backend = backend or self._backend()
        grouped = functools.partial(UnitRecords, limit=self.rows_per_group, invalid=self.invalid)
        records, facts = backend.read(self._read, X, y, extra, groups, grouped)
        public = self._facts(records.n_rows, {**facts, **call}, partial, before)
        if self._terms.noised and how["purchase"] is None and before is None:
            warn_of_purchase(public.n_features)
            if self.invalid == "raise":
                warn_of_learned_columns(public.n_features)
        if folder is not None:
            public = folder.public(public, self._settings()["random_state"] is not None)
        column_names(public)  # refuses inputs that do not fit
        if before is None:
            self._warn_of_few_records(public)
        planned = self._planned(planner, self.request(public, **how), payer)
        deal(planned.plan.sampler, bins, records.n_rows)
        self._inspect(planned.model)
        stage = self._stage(planned, records, backend, before)
        payment = Payment(payer, type(self).__name__ + (" partial_fit" if partial else ""))
        payment.check(stage.ledger, *(() if folder is None else (ledger_in(folder.path)[0],)))
        payment.reserve(planned.plan, folder, self._terms.limit(planned.plan.delta))
        return replace(stage, payment=payment)

    def _warn_of_few_records(self, public: Public) -> None:
        """Warn of more components than records, by public numbers."""
        wanted, there = self._settings().get("n_components"), counted(public.n_records, public.unit)
        if isinstance(wanted, int) and wanted > public.n_records:
            warnings.warn(f"n_components={wanted}: expected far fewer than there are records ({there})", stacklevel=5)

    def request(
        self,
        public: Public,
        *,
        partial: bool = False,
        before: FitResult | None = None,
        purchase: Mapping[str, Any] | None = None,
        folder: RunFolder | None = None,
        taints: tuple[str, ...] | None = None,
    ) -> Request:
        """Make the request of a run from settings and public facts.

        ``taints`` are given for a run that is rebuilt.
        """
        design = Design(
            self._call_schedule if partial else self._whole_schedule,
            self._model,
            self._sensitivity,
            self._forecast,
            self._taints() + self._unsafe_taints() if taints is None else taints,
        )
        earlier = None
        if before is not None:
            earlier = Earlier(before.ledger, before.privacy.relation, before.public.unit, before.state)
        return Request(
            type(self).__name__,
            self._settings(),
            design,
            public,
            self._terms,
            partial,
            purchase,
            earlier,
            folder.noise_multiplier if folder is not None and folder.begun else None,
        )

    def _planned(self, planner: Planner, request: Request, budget: Budget | None) -> Planned:
        """Plan a request; a class with another accountant has its own."""
        return planner.plan(request, budget)

    def _call_schedule(self, public: Public, terms: Terms) -> RunSchedule:
        """Schedule a call of ``partial_fit``: one step over all rows."""
        size = next(n for n in (public.call_records, self.batch_size, public.n_records) if n is not None)
        accounted = "replace_one" if self.sampling == "without_replacement" else "add_remove"
        sampler = make_sampler("full", self.relation or accounted, int(size), None)
        return RunSchedule(sampler, 1, self._horizon(public, terms) if public.n_features else 1, whole=False)

    def _stage(self, planned: Planned, records: Records, backend: Backend, before: FitResult | None) -> Stage:
        """Join a plan and these records to a run."""
        return Stage(
            records,
            planned.request.public,
            planned.model,
            planned.plan,
            Ledger() if before is None else before.ledger.copy(),
            self._randomness(planned.request.public),
            backend,
            planned.settings,
            self._diagnose or (self._diagnostics_without_privacy and not self.private),
            planned.request.partial,
            0 if before is None else before.n_steps,
            None if before is None else before.head,
            planned.target,
            planned.forecast,
        )

    def run(self, stage: Stage, transcript: TranscriptWriter | None = None, folder: RunFolder | None = None) -> Self:
        """Run a stage or resume it from a folder; take the result."""
        model, public, plan, ledger, payment = stage.model, stage.public, stage.plan, stage.ledger, stage.payment
        kind, settings, steps, n_before = type(self).__name__, stage.settings, None, len(ledger.records)
        with payment:
            if folder is not None:
                ledger, steps, settings = folder.begin(kind, settings, public, model, plan, stage.target, payment.paid)
            diagnostics: list[dict[str, float]] | None = [] if stage.diagnoses else None
            spent = len(ledger)
            try:
                if transcript is not None:
                    transcript.begin(
                        kind,
                        settings,
                        public,
                        plan.public(),
                        done=0 if steps is None else steps.start,
                        taints=list(plan.taints),
                        follows=stage.follows,
                        n_steps=stage.n_steps,
                        partial=stage.partial,
                    )
                if steps is None or len(steps):
                    payment.record(ledger)
                with stage.backend.placed(stage.records) as records:
                    done = run(
                        model,
                        records,
                        plan,
                        ledger,
                        stage.randomness,
                        stage.backend,
                        first_step=stage.n_steps,
                        on_release=transcript,
                        callback=self.callback,
                        diagnostics=diagnostics,
                        charge=payment.charge,
                        steps=steps,
                        folder=folder,
                    )
                ledger = ledger if folder is None else folder.finish()
                if transcript is not None:
                    transcript.finish(ledger, n_before)
            except BaseException as error:
                if folder is not None:
                    folder.keep(whole=isinstance(error, Stopped))
                if len(ledger) > spent:
                    made = counted(len(ledger) - spent, "release")
                    error.add_note(
                        f"This fit ended early. It made up to {made}, which count as spent; the estimator is as it was "
                        "before."
                    )
                raise
        self._result = FitResult.make(
            kind,
            settings,
            public,
            done,
            model.result(),
            model.state(),
            ledger,
            diagnostics,
            None if transcript is None else transcript.digests,
        )
        return self

    def cost(
        self,
        n_features: int | None = None,
        *,
        unit: str = "record",
        n_bins: int | None = None,
        budget: BudgetLike = None,
        planner: Planner | None = None,
    ) -> Cost | None:
        """Find the releases of a fit from public numbers; reserve nothing.

        ``n_features`` are the columns of the data to come, ``unit`` and ``n_bins`` as in `Public`. None if these
        numbers do not decide it: ``n_records`` is not given, or neither ``n_steps`` nor the columns. Raises as `fit`.
        """
        planner, payer = planner or Planner(), None if budget is None else Budget.of(budget)
        # The relation does not depend on the number of records.
        n_records = int(self.n_records or math.ceil(self.batch_size or 1))
        request = self.request(Public(n_features or 0, n_records, seed=0, unit=unit, n_bins=n_bins))
        if self.n_records is None:
            planner.check_terms(request, payer)
            return None
        return planner.cost(request, payer)

    def _purchase_before(self, X: Any, after: Purchased | None, before: FitResult | None) -> Mapping[str, Any] | None:
        """Find the vocabulary purchase to include."""
        if after is not None and before is not None:
            raise ValueError("after: expected None in later calls of partial_fit")
        given, carried = None if after is None else after.purchase(), carried_purchase(X)
        if given is not None and "event" not in given:
            raise ValueError("after: expected a vocabulary that is private itself")
        if carried is None or not self._terms.noised or self._unsafe_taints():
            return given
        if "event" not in carried:
            raise ValueError("X: its columns come from a vocabulary that is not private; expected public columns")
        heads = {purchase["head"] for plan in before.ledger.plans if (purchase := purchase_of(plan))} if before else ()
        if before is not None and carried["head"] not in heads:
            raise ValueError(
                "X: its columns come from a vocabulary purchase that the earlier calls leave out; expected the same "
                "counts from the first call on"
            )
        if given is not None and given["head"] != carried["head"]:
            raise ValueError("after: is another purchase than the one that X's columns come from; expected None")
        return None if before is not None else carried

    def purchase(self) -> dict[str, object]:
        """Describe this fit for a later one whose statement includes it.

        The answer is JSON-ready, and has no "event" if this fit is tainted. A "fit" that chose no columns says so.
        """
        ledger = self._fitted().ledger
        plan, event = self._fitted().privacy, cast(Any, ledger.event())
        said: dict[str, object] = {"head": ledger.head, "unit": plan.unit, "relation": plan.relation}
        if ledger.private:
            said["event"] = event.to_dict()
        if family_of(self).name != "words":
            said["fit"] = True
        payers = {run.budget for run in plan.runs}
        return said | ({"budget": payers.pop()} if len(payers) == 1 and None not in payers else {})

    def purchase_text(self) -> str | None:
        """Write this fit for the later one that publishes it, or None."""
        return None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second thread that fits the same estimator."""
        lock = vars(self).setdefault("_lock", threading.Lock())
        if not lock.acquire(blocking=False):
            raise RuntimeError("this estimator is being fitted by another thread; expected one fit at a time")
        try:
            yield
        finally:
            lock.release()

    def _facts(self, n_rows: int, facts: dict[str, Any], partial: bool, before: FitResult | None) -> Public:
        """Collect public facts; rows are counted only if no number is given."""
        if n_rows > MAX_RECORDS:
            raise ValueError(f"X: expected at most {MAX_RECORDS} rows")
        part, call_records = facts.get("part"), facts.get("call_records")
        stated = self.n_records if call_records is None else call_records
        if n_rows == 0 and stated is None:
            raise ValueError("X has no rows: expected at least one row, or n_records")
        drawn = self.sampling if partial else resolve_sampling(self.sampling, self.relation, facts.get("n_bins"))
        if drawn == "without_replacement" and stated is not None and stated != n_rows:
            # Neighbors differ by a replacement, so they have as many rows.
            raise ValueError(
                f"n_records={stated}: expected the number of rows with sampling='without_replacement', or None"
            )
        said = (part, call_records, self.batch_size) != (None, None, None)
        if partial and self.n_records is not None and not said:
            raise ValueError(
                "batch_size=None: expected the public number of records of a call, since n_records is given"
            )
        n_records = int(next((n for n in (self.n_records, call_records) if n is not None), n_rows))
        if before is not None and before.public.n_features != facts["n_features"]:
            raise ValueError(
                f"X has {facts['n_features']} features, but {type(self).__name__} is expecting "
                f"{before.public.n_features} features as input"
            )
        labels = None if before is None else before.public.classes
        if labels is not None and not np.array_equal(labels, facts["classes"]):
            raise ValueError("y: expected the two labels of the calls before")
        seed = public_seed(self.random_state) if before is None else before.public.seed
        return Public(n_records=max(n_records, 1), seed=seed, **facts)

    def _unsafe_taints(self) -> tuple[str, ...]:
        if not self.private:
            return ()
        known = ("unsafe test_key: noise and sampling are known",) if self._test_key is not None else ()
        why = "unsafe diagnostics: computed from the training records without noise"
        return known + ((why,) if self._diagnose else ())

    def _randomness(self, public: Public) -> Randomness:
        if self._test_key is not None:
            return KeyedRandomness(self._test_key)
        if self.private:
            return SystemRandomness()
        return KeyedRandomness(np.random.default_rng(public.seed).bytes(32))

    def _backend(self) -> Backend:
        return Threads(resolve_n_threads(self.n_jobs))

    @classmethod
    def _rebuild(cls, runs: list[Run]) -> Self:
        """Rebuild the estimator from a transcript's releases, without data.

        Raises ValueError if a run is of another class, or its plan is not the one that its settings and public facts
        lead to.
        """
        estimator: Self | None = None
        for one in runs:
            if one.kind != cls.__name__:
                raise ValueError(f"{one.path}: is about a {one.kind}, expected a {cls.__name__}")
            fresh = cls._from_settings(one.settings)
            before = None if estimator is None or not one.partial else estimator._result
            if one.follows != (None if before is None else before.head):
                raise ValueError(f"{one.path}: does not continue the run before it")
            how: dict[str, Any] = {"partial": one.partial, "before": before, "purchase": one.plan.get("purchase")}
            planned = fresh._planned(Planner(), fresh.request(one.public, taints=one.taints, **how), None)
            model, plan = planned.model, planned.plan
            ledger = Ledger() if before is None else before.ledger.copy()
            if plan.public() != one.plan or plan.taints != one.taints:
                raise ValueError(f"{one.path}: its plan is not the one that its settings lead to")
            ledger = one.ledger(ledger, plan)
            digests = []
            for release in one.releases():
                model.update(release)
                digests.append(release_digest(release))
            fresh._result = FitResult.make(
                cls.__name__,
                fresh._settings(),
                one.public,
                one.n_steps + one.done,
                model.result(),
                model.state(),
                ledger,
                None,
                digests,
            )
            estimator = fresh
        assert estimator is not None
        return estimator
