"""HTML report of a model: one file without network or scripts.

Everything in it is a function of released quantities and of public inputs, so it costs no privacy
(`vips_fast.report.dossier`). Needs Jinja2, the extra ``report``.
"""

import math
from pathlib import Path
from typing import Any

from .. import __version__
from ..accounting import Relation, rounded_down, rounded_up
from ..accounting.printing import percent, right_guesses
from ..checks import missing_package
from ..engine.statement import Privacy
from ..models.estimator import PrivateEstimator
from ..store.text import printable
from ..store.words import counted, several
from .dossier import make_dossier


def html_report(model: PrivateEstimator, **beside: Any) -> str:
    """Render the page as text for UTF-8; it is deterministic.

    Takes the facts that `make_dossier` takes, and raises its errors; ImportError without Jinja2.
    """
    template = environment().get_template("report.html")
    dossier = make_dossier(model, **beside)
    privacy = dossier.privacy
    shown = {**vars(privacy), **vars(dossier), "private": privacy.private, "statement": privacy.statement()}
    shown |= {"question": _question(privacy), "delta": rounded_up(privacy.delta, 3), "version": __version__}
    if dossier.gains:
        adds = privacy.relation == Relation.ADD_REMOVE
        shown["right"] = right_guesses(dossier.gains[0].guesses, privacy.unit, adds)
    tools = {"up": rounded_up, "down": rounded_down, "percent": percent, "odds": _odds}
    return printable(template.render(d=shown, counted=counted, several=several, **tools))


def environment() -> Any:
    """Make Jinja's environment with this package's templates. Without Jinja2 it raises ImportError with the remedy."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise missing_package("a report", "jinja2", "report") from None
    folder = Path(__file__).with_name("templates")
    found = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["capitalized"] = lambda text: text[:1].upper() + text[1:]
    return found


def _question(privacy: Privacy) -> str:
    """Word the question of an attacker who knows everything else."""
    whose = f"records of one {'person' if privacy.unit == 'record' else privacy.unit}"
    if privacy.relation == Relation.REPLACE_ONE:
        return f"which of two possible values the {whose} have"
    return f"whether the {whose} are among the data"


def _odds(odds: float) -> str:
    return "any" if math.isinf(odds) else f"{rounded_up(odds, 3)} : 1"
