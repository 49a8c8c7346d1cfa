"""The guarantee of a ledger, in numbers and in words."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..accounting import PrivacyEvent, Relation, attack_success, epsilon, group_event, rounded_up
from ..accounting.printing import right_guesses
from ..store.words import a, counted, several
from .ledger import Ledger


@dataclass(frozen=True)
class PlannedRun:
    """Public numbers of a run, or of several equal ones."""

    #: How minibatches were drawn, and their (expected) size.
    sampling: str
    batch_size: float
    #: Public number of records, or of a part's.
    n_records: int
    #: Noise standard deviation over the L2 sensitivity.
    noise_multiplier: float
    clip_norm: float
    sensitivity: float
    #: Whether `n_records` was stated; False if it was counted.
    stated: bool
    #: The identity of the budget that paid for all releases; None if no budget paid for all.
    budget: str | None
    #: Releases made, including lost ones.
    releases: int = 0

    @classmethod
    def of(cls, ledger: Ledger) -> "tuple[PlannedRun, ...]":
        """List a ledger's runs, equal ones once.

        Their order is the order of the last of them.

        Raises KeyError, TypeError or ValueError if a plan is malformed.
        """
        plans: list[Mapping[str, Any]] = []
        payers: list[Counter[str | None]] = []  # of the releases of each run
        paying: str | None = None
        for record in ledger.records:
            if record["kind"] == "plan":
                plans.append(record["plan"])
                payers.append(Counter())
            elif record["kind"] == "budget":
                paying = str(record["budget"]["budget"])
            elif record["kind"] in ("resume", "close"):
                paying = None
            elif record["kind"] == "release" and payers:
                payers[-1][paying] += 1
        counts: dict[PlannedRun, int] = {}
        for plan, paid in zip(plans, payers, strict=True):
            if plan["sampling"] not in _SAMPLINGS:
                raise ValueError
            budgets = set(paid)
            if (purchase := plan.get("purchase")) is not None:
                budgets.add(purchase.get("budget"))
            run = cls(
                sampling=str(plan["sampling"]),
                batch_size=float(plan["batch_size"]),
                n_records=int(plan["n_records"]),
                noise_multiplier=float(plan["noise_multiplier"]),
                clip_norm=float(plan.get("clip_norm", 0.0)),
                sensitivity=float(plan.get("sensitivity", 0.0)),
                stated=plan.get("stated") is True,
                budget=budgets.pop() if len(budgets) == 1 else None,
            )
            counts[run] = counts.pop(run, 0) + paid.total()
        return tuple(replace(run, releases=releases) for run, releases in counts.items())

    def describe(self, unit: str, parts: bool) -> str:
        """Describe minibatches and noise; ``parts`` tells of a ledger with parts."""
        how = _SAMPLINGS[self.sampling].format(size=self.batch_size, unit=unit, units=several(unit), one=a(unit))
        if parts and self.sampling == "full":
            how = "all of a part, or of the data set, in each step"
        return f"{how}, noise multiplier {self.noise_multiplier:.4g}"


@dataclass(frozen=True)
class Privacy:
    """A fit's spent privacy and guarantee, always computed from a ledger.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee; epsilon is inf without one.
    relation : str
        The neighboring relation, "add_remove" or "replace_one".
    unit : str
        The privacy unit.
    accountant : str
        Name of the accountant of epsilon.
    steps : int
        Releases made, including ``lost`` ones.
    runs : tuple of PlannedRun
        The runs, equal ones once. ``noise_multiplier`` and ``n_records`` are the last run's.
    taints : tuple of str
        Reasons why the guarantee does not hold; empty if it does.
    lost : int
        Releases of steps that were interrupted and done again: spent, but without effect.
    shortened : tuple of two int, or None
        Steps done and steps planned, if a resumed run could not pay for all of them.
    parts : tuple of str
        Names of the parts behind the releases. Epsilon is the epsilon of the worst part. It holds if each record lies
        in only one part, which the program cannot check (`vips_fast.accounting.parts`). Empty if all releases are from
        all records; there is no such assumption then.
    event, share : PrivacyEvent or None, float
        A fixed event that bounds all releases in sequence, at this share of delta (`Ledger.bound`); None without
        releases.
    calls : {"", "limit", "odometer"}
        The bound of releases that may depend on earlier ones: a limit reserved before the first, or an odometer
        (`vips_fast.engine.filters`). "" for one planned run.
    vocabulary : bool
        Whether a vocabulary purchase from the same records is included.
    earlier_fit : bool
        Whether another fit to the same records is included, which chose no columns.
    paid_by : str or None
        The data set of the budget that paid for all releases; None if no budget paid for all.
    attack_success : float or None
        Bound of the share of right guesses of an attacker (`vips_fast.accounting.attack_success`), by all releases of
        the worst part. It is None without a guarantee, and with an odometer, whose level was not fixed ahead.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import LatentDirichletAllocation, Privacy
    >>> model = LatentDirichletAllocation(2, doc_length=20, epsilon=1.0, n_steps=3)
    >>> privacy = model.fit(np.ones((100, 4), dtype=int)).privacy_
    >>> privacy.private, privacy.epsilon <= 1.0, privacy.delta, privacy.unit
    (True, True, 1e-05, 'record')
    >>> privacy.for_group(2) > privacy.epsilon  # of somebody who wrote two of the documents
    True
    >>> print(privacy.statement())
    (..., 1e-05)-differential privacy with respect to adding or removing one record of 100, for this fit alone ...
    >>> Privacy.of(model.ledger_) == privacy
    True
    """

    epsilon: float
    delta: float
    relation: Relation
    unit: str
    accountant: str
    steps: int
    runs: tuple[PlannedRun, ...]
    taints: tuple[str, ...] = ()
    lost: int = 0
    shortened: tuple[int, int] | None = None
    parts: tuple[str, ...] = ()
    event: PrivacyEvent | None = field(default=None, repr=False)
    share: float = 1.0
    calls: str = ""
    vocabulary: bool = False
    earlier_fit: bool = False
    attack_success: float | None = None
    paid_by: str | None = None

    @classmethod
    def of(cls, ledger: Ledger) -> "Privacy":
        """Compute the statement of a ledger.

        Its delta is the first run's, which was fixed before any release.

        Raises ValueError if the ledger has no run, or the numbers of a run are not usable.
        """
        if ledger.plan is None:
            raise ValueError("ledger: it has no run to speak of")
        try:
            delta = float(ledger.plans[0]["delta"])
            relation, unit, runs = Relation(ledger.plan["relation"]), str(ledger.plan["unit"]), PlannedRun.of(ledger)
            if not 0 < delta < 1:
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError("ledger: the plan of a run is malformed") from None
        event, share = ledger.bound(delta)
        if event is not None and event.relation != relation:
            raise ValueError("ledger: its releases are of another neighboring relation than its plan")
        spent = ledger.epsilon(delta) if ledger.private else math.inf
        before = [purchase for plan in ledger.plans if (purchase := plan.get("purchase")) is not None]
        purchases = any(plan["sampling"] == "vocabulary" for plan in ledger.plans)
        calls = "" if not ledger.adaptive else "limit" if (spent, delta) == ledger.limit else "odometer"
        # The data set of the budget that paid for every release; a guess's bound holds for no odometer.
        budget, paid_by, success = ledger.budget, None, None
        if budget is not None and {run.budget for run in runs if run.releases} == {budget.get("budget")}:
            paid_by = str(budget.get("dataset", "the data set"))
        if math.isfinite(spent) and calls != "odometer":
            success = max((attack_success(event) for _, event, _ in ledger.bounds(delta)), default=0.5)
        return cls(
            epsilon=spent,
            delta=delta,
            relation=relation,
            unit=unit,
            accountant=ledger.accountant() or "none",
            steps=len(ledger),
            runs=runs,
            taints=ledger.taints,
            lost=ledger.lost,
            shortened=ledger.shortened,
            parts=ledger.parts,
            event=event,
            share=share,
            calls=calls,
            vocabulary=purchases or any("fit" not in purchase for purchase in before),
            earlier_fit=any("fit" in purchase for purchase in before),
            attack_success=success,
            paid_by=paid_by,
        )

    @property
    def noise_multiplier(self) -> float:
        """Noise standard deviation over the L2 sensitivity, in the last run."""
        return self.runs[-1].noise_multiplier

    @property
    def n_records(self) -> int:
        """Public number of records of the last run, or of its part."""
        return self.runs[-1].n_records

    @property
    def numbers(self) -> str:
        """The public numbers of records of all runs, in words."""
        least, most = (bound(run.n_records for run in self.runs) for bound in (min, max))
        return str(most) if least == most else f"{least} to {most}"

    @property
    def private(self) -> bool:
        """Whether the stated guarantee covers the model."""
        return not self.taints

    def for_group(self, size: int, delta: float | None = None) -> float:
        """Compute epsilon, rounded up, for a person with up to ``size`` records.

        ``delta`` None is the statement's. All records of the person are added or removed, or replaced. They were
        sampled one by one (`vips_fast.accounting.group_event`) and may lie in any parts, which count in sequence here.
        Epsilon is inf without a guarantee.
        """
        if size == 1 and delta is None:
            return self.epsilon
        event = None if self.event is None else group_event(self.event, size)
        if self.taints or event is None:
            return math.inf if self.taints else 0.0
        return epsilon(event, self.share * (self.delta if delta is None else delta))

    def _several_records(self) -> str:
        """State the guarantee for several records of a person, if useful."""
        if self.unit != "record" or self.parts or self.event is None:
            return ""
        several = [self.for_group(size) for size in (2, 5, 10)]
        if math.isinf(several[-1]):
            return ""
        return " For someone who owns 2, 5 or 10 records, epsilon is {}, {} or {}.".format(*map(rounded_up, several))

    def _runs(self) -> str:
        """Say how all runs drew minibatches, and their noise."""
        texts: dict[str, int] = {}
        for run in self.runs:
            text = run.describe(self.unit, bool(self.parts))
            texts[text] = texts.get(text, 0) + run.releases
        if len(texts) == 1:
            return next(iter(texts))
        return "; ".join(f"{releases} of them: {text}" for text, releases in texts.items() if releases)

    def statement(self) -> str:
        """Say the guarantee in one paragraph; epsilon is never rounded down."""
        if self.taints:
            return "NOT PRIVATE: " + "; ".join(self.taints) + "."
        relation, how = self.relation.describe(self.unit), self._runs()
        fits = "this fit and each earlier one that it includes" if self.earlier_fit else "this fit alone"
        relation += f" of {self.numbers}"
        others = "fits to the same records add up"
        if self.paid_by is not None:
            others += f", and the budget of {self.paid_by} counts those that it pays for"
        assumed = resumed = ""
        if self.parts:
            # The total number of units in all parts is not known.
            relation += " in each run" + " by another of the same part" * (self.relation == Relation.REPLACE_ONE)
            assumed = (
                f" Each {self.unit} is assumed to lie in only one of the {len(self.parts)} parts; the program "
                "does not check this. The worst part decides epsilon."
            )
        if self.calls:
            why = "an odometer's" if self.calls == "odometer" else "a limit that was reserved before the first"
            assumed += f" Calls may depend on earlier releases: epsilon is {why}, and holds whenever they end."
        if self.event is not None and self.event.reuses_minibatches:
            how += ", drawn once with the data: account for their other releases together with this one"
        if self.lost:
            resumed = f" ({self.steps - self.lost} of steps that were done, {self.lost} of steps that were interrupted)"
        if self.shortened is not None:
            resumed += ", {} of {} planned steps, for which target and budget could pay".format(*self.shortened)
        columns, included = (
            ("", " The vocabulary is included.") if self.vocabulary else (", the vocabulary or the columns,", "")
        )
        if self.attack_success is not None:
            adds = self.relation == Relation.ADD_REMOVE
            included += f" {right_guesses(self.attack_success, self.unit, adds)}"
        return (
            f"({rounded_up(self.epsilon)}, {rounded_up(self.delta)})-differential privacy with respect to {relation}, "
            f"for {fits} ({others}): {counted(self.steps, 'release')}{resumed}, {how}, "
            f"accountant {self.accountant!r}."
            f"{assumed}{included}{self._several_records()} The number of {several(self.unit)}{columns} and "
            "all parameters are taken as public. The time that the fit took is not covered."
        )

    __str__ = statement

    def _repr_html_(self) -> str:
        from html import escape

        style = ' style="color: #a3130e; background: #fff; font-weight: bold"' if self.taints else ""
        return f"<p{style}>{escape(self.statement(), quote=False)}</p>"


_SAMPLINGS = {
    "poisson": "minibatches of {size:g} expected {units} (Poisson sampling)",
    "without_replacement": "minibatches of {size:g} {units} (without replacement)",
    "random_allocation": "each {unit} in one minibatch of an epoch, {size:g} expected {units} each (random allocation)",
    "full": "the whole data set in each step",
    "vocabulary": "the whole data set in each step",
}
