"""``privacy.json``: guarantee of a saved model, with schema ``privacy.schema.json``.

The groups and their names follow the registry of deployments of differential privacy (Nanayakkara, Ghazi & Vadhan
2025). They are flavor, privacy loss, model of trust, accounting, implementation. Everything is computed from the
model's ledger and public facts when the model is saved. The file is never read back as truth: loading a model ignores
it, and ``verify`` computes it again and compares.
"""

import json
import math
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..accounting import ACCOUNTANTS, gaussian_mu, inference_success
from ..engine.assumptions import assess
from ..engine.result import FitResult
from ..store.folder import Folder
from ..store.limits import parse_json

if TYPE_CHECKING:
    from ..accounting import PrivacyEvent

PRIVACY_FILE, FORMAT = "privacy.json", 5
#: Shares of right guesses of a secret without the model: an attribute, one of a hundred persons.
_GUESSES = (0.5, 0.1, 0.01)
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,40}")


def privacy_record(result: FitResult) -> dict[str, Any]:
    """Write a result's statement as a JSON value.

    See the schema. ``privacy_loss`` has ``epsilon``, ``delta``, ``mu`` (Gaussian differential privacy) and ``rho``
    (zero-concentrated). The last two are null unless every release is a Gaussian mechanism on all the data, and no
    odometer bounds them. A tainted result has null for all.
    """
    from .. import __version__

    privacy, ledger = result.privacy, result.ledger
    bounds = ledger.bounds(privacy.delta)
    mus = [gaussian_mu(event) if share == 1.0 else None for _, event, share in bounds]
    mu = max((value for value in mus if value is not None), default=0.0) if None not in mus else None
    # A Gaussian mechanism is rho-zCDP with 1 / (2 z^2) (Bun & Steinke 2016, proposition 1.6).
    rho = None if mu is None else mu**2 / 2
    known = privacy.private and math.isfinite(privacy.epsilon)
    accountant = ACCOUNTANTS.get(privacy.accountant)
    return {
        "format": FORMAT,
        "statement": privacy.statement(),
        "private": privacy.private,
        "taints": list(privacy.taints),
        "dp_flavor": {"name": "approximate", "relation": privacy.relation},
        "privacy_loss": {
            "unit": privacy.unit,
            "epsilon": privacy.epsilon if known else None,
            "delta": privacy.delta if known else None,
            "mu": mu if known else None,
            "rho": rho if known else None,
        },
        "risk": _risk(privacy.attack_success if known else None, [event for _, event, _ in bounds]),
        "model": {"name": "central", "release": "one fitted model; the noised state of every step"},
        "accounting": {
            "accountant": privacy.accountant,
            "title": accountant.title if accountant else "none",
            "source": accountant.source if accountant else "",
            "releases": privacy.steps,
            "lost": privacy.lost,
            "events": [{"part": part, "event": event.to_dict(), "share": share} for part, event, share in bounds],
            "calls": privacy.calls,
            "vocabulary_included": privacy.vocabulary,
            "budget": ledger.budget,
        },
        "implementation": {
            "estimator": result.kind,
            "mechanism": "Gaussian",
            "n_steps": result.n_steps,
            "runs": [asdict(run) for run in privacy.runs],
        },
        "released": [{"array": name, "shape": list(array.shape)} for name, array in sorted(result.arrays.items())],
        "assumptions": [
            {
                "name": f.assumption.name,
                "text": f"{f.assumption.title}. {f.assumption.text}",
                "checked": f.held,
                "why": f.why,
            }
            for f in assess(result)
        ],
        "versions": {"vips_fast": __version__},
        "digests": {"ledger": ledger.head, "result": ledger.closing},
    }


def _risk(attack_success: float | None, events: "list[PrivacyEvent]") -> dict[str, Any]:
    """Bound guesses about one unit for the worst part.

    See `vips_fast.accounting.tradeoff`; null and none where the statement has no ``attack_success``, without a
    guarantee or with an odometer.
    """
    known = [] if attack_success is None else [(b, [inference_success(event, b) for event in events]) for b in _GUESSES]
    return {
        "attack_success": attack_success,
        "inference": [{"baseline": baseline, "success": max(most, default=baseline)} for baseline, most in known],
    }


def privacy_json(result: FitResult, versions: dict[str, str] | None = None) -> str:
    """Return `privacy_record` as the text of the file; ``versions`` are by default those of this package."""
    record = privacy_record(result)
    if versions is not None:
        record["versions"] = versions
    return json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n"


def compare_record(folder: Folder, result: FitResult) -> tuple[bool, str]:
    """Compare a folder's ``privacy.json`` with its result.

    Only the number of the package's version may be another. Returns whether they agree, and a note about it.
    """
    if not folder.holds(PRIVACY_FILE):
        return False, "missing"
    try:
        data, said = folder.read(PRIVACY_FILE), folder.json(PRIVACY_FILE)
    except ValueError as error:
        return False, str(error)
    if not isinstance(said, dict):
        return False, "not a JSON object"
    want, versions = parse_json(privacy_json(result)), said.get("versions")
    try:
        other = sorted(key for key in said.keys() | want.keys() if key != "versions" and said.get(key) != want.get(key))
    except RecursionError:
        return False, "nested too deeply"
    if other:
        return False, f"{', '.join(other)}: not what the ledger gives"
    if not (isinstance(versions, dict) and versions.keys() == want["versions"].keys()):
        return False, f"versions: expected that of {', '.join(want['versions'])}"
    if not all(isinstance(number, str) and _VERSION.fullmatch(number) for number in versions.values()):
        return False, "versions: expected numbers such as 1.2.3"
    same = data == privacy_json(result, versions).encode()
    return same, "" if same else "the values in another form than it is written"
