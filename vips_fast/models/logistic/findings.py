"""Findings about the records of a logistic regression, from its releases.

The first released s2, S = sum of b/4 x x^T, says more than the coefficients. Its trace over its entry of the
constant is the rows' mean square length before they are scaled down, since a row and its constant are scaled alike. Its
last row gives the mean of the logits, and S itself their spread. The law of the noise in S is known. The last step
counts values that were moved to a bound, and counts that were cut. All of it is post-processing of releases: it costs
no privacy.
"""

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from ...engine.measured import JUDGES
from ..family import SCHEMA
from ..several import clear_deviations
from .effects import (
    FEWEST_STEPS,
    MOST_NAMED,
    Effect,
    Told,
    absent_classes,
    changes,
    effects,
    names,
    separating,
    too_few_steps,
)

#: How much longer than the bound rows have to be for a finding; the log odds ratio of a value that tells the class: in
#: simulations 4.1 and more if all its records had one, and 3.4 if the true ratio was 20.
_LONGER, _TELLING = 1.1, 4.0
#: Standard deviations of the noise that a finding stands clear of; those of a 90 % interval.
_CLEAR, _NINETY = 3.0, 1.645
#: Probability that no warning is made by noise alone: fits are many.
_SURELY = 1 - 1e-6
#: A share of moved values that is not told; noise in the ratio of counts' variance to the stated one that hides it.
_NEXT_TO_NONE, _HIDES = 0.001, 0.5


def _of_unknown(model: Any, but: Collection[str] = ()) -> list[str]:
    """Say in words which effects are not known, ``but`` those of some columns."""
    told = Told.of(model)
    of = len(told.known) + len(told.unknown)
    unknown = [one for one in told.unknown if one.name not in but and not one.large]
    if not unknown:
        return []
    if steps := too_few_steps(model):
        return [
            f"effects: {steps} steps are too few for intervals, since the centers are still on their way; expected "
            f"n_steps={FEWEST_STEPS} or more"
        ]
    named = list(dict.fromkeys(one.name for one in unknown))
    more = ", …" if len(named) > MOST_NAMED else ""
    return [
        f"effects: the data say little or nothing about {len(unknown)} of {of} at this "
        f"epsilon, so they have no intervals ({', '.join(named[:MOST_NAMED])}{more}); expected more records or "
        "epsilon, or fewer columns"
    ]


def counted(model: Any, level: float = 0.99) -> list[str]:
    """Say what the last step counted: values beyond bounds, counts that were cut; and whether dispersion is known.

    With probability ``level`` no share is said that only noise made. Columns of 0 and 1 have no bounds.
    """
    state, one, found = model._fitted().state, model._as_fitted(), []
    counts = model._fitted().public.classes is None
    if "shares" in state:
        *shares, sd = state["shares"].tolist()
        n = model._fitted().public.n_records
        numbers = zip(names(model), changes(model), shares, strict=False)
        own = [(name, share) for name, change, share in numbers if change.step]
        if counts:
            own.append(("", shares[-1]))
        least = clear_deviations(len(own), level=level) * sd
        for name, share in own:
            if share <= max(least, _NEXT_TO_NONE):
                continue
            error = _NINETY * math.hypot(sd, math.sqrt(share * max(1 - share, 0.0) / min(n, JUDGES)) * (n > JUDGES))
            about = f"about {share:.1%} (± {error:.1%})"
            if name:
                found.append(
                    f"{name}: {about} of the values are beyond its bounds and were moved to them, which bends its "
                    'effect; expected wider public bounds, or beyond = "missing" or "refuse" in the schema'
                )
            else:
                found.append(
                    f"largest={float(one.largest):g}: {about} of the counts are above it and were cut, so that effects "
                    "are on the mean of the cut counts; expected a larger public bound"
                )
    matrix, squares = state.get("matrix"), state.get("squares_law")
    if counts and one.private and matrix is not None and squares is not None and len(matrix):
        # A curvature that noise brought to 0 or less hides it, too.
        if math.sqrt(float(squares[0])) > _HIDES * float(np.linalg.norm(np.maximum(matrix.diagonal(), 0.0))):
            found.append(
                f"dispersion={float(one.dispersion):g}: the noise hides whether counts are spread more than that, so "
                "intervals rest on it; expected more records or epsilon, a smaller largest=, or a dispersion known to "
                "be large enough"
            )
    return found


