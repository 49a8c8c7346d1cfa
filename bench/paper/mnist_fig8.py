"""VIPS article, Figure 8: private sigmoid belief networks on MNIST.

Images are binarized above 0. Algorithm 6 is run as printed and as its authors' code runs it (`peers.vips`). Ours is
the defaults of `SigmoidBeliefNetwork` at the printed epsilon, with every image in each step. All replace one image.
The mean image predicts every test image by the training mean: a private model below it has learned nothing.
"""

import base64
import functools
import statistics
from pathlib import Path

import numpy as np
from common import CLASSICAL, DATA, STYLES, TIGHT, crossed, listed, order, save, strong_composition_noise, subplots
from epsilon_table import SETTINGS
from peers import vips
from peers.mnist import load_mnist
from peers.wang import WANG

from vips_fast import SigmoidBeliefNetwork
from vips_fast.accounting import epsilon

TITLE = "VIPS article, Figure 8: MNIST, sigmoid belief networks"
NEEDS: tuple[str, ...] = ("mnist",)
DELTA = 1e-4
#: Batch size -> the run's setting, which knows the printed epsilon.
SETTING = {s.sample_size: s for s in SETTINGS if s.name.startswith("SBN")}
COMPONENTS, BATCHES = (50, 100), tuple(SETTING)
MA, NOT_PRIVATE = "moments accountant", "no privacy"
#: The two baselines, and ours.
PRINTED, AUTHORS, OURS = vips.PRINTED, vips.AUTHORS, "ours"
NOISES = {PRINTED: (NOT_PRIVATE, MA, TIGHT, CLASSICAL), AUTHORS: (NOT_PRIVATE, MA, CLASSICAL)}
#: Their strong composition: δ of a step, images that they account with, and the halved last term of the theorem.
AUTHORS_STEP_DELTA, AUTHORS_IMAGES, AUTHORS_SHARE = 1e-9, 50_000, 0.5
MEAN_IMAGE, OURS_HALF, OURS_FREE = "mean image", "ours, ε = 0.5", "ours, no privacy"
METHODS = (*(f"{form}, {noise}" for form, noises in NOISES.items() for noise in noises), OURS)
#: What does not depend on S.
CONSTANT = (MEAN_IMAGE, OURS_HALF, OURS_FREE)
#: Steps of a baseline after which its accuracy is taken, its test images, and most steps of the quick form.
WATCHED, BASELINE_TEST, QUICK_STEPS = (2, 6), 500, 18
#: Test images of the article's measure and of the score, and images of a row of the pictures.
DRAWN, SCORED, SHOWN = 100, 2_000, 10
#: The run that the pictures are of.
PICTURED = dict(components=50, batch=3_200, run=0)


def cells(scale: int) -> list[dict]:
    """List three runs of all pairs, or one of K = 50. The latter has smaller baselines."""
    found = []
    for run in range(3 if scale == 1 else 1):
        for K in COMPONENTS if scale == 1 else COMPONENTS[:1]:
            # The mean image depends on nothing.
            found += [dict(method=m, components=K, batch=0, run=run) for m in CONSTANT if m != MEAN_IMAGE or not run]
            for S in BATCHES:
                for method in METHODS:
                    baseline = method.startswith((PRINTED, AUTHORS))
                    if scale > 1 and S != BATCHES[-1] and (method.endswith(NOT_PRIVATE) or not baseline and S > 400):
                        continue
                    cell = dict(method=method, components=K, batch=S, run=run)
                    found.append(cell | dict(scale=scale) if baseline else cell)
    return found


@functools.cache
def _images():
    return load_mnist(DATA / "mnist", 1)[:2]


def _estimator(method, K, S, n, run):
    common = dict(n_components=K, random_state=run, delta=DELTA)
    if method == OURS_HALF:
        return SigmoidBeliefNetwork(epsilon=0.5, sampling="full", **common)
    if method == OURS_FREE:
        return SigmoidBeliefNetwork(private=False, sampling="full", **common)
    return SigmoidBeliefNetwork(
        epsilon=SETTING[S].printed, options={"relation": "replace_one"}, sampling="full", **common
    )


@functools.cache
def noise(method, S) -> float:
    """Calibrate a form of Algorithm 6 to the printed epsilon."""
    setting, (form, how) = SETTING[S], method.split(", ", 1)
    if how == NOT_PRIVATE:
        return 0.0
    if how == MA:
        return setting.noise_multiplier
    if form == AUTHORS:
        constants = AUTHORS_STEP_DELTA, AUTHORS_SHARE
        return strong_composition_noise(setting.printed, S, AUTHORS_IMAGES, setting.steps, DELTA, how, *constants)
    return strong_composition_noise(setting.printed, S, setting.n_records, setting.steps, DELTA, how)


