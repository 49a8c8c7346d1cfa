"""Privacy events: immutable descriptions of what touched the data.

An event states a mechanism, how its minibatch was drawn, and the
neighbouring relation under which its noise multiplier was computed.
Accountants turn events into (epsilon, delta); events themselves compute
nothing.

Neighbouring relations
----------------------
``"add_remove"``
    Neighbours differ by adding or removing one record.
``"replace_one"``
    Neighbours have the same number of records and differ in one of them.

Poisson sampling is analysed under ``"add_remove"`` only and fixed-size
sampling without replacement under ``"replace_one"`` only.  A composition of
events of different relations has no meaning and is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Real

__all__ = [
    "ADD_REMOVE",
    "REPLACE_ONE",
    "ApproximateDPEvent",
    "ComposedEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "NonPrivateEvent",
    "PoissonSampledEvent",
    "PrivacyEvent",
    "RandomizedResponseEvent",
    "SelfComposedEvent",
    "WithoutReplacementEvent",
    "event_from_dict",
    "event_from_json",
    "round_up_probability",
]

ADD_REMOVE = "add_remove"
REPLACE_ONE = "replace_one"
_RELATIONS = (ADD_REMOVE, REPLACE_ONE)


def _positive(name: str, value: Real) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    value = float(value)
    if not (value > 0.0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return value


def _probability(name: str, value: Real) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    value = float(value)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
    return value


def _count(name: str, value: Integral, minimum: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    value = int(value)
    if value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")
    return value


def round_up_probability(numerator: int, denominator: int) -> float:
    """The smallest double >= numerator / denominator, a ratio in [0, 1].

    For samplers that compare random bits with a threshold: a record is drawn
    with probability threshold / 2**64, and the accounted probability must not
    be smaller.
    """
    numerator = _count("numerator", numerator)
    denominator = _count("denominator", denominator, 1)
    if numerator > denominator:
        raise ValueError(f"numerator must be <= denominator = {denominator}, got {numerator}")
    exact = Fraction(numerator, denominator)
    value = numerator / denominator
    return math.nextafter(value, 2.0) if Fraction(value) < exact else value


def _relation(value: str | None) -> str | None:
    if value is not None and value not in _RELATIONS:
        raise ValueError(
            f"neighbors must be 'add_remove', 'replace_one' or None, got {value!r}"
        )
    return value


class PrivacyEvent:
    """Base of all events: hashable, comparable, serialisable.

    ``neighbors`` is the relation of the event: ``"add_remove"``,
    ``"replace_one"``, or None where the event does not state it (a mechanism
    on the whole data whose noise multiplier may refer to either relation).
    """

    __slots__ = ()
    neighbors: str | None

    def to_dict(self) -> dict:
        """The event as a dictionary of JSON values with a ``"type"`` key."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, shortest round-trip floats."""
        return json.dumps(
            self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False
        )

    def with_neighbors(self, neighbors: str) -> PrivacyEvent:
        """This event with its unstated relation fixed to `neighbors`.

        Raises
        ------
        ValueError
            If the event already states another relation.
        """
        neighbors = _relation(neighbors)
        if self.neighbors == neighbors:
            return self
        raise ValueError(
            f"the event {self.to_json()} states neighbors={self.neighbors!r}; "
            f"neighbors={neighbors!r} was expected"
        )


@dataclass(frozen=True)
class NonPrivateEvent(PrivacyEvent):
    """A release without any guarantee: every accountant answers infinity."""

    neighbors: str | None = None

    def __post_init__(self) -> None:
        _relation(self.neighbors)

    def to_dict(self) -> dict:
        return {"type": "non_private", "neighbors": self.neighbors}

    def with_neighbors(self, neighbors: str) -> PrivacyEvent:
        if self.neighbors is None:
            return NonPrivateEvent(_relation(neighbors))
        return super().with_neighbors(neighbors)


@dataclass(frozen=True)
class GaussianEvent(PrivacyEvent):
    """Gaussian mechanism on the whole data.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the L2 sensitivity under
        `neighbors`; > 0.
    neighbors : {"add_remove", "replace_one"} or None
        The relation of that sensitivity.  None takes the relation of a
        surrounding sampled event, and is "not stated" elsewhere.
    """

    noise_multiplier: float
    neighbors: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "noise_multiplier", _positive("noise_multiplier", self.noise_multiplier)
        )
        _relation(self.neighbors)

    def to_dict(self) -> dict:
        return {
            "type": "gaussian",
            "noise_multiplier": self.noise_multiplier,
            "neighbors": self.neighbors,
        }

    def with_neighbors(self, neighbors: str) -> PrivacyEvent:
        if self.neighbors is None:
            return GaussianEvent(self.noise_multiplier, _relation(neighbors))
        return super().with_neighbors(neighbors)


