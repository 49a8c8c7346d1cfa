"""All that a report says of one model, from released quantities and public facts alone: what the templates show.

A dossier is a function of a fitted estimator (its arrays, settings and ledger) and of public inputs that lie beside it
(words, names of columns). No data are asked for, and none are in reach.
"""

import base64
import inspect
import io
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
from ..models.examples import BernoulliMixture, GaussianMixture, VectorMixture
from ..models.lda import LatentDirichletAllocation
from ..models.logistic import BayesianLogisticRegression
from ..models.privacy_file import ledger_events
from ..models.sbn import ClassConditionalNetwork, SigmoidBeliefNetwork
from ..models.vocabulary import PrivateVocabulary
from . import figures
from .images import dictionary_grid, image_grid, save_png
from .text import component_rows, top_words
from .words import Gain, gain

#: Owners of so many records are spoken of.
_SIZES = (1, 2, 5, 10)
_MOST_POINTS, _MOST_RUNS, _MOST_ROWS = 12, 20, 40
#: So that a page stays below 3 MB: topics, hidden units, pixels of all images and rows of the table of coefficients.
_MOST_TOPICS, _MOST_UNITS, _MOST_PIXELS, _MOST_CELLS = 300, 200, 1_200_000, 5_000


@dataclass(frozen=True)
class Topic:
    """A topic: its number, its share of all words, its first words and their bars."""

    number: int
    share: float
    words: tuple[str, ...]
    #: How many of the words stand two standard errors above 0.
    clear: int
    bars: figures.Rows


@dataclass(frozen=True)
class Group:
    """Rows under one title: the coefficients of a class, the weights of a hidden unit."""

    title: str
    rows: figures.Rows


@dataclass(frozen=True)
class Picture:
    """A picture, as the address of an ``img``, and what it shows."""

    source: str
    text: str
    caption: str


@dataclass(frozen=True)
class Learned:
    """What was learned, by the kind of model; empty where the model has none of that kind."""

    family: str
    intro: str
    topics: tuple[Topic, ...] = ()
    map: figures.Map | None = None
    groups: tuple[Group, ...] = ()
    pictures: tuple[Picture, ...] = ()
    columns: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    words: tuple[str, ...] = ()
    note: str = ""
    caption: str = ""


