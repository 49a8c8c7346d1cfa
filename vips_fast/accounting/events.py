"""Privacy events: immutable descriptions of mechanisms that touched the data.

An event states a mechanism, how its minibatch was drawn, and the neighboring relation under which its noise
multiplier was computed. Accountants turn events into (epsilon, delta); events themselves compute nothing.

Poisson sampling and random allocation are analyzed under ``"add_remove"`` only and fixed-size sampling without
replacement under ``"replace_one"`` only. A composition of events of different relations has no meaning and is refused.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, NoReturn, cast

from .checks import MOST, count, noise_multiplier, non_negative, probability


class Relation(StrEnum):
    """A neighboring relation; members equal their names.

    The names are accepted in their place.

    >>> Relation("replace_one") == "replace_one"
    True
    >>> Relation.ADD_REMOVE.describe("patient")
    'adding or removing one patient'
    """

    #: One data set has one unit more than the other.
    ADD_REMOVE = "add_remove"
    #: Both have the same number of units, and one of them differs.
    REPLACE_ONE = "replace_one"

    def __repr__(self) -> str:
        return repr(self.value)

    def describe(self, unit: str = "record") -> str:
        """Say in words how neighbors differ, for a privacy unit by name."""
        return f"{'replacing' if self is Relation.REPLACE_ONE else 'adding or removing'} one {unit}"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """Refuse another name."""
        raise ValueError(f"relation={value!r}: expected {' or '.join(map(repr, cls))}")


def _stated(relation: str | None) -> Relation | None:
    return None if relation is None else Relation(relation)


def round_up_probability(numerator: int, denominator: int) -> float:
    """Find the smallest double >= numerator / denominator in [0, 1].

    It is meant for samplers that compare random bits with a threshold. A record is drawn with probability
    threshold / 2**64, and the accounted probability must not be smaller.
    """
    numerator = count("numerator", numerator, high=2**1000)
    denominator = count("denominator", denominator, low=1, high=2**1000)
    if numerator > denominator:
        raise ValueError(f"numerator={numerator}: expected an integer <= denominator = {denominator}")
    value = numerator / denominator
    top, bottom = value.as_integer_ratio()
    return math.nextafter(value, 2.0) if top * denominator < numerator * bottom else value


class PrivacyEvent:
    """Base class of all events, which are hashable, comparable and serialisable."""

    __slots__ = ()
    #: The value of the key "type" in the event's dictionary.
    kind: ClassVar[str]

    @property
    def relation(self) -> str | None:
        """The neighboring relation, a `Relation`, or None.

        The relation is not stated by a mechanism on the whole data whose noise multiplier may refer to either relation.
        """
        raise NotImplementedError

    def gaussian_mu_squared(self, repeats: int = 1) -> float | None:
        """Sum mu^2 of whole-data Gaussian mechanisms that bound `repeats` of this event; None if none do.

        To *bound* the event means: whatever was released before, its outputs are a function of theirs and of coins. So
        a filter or an odometer may count the event as these mechanisms. A type that does not say so has no such bound.
        """
        return None

    @property
    def reuses_minibatches(self) -> bool:
        """Whether releases outside this event may come from the same minibatches."""
        return False

    @property
    def n_steps(self) -> int:
        """Count the steps of a run that one such event covers."""
        return 1

    def split(self) -> "tuple[PrivacyEvent, int]":
        """Return an event and a number: so many adaptive repetitions of it are this event."""
        return self, 1

    def leaves(self) -> "dict[PrivacyEvent, int]":
        """Count each composed mechanism's repetitions."""
        found: dict[PrivacyEvent, int] = {}
        stack: list[tuple[PrivacyEvent, int]] = [(self, 1)]
        while stack:
            event, repeats = stack.pop()
            if repeats == 0:
                continue
            if isinstance(event, ComposedEvent):
                stack.extend((child, repeats) for child in reversed(event.events))
            elif isinstance(event, SelfComposedEvent):
                stack.append((event.event, repeats * event.count))
                if repeats * event.count > MOST:
                    raise ValueError(f"count: expected at most {MOST} repetitions in all")
            else:
                found[event] = found.get(event, 0) + repeats
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a JSON dictionary with a ``"type"`` key."""
        said: dict[str, Any] = {"type": self.kind}
        for name in _names(cast(Any, type(self))):
            value = getattr(self, name)
            if isinstance(value, PrivacyEvent):
                value = value.to_dict()
            said[name] = [event.to_dict() for event in value] if isinstance(value, tuple) else value
        return said

    def to_json(self) -> str:
        """Return canonical JSON: sorted keys, no spaces, the shortest floats that round-trip."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def with_relation(self, relation: str | None) -> "PrivacyEvent":
        """Return this event under `relation`; ValueError if it states another."""
        relation = _stated(relation)
        if self.relation == relation:
            return self
        if self.relation is not None:
            raise ValueError(
                f"the event {self.to_json()} states relation={self.relation!r}; relation={relation!r} was expected"
            )
        return self._stating(relation)

    def _stating(self, relation: str | None) -> "PrivacyEvent":
        return replace(self, relation=relation)  # type: ignore[type-var]  # every event is a dataclass

    def _set(self, **values: Any) -> None:
        """Store checked values while the event, which is frozen, is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class NonPrivateEvent(PrivacyEvent):
    """A release without any guarantee: every accountant answers infinity."""

    kind: ClassVar[str] = "non_private"
    relation: str | None = None

    def __post_init__(self) -> None:
        self._set(relation=_stated(self.relation))


@dataclass(frozen=True)
class _NoiseEvent(PrivacyEvent):
    """Noise added to a statistic of the whole data."""

    noise_multiplier: float
    relation: str | None = None

    def __post_init__(self) -> None:
        self._set(relation=_stated(self.relation), noise_multiplier=noise_multiplier(self.noise_multiplier))


class GaussianEvent(_NoiseEvent):
    """Gaussian mechanism on the whole data.

    `noise_multiplier` is the standard deviation of the noise over the L2 sensitivity under `relation`, > 0. Inside a
    sampled event, None becomes that event's relation; elsewhere it means that the relation is not stated.
    """

    kind: ClassVar[str] = "gaussian"

    def gaussian_mu_squared(self, repeats: int = 1) -> float | None:
        """Return 1 / noise_multiplier^2 for each: it is the bound itself."""
        return repeats / self.noise_multiplier**2


class LaplaceEvent(_NoiseEvent):
    """Laplace mechanism on the whole data; one release is (1 / noise_multiplier)-DP.

    `noise_multiplier` is the scale of the Laplace noise over the L1 sensitivity under `relation`. Otherwise it is as in
    `GaussianEvent`. The event is accounted as a shift of one coordinate by the whole sensitivity. Its epsilon and its
    Renyi divergences are never below their values for a shift spread over several coordinates. They are convex in
    the shift and 0 at 0. A numerical check shows the same for the whole profile.
    """

    kind: ClassVar[str] = "laplace"


@dataclass(frozen=True)
class RandomizedResponseEvent(PrivacyEvent):
    """K-ary randomized response by each individual.

    Of K = `n_categories` >= 2 categories the true one is reported with `truth_probability` p in [1 / K, 1). Each other
    one is reported with probability (1 - p) / (K - 1). The mechanism is local, so its relation is ``"replace_one"``:
    one individual's category is replaced. epsilon = ln(p (K - 1) / (1 - p)).
    """

    kind: ClassVar[str] = "randomized_response"
    truth_probability: float
    n_categories: int = 2
    relation: str | None = field(default=Relation.REPLACE_ONE, init=False)

    def __post_init__(self) -> None:
        k = count("n_categories", self.n_categories, low=2)
        p = probability("truth_probability", self.truth_probability)
        if not 1.0 / k <= p < 1.0:
            raise ValueError(f"truth_probability={p!r}: expected a number in [1/n_categories, 1) = [{1 / k!r}, 1)")
        self._set(n_categories=k, truth_probability=p)

    @property
    def epsilon(self) -> float:
        """The pure-DP epsilon of one response."""
        p = self.truth_probability
        return max(0.0, math.log(p) + math.log(self.n_categories - 1) - math.log1p(-p))


@dataclass(frozen=True)
class ApproximateDPEvent(PrivacyEvent):
    """A release known only by its (epsilon, delta) statement.

    Epsilon is >= 0, and delta in [0, 1]. It is accounted by its worst case (Kairouz, Oh & Viswanath 2015, section 4);
    `relation` is the statement's.
    """

    kind: ClassVar[str] = "approximate_dp"
    epsilon: float
    delta: float = 0.0
    relation: str | None = None

    def __post_init__(self) -> None:
        epsilon, delta = non_negative("epsilon", self.epsilon), probability("delta", self.delta)
        self._set(relation=_stated(self.relation), epsilon=epsilon, delta=delta)


def _check_sampled(event: PrivacyEvent, relation: Relation, outer: str) -> PrivacyEvent:
    """Return `event` under the relation of the sampled event `outer` around it.

    Several Gaussian releases of one minibatch are again one Gaussian mechanism; other compositions inside a sample
    have no closed form here and are refused.
    """
    composed = isinstance(check_event(event), (ComposedEvent, SelfComposedEvent))
    if not (composed and all(isinstance(leaf, GaussianEvent) for leaf in event.leaves()) or isinstance(event, _INSIDE)):
        raise ValueError(f"{outer} can hold one mechanism or a composition of Gaussian events, got {event.to_json()}")
    try:
        return event.with_relation(relation)
    except ValueError as error:
        raise ValueError(f"{outer} is accounted under relation={relation!r} only: {error}") from None


@dataclass(frozen=True)
class PoissonSampledEvent(PrivacyEvent):
    """A mechanism on a Poisson sample, under the relation ``"add_remove"``.

    Each record is in the sample with `sampling_probability`, independently. A sampler that compares random bits with a
    threshold must state the threshold's exact probability, rounded up (`round_up_probability`).
    """

    kind: ClassVar[str] = "poisson_sampled"
    sampling_probability: float
    event: PrivacyEvent
    relation: str | None = field(default=Relation.ADD_REMOVE, init=False)

    def __post_init__(self) -> None:
        rate = probability("sampling_probability", self.sampling_probability)
        self._set(
            sampling_probability=rate, event=_check_sampled(self.event, Relation.ADD_REMOVE, "PoissonSampledEvent")
        )

    def gaussian_mu_squared(self, repeats: int = 1) -> float | None:
        """Return the mechanism's bound on all the data.

        *Proof.* Tell which records were drawn. This is a coin, and given it the neighbors differ in the sample or not
        at all; the output is a function of what was told.
        """
        return self.event.gaussian_mu_squared(repeats)


@dataclass(frozen=True)
class WithoutReplacementEvent(PrivacyEvent):
    """A mechanism on a sample of fixed size, under the relation ``"replace_one"``.

    `sample_size` distinct records are drawn uniformly from a public number `n_records` >= 1 of them.
    """

    kind: ClassVar[str] = "without_replacement"
    sample_size: int
    n_records: int
    event: PrivacyEvent
    relation: str | None = field(default=Relation.REPLACE_ONE, init=False)

    def __post_init__(self) -> None:
        n = count("n_records", self.n_records, low=1)
        s = count("sample_size", self.sample_size)
        if s > n:
            raise ValueError(f"sample_size={s}: expected an integer <= n_records = {n}")
        inner = _check_sampled(self.event, Relation.REPLACE_ONE, "WithoutReplacementEvent")
        self._set(sample_size=s, n_records=n, event=inner)

    @property
    def sampling_probability(self) -> float:
        """sample_size / n_records, rounded up to a double."""
        return round_up_probability(self.sample_size, self.n_records)

    def gaussian_mu_squared(self, repeats: int = 1) -> float | None:
        """Return the mechanism's bound on all the data; *proof* as in `PoissonSampledEvent`."""
        return self.event.gaussian_mu_squared(repeats)


