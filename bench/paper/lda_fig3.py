"""VIPS article, Figure 3: perplexity after each iteration. S = 20,000, sigma = 1.24; methods as in lda_fig2."""

import dataclasses
from pathlib import Path

import numpy as np
from common import STYLES, listed, markdown, order, save, subplots
from lda_common import load, unigram_perplexity, without_noise
from lda_fig2 import DELTA, MA, NO_CLIP, PAPER, RELATION, STRONG, N, event, paper_options, planned_options
from peers.wang import WANG
from scipy.special import digamma

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import epsilon
from vips_fast.kernels import lda_estep
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

    def clipped_so_far(self, Y):
        """Compute the share of documents with large statistics."""
        topics = self.running.result()["components"]
        beta = np.exp(digamma(topics) - digamma(topics.sum(axis=1, keepdims=True)))
        alpha = np.full(len(topics), 1.0 / len(topics))
        found = lda_estep(Y.indptr, Y.indices, Y.data, beta, alpha)
        return float((found.norms > 0.1 * Y.sum(axis=1)).mean())


class WatchedPaper(Watched, PaperLatentDirichletAllocation):
    """The paper's topic model."""


class WatchedOurs(Watched, LatentDirichletAllocation):
    """Ours."""


def cells(scale: int) -> list[dict]:
    return [dict(method=method, scale=scale) for method in METHODS]


def run(cell: dict) -> dict:
    method, scale = cell["method"], cell["scale"]
    X, Y, _ = load(N // scale)
    spent = epsilon(event(SIZE, SIGMA), DELTA, WANG)
    if method == "ours":
        model = WatchedOurs(**planned_options(X.shape[1], spent, scale))
    else:
        model = WatchedPaper(**paper_options(method, SIZE, SIGMA, scale))
    perplexity, clipped = [], []

    def watch(progress):
        perplexity.append(model.perplexity_so_far(Y))
        clipped.append(model.clipped_so_far(Y))

    model.fit(X, callback=watch)
    return dict(
        perplexity=perplexity, clipped=clipped, last=perplexity[-1], epsilon=spent, unigram=unigram_perplexity(X, Y)
    )


def orders(rows: list[dict]) -> list:
    """Check the printed orders after each step."""
    found = {row["method"]: row["perplexity"] for row in rows}

    def below(better, worse):
        if not {better, worse} <= found.keys():
            return {}
        return {f"step {i + 1}": a < b for i, (a, b) in enumerate(zip(found[better], found[worse]))}

    chain = [("non-private", MA), *((MA, name) for name in STRONG), *((name, NO_CLIP) for name in STRONG)]
    approach = f'{NO_CLIP} "gradually approached the performance of strong composition", in '
    difference, ratio = {}, {}
    for name in STRONG if NO_CLIP in found else ():
        (first, last), (no_first, no_last) = ((found[m][0], found[m][-1]) for m in (name, NO_CLIP))
        difference[name], ratio[name] = no_last - last < no_first - first, no_last / last < no_first / first
    return [
        *(order(f"{better} below {worse}", below(better, worse)) for better, worse in chain),
        order(approach + "difference", difference),
        order(approach + "ratio", ratio),
    ]


def report(rows: list[dict]) -> str:
    steps = (1, 2, 5, 10, 20)
    shown = [
        (row["method"], *(f"{row['perplexity'][i - 1]:.0f}" if i <= len(row["perplexity"]) else None for i in steps))
        for row in rows
    ]
    last = ", ".join(f"{row['method']} {row['last']:.0f}" for row in sorted(rows, key=lambda row: row["last"])[:3])
    found = {row["method"]: row for row in rows}
    gaps = [100 * (found[NO_CLIP]["perplexity"][i] / found[STRONG[0]]["perplexity"][i] - 1) for i in (0, -1)]
    shares = found[MA]["clipped"]
    return f"""*Here*, at the end: {last}; the words' own frequencies have {rows[0]["unigram"]:.0f}. As in Figure 2, all
replace one document; the paper's curves, at its ε of {rows[0]["epsilon"]:.3f}, are NOT PRIVATE and *ours* is proven. It
takes as many steps as it plans, each on more documents, so it can come below the paper's schedule without noise. No
clipping is {gaps[0]:.0f} % above strong composition with a tight step after the first step and {gaps[1]:.0f} % at the
end. The article clips "around 3/4 of the documents"; here {100 * shares[0]:.0f} % of the held-out ones after the first
step, {100 * shares[-1]:.0f} % after the last.

{listed(orders(rows))}

{markdown(("method", *(f"after {i}" for i in steps)), shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    figure, axes = subplots(figsize=(7, 4.2))
    for style, row in zip(STYLES, rows, strict=True):
        private = {"non-private": "", "ours": ", sound"}.get(row["method"], " (NOT PRIVATE)")
        steps = range(1, len(row["perplexity"]) + 1)
        form = "" if row["method"] == "ours" else "as printed, "
        axes.plot(steps, row["perplexity"], **style, markersize=4, label=form + row["method"] + private)
    axes.axhline(rows[0]["unigram"], color="grey", linestyle=":", label="words' own frequencies")
    axes.set(xlabel=f"iteration; {RELATION}", ylabel="held-out perplexity", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=8)
    return save(figure, folder, "lda_fig3")
