"""Measure how published topics reveal membership: docs/leakage.md.

    python bench/leakage.py run --corpora kos --models 1000     # a file for each batch of shadow models; resumes where
                                                                # it stopped, and ends early after --minutes
    python bench/leakage.py report                              # the table, and the curves as an image

Reads VIPS_FAST_DATA, and writes to bench/results/leakage. Each batch of models is fitted for all settings before the
next one begins. So the settings of a corpus always have as many models, whenever the run is ended.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parent / "paper"))

from common import DATA, ROOT, save, subplots
from membership import ShadowFits, ShadowModels, likelihood_ratios, measure
from peers.uci import bag_of_words

from vips_fast import LatentDirichletAllocation
from vips_fast.models.lda import LdaOptions

RESULTS = ROOT / "bench" / "results" / "leakage"
BATCH = 25
DELTA = 1e-5

#: Documents that are attacked, and the public length that the private fits bring them to.
CORPORA = {"kos": (None, 100), "reuters": (4_000, 50), "wiki": (2_000, 500)}
#: epsilon of each setting; None is no privacy.
SETTINGS = {"none": None, "8": 8.0, "2": 2.0, "1": 1.0, "0.5": 0.5}


def counts(corpus):
    """Load documents of a corpus: all of KOS, others' first ones."""
    if not DATA.is_dir():
        sys.exit(f"real data not found in {DATA}: set VIPS_FAST_DATA")
    if corpus == "kos":
        X = bag_of_words(DATA / "text" / "kos_uci" / "docword.kos.txt.gz")
    elif corpus == "reuters":
        X = bag_of_words(DATA / "text" / "reuters" / "docword.reuters.txt.gz")
    else:
        X = sp.csr_array(sp.load_npz(DATA / "wiki" / "train.npz"))
    return X[: CORPORA[corpus][0]]


def settings(corpus, epsilon):
    """Spell out ten topics from five full passes. Without privacy, documents are taken as they are."""
    common = dict(
        n_components=10, n_steps=5, sampling="full", options={"relation": "add_remove"}, random_state=0, n_jobs=1
    )
    numerics = dict(max_doc_update_iter=10, mean_change_tol=1e-3, topic_mean="arithmetic")
    if epsilon is None:
        return dict(common, private=False, doc_length=None), dict(numerics, learning_decay=0.7)
    private = dict(common, epsilon=epsilon, delta=DELTA, doc_length=CORPORA[corpus][1])
    return private, dict(numerics, word_scale=0.25, word_clip=0.3)


def estimator(corpus, epsilon):
    arguments, options = settings(corpus, epsilon)
    return LatentDirichletAllocation(**{**arguments, "options": LdaOptions(**options, **arguments["options"])})


def path(corpus, name, batch):
    return RESULTS / corpus / f"{name}-{batch:04d}.npz"


def described(corpus, name):
    """Describe the settings of a stored batch."""
    return json.dumps([*settings(corpus, SETTINGS[name]), CORPORA[corpus][0], BATCH])


def stored(corpus, name, batch):
    """Load a batch of shadow models of these settings, or None."""
    file = path(corpus, name, batch)
    if not file.exists():
        return None
    with np.load(file, allow_pickle=False) as arrays:
        if str(arrays["settings"]) != described(corpus, name):
            return None
        return ShadowModels(arrays["statistics"], arrays["members"], float(arrays["seconds"]))