@dataclass(frozen=True)
class RandomAllocationEvent(PrivacyEvent):
    """Gaussian mechanisms on an epoch's minibatches, one for each unit.

    There are `n_epochs` >= 1 epochs; in an epoch every unit is in exactly one minibatch.

    Each unit goes to one of `n_batches` >= 1 minibatches of an epoch, uniformly and independently of the others. The
    relation is ``"add_remove"``, which the noise multiplier of `event` is for. `event` is applied to each minibatch
    once. A part of an epoch counts as all of it. The minibatches are drawn anew for each epoch, or with `reused` once
    for all. Then whatever else is released from the same minibatches, by other runs too, has to be composed with it in
    one event. Minibatches of another `n_batches` must have been drawn independently. Accountant ``"pld"`` bounds it;
    `privacy_loss.allocation` has the proofs.
    """

    kind: ClassVar[str] = "random_allocation"
    n_batches: int
    n_epochs: int
    event: PrivacyEvent
    reused: bool = False
    relation: str | None = field(default=Relation.ADD_REMOVE, init=False)

    def __post_init__(self) -> None:
        inner = _check_sampled(self.event, Relation.ADD_REMOVE, "RandomAllocationEvent")
        if not inner.leaves() or not all(isinstance(part, GaussianEvent) for part in inner.leaves()):
            raise ValueError(f"RandomAllocationEvent holds Gaussian events only, got {inner.to_json()}")
        if not isinstance(self.reused, bool):
            raise TypeError(f"reused must be True or False, got {self.reused!r}")
        self._set(
            n_batches=count("n_batches", self.n_batches, low=1),
            n_epochs=count("n_epochs", self.n_epochs, low=1),
            event=inner,
        )

    def gaussian_mu_squared(self, repeats: int = 1) -> float | None:
        """Return the bound of one release an epoch.

        *Proof.* Tell which minibatch each unit is in: coins, drawn anew or not. The neighbors then differ in one
        release of each epoch, by one unit.
        """
        return self.event.gaussian_mu_squared(repeats * self.n_epochs)

    @property
    def reuses_minibatches(self) -> bool:
        return self.reused

    @property
    def n_steps(self) -> int:
        return self.n_batches * self.n_epochs

    def split(self) -> tuple[PrivacyEvent, int]:
        # Epochs with the same minibatches are one mechanism.
        return (self, 1) if self.reused else (replace(self, n_epochs=1), self.n_epochs)


