"""The accountants: named methods that turn events into (epsilon, delta).

`epsilon`, `delta` and `privacy_profile` take an event and, optionally, the
name of an accountant.  Without a name the tightest sound one is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np

from . import composition
from .events import (
    ApproximateDPEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomizedResponseEvent,
    WithoutReplacementEvent,
    _leaves,
)
from .gaussian import gaussian_delta, gaussian_epsilon

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "default_accountant",
    "delta",
    "describe",
    "epsilon",
    "privacy_profile",
    "pure_epsilon",
    "zcdp_rho",
]

DEFAULT_RTOL = 1e-4


def check_delta(value: Real, name: str = "delta") -> float:
    """`value` as a float in (0, 1), or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    value = float(value)
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")
    return value


def check_epsilon(value: Real, name: str = "epsilon") -> float:
    """`value` as a finite float >= 0, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    value = float(value)
    if not (value >= 0.0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
    return value


def check_event(event: PrivacyEvent) -> PrivacyEvent:
    if not isinstance(event, PrivacyEvent):
        raise TypeError(f"event must be a privacy event, got {type(event).__name__}")
    return event


def _is_void(leaf: PrivacyEvent) -> bool:
    return getattr(leaf, "sampling_probability", 1.0) == 0.0


def _is_non_private(leaf: PrivacyEvent) -> bool:
    inner = getattr(leaf, "event", leaf)
    return isinstance(inner, NonPrivateEvent) and not _is_void(leaf)


def _is_plain_gaussian(leaf: PrivacyEvent) -> bool:
    """Whole-data Gaussian, also where the sample is all the data."""
    if isinstance(leaf, GaussianEvent):
        return True
    if isinstance(leaf, (PoissonSampledEvent, WithoutReplacementEvent)):
        if leaf.sampling_probability == 1.0:
            return all(isinstance(x, GaussianEvent) for x in _leaves(leaf.event))
    return False


def gaussian_mu(event: PrivacyEvent) -> float | None:
    """mu of a composition of whole-data Gaussian events, None for others."""
    total = 0.0
    for leaf, count in _leaves(event).items():
        if _is_void(leaf):
            continue
        if not _is_plain_gaussian(leaf):
            return None
        inner = getattr(leaf, "event", leaf)
        for part, repeats in _leaves(inner).items():
            total += count * repeats / part.noise_multiplier**2
    return math.sqrt(total)


@dataclass(frozen=True)
class Accountant:
    """A named accountant.

    Attributes
    ----------
    name : str
    title : str
        For a privacy statement.
    source : str
        Where its bound is proven.
    tight : str
        Where the bound is exact, in words.
    epsilon, delta : callable
        ``epsilon(event, delta, **options)`` and ``delta(event, epsilon,
        **options)``; both answer upper bounds.
    """

    name: str
    title: str
    source: str
    tight: str
    epsilon: Callable[..., float]
    delta: Callable[..., float]


def _invert_epsilon(epsilon_of: Callable[[float], float], target: float) -> float:
    """Smallest delta with epsilon_of(delta) <= target, rounded up; 1 if none below 1."""
    lo, hi = math.log(1e-300), -1e-12
    if epsilon_of(math.exp(hi)) > target:
        return 1.0
    if epsilon_of(math.exp(lo)) <= target:
        return math.exp(lo)
    while hi - lo > 1e-9 * max(1.0, abs(hi)):
        mid = 0.5 * (lo + hi)
        if epsilon_of(math.exp(mid)) <= target:
            hi = mid
        else:
            lo = mid
    return math.exp(hi)


# -- exact Gaussian -------------------------------------------------------


def _gaussian_or_refuse(event: PrivacyEvent) -> float:
    mu = gaussian_mu(event)
    if mu is None:
        raise ValueError(
            "accountant='gaussian' covers whole-data Gaussian mechanisms only; "
            "use accountant='pld' for sampled or other mechanisms"
        )
    return mu


def _gaussian_epsilon(event: PrivacyEvent, delta: float) -> float:
    return gaussian_epsilon(_gaussian_or_refuse(event), delta)


def _gaussian_delta(event: PrivacyEvent, epsilon: float) -> float:
    return gaussian_delta(_gaussian_or_refuse(event), epsilon)


# -- privacy-loss distribution -------------------------------------------


def _pld_epsilon(event: PrivacyEvent, delta: float, rtol: float = DEFAULT_RTOL) -> float:
    from .pld import PrivacyLoss

    return PrivacyLoss(event, rtol).epsilon(delta)


def _pld_delta(event: PrivacyEvent, epsilon: float, rtol: float = DEFAULT_RTOL) -> float:
    from .pld import PrivacyLoss

    return PrivacyLoss(event, rtol).delta(epsilon)


# -- Renyi ----------------------------------------------------------------


def _rdp_epsilon(event: PrivacyEvent, delta: float, conversion: str = "tight", orders=None) -> float:
    from . import rdp

    fixed = orders is not None
    orders = np.asarray(orders, float) if fixed else rdp.default_orders(event)
    curve = np.asarray(rdp.renyi_divergence(event, orders))
    best = rdp.epsilon_from_rdp(orders, curve, delta, conversion)
    if fixed or best == 0.0 or len(orders) < 3:
        return best
    # Any order gives a bound, so the minimum may be refined between neighbours.
    each = [rdp.epsilon_from_rdp([a], [r], delta, conversion) for a, r in zip(orders, curve)]
    k = int(np.argmin(each))
    return min(best, _refine(
        lambda a: rdp.epsilon_from_rdp([a], [rdp.renyi_divergence(event, a)], delta, conversion),
        orders[max(k - 1, 0)], orders[min(k + 1, len(orders) - 1)],
    ))


def _rdp_delta(event: PrivacyEvent, epsilon: float, conversion: str = "tight", orders=None) -> float:
    from . import rdp

    fixed = orders is not None
    orders = np.asarray(orders, float) if fixed else rdp.default_orders(event)
    curve = np.asarray(rdp.renyi_divergence(event, orders))
    best = rdp.delta_from_rdp(orders, curve, epsilon, conversion)
    if fixed or best == 0.0 or len(orders) < 3:
        return best
    each = [rdp.delta_from_rdp([a], [r], epsilon, conversion) for a, r in zip(orders, curve)]
    k = int(np.argmin(each))
    return min(best, _refine(
        lambda a: rdp.delta_from_rdp([a], [rdp.renyi_divergence(event, a)], epsilon, conversion),
        orders[max(k - 1, 0)], orders[min(k + 1, len(orders) - 1)],
    ))


def _refine(f: Callable[[float], float], lo: float, hi: float) -> float:
    from scipy.optimize import minimize_scalar

    if not hi > lo:
        return math.inf
    res = minimize_scalar(
        lambda t: f(1.0 + math.exp(t)),
        bounds=(math.log(lo - 1.0), math.log(hi - 1.0)),
        method="bounded",
        # The minimum is flat: 1e-4 of alpha - 1 is 1e-8 of epsilon.
        options={"xatol": 1e-4, "maxiter": 30},
    )
    return float(res.fun)


# -- Wang et al. ----------------------------------------------------------

_WANG_ORDERS = np.arange(2, 257)


def _wang_curve(event: PrivacyEvent, bound: str, orders) -> tuple[np.ndarray, np.ndarray]:
    from . import rdp

    orders = _WANG_ORDERS if orders is None else np.asarray(orders)
    curve = np.zeros(len(orders))
    for leaf, count in _leaves(event).items():
        if isinstance(leaf, WithoutReplacementEvent):
            curve += count * rdp.wang_rdp(leaf, orders, bound)
        elif getattr(leaf, "sampling_probability", 1.0) == 1.0:
            curve += count * np.asarray(rdp.renyi_divergence(leaf, orders))
        else:
            raise ValueError(
                "accountant='wang' covers sampling without replacement and whole-data "
                "mechanisms; use accountant='pld' or 'rdp' for Poisson sampling"
            )
    return orders, curve


def _wang_epsilon(
    event: PrivacyEvent, delta: float, conversion: str = "classical", bound: str = "thm9", orders=None
) -> float:
    from . import rdp

    return rdp.epsilon_from_rdp(*_wang_curve(event, bound, orders), delta, conversion)


def _wang_delta(
    event: PrivacyEvent, epsilon: float, conversion: str = "classical", bound: str = "thm9", orders=None
) -> float:
    from . import rdp

    return rdp.delta_from_rdp(*_wang_curve(event, bound, orders), epsilon, conversion)


def _autodp_accountant(event: PrivacyEvent, bound: str):
    try:
        from autodp import rdp_acct, rdp_bank
    except ImportError:
        raise ImportError(
            "accountant='autodp' needs the package autodp; "
            "accountant='wang' computes the same bound without it"
        ) from None

    account = rdp_acct.anaRDPacct()
    for leaf, count in _leaves(event).items():
        inner = getattr(leaf, "event", leaf)
        if _is_void(leaf):
            continue
        if not all(isinstance(x, GaussianEvent) for x in _leaves(inner)) or isinstance(
            leaf, PoissonSampledEvent
        ):
            raise ValueError(
                "accountant='autodp' covers Gaussian mechanisms, whole-data or sampled "
                "without replacement; use accountant='pld'"
            )
        mu2 = sum(n / x.noise_multiplier**2 for x, n in _leaves(inner).items())
        sigma = 1.0 / math.sqrt(mu2)

        def func(x, sigma=sigma):
            return rdp_bank.RDP_gaussian({"sigma": sigma}, x)

        rate = getattr(leaf, "sampling_probability", 1.0)
        if rate == 1.0:
            account.compose_mechanism(func, coeff=count)
        else:
            account.compose_subsampled_mechanism(
                func, rate, coeff=count, improved_bound_flag=bound == "thm27"
            )
    return account


def _autodp_epsilon(event: PrivacyEvent, delta: float, bound: str = "thm9") -> float:
    return float(_autodp_accountant(event, bound).get_eps(delta))


def _autodp_delta(event: PrivacyEvent, epsilon: float, bound: str = "thm9") -> float:
    account = _autodp_accountant(event, bound)
    return _invert_epsilon(lambda d: float(account.get_eps(d)), epsilon)


# -- generic accountant ----------------------------------------------------


def _generic_orders(event: PrivacyEvent):
    from . import rdp

    integer = False
    for leaf in _leaves(event):
        if isinstance(leaf, WithoutReplacementEvent) and leaf.sampling_probability < 1.0:
            raise ValueError(
                "accountant='generic' covers Poisson sampling and whole-data mechanisms; "
                "use accountant='pld' or 'wang' for sampling without replacement"
            )
        integer |= isinstance(leaf, PoissonSampledEvent) and leaf.sampling_probability < 1.0
    if not integer:
        return None
    top = float(rdp.default_orders(event)[-1])
    grid = np.concatenate([np.arange(2.0, 65.0), np.geomspace(66.0, max(top, 67.0), 40)])
    return np.unique(np.floor(grid))


def _generic_epsilon(event: PrivacyEvent, delta: float) -> float:
    return _rdp_epsilon(event, delta, "classical", _generic_orders(event))


def _generic_delta(event: PrivacyEvent, epsilon: float) -> float:
    return _rdp_delta(event, epsilon, "classical", _generic_orders(event))


# -- zCDP -------------------------------------------------------------------


def zcdp_rho(event: PrivacyEvent) -> float:
    """rho of a composition of whole-data mechanisms.

    1 / (2 z^2) for a Gaussian, epsilon^2 / 2 for a pure mechanism (Bun &
    Steinke 2016, propositions 1.6 and 1.4).

    Raises
    ------
    ValueError
        For sampled mechanisms, whose amplification zCDP cannot express.
    """
    total = 0.0
    for leaf, count in _leaves(check_event(event)).items():
        if _is_void(leaf):
            continue
        inner = getattr(leaf, "event", leaf)
        if getattr(leaf, "sampling_probability", 1.0) < 1.0:
            raise ValueError(
                "zCDP does not express amplification by sampling; "
                "use accountant='pld' or 'rdp' for sampled mechanisms"
            )
        for part, repeats in _leaves(inner).items():
            if isinstance(part, GaussianEvent):
                rho = 0.5 / part.noise_multiplier**2
            elif isinstance(part, LaplaceEvent):
                rho = 0.5 / part.noise_multiplier**2
            elif isinstance(part, RandomizedResponseEvent):
                rho = 0.5 * part.epsilon**2
            elif isinstance(part, ApproximateDPEvent) and part.delta == 0.0:
                rho = 0.5 * part.epsilon**2
            else:
                raise ValueError(f"{part.to_json()} is not zCDP; use accountant='pld'")
            total += count * repeats * rho
    return total


def _zcdp_epsilon(event: PrivacyEvent, delta: float, conversion: str = "tight") -> float:
    return composition.zcdp_epsilon(zcdp_rho(event), delta, conversion)


def _zcdp_delta(event: PrivacyEvent, epsilon: float) -> float:
    return composition.zcdp_delta(zcdp_rho(event), epsilon)


# -- composition theorems ---------------------------------------------------


class _Steps:
    """Pure epsilons of the steps that have one, and the other mechanisms."""

    def __init__(self, event: PrivacyEvent) -> None:
        from ._pairs import pairs

        self.pure: list[tuple[float, int]] = []
        self.others: list[tuple[PrivacyEvent, int]] = []
        for leaf, count in _leaves(event).items():
            if _is_void(leaf):
                continue
            both = pairs(leaf)
            worst = max(pair.max_loss for pair in both)
            if math.isfinite(worst) and all(pair.p_infinite == 0.0 for pair in both):
                self.pure.append((worst, count))
            else:
                self.others.append((leaf, count))
        self.n_others = sum(count for _, count in self.others)

    def parts(self, step_delta: float) -> list[tuple[float, float, int]]:
        """(epsilon, delta, count) with `step_delta` for each step that needs one."""
        out = [(eps, 0.0, count) for eps, count in self.pure]
        for leaf, count in self.others:
            out.append((_pld_epsilon(leaf, step_delta), step_delta, count))
        return out


def pure_epsilon(event: PrivacyEvent) -> float:
    """The epsilon that holds with delta = 0: the sum of the steps' largest losses.

    Parameters
    ----------
    event : PrivacyEvent

    Returns
    -------
    float
        Infinity where some mechanism has no pure guarantee.

    Notes
    -----
    Basic composition (Dwork & Roth 2014, theorem 3.14), each sampled step at
    ln(1 + q (e^epsilon - 1)) (Balle, Barthe & Gaboardi 2018).  At delta = 0
    nothing smaller holds for Laplace mechanisms and randomised responses.
    """
    if any(_is_non_private(leaf) for leaf in _leaves(check_event(event))):
        return math.inf
    steps = _Steps(event)
    if steps.others:
        return math.inf
    return math.fsum(eps * count for eps, count in steps.pure) * (1.0 + 1e-15)


# Parts of delta that go to the composition's slack; the best is taken.
_SLACK_FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)


def _basic_epsilon(event: PrivacyEvent, delta: float) -> float:
    steps = _Steps(event)
    share = delta / steps.n_others if steps.n_others else 0.0
    return math.fsum(count * eps for eps, _, count in steps.parts(share))


def _strong_epsilon(event: PrivacyEvent, delta: float) -> float:
    steps = _Steps(event)
    best = math.inf
    for fraction in _SLACK_FRACTIONS if steps.n_others else (1.0,):
        slack = fraction * delta
        share = (delta - slack) / steps.n_others if steps.n_others else 0.0
        parts = steps.parts(share)
        if any(eps > 700.0 for eps, _, _ in parts):
            continue
        square = math.fsum(count * eps * eps for eps, _, count in parts)
        mean = math.fsum(count * eps * math.expm1(eps) for eps, _, count in parts)
        best = min(best, math.sqrt(2.0 * math.log(1.0 / slack) * square) + mean)
    return best


def _optimal_epsilon(event: PrivacyEvent, delta: float) -> float:
    steps = _Steps(event)
    best = math.inf
    for fraction in _SLACK_FRACTIONS if steps.n_others else (1.0,):
        slack = fraction * delta
        # (1 - share)^n (1 - slack) = 1 - delta.
        share = 0.0
        if steps.n_others:
            share = -math.expm1((math.log1p(-delta) - math.log1p(-slack)) / steps.n_others)
        parts = [(eps, count) for eps, _, count in steps.parts(share) if eps > 0.0]
        if any(math.isinf(eps) for eps, _ in parts):
            continue
        best = min(best, composition._pure_composition(parts, slack) if parts else 0.0)
    return best


def _by_inversion(epsilon_of: Callable[..., float]) -> Callable[..., float]:
    def delta_of(event: PrivacyEvent, epsilon: float, **options) -> float:
        return _invert_epsilon(lambda d: epsilon_of(event, d, **options), epsilon)

    return delta_of


ACCOUNTANTS: dict[str, Accountant] = {}


def _register(*args) -> None:
    account = Accountant(*args)
    ACCOUNTANTS[account.name] = account


_register(
    "gaussian", "exact Gaussian mechanism", "Balle & Wang 2018, theorem 8",
    "exact for whole-data Gaussian compositions", _gaussian_epsilon, _gaussian_delta,
)
_register(
    "pld", "privacy-loss distribution",
    "Zhu, Dong & Wang 2022 (dominating pairs); Balle, Barthe & Gaboardi 2018 (sampling without "
    "replacement); Doroshenko et al. 2022 (discretisation)",
    "exact for Poisson sampling, Laplace and randomised response; for sampling without replacement "
    "exact in one step and an upper bound in a composition",
    _pld_epsilon, _pld_delta,
)
_register(
    "rdp", "Renyi differential privacy",
    "Mironov 2017; Mironov, Talwar & Zhang 2019; Canonne, Kamath & Steinke 2020",
    "no", _rdp_epsilon, _rdp_delta,
)
_register(
    "wang", "analytical moments accountant",
    "Wang, Balle & Kasiviswanathan 2019, theorems 9 and 27",
    "no", _wang_epsilon, _wang_delta,
)
_register(
    "autodp", "analytical moments accountant of the autodp package",
    "Wang, Balle & Kasiviswanathan 2019, theorems 9 and 27",
    "no", _autodp_epsilon, _autodp_delta,
)
_register(
    "zcdp", "zero-concentrated differential privacy",
    "Bun & Steinke 2016; Canonne, Kamath & Steinke 2020, proposition 12",
    "no", _zcdp_epsilon, _zcdp_delta,
)
_register(
    "generic", "generic accountant",
    "Triastcyn & Faltings 2019; Mironov, Talwar & Zhang 2019; classical conversion",
    "no", _generic_epsilon, _generic_delta,
)
_register(
    "optimal", "optimal composition of (epsilon, delta) statements",
    "Kairouz, Oh & Viswanath 2015, theorem 3.3; Murtagh & Vadhan 2016",
    "exact for pure mechanisms that are randomised responses",
    _optimal_epsilon, _by_inversion(_optimal_epsilon),
)
_register(
    "strong", "strong composition", "Dwork & Roth 2014, theorem 3.20",
    "no", _strong_epsilon, _by_inversion(_strong_epsilon),
)
_register(
    "basic", "basic composition", "Dwork & Roth 2014, theorem 3.16",
    "exact for pure mechanisms as delta tends to 0", _basic_epsilon, _by_inversion(_basic_epsilon),
)


def _get(name: str) -> Accountant:
    if not isinstance(name, str):
        raise TypeError(f"accountant must be a string or None, got {name!r}")
    if name not in ACCOUNTANTS:
        raise ValueError(f"unknown accountant {name!r}; expected one of {sorted(ACCOUNTANTS)}")
    return ACCOUNTANTS[name]


def default_accountant(event: PrivacyEvent) -> str:
    """Name of the tightest sound accountant for `event`.

    ``"gaussian"`` for compositions of whole-data Gaussian mechanisms, which
    it bounds exactly; ``"pld"`` for everything else.
    """
    return "gaussian" if gaussian_mu(check_event(event)) is not None else "pld"


def epsilon(event: PrivacyEvent, delta: float, accountant: str | None = None, **options) -> float:
    """An upper bound of the smallest epsilon at `delta`.

    Parameters
    ----------
    event : PrivacyEvent
    delta : float
        In (0, 1).
    accountant : str or None
        A key of `ACCOUNTANTS`; None takes `default_accountant`.
    **options
        Options of the accountant: ``rtol`` (pld), ``conversion`` and
        ``orders`` (rdp, wang), ``bound`` (wang, autodp).

    Returns
    -------
    float
        >= 0; infinity where nothing is guaranteed.

    Raises
    ------
    ValueError
        delta outside (0, 1), unknown accountant, or an event that the named
        accountant cannot bound (the message names one that can).
    """
    check_event(event)
    delta = check_delta(delta)
    name = default_accountant(event) if accountant is None else accountant
    account = _get(name)
    leaves = _leaves(event)
    if any(_is_non_private(leaf) for leaf in leaves):
        return math.inf
    if all(_is_void(leaf) for leaf in leaves):
        return 0.0
    if accountant is None and name == "gaussian":
        options.pop("rtol", None)
    return account.epsilon(event, delta, **options)


def delta(event: PrivacyEvent, epsilon: float, accountant: str | None = None, **options) -> float:
    """An upper bound of the smallest delta at `epsilon` >= 0.

    Parameters and errors as in `epsilon`.

    Returns
    -------
    float
        In [0, 1].
    """
    check_event(event)
    epsilon = check_epsilon(epsilon)
    name = default_accountant(event) if accountant is None else accountant
    account = _get(name)
    leaves = _leaves(event)
    if any(_is_non_private(leaf) for leaf in leaves):
        return 1.0
    if all(_is_void(leaf) for leaf in leaves):
        return 0.0
    if accountant is None and name == "gaussian":
        options.pop("rtol", None)
    return account.delta(event, epsilon, **options)


def privacy_profile(event: PrivacyEvent, epsilons, accountant: str | None = None, **options) -> np.ndarray:
    """Upper bounds of delta at each of `epsilons`.

    Parameters
    ----------
    event : PrivacyEvent
    epsilons : array_like
        Each >= 0.
    accountant, **options
        As in `epsilon`.

    Returns
    -------
    ndarray
        float64, shape of `epsilons`.
    """
    values = np.asarray(epsilons, float)
    out = [delta(event, float(e), accountant, **options) for e in values.ravel()]
    return np.array(out).reshape(values.shape)


_RELATION_TEXT = {
    "add_remove": "adding or removing one record",
    "replace_one": "replacing one record",
    None: "the change of one record to which the noise multiplier refers",
}


def describe(event: PrivacyEvent, delta: float, accountant: str | None = None, **options) -> str:
    """One sentence that states the guarantee of `event` at `delta`.

    Example: "(0.984, 0.0001)-differentially private under replacing one
    record; accountant: privacy-loss distribution (upper bound)."
    """
    name = default_accountant(check_event(event)) if accountant is None else accountant
    value = epsilon(event, delta, accountant, **options)
    if math.isinf(value):
        return "No differential privacy is guaranteed."
    # Printed digits are rounded up as well.
    digits = 3 - (math.floor(math.log10(value)) if value > 0.0 else 0)
    scale = 10.0**digits
    shown = math.ceil(value * scale * (1.0 - 1e-12)) / scale
    return (
        f"({shown:.{max(digits, 1)}f}, {delta:g})-differentially private under "
        f"{_RELATION_TEXT[event.neighbors]}; accountant: {_get(name).title} (upper bound)."
    )
