"""Tell the forecast of a run before anything is spent on it."""

import logging
import warnings

from ..engine.request import RunForecast

_log = logging.getLogger(__name__)


def tell(forecast: RunForecast, stacklevel: int, of: str = "") -> None:
    """Log the forecast after ``of``, or warn if the run is hopeless; ``stacklevel`` is that of `warnings.warn`."""
    if forecast.warning is None:
        _log.info("%s%s", of, forecast.text)
    else:
        warnings.warn(f"{of}{forecast.text}", forecast.warning, stacklevel=stacklevel + 1)
