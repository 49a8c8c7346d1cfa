"""Figure 3: perplexity after each iteration, S = 20,000, sigma = 1.24, one epoch.

    python bench/paper/fig3.py [--scale 10]

Methods as in fig2.py. Writes bench/results/fig3.csv and fig3.png.
"""

import argparse
import dataclasses

from fig2 import DELTA, event
from lda_common import RESULTS, K, Table, add_size_options, load, unigram_perplexity

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import calibrate_noise_multiplier, epsilon
from vips_fast.models.lda.paper import PaperLatentDirichletAllocation


class Watched(PaperLatentDirichletAllocation):
    """The paper's topic model, which tells the perplexity after each step."""

    def _model(self, public):
        self.running = super()._model(public)
        return self.running

    def perplexity_so_far(self, Y):
        read_out = LatentDirichletAllocation(self.n_components, private=False, n_steps=1)
        read_out.fit(Y[:2])
        arrays = {"components": self.running.result()["components"]}
        read_out._result = dataclasses.replace(read_out._result, arrays=arrays)
        return read_out.perplexity(Y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_size_options(parser)
    arguments = parser.parse_args()
    n, scale = arguments.records, arguments.scale
    size, steps, z = n // 20, 20, 1.24
    X, Y, _ = load(n // scale)
    spent = epsilon(event(n, size, z, steps), DELTA, "wang")
    strong = calibrate_noise_multiplier(lambda x: event(n, size, x, steps), spent, DELTA, "strong")
    table = Table("fig3", ["method", "iteration", "perplexity"])
    table.add("unigram", 0, unigram_perplexity(X, Y))
    for name, options in (
        ("non-private", dict(private=False)),
        ("moments accountant", dict(noise_multiplier=z / scale)),
        ("strong composition", dict(noise_multiplier=strong / scale)),
        ("no clipping", dict(noise_multiplier=z / scale, clip=1.0)),
        ("average, shrinkage", dict(noise_multiplier=z / scale, update="average")),
    ):
        model = Watched(
            K, batch_size=size // scale, n_steps=steps, n_jobs=arguments.jobs, random_state=0, target_delta=DELTA,
            **options,
        )

        def show(progress, model=model, name=name):
            table.add(name, progress.step, model.perplexity_so_far(Y))

        model.set_params(callback=show).fit(X)
    plot(table.rows)


def plot(rows):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for method in dict.fromkeys(row[0] for row in rows[1:]):
        axes.plot(*zip(*[row[1:] for row in rows if row[0] == method], strict=False), label=method)
    axes.axhline(rows[0][2], color="grey", linestyle=":", label="unigram")
    axes.set(xlabel="iteration", ylabel="held-out perplexity", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=8)
    figure.savefig(RESULTS / "fig3.png", dpi=150, bbox_inches="tight")
    print(RESULTS / "fig3.png")


if __name__ == "__main__":
    main()