@np.errstate(all="ignore")
def findings(model: Any) -> list[str]:
    """List problems that releases show or leave open, with remedies."""
    state, constant = model._fitted().state, model._as_fitted()._constant
    matrix, law = state.get("rows"), state.get("law")
    weights = model._fitted().arrays["weights"]
    found = _of_unknown(model) + counted(model, _SURELY)
    if weights.ndim > 1 and constant:
        return found + [_of_rare(name) for name in absent_classes(model).values()]
    if matrix is None or law is None or matrix.shape != (len(weights),) * 2 or not constant:
        return found
    noise, mass = _noise(law), float(matrix[-1, -1]) / constant**2
    shown = mass > _CLEAR * noise / constant**2
    if not mass > 0:
        return found  # not a record
    if model._as_fitted().private:
        bound = float(model._as_fitted().row_norm)
        square = float(matrix.diagonal()[:-1].sum()) / mass
        error, limit = _CLEAR * noise * math.sqrt(len(weights) - 1) / mass, (_LONGER * bound) ** 2
        if shown and square - error > limit:
            found.append(
                f"row_norm={bound:g}: rows are about {math.sqrt(square):.2g} long and were scaled down, which biases "
                "coefficients; expected a public bound above that, such as the schema's largest row norm"
            )
        elif SCHEMA not in model.inputs_ and (not shown or square + error > limit):
            found.append(
                f"row_norm={bound:g}: the noise hides whether rows are longer and were scaled down, which would bias "
                "coefficients; expected a bound that follows from public facts, such as a schema"
            )
    if not shown:
        return found
    if float(model._as_fitted().n_trials) != 1:
        return found
    rare, (separated, by_these) = list(absent_classes(model).values()), separating(model)
    if separated or rare:
        # That is why nothing is known.
        found = [text for text in found if not text.startswith("effects: ")]
    if separated:
        mostly = [name for name, one in zip(names(model), by_these, strict=True) if one]
        by = f" (mostly {', '.join(mostly[:MOST_NAMED])})" if mostly else ""
        found.append(
            f"classes {model.classes_.tolist()}: almost separated by the columns{by}, so that coefficients say only "
            "how completely; expected no column that tells the label: leave it out"
        )
    elif rare:
        found += map(_of_rare, rare)
    elif values := _of_values(model):
        # Which is why nothing is known of them, and they are not named again.
        named = {one.name for one in values}
        found = [text for text in found if not text.startswith("effects: ")] + _of_unknown(model, named)
        listed = ", ".join(f"{one.name.partition('=')[0]} {one.change}" for one in values[:MOST_NAMED])
        found.append(
            f"effects: nearly all records of a value have one class ({listed}), so that its odds ratio says only that "
            "it is large; expected values with records of both classes: leave the column out, or join the value with "
            "another"
        )
    return found


def _noise(law: np.ndarray) -> float:
    """Compute the standard deviation of an entry of S."""
    return math.sqrt(2 * float(law[4]))


def _of_rare(name: Any) -> str:
    """Say that a class hardly occurs."""
    return (
        f"classes: {name!r} occurs in hardly any record, so that no effect on it can be seen; expected classes "
        "that occur: join it with another, or check its spelling"
    )


def _of_values(model: Any) -> list[Effect]:
    """List values of the schema whose records have nearly all one class.

    Their curvature is next to nothing, so that noise mostly hides their intervals.
    """
    own = changes(model)
    if not any(change.text and not change.step for change in own):
        return []
    return [
        one
        for one, change in zip(effects(model, 0.9), own, strict=True)
        if change.text and not change.step and abs(one.log_ratio.mean) > _TELLING and (one.clear or not one.known)
    ]
