"""Figure 2: epsilon against perplexity over the noise and the minibatch, one epoch.

    python bench/paper/fig2.py [--scale 10]

Methods, as in the paper: moments accountant (Wang et al.), strong composition at the
same epsilon, moments accountant without clipping; beside them the same noise with
the un-clipped average and shrinkage read-out, and the unigram and non-private lines.
The first three use the paper's sensitivity for replacing a document, which does not
hold (docs/privacy.md): their models are marked NOT PRIVATE and their epsilon is the
paper's. Writes bench/results/fig2.csv and fig2.png.
"""

import argparse

from lda_common import RESULTS, K, Table, add_size_options, load, unigram_perplexity

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import (
    GaussianEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    calibrate_noise_multiplier,
    epsilon,
)

DELTA = 1e-4


def event(n_records, size, z, steps):
    inner = GaussianEvent(z, neighbors="replace_one")
    return SelfComposedEvent(WithoutReplacementEvent(size, n_records, inner), steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_size_options(parser)
    arguments = parser.parse_args()
    n, scale = arguments.records, arguments.scale
    X, Y, _ = load(n // scale)
    sizes = [n // 80, n // 40, n // 20]
    noises = [1.0, 1.1, 1.24, 1.5, 2.0]
    table = Table("fig2", ["method", "S", "sigma", "epsilon", "perplexity"])
    table.add("unigram", 0, 0.0, float("inf"), unigram_perplexity(X, Y))

    def run(size, noise_multiplier=None, **options):
        z = None if noise_multiplier is None else noise_multiplier / scale
        model = LatentDirichletAllocation.paper(
            K, batch_size=size // scale, n_steps=n // size, noise_multiplier=z, n_jobs=arguments.jobs, random_state=0,
            target_delta=DELTA, **options,
        )
        return model.fit(X).perplexity(Y)

    for size in sizes:
        table.add("non-private", size, 0.0, float("inf"), run(size, private=False))
        for z in noises:
            spent = epsilon(event(n, size, z, n // size), DELTA, "wang")
            strong = calibrate_noise_multiplier(lambda x: event(n, size, x, n // size), spent, DELTA, "strong")
            table.add("moments accountant", size, z, spent, run(size, noise_multiplier=z))
            table.add("strong composition", size, strong, spent, run(size, noise_multiplier=strong))
            table.add("no clipping", size, z, spent, run(size, noise_multiplier=z, clip=1.0))
            table.add("average, shrinkage", size, z, spent, run(size, noise_multiplier=z, update="average"))
    plot(table.rows)


def plot(rows):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for colour, method in enumerate(("moments accountant", "strong composition", "no clipping", "average, shrinkage")):
        for marker, size in zip("os^", sorted({row[1] for row in rows if row[0] == method}), strict=False):
            points = sorted((row[3], row[4]) for row in rows if row[0] == method and row[1] == size)
            axes.plot(*zip(*points, strict=False), marker=marker, color=f"C{colour}", label=f"{method}, S = {size}")
    axes.axhline(rows[0][4], color="grey", linestyle=":", label="unigram")
    axes.set(xlabel="epsilon (paper's accounting, delta = 1e-4)", ylabel="held-out perplexity")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(RESULTS / "fig2.png", dpi=150, bbox_inches="tight")
    print(RESULTS / "fig2.png")


if __name__ == "__main__":
    main()
