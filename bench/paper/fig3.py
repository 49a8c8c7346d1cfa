"""Figure 3: perplexity after each iteration, S = 20,000, sigma = 1.24, one epoch.

    python bench/paper/fig3.py [--scale 10]

Methods as in fig2.py. Writes bench/results/fig3.csv and fig3.png.
"""

import argparse

from fig2 import DELTA, event
from lda_common import K, RESULTS, Table, add_size_options, load, unigram_perplexity

from vips_fast import LatentDirichletAllocation, inference
from vips_fast.accounting import calibrate_noise_multiplier, epsilon
from vips_fast.models.lda import _check_documents, _LdaModel
from vips_fast.threads import resolve_n_threads


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_size_options(parser)
    arguments = parser.parse_args()
    n, scale = arguments.records, arguments.scale
    size, steps, z = n // 20, 20, 1.24
    X, Y, _ = load(n // scale)
    spent = epsilon(event(n, size, z, steps), DELTA, "wang")
    strong = calibrate_noise_multiplier(lambda x: event(n, size, x, steps), spent, DELTA, "strong")
    paper = dict(update="paper", sensitivity="paper")
    table = Table("fig3", ["method", "iteration", "perplexity"])
    table.add("unigram", 0, unigram_perplexity(X, Y))
    for name, options in (
        ("non-private", dict(private=False, update="paper")),
        ("moments accountant", dict(noise_multiplier=z / scale, **paper)),
        ("strong composition", dict(noise_multiplier=strong / scale, **paper)),
        ("no clipping", dict(noise_multiplier=z / scale, clip=1.0, **paper)),
        ("average, shrinkage", dict(noise_multiplier=z / scale, sensitivity="paper", clip=0.1)),
    ):
        estimator = LatentDirichletAllocation(
            K, batch_size=size // scale, n_steps=steps, sampling="without_replacement", n_jobs=arguments.jobs, random_state=0, target_delta=DELTA,
            **options,
        )
        corpus = _check_documents(X, None, "X", estimator)
        model = _LdaModel(estimator, corpus, X.shape[0])
        sampler, mechanism, estimator.ledger_ = estimator._set_up(model, X.shape[0], steps)
        state, estimator.n_features_in_ = model.initial_state(), X.shape[1]
        for step in range(steps):
            inference.run(
                model, sampler, mechanism, estimator.ledger_, estimator._randomness(), state, n_steps=1,
                schedule=estimator._schedule(0.7), update=estimator.update, n_threads=resolve_n_threads(arguments.jobs),
            )
            estimator._finish(model, state)
            table.add(name, step + 1, estimator.perplexity(Y))
    plot(table.rows)


def plot(rows):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for method in dict.fromkeys(row[0] for row in rows[1:]):
        axes.plot(*zip(*[row[1:] for row in rows if row[0] == method]), label=method)
    axes.axhline(rows[0][2], color="grey", linestyle=":", label="unigram")
    axes.set(xlabel="iteration", ylabel="held-out perplexity", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=8)
    figure.savefig(RESULTS / "fig3.png", dpi=150, bbox_inches="tight")
    print(RESULTS / "fig3.png")


if __name__ == "__main__":
    main()
