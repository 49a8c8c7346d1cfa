"""Table 3: top words of matched topics, private beside non-private.

    python bench/paper/table3.py [--scale 10]

sigma = 1.24, S = 20,000, one epoch, as in the paper, and our plan at epsilon = 2.38.
Writes bench/results/table3.csv and table3.png.
"""

import argparse

from fig2 import DELTA, event
from lda_common import RESULTS, K, Table, add_size_options, load, matched, npmi, overlap, top_words

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.accounting import calibrate_noise_multiplier, epsilon
from vips_fast.models.lda import LdaOptions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_size_options(parser)
    parser.add_argument("--topics", type=int, default=6, help="how many topics to print")
    arguments = parser.parse_args()
    n, scale = arguments.records, arguments.scale
    size, steps, z = n // 20, 20, 1.24
    X, Y, vocabulary = load(n // scale)
    spent = epsilon(event(n, size, z, steps), DELTA, "wang")
    strong = calibrate_noise_multiplier(lambda x: event(n, size, x, steps), spent, DELTA, "strong")
    paper = dict(batch_size=size // scale, n_steps=steps)
    common = dict(n_components=K, n_jobs=arguments.jobs, random_state=0, target_delta=DELTA)
    plain = dict(private=False, batch_size=n // scale // 4, n_steps=20, options=LdaOptions(learning_decay=0.5))
    reference = LatentDirichletAllocation(**plain, **common).fit(X).components_
    # The topics with the heaviest ten words: those a reader recognises first.
    share = reference / reference.sum(axis=1, keepdims=True)
    chosen = (-share[range(K), top_words(share, 1)[:, 0]]).argsort()[: arguments.topics]
    table = Table("table3", ["method", "NPMI", "overlap", "topic", "words"])
    ours = plan(n, X.shape[1], K, target_epsilon=spent, target_delta=DELTA)
    planned = {
        **ours.parameters(),
        "batch_size": ours.batch_size / scale,
        "noise_multiplier": ours.noise_multiplier / scale,
    }
    for name, options in (
        ("non-private", None),
        (f"plan, epsilon = {spent:.3g}", planned),
        ("moments accountant", dict(noise_multiplier=z / scale, **paper)),
        ("strong composition", dict(noise_multiplier=strong / scale, **paper)),
        ("no clipping", dict(noise_multiplier=z / scale, clip=1.0, **paper)),
    ):
        make = LatentDirichletAllocation if options is planned else LatentDirichletAllocation.paper
        components = reference if options is None else make(**common, **options).fit(X).components_
        order = matched(components, reference)
        quality = npmi(top_words(components), Y), overlap(components, reference)
        for topic in chosen:
            words = " ".join(vocabulary[v] for v in top_words(components)[order[topic]])
            table.add(name, *quality, int(topic), words)
    plot(table.rows)


def plot(rows):
    """The table as a picture: one block a method."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = []
    for method in dict.fromkeys(row[0] for row in rows):
        block = [row for row in rows if row[0] == method]
        lines += ["", f"{method}: NPMI {block[0][1]:.3f}, overlap {block[0][2]:.2f}"]
        lines += [f"  {row[3]:>3}  {row[4]}" for row in block]
    figure = plt.figure(figsize=(11, 0.19 * len(lines)))
    figure.text(0.0, 1.0, "\n".join(lines[1:]), family="monospace", fontsize=8, va="top")
    figure.savefig(RESULTS / "table3.png", dpi=150, bbox_inches="tight")
    print(RESULTS / "table3.png")


if __name__ == "__main__":
    main()
