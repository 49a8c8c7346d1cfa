"""Composition theorems: three accountants that state (epsilon, delta) for each step and compose the statements."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .accountant import Accountant
from .checks import FloatArray
from .events import (
    ApproximateDPEvent,
    ComposedEvent,
    NonPrivateEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
    check_event,
    rate_and_mechanism,
    touching_leaves,
)
from .privacy_loss import PrivacyLoss
from .privacy_loss.dominating import pairs
from .solver import find_integer


def _pure_composition(parts: Sequence[tuple[float, int]], delta: float) -> float:
    """Compute the optimal composition of pure mechanisms (epsilon, count) at delta >= 0.

    It is exact if the epsilons lead to at most 2^20 distinct losses. Otherwise it is the privacy-loss distribution with
    relative accuracy 1e-6, rounded up.
    """
    total = math.fsum(e * n for e, n in parts)
    if delta <= 0.0:
        return total
    if math.prod(n + 1 for _, n in parts) > 1 << 20:
        event = ComposedEvent(tuple(SelfComposedEvent(ApproximateDPEvent(e), n) for e, n in parts))
        return min(total, PrivacyLoss(event, 1e-6).epsilon(delta))
    from scipy.special import gammaln

    loss, log_p = np.zeros(1), np.zeros(1)
    for e, n in parts:
        i = np.arange(n + 1)
        log_binomial = gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)
        part_log_p = log_binomial + i * e - n * (e + math.log1p(math.exp(-e)))
        loss = (loss[:, None] + (2 * i - n) * e).ravel()
        log_p = (log_p[:, None] + part_log_p).ravel()
    return min(total, _epsilon_of_atoms(loss, log_p, delta))


def _epsilon_of_atoms(loss: FloatArray, log_p: FloatArray, delta: float) -> float:
    """Find the smallest epsilon >= 0 that delta permits for these atoms.

    It has sum p (1 - e^(epsilon - loss))_+ <= delta.
    """
    order = np.argsort(loss)[::-1]
    loss, p = loss[order], np.exp(log_p[order])

    def above(j: int) -> float:
        """Compute delta at epsilon = loss[j]; the j larger losses contribute."""
        return float(np.sum(p[:j] * -np.expm1(loss[j] - loss[:j])))

    # The last loss, from the largest down, that does not exceed delta.
    last = find_integer(lambda j: above(j) <= delta, 0, len(loss) - 1)
    # Below loss[last], delta(epsilon) = P - e^(epsilon - loss[last]) S.
    mass = float(np.sum(p[: last + 1]))
    scaled = float(np.sum(p[: last + 1] * np.exp(loss[last] - loss[: last + 1])))
    if mass <= delta:
        return 0.0
    value = float(loss[last]) + math.log((mass - delta) / scaled)
    # A few ulp upwards for the sums.
    return max(0.0, value + 1e-12 * max(1.0, abs(value)))


class _Steps:
    """Pure epsilons of the steps that have one, and the other mechanisms."""

    def __init__(self, event: PrivacyEvent) -> None:
        self.pure: list[tuple[float, int]] = []
        self.others: list[tuple[PrivacyEvent, int]] = []
        for leaf, repeats in touching_leaves(event).items():
            if leaf.reuses_minibatches:
                raise ValueError(
                    "releases from reused minibatches are not independent of each other: their statements do not "
                    "compose; use accountant='pld'"
                )
            if isinstance(leaf, RandomAllocationEvent):
                epoch, number = leaf.split()
                self.others.append((epoch, repeats * number))
                continue
            both = pairs(leaf)
            worst = max(pair.max_loss for pair in both)
            if math.isfinite(worst) and all(pair.p_infinite == 0.0 for pair in both):
                self.pure.append((worst, repeats))
            else:
                self.others.append((leaf, repeats))
        self.n_others = sum(repeats for _, repeats in self.others)

    def parts(self, step_delta: float) -> list[tuple[float, int]]:
        """Count the steps as (epsilon, count), with `step_delta` for impure ones."""
        return self.pure + [(PrivacyLoss(leaf).epsilon(step_delta), repeats) for leaf, repeats in self.others]

    def slacks(self, delta: float) -> Iterator[float]:
        """List parts of `delta` for the composition; each gives a bound."""
        return (fraction * delta for fraction in ((0.1, 0.3, 0.5, 0.7, 0.9) if self.others else (1.0,)))


def pure_epsilon(event: PrivacyEvent) -> float:
    """Add the steps' largest losses: epsilon with delta = 0.

    It is infinity where some mechanism has no pure guarantee.

    Notes
    -----
    Basic composition (Dwork & Roth 2014, theorem 3.14), each sampled step at ln(1 + q (e^epsilon - 1)) (Balle, Barthe &
    Gaboardi 2018). At delta = 0 nothing smaller holds for Laplace mechanisms and randomized responses.
    """
    leaves = touching_leaves(check_event(event))
    if any(isinstance(rate_and_mechanism(leaf)[1], NonPrivateEvent) for leaf in leaves):
        return math.inf
    steps = _Steps(event)
    return math.inf if steps.others else math.fsum(eps * n for eps, n in steps.pure) * (1.0 + 1e-15)


class _CompositionAccountant(Accountant):
    """An accountant that states (epsilon, delta) for each step, and composes."""

    def check(self, event: PrivacyEvent) -> None:
        """Accept events whose steps have statements that compose."""
        _Steps(event)


class BasicAccountant(_CompositionAccountant):
    """Basic composition, delta shared equally by the steps that need one.

    It is exact for pure mechanisms as delta tends to 0. Ten (0.1, 0)-private steps are (1, 0)-private:

    >>> from vips_fast.accounting import ApproximateDPEvent, SelfComposedEvent, epsilon
    >>> round(epsilon(SelfComposedEvent(ApproximateDPEvent(0.1), 10), 1e-6, "basic"), 9)
    1.0
    """

    name = "basic"
    title = "basic composition"
    source = "Dwork & Roth 2014, theorem 3.16"

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon by the sum over the steps."""
        steps = _Steps(event)
        share = delta / steps.n_others if steps.n_others else 0.0
        return math.fsum(n * eps for eps, n in steps.parts(share))


