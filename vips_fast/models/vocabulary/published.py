"""Write a vocabulary purchase as a text, which is published with the model over its words.

The text is the purchase's transcript: settings, public facts and ledger, and the noised sums of every round, of
released tokens and of the one that everybody holds. Anyone can make the vocabulary again from it, without the data.
Weights, shares and the choice of words are functions of these sums (`vips_fast.models.vocabulary.model` proves that
they may be released). The text is an input of the model, so the model's ledger and signature seal it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...accounting import rounded_up
from ...engine.ledger import Ledger
from ...engine.plan import Planner
from ...engine.result import FORMAT, FitResult, Public
from ...engine.transcript import Run
from ...store.limits import parse_json
from ...store.words import counted
from ..family import PURCHASE, class_named, family_named
from .model import VocabularyModel, names_of, texts_of

#: Settings that choose among released tokens; they may change after the purchase.
CHOICE = ("max_share", "stop_words", "max_features", "order")


def purchase_text(words: Any) -> str:
    """Write a fitted `PrivateVocabulary`, with its present choice of words."""
    result = words._fitted()
    said = {
        "format": FORMAT,
        "model": result.kind,
        "n_steps": result.n_steps,
        "public": result.public.to_dict(),
        "settings": dict(result.settings),
        "choice": {name: value for name, value in words._settings().items() if name in CHOICE},
        "ledger": result.ledger.to_dict(),
        "tokens": names_of(result.state),
        "sums": result.state["sums"].tolist(),
    }
    return json.dumps(said, sort_keys=True, allow_nan=False) + "\n"


def read_purchase(text: str) -> Any:
    """Make the `PrivateVocabulary` in a text, which may be anybody's, again from its releases.

    Raises ValueError if the text is malformed, or its plan, ledger, releases and digest do not agree.
    """
    try:
        said = parse_json(text)
        if said["format"] != FORMAT or said["model"] not in family_named("words").names:
            raise ValueError("not a vocabulary of this format")
        return _rebuilt(said)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"malformed ({type(error).__name__})"
        raise ValueError(f"{PURCHASE}: not a purchase as it was published: {reason}") from None


def _rebuilt(said: dict[str, Any]) -> Any:
    ledger, public, settings = Ledger.from_dict(said["ledger"]), Public(**said["public"]), dict(said["settings"])
    tokens, sums = said["tokens"], said["sums"]
    if not all(isinstance(token, str) for token in tokens) or tokens != sorted(set(tokens)):
        raise ValueError("its tokens are not those of a release, each once and by alphabet")
    if not all(type(value) is int for units in sums for value in units):
        raise ValueError("its sums are not whole numbers")
    words = class_named(said["model"])._from_settings(settings)
    planned = Planner().plan(words.request(public, taints=ledger.taints))
    plan, model = planned.plan, cast(VocabularyModel, planned.model)
    if [plan.public()] != ledger.plans:
        raise ValueError("its plan is not the one that its settings lead to")
    records = tuple(record for record in ledger.records if record["kind"] != "close")
    run = Run(Path(PURCHASE), said["model"], settings, public, plan.public(), plan.taints, None, 0, False, records)
    run.ledger(Ledger(), plan)
    if not run.done == said["n_steps"] == len(sums):
        raise ValueError(f"it has sums of {counted(len(sums), 'round')}, its ledger {run.done}")
    state = {"sums": np.array(sums, dtype=np.int64).reshape(len(sums), -1), **texts_of(tokens)}
    model.restore(state)
    if not model.passed().all():
        raise ValueError("a token does not pass the threshold of its plan")
    result = FitResult(said["model"], settings, public, run.done, model.result(), model.state(), ledger)
    result.check()
    words._result = result
    return words.set_params(**{name: said["choice"][name] for name in CHOICE})


def check_purchase(
    model: Any, columns: tuple[str, ...] | None, statement: Callable[[Any], Any]
) -> list[tuple[str, bool, str]]:
    """Compare a model's purchase with its ledger and its columns: name, result and detail of each comparison.

    ``statement`` compares the stated epsilon of an estimator with its ledger's.
    """
    text = model.inputs_.get(PURCHASE)
    # An earlier fit that chose no columns has files of its own.
    purchases = [
        plan["purchase"] for plan in model.ledger_.plans if "purchase" in plan and not plan["purchase"].get("fit")
    ]
    if text is None and not purchases:
        return []
    if text is None or len(purchases) != 1:
        said = f"{counted(len(purchases), 'purchase')} in the ledger, {int(text is not None)} published"
        return [(PURCHASE, False, said)]
    try:
        words = read_purchase(text)
    except ValueError as error:
        return [(PURCHASE, False, str(error))]
    stated, names = statement(words), tuple(words.get_feature_names_out())
    said = f"{counted(len(words.ledger_), 'release')}, {counted(len(names), 'word')}, by their noised sums"
    share = f"epsilon = {rounded_up(words.privacy_.epsilon, 6)} of the model's"
    return [
        (PURCHASE, True, said),
        ("epsilon of the vocabulary", stated.ok, stated.detail),
        ("vocabulary in the ledger", words.purchase() == purchases[0], share),
        ("words of the columns", columns is None or columns == names, ""),
    ]