@dataclass(frozen=True)
class GroupEvent(PrivacyEvent):
    """A sampled Gaussian mechanism, seen by a person with several records.

    The person has up to `size` >= 1 of the records.

    Its relation is the one of `event` with "all records of one person" for "one record": they are added or removed, or
    replaced. Rows are sampled, or dealt to minibatches, each by itself, as `event` says. Each contributes with the
    sensitivity that the noise multiplier of `event` refers to. `group_event` makes such events from others. Accountant
    ``"pld"`` bounds them, exactly for Poisson sampling; `privacy_loss.rows` has the proofs.
    """

    kind: ClassVar[str] = "group"
    event: PoissonSampledEvent | WithoutReplacementEvent | RandomAllocationEvent
    size: int

    def __post_init__(self) -> None:
        kinds = (PoissonSampledEvent, WithoutReplacementEvent, RandomAllocationEvent)
        sampled = isinstance(check_event(self.event), kinds)
        if not sampled or not all(isinstance(part, GaussianEvent) for part in self.event.event.leaves()):
            raise ValueError(f"GroupEvent holds a sampled Gaussian event, got {self.event.to_json()}; use group_event")
        if isinstance(self.event, RandomAllocationEvent):
            some = self.event.n_batches > 1
        else:
            some = 0.0 < self.event.sampling_probability < 1.0
        if not some:
            raise ValueError("GroupEvent holds samples that are neither empty nor all the data; use group_event")
        self._set(size=count("size", self.size, low=1))

    @property
    def relation(self) -> str | None:
        return self.event.relation

    def gaussian_mu_squared(self, repeats: int = 1) -> float | None:
        """Return size^2 times the bound for one record.

        *Proof.* Tell where all rows are: coins. The neighbors then differ in c_i of the person's rows in release i,
        with sum c_i <= `size` an epoch or step. So they are at most c_i / noise_multiplier apart there, and sum c_i^2
        <= size^2.
        """
        known = self.event.gaussian_mu_squared(repeats)
        return None if known is None else self.size**2 * known

    @property
    def reuses_minibatches(self) -> bool:
        return self.event.reuses_minibatches

    @property
    def n_steps(self) -> int:
        return self.event.n_steps


