"""The paper's privacy figures, recomputed.

For each setting of Park, Foulds, Chaudhuri & Welling (2020) the printed epsilon stands beside

- the analytical moments accountant with the classical conversion, as the paper used it (theorem 9
  of Wang et al. 2019 for the topic model and the belief network, theorem 27 with 600 orders for the regression),
- the same curve with the tight conversion (theorem 9),
- the tight value for Poisson sampling under add/remove (another relation),
- the tight value for the paper's own sampling and relation,
- that value and the best attack for the sensitivities that hold, since the printed ones are too small or too
  large, and
- the noise multiplier that reaches the printed epsilon, ours and theirs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from common import listed, markdown, order
from peers.attacks import epsilon_lower_bound
from peers.wang import WANG

from vips_fast.accounting import (
    GaussianEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    calibrate_noise_multiplier,
    epsilon,
    rounded_down,
    rounded_up,
)


@dataclass(frozen=True)
class Setting:
    """A run of the paper, with its printed epsilon.

    `true_sensitivity` is the sensitivity that holds over the one that the paper divides by; `bound` and `max_order`
    say how the paper computed its figure.
    """

    name: str
    sample_size: int
    n_records: int
    steps: int
    noise_multiplier: float
    delta: float
    printed: float
    true_sensitivity: float
    bound: str = "thm9"
    max_order: int = 256

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Return the run, with the paper's sampling and relation."""
        one = WithoutReplacementEvent(self.sample_size, self.n_records, GaussianEvent(noise_multiplier))
        return SelfComposedEvent(one, self.steps)

    def poisson_event(self, noise_multiplier: float) -> PrivacyEvent:
        """Return the run with Poisson sampling at the same rate, add/remove."""
        rate = self.sample_size / self.n_records
        return SelfComposedEvent(PoissonSampledEvent(rate, GaussianEvent(noise_multiplier)), self.steps)


def blr_joint_sensitivity(c1: float, c2: float) -> float:
    """Compute N times the replace-one L2 sensitivity, in the regression.

    Of (s1 / c1, s2 / c2).

    s1 is the mean of (y - 1/2) x and s2 the mean of <xi> x x^T with |x| <= 1 and 0 <= <xi> <= 1/4. The distance is
    largest either for orthogonal or for equal x with opposite y:

        max{ 1/(2 c1^2) + 1/(8 c2^2) + c2^2 / (2 c1^4)  where 2 c2^2 <= c1^2,
             1/c1^2 + 1/(16 c2^2) }.
    """
    value = 1.0 / c1**2 + 1.0 / (16.0 * c2**2)
    if 2.0 * c2**2 <= c1**2:
        value = max(value, 0.5 / c1**2 + 0.125 / c2**2 + 0.5 * c2**2 / c1**4)
    return math.sqrt(value)


SETTINGS: list[Setting] = [
    # Two documents with disjoint words reach sqrt(2) times the printed bound.
    Setting("LDA S=20,000 of 400,000", 20000, 400000, 20, 1.24, 1e-4, 2.38, math.sqrt(2.0)),
    # One of the seven blocks is a function of released parameters.
    *(
        Setting(f"SBN S={size:,} of 60,000", size, 60000, steps, 1.0, 1e-4, printed, math.sqrt(6.0 / 7.0))
        for size, steps, printed in ((400, 150, 1.34), (800, 75, 1.74), (1600, 37, 2.44), (3200, 18, 3.34))
    ),
    # Both statistics leave one minibatch, scaled by the printed 2/N and 1/(2N).
    *(
        Setting(f"BLR q=0.004, z={z:g}", 1, 250, 100, z, 1e-3, printed, blr_joint_sensitivity(2.0, 0.5), "thm27", 600)
        for z, printed in ((1.0, 0.8), (6.0, 0.05), (12.0, 0.025))
    ),
]


@dataclass(frozen=True)
class PaperRow:
    """Figures of one setting; the module's text explains each column."""

    setting: Setting
    wang: float
    wang_tight: float
    poisson: float
    tight: float
    true_low: float
    true_high: float
    noise_ours: float
    noise_theirs: float


def paper_row(s: Setting) -> PaperRow:
    """Return the figures of a setting."""
    z, orders = s.noise_multiplier, (*range(2, 65), *range(72, s.max_order + 1, 8))
    event, true = s.event(z), s.event(z / s.true_sensitivity)
    return PaperRow(
        setting=s,
        wang=epsilon(event, s.delta, WANG, bound=s.bound, orders=orders),
        wang_tight=epsilon(event, s.delta, WANG, conversion="tight", orders=orders),
        poisson=epsilon(s.poisson_event(z), s.delta),
        tight=epsilon(event, s.delta),
        true_low=epsilon_lower_bound(true, s.delta),
        true_high=epsilon(true, s.delta),
        noise_ours=calibrate_noise_multiplier(s.event, s.printed, s.delta),
        noise_theirs=calibrate_noise_multiplier(s.event, s.printed, s.delta, WANG, bound=s.bound, orders=orders),
    )


TITLE = "VIPS article: every printed epsilon"
NEEDS: tuple[str, ...] = ()


def cells(scale: int) -> list[dict]:
    """List one part for each setting; no scale cuts any."""
    return [dict(setting=setting.name) for setting in SETTINGS]


def run(cell: dict) -> dict:
    row = asdict(paper_row(next(setting for setting in SETTINGS if setting.name == cell["setting"])))
    return dict(printed=row.pop("setting")["printed"], **row)


def cut(value: float, like: float) -> str:
    """Cut the value to the digits of a printed one."""
    digits = len(f"{like:g}".partition(".")[2])
    return f"{math.floor(value * 10**digits) / 10**digits:g}"


def orders(rows: list[dict]) -> list:
    """Check the printed digits, and the printed ε under sound sensitivities."""
    return [
        order(
            "the article's accountant gives the printed digits",
            {r["setting"]: cut(r["wang"], r["printed"]) == f"{r['printed']:g}" for r in rows},
        ),
        order(
            "the printed ε covers the sensitivities that hold",
            {r["setting"]: r["true_high"] <= r["printed"] for r in rows},
        ),
    ]


def report(rows: list[dict]) -> str:
    columns = ("setting", "printed", "theirs", "theirs, tight conversion", "exact tight", "sound: [attack, bound]")
    shown = [
        (
            row["setting"],
            f"{row['printed']:g}",
            *(rounded_up(row[name]) for name in ("wang", "wang_tight", "tight")),
            f"[{rounded_down(row['true_low'])}, {rounded_up(row['true_high'])}]",
            f"{row['noise_ours']:.3f}; {row['noise_theirs']:.3f}",
        )
        for row in rows
    ]
    return f"""*Theirs* is the paper's accountant (Wang, Balle & Kasiviswanathan 2019) with the paper's sensitivities:
theorem 9 with orders to 256, and theorem 27 with orders to 600 for the logistic regression, both with the classical
conversion. Its digits are those printed, cut off and not rounded, but for S = 3,200. *Exact tight* is the same run by
the privacy loss distribution; *sound* is that with the sensitivities that hold: the topic model's printed one is √2
too small.

{listed(orders(rows))}

{markdown((*columns, "noise for the printed ε: ours; theirs"), shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    return []