def run(corpora, n_models, minutes):
    """Make missing shadow models."""
    start = time.monotonic()
    for corpus in corpora:
        X = counts(corpus)
        fits = {name: ShadowFits(estimator(corpus, epsilon), X) for name, epsilon in SETTINGS.items()}
        (RESULTS / corpus).mkdir(parents=True, exist_ok=True)
        for batch in range(-(-n_models // BATCH)):
            for name, fit in fits.items():
                if stored(corpus, name, batch) is not None:
                    continue
                if time.monotonic() - start > 60 * minutes:
                    return
                made = fit.make(range(batch * BATCH, (batch + 1) * BATCH))
                part = path(corpus, name, batch).with_suffix(".part.npz")
                np.savez_compressed(
                    part,
                    statistics=made.statistics,
                    members=made.members,
                    seconds=made.seconds,
                    settings=described(corpus, name),
                )
                os.replace(part, path(corpus, name, batch))
                line = f"{corpus}, epsilon {name}: models {batch * BATCH} to {(batch + 1) * BATCH - 1}"
                print(f"{line}, {made.seconds / BATCH:.3f} s of processor time each", flush=True)


def measured(corpus):
    """Report each setting over the batches that all settings have."""
    parts = {name: [] for name in SETTINGS}
    for batch in range(10_000):
        made = {name: stored(corpus, name, batch) for name in SETTINGS}
        if any(one is None for one in made.values()):
            break
        for name, one in made.items():
            parts[name].append(one)
    if not parts["none"]:
        return {}
    X, out = counts(corpus), {}
    for name, epsilon in SETTINGS.items():
        statistics, members = (np.concatenate([vars(p)[key] for p in parts[name]]) for key in ("statistics", "members"))
        shadows = ShadowModels(statistics, members, sum(part.seconds for part in parts[name]))
        fits = ShadowFits(estimator(corpus, epsilon), X)
        scores = likelihood_ratios(shadows)
        out[name] = measure(scores, shadows, fits.event), fits.event
    return out


def report(corpora, image):
    """Print the table, and draw the curves."""
    found = {corpus: reports for corpus in corpora if (reports := measured(corpus))}
    if not found:
        sys.exit(f"nothing in {RESULTS}: expected finished batches; use 'run' first")
    print("| corpus | ε | true positives at .1 % false ones | claim | at 1 % | claim | area | models | s a model |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    refuted = False
    for corpus, reports in found.items():
        for name, (r, _) in reports.items():
            cells = [corpus, "none" if name == "none" else name]
            for point in r.points:
                cells.append(f"{point.true_positive_rate:.3%} [{point.low:.3%}, {point.high:.3%}]".replace("%", " %"))
                cells.append("–" if name == "none" else f"{point.claimed:.3%}".replace("%", " %"))
            print("| " + " | ".join([*cells, f"{r.area:.4f}", str(r.n_models), f"{r.seconds / r.n_models:.2f}"]) + " |")
            refuted |= not r.passed
    draw(found, image)
    print("THE CLAIM DOES NOT HOLD" if refuted else "no violation found")
    return int(refuted)


def draw(found, image):
    """Draw all corpora's curves, each claim's bound dashed. Both scales are logarithmic."""
    from vips_fast.accounting import true_positive_rate

    figure, axes = subplots(1, len(found), figsize=(3.4 * len(found), 3.4), sharey=True, squeeze=False)
    grid = np.geomspace(1e-4, 1, 40)
    for axis, (corpus, reports) in zip(axes[0], found.items()):
        for number, (name, (r, event)) in enumerate(reports.items()):
            false, true = r.curve[:, r.curve[0] >= 1e-4]
            keep = np.unique(np.linspace(0, len(false) - 1, 60).astype(int))
            label = "no privacy" if event is None else f"ε = {name}"
            axis.plot(false[keep], true[keep], color=f"C{number}", label=label, linewidth=1.3)
            if event is not None:
                axis.plot(grid, [true_positive_rate(event, a) for a in grid], "--", color=f"C{number}", linewidth=0.9)
        axis.plot(grid, grid, ":", color="0.6", linewidth=0.9)
        some = reports["none"][0]
        axis.set(xscale="log", yscale="log", xlim=(1e-4, 1), ylim=(1e-4, 1.05), xlabel="false-positive rate")
        axis.set_title(f"{corpus}: {some.n_documents:,} documents, {some.n_models} models", fontsize=9)
    axes[0, 0].set_ylabel("true-positive rate")
    axes[0, 0].legend(fontsize=8, frameon=False)
    figure.tight_layout()
    image.parent.mkdir(parents=True, exist_ok=True)
    save(figure, image.parent, image.stem)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one, other = commands.add_parser("run"), commands.add_parser("report")
    for each in (one, other):
        each.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    one.add_argument("--models", type=int, default=1000, help="shadow models of each setting")
    one.add_argument("--minutes", type=float, default=float("inf"), help="begin no batch after so many")
    other.add_argument("--image", type=Path, default=RESULTS / "curves.png", help="a .png file, default: %(default)s")
    args = parser.parse_args(arguments)
    if args.command == "run":
        run(args.corpora, args.models, args.minutes)
        return 0
    return report(args.corpora, args.image)


if __name__ == "__main__":
    sys.exit(main())
