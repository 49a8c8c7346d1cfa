"""Coverage of the topics' 90 % intervals, on simulated documents.

Documents of 60 words from 10 topics over 1,000 words, topics Dirichlet with Zipf's means. A fit of one step, from the
true topics, has the same expected statistics with noise and without. So the intervals of one are about the entries
of the other. Shares are of all entries, of the ten and of the hundred first words of each topic as the private fit
ranks them, and of the words whose interval leaves out 0.
"""

from pathlib import Path

import numpy as np
from common import markdown
from scipy.sparse import csr_array

from vips_fast import LatentDirichletAllocation

TITLE = "Topics: coverage of intervals of the words' probabilities"
NEEDS = ()
RUNS, TOPICS, WORDS, LENGTH, LEVEL = 10, 10, 1_000, 60, 0.9
SIZES, EPSILONS = (2_000, 20_000), (0.1, 0.5, 2.0)
SHOWN = ("all", "ten", "hundred", "leave out 0")


def simulate(run, n):
    """(counts, topics)."""
    rng = np.random.default_rng([run, n])
    zipf = 1 / np.arange(1, WORDS + 1)
    topics = rng.dirichlet(np.maximum(zipf / zipf.sum() * WORDS * 0.1, 1e-3), size=TOPICS)
    mixtures = rng.dirichlet(np.full(TOPICS, 0.2), size=n)
    return csr_array(rng.poisson(LENGTH * mixtures @ topics).astype(np.int32)), topics


class Started(LatentDirichletAllocation):
    """A fit whose first step has the true topics of this run."""

    def _model(self, public, schedule=None):
        model = super()._model(public, schedule)
        model._fill_table(np.ascontiguousarray(simulate(self.random_state, public.n_records)[1].T) + 1e-6)
        return model


def cells(scale: int) -> list[dict]:
    return [dict(n=n, epsilon=epsilon, runs=max(2, RUNS // scale)) for n in SIZES for epsilon in EPSILONS]


def run(cell: dict) -> dict:
    found: dict = {name: [] for name in SHOWN}
    for i in range(cell["runs"]):
        X, _ = simulate(i, cell["n"])
        settings = dict(n_components=TOPICS, doc_length=LENGTH, n_steps=1, sampling="full", n_jobs=1, random_state=i)
        private = Started(**settings, epsilon=cell["epsilon"], delta=1e-5).fit(X)
        truth = Started(**settings, noise_multiplier=0.0).fit(X).components_
        low, high = np.moveaxis(private.components_interval(LEVEL), 2, 0)
        # Both read-outs add the prior; truth has the rounding of sums to the noise's lattice.
        inside = (low <= truth * (1 + 1e-9)) & (truth <= high * (1 + 1e-9))
        order = np.argsort(-private.components_, axis=1)
        for name, first in (("ten", 10), ("hundred", 100)):
            found[name].append(float(np.take_along_axis(inside, order[:, :first], 1).mean()))
        found["all"].append(float(inside.mean()))
        clear = low > 1 / TOPICS
        found["leave out 0"].append(float(inside[clear].mean()) if clear.any() else None)
    return found


def report(rows: list[dict]) -> str:
    def text(values):
        values = [v for v in values if v is not None]
        if not values:
            return "–"
        return f"{np.mean(values):.3f} ± {np.std(values) / max(1, len(values) - 1) ** 0.5:.3f}"

    table = [(f"{row['n']:,}", row["epsilon"], row["runs"], *(text(row[name]) for name in SHOWN)) for row in rows]
    columns = ("documents", "ε", "runs", "all entries", "first ten words", "first hundred", "interval leaves out 0")
    return f"""Share of the words' probabilities whose 90 % interval holds the value of the same fit without noise, ±
standard errors over runs of simulated documents; adding or removing one, δ = 10⁻⁵.

{markdown(columns, table)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    return []