class _Composition(PrivacyEvent):
    """What compositions have in common: they are their leaves."""

    __slots__ = ()

    def gaussian_mu_squared(self, repeats: int = 1) -> float | None:
        """Add up the bounds of the parts; None if a part has none."""
        parts = [leaf.gaussian_mu_squared(repeats * count) for leaf, count in self.leaves().items()]
        known = [square for square in parts if square is not None]
        return math.fsum(known) if len(known) == len(parts) else None

    @property
    def reuses_minibatches(self) -> bool:
        return any(leaf.reuses_minibatches for leaf in self.leaves())


@dataclass(frozen=True)
class ComposedEvent(_Composition):
    """Adaptive composition of events of one relation, on the same records."""

    kind: ClassVar[str] = "composed"
    events: Sequence[PrivacyEvent]

    def __post_init__(self) -> None:
        events = tuple(self.events)
        for event in events:
            if not isinstance(event, PrivacyEvent):
                raise TypeError(f"events must hold privacy events, got {type(event).__name__}")
            if event.relation != events[0].relation:
                raise ValueError(
                    "events of different neighboring relations cannot be composed: "
                    f"found relation={events[0].relation!r} and relation={event.relation!r}; "
                    "state the same relation in every event"
                )
        self._set(events=events)

    @property
    def relation(self) -> str | None:
        return self.events[0].relation if self.events else None

    def _stating(self, relation: str | None) -> PrivacyEvent:
        return ComposedEvent(tuple(event.with_relation(relation) for event in self.events))


