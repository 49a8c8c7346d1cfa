"""The slides' three scenarios of private gradient descent, on Adult. The formula printed and the one that holds."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
from common import DATA, listed, markdown, order
from peers import DPSGDLogisticRegression
from peers.theorems import pure_epsilon, zcdp_epsilon, zcdp_rho_for_target
from peers.uci import read_adult

from vips_fast.accounting import (
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    calibrate_noise_multiplier,
    epsilon,
)

TITLE = "Slides: the three scenarios of private gradient descent, Adult"
NEEDS = ("adult",)
EPSILON, DELTA, STEPS, SHARE, RUNS = 1.0, 1e-5, 50, 0.05, 20
RDP = dict(accountant="rdp", conversion="classical")

FORMULAS = {
    "laplace": (
        "1: σ = C/(m ln(1+(e^(ε/T)−1)n/m))",
        "B = 2C: replacing a clipped gradient moves the sum by 2C. (The line before the last lacks its ln.)",
    ),
    "zcdp": ("2: ρ = √(ln(1/δ)+ε)−√ln(1/δ), σ² = TC²/(n²ρ²)", "ρ = (√(ln(1/δ)+ε)−√ln(1/δ))², σ² = TB²/(2n²ρ), B = 2C"),
    "poisson": (
        "3: base ε(α) = αC²/(n²σ²), then T·ε_γ(⌈αC²/(n²σ²)⌉)",
        "base ε(α) = αC²/(2m²σ²), then T·ε_γ(⌈α⌉); adding a record moves the sum by C",
    ),
}


def event(scenario, n, z):
    """Return a run with noise of z times the sensitivity that holds."""
    if scenario == "laplace":
        one = WithoutReplacementEvent(round(SHARE * n), n, LaplaceEvent(z))
    elif scenario == "zcdp":
        one = GaussianEvent(z, relation="replace_one")
    else:
        one = PoissonSampledEvent(SHARE, GaussianEvent(z))
    return SelfComposedEvent(one, STEPS)


def noise(scenario, formula, n):
    """Return the noise over the sensitivity that holds."""
    if scenario == "laplace":
        z = 1 / math.log1p(math.expm1(EPSILON / STEPS) * n / round(SHARE * n))
        return z if formula == "right" else z / 2
    if scenario == "zcdp":
        rho = zcdp_rho_for_target(EPSILON, DELTA)
        # The printed rho is the root of the one that holds: sigma n / (2 C) = sqrt(T) / (2 rho).
        return math.sqrt(STEPS / (2 * rho)) if formula == "right" else math.sqrt(STEPS) / (2 * math.sqrt(rho))
    z = calibrate_noise_multiplier(lambda z: event(scenario, n, z), EPSILON, DELTA, **RDP)
    # The base of one step that reaches the target is rho = 1/(2 z^2); printed, it is C^2/(n sigma)^2 with m = SHARE n.
    return z if formula == "right" else SHARE * math.sqrt(2) * z


def own(scenario, n, z):
    """Compute epsilon as the slides account for it. With delta = 0, by zCDP and by Renyi divergences."""
    if scenario == "laplace":
        return pure_epsilon(event(scenario, n, z))
    if scenario == "zcdp":
        return zcdp_epsilon(STEPS / (2 * z**2), DELTA, "simple")
    return epsilon(event(scenario, n, z), DELTA, **RDP)


@lru_cache(1)
def load():
    table = read_adult(DATA / "adult" / "adult.data.gz", DATA / "adult" / "adult.test.gz")
    return table.X.tocsr(), table.y


def cells(scale: int) -> list[dict]:
    settings = [("non-private", "none")] + [(s, f) for s in FORMULAS for f in ("printed", "right")]
    return [dict(scenario=s, formula=f, runs=max(2, RUNS // scale)) for s, f in settings]


def run(cell: dict) -> dict:
    X, y = load()
    scenario, n = cell["scenario"], round(0.8 * len(y))
    figures, accuracy = {}, []
    options = dict(clip_norm=1.0, learning_rate=2.0, n_steps=STEPS)
    if scenario == "non-private":
        options |= dict(scenario="zcdp", private=False)
    else:
        z = noise(scenario, cell["formula"], n)
        figures = dict(noise_multiplier=z, own=own(scenario, n, z), tight=epsilon(event(scenario, n, z), DELTA))
        batch = {"laplace": round(SHARE * n), "zcdp": None, "poisson": SHARE * n}[scenario]
        options |= dict(scenario=scenario, noise_multiplier=z, batch_size=batch)
        options |= {} if scenario == "laplace" else dict(delta=DELTA)
    for seed in range(cell["runs"]):
        train, test = np.split(np.random.default_rng(seed).permutation(len(y)), [n])
        model = DPSGDLogisticRegression(n_jobs=1, random_state=seed, **options).fit(X[train], y[train])
        accuracy.append(float(model.score(X[test], y[test])))
    return figures | dict(accuracy=float(np.mean(accuracy)), sd=float(np.std(accuracy)), baseline=float(1 - y.mean()))


def orders(rows: list[dict]) -> list:
    """Check each formula's ε by the slides' own accountants."""

    def kept(formula):
        return {r["scenario"]: r["own"] <= 1.01 * EPSILON for r in rows if r["formula"] == formula}

    return [order(f"{formula} σ spends at most ε = {EPSILON:g}", kept(formula)) for formula in ("printed", "right")]


def report(rows: list[dict]) -> str:
    columns = (
        "scenario, σ as printed",
        "what holds",
        "noise",
        "noise / sensitivity",
        "ε by its own accountant",
        "ε by PLD",
        "accuracy ± sd",
    )
    shown = []
    for r in rows:
        accuracy = f"{r['accuracy']:.4f} ± {r['sd']:.4f}"
        if r["scenario"] == "non-private":
            shown.append(("none", None, "none", None, None, None, accuracy))
            continue
        first = FORMULAS[r["scenario"]] if r["formula"] == "printed" else ("", "")
        kind = "printed: **NOT PRIVATE** at ε = 1" if r["formula"] == "printed" else "right"
        shown.append((*first, kind, r["noise_multiplier"], r["own"], r["tight"], accuracy))
    return f"""Each formula is asked for ε = {EPSILON:g} over {STEPS} steps, with δ = 10⁻⁵ in scenarios 2 and 3 and
minibatches of a twentieth in 1 and 3. Gradients are clipped to norm C = 1 (L1 in scenario 1). Scenarios 1 and 2
replace a record, 3 adds or removes one. In 2 the missing square gives too much noise and the sensitivity too little,
and the second wins. In 3 the sensitivity of a step over all records is taken for one over a minibatch. Accuracy is over
{rows[0]["runs"]} random splits; always answering the commoner class gives {rows[0]["baseline"]:.4f}.

{listed(orders(rows))}

{markdown(columns, shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    return []
