"""Facts of a report about one model, from releases and public facts.

A dossier is a function of a fitted estimator (its arrays, settings and ledger) and of public inputs that lie beside it
(words, names of columns). It needs no data and can reach none.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import __version__
from ..accounting import rounded_up
from ..checks import check_number
from ..engine.assumptions import Finding, assess
from ..engine.ledger import Ledger
from ..models.estimator import PrivateEstimator
from ..models.family import family_of
from ..models.inputs import column_names
from ..models.privacy_file import ledger_bounds
from . import figures
from .part import Learned, part_of
from .words import Gain, gain

#: Rows of the report: numbers of records of one person.
_SIZES = (1, 2, 5, 10)
_MOST_POINTS, _MOST_RUNS = 12, 20


@dataclass(frozen=True)
class Dossier:
    """Facts of a report, shown by the templates under their names."""

    kind: str
    #: Name of the family at ``vips-fast audit``, "" if the audit does not know it.
    family: str
    title: str
    private: bool
    taints: tuple[str, ...]
    statement: str
    facts: tuple[tuple[str, str], ...]
    #: What the model and the fits that its statement includes published.
    released: str
    unit: str
    gains: tuple[Gain, ...]
    verdict: str
    learned: Learned
    findings: tuple[Finding, ...]
    curve: figures.Rows | None
    runs: tuple[dict[str, Any], ...]
    runs_left_out: int
    n_releases: int
    lost: int
    target: float | None
    budget: dict[str, Any] | None
    budget_charged: dict[str, str] | None
    calls: str
    settings: tuple[tuple[str, str, bool], ...]
    audit: dict[str, Any] | None
    verified: Any
    signed: bool
    kept: int | None
    head: str
    lacks: tuple[str, ...]
    version: str


def make_dossier(
    model: PrivateEstimator,
    *,
    words: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    n_words: int = 10,
    audit: Mapping[str, Any] | None = None,
    budget: Mapping[str, Any] | None = None,
    verified: Any = None,
    signed: bool = False,
    dataset: str | None = None,
    date: str | None = None,
    missing: Sequence[str] = (),
) -> Dossier:
    """Make the dossier of a fitted estimator.

    ``words`` name the columns of a topic model, ``names`` the columns of any other; None takes the names that the model
    knows. A topic shows ``n_words`` words, at least 1. ``audit`` is the result of `AuditReport.to_dict`, ``budget`` of
    `Budget.show`, ``verified`` a `vips_fast.models.rebuild.VerifyReport`. ``signed`` tells that a signature was checked
    against a key. ``dataset`` and ``date`` name the records and their time; None takes the budget's name. ``missing``
    are sentences about files that the model's folder lacks. Raises NotFittedError before ``fit``; ValueError if the
    numbers of names and columns differ, or ``audit`` is not the report of an audit.
    """
    check_number("n_words", n_words, 1, 1000, integer=True)
    result = model._fitted()
    privacy, ledger, n = result.privacy, result.ledger, result.public.n_features
    family, part = family_of(model), part_of(model)
    columns = words if words is not None else names if names is not None else column_names(result.public)
    if columns is not None and part.needs_names and len(columns) != n:
        what = "words" if words is not None else "names"
        raise ValueError(f"{what}: {len(columns)} were given; expected {n}, one for each column")
    _check_audit(audit)
    found = [gain(privacy, [(event, share) for _, event, share in ledger_bounds(ledger, privacy.delta)])]
    if privacy.unit == "record" and not ledger.parts and privacy.event is not None:
        found += [gain(privacy, [(privacy.event, privacy.share)], size) for size in _SIZES[1:]]
    plans = ledger.plans
    learned = part.learned(model, columns, n_words)
    closing: Mapping[str, Any] = next((r for r in reversed(ledger.records) if r["kind"] == "close"), {})
    kept = len(closing["transcript"]) if closing.get("transcript") else None
    facts = [
        ("ε (epsilon)", rounded_up(privacy.epsilon) if privacy.private else "none"),
        ("δ (delta)", rounded_up(privacy.delta, 3)),
        ("protected", f"one {privacy.unit}"),
        *(("data set", said) for said in (dataset or (ledger.budget or {}).get("dataset"),) if said),
        *(("date", said) for said in (date,) if said),
        (f"{'row' if privacy.rows_per_unit else privacy.unit}s", privacy.numbers),
        ("releases", f"{len(ledger)}"),
    ]
    return Dossier(
        kind=result.kind,
        family=family.name if family.adapter else "",
        title=family.title,
        private=privacy.private,
        taints=privacy.taints,
        statement=privacy.statement(),
        facts=tuple(facts),
        released=part.released(model)
        + (", and before it a vocabulary" if privacy.vocabulary else "")
        + (", and before it the model that the statement includes" if privacy.earlier_fit else ""),
        unit=privacy.unit,
        gains=tuple(one for one in found if one is not None),
        verdict=model.verdict_.text,
        learned=learned,
        findings=tuple(assess(result)),
        curve=_curve(ledger, privacy.delta) if privacy.private and len(ledger) else None,
        runs=tuple(map(dict, plans[-_MOST_RUNS:])),
        runs_left_out=max(0, len(plans) - _MOST_RUNS),
        n_releases=len(ledger),
        lost=ledger.lost,
        target=result.settings.get("epsilon"),
        budget=None if budget is None else dict(budget),
        budget_charged=ledger.budget,
        calls=privacy.calls,
        settings=_settings(model, result.settings),
        audit=None if audit is None else dict(audit),
        verified=verified,
        signed=signed,
        kept=kept,
        head=ledger.head,
        lacks=(*missing, *_lacks(model, columns, kept, audit, budget), *_unnamed(ledger, dataset, date)),
        version=__version__,
    )


def _check_audit(audit: Mapping[str, Any] | None) -> None:
    if audit is None:
        return
    layers = audit.get("layers") if isinstance(audit, Mapping) else None
    wanted = {"layer", "title", "checks", "passed"}
    whole = isinstance(layers, list) and all(isinstance(one, Mapping) and wanted <= one.keys() for one in layers)
    checks = whole and all(
        isinstance(one["checks"], list)
        and all(isinstance(c, Mapping) and {"name", "passed"} <= c.keys() for c in one["checks"])
        for one in layers or []
    )
    if not checks or not {"model", "passed"} <= audit.keys():
        raise ValueError("audit: expected the report that vips-fast audit --json wrote")


def _curve(ledger: Ledger, delta: float) -> figures.Rows:
    """Compute epsilon at delta before the releases, after some of them, and after all."""
    n, known = len(ledger), Ledger()
    at = {round(n * i / min(n, _MOST_POINTS)) for i in range(min(n, _MOST_POINTS) + 1)}
    points: list[tuple[int, float]] = []
    for record in ledger.records:
        known.replay(record)
        # Before the first release, a vocabulary purchase is spent.
        if len(known) in at and record["kind"] == ("release" if len(known) else "plan"):
            points.append((len(known), known.epsilon(delta)))
    return figures.spending([point for point in points if math.isfinite(point[1])])


def _settings(model: PrivateEstimator, settings: Mapping[str, Any]) -> tuple[tuple[str, str, bool], ...]:
    """List the fit's arguments: name, value, whether it is the default."""
    defaults = inspect.signature(type(model).__init__).parameters
    rows = []
    for name, value in sorted(settings.items()):
        if name == "callback":
            continue
        if isinstance(value, np.ndarray):
            said = f"array of {value.dtype}, shape {value.shape}"
        elif isinstance(value, Mapping):
            said = ", ".join(f"{key} = {one!r}" for key, one in value.items())
        else:
            said = repr(value)
        default = defaults[name].default if name in defaults else None
        same = not isinstance(value, np.ndarray) and value == default
        rows.append((name, said if len(said) <= 200 else said[:199] + "…", not same))
    return tuple(rows)


