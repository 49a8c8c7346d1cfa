"""List the assumptions of a guarantee, and those that a fit shows.

The assumptions of ``docs/privacy.md`` are these, word for word (a test holds the page to them). An assumption is *held*
if the ledger, the settings and the public facts of a fit show that the program made sure of it. It is also *held* if
they show that the fit did not need it. It is *open* if somebody has to vouch for it, because nothing in a file can.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..accounting import Relation
from ..store.words import a, counted
from .result import FitResult


@dataclass(frozen=True)
class Assumption:
    """An assumption: its name in files, its title, and its text."""

    name: str
    title: str
    text: str


@dataclass(frozen=True)
class Finding:
    """An assumption, whether the record shows it, and the reason.

    If it is not shown, the reason says what is left to vouch for.
    """

    assumption: Assumption
    held: bool
    why: str


_Check = Callable[[FitResult], tuple[bool, str]]
#: In the order of the page.
_CHECKS: list[tuple[Assumption, _Check]] = []


def _assumption(name: str, title: str, text: str) -> Callable[[_Check], _Check]:
    """Add an assumption, whose check follows."""

    def add(check: _Check) -> _Check:
        _CHECKS.append((Assumption(name, title, text), check))
        return check

    return add


@_assumption(
    "randomness",
    "The random numbers cannot be predicted",
    "ChaCha20 is a pseudorandom function and the operating system's random bits are random. Then no efficient "
    "observer gains more than a negligible amount over the stated δ.",
)
def _randomness(result: FitResult) -> tuple[bool, str]:
    known = [taint for taint in result.ledger.taints if "test_key" in taint]
    if known:
        return False, "The key of this fit is known."
    if not any(plan["noise_multiplier"] > 0 for plan in result.ledger.plans):
        return False, "No noise was drawn."
    return True, "A fresh key of the operating system for each release; no seed was taken."


@_assumption(
    "n_records",
    "The number of records is public",
    "It is `n_records`, or else the number of rows; in `partial_fit` the number of each call's rows.",
)
def _n_records(result: FitResult) -> tuple[bool, str]:
    runs = result.privacy.runs
    counted = sorted({run.n_records for run in runs if not run.stated})
    if result.privacy.relation == Relation.REPLACE_ONE:
        return True, f"Neighbors differ by a replacement, so that all have the same number, {runs[-1].n_records}."
    if not counted:
        return True, "Stated for every run; nothing follows the actual number of rows."
    numbers = " and ".join(map(str, counted))
    return False, f"The fit counted {numbers}, and the plan states that number, so it must not be a secret."


@_assumption(
    "columns",
    "The columns are public",
    "The vocabulary (unless purchased) or the columns, and how records are read, were not learned from the private "
    "records.",
)
def _columns(result: FitResult) -> tuple[bool, str]:
    n = result.public.n_features
    if result.privacy.vocabulary:
        return True, "The vocabulary was purchased from the same budget, and is in the stated epsilon."
    return False, f"Somebody has to vouch that the {n} columns were chosen without looking at the private records."


@_assumption("labels", "The labels are public", "The set of labels is no secret; each record's label is.")
def _labels(result: FitResult) -> tuple[bool, str]:
    if result.public.classes is None:
        return True, "The model has none."
    if result.settings.get("classes") is not None:
        return True, "Stated as a parameter; a record with another label contributes nothing or is refused."
    return False, f"The {counted(len(result.public.classes), 'label')} of the records were taken as public."


@_assumption(
    "parameters",
    "The parameters are public",
    "Document length, clips, priors and all other parameters were chosen without the private records, and test data "
    "are public.",
)
def _parameters(result: FitResult) -> tuple[bool, str]:
    if (prior := result.settings.get("public_prior_source")) is not None:
        return False, f"Public knowledge used: {prior}. Somebody has to vouch that it was made from public text only."
    return False, "They stand in the settings. No file can show that none was tuned on the private records."


@_assumption(
    "unit",
    "One record is one row",
    "Groups can tell which rows belong to one person. Without them, someone with several rows has the guarantee for "
    "groups of that size.",
)
def _unit(result: FitResult) -> tuple[bool, str]:
    unit = result.privacy.unit
    if unit != "record":
        return True, f"{a(unit).capitalize()} with all records is protected, by the groups that the fit was given."
    return (
        False,
        "One record is protected. A person with several has the weaker guarantee that is stated for that number.",
    )


@_assumption(
    "parts",
    "Parts do not overlap",
    "If calls of `partial_fit` name parts, a record lies in one part only, and “replace one” stays within its part.",
)
def _parts(result: FitResult) -> tuple[bool, str]:
    parts = result.ledger.parts
    if not parts:
        return True, "All releases are from all records."
    return False, f"{len(parts)} parts were named. Nothing checked that no {result.privacy.unit} lies in two of them."


@_assumption(
    "calls",
    "No release of a fit decided what follows it",
    "Calls of `partial_fit` may follow each other by any rule, and their statement holds whenever they end. If the "
    "releases of a fit decided whether calls follow it, δ is half as large again.",
)
def _calls(result: FitResult) -> tuple[bool, str]:
    if result.privacy.earlier_fit:
        return False, "A fit came before: somebody has to know that its releases did not choose this one's settings."
    if not result.privacy.calls:
        return True, "One run, planned before it began, and no call after it."
    if not result.ledger.planned:
        return True, "Every run is such a call."
    return False, "Calls followed a fit: somebody has to know whether its releases decided that."


@_assumption(
    "refusals",
    "A refusal is for the operator",
    "Whether a fit was refused for an invalid value is outside the guarantee, unless invalid records are dropped.",
)
def _refusals(result: FitResult) -> tuple[bool, str]:
    if result.settings.get("options", {}).get("invalid") == "drop":
        return True, "Records with invalid values contributed nothing, without a message (invalid='drop')."
    return False, "invalid='raise': a fit that was not refused shows that no record was invalid."


@_assumption(
    "all_runs",
    "All other releases are counted",
    "Whatever else was released from the same records adds to this: other models, other settings that were tried, "
    "numbers in a report.",
)
def _all_runs(result: FitResult) -> tuple[bool, str]:
    if result.privacy.paid_by is not None:
        return True, f"Charged to the budget of {result.privacy.paid_by}, a file that counts them."
    if result.ledger.budget is None:
        return False, "No budget was charged: somebody has to know of all other releases from the same records."
    return False, "No budget paid for all releases of this model: somebody has to know of all others."


@_assumption("time", "Time is outside the guarantee", "How long a fit takes depends on the records.")
def _time(result: FitResult) -> tuple[bool, str]:
    return False, "Seconds, progress lines and logs have to stay with the operator."


@_assumption("operator", "The operator sees the data", "Nothing here protects records from the machine they are on.")
def _operator(result: FitResult) -> tuple[bool, str]:
    return False, "Trust the machine, and the person who runs the fit, with the records."


ASSUMPTIONS: tuple[Assumption, ...] = tuple(assumption for assumption, _ in _CHECKS)


def assess(result: FitResult) -> list[Finding]:
    """Check each of `ASSUMPTIONS` against a fit's own record."""
    return [Finding(assumption, *check(result)) for assumption, check in _CHECKS]
