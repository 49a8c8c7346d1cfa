"""Perplexity under random allocation and Poisson sampling, at equal epsilon.

    python bench/paper/allocation.py                    # simulated 400,000 documents, both samplings as planned
    python bench/paper/allocation.py --scale 10 --runs 5

delta = 10^-4. Writes bench/results/allocation.csv (with a scale, allocation_scale10.csv), a line for each fit.
"""

import argparse
import time

from lda_common import K, Table, add_size_options, load

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.models.lda import LdaOptions

DELTA = 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_size_options(parser)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 0.3, 2.38])
    arguments = parser.parse_args()
    n, scale = arguments.records, arguments.scale
    X, Y, _ = load(n // scale)
    name = "allocation" if scale == 1 else f"allocation_scale{scale}"
    table = Table(name, ["sampling", "epsilon", "seed", "z", "steps", "perplexity", "seconds"])
    for seed in range(arguments.runs):
        for epsilon in arguments.epsilon:
            for sampling in ("poisson", "random_allocation"):
                ours = plan(n, X.shape[1], K, epsilon=epsilon, delta=DELTA, sampling=sampling)
                start = time.perf_counter()
                model = LatentDirichletAllocation(
                    K,
                    n_jobs=arguments.jobs,
                    random_state=seed,
                    delta=DELTA,
                    sampling=sampling,
                    batch_size=ours.batch_size / scale,
                    n_steps=ours.n_steps,
                    clip=ours.clip,
                    options=LdaOptions(learning_decay=ours.learning_decay),
                    noise_multiplier=ours.noise_multiplier / scale,
                ).fit(X)
                seconds = time.perf_counter() - start
                figures = model.perplexity(Y), seconds
                table.add(sampling, epsilon, seed, ours.noise_multiplier, ours.n_steps, *map(float, figures))


if __name__ == "__main__":
    main()