def baseline(cell: dict, train, test, drawn) -> dict:
    """Measure a baseline at the end and after its first steps.

    At a scale it has fewer images with the same noise an image.
    """
    form, S, scale = cell["method"].split(", ")[0], cell["batch"], cell["scale"]
    steps, rng = SETTING[S].steps, np.random.default_rng(cell["run"])
    steps = steps if scale == 1 else min(steps, QUICK_STEPS)
    after = {}

    def accuracy(q, images):
        return float(((vips.reconstruct(form, images.astype(float), q, rng) > 0.5) == (images > 0)).mean())

    def watch(step, q):
        if step in WATCHED:
            after[f"after {step}"] = accuracy(q, test[drawn])

    z = noise(cell["method"], S)
    q = vips.fit_network(
        form, train[: len(train) // scale], cell["components"], z / scale, S // scale, steps, rng, watch
    )
    last = dict(accuracy=accuracy(q, test[drawn]), accuracy_all=accuracy(q, test[:BASELINE_TEST]))
    return last | after | dict(noise_multiplier=z, steps=steps)


def run(cell: dict) -> dict:
    """Compute accuracy on 100 random test images and on all. And the lower bound of log p(y) in nats an image."""
    train, test = _images()
    drawn = np.random.default_rng(cell["run"]).choice(len(test), DRAWN, replace=False)
    if cell["method"] == MEAN_IMAGE:
        mean = (train.sum(axis=0) + 1.0) / (len(train) + 2.0)
        right = (mean > 0.5) == (test > 0)
        score = np.where(test[:SCORED] > 0, np.log(mean), np.log1p(-mean)).sum(axis=1).mean()
        return dict(accuracy=float(right[drawn].mean()), accuracy_all=float(right.mean()), score=float(score))
    if "scale" in cell:
        return baseline(cell, train, test, drawn)
    with np.errstate(over="ignore"):
        model = _estimator(cell["method"], cell["components"], cell["batch"], len(train), cell["run"]).fit(train)
        right = (model.reconstruct(test) > 0.5) == (test > 0)
        result = dict(
            accuracy=float(right[drawn].mean()),
            accuracy_all=float(right.mean()),
            score=float(model.score(test[:SCORED]) / SCORED),
        )
    if model.privacy_.private:
        result |= dict(epsilon=model.privacy_.epsilon, noise_multiplier=model.privacy_.noise_multiplier)
    if all(cell[name] == value for name, value in PICTURED.items()):
        weights = model.components_
        longest = np.argsort(-np.linalg.norm(weights, axis=1))[:SHOWN]
        largest = np.abs(weights[longest]).max(axis=1, keepdims=True)
        result["images"] = dict(
            components=_packed(0.5 + 0.5 * weights[longest] / np.maximum(largest, 1e-300)),
            samples=_packed(model.sample(SHOWN, random_state=0)),
        )
    return result


def _packed(images) -> str:
    """Values in [0, 1] as bytes, in base 64."""
    return base64.b64encode(np.round(255 * np.asarray(images, dtype=float)).astype(np.uint8).tobytes()).decode()


def _unpacked(text):
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(SHOWN, 28, 28) / 255


def _group(rows, method, K, S=0):
    return [row for row in rows if (row["method"], row["components"], row["batch"]) == (method, K, S)]


def _accuracy(rows):
    return f"{statistics.mean(row['accuracy_all'] for row in rows):.4f}"


def _one(rows, name):
    return f"{rows[0][name]:.3g}" if rows and name in rows[0] else None


def _mean(rows, name, digits):
    values = [row[name] for row in rows if name in row]
    return f"{statistics.mean(values):.{digits}f}" if values else None


def _tables(rows):
    for K in COMPONENTS:
        sizes = [S for S in BATCHES if any(_group(rows, method, K, S) for method in METHODS)]
        if not sizes:
            continue

        def shown(method, S):
            if method == "printed":
                return f"{SETTING[S].printed:g}; {_printed_accountant(S):.3f}"
            constant = method in CONSTANT
            group = _group(rows, method, K, 0 if constant else S)
            if not group or constant and S != sizes[0]:
                return None
            sigma, exact = _one(group, "noise_multiplier"), _one(group, "epsilon")
            stated = f"σ {sigma}" if exact is None else f"σ {sigma}, ε {exact}"
            early = [_mean(group, f"after {step}", 3) for step in WATCHED]
            found = [*(value for value in early if value), _accuracy(group)]
            return f"{stated}: {', '.join(found)}" if sigma and sigma != "0" else ", ".join(found)

        lines = {"printed": "ε printed; by the article's accountant"} | {m: m for m in METHODS}
        lines |= {m: f"{m}, whatever S" for m in CONSTANT}
        yield crossed(f"K = {K}", lines, {S: f"S = {S:,}" for S in sizes}, shown)


@functools.cache
def _printed_accountant(S) -> float:
    """Compute epsilon by the article's accountant.

    Theorem 9 of Wang, Balle & Kasiviswanathan (2019) with the classical conversion.
    """
    s = SETTING[S]
    orders = tuple(range(2, s.max_order + 1))
    return epsilon(s.event(s.noise_multiplier), DELTA, WANG, bound=s.bound, orders=orders)


def orders(rows: list[dict]) -> list:
    """Check the printed orders at every S and K."""

    def above(better, worse, name="accuracy_all"):
        cases = {}
        for K in COMPONENTS:
            for S in BATCHES:
                pair = [[r[name] for r in _group(rows, m, K, S) if name in r] for m in (better, worse)]
                if all(pair):
                    cases[f"K = {K}, S = {S:,}"] = statistics.mean(pair[0]) > statistics.mean(pair[1])
        return cases

    found = []
    for form, noises in NOISES.items():
        found.append(order(f"{form}: no privacy above the {MA}", above(f"{form}, {NOT_PRIVATE}", f"{form}, {MA}")))
        found += [
            order(f"{form}: {MA} above {n}", above(f"{form}, {MA}", f"{form}, {n}"))
            for n in noises
            if n not in (NOT_PRIVATE, MA)
        ]
    for step in WATCHED:
        pair = f"{AUTHORS}, {MA}", f"{AUTHORS}, {CLASSICAL}"
        found.append(order(f"{AUTHORS}: the same after {step} steps", above(*pair, f"after {step}")))
    return [o for o in found if o.holds or o.fails]


def report(rows: list[dict]) -> str:
    runs = 1 + max(row["run"] for row in rows)
    tables = "\n\n".join(_tables(rows))
    return f"""*As printed* is Algorithm 6 letter by letter. *Authors' code* drops the covariances of Eqs. 67 and 70,
carries hidden units over minibatches, which no ε covers, replaces everything at step 1, and counts {AUTHORS_IMAGES:,}
images. *Ours* is the default at the printed ε. All replace one image; no privacy is NOT PRIVATE. δ = 10⁻⁴, one pass;
runs: {runs}.

{listed(orders(rows))}

Share of right pixels after {WATCHED[0]} steps, {WATCHED[1]} and at the end, with exact tight ε:

{tables}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    K = COMPONENTS[0]
    figure, axes = subplots(1, 2, figsize=(9, 4.6), sharey=True, constrained_layout=True)
    for axis, form in zip(axes, NOISES, strict=True):
        named = [*(f"{form}, {noise}" for noise in NOISES[form]), OURS]
        for style, method in zip(STYLES, named, strict=False):
            points = [(BATCHES.index(S), _mean(_group(rows, method, K, S), "accuracy_all", 6)) for S in BATCHES]
            points = [(x, float(y)) for x, y in points if y]
            axis.plot(*zip(*points), **style, label=method.removeprefix(f"{form}, "))
        if mean := _group(rows, MEAN_IMAGE, K):
            axis.axhline(mean[0]["accuracy_all"], color="grey", linewidth=0.8, label=f"{MEAN_IMAGE} (no model)")
        axis.set(title=form, xlabel="minibatch S, ε printed")
        axis.set_xticks(range(len(BATCHES)), [f"{S:,}\n{SETTING[S].printed:g}" for S in BATCHES])
        axis.legend(fontsize=7, loc="center right")
    axes[0].set_ylabel(f"share of right pixels, K = {K}")
    figure.suptitle("Replace one image; ε as printed, for ours proven", fontsize=10)
    paths = save(figure, folder, "mnist_fig8")
    pictured = {row["method"]: row["images"] for row in rows if row.get("images")}
    if not pictured:
        return paths
    return paths + _grid(
        folder,
        "mnist_fig8_images",
        {
            f"{method}\n{name}": _unpacked(images[name])
            for method, images in pictured.items()
            for name in ("components", "samples")
        },
    )


def _grid(folder, name, lines):
    figure, axes = subplots(len(lines), SHOWN, figsize=(0.6 * SHOWN + 1.6, 0.62 * len(lines)), squeeze=False)
    for line, (label, images) in zip(axes, lines.items(), strict=True):
        for axis, image in zip(line, images, strict=True):
            axis.imshow(image, cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
    return save(figure, folder, name)
