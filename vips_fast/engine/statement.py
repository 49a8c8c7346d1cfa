"""The guarantee of a ledger, in numbers and in words."""

import math
from dataclasses import dataclass, field
from html import escape

from ..accounting import PrivacyEvent, Relation, RepeatAndSelectEvent, epsilon, group_event, pure_epsilon, rounded_up
from .ledger import Ledger


@dataclass(frozen=True)
class Privacy:
    """The spent privacy of a fit and its guarantee; always computed from a ledger.

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
    noise_multiplier : float
        Noise standard deviation over the L2 sensitivity, in the last run.
    sampling : str
        How minibatches were drawn.
    batch_size : float
        (Expected) size of a minibatch.
    n_records : int
        Public number of records; with parts, of the last run's part.
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
    event : PrivacyEvent or None
        All releases in sequence; None for none.
    vocabulary : bool
        Whether a vocabulary purchase from the same records is included.
    rows_per_unit : int or None
        Most rows of a unit in the last run, if it drew rows one by one; ``n_records``, ``batch_size`` and the noise
        multiplier are then about rows. None if it drew units.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import LatentDirichletAllocation, Privacy
    >>> model = LatentDirichletAllocation(2, doc_length=20, target_epsilon=1.0, n_steps=3)
    >>> privacy = model.fit(np.ones((100, 4), dtype=int)).privacy_
    >>> privacy.private, privacy.epsilon <= 1.0, privacy.delta, privacy.unit
    (True, True, 1e-05, 'record')
    >>> privacy.for_group(2) > privacy.epsilon  # of somebody who wrote two of the documents
    True
    >>> print(privacy.statement())
    (..., 1e-05)-differential privacy with respect to adding or removing one record of 100: 3 releases, ...
    >>> Privacy.of(model.ledger_) == privacy
    True
    """

    epsilon: float
    delta: float
    relation: Relation
    unit: str
    accountant: str
    steps: int
    noise_multiplier: float
    sampling: str
    batch_size: float
    n_records: int
    taints: tuple[str, ...] = ()
    lost: int = 0
    shortened: tuple[int, int] | None = None
    parts: tuple[str, ...] = ()
    event: PrivacyEvent | None = field(default=None, repr=False)
    vocabulary: bool = False
    rows_per_unit: int | None = None

    @classmethod
    def of(cls, ledger: Ledger) -> "Privacy":
        """Compute the statement of a ledger, at the delta of its last run.

        Raises ValueError if the ledger has no run, or the numbers of its last run are not usable.
        """
        plan = ledger.plan
        if plan is None:
            raise ValueError("ledger: it has no run to speak of")
        try:
            delta, relation, sampling = float(plan["delta"]), Relation(plan["relation"]), plan["sampling"]
            unit, n_records = str(plan["unit"]), int(plan["n_records"])
            noise_multiplier, batch_size = float(plan["noise_multiplier"]), float(plan["batch_size"])
            rows_per_unit = int(plan["rows_per_unit"]) if "rows_per_unit" in plan else None
            if sampling not in _SAMPLINGS or not 0 < delta < 1:
                raise ValueError
        except (KeyError, TypeError, ValueError):
            raise ValueError("ledger: the plan of its last run is malformed") from None
        event = ledger.event()
        if event is not None and event.relation != relation:
            raise ValueError("ledger: its releases are of another neighbouring relation than its plan")
        return cls(
            epsilon=ledger.epsilon(delta) if ledger.private else math.inf,
            delta=delta,
            relation=relation,
            unit=unit,
            accountant=ledger.accountant() or "none",
            steps=len(ledger),
            noise_multiplier=noise_multiplier,
            sampling=sampling,
            batch_size=batch_size,
            n_records=n_records,
            taints=ledger.taints,
            lost=ledger.lost,
            shortened=ledger.shortened,
            parts=ledger.parts,
            event=event,
            vocabulary=any(plan["sampling"] == "vocabulary" or "prior" in plan for plan in ledger.plans),
            rows_per_unit=rows_per_unit,
        )

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
        if delta is None and self.delta == 0.0:
            return pure_epsilon(event)
        return epsilon(event, self.delta if delta is None else delta)

    @property
    def selections(self) -> tuple[RepeatAndSelectEvent, ...]:
        """The selections among runs (`vips_fast.models.search`) that it includes; mostly empty."""
        leaves = () if self.event is None else self.event.leaves()
        return tuple(leaf for leaf in leaves if isinstance(leaf, RepeatAndSelectEvent))

    def _owners(self) -> str:
        """Say the guarantee for several records of a person; empty if that is not useful."""
        if self.unit != "record" or self.parts or self.event is None:
            return ""
        if self.selections and self.relation == Relation.REPLACE_ONE:
            # No Renyi divergence of several records in samples of a fixed size is known here.
            return ""
        several = [self.for_group(size) for size in (2, 5, 10)]
        if math.isinf(several[-1]):
            return ""
        return " Who owns 2, 5 or 10 of the records: epsilon {}, {} or {}.".format(*map(rounded_up, several))

    def statement(self) -> str:
        """Say the guarantee in one paragraph; epsilon is never rounded down."""
        if self.taints:
            return "NOT PRIVATE: " + "; ".join(self.taints) + "."
        counted = self.unit if self.rows_per_unit is None else "row"
        relation = self.relation.describe(self.unit)
        relation += f" of {self.n_records}" if counted == self.unit else f" with all rows, among {self.n_records} rows"
        how = _SAMPLINGS[self.sampling].format(size=self.batch_size, unit=self.unit, rows=self.rows_per_unit)
        assumed = resumed = ""
        if self.parts:
            # The total number of units in all parts is not known.
            same = " by another of the same part" if self.relation == Relation.REPLACE_ONE else ""
            relation, how = f"{relation} in the last run{same}", "all of a part, or of the data set, in each step"
            assumed = (
                f" Assumed: each {self.unit} lies in one part only: {len(self.parts)} parts; not checked by the "
                "program. Epsilon is that of the worst part."
            )
        if any(getattr(leaf, "reused", False) for leaf in (self.event.leaves() if self.event else ())):
            how += ", drawn once with the data: what else is released of them is to be accounted for together with this"
        if self.lost:
            resumed = f" ({self.steps - self.lost} of steps that were done, {self.lost} of steps that were interrupted)"
        if self.shortened is not None:
            resumed += ", {} of {} planned steps, for which target and budget could pay".format(*self.shortened)
        columns, included = (
            ("", " The vocabulary is included.") if self.vocabulary else (", the vocabulary or the columns,", "")
        )
        released = f"{self.steps} releases"
        for selection in self.selections:
            runs = sum(selection.event.leaves().values())
            resumed += f"the best of a random number (mean {selection.mean:g}) of runs of {runs} releases each"
            released, resumed = ("1 release, ", resumed) if self.steps == 1 else (released, f", one of them {resumed}")
            included += " All runs that it was the best of are included; neither they nor their number are published."
        return (
            f"({rounded_up(self.epsilon)}, {rounded_up(self.delta)})-differential privacy with respect to {relation}: "
            f"{released}{resumed}, {how}, noise multiplier {self.noise_multiplier:.4g}, "
            f"accountant {self.accountant!r}.{assumed}{included}{self._owners()} The number of {counted}s{columns} "
            "and all parameters are taken as public. The time that the fit took is not covered."
        )

    __str__ = statement

    def _repr_html_(self) -> str:
        style = ' style="color: #a3130e; background: #fff; font-weight: bold"' if self.taints else ""
        return f"<p{style}>{escape(self.statement(), quote=False)}</p>"


_SAMPLINGS = {
    "poisson": "minibatches of {size:g} expected {unit}s (Poisson sampling)",
    "without_replacement": "minibatches of {size:g} {unit}s (without replacement)",
    "random_allocation": "each {unit} in one minibatch of an epoch, {size:g} expected {unit}s each (random allocation)",
    "full": "the whole data set in each step",
    "rows": "minibatches of {size:g} expected rows (each drawn and clipped by itself, at most {rows} of a {unit})",
    "vocabulary": "the whole data set in each step",
}
