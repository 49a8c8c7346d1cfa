"""One run of one estimator, from the data and the call to the result.

    prepare(estimator, X, ...)   check → request → read → plan → pay: nothing is drawn or spent
    Fit.run(transcript)          loop → result, which the estimator takes over at its end
    rebuild(class, runs)         the same result from a transcript's releases, without data

All that may be refused is refused by `prepare`, before anything is spent. An interrupted run leaves the estimator
exactly as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial as partial_of
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from scipy import sparse

from ..checks import check_name, check_number, public_seed
from ..data.frames import named_columns
from ..data.groups import Runs
from ..data.schema import Schema
from ..data.shards import ShardedCorpus
from ..data.types import Column, Data
from ..engine.backend import Backend
from ..engine.budget import Budget, Reservation, check_payer, pay
from ..engine.checkpoint import RunFolder, ledger_in
from ..engine.ledger import Ledger
from ..engine.loop import Progress, run
from ..engine.model import MAX_RECORDS, Model, Records
from ..engine.plan import Planned, RunPlan
from ..engine.releases import release_digest
from ..engine.result import FitResult, Public, plain
from ..engine.sampling import RandomAllocationSampler, Randomness, resolve_sampling
from ..engine.transcript import Run, TranscriptWriter
from ..engine.units import MOST_ROWS, UnitRecords
from ..store.limits import parse_json
from ..store.log import canonical_json
from ..store.words import counted
from .caveats import warn_of_rows, warn_of_shape
from .family import SCHEMA, family_of
from .inputs import column_names, input_texts
from .parameters import BudgetLike, Common, Options, Reading

if TYPE_CHECKING:
    from .estimator import PrivateEstimator


@dataclass
class Fit:
    """A run that is planned and paid for. An audit replaces parts of it by its own before it runs."""

    estimator: PrivateEstimator
    planned: Planned
    records: Records
    #: As planned.
    model: Model
    plan: RunPlan
    #: The releases of earlier calls; the run adds its own.
    ledger: Ledger
    randomness: Randomness
    backend: Backend
    #: Whether the run collects diagnostics; the plan is tainted then.
    diagnoses: bool
    #: None without a budget, or with nothing left to pay.
    payment: Reservation | None = None
    #: Events that the budget pays for; None without one.
    paid: int | None = None
    folder: RunFolder | None = None

    def close(self) -> None:
        """Give back the releases that were reserved and not drawn."""
        if self.payment is not None:
            # A budget that cannot be written now must not end a paid run. The rest then counts as reserved until this
            # process ends.
            with suppress(OSError, ValueError):
                self.payment.close()

    def run(
        self, transcript: TranscriptWriter | None = None, callback: Callable[[Progress], None] | None = None
    ) -> None:
        """Run, or resume from the folder, and give the estimator its result."""
        request, settings, payment, folder = self.planned.request, self.planned.settings, self.payment, self.folder
        model, plan, ledger, before = self.model, self.plan, self.ledger, request.earlier
        kind, n_steps, n_before = type(self.estimator).__name__, None, len(ledger.records)
        first_step = 0 if before is None else before.n_steps
        diagnostics: list[dict[str, float]] | None = [] if self.diagnoses else None
        with closing(self):
            if folder is not None:
                how = (kind, settings, request.public, model, plan, self.planned.target, self.paid)
                ledger, n_steps, settings = folder.begin(*how)
            spent = len(ledger)
            try:
                if transcript is not None:
                    transcript.begin(
                        kind,
                        settings,
                        request.public,
                        plan.public(),
                        ledger,
                        n_before=n_before,
                        folder=folder,
                        taints=list(plan.taints),
                        follows=None if before is None else before.ledger.head,
                        n_steps=first_step,
                        partial=request.partial,
                    )
                if payment is not None and (folder is None or folder.whole < (n_steps or 0)):
                    payment.record(ledger)
                with self.backend.placed(self.records) as records:
                    done = run(
                        model,
                        records,
                        plan,
                        ledger,
                        self.randomness,
                        self.backend,
                        first_step=first_step,
                        on_release=transcript,
                        callback=callback,
                        diagnostics=diagnostics,
                        charge=None if payment is None else payment.charge,
                        n_steps=n_steps,
                        folder=folder,
                    )
                ledger = ledger if folder is None else ledger.copy()  # the folder's own is never closed
                if transcript is not None:
                    transcript.finish()
            except BaseException as error:
                if transcript is not None:
                    transcript.close()
                if len(ledger) > spent:
                    made = counted(len(ledger) - spent, "release")
                    error.add_note(
                        f"This fit ended early. It made up to {made}, which count as spent; the estimator is as it was "
                        "before."
                    )
                raise
        digests = None if transcript is None else transcript.digests
        arrays, state = model.result(), model.state()
        self.estimator._result = FitResult.make(
            kind, settings, request.public, done, arrays, state, ledger, diagnostics, digests
        )


def prepare(
    estimator: PrivateEstimator,
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
    after: PrivateEstimator | None = None,
    inputs: Mapping[str, str] | Schema | None = None,
    backend: Backend | None = None,
    **extra: Unpack[Reading],
) -> Fit:
    """Plan a fit to these data; draw, spend and change nothing.

    `fit` is ``prepare`` followed by `Fit.run`. Between the two, an audit puts its own parts in. A budget reserves
    the run; a run gives back the releases that it does not draw. Raises the errors of `fit`.
    """
    estimator._check_parameters()
    options = estimator._options
    if partial and estimator.private and estimator.noise_multiplier is None:
        raise ValueError(
            "noise_multiplier=None: expected a number with partial_fit, which cannot know how many calls will come"
        )
    if part is not None:
        check_name("part", part)
    check_number("n_records", n_records, 1, MAX_RECORDS, integer=True, optional=True)
    if groups is None and unit is not None:
        raise ValueError(f"unit={unit!r}: expected None without groups, or groups that say whose each row is")
    if unit is not None and check_name("unit", unit) == "record":
        raise ValueError("unit='record': expected the name of the privacy unit, such as 'person'")
    payer = None if budget is None else Budget.of(budget)
    if folder is not None:
        check_payer(ledger_in(folder.path)[0], payer, f"the run in {folder}")
    before, known = estimator._result if partial else None, estimator.n_records or n_records
    n_bins, bins = _bins(estimator, X, groups) if isinstance(X, ShardedCorpus) and not partial else (None, None)
    if after is not None and not hasattr(after, "purchase_text"):
        raise TypeError(f"after: {type(after).__name__}; expected a fitted model, such as the model_ of PrivateTopics")
    text = None if after is None else after.purchase_text()
    public = Public(
        n_features=0,
        n_records=int(known or 1),
        seed=0,
        part=part,
        call_records=n_records,
        unit="record" if groups is None else unit or "person",
        n_bins=n_bins,
        inputs=input_texts(inputs, family_of(estimator).inputs, before, text),
    )
    request = estimator.request(public, partial=partial, before=before, folder=folder)
    if before is not None:
        # Only how a further call is drawn and paid for may change.
        both = (request.settings, before.settings)
        mine, theirs = (parse_json(canonical_json(plain({**one, **one["options"]}))) for one in both)
        for name in sorted(mine.keys() - Common.__annotations__.keys() - vars(Options()).keys()):
            if mine[name] != theirs.get(name):
                raise ValueError(f"{name}: another one than in the calls before; expected {theirs.get(name)!r}")
    noised = request.terms.noised
    request = replace(request, purchase=purchase_before(estimator, X, after, before, noised))
    if payer is not None and known is not None and request.purchase is None:
        # A fit that the budget refuses does not touch the data, if public numbers say so.
        request.cost(payer, folder if folder is not None and folder.begun else None)
    names = named_columns(X if before is None else estimator._held(X))
    alone, encoded = groups is None and estimator.private, SCHEMA in public.inputs
    warn_of_rows(X, names, options.invalid, alone=alone, noised=noised, encoded=encoded)
    backend = backend or estimator._backend()
    records, facts = backend.read(partial_of(read_units, estimator, extra), X, y, groups)
    if before is not None and not names:
        names = before.public.feature_names
    public = replace(public, feature_names=names, **facts)
    public = estimator._with_records(public, records.n_rows, partial, before)
    if before is None:
        # Public topics are as many as they are, whoever fits them.
        wanted = request.settings.get("n_components") if request.settings.get("public_prior") is None else None
        warn_of_shape(public, wanted, options.invalid, unsaid=noised and request.purchase is None)
    if folder is not None:
        public = folder.public(public, request.settings["random_state"] is not None)
    column_names(public)  # refuses inputs that do not fit
    planned = replace(request, public=public).plan(payer)
    sampler = planned.plan.sampler
    if bins is not None and isinstance(sampler, RandomAllocationSampler) and sampler.reused:
        if bins[0] != 0 or bins[-1] != records.n_rows or (np.diff(bins) < 0).any():
            raise ValueError("X: its bins are not made of all its units; expected shards as they were written")
        sampler.edges = bins
    estimator._inspect(planned.model)
    ledger, payment, paid = Ledger() if before is None else before.ledger.copy(), None, None
    if payer is not None:
        payer.check_history((*ledger.charges, *(() if folder is None else ledger_in(folder.path)[0].charges)))
        what = type(estimator).__name__ + (" partial_fit" if partial else "")
        payment = pay(payer, what, planned.plan, folder, planned.target)
        paid = 0 if payment is None else payment.count
    return Fit(
        estimator,
        planned,
        records,
        planned.model,
        planned.plan,
        ledger,
        estimator._randomness(public),
        backend,
        estimator._diagnose or (estimator._diagnostics_without_privacy and not estimator.private),
        payment,
        paid,
        folder,
    )


def read_units(estimator: PrivateEstimator, extra: Any, X: Any, y: Any, groups: Any) -> tuple[Records, dict[str, Any]]:
    """Read records and public facts, and join the records to units if there are ``groups``."""
    records, facts = estimator._read(X, y, **extra)
    options = estimator._options
    if groups is not None:
        most = MOST_ROWS if estimator.private else MAX_RECORDS
        records = UnitRecords(records, groups, min(options.rows_per_group or most, most), options.invalid)
    return records, facts


def purchase_before(
    estimator: PrivateEstimator, X: Any, after: PrivateEstimator | None, before: FitResult | None, noised: bool
) -> Mapping[str, Any] | None:
    """Find the vocabulary purchase that a run includes."""
    if after is not None and before is not None:
        raise ValueError("after: expected None in later calls of partial_fit")
    given = None if after is None else after.purchase()
    carried = getattr(X, "purchase", None) if sparse.issparse(X) else None
    if given is not None and "event" not in given:
        raise ValueError("after: expected a vocabulary that is private itself")
    if carried is None or not noised or estimator._taints():
        return given
    if "event" not in carried:
        raise ValueError("X: its columns come from a vocabulary that is not private; expected public columns")
    heads = {purchase["head"] for plan in before.ledger.plans if (purchase := plan.get("purchase"))} if before else ()
    if before is not None and carried["head"] not in heads:
        raise ValueError(
            "X: its columns come from a vocabulary purchase that the earlier calls leave out; expected the same "
            "counts from the first call on"
        )
    if given is not None and given["head"] != carried["head"]:
        raise ValueError("after: is another purchase than the one that X's columns come from; expected None")
    return None if before is not None else carried


def _bins(estimator: PrivateEstimator, X: ShardedCorpus, groups: Any) -> tuple[int, np.ndarray | None]:
    """Count the bins of X, as in `Public`; their starts too, if the sampling draws bins.

    Raises ValueError if the bins do not belong to the sampled units.
    """
    n_bins = 0 if X.bins is None else len(X.bins) - 1
    if n_bins == 0 or resolve_sampling(estimator.sampling, estimator._options.relation, n_bins) != "random_allocation":
        return n_bins, None
    own = X.groups
    same = isinstance(groups, Runs) and own is not None and np.array_equal(groups.starts, own.starts)
    if not same and (own is not None or groups is not None):
        expected = "X.groups, whose bins X has," if own is not None else "None, since X has bins of rows,"
        raise ValueError(f"groups: expected {expected} with sampling='random_allocation'; or sampling='poisson'")
    return n_bins, X.bins


def with_records(
    estimator: PrivateEstimator, public: Public, n_rows: int, partial: bool = False, before: FitResult | None = None
) -> Public:
    """Complete public facts by the number of records; rows are counted only if no number is given."""
    if n_rows > MAX_RECORDS:
        raise ValueError(f"X: expected at most {MAX_RECORDS} rows")
    given, call_records = estimator.n_records, public.call_records
    stated = given if call_records is None else call_records
    if n_rows == 0 and stated is None:
        raise ValueError("X has no rows: expected at least one row, or n_records")
    drawn = estimator.sampling
    drawn = drawn if partial else resolve_sampling(drawn, estimator._options.relation, public.n_bins)
    lost = 0 if stated is None else stated - n_rows
    # Neighbors differ by a replacement, so they have as many rows. But all persons without a label are one.
    if drawn == "without_replacement" and (lost < 0 or (lost > 0 and estimator._options.invalid == "raise")):
        raise ValueError(f"n_records={stated}: expected the number of rows with sampling={drawn!r}, or None")
    if partial and given is not None and (public.part, call_records, estimator.batch_size) == (None, None, None):
        raise ValueError("batch_size=None: expected the public number of records of a call, since n_records is given")
    if before is not None:
        old, name = before.public, type(estimator).__name__
        if old.n_features != public.n_features:
            raise ValueError(
                f"X has {public.n_features} features, but {name} is expecting {old.n_features} features as input"
            )
        if old.n_columns != public.n_columns:
            raise ValueError(f"X and y give records of {public.n_columns} columns: expected {old.n_columns}, as in fit")
        if old.classes is not None and not np.array_equal(old.classes, np.asarray(public.classes)):
            raise ValueError("y: expected the two labels of the calls before")
    seed = public_seed(estimator.random_state) if before is None else before.public.seed
    n_records = given or call_records or max(n_rows, 1)
    return replace(public, n_records=int(n_records), seed=seed)


def rebuild(kind: type[PrivateEstimator], runs: Iterable[Run]) -> PrivateEstimator:
    """Rebuild an estimator from a transcript's releases, without data.

    Raises ValueError if a run is of another class, or its plan is not the one that its settings and public facts
    lead to.
    """
    estimator: PrivateEstimator | None = None
    for one in runs:
        if one.kind != kind.__name__:
            raise ValueError(f"{one.path}: is about a {one.kind}, expected a {kind.__name__}")
        fresh = kind._from_settings(one.settings)
        before = None if estimator is None or not one.partial else estimator._result
        if one.follows != (None if before is None else before.ledger.head):
            raise ValueError(f"{one.path}: does not continue the run before it")
        request = fresh.request(one.public, partial=one.partial, before=before, taints=one.taints)
        planned = replace(request, purchase=one.plan.get("purchase")).plan()
        model, plan = planned.model, planned.plan
        if plan.public() != one.plan or plan.taints != one.taints:
            raise ValueError(f"{one.path}: its plan is not the one that its settings lead to")
        ledger = one.ledger(Ledger() if before is None else before.ledger.copy(), plan)
        digests = []
        for release in one.releases():
            model.update(release)
            digests.append(release_digest(release))
        settings, done = fresh._settings(), one.n_steps + one.done
        arrays, state = model.result(), model.state()
        fresh._result = FitResult.make(kind.__name__, settings, one.public, done, arrays, state, ledger, None, digests)
        estimator = fresh
    assert estimator is not None
    return estimator
