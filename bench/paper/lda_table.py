"""Private topics beside non-private ones: perplexity, coherence and overlap.

    python bench/paper/lda_table.py                     # simulated 400,000 documents, mean of 3 runs
    python bench/paper/lda_table.py --sections          # the real 97,750 sections at epsilon = 2
    python bench/paper/lda_table.py --public            # the sections, with a prior from other articles
    python bench/paper/lda_table.py --grid [--scale 10] # the plan beside a grid of settings, one run each

Accounting: adding or removing one document, Poisson sampling, PLD, delta = 10^-4.
Writes bench/results/lda_table.csv, lda_sections.csv, lda_public_8000.csv and lda_grid.csv (with a scale,
lda_grid_scale10.csv).
"""

import argparse
import itertools
import time

import numpy as np
import scipy.sparse as sp
from lda_common import DATA, K, Table, add_size_options, load, npmi, overlap, top_words, unigram_perplexity

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.models.lda import LdaOptions

DELTA = 1e-4


def fit(X, jobs, seed, **options):
    """One fit and its seconds."""
    make, decay = options.pop("make", LatentDirichletAllocation), options.pop("learning_decay", None)
    if decay is not None:
        options["options"] = LdaOptions(learning_decay=decay)
    start = time.perf_counter()
    model = make(options.pop("K", K), n_jobs=jobs, random_state=seed, target_delta=DELTA, **options).fit(X)
    return model, time.perf_counter() - start


def row(table, name, epsilon, X, Y, reference, jobs, runs, **options):
    """Mean over runs of one setting; returns the last model."""
    figures = []
    for seed in range(runs):
        model, seconds = fit(X, jobs, seed, **options)
        base = model.components_ if reference is None else reference
        figures.append(
            (model.perplexity(Y), npmi(top_words(model.components_), Y), overlap(model.components_, base), seconds)
        )
    mean = np.mean(figures, axis=0)
    spread = np.std(figures, axis=0)[0]
    table.add(name, epsilon, *map(float, (mean[0], spread, *mean[1:])))
    return model, float(mean[0])


def private(n_records, n_features, epsilon, scale, **fixed):
    """Parameters of the planned fit with some settings fixed, for the whole corpus or 1/scale of it."""
    if scale == 1:
        return dict(target_epsilon=epsilon, **fixed)
    decay = fixed.pop("learning_decay", None)
    ours = plan(n_records, n_features, K, target_epsilon=epsilon, target_delta=DELTA, **fixed)
    return dict(
        batch_size=ours.batch_size / scale, n_steps=ours.n_steps, clip=ours.clip,
        learning_decay=ours.learning_decay if decay is None else decay, noise_multiplier=ours.noise_multiplier / scale,
    )


def grid(n_records):
    """Settings around the plan, the rest of each as planned: minibatch with step size, clip, steps."""
    for share, decay in itertools.product((0.1, 0.25, 0.5), (0.5, 0.7)):
        yield f"q{share:g} d{decay:g}", dict(batch_size=share * n_records, learning_decay=decay)
    for clip in (0.025, 0.075):
        yield f"a{clip:g}", dict(clip=clip)
    for steps in (10, 20, 40):
        yield f"T{steps}", dict(n_steps=steps)


def public(table, X, Y, n_public, epsilons, jobs, runs):
    """Sections as the private records; a prior from whole articles that no section comes from, taken as public."""
    train = sp.csr_array(sp.load_npz(DATA / "train.npz"))
    others = np.setdiff1d(np.arange(train.shape[0]), np.load(DATA / "train_sections_article.npy"))[:n_public]
    extra = dict(doc_length=100)
    known, _ = fit(train[others], jobs, 0, batch_size=len(others) / 2, n_steps=60, private=False, **extra)
    figures = (known.perplexity(Y), 0.0, npmi(top_words(known.components_), Y), float("nan"), 0.0)
    table.add(f"{len(others)} public articles", float("inf"), *map(float, figures))
    for epsilon in epsilons:
        row(table, "plan", epsilon, X, Y, known.components_, jobs, runs, target_epsilon=epsilon, **extra)
        for weight in (0.1, 1.0, 3.0, 10.0):
            prior = weight * known.components_
            row(
                table, f"  prior x {weight:g}", epsilon, X, Y, known.components_, jobs, runs, target_epsilon=epsilon,
                topic_word_prior=prior, **extra,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_size_options(parser)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", type=float, nargs="*")
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--sections", action="store_true")
    parser.add_argument("--public", type=int, nargs="?", const=8000, metavar="ARTICLES")
    arguments = parser.parse_args()
    columns = ["setting", "epsilon", "perplexity", "sd", "NPMI", "overlap", "seconds"]
    jobs, runs = arguments.jobs, arguments.runs
    if arguments.sections or arguments.public:
        X, Y = (sp.csr_array(sp.load_npz(DATA / f"{name}_sections.npz")) for name in ("train", "test"))
        Y = Y[:2000]
        n, scale = X.shape[0], 1
        epsilons, extra, name = (
            [2.0],
            dict(doc_length=100),
            f"lda_public_{arguments.public}" if arguments.public else "lda_sections",
        )
    else:
        n, scale = arguments.records, arguments.scale
        X, Y, _ = load(n // scale)
        epsilons, extra, name = (
            [0.3, 1.0, 3.0] if arguments.grid else [2.38, 1.0, 0.3],
            {},
            "lda_grid" if arguments.grid else "lda_table",
        )
    table = Table(name if scale == 1 else f"{name}_scale{scale}", columns)
    table.add("unigram", float("inf"), unigram_perplexity(X, Y), 0.0, float("nan"), float("nan"), 0.0)
    if arguments.public:
        return public(table, X, Y, arguments.public, arguments.epsilon or [0.3, 1.0, 2.0], jobs, runs)
    size = dict(batch_size=min(100_000 // scale, X.shape[0]), n_steps=20, learning_decay=0.5, private=False, **extra)
    model, best = row(table, "non-private", float("inf"), X, Y, None, jobs, 1 if arguments.grid else runs, **size)
    reference = model.components_
    if not arguments.grid:
        model, longer = row(
            table, "  same, 40 steps", float("inf"), X, Y, reference, jobs, 1, **{**size, "n_steps": 40}
        )
        if longer < best:
            best, reference = longer, model.components_
    for epsilon in arguments.epsilon or epsilons:
        options = {**private(n, X.shape[1], epsilon, scale), **extra}
        _, ours = row(table, "plan", epsilon, X, Y, reference, jobs, 1 if arguments.grid else runs, **options)
        print(f"    {ours / best:.3f} x the best non-private perplexity", flush=True)
        if arguments.grid:
            cells = [
                row(table, label, epsilon, X, Y, reference, jobs, 1, **private(n, X.shape[1], epsilon, scale, **fixed))[
                    1
                ]
                for label, fixed in grid(n)
            ]
            print(f"    the plan has {ours / min(ours, *cells):.3f} x the best perplexity of the grid", flush=True)
            continue
        paper = private(n, X.shape[1], epsilon, scale, batch_size=n * 0.05, n_steps=20, clip=0.1)
        paper["learning_decay"] = None
        row(
            table, "paper's update", epsilon, X, Y, reference, jobs, runs, make=LatentDirichletAllocation.paper,
            sensitivity="proven", sampling="poisson", **paper, **extra,
        )


if __name__ == "__main__":
    main()
