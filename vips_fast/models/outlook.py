"""What a run can be expected to give, from public numbers, said before anything is spent on it."""

import logging
import warnings
from dataclasses import dataclass

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outlook:
    """A forecast: a line of the log, or a warning that the run is hopeless.

    Attributes
    ----------
    gain : float
        What is expected; of several runs the largest has the best prospects.
    said : str
        The forecast in one line.
    warning : type of Warning or None
        What a hopeless run is warned of by.
    """

    gain: float
    said: str
    warning: type[Warning] | None = None

    def tell(self, stacklevel: int, of: str = "") -> None:
        """Say it, after ``of``; ``stacklevel`` counts the callers up to the one who is warned, as in `warnings`."""
        if self.warning is None:
            _log.info("%s%s", of, self.said)
        else:
            warnings.warn(f"{of}{self.said}", self.warning, stacklevel=stacklevel + 1)
