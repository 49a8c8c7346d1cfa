"""Accountants' paper, Figure 3: epsilon and delta against the order lambda. For several numbers of steps."""

import math

import numpy as np
from acc_common import DELTA, NOISE, Q, exact, generic, steps_of
from common import STYLES, listed, markdown, order, save, subplots
from peers.theorems import log_moment

TITLE = "Accountants' paper, Figure 3: ε and δ against λ and T"
NEEDS = ()
EPSILON = 2.0


def cells(scale):
    """List a number of epochs each. They are cheap, and the same at every scale."""
    return [dict(epochs=epochs) for epochs in (1, 10, 100)]


def run(cell):
    """Curves over the orders, as printed (q^2) and with the mixture's moment."""
    steps, orders = steps_of(cell["epochs"]), list(range(1, 65))
    moment = [steps * float(log_moment(Q, NOISE, k)) for k in orders]
    printed = [steps * k * (k + 1) * Q**2 / (2 * NOISE**2) for k in orders]
    out = dict(steps=steps, orders=orders, exact=exact(Q, NOISE, steps, DELTA))
    out["any_order"] = generic(Q, NOISE, steps, DELTA)
    for name, curve in (("moments", moment), ("generic", printed)):
        out[f"{name}_epsilon"] = [(c - math.log(DELTA)) / k for c, k in zip(curve, orders)]
        out[f"{name}_log10_delta"] = [min(0.0, c - k * EPSILON) / math.log(10) for c, k in zip(curve, orders)]
    return out


def orders(rows):
    """Check the best order against T, and the printed formula. The formula has to be a bound."""
    best = [row["orders"][int(np.argmin(row["generic_epsilon"]))] for row in rows]
    steps = [f"T = {row['steps']:,}" for row in rows]
    falls = {f"{a} to {b}": x > y for a, b, x, y in zip(steps, steps[1:], best, best[1:])}
    bounds = {name: min(row["generic_epsilon"]) >= row["exact"] for name, row in zip(steps, rows)}
    return [order("the best λ falls as T grows", falls), order("the printed generic ε is at least the exact ε", bounds)]


def report(rows):
    """See the runner."""
    table = []
    for row in rows:
        best = {}
        for name in ("generic", "moments"):
            k = int(np.argmin(row[f"{name}_epsilon"]))
            best[name] = f"{row[f'{name}_epsilon'][k]:.3f} at λ = {row['orders'][k]}"
        table.append([f"{row['steps']:,}", best["generic"], row["any_order"], best["moments"], row["exact"]])
    columns = [
        "T",
        "generic as printed, NOT PRIVATE: least ε for λ ≤ 64",
        "for any λ",
        "moments accountant: least ε",
        "exact tight ε",
    ]
    return f"""The printed T and λ are lost; σ = 1 and δ = 10⁻⁵ are the run's that Table 1 gives away; T is for 1, 10
and 100 epochs; add or remove one image. The moments accountant's curve turns up steeply near λ = 12 at any T, where
the mixture's moment begins to grow like e^(λ²/2). The printed formula has no such wall: it is no bound.

{listed(orders(rows))}

{markdown(columns, table)}"""


def draw(rows, folder):
    """See the runner."""
    figure, (left, right) = subplots(1, 2, figsize=(10, 4))
    for row, style in zip(rows, STYLES):
        for name, fill in (("generic", "full"), ("moments", "none")):
            kept = dict(color=style["color"], marker=style["marker"], fillstyle=fill, markevery=6, markersize=5)
            label = f"T = {row['steps']:,}, {'generic as printed' if name == 'generic' else 'moments accountant'}"
            kept["linestyle"] = "-" if name == "generic" else "--"
            left.plot(row["orders"], row[f"{name}_epsilon"], label=label, **kept)
            right.plot(row["orders"], row[f"{name}_log10_delta"], **kept)
    left.set_yscale("log")
    left.set_ylim(0.1, 20)
    right.set_ylim(-45, 1)
    left.set_ylabel("ε at δ = 1e-5, add or remove one image")
    right.set_ylabel(f"log₁₀ δ at ε = {EPSILON:g}")
    for axis in (left, right):
        axis.set_xlabel("order λ")
    figure.legend(*left.get_legend_handles_labels(), loc="lower center", ncol=3, fontsize=8)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    return save(figure, folder, "acc_fig3")