@dataclass(frozen=True)
class LaplaceEvent(PrivacyEvent):
    """Laplace mechanism on the whole data.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the Laplace noise over the L1 sensitivity under `neighbors`;
        one release is (1 / noise_multiplier)-DP.
    neighbors : {"add_remove", "replace_one"} or None
        As in `GaussianEvent`.

    Notes
    -----
    Accounted as a shift of one coordinate by the whole sensitivity. Its
    epsilon and its Renyi divergences are never below those of a shift spread
    over several coordinates (they are convex in the shift and 0 at 0); that
    the same holds for the whole profile is checked numerically.
    """

    noise_multiplier: float
    neighbors: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "noise_multiplier", _positive("noise_multiplier", self.noise_multiplier)
        )
        _relation(self.neighbors)

    def to_dict(self) -> dict:
        return {
            "type": "laplace",
            "noise_multiplier": self.noise_multiplier,
            "neighbors": self.neighbors,
        }

    def with_neighbors(self, neighbors: str) -> PrivacyEvent:
        if self.neighbors is None:
            return LaplaceEvent(self.noise_multiplier, _relation(neighbors))
        return super().with_neighbors(neighbors)


@dataclass(frozen=True)
class RandomizedResponseEvent(PrivacyEvent):
    """K-ary randomised response by each individual.

    Parameters
    ----------
    truth_probability : float
        Probability that the reported category is the true one, in
        [1 / n_categories, 1).  Each of the other categories is reported with
        probability (1 - truth_probability) / (n_categories - 1).
    n_categories : int
        Number of categories K >= 2.

    Notes
    -----
    A local mechanism: its relation is ``"replace_one"`` (one individual's
    category is replaced).  epsilon = ln(p (K - 1) / (1 - p)).
    """

    truth_probability: float
    n_categories: int = 2
    neighbors: str | None = field(default=REPLACE_ONE, init=False)

    def __post_init__(self) -> None:
        k = _count("n_categories", self.n_categories, 2)
        p = _probability("truth_probability", self.truth_probability)
        if not 1.0 / k <= p < 1.0:
            raise ValueError(
                f"truth_probability must be in [1/n_categories, 1) = [{1 / k!r}, 1), got {p!r}"
            )
        object.__setattr__(self, "n_categories", k)
        object.__setattr__(self, "truth_probability", p)

    @property
    def epsilon(self) -> float:
        """The pure-DP epsilon of one response."""
        p = self.truth_probability
        return max(0.0, math.log(p) + math.log(self.n_categories - 1) - math.log1p(-p))

    def to_dict(self) -> dict:
        return {
            "type": "randomized_response",
            "truth_probability": self.truth_probability,
            "n_categories": self.n_categories,
        }


@dataclass(frozen=True)
class ApproximateDPEvent(PrivacyEvent):
    """A release known only to be (epsilon, delta)-DP, from elsewhere.

    Accounted by its worst case (Kairouz, Oh & Viswanath 2015, section 4).

    Parameters
    ----------
    epsilon : float
        >= 0.
    delta : float
        In [0, 1].
    neighbors : {"add_remove", "replace_one"} or None
        The relation of the statement.
    """

    epsilon: float
    delta: float = 0.0
    neighbors: str | None = None

    def __post_init__(self) -> None:
        eps = self.epsilon
        if isinstance(eps, bool) or not isinstance(eps, Real):
            raise TypeError(f"epsilon must be a real number, got {eps!r}")
        eps = float(eps)
        if not (eps >= 0.0 and math.isfinite(eps)):
            raise ValueError(f"epsilon must be a finite number >= 0, got {eps!r}")
        object.__setattr__(self, "epsilon", eps)
        object.__setattr__(self, "delta", _probability("delta", self.delta))
        _relation(self.neighbors)

    def to_dict(self) -> dict:
        return {
            "type": "approximate_dp",
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbors": self.neighbors,
        }

    def with_neighbors(self, neighbors: str) -> PrivacyEvent:
        if self.neighbors is None:
            return ApproximateDPEvent(self.epsilon, self.delta, _relation(neighbors))
        return super().with_neighbors(neighbors)


