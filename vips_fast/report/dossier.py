"""Facts of a report about one model, from releases and public facts.

A dossier is a function of a fitted estimator (its arrays, settings and ledger) and of public inputs that lie beside it
(words, names of columns). It needs no data and can reach none.

A fit names the head of the ledger before it (``after=``), and its statement includes that fit. So the statement of the
last of a model and its tables is about all of them.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..accounting import PrivacyEvent, rounded_up
from ..checks import check_number
from ..engine.assumptions import Finding, assess
from ..engine.ledger import Ledger
from ..engine.statement import Privacy
from ..models.estimator import PrivateEstimator
from ..models.family import PURCHASE, family_of
from ..models.inputs import column_names
from ..models.rebuild import VerifyReport
from ..models.vocabulary.estimator import read_purchase
from ..store.words import several
from .part import Learned, part_of
from .words import Gain, SecretRisk, gain, secret_risks

#: Rows of the report: numbers of records of one person.
_SIZES = (1, 2, 5, 10)


@dataclass(frozen=True)
class Section:
    """A part of the page: anchor, heading, released quantities, and figures."""

    name: str
    heading: str
    released: str
    learned: Learned


@dataclass(frozen=True)
class Dossier:
    """Facts of a report, shown by the templates under their names."""

    kind: str
    #: Name of the family at ``vips-fast audit``, "" if the audit does not know it.
    family: str
    title: str
    privacy: Privacy
    facts: tuple[tuple[str, str], ...]
    #: What the model and the fits that the statement includes published.
    released: tuple[str, ...]
    gains: tuple[Gain, ...]
    verdict: str
    learned: Learned
    #: Tables of the model, then the words that were purchased for it.
    sections: tuple[Section, ...]
    findings: tuple[Finding, ...]
    runs: tuple[dict[str, Any], ...]
    n_releases: int
    lost: int
    risks: tuple[SecretRisk, ...]
    #: Facts of the budget that paid, if one did.
    budget: dict[str, str] | None
    settings: tuple[tuple[str, str, bool], ...]
    verified: VerifyReport | None
    kept: int | None
    head: str


def make_dossier(
    model: PrivateEstimator,
    *,
    tables: Sequence[PrivateEstimator] = (),
    names: Sequence[str] | None = None,
    titles: Sequence[str] | None = None,
    n_words: int = 10,
    verified: VerifyReport | None = None,
    dataset: str | None = None,
    date: str | None = None,
) -> Dossier:
    """Make the dossier of a fitted estimator.

    Parameters
    ----------
    tables : sequence of estimators
        `TopicTables`, each of which has to include the one before it, and the first the model (``after=``). The
        guarantee is then about all of them.
    names : sequence of str or None
        Names of the columns, such as a topic model's words; None takes the names that the model knows.
    titles : sequence of str or None
        Names of its topics or clusters; None joins their words.
    n_words : int
        Words that a topic shows, at least 1.
    verified : `vips_fast.models.rebuild.VerifyReport` or None
    dataset, date : str or None
        Name of the records and their time; None takes the budget's name.

    Raises NotFittedError before ``fit``. Raises ValueError if the numbers of names and columns differ, or ``tables``
    are not a chain.
    """
    check_number("n_words", n_words, 1, 1000, integer=True)
    every = chain_models(model, tables)
    result, last = model._fitted(), every[-1]._fitted()
    privacy, ledger, n = last.privacy, last.ledger, result.public.n_features
    family, part = family_of(model), part_of(model)
    columns = names if names is not None else column_names(result.public)
    dataset = dataset or (ledger.budget or {}).get("dataset")
    if columns is not None and part.needs_names and len(columns) != n:
        raise ValueError(f"names: {len(columns)} were given; expected {n}, one for each column")
    known = [(event, share) for _, event, share in ledger.bounds(privacy.delta)]
    if titles is not None and len(titles) != (wanted := len(part.names(model))):
        raise ValueError(
            f"titles: {len(titles)} were given; expected {wanted}, one for each topic or cluster with words"
        )
    plans = [plan for one in every for plan in one.ledger_.plans]
    purchased, kept = purchased_words(model), [kept_releases(one.ledger_) for one in every]
    more = _sections(tables, purchased, titles)
    n_releases = sum(len(one.ledger_) for one in (*every, *([] if purchased is None else [purchased])))
    return Dossier(
        kind=", ".join(dict.fromkeys(one._fitted().kind for one in every)),
        family=family.name if family.adapter else "",
        title=family.title + (" and tables" if tables else ""),
        privacy=privacy,
        facts=_facts(privacy, n_releases, dataset, date),
        released=_released(model, more),
        gains=_gains(ledger, privacy, known),
        verdict=model.verdict_.text,
        learned=_number_names(part.learned(model, columns, n_words), titles),
        sections=more,
        findings=_findings(every),
        runs=tuple(map(dict, plans)),
        n_releases=n_releases,
        lost=sum(one.ledger_.lost for one in every),
        risks=secret_risks(known) if privacy.private else (),
        budget=ledger.budget,
        settings=tuple(row for one in every for row in _settings(one, one is model)),
        verified=verified,
        kept=sum(n for n in kept if n is not None) if None not in kept else None,
        head=ledger.head,
    )


def _facts(privacy: Privacy, n_releases: int, dataset: str | None, date: str | None) -> tuple[tuple[str, str], ...]:
    """List the first figures: the guarantee, the data set, and its size."""
    return (
        ("ε (epsilon)", rounded_up(privacy.epsilon) if privacy.private else "none"),
        ("δ (delta)", rounded_up(privacy.delta, 3)),
        ("protected", f"one {privacy.unit}"),
        *(("data set", said) for said in (dataset,) if said),
        *(("date", said) for said in (date,) if said),
        (several(privacy.unit), privacy.numbers),
        ("releases", f"{n_releases}"),
    )


def _released(model: PrivateEstimator, more: Sequence[Section]) -> tuple[str, ...]:
    """Name the quantities that the model and other parts published."""
    found = [part_of(model).released(model), *(section.released for section in more)]
    privacy = model.privacy_
    if privacy.vocabulary and not any(section.name == "words" for section in more):
        found.append("before it, a vocabulary")
    return (*found, *["before it, each fit that the statement includes"] * privacy.earlier_fit)


def _gains(ledger: Ledger, privacy: Privacy, known: Sequence[tuple[PrivacyEvent, float]]) -> tuple[Gain, ...]:
    """Bound an attacker's gain from the ledger's bounds.

    If the unit is a record, there is a bound for persons with several, too.
    """
    found = [gain(privacy, known)]
    if privacy.unit == "record" and not ledger.parts and privacy.event is not None:
        found += [gain(privacy, [(privacy.event, privacy.share)], size) for size in _SIZES[1:]]
    return tuple(one for one in found if one is not None)


def kept_releases(ledger: Ledger) -> int | None:
    """Count the releases in the transcript that the ledger names, if any."""
    closing: Mapping[str, Any] = next((r for r in reversed(ledger.records) if r["kind"] == "close"), {})
    return len(closing["transcript"]) if closing.get("transcript") else None


def _settings(model: PrivateEstimator, whole: bool = True) -> tuple[tuple[str, str, bool], ...]:
    """List the fit's arguments: name, value, whether it is not the default.

    Without ``whole`` only those that are not.
    """
    settings = dict(model._fitted().settings)
    settings |= settings.pop("options", {})
    parameters = inspect.signature(type(model).__init__).parameters
    defaults = {name: one.default for name, one in parameters.items()} | vars(model._options_type())
    rows = []
    for name, value in sorted(settings.items()):
        if isinstance(value, np.ndarray):
            said = f"array of {value.dtype}, shape {value.shape}"
            if value.dtype == np.uint8 and value.ndim == 1:
                said = f"a file of {len(value):,} bytes"
        elif isinstance(value, Mapping):
            said = ", ".join(f"{key} = {one!r}" for key, one in value.items())
        else:
            said = repr(value)
        same = not isinstance(value, np.ndarray) and value == defaults.get(name)
        rows.append((name if whole else f"tables: {name}", said if len(said) <= 200 else said[:199] + "…", not same))
    return tuple(row for row in rows if whole or row[2])


# ---------------------------------------------------------------- a model, its tables, and its purchased words


def chain_models(model: PrivateEstimator, tables: Sequence[PrivateEstimator]) -> tuple[PrivateEstimator, ...]:
    """Put a model and its tables in a row. Raises ValueError unless each includes the one before it."""
    every = (model, *tables)
    for before, after in zip(every, tables, strict=False):
        if family_of(after).name != "tables":
            raise ValueError(f"tables: {type(after).__name__}; expected fitted TopicTables, by vips-fast tabulate")
        heads = {purchase["head"] for plan in after.ledger_.plans if (purchase := plan.get("purchase"))}
        if before.ledger_.head not in heads:
            which = "model" if before is model else "tables before them"
            raise ValueError(
                f"tables: a statement leaves out the {which}, so no statement is about all; expected tables that were "
                "released after it (vips-fast tabulate --after)"
            )
    return every


def purchased_words(model: PrivateEstimator) -> Any:
    """Make the vocabulary that was purchased for a model, or None."""
    text = model._fitted().public.inputs.get(PURCHASE)
    return None if text is None else read_purchase(text)


def _sections(tables: Sequence[PrivateEstimator], words: Any, titles: Sequence[str] | None) -> tuple[Section, ...]:
    """Make the sections of tables and of purchased words."""
    found = []
    part: Any
    fitted: Any
    for k, one in enumerate(tables, 1):
        part, fitted = part_of(one), one._as_fitted()
        learned = part.learned(one, titles, 10)
        heading = f"Shares by {' and '.join(fitted.by)}"
        found.append(Section(f"tables{k}", heading, part.released(one), learned))
    if words is not None:
        part = part_of(words)
        found.append(Section("words", "Words", part.released(words), part.learned(words, None, 10)))
    return tuple(found)


def _number_names(learned: Learned, titles: Sequence[str] | None) -> Learned:
    """Name topics, or the rows of clusters, by their numbers from 1."""
    if titles is None:
        return learned
    if learned.topics:
        return replace(learned, topics=tuple(replace(one, name=titles[one.number - 1]) for one in learned.topics))
    rows = tuple((f"{row[0]}: {titles[int(row[0]) - 1]}", *row[1:]) for row in learned.table)
    return replace(learned, table=rows)


def _findings(every: Sequence[PrivateEstimator]) -> tuple[Finding, ...]:
    """Assess the assumptions of all parts together. Each part has to hold them."""
    found = []
    for same in zip(*(assess(one._fitted()) for one in every), strict=True):
        # The columns of tables are the topics of the model.
        own = same[:1] if same[0].assumption.name == "columns" else same
        held = all(one.held for one in own)
        whys = dict.fromkeys(one.why for one in own if one.held == held)
        found.append(Finding(same[0].assumption, held, " ".join(whys)))
    return tuple(found)
