"""Table 3: top words of matched topics, private beside non-private.

    python bench/paper/table3.py

sigma = 1.24, S = 20,000, one epoch, as in the paper, and our plan at epsilon = 2.38.
Writes bench/results/table3.csv.
"""

import argparse

from fig2 import DELTA, event
from lda_common import K, Table, load, matched, npmi, overlap, top_words

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import calibrate_noise_multiplier, epsilon


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--topics", type=int, default=6, help="how many topics to print")
    arguments = parser.parse_args()
    n = arguments.records
    size, steps, z = n // 20, 20, 1.24
    X, Y, vocabulary = load(n)
    spent = epsilon(event(n, size, z, steps), DELTA, "wang")
    strong = calibrate_noise_multiplier(lambda x: event(n, size, x, steps), spent, DELTA, "strong")
    wor = dict(batch_size=size, n_steps=steps, sampling="without_replacement")
    paper = dict(update="paper", sensitivity="paper", **wor)
    common = dict(n_components=K, n_jobs=arguments.jobs, random_state=0, target_delta=DELTA)
    reference = LatentDirichletAllocation(private=False, batch_size=n // 4, n_steps=20, learning_decay=0.5, **common).fit(X).components_
    # The topics with the heaviest ten words: those a reader recognises first.
    share = reference / reference.sum(axis=1, keepdims=True)
    chosen = (-share[range(K), top_words(share, 1)[:, 0]]).argsort()[: arguments.topics]
    table = Table("table3", ["method", "NPMI", "overlap", "topic", "words"])
    for name, options in (
        ("non-private", None),
        (f"plan, epsilon = {spent:.3g}", dict(target_epsilon=spent)),
        ("moments accountant", dict(noise_multiplier=z, **paper)),
        ("strong composition", dict(noise_multiplier=strong, **paper)),
        ("no clipping", dict(noise_multiplier=z, clip=1.0, **paper)),
    ):
        components = reference if options is None else LatentDirichletAllocation(**common, **options).fit(X).components_
        order = matched(components, reference)
        quality = npmi(top_words(components), Y), overlap(components, reference)
        for topic in chosen:
            words = " ".join(vocabulary[v] for v in top_words(components)[order[topic]])
            table.add(name, *quality, int(topic), words)


if __name__ == "__main__":
    main()
