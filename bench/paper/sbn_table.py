"""The table behind Fig. 8: pixel accuracy of private sigmoid belief networks on MNIST.

    python bench/paper/sbn_table.py --out bench/results/sbn_table.csv

For K hidden units and minibatches of S (one pass over the training images, binarised
above 0, delta = 10^-4), mean and standard deviation over the runs of:

- mean image: every test image predicted by the training mean (no model at all; a
  private model below it has learned nothing), with the score of independent pixels;
- non-private: Algorithm 6 without noise;
- paper, moments accountant: Algorithm 6 (`SigmoidBeliefNetwork.paper`) with the paper's seven blocks and noise
  multiplier 1; ``printed`` is the epsilon the paper gives, ``sound`` what the
  without-replacement accountant proves of the same run;
- paper, strong composition: the same with the noise that strong composition needs for
  the printed epsilon;
- ours, at the printed epsilon, sound: the defaults of `SigmoidBeliefNetwork`, every
  image in each step, add/remove, exact Gaussian accounting. No setting depends on
  the row.
- ours, epsilon 0.5: the same for a budget below all of the paper's;
- ours, non-private: the same update without noise.

Accuracy is that of all test images; score, the lower bound of log p(y) in nats an
image, that of the first 2,000. Each run's row is appended at once, so a run that is
broken off goes on where it was; the summary is printed from the file. ``--quick``
takes two runs of K = 50.
"""

import argparse
import csv
import math
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from vips_fast import SigmoidBeliefNetwork
from vips_fast.data import load_mnist
from vips_fast.models.sbn import NetworkOptions

DELTA = 1e-4
#: Batch size -> epsilon printed below Fig. 8.
PRINTED = {400: 1.34, 800: 1.74, 1600: 2.44, 3200: 3.34}
FIELDS = ["method", "K", "S", "printed", "sound", "noise_multiplier", "run", "accuracy", "score", "seconds"]
METHODS = (
    "mean image", "non-private", "paper, moments accountant", "paper, strong composition", "ours", "ours, epsilon 0.5",
    "ours, non-private",
)
#: Test images that are scored.
SCORED = 2000


def strong_composition_noise(target, q, steps, delta=DELTA):
    """Noise multiplier that strong composition needs, as the paper's baseline does it.

    A Gaussian step is (e0, d0)-DP with noise multiplier sqrt(2 ln(1.25/d0)) / e0;
    subsampling makes it (ln(1 + q (e^e0 - 1)), q d0); steps of (e, d) are
    (sqrt(2 steps ln(1/d')) e + steps e (e^e - 1), steps d + d')-DP (Dwork, Rothblum &
    Vadhan 2010). Half of delta goes to d', half to the steps.
    """
    d0 = delta / (2 * steps * q)

    def total(e0):
        e = math.log1p(q * math.expm1(e0))
        return math.sqrt(2 * steps * math.log(2 / delta)) * e + steps * e * math.expm1(e)

    low, high = 1e-9, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) < target else (low, middle)
    return math.sqrt(2 * math.log(1.25 / d0)) / low


def estimator(method, K, S, n, seed, jobs):
    """The estimator of one cell of the table."""
    steps = n // S
    common = dict(n_components=K, random_state=seed, n_jobs=jobs, target_delta=DELTA)
    algorithm_6 = dict(
        sampling="without_replacement", batch_size=S, n_steps=steps, options=NetworkOptions(learning_decay=0.7)
    )
    if method == "non-private":
        return SigmoidBeliefNetwork.paper(private=False, **algorithm_6, **common)
    if method == "paper, moments accountant":
        return SigmoidBeliefNetwork.paper(noise_multiplier=1.0, sensitivity="paper", **algorithm_6, **common)
    if method == "paper, strong composition":
        z = strong_composition_noise(PRINTED[S], S / n, steps)
        return SigmoidBeliefNetwork.paper(noise_multiplier=z, sensitivity="paper", **algorithm_6, **common)
    if method == "ours":
        return SigmoidBeliefNetwork(target_epsilon=PRINTED[S], sampling="full", **common)
    if method == "ours, epsilon 0.5":
        return SigmoidBeliefNetwork(target_epsilon=0.5, sampling="full", **common)
    return SigmoidBeliefNetwork(private=False, sampling="full", **common)