@dataclass(frozen=True)
class Dossier:
    """What a report says; each field is shown where its name stands in the templates."""

    kind: str
    title: str
    private: bool
    taints: tuple[str, ...]
    statement: str
    facts: tuple[tuple[str, str], ...]
    unit: str
    gains: tuple[Gain, ...]
    learned: Learned
    findings: tuple[Finding, ...]
    curve: figures.Curve | None
    runs: tuple[dict[str, Any], ...]
    runs_left_out: int
    n_releases: int
    lost: int
    target: float | None
    budget: dict[str, Any] | None
    budget_charged: dict[str, str] | None
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
    missing: Sequence[str] = (),
) -> Dossier:
    """The dossier of a fitted estimator.

    ``words`` are those of a topic model's columns, ``names`` of any other's, None takes those that the model knows;
    ``n_words`` how many words, at least 1, a topic shows. ``audit`` is what `AuditReport.to_dict` gave, ``budget``
    what `Budget.show` did, ``verified`` a `vips_fast.models.rebuild.VerifyReport`; ``signed`` says that a signature
    was held against a key; ``missing`` are sentences on what the model's folder does not have. Raises
    NotFittedError before ``fit``; ValueError if there are not as many words or names as columns, or ``audit`` is no
    report of an audit.
    """
    check_number("n_words", n_words, 1, 1000, integer=True)
    result = model._fitted()
    privacy, ledger, n = result.privacy, result.ledger, result.public.n_features
    columns = words if words is not None else names if names is not None else result.public.feature_names
    if columns is not None and not isinstance(model, PrivateVocabulary) and len(columns) != n:
        what = "words" if words is not None else "names"
        raise ValueError(f"{what}: {len(columns)} were given; expected {n}, one for each column")
    _check_audit(audit)
    found = [gain(privacy, [event for _, event in ledger_events(ledger)])]
    if privacy.unit == "record" and not ledger.parts and privacy.event is not None:
        found += [gain(privacy, [privacy.event], size) for size in _SIZES[1:]]
    plans = ledger.plans
    learned = _learned(model, columns, n_words)
    closing: Mapping[str, Any] = next((r for r in reversed(ledger.records) if r["kind"] == "close"), {})
    kept = len(closing["transcript"]) if closing.get("transcript") else None
    facts = [
        ("ε (epsilon)", rounded_up(privacy.epsilon) if privacy.private else "none"),
        ("δ (delta)", rounded_up(privacy.delta, 3)),
        ("protected", f"one {privacy.unit}"),
        (f"{'row' if privacy.rows_per_unit else privacy.unit}s", f"{privacy.n_records}"),
        ("releases", f"{len(ledger)}"),
    ]
    return Dossier(
        kind=result.kind,
        title=learned.family,
        private=privacy.private,
        taints=privacy.taints,
        statement=privacy.statement(),
        facts=tuple(facts),
        unit=privacy.unit,
        gains=tuple(one for one in found if one is not None),
        learned=learned,
        findings=tuple(assess(result)),
        curve=_curve(ledger, privacy.delta) if privacy.private and len(ledger) else None,
        runs=tuple(map(dict, plans[-_MOST_RUNS:])),
        runs_left_out=max(0, len(plans) - _MOST_RUNS),
        n_releases=len(ledger),
        lost=ledger.lost,
        target=result.settings.get("target_epsilon"),
        budget=None if budget is None else dict(budget),
        budget_charged=ledger.budget,
        settings=_settings(model, result.settings),
        audit=None if audit is None else dict(audit),
        verified=verified,
        signed=signed,
        kept=kept,
        head=ledger.head,
        lacks=(*missing, *_lacks(model, columns, kept, audit, budget)),
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


def _curve(ledger: Ledger, delta: float) -> figures.Curve:
    """Epsilon at delta after some of the releases, and after all."""
    n, known = len(ledger), Ledger()
    at = {round(n * i / min(n, _MOST_POINTS)) for i in range(1, min(n, _MOST_POINTS) + 1)}
    points = [(0, 0.0)]
    for record in ledger.records:
        known.replay(record)
        if record["kind"] == "release" and len(known) in at:
            points.append((len(known), known.epsilon(delta)))
    return figures.spending_curve([point for point in points if math.isfinite(point[1])])


def _settings(model: PrivateEstimator, settings: Mapping[str, Any]) -> tuple[tuple[str, str, bool], ...]:
    """Name and value of each argument of the fit, and whether it is another than the default."""
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


def _lacks(model: PrivateEstimator, columns: Any, kept: int | None, audit: Any, budget: Any) -> tuple[str, ...]:
    """What a reader may look for in vain, and where it would come from."""
    found, result = [], model._fitted()
    missing = sorted(set(model.get_params()) - set(result.settings) - {"callback"})
    if missing:
        found.append(
            f"The settings {', '.join(missing)}: the model was saved by a version that did not have them, and the "
            "fit was as their defaults are now."
        )
    if columns is None and not isinstance(model, PrivateVocabulary):
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
        found.append("Figures of the training records, which the estimator holds: they are not private, and left out.")
    return tuple(found)


# ------------------------------------------------------------- by kind of model


def _learned(model: PrivateEstimator, columns: Sequence[str] | None, n_words: int) -> Learned:
    if isinstance(model, LatentDirichletAllocation):
        return _topics(model, columns, n_words)
    if isinstance(model, BayesianLogisticRegression):
        return _coefficients(model, columns)
    if isinstance(model, SigmoidBeliefNetwork):
        return _network(model, columns)
    if isinstance(model, PrivateVocabulary):
        return _vocabulary(model)
    if isinstance(model, (BernoulliMixture, GaussianMixture, VectorMixture)):
        return _mixture(model, columns, n_words)
    rows = []
    for name, array in model._fitted().arrays.items():
        numbers = [f"{f(array):.4g}" for f in (np.min, np.mean, np.max)] if array.size else ["", "", ""]
        rows.append((name, str(array.dtype), " × ".join(map(str, array.shape)) or "1", *numbers))
    head = ("array", "type", "shape", "least", "mean", "largest")
    own = "A belief network for each class" if isinstance(model, ClassConditionalNetwork) else "A model of one's own"
    return Learned(
        own,
        "The arrays that the model publishes, each a function of its releases.",
        columns=head,
        table=tuple(rows),
        caption="Published arrays",
    )


def _mixture(
    model: BernoulliMixture | GaussianMixture | VectorMixture, names: Sequence[str] | None, n_words: int
) -> Learned:
    """The components by weight, each with what tells it from the others."""
    return Learned(
        "Mixture",
        "Each record is of one of the components. A component shows its share of the records, and the words "
        "that its documents hold more often than others', or the columns whose means are furthest from those of all.",
        columns=("component", "share", "what tells it apart"),
        table=tuple(component_rows(model, names, n_words)[:_MOST_ROWS]),
        caption="Components by share",
    )


def _topics(model: LatentDirichletAllocation, words: Sequence[str] | None, n_words: int) -> Learned:
    components, errors = model.components_, model.components_sd_
    totals = components.sum(axis=1)
    names = top_words(components, words, n_words)
    best = np.argsort(-components, axis=1, kind="stable")[:, :n_words]
    noisy = bool((errors > 0).any())
    topics = []
    shown = np.sort(np.argsort(-totals, kind="stable")[:_MOST_TOPICS]).tolist()
    for k in shown:
        row = best[k]
        values, sd = components[k, row] / totals[k], errors[k, row] / totals[k]
        rows = figures.bars(names[k], values.tolist(), sd.tolist() if noisy else None)
        clear = int((values >= 2.0 * sd).sum())
        topics.append(Topic(k + 1, float(totals[k] / totals.sum()), tuple(names[k]), clear, rows))
    titles = [f"Topic {one.number}, {one.share:.1%} of all words: {', '.join(one.words[:5])}" for one in topics]
    hidden = sum(one.clear == 0 for one in topics)
    note = ""
    if noisy and hidden:
        note = (
            f"Of {len(topics)} topics {hidden} show no word that stands two standard errors above the noise: what "
            "they show may be noise."
        )
    if len(topics) < len(components):
        note += f" Shown are the {len(topics)} largest of {len(components)} topics."
    return Learned(
        "Topic model",
        "A topic is a distribution over words; a document mixes several. "
        + (
            "A bar is a word's probability in the topic, the line one standard error of the noise on either side. Pale "
            "bars are shorter than two of them: they cannot be told from noise."
            if noisy
            else "A bar is a word's probability in the topic. No noise was added."
        ),
        topics=tuple(topics),
        note=note.strip(),
        map=figures.topic_map(components[shown], titles, shown) if len(topics) > 2 else None,
    )


def _coefficients(model: BayesianLogisticRegression, names: Sequence[str] | None) -> Learned:
    means, d = model.coef_, model.n_features_in_
    limits = model.credible_interval(0.9).reshape(*means.shape, 2)
    names = [f"column {j + 1}" for j in range(d)] if names is None else list(names)
    classes = [str(label) for label in model.classes_.tolist()]
    titles = [f"for {c} against the rest" for c in classes]
    if len(means) == 1:
        titles = [f"for {classes[1]} against {classes[0]}"]
    most = max(5, _MOST_ROWS // len(means))
    groups, table, clear = [], [], 0
    for k, title in enumerate(titles):
        chosen = np.argsort(-np.abs(means[k]), kind="stable")[:most]
        low, high = limits[k, :, 0], limits[k, :, 1]
        clear += int(((low > 0) | (high < 0)).sum())
        span = min(0.0, float(low[chosen].min())), max(0.0, float(high[chosen].max()))
        for first in range(0, len(chosen), 20):
            part = chosen[first : first + 20]
            rows = figures.intervals(
                [names[j] for j in part], means[k, part].tolist(), low[part].tolist(), high[part].tolist(), span
            )
            groups.append(Group(title + (", continued" if first else ""), rows))
        listed = np.sort(np.argsort(-np.abs(means[k]), kind="stable")[: max(1, _MOST_CELLS // len(means))])
        table += [
            ((title,) if len(means) > 1 else ()) + (names[j], *(f"{v:+.4g}" for v in (means[k, j], low[j], high[j])))
            for j in listed.tolist()
        ]
    head = (("class",) if len(means) > 1 else ()) + ("column", "mean", "5 %", "95 %")
    return Learned(
        "Logistic regression",
        "A coefficient is how much a column adds to the log odds, all others being the same. The point is the "
        "posterior mean, the line the 90 % interval, which takes the noise into account. Pale intervals hold 0: their "
        f"sign is not known. Shown are the {most * len(means) if most < d else means.size} largest of {means.size}; of "
        f"all, {clear} have an interval without 0.",
        groups=tuple(groups),
        columns=head,
        table=tuple(table),
        caption="All coefficients" if len(table) == means.size else f"The {len(table)} largest coefficients",
    )


def _network(model: SigmoidBeliefNetwork, names: Sequence[str] | None) -> Learned:
    weights = model.components_
    n_units, n_pixels = weights.shape
    side = math.isqrt(n_pixels)
    if side * side == n_pixels and names is None:
        pictures = [_picture(image_grid(model.mean_image_[None], gap=0), "The mean image", "mean")]
        scale = dictionary_grid(model, (side, side))
        columns = math.ceil(math.sqrt(n_units))
        shown = min(n_units, _MOST_UNITS, max(1, _MOST_PIXELS // n_pixels))
        for k in range(shown):
            a, b = (k // columns) * (side + 1) + 1, (k % columns) * (side + 1) + 1
            one = scale[a : a + side, b : b + side]
            pictures.append(_picture(one, f"Weights of hidden unit {k + 1}", f"unit {k + 1}"))
        note = f"Shown are {shown} of {n_units} hidden units." if n_units > shown else ""
        return Learned(
            "Sigmoid belief network",
            "The released mean of the images, black being 1, and what each hidden unit adds to the log odds of each "
            "pixel: grey is 0, black is more, white is less.",
            pictures=tuple(pictures),
            note=note,
        )
    names = [f"column {j + 1}" for j in range(n_pixels)] if names is None else list(names)
    span = min(0.0, float(weights.min())), max(0.0, float(weights.max()))
    groups = []
    for k, row in enumerate(weights[:_MOST_UNITS]):
        chosen = np.argsort(-np.abs(row), kind="stable")[:10]
        values = row[chosen].tolist()
        rows = figures.intervals([names[j] for j in chosen], values, values, values, span)
        groups.append(Group(f"hidden unit {k + 1}", rows))
    return Learned(
        "Sigmoid belief network",
        "What each hidden unit adds to the log odds of the columns that it matters most for; the points are posterior "
        "means.",
        groups=tuple(groups),
        note=f"Shown are {len(groups)} of {n_units} hidden units." * (n_units > len(groups)),
    )


def _vocabulary(model: PrivateVocabulary) -> Learned:
    names, shares = [str(name) for name in model.get_feature_names_out()], model.shares_
    order = np.argsort(-shares, kind="stable")[:_MOST_ROWS]
    groups = []
    for first in range(0, len(order), 20):
        part = order[first : first + 20]
        rows = figures.bars([names[j] for j in part], shares[part].tolist())
        groups.append(Group(f"Words {first + 1} to {first + len(part)}", rows))
    return Learned(
        "Vocabulary",
        f"{len(names)} words that enough {model.privacy_.unit}s use. A bar is the noised share of the "
        f"{model.privacy_.unit}s that hold the word.",
        groups=tuple(groups),
        words=tuple(names),
        note="" if names else "No word passed the threshold: the vocabulary is empty.",
    )


def _picture(grid: np.ndarray, text: str, caption: str) -> Picture:
    file = io.BytesIO()
    save_png(grid, file, scale=1)
    return Picture("data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii"), text, caption)