def _samplable(event: PrivacyEvent) -> bool:
    """Whether sampling can be accounted around `event`.

    Several Gaussian releases of one minibatch are again one Gaussian
    mechanism; other compositions inside a sample have no closed form here.
    """
    if isinstance(event, (GaussianEvent, LaplaceEvent, NonPrivateEvent)):
        return True
    if isinstance(event, (RandomizedResponseEvent, ApproximateDPEvent)):
        return True
    if isinstance(event, (ComposedEvent, SelfComposedEvent)):
        return all(isinstance(leaf, GaussianEvent) for leaf, _ in event.leaves())
    return False


def _check_inner(event: PrivacyEvent, neighbors: str, outer: str) -> PrivacyEvent:
    if not isinstance(event, PrivacyEvent):
        raise TypeError(f"event must be a privacy event, got {type(event).__name__}")
    if not _samplable(event):
        raise ValueError(
            f"{outer} can hold one mechanism or a composition of Gaussian events, "
            f"got {event.to_json()}"
        )
    try:
        return event.with_neighbors(neighbors)
    except ValueError as error:
        raise ValueError(f"{outer} is accounted under neighbors={neighbors!r} only: {error}") from None


@dataclass(frozen=True)
class PoissonSampledEvent(PrivacyEvent):
    """A mechanism on a Poisson sample; relation ``"add_remove"``.

    Parameters
    ----------
    sampling_probability : float
        Each record is in the sample with this probability, independently.
        A sampler that compares random bits with a threshold must state the
        threshold's exact probability rounded up (`round_up_probability`).
    event : PrivacyEvent
        The mechanism on the sample, its noise multiplier under
        ``"add_remove"``.
    """

    sampling_probability: float
    event: PrivacyEvent
    neighbors: str | None = field(default=ADD_REMOVE, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "sampling_probability",
            _probability("sampling_probability", self.sampling_probability),
        )
        object.__setattr__(
            self, "event", _check_inner(self.event, ADD_REMOVE, "PoissonSampledEvent")
        )

    def to_dict(self) -> dict:
        return {
            "type": "poisson_sampled",
            "sampling_probability": self.sampling_probability,
            "event": self.event.to_dict(),
        }


@dataclass(frozen=True)
class WithoutReplacementEvent(PrivacyEvent):
    """A mechanism on a fixed-size sample; relation ``"replace_one"``.

    Parameters
    ----------
    sample_size : int
        Number S of distinct records drawn uniformly, 0 <= S <= n_records.
    n_records : int
        Number of records, >= 1; public under ``"replace_one"``.
    event : PrivacyEvent
        The mechanism on the sample, its noise multiplier under
        ``"replace_one"``.
    """

    sample_size: int
    n_records: int
    event: PrivacyEvent
    neighbors: str | None = field(default=REPLACE_ONE, init=False)

    def __post_init__(self) -> None:
        n = _count("n_records", self.n_records, 1)
        s = _count("sample_size", self.sample_size, 0)
        if s > n:
            raise ValueError(f"sample_size must be <= n_records = {n}, got {s}")
        object.__setattr__(self, "sample_size", s)
        object.__setattr__(self, "n_records", n)
        object.__setattr__(
            self, "event", _check_inner(self.event, REPLACE_ONE, "WithoutReplacementEvent")
        )

    @property
    def sampling_probability(self) -> float:
        """sample_size / n_records, rounded up to a double."""
        return round_up_probability(self.sample_size, self.n_records)

    def to_dict(self) -> dict:
        return {
            "type": "without_replacement",
            "sample_size": self.sample_size,
            "n_records": self.n_records,
            "event": self.event.to_dict(),
        }


def _common_relation(events: Iterable[PrivacyEvent]) -> str | None:
    relation: str | None = None
    first = True
    for event in events:
        if first:
            relation, first = event.neighbors, False
        elif event.neighbors != relation:
            raise ValueError(
                "events of different neighbouring relations cannot be composed: "
                f"found neighbors={relation!r} and neighbors={event.neighbors!r}; "
                "state the same neighbors in every event"
            )
    return relation


