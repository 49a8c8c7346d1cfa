"""Forecast the worth of a run from its signal."""

from ..engine.model import Model, Schedule, averaged_variance
from ..engine.plan import RunForecast, RunSchedule

#: Part of a model's least signal below which a run is hopeless.
HOPELESS = 1.0


class HopelessWarning(UserWarning):
    """A fit that is expected to learn nothing but noise."""


def factor(times: float) -> str:
    """Write a factor with two digits, as 2.4 or 6,100. >>> factor(6123.0), factor(2.44) ('6,100', '2.4')"""
    return f"{float(f'{times:.2g}'):,.12g}"


def noise_of_mean(schedule: RunSchedule, model: Model, rate: Schedule, n_steps: int) -> float:
    """Compute the noise in an averaged mean's entry.

    The average has ``n_steps`` releases, and the noise is over the bound of a record.
    """
    size = model.sensitivity(schedule.sampler.relation) / model.clip / schedule.sampler.expected_batch_size
    return float(schedule.noise_multiplier * size * averaged_variance(rate, n_steps) ** 0.5)


def by_signal(signal: float, least: float, enough: float, sought: str, fewer: str = "components") -> RunForecast:
    """Forecast a run by its largest signal over the noise.

    ``fewer`` names the other remedy. Below ``least`` no run found ``sought``, and from ``enough`` on most runs did.
    tests/models/test_signals.py has the data that the limits were fitted on, and others.
    """
    if signal < HOPELESS * least:
        fewer = f", or fewer {fewer}" if fewer else ""
        helps = f"{factor(least / signal)} times the records or the epsilon{fewer}"
        text = f"forecast: mostly noise; {sought} cannot be found. What helps: {helps}"
        return RunForecast(signal, text, HopelessWarning)
    if signal < enough:
        return RunForecast(signal, f"forecast: only the clearest {sought} can be found")
    return RunForecast(signal, f"forecast: {sought} can be found, if the records have any")
