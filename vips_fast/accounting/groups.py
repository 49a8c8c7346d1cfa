"""Make events of several records, for a person with up to k."""

import math

from .checks import count
from .events import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    check_event,
    rate_and_mechanism,
)
from .privacy_loss.dominating import pairs


def group_event(event: PrivacyEvent, size: int) -> PrivacyEvent:
    """Turn an event about one record into one about up to `size`.

    Records are sampled independently of their persons. All records of the person are added or removed, or replaced, as
    one record is in the relation of `event`. Epsilon and calibration then hold for persons:
    ``calibrate_noise_multiplier(lambda z: group_event(run(z), 5), ...)``.

    Notes
    -----
    - Whole-data Gaussian and Laplace mechanisms: the sensitivity is `size` times as large (triangle inequality).
    - Sampled Gaussian mechanisms: `GroupEvent`; for a `GroupEvent`, its size times `size`.
    - Other mechanisms, if one release is (epsilon, delta)-private. With k = `size` neighbors on the way from one data
      set to the other, it is (k epsilon, delta sum_{i < k} e^(i epsilon)) (Vadhan 2017, lemma 2.2).
    - Compositions: part by part, since a bound for a part holds for all earlier releases.
    """
    size = count("size", size, low=1)
    check_event(event)
    if size == 1:
        return event
    if isinstance(event, ComposedEvent):
        return ComposedEvent(tuple(group_event(part, size) for part in event.events))
    if isinstance(event, SelfComposedEvent):
        return SelfComposedEvent(group_event(event.event, size), event.count)
    if isinstance(event, GroupEvent):
        return GroupEvent(event.event, event.size * size)
    rate, mechanism = rate_and_mechanism(event)
    if rate == 0.0 or isinstance(mechanism, NonPrivateEvent):
        return event
    if rate == 1.0 and mechanism is not event:
        return group_event(mechanism, size)
    if isinstance(event, (GaussianEvent, LaplaceEvent)):
        return type(event)(event.noise_multiplier / size, event.relation)
    if isinstance(event, RandomAllocationEvent):
        known = group_event(SelfComposedEvent(event.event, event.n_epochs), size)
        return known if event.n_batches == 1 else GroupEvent(event, size)
    gaussian = all(isinstance(part, GaussianEvent) for part in mechanism.leaves())
    if gaussian and isinstance(event, (PoissonSampledEvent, WithoutReplacementEvent)):
        return GroupEvent(event, size)
    both = pairs(event)
    epsilon, delta = max(pair.max_loss for pair in both), max(pair.p_infinite for pair in both)
    if delta and (size - 1) * epsilon > 700.0:
        return ApproximateDPEvent(size * epsilon, 1.0, event.relation)
    steps = (math.exp(i * epsilon) for i in range(size)) if delta else ()
    return ApproximateDPEvent(size * epsilon, min(1.0, delta * math.fsum(steps)), event.relation)