class StrongAccountant(_CompositionAccountant):
    """Strong composition, at the best of several ways to divide delta.

    100 steps of epsilon 0.01 at delta = 1e-5 cost sqrt(200 ln 1e5) 0.01 + (e^0.01 - 1) = 0.4899:

    >>> from vips_fast.accounting import ApproximateDPEvent, SelfComposedEvent, epsilon
    >>> round(epsilon(SelfComposedEvent(ApproximateDPEvent(0.01), 100), 1e-5, "strong"), 4)
    0.4899
    """

    name = "strong"
    title = "strong composition"
    source = "Dwork & Roth 2014, theorem 3.20"

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon by the theorem."""
        steps = _Steps(event)
        best = math.inf
        for slack in steps.slacks(delta):
            parts = steps.parts((delta - slack) / steps.n_others if steps.n_others else 0.0)
            if any(eps > 700.0 for eps, _ in parts):
                continue
            square = math.fsum(n * eps * eps for eps, n in parts)
            mean = math.fsum(n * eps * math.expm1(eps) for eps, n in parts)
            best = min(best, math.sqrt(2.0 * math.log(1.0 / slack) * square) + mean)
        return best


class OptimalAccountant(_CompositionAccountant):
    """Optimal composition of (epsilon, delta) statements, at the best division of delta.

    It is exact for pure mechanisms that are randomized responses. Two responses with ln 3 differ by 2 ln 3 with
    probability 9/16 against 1/16. They differ at epsilon = ln 3 by delta = 9/16 - 3/16:

    >>> import math
    >>> from vips_fast.accounting import ApproximateDPEvent, SelfComposedEvent, epsilon
    >>> round(math.exp(epsilon(SelfComposedEvent(ApproximateDPEvent(math.log(3)), 2), 3 / 8, "optimal")), 6)
    3.0
    """

    name = "optimal"
    title = "optimal composition of (epsilon, delta) statements"
    source = "Kairouz, Oh & Viswanath 2015, theorem 3.3; Murtagh & Vadhan 2016"

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon by the theorem."""
        steps = _Steps(event)
        best = math.inf
        for slack in steps.slacks(delta):
            # (1 - share)^n (1 - slack) = 1 - delta.
            share = 0.0
            if steps.n_others:
                share = -math.expm1((math.log1p(-delta) - math.log1p(-slack)) / steps.n_others)
            parts = [(eps, n) for eps, n in steps.parts(share) if eps > 0.0]
            if any(math.isinf(eps) for eps, _ in parts):
                continue
            best = min(best, _pure_composition(parts, slack) if parts else 0.0)
        return best
