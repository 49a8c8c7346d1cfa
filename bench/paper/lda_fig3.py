"""VIPS article, Figure 3: perplexity after each iteration, S = 20,000, sigma = 1.24; methods as in lda_fig2."""

import dataclasses
from pathlib import Path

from common import STYLES, markdown, save, subplots
from lda_common import load, unigram_perplexity, without_noise
from lda_fig2 import DELTA, PAPER, N, event, paper_options, planned_options

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import epsilon
from vips_fast.models.lda.paper import PaperLatentDirichletAllocation

TITLE = "VIPS article, Figure 3: perplexity per iteration, S = 20,000, ε = 2.38"
NEEDS = ("wiki",)
SIZE, SIGMA = 20_000, 1.24
METHODS = ("non-private", *PAPER, "ours")


class Watched:
    """An estimator that tells the perplexity after each step."""

    def _model(self, public, schedule=None):
        self.running = super()._model(public, schedule)
        return self.running

    def perplexity_so_far(self, Y):
        kind = type(self).__mro__[2]  # the estimator that is watched
        read_out = kind(self.n_components, n_steps=1, **without_noise()).fit(Y[:2])
        arrays = {"components": self.running.result()["components"]}
        read_out._result = dataclasses.replace(read_out._result, arrays=arrays)
        return read_out.perplexity(Y)


class WatchedPaper(Watched, PaperLatentDirichletAllocation):
    """The paper's topic model."""


class WatchedOurs(Watched, LatentDirichletAllocation):
    """Ours."""


def cells(scale: int) -> list[dict]:
    return [dict(method=method, scale=scale) for method in METHODS]


def run(cell: dict) -> dict:
    method, scale = cell["method"], cell["scale"]
    X, Y, _ = load(N // scale)
    spent = epsilon(event(SIZE, SIGMA), DELTA, "wang")
    if method == "ours":
        model = WatchedOurs(**planned_options(X.shape[1], spent, scale))
    else:
        model = WatchedPaper(**paper_options(method, SIZE, SIGMA, scale))
    perplexity = []
    model.set_params(callback=lambda progress: perplexity.append(model.perplexity_so_far(Y)))
    model.fit(X)
    return dict(perplexity=perplexity, last=perplexity[-1], epsilon=spent, unigram=unigram_perplexity(X, Y))


def report(rows: list[dict]) -> str:
    shown = []
    for row in rows:
        values, printed = row["perplexity"], "2.38" if row["method"] in PAPER else None
        theirs = None if printed is None else f"{row['epsilon']:.3f} (NOT PRIVATE)"
        sound = f"{row['epsilon']:.3f}" if row["method"] == "ours" else None
        steps = [f"{values[i - 1]:.0f}" if i <= len(values) else None for i in (1, 2, 5, 10, 20)]
        shown.append((row["method"], printed, theirs, sound, *steps, row["seconds"]))
    columns = ("method", "printed ε", "ε theirs", "ε sound", *(f"after {i}" for i in (1, 2, 5, 10, 20)), "seconds")
    last = ", ".join(f"{row['method']} {row['last']:.0f}" for row in sorted(rows, key=lambda row: row["last"]))
    return f"""Printed as a picture; order of methods at the end: non-private, moments accountant, then strong
composition and no clipping close together. Here at the end: {last}. The words' own frequencies have
{rows[0]["unigram"]:.0f}.

{markdown(columns, shown)}

The exact tight ε of the runs with the noise of the moments accountant is .984 with the paper's sensitivity and 2.162
with the one that holds. Corpus and quick form as in Figure 2. *Ours* has the proven ε of the paper's figure and takes
as many steps as it plans, each on more documents; that is how it can come below the paper's schedule without noise."""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    figure, axes = subplots(figsize=(7, 4.2))
    for style, row in zip(STYLES, rows):
        private = {"non-private": "", "ours": ", sound"}.get(row["method"], " (NOT PRIVATE)")
        steps = range(1, len(row["perplexity"]) + 1)
        axes.plot(steps, row["perplexity"], **style, markersize=4, label=row["method"] + private)
    axes.axhline(rows[0]["unigram"], color="grey", linestyle=":", label="words' own frequencies")
    axes.set(xlabel="iteration", ylabel="held-out perplexity", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=8)
    return save(figure, folder, "lda_fig3")