@dataclass(frozen=True)
class SelfComposedEvent(_Composition):
    """`count` >= 0 adaptive repetitions of one event on the same records."""

    kind: ClassVar[str] = "self_composed"
    event: PrivacyEvent
    count: int

    def __post_init__(self) -> None:
        check_event(self.event)
        self._set(count=count("count", self.count))

    @property
    def relation(self) -> str | None:
        return self.event.relation

    def _stating(self, relation: str | None) -> PrivacyEvent:
        return SelfComposedEvent(self.event.with_relation(relation), self.count)


def check_event(event: PrivacyEvent) -> PrivacyEvent:
    """Return `event`; raise TypeError if it is not one."""
    if not isinstance(event, PrivacyEvent):
        raise TypeError(f"event={type(event).__name__}: expected a privacy event")
    return event


def rate_and_mechanism(leaf: PrivacyEvent) -> tuple[float, PrivacyEvent]:
    """Split a leaf into sampling probability and mechanism; 1 for whole data."""
    if isinstance(leaf, (PoissonSampledEvent, WithoutReplacementEvent)):
        return leaf.sampling_probability, leaf.event
    return 1.0, leaf


def touching_leaves(event: PrivacyEvent) -> dict[PrivacyEvent, int]:
    """Return `PrivacyEvent.leaves` without those whose sample is always empty."""
    return {leaf: repeats for leaf, repeats in event.leaves().items() if rate_and_mechanism(leaf)[0] > 0.0}


def gaussian_mu_squared(event: PrivacyEvent, count: int = 1) -> float:
    """Return `PrivacyEvent.gaussian_mu_squared`; ValueError, with the type, if no Gaussian mechanism bounds it."""
    found = event.gaussian_mu_squared(count)
    if found is None:
        kinds = sorted({leaf.kind for leaf in event.leaves() if leaf.gaussian_mu_squared() is None})
        raise ValueError(
            f"no Gaussian mechanism is known to bound {', '.join(kinds)}: expected Gaussian mechanisms, on all the "
            "data or on samples"
        )
    return found


#: Events that no sample can hold, and those that one can.
_OUTERMOST: Any = (PoissonSampledEvent, WithoutReplacementEvent, RandomAllocationEvent, GroupEvent)
_INSIDE: Any = (NonPrivateEvent, GaussianEvent, LaplaceEvent, RandomizedResponseEvent, ApproximateDPEvent)
_KINDS: dict[str, Any] = {cls.kind: cls for cls in (*_INSIDE, *_OUTERMOST, ComposedEvent, SelfComposedEvent)}


@cache
def _names(cls: Any) -> list[str]:
    """Return the names of the arguments of an event's class."""
    return [item.name for item in fields(cls) if item.init]


def event_from_dict(data: Any) -> PrivacyEvent:
    """Return the event that `PrivacyEvent.to_dict` described.

    Raises TypeError or ValueError if `data` is not such a dictionary: unknown type, missing or extra keys, or values
    that the event refuses.
    """
    if not isinstance(data, dict):
        raise TypeError(f"an event must be a dictionary, got {type(data).__name__}")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"unknown event type {kind!r}; expected one of {sorted(_KINDS)}")
    names = _names(_KINDS[kind])
    if set(data) != {"type", *names}:
        raise ValueError(
            f"an event of type {kind!r} has the keys {sorted(('type', *names))}, got {sorted(map(str, data))}"
        )
    values = {name: data[name] for name in names}
    if "event" in values:
        values["event"] = event_from_dict(values["event"])
    if "events" in values:
        if not isinstance(values["events"], (list, tuple)):
            raise TypeError("events must be a list")
        values["events"] = tuple(event_from_dict(item) for item in values["events"])
    event: PrivacyEvent = _KINDS[kind](**values)
    return event
