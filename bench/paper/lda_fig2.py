"""VIPS article, Figure 2: epsilon against perplexity over the noise and the minibatch, one epoch.

The paper's methods use its sensitivity for replacing a document, which does not hold (docs/privacy.md): such models are
marked NOT PRIVATE and their epsilon is the paper's. Ours is the planned fit with that epsilon as its target, proven.
"""

import math
from pathlib import Path

import numpy as np
from common import STYLES, markdown, save, subplots
from lda_common import K, load, unigram_perplexity

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.accounting import (
    GaussianEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    calibrate_noise_multiplier,
    epsilon,
)
from vips_fast.models.lda import LdaOptions

TITLE = "VIPS article, Figure 2: ε against perplexity, Wikipedia, one epoch"
NEEDS = ("wiki",)
N, DELTA = 400_000, 1e-4
SIZES, NOISES = (5_000, 10_000, 20_000), (1.0, 1.1, 1.24, 1.5, 2.0)
PAPER = ("moments accountant", "strong composition", "no clipping")


def event(size, z):
    """Return one epoch of the paper's run, with its sampling and relation."""
    return SelfComposedEvent(WithoutReplacementEvent(size, N, GaussianEvent(z, relation="replace_one")), N // size)


def printed_options(**changes):
    """Algorithm 3's constants: step t = 1, 2, ... has the rate (1024 + t)^-0.7."""
    return LdaOptions(**(dict(learning_decay=0.7, learning_offset=1025.0, length_method="resample") | changes))


def noise(method, size, z):
    """The noise multiplier of a method of the paper: strong composition's at the epsilon of the moments accountant."""
    if method != "strong composition":
        return z
    return calibrate_noise_multiplier(lambda x: event(size, x), epsilon(event(size, z), DELTA, "wang"), DELTA, "strong")


def paper_options(method, size, z, scale):
    """Parameters of `LatentDirichletAllocation.paper` for 1/scale of the documents with the same noise a document."""
    options = dict(n_components=K, n_jobs=1, random_state=0, batch_size=size // scale, n_steps=N // size)
    if method == "non-private":
        return dict(options, private=False)
    extra = dict(clip=1.0) if method == "no clipping" else {}
    return dict(options, noise_multiplier=noise(method, size, z) / scale, delta=DELTA, **extra)


def planned_options(n_features, target, scale):
    """Parameters of the planned fit for 1/scale of the documents with the same noise a document."""
    common = dict(n_components=K, n_jobs=1, random_state=0, delta=DELTA)
    if scale == 1:
        return dict(common, epsilon=target)
    ours = plan(N, n_features, K, epsilon=target, delta=DELTA)
    return dict(
        common,
        batch_size=ours.batch_size / scale,
        n_steps=ours.n_steps,
        clip=ours.clip,
        options=LdaOptions(learning_decay=ours.learning_decay),
        noise_multiplier=ours.noise_multiplier / scale,
    )


def cells(scale: int) -> list[dict]:
    out = [dict(method="unigram", size=0, sigma=0.0)]
    out += [dict(method="non-private", size=size, sigma=0.0) for size in SIZES]
    out += [dict(method=m, size=size, sigma=z) for size in SIZES for z in NOISES for m in PAPER]
    out += [dict(method="ours", size=SIZES[-1], sigma=z) for z in NOISES]
    return [dict(cell, scale=scale) for cell in out]


def run(cell: dict) -> dict:
    method, size, z, scale = (cell[name] for name in ("method", "size", "sigma", "scale"))
    X, Y, _ = load(N // scale)
    if method == "unigram":
        return dict(perplexity=unigram_perplexity(X, Y))
    if method == "ours":
        target = epsilon(event(size, z), DELTA, "wang")
        model = LatentDirichletAllocation(**planned_options(X.shape[1], target, scale))
        return dict(epsilon=target, perplexity=model.fit(X).perplexity(Y))
    figures = {}
    if method == "moments accountant":
        figures = dict(
            epsilon=epsilon(event(size, z), DELTA, "wang"),
            tight=epsilon(event(size, z), DELTA),
            sound=epsilon(event(size, z / math.sqrt(2)), DELTA),
        )
    model = LatentDirichletAllocation.paper(**paper_options(method, size, z, scale)).fit(X)
    return figures | dict(perplexity=model.perplexity(Y))


def report(rows: list[dict]) -> str:
    found = {(r["method"], r["size"], r["sigma"]): r for r in rows}

    def perplexity(method, size, z=0.0):
        row = found.get((method, size, z))
        return None if row is None else f"{row['perplexity']:.0f}"

    settings = [(size, z, found["moments accountant", size, z]) for size in SIZES for z in NOISES]
    columns = (
        "S",
        "σ",
        "ε theirs (NOT PRIVATE)",
        "ε exact tight",
        "ε sound: tight with √2 N/S",
        "non-private",
        "moments accountant",
        "strong composition",
        "no clipping",
        "ours, sound, at ε theirs",
        "seconds",
    )
    shown = [
        (
            f"{size:,}",
            f"{z:g}",
            f"{r['epsilon']:.3f}",
            f"{r['tight']:.3f}",
            f"{r['sound']:.3f}",
            perplexity("non-private", size),
            *(perplexity(m, size, z) for m in PAPER),
            perplexity("ours", size, z),
            f"{sum(found[m, size, z]['seconds'] for m in PAPER):.0f}",
        )
        for size, z, r in settings
    ]
    values = [[found[m, size, z]["perplexity"] for m in PAPER] for size, z, _ in settings]
    unigram = found["unigram", 0, 0.0]["perplexity"]
    sizes = [f"{np.mean([v[0] for v, s in zip(values, settings) if s[0] == size]):.0f}" for size in SIZES]
    below = [sum(v[i] < unigram for v in values) for i in range(3)]
    return f"""Printed as a picture. What the text says, and how many of the {len(values)} settings agree:

- the moments accountant is below strong composition: {sum(a < b for a, b, _ in values)};
- strong composition is a little below no clipping: {sum(b < c for _, b, c in values)};
- the moments accountant is below the words' own frequencies (perplexity {unigram:.0f}) "consistently": {below[0]};
- larger minibatches have lower perplexity: mean of the moments accountant over σ {", ".join(sizes)};
- strong composition is below them "for certain parameter settings": {below[1]}; no clipping: {below[2]}.

{markdown(columns, shown)}

The corpus is 21,475 articles resampled to 400,000 documents of 500 words, since the paper's is not public, so
perplexities are not the paper's: these are old, long articles, whose words' own frequencies already predict well. The
quick form has a tenth of the documents, of each minibatch and of the noise: the same noise a document. Perplexity is
over 800 held-out documents. The three methods are the paper's algorithm with its sensitivity; *ours* is the planned fit
(Poisson sampling, add/remove) whose proven ε is the paper's figure of the row."""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    figure, panels = subplots(1, 3, figsize=(11, 4), sharex=True, sharey=True)
    perplexity = {(r["method"], r["size"], r["sigma"]): r["perplexity"] for r in rows}
    for axes, size in zip(panels, SIZES):
        epsilons = {r["sigma"]: r["epsilon"] for r in rows if r["method"] == PAPER[0] and r["size"] == size}
        for style, method in zip(STYLES, PAPER):
            points = sorted((epsilons[z], perplexity[method, size, z]) for z in NOISES)
            axes.plot(*zip(*points), **style, label=f"{method} (NOT PRIVATE)")
        ours = sorted((r["epsilon"], r["perplexity"]) for r in rows if r["method"] == "ours")
        axes.plot(*zip(*ours), **STYLES[3], label="ours, proven ε")
        axes.axhline(perplexity["non-private", size, 0.0], color="grey", linewidth=0.8, label="non-private")
        axes.axhline(perplexity["unigram", 0, 0.0], color="grey", linestyle=":", label="words' own frequencies")
        axes.set(xlabel="ε", title=f"S = {size:,}")
    panels[0].set_ylabel("held-out perplexity")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncols=3, fontsize=9)
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    return save(figure, folder, "lda_fig2")
