"""Findings about the records of a logistic regression, from its releases.

The average S of the released s2 = sum of w <xi> x x^T says more than the coefficients. Over its entry of the constant,
its trace is the rows' mean square length before they are scaled down, since a row and its constant are scaled alike;
its last row gives the mean of the logits, and S itself their spread. The law of the noise in S is known. All of it is
post-processing of releases: it costs no privacy.
"""

import math
from typing import Any

import numpy as np

#: How much longer than the bound rows are told of; the logit of a rare class; the spread of logits of separated ones.
_LONGER, _RARE, _SEPARATED = 1.1, 4.5, 5.0
#: Standard deviations of the noise that a finding stands clear of.
_CLEAR = 3.0


@np.errstate(all="ignore")
def findings(model: Any) -> list[str]:
    """List the problems that releases show, each with its remedy; none if the noise hides them."""
    state, constant = model._fitted().state, model._as_fitted()._constant
    matrix, law = state.get("matrix"), state.get("law")
    weights = model._fitted().arrays["weights"]
    if matrix is None or law is None or not constant or weights.ndim > 1 or matrix.shape != (len(weights),) * 2:
        return []
    noise = 0.0 if law[2] == 0 else math.sqrt(2 / law[2])
    mass = float(matrix[-1, -1]) / constant**2
    if mass <= _CLEAR * noise / constant**2:
        return []
    found, bound = [], float(model._as_fitted().row_norm)
    square = float(matrix.diagonal()[:-1].sum()) / mass
    least = square - _CLEAR * noise * math.sqrt(len(weights) - 1) / mass
    if model._as_fitted().private and least > (_LONGER * bound) ** 2:
        found.append(
            f"row_norm={bound:g}: rows are about {math.sqrt(square):.2g} long and were scaled down, which biases "
            "coefficients; expected a public bound above that, such as the schema's largest row norm"
        )
    center = float(matrix[-1] @ weights) / constant / mass
    spread = math.sqrt(max(float(weights @ matrix @ weights) / mass - center**2, 0.0))
    if float(model._as_fitted().n_trials) != 1:
        return found
    if spread > _SEPARATED:
        found.append(
            f"classes {model.classes_.tolist()}: almost separated by the columns, so that coefficients say only how "
            "completely; expected no column that tells the label"
        )
    elif abs(center) > _RARE:
        rare = model.classes_[int(center < 0)].item()
        found.append(
            f"classes: {rare!r} occurs in hardly any record, so that no effect on it can be seen; expected classes "
            "that occur: join it with another, or check its spelling"
        )
    return found
