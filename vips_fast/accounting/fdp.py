"""f-DP: trade-off curves and the parameter mu (Dong, Roth & Su 2022)."""

from __future__ import annotations

import math

import numpy as np

from .accountants import check_event, gaussian_mu, privacy_profile
from .accountants import epsilon as epsilon_of
from .events import GaussianEvent, PoissonSampledEvent, PrivacyEvent, _leaves

__all__ = ["gdp_clt_mu", "gdp_mu", "trade_off"]


def gdp_mu(event: PrivacyEvent) -> float:
    """mu of mu-Gaussian DP of a composition of whole-data Gaussian mechanisms.

    Raises
    ------
    ValueError
        For other mechanisms, which have no exact mu.
    """
    mu = gaussian_mu(check_event(event))
    if mu is None:
        raise ValueError(
            "only compositions of whole-data Gaussian mechanisms have an exact mu; "
            "trade_off gives the whole curve of other events"
        )
    return mu


def trade_off(event: PrivacyEvent, alpha, points: int = 64):
    """Lower bound of the type II error of any test between neighbours.

    Parameters
    ----------
    event : PrivacyEvent
    alpha : float or array_like
        Type I error(s) in [0, 1].
    points : int
        Number of points of the privacy profile in use; every number is sound.

    Returns
    -------
    float or ndarray
        f(alpha) = max over eps of max(0, 1 - delta - e^eps alpha,
        e^-eps (1 - delta - alpha)) (Wasserman & Zhou 2010); exact for
        compositions of whole-data Gaussian mechanisms.
    """
    a = np.asarray(alpha, float)
    if not np.all((a >= 0.0) & (a <= 1.0)):
        raise ValueError("alpha must be in [0, 1]")
    mu = gaussian_mu(check_event(event))
    if mu is not None:
        from scipy.special import ndtr, ndtri

        out = ndtr(ndtri(1.0 - a) - mu)
    else:
        top = epsilon_of(event, 1e-9)
        if math.isinf(top):
            return np.zeros(a.shape) if a.ndim else 0.0
        eps = np.linspace(0.0, top, points)
        delta = privacy_profile(event, eps)
        shape = (-1,) + (1,) * a.ndim
        e, d = eps.reshape(shape), delta.reshape(shape)
        lines = np.maximum(1.0 - d - np.exp(e) * a, np.exp(-e) * (1.0 - d - a))
        out = np.maximum(lines.max(0), 0.0)
    return float(out) if a.ndim == 0 else out


def gdp_clt_mu(event: PrivacyEvent) -> float:
    """mu of the central limit theorem for Poisson-sampled Gaussians; an approximation.

    sqrt(sum q^2 (e^(1 / z^2) - 1)) (Bu et al. 2020).  It is a limit, not a
    bound: it under-reports for finitely many steps, and no accountant uses it.
    """
    total = 0.0
    for leaf, count in _leaves(check_event(event)).items():
        if not (isinstance(leaf, PoissonSampledEvent) and isinstance(leaf.event, GaussianEvent)):
            raise ValueError("the limit is known for Poisson-sampled Gaussian events only")
        z = leaf.event.noise_multiplier
        total += count * leaf.sampling_probability**2 * math.expm1(1.0 / z**2)
    return math.sqrt(total)
