"""What the estimators share: settings, ONE fit for all models, and the result they read.

A subclass says how its data are read (`_read`) and which `Model` goes with its settings and with public facts
(`_model`). Everything else is here, once: planning, the run, the result, files, rebuilding from a transcript.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast

import numpy as np

from ..checks import check_choice, check_flag, check_name, check_number
from ..data.frames import named_columns, warn_of_repeats
from ..data.types import Column, Data
from ..engine.backend import Backend, Threads
from ..engine.checkpoint import RunFolder, open_folder
from ..engine.interrupts import Stopped
from ..engine.ledger import Ledger
from ..engine.loop import run
from ..engine.model import MAX_RECORDS, Model, Records
from ..engine.plan import RunPlan, make_plan
from ..engine.randomness import KeyedRandomness, Randomness, SystemRandomness
from ..engine.result import FitResult, Public
from ..engine.sampling import SAMPLINGS, Sampler, make_sampler, resolve_sampling
from ..engine.transcript import Run, TranscriptWriter, release_digest
from ..engine.units import KeptRows, UnitRecords
from ..kernels.threads import resolve_n_threads
from .fitted import Fitted
from .outlook import Outlook
from .prepared import Prepared, bins_of, deal
from .settings import public_seed, unit_name
from .spending import Payer, planning

if TYPE_CHECKING:
    from .parameters import Reading
    from .vocabulary import PrivateVocabulary


class PrivateEstimator(Fitted):
    """Base of the estimators: parameters as in scikit-learn, privacy as in this package.

    What `fit` finds is one immutable result, taken over when all is done: an interrupted
    fit leaves the estimator exactly as it was.
    """

    #: Whether a fit without privacy keeps ``diagnostics_`` unasked.
    _figures_without_privacy: ClassVar[bool] = False

    _test_key: bytes | None = None
    _diagnose: bool = False

    # ----------------------------------------------- what a subclass defines

    def _check_parameters(self) -> None:
        """Raise a ValueError for any parameter out of its range, before data are touched."""
        self._check_privacy_parameters()

    def _read(self, X: Any, y: Any = None) -> tuple[Records, dict[str, Any]]:
        """Checked records, and the public facts in them: ``n_features``, and ``classes`` or ``scale``."""
        raise NotImplementedError(f"{type(self).__name__} does not define _read")

    def _sampler(self, public: Public) -> Sampler:
        """The sampler of a whole fit."""
        size, bins = self.batch_size, public.n_bins
        return make_sampler(self.sampling, self.neighbors, public.n_records, size, self.rows_per_group, bins)

    def _joint(self, public: Public) -> bool:
        """Whether a unit may own several rows and contributes them together, as one record."""
        return public.unit != "record" and self.sampling != "rows"

    def _resolve_n_steps(self, public: Public) -> int:
        """Number of steps of a whole fit."""
        if self.n_steps is None:
            raise ValueError("n_steps=None: expected an integer")
        return int(self.n_steps)

    def _sensitivity(self, model: Model, relation: str) -> float | None:
        """A sensitivity to declare in place of the model's proven one; None for that."""
        return None

    def _taints(self) -> tuple[str, ...]:
        """Reasons, known from the settings alone, why the guarantee will not hold."""
        return ()

    def _foresee(self, prepared: Prepared) -> Outlook | None:
        """What the run that is prepared can be expected to give, from public numbers; None where nothing says it."""
        return None

    # ------------------------------------------------------------- settings

    def _check_privacy_parameters(self) -> None:
        check_flag("private", self.private)
        check_number("n_steps", self.n_steps, 1, 2**31, integer=True, optional=True)
        check_number("target_epsilon", self.target_epsilon, 0, math.inf, low_open=True, high_open=True, optional=True)
        check_number("target_delta", self.target_delta, 0, 1, low_open=True, high_open=True, optional=True)
        check_number("noise_multiplier", self.noise_multiplier, 0, math.inf, high_open=True, optional=True)
        check_number("batch_size", self.batch_size, 0, math.inf, low_open=True, high_open=True, optional=True)
        check_number("n_records", self.n_records, 1, MAX_RECORDS, integer=True, optional=True)
        check_number("rows_per_group", self.rows_per_group, 1, MAX_RECORDS, integer=True, optional=True)
        check_choice("sampling", self.sampling, (*SAMPLINGS, None))
        check_choice("invalid", self.invalid, ("raise", "drop"))
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback={self.callback!r}: expected a callable or None")
        resolve_n_threads(self.n_jobs)
        _ = self._options  # reading them checks their class

    def _delta(self, n_records: int) -> float:
        """target_delta, or min(1e-5, 1/(10 n_records))."""
        return float(self.target_delta) if self.target_delta is not None else min(1e-5, 0.1 / n_records)

    def set_unsafe(self, *, test_key: bytes | None = None, diagnostics: bool = False) -> Self:
        """Open what privacy closes, for tests, audits and public data; fits that follow are NOT PRIVATE for good.

        With a ``test_key`` of 32 bytes sampling, per-record randomness and noise come from this known key, so that fits
        can be repeated bit for bit; ``diagnostics=True`` keeps un-noised figures of the training records in
        ``diagnostics_``. Neither is a parameter, and neither is stored in files or pickles. Returns the estimator;
        raises TypeError or ValueError if the key is not 32 bytes.

        >>> import numpy as np
        >>> from vips_fast import SigmoidBeliefNetwork
        >>> model = SigmoidBeliefNetwork(2, noise_multiplier=9.0, n_steps=2).set_unsafe(diagnostics=True)
        >>> len(model.fit(np.eye(50, 4, dtype=int)).diagnostics_), model.privacy_.epsilon
        (2, inf)
        >>> print(model.privacy_)
        NOT PRIVATE: unsafe diagnostics: figures of the training records were opened.
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
        budget: Payer = None,
        part: str | None = None,
        n_records: int | None = None,
        groups: Any = None,
        unit: str | None = None,
        after: PrivateVocabulary | None = None,
        backend: Backend | None = None,
        **extra: Unpack[Reading],
    ) -> Self:
        """`fit` and `partial_fit` of all models; ``part`` and ``n_records`` are about a call of the latter."""
        if partial and (checkpoint is not None or resume or checkpoint_every is not None):
            raise TypeError("partial_fit() takes no checkpoint: a call is one step")
        counts = bool(self.private) and budget is None and not (partial or resume or self._unsafe_taints())
        with self._counted(counts), self._alone(), open_folder(checkpoint, resume, checkpoint_every) as folder:
            first, resumed = not partial or self._result is None, folder is not None and folder.begun
            writer = None if transcript is None else TranscriptWriter(transcript, first=first, resume=resumed)
            prepared = self.prepare(
                X,
                y,
                partial=partial,
                budget=budget,
                folder=folder,
                part=part,
                n_records=n_records,
                groups=groups,
                unit=unit,
                after=after,
                backend=backend,
                **extra,
            )
            if not (partial or resumed):
                try:
                    if (outlook := self._foresee(prepared)) is not None:
                        outlook.tell(3)
                except BaseException:  # a warning that was made an error
                    prepared.spending.close()
                    raise
            self.run(prepared, writer, folder)
        return self

    def prepare(
        self,
        X: Data,
        y: Column | None = None,
        *,
        partial: bool = False,
        budget: Payer = None,
        folder: RunFolder | None = None,
        part: str | None = None,
        n_records: int | None = None,
        groups: Column | None = None,
        unit: str | None = None,
        after: PrivateVocabulary | None = None,
        backend: Backend | None = None,
        **extra: Unpack[Reading],
    ) -> Prepared:
        """What a fit to these data would run with; nothing is drawn or spent, and the estimator stays as it is.

        `fit` is ``prepare`` followed by `run`. Between the two, an audit puts its own parts in. With a budget the run
        is reserved; `run` gives back what it does not draw. Raises what `fit` raises.
        """
        self._check_parameters()
        if partial and self.private and self.noise_multiplier is None:
            raise ValueError(
                "noise_multiplier=None: expected a number with partial_fit, since the number of calls to come is "
                "unknown"
            )
        if part is not None:
            check_name("part", part)
        check_number("n_records", n_records, 1, MAX_RECORDS, integer=True, optional=True)
        call: dict[str, Any] = {"part": part, "call_records": n_records, "unit": unit_name(groups, unit, self.sampling)}
        call["n_bins"], bins = (None, None) if partial else bins_of(X, groups, self.sampling, self.neighbors)
        before = self._result if partial else None
        prior = None if after is None else after.prior(before)
        with planning(self, budget, partial, dict(call), folder, prior) as spending:
            # Only now: a fit that the budget refuses does not touch the data.
            names = named_columns(X if before is None else self._held(X))
            call["feature_names"] = names or (before and before.public.feature_names)
            if groups is None and self.private:
                warn_of_repeats(X)
            backend = backend or self._backend()
            owned = functools.partial(KeptRows if self.sampling == "rows" else UnitRecords, limit=self.rows_per_group)
            records, facts = backend.read(self._read, X, y, extra, groups, owned)
            public = self._facts(records.n_rows, {**facts, **call}, partial, before)
            if folder is not None:
                public = folder.public(public, self._settings()["random_state"] is not None)
            chosen: Self = spending.settle(public)
            model, plan, ledger = chosen._prepare(public, partial, before, prior=prior)
            deal(plan.sampler, bins, records.n_rows)
            spending.confirm(plan, chosen.target_epsilon)
            diagnoses = self._diagnose or (self._figures_without_privacy and not self.private)
            randomness, done = self._randomness(public), 0 if before is None else before.n_steps
            if self.sampling == "rows":
                if not isinstance(records, KeptRows):
                    raise ValueError("sampling='rows': expected X in one piece, not in blocks that workers make")
                records.choose(randomness, done)
            return Prepared(
                records,
                public,
                model,
                plan,
                ledger,
                randomness,
                backend,
                chosen._settings(),
                diagnoses,
                partial,
                done,
                None if before is None else before.head,
                spending,
            )

    def run(self, prepared: Prepared, keep: TranscriptWriter | None = None, folder: RunFolder | None = None) -> Self:
        """Run what `prepare` made, and take the result over when all is done; with a folder, go on where it stopped."""
        model, public, plan, ledger = prepared.model, prepared.public, prepared.plan, prepared.ledger
        kind, settings, steps, n_before = type(self).__name__, prepared.settings, None, len(ledger.records)
        if folder is not None:
            try:
                target, paid = self._target(settings), prepared.spending.paid
                ledger, steps, settings = folder.begin(kind, settings, public, model, plan, target, paid)
            except BaseException:
                prepared.spending.close()
                raise
        figures: list[dict[str, float]] | None = [] if prepared.diagnoses else None
        spent, spending = len(ledger), prepared.spending
        try:
            if keep is not None:
                keep.begin(
                    kind,
                    settings,
                    public,
                    plan.public(),
                    done=0 if steps is None else steps.start,
                    taints=list(plan.taints),
                    follows=prepared.follows,
                    n_steps=prepared.n_steps,
                    partial=prepared.partial,
                )
            if steps is None or len(steps):
                spending.record(ledger)
            with prepared.backend.placed(prepared.records) as records:
                done = run(
                    model,
                    records,
                    plan,
                    ledger,
                    prepared.randomness,
                    prepared.backend,
                    first_step=prepared.n_steps,
                    keep=keep,
                    callback=self.callback,
                    figures=figures,
                    charge=spending.release,
                    steps=steps,
                    after=None if folder is None else folder.after,
                )
            ledger = ledger if folder is None else folder.finish()
            if keep is not None:
                keep.finish(ledger, n_before)
        except BaseException as error:
            if folder is not None:
                folder.keep(whole=isinstance(error, Stopped))
            if len(ledger) > spent:
                error.add_note(
                    f"This fit ended early. Up to {len(ledger) - spent} releases were made and count as spent; the "
                    "estimator is as it was before."
                )
            raise
        finally:
            spending.close()
        self._result = FitResult.make(
            kind,
            settings,
            public,
            done,
            model.result(),
            model.state(),
            ledger,
            figures,
            None if keep is None else keep.digests,
        )
        return self

    def prior(self, before: FitResult | None = None) -> dict[str, object]:
        """What a fit after this one says of it, whose columns it chose; JSON-ready."""
        ledger = self._fitted().ledger
        if before is not None or not ledger.private:
            raise ValueError("after: expected None in later calls of partial_fit, and else what is private itself")
        plan, event = self._fitted().privacy, cast(Any, ledger.event())
        return {"event": event.to_dict(), "head": ledger.head, "unit": plan.unit, "relation": plan.neighbors}

    @staticmethod
    def _target(settings: Mapping[str, Any]) -> float | None:
        """Epsilon that the noise of a plan's settings is calibrated for or held against; None for neither."""
        target: float | None = settings["target_epsilon"]
        return 1.0 if target is None and settings["noise_multiplier"] is None else target

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
        """Public facts; the number of rows is one only where no other number is given."""
        if n_rows > MAX_RECORDS:
            raise ValueError(f"X: expected at most {MAX_RECORDS} rows")
        part, call_records = facts.get("part"), facts.get("call_records")
        stated = self.n_records if call_records is None else call_records
        if n_rows == 0 and stated is None:
            raise ValueError("X has no rows: expected at least one row, or n_records")
        drawn = self.sampling if partial else resolve_sampling(self.sampling, self.neighbors, facts.get("n_bins"))
        if drawn == "without_replacement" and stated is not None and stated != n_rows:
            # Neighbours differ by a replacement, so they have as many rows.
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

    def _schedule(self, public: Public, partial: bool) -> tuple[Sampler, int]:
        """Sampler and number of steps of a run."""
        if not partial:
            return self._sampler(public), self._resolve_n_steps(public)
        size = next(n for n in (public.call_records, self.batch_size, public.n_records) if n is not None)
        whole = "rows" if self.sampling == "rows" else "full"
        accounted = "replace_one" if self.sampling == "without_replacement" else "add_remove"
        return make_sampler(whole, self.neighbors or accounted, int(size), None, self.rows_per_group), 1

    def _prepare(
        self,
        public: Public,
        partial: bool,
        before: FitResult | None,
        taints: tuple[str, ...] | None = None,
        prior: dict[str, Any] | None = None,
    ) -> tuple[Model, RunPlan, Ledger]:
        """Model, plan and ledger of a run; every refusal that needs no records happens here."""
        model = self._model(public)
        sampler, n_steps = self._schedule(public, partial)
        plan = make_plan(
            model,
            sampler,
            n_steps=n_steps,
            delta=self._delta(public.n_records),
            private=bool(self.private),
            target_epsilon=self.target_epsilon,
            noise_multiplier=self.noise_multiplier,
            sensitivity=self._sensitivity(model, sampler.neighbors),
            spent=None if before is None else before.ledger.spent,
            part=public.part,
            unit=public.unit,
            prior=prior,
            taints=self._taints() + self._unsafe_taints() if taints is None else taints,
        )
        if prior is not None and (prior["unit"], prior["relation"]) != (plan.unit, plan.relation):
            raise ValueError(f"after: is about one {prior['unit']}, this fit about one {plan.unit}; expected the same")
        if before is None:
            return model, plan, Ledger()
        if before.privacy.neighbors != plan.relation and plan.event is not None and len(before.ledger):
            raise ValueError(
                f"neighbors: this run would be about {plan.relation!r}, the earlier ones are about "
                f"{before.privacy.neighbors!r}; expected one relation"
            )
        if before.public.unit != plan.unit:
            raise ValueError(
                f"groups: this run would be about a {plan.unit!r}, the earlier ones are about a "
                f"{before.public.unit!r}; expected one unit"
            )
        model.restore(before.state)
        return model, plan, before.ledger.copy()

    def _unsafe_taints(self) -> tuple[str, ...]:
        if not self.private:
            return ()
        known = ("unsafe test_key: noise and sampling are known",) if self._test_key is not None else ()
        return known + (("unsafe diagnostics: figures of the training records were opened",) if self._diagnose else ())

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
        """The estimator that a transcript's releases lead to, made without data.

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
                raise ValueError(f"{one.path}: does not go on from the run before it")
            model, plan, ledger = fresh._prepare(one.public, one.partial, before, one.taints, one.plan.get("prior"))
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