@dataclass(frozen=True)
class ComposedEvent(PrivacyEvent):
    """Adaptive composition of events on the same records.

    Parameters
    ----------
    events : sequence of PrivacyEvent
        In any order; all of the same neighbouring relation.
    """

    events: tuple[PrivacyEvent, ...]

    def __post_init__(self) -> None:
        events = tuple(self.events)
        for event in events:
            if not isinstance(event, PrivacyEvent):
                raise TypeError(
                    f"events must hold privacy events, got {type(event).__name__}"
                )
        object.__setattr__(self, "events", events)
        _common_relation(events)

    @property
    def neighbors(self) -> str | None:
        return self.events[0].neighbors if self.events else None

    def leaves(self) -> Iterator[tuple[PrivacyEvent, int]]:
        """The composed mechanisms and how often each is repeated."""
        return iter(_leaves(self).items())

    def to_dict(self) -> dict:
        return {"type": "composed", "events": [e.to_dict() for e in self.events]}

    def with_neighbors(self, neighbors: str) -> PrivacyEvent:
        return ComposedEvent(tuple(e.with_neighbors(neighbors) for e in self.events))


@dataclass(frozen=True)
class SelfComposedEvent(PrivacyEvent):
    """`count` adaptive repetitions of one event on the same records.

    Parameters
    ----------
    event : PrivacyEvent
    count : int
        >= 0.
    """

    event: PrivacyEvent
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.event, PrivacyEvent):
            raise TypeError(f"event must be a privacy event, got {type(self.event).__name__}")
        object.__setattr__(self, "count", _count("count", self.count))

    @property
    def neighbors(self) -> str | None:
        return self.event.neighbors

    def leaves(self) -> Iterator[tuple[PrivacyEvent, int]]:
        """The composed mechanisms and how often each is repeated."""
        return iter(_leaves(self).items())

    def to_dict(self) -> dict:
        return {
            "type": "self_composed",
            "event": self.event.to_dict(),
            "count": self.count,
        }

    def with_neighbors(self, neighbors: str) -> PrivacyEvent:
        return SelfComposedEvent(self.event.with_neighbors(neighbors), self.count)


def _leaves(event: PrivacyEvent) -> dict[PrivacyEvent, int]:
    """Flatten compositions: each distinct mechanism with its total count."""
    out: dict[PrivacyEvent, int] = {}
    stack: list[tuple[PrivacyEvent, int]] = [(event, 1)]
    while stack:
        item, count = stack.pop()
        if count == 0:
            continue
        if isinstance(item, ComposedEvent):
            stack.extend((child, count) for child in reversed(item.events))
        elif isinstance(item, SelfComposedEvent):
            stack.append((item.event, count * item.count))
        else:
            out[item] = out.get(item, 0) + count
    return out


_FIELDS = {
    "non_private": (NonPrivateEvent, ("neighbors",)),
    "gaussian": (GaussianEvent, ("noise_multiplier", "neighbors")),
    "laplace": (LaplaceEvent, ("noise_multiplier", "neighbors")),
    "randomized_response": (RandomizedResponseEvent, ("truth_probability", "n_categories")),
    "approximate_dp": (ApproximateDPEvent, ("epsilon", "delta", "neighbors")),
    "poisson_sampled": (PoissonSampledEvent, ("sampling_probability", "event")),
    "without_replacement": (WithoutReplacementEvent, ("sample_size", "n_records", "event")),
    "composed": (ComposedEvent, ("events",)),
    "self_composed": (SelfComposedEvent, ("event", "count")),
}


def event_from_dict(data: dict) -> PrivacyEvent:
    """The event that `PrivacyEvent.to_dict` described.

    Raises
    ------
    TypeError, ValueError
        If `data` is not such a dictionary: unknown type, missing or extra
        keys, or values that the event refuses.
    """
    if not isinstance(data, dict):
        raise TypeError(f"an event must be a dictionary, got {type(data).__name__}")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise ValueError(f"unknown event type {kind!r}; expected one of {sorted(_FIELDS)}")
    cls, names = _FIELDS[kind]
    if set(data) != {"type", *names}:
        raise ValueError(
            f"an event of type {kind!r} has the keys {sorted(('type', *names))}, "
            f"got {sorted(map(str, data))}"
        )
    kwargs = {name: data[name] for name in names}
    if "event" in kwargs:
        kwargs["event"] = event_from_dict(kwargs["event"])
    if "events" in kwargs:
        if not isinstance(kwargs["events"], (list, tuple)):
            raise TypeError("events must be a list")
        kwargs["events"] = tuple(event_from_dict(item) for item in kwargs["events"])
    return cls(**kwargs)


def event_from_json(text: str) -> PrivacyEvent:
    """The event that `PrivacyEvent.to_json` described."""
    return event_from_dict(json.loads(text))
