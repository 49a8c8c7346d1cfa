"""Tell the forecast of a run before anything is spent on it."""

import logging
import warnings
from collections.abc import Callable

from ..engine.request import RunForecast

_log = logging.getLogger(__name__)


class HopelessWarning(UserWarning):
    """Nothing that a fit learns can be expected to be more than noise."""


def tell(forecast: RunForecast, on_forecast: Callable[[RunForecast], None] | None, stacklevel: int) -> None:
    """Pass a forecast to ``on_forecast``, or warn if it is hopeless.

    A forecast with prospects is logged. ``stacklevel`` is as in `warnings.warn`, for the caller.
    """
    if forecast.warning is None:
        _log.info("%s", forecast.text)
    if on_forecast is not None:
        on_forecast(forecast)
    elif forecast.warning is not None:
        warnings.warn(forecast.text, forecast.warning, stacklevel=stacklevel + 1)