def _unnamed(ledger: Ledger, dataset: str | None, date: str | None) -> tuple[str, ...]:
    """Tell that the data set or its date is not named."""
    known = {"the name of the data set": dataset or ledger.budget, "the date of the records": date}
    unknown = [name for name, value in known.items() if not value]
    options = "vips-fast report --dataset NAME --date DATE"
    return (f"{' and '.join(unknown).capitalize()}: no file holds it ({options}).",) if unknown else ()


def _lacks(model: PrivateEstimator, columns: Any, kept: int | None, audit: Any, budget: Any) -> tuple[str, ...]:
    """List facts that the report lacks, each with the command for it."""
    found, result = [], model._fitted()
    missing = sorted(set(model.get_params()) - set(result.settings) - {"callback"})
    if missing:
        found.append(
            f"The settings {', '.join(missing)}: the model was saved by a version that did not have them, and the "
            "fit was as their defaults are now."
        )
    if columns is None and part_of(model).needs_names:
        found.append("The names of the columns: no words and no names lie beside the model; columns are numbered.")
    if kept is None:
        found.append(
            "The releases: the fit kept none (vips-fast fit --transcript), so that nobody can make the model again "
            "from them."
        )
    if audit is None:
        found.append("An audit: none was given (vips-fast audit --json, then vips-fast report --audit).")
    if result.ledger.budget is None:
        found.append("A budget: none paid for the fit, so that other fits to the same records are not counted here.")
    elif budget is None:
        found.append("What is left of the budget: its file was not given (vips-fast report --budget).")
    if model.diagnostics_ is not None:
        found.append("Diagnostics of the training records are not private, and left out.")
    return tuple(found)