def cells(arguments):
    """What is to be computed: (method, K, S, run)."""
    for run in range(arguments.runs):
        for K in arguments.components:
            for S in arguments.batches:
                for method in arguments.methods:
                    # These do not depend on S, nor the first on chance.
                    if method in ("mean image", "ours, epsilon 0.5", "ours, non-private") and S != arguments.batches[0]:
                        continue
                    if method == "mean image" and run:
                        continue
                    yield method, K, S, run


def one(method, K, S, run, train, test, jobs):
    """One row."""
    start = time.perf_counter()
    row = dict(method=method, K=K, S=S, printed="", sound="", noise_multiplier="", run=run, score="")
    if method == "mean image":
        mean = (train.sum(axis=0) + 1.0) / (len(train) + 2.0)
        accuracy = ((mean > 0.5) == (test > 0)).mean()
        row["score"] = f"{np.where(test[:SCORED] > 0, np.log(mean), np.log1p(-mean)).sum(axis=1).mean():.2f}"
    else:
        model = estimator(method, K, S, len(train), run, jobs).fit(train)
        row["seconds"] = f"{time.perf_counter() - start:.1f}"
        accuracy = model.pixel_accuracy(test)
        scored = test[:SCORED]
        row["score"] = f"{model.score(scored) / len(scored):.2f}"
        if model.privacy_.private:
            row.update(
                printed="" if method == "ours, epsilon 0.5" else PRINTED[S], sound=f"{model.privacy_.epsilon:.4f}",
                noise_multiplier=f"{model.privacy_.noise_multiplier:.4f}",
            )
    row["accuracy"] = f"{accuracy:.4f}"
    return row


def summary(rows):
    """The table: mean and standard deviation over the runs."""
    cell = {}
    for row in rows:
        cell.setdefault((row["method"], int(row["K"]), int(row["S"])), []).append(row)
    lines = [f"{'method':28} {'K':>4} {'S':>5} {'printed':>8} {'sound':>7} {'runs':>5} {'accuracy':>16} {'score':>12}"]
    for key in sorted(cell, key=lambda c: (c[1], c[2], METHODS.index(c[0]))):
        group = cell[key]
        accuracy = [float(r["accuracy"]) for r in group]
        scores = [float(r["score"]) for r in group if r["score"]]
        spread = statistics.stdev(accuracy) if len(accuracy) > 1 else 0.0
        lines.append(
            f"{key[0]:28} {key[1]:4} {key[2]:5} {group[0]['printed']:>8} {group[0]['sound'][:6]:>7} {len(group):5} "
            f"{statistics.mean(accuracy):9.4f} ± {spread:.4f} {statistics.mean(scores) if scores else math.nan:12.2f}"
        )
    return "\n".join(lines)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("bench/results/sbn_table.csv"))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--components", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--batches", type=int, nargs="+", default=list(PRINTED), choices=list(PRINTED))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--test", type=int, default=10_000, help="test images")
    parser.add_argument("--threshold", type=int, default=1, help="a pixel is on from this value up")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--quick", action="store_true", help="two runs, K = 50")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.runs, arguments.components = 2, [50]
    data = Path(os.environ.get("VIPS_FAST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    train, test, _, _ = load_mnist(data / "mnist", arguments.threshold)
    test = test[: arguments.test]

    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    if arguments.out.exists():
        with open(arguments.out, newline="") as file:
            rows = list(csv.DictReader(file))
    done = {(r["method"], int(r["K"]), int(r["S"]), int(r["run"])) for r in rows}
    with open(arguments.out, "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not rows:
            writer.writeheader()
        for key in cells(arguments):
            if key in done:
                continue
            with np.errstate(over="ignore"):
                row = one(*key, train, test, arguments.jobs)
            writer.writerow(row)
            file.flush()
            rows.append({name: str(row.get(name, "")) for name in FIELDS})
            print(", ".join(f"{k}={v}" for k, v in row.items() if v != ""), file=sys.stderr, flush=True)
    print(summary(rows))


if __name__ == "__main__":
    main()
