"""Text: completion perplexity of unseen persons, beside rivals, and whether the verdict is true.

    python -m bench.panel.text            # measures what is missing: each row goes to bench/panel/text.json at once
    python -m bench.panel.text --page     # writes the tables of docs/panel.md, from the stored rows
    python -m bench.panel.text --own      # measures topics of the records' own beside public ones only
    python -m bench.panel.text --parts    # measures fits without one part of the path, on some cells

A cell is a corpus, a number of persons, an epsilon (delta is 1e-6) and a seed. Half of an unseen person's words are
told, and the other half is predicted. The true gain is over the exact word frequencies of the persons of the fit.
"""

import argparse
import json
import math
import subprocess
import time
import warnings
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse
from paper.common import markdown
from peers.topics import exact_frequencies, one_histogram

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.gain import FoundGain
from vips_fast.models.lda import public_topics
from vips_fast.models.verdict import Verdict

from . import corpora, others
from .corpora import NAMES, PanelCorpus

STORED, OTHERS, OWN, PARTS = (Path(__file__).with_name(f"{name}.json") for name in ("text", "others", "own", "parts"))
PAGE = Path(__file__).resolve().parents[2] / "docs" / "panel.md"
PERSONS, EPSILONS, SEEDS, DELTA = (300, 800, 3000, 10**9), (1.0, 2.0, 4.0), (0, 1), 1e-6
COMMIT = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
#: Signals from which topics of the records' own may begin, and what may widen an interval: `choice`.
SIGNALS = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 16.0, math.inf)
WIDENINGS = tuple(miss / 100 for miss in range(2, 11))
#: What takes one part out of the path; corpora that show what it wins.
WITHOUT = {
    "lengths: units are as long as stated": (public_topics, "_SHOWN", math.inf),
    "mixture: public topics have their public weights": (
        public_topics,
        "topic_weights",
        lambda x, sd, _, w: (w, x.sum()),
    ),
    "ratios: their distribution is not fitted": (public_topics, "_ROUNDS", 0),
    "score: the middle of its totals is taken": (public_topics, "peak", lambda *_: 0.0),
}
SHOWN = ("snippets", "posts", "bbc", "alexa")
RIVALS = ("one_histogram", "public", "released_frequencies")


def load(name: str) -> PanelCorpus:
    """Load a corpus of the panel, or another one; FileNotFoundError without its files."""
    return others.load(name) if name in others.NAMES else corpora.load(name)


def halves(counts: scipy.sparse.csr_matrix, seed: int = 1) -> list[scipy.sparse.csr_matrix]:
    """Divide each person's words in two halves at random; persons with one half only are left out."""
    rng, whole = np.random.default_rng(seed), counts.data.astype(np.int64)
    first = rng.binomial(whole, 0.5)
    parts = [scipy.sparse.csr_matrix((n, counts.indices, counts.indptr), counts.shape) for n in (first, whole - first)]
    both = (parts[0].sum(axis=1).A1 > 0) & (parts[1].sum(axis=1).A1 > 0)
    parts = [scipy.sparse.csr_matrix(part[both]).astype(np.int32) for part in parts]
    for part in parts:
        part.eliminate_zeros()
        part.sort_indices()
    return parts


def completion(told: Any, asked: Any, topics: np.ndarray, alpha: np.ndarray) -> float:
    """Perplexity of the asked halves, by topics, (K, V), and proportions inferred from the told halves."""
    theta = proportions(told, topics, alpha)
    rows = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
    total = 0.0
    for first in range(0, len(rows), 50_000):
        part = slice(first, first + 50_000)
        p = np.einsum("nk,nk->n", theta[rows[part]], topics.T[asked.indices[part]])
        total += float(asked.data[part] @ np.log(np.maximum(p, 1e-30)))
    return float(np.exp(-total / asked.sum()))


def proportions(told: Any, topics: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Variational means of the topic proportions, (n, K)."""
    from vips_fast.kernels.lda import scaled_table
    from vips_fast.models.lda.records import UnitWords
    from vips_fast.models.lda.score import _proportions

    units = UnitWords(told.indptr.astype(np.int64), told.indices.astype(np.int32), told.data.astype(np.float64))
    table = scaled_table(np.ascontiguousarray(topics), np.float32)
    return _proportions(table, len(topics), units, np.ascontiguousarray(np.maximum(alpha, 1e-3))).astype(np.float64)


def by_frequencies(asked: Any, masses: np.ndarray) -> float:
    """Perplexity of the asked halves, by word frequencies, (V,)."""
    return float(np.exp(-(asked @ np.log(masses)).sum() / asked.sum()))


def cell(corpus: PanelCorpus, n: int, epsilon: float, seed: int) -> dict[str, Any]:
    """Measure one cell."""
    rng = np.random.default_rng([seed, n, 1])
    train, (told, asked) = chosen(corpus, n, seed), halves(corpus.test[:3000])
    prior, began = corpus.prior, time.perf_counter()
    model = fitted(corpus, train, epsilon)
    seconds = time.perf_counter() - began
    exact = by_frequencies(asked, exact_frequencies(train))
    topics, alpha, masses = one_histogram(train, prior, epsilon, DELTA, rng)
    ours = of_user(model, told, asked)
    row: dict[str, Any] = {
        "ours": ours,
        "exact": exact,
        "one_histogram": completion(told, asked, topics, alpha),
        "public": completion(told, asked, prior.topics(), 4.0 * prior.weights),
        "released_frequencies": by_frequencies(asked, masses),
        "seconds": seconds,
        "true_gain": 1.0 - ours / exact,
        "words": float(np.median(train.sum(axis=1).A1)),
        "nats": model._restored().gained_nats,
        "commit": COMMIT,
    }
    if seed == 0:
        row["without_prior"] = plain(train, told, asked, epsilon=epsilon, delta=DELTA)
        row["without_privacy"] = plain(train, told, asked, private=False)
    if corpus.labels is not None:
        from sklearn.metrics import normalized_mutual_info_score

        whole = model.transform(corpus.test)
        row["agreement"] = float(normalized_mutual_info_score(corpus.labels, whole.argmax(axis=1)))
    return row


def chosen(corpus: PanelCorpus, n: int, seed: int) -> Any:
    """Choose n persons, at random."""
    return corpus.train[np.sort(np.random.default_rng([seed, n]).permutation(corpus.train.shape[0])[:n])]


def fitted(corpus: PanelCorpus, train: Any, epsilon: float) -> LatentDirichletAllocation:
    """Fit with all defaults."""
    prior = corpus.prior
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LatentDirichletAllocation(prior.n_topics, epsilon=epsilon, delta=DELTA, public_prior=prior).fit(train)


def plain(train: Any, told: Any, asked: Any, **settings: Any) -> float:
    """Perplexity of topics without public ones, 20 of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return of_user(LatentDirichletAllocation(20, **settings).fit(train), told, asked)


def of_user(model: LatentDirichletAllocation, told: Any, asked: Any) -> float:
    """Perplexity of the asked halves, by a model's own topics and proportions."""
    return _by_theta(asked, model.transform(told), model.components_ / model.components_.sum(axis=1, keepdims=True))


def _by_theta(asked: Any, theta: np.ndarray, topics: np.ndarray) -> float:
    rows = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
    p = np.concatenate(
        [
            np.einsum("nk,nk->n", theta[rows[i : i + 50_000]], topics.T[asked.indices[i : i + 50_000]])
            for i in range(0, len(rows), 50_000)
        ]
    )
    return float(np.exp(-(asked.data @ np.log(np.maximum(p, 1e-30))) / asked.sum()))


def run(names: tuple[str, ...], stored: Path) -> None:
    """Measure the cells that are not stored yet."""
    rows = json.loads(stored.read_text()) if stored.exists() else {}
    for name in names:
        corpus = None
        for n in PERSONS:
            for epsilon in EPSILONS:
                for seed in SEEDS:
                    if corpus is None:
                        try:
                            corpus = load(name)
                        except FileNotFoundError as error:
                            print(f"{name}: skipped, {error}")
                            break
                    size = min(n, corpus.train.shape[0])
                    key = f"{name} {size} {epsilon:g} {seed}"
                    if key in rows or (n < 10**9 and n > corpus.train.shape[0]):
                        continue
                    rows[key] = cell(corpus, size, epsilon, seed)
                    stored.write_text(json.dumps(rows, indent=0, sort_keys=True))
                    print(key, json.dumps(rows[key]), flush=True)


def measure_own(names: tuple[str, ...], stored: Path) -> None:
    """Measure perplexity with and without topics of the records' own, where they may begin."""
    rows = json.loads(stored.read_text()) if stored.exists() else {}
    signal, seen = public_topics.PublicTopicsModel._own_signal, [0.0]

    def noted(model: public_topics.PublicTopicsModel) -> float:
        seen.append(signal(model))
        return seen[-1]

    for name in names:
        corpus = load(name)
        told, asked = halves(corpus.test[:3000])
        for n in sorted({min(n, corpus.train.shape[0]) for n in PERSONS if n >= 3000}):
            for epsilon in EPSILONS:
                key = f"{name} {n} {epsilon:g}"
                if key in rows:
                    continue
                row: dict[str, float] = {}
                for kind, least in (("public", math.inf), ("own", 0.0)):
                    with (
                        patch.object(public_topics.PublicTopicsModel, "_own_signal", noted),
                        patch.object(public_topics, "_OWN_SIGNAL", least),
                    ):
                        row[kind] = of_user(fitted(corpus, chosen(corpus, n, 0), epsilon), told, asked)
                    row["signal"] = seen[-1]
                    if row["signal"] < SIGNALS[0]:
                        break
                rows[key] = row
                stored.write_text(json.dumps(rows, indent=0, sort_keys=True))
                print(key, row, flush=True)


def measure_parts(names: tuple[str, ...], stored: Path) -> None:
    """Measure perplexity with the whole path, and without each part."""
    rows = json.loads(stored.read_text()) if stored.exists() else {}
    for name in names:
        corpus = load(name)
        told, asked = halves(corpus.test[:3000])
        for n, epsilon, seed in product(
            sorted({min(n, corpus.train.shape[0]) for n in (800, 3000)}), (1.0, 2.0), SEEDS
        ):
            row = rows.setdefault(f"{name} {n} {epsilon:g} {seed}", {})
            train = chosen(corpus, n, seed)
            for part, change in {"whole": None, **WITHOUT}.items():
                if part not in row:
                    with patch.object(*change) if change else nullcontext():
                        row[part] = of_user(fitted(corpus, train, epsilon), told, asked)
            stored.write_text(json.dumps(rows, indent=0, sort_keys=True))
            print(name, n, epsilon, seed, row, flush=True)


def left_out(rows: dict[str, dict[str, Any]], own: dict[str, dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Choose the constants of the text path without each corpus, and judge the choice on it.

    A widening is the one whose intervals hold the true gain nearest to 90 % of the time. A signal is the one with the
    lowest mean logarithm of perplexity.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in sorted({key.split()[0] for key in rows}):
        others, mine = ({k: row for k, row in rows.items() if (k.split()[0] == name) == one} for one in (False, True))
        apart, here = ({k: row for k, row in own.items() if (k.split()[0] == name) == one} for one in (False, True))
        widening, signal = choice(others, apart)
        verdicts = _verdicts(list(mine.values()), widening)
        found[name] = {"widening": widening, "signal": signal, **verdicts, "loss": _loss(here, signal)}
    return found


def choice(rows: dict[str, dict[str, Any]], own: dict[str, dict[str, float]]) -> tuple[float, float]:
    """Choose a widening and a signal by these rows; see `left_out`."""
    widening = min(WIDENINGS, key=lambda miss: _cost(list(rows.values()), miss))
    return widening, min(SIGNALS, key=lambda least: (round(_loss(own, least), 6), -least))


def judged(row: dict[str, Any], miss: float = public_topics._MISS) -> tuple[FoundGain | None, str]:
    """Read a row's gain, and its worth, with the package's constant or with another."""
    found = None if row["nats"] is None else public_topics.gain_of(*row["nats"], miss)
    return found, Verdict.of_topics(found, "person", hidden=found is None).worth


def _verdicts(rows: list[dict[str, Any]], miss: float = public_topics._MISS) -> dict[str, int]:
    counts = {"fits": len(rows), "judged": 0, "holds": 0, "useful": 0, "wrong": 0, "unclear": 0}
    for row in rows:
        gain, worth = judged(row, miss)
        true = row["true_gain"]
        # A gain below -1 is shown as -1.
        counts["judged"] += gain is not None
        counts["holds"] += gain is not None and gain.low <= max(true, -1.0) <= gain.high
        counts["useful"] += worth == "useful"
        counts["wrong"] += worth == "useful" and true <= 0
        counts["unclear"] += worth == "unclear"
    return counts


def _cost(rows: list[dict[str, Any]], miss: float) -> float:
    counts = _verdicts(rows, miss)
    return abs(counts["holds"] / max(counts["judged"], 1) - 0.9)


def _loss(rows: dict[str, dict[str, float]], least: float) -> float:
    """Mean of how much the logarithm of perplexity is above that of the better kind of topics."""
    both = [row for row in rows.values() if "own" in row]
    losses = [
        math.log(row["own" if row["signal"] >= least else "public"] / min(row["own"], row["public"])) for row in both
    ]
    return sum(losses) / max(len(losses), 1)


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The figures that decide, as shares: how often ours is near the best rival, and how often the verdict is true."""
    ratio = {key: row["ours"] / min(row[rival] for rival in RIVALS) for key, row in rows.items()}
    many = [
        one <= 0.97
        for key, one in ratio.items()
        if int(key.split()[1]) >= 3000 and rows[key]["words"] >= 20 and float(key.split()[2]) >= 2
    ]
    near = [one <= 1.02 for one in ratio.values()]
    whole = _verdicts(list(rows.values()))
    few = _verdicts([row for key, row in rows.items() if key.split()[1:3] == ["800", "2"]])
    apart = list(left_out(rows, json.loads(OWN.read_text())).values())
    holds, wrong = (sum(one[name] for one in apart) for name in ("holds", "wrong"))
    return {
        "within 2 % of the best rival": sum(near) / len(near),
        "the most above the best rival": max(ratio.values()) - 1,
        "3 % or more ahead of all rivals: 3,000 persons, 20 words, ε ≥ 2": sum(many) / max(len(many), 1),
        "the interval holds the true gain": whole["holds"] / max(whole["judged"], 1),
        "… its constants chosen without the corpus": holds / sum(one["judged"] for one in apart),
        "called useful, and truly no better": whole["wrong"] / max(whole["useful"], 1),
        "… its constants chosen without the corpus, too": wrong / max(sum(one["useful"] for one in apart), 1),
        "cannot tell: 800 persons, ε = 2": few["unclear"] / max(few["fits"], 1),
    }


def _means(rows: dict[str, dict[str, Any]], epsilon: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    cells: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for key, row in rows.items():
        name, n, of, _ = key.split()
        if of == epsilon:
            cells.setdefault((name, int(n)), []).append(row)
    return dict(sorted(cells.items()))


def tables(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The tables of the page, by name."""
    rivals = ["one histogram", "public topics", "released counts", "exact counts"]
    parts = []
    for part in WITHOUT:
        lost: dict[str, list[float]] = {}
        for key, row in json.loads(PARTS.read_text()).items():
            lost.setdefault(key.split()[0], []).append(100 * math.log(row[part] / row["whole"]))
        each = (sum(lost.values(), []), *(lost[name] for name in SHOWN))
        parts.append([part, *(f"{np.mean(one):+.1f} %" for one in each)])
    others, lines = ["without_prior", "without_privacy"], []
    for (name, n), cell in _means(rows, "2").items():
        means = [np.mean([row[one] for row in cell]) for one in ("words", "ours", *RIVALS, "exact")]
        lines.append([name, f"{n:,}", *(f"{one:,.0f}" for one in (*means, *(cell[0][one] for one in others)))])
    said = {"useful": "useful", "no better": "not better", "unclear": "cannot tell", "": "–"}
    verdicts = []
    for (name, n), (row, *_) in _means(rows, "2").items():
        found, worth = judged(row)
        ends = ["–", "–"]
        if found is not None:
            gain, low, high = (f"{100 * one:+.0f} %" for one in found)
            ends = [gain, f"{low} to {high}"]
        verdicts.append([name, f"{n:,}", f"{100 * row['true_gain']:+.0f} %", *ends, said[worth]])
    whole = [[name, f"{100 * figure:.0f} %"] for name, figure in summary(rows).items()]
    labels = {}
    for (name, _), cell in _means(rows, "2").items():
        if "agreement" in cell[0]:
            labels[name] = [name, f"{np.mean([row['agreement'] for row in cell]):.2f}"]
    fresh: dict[str, list[dict[str, Any]]] = {}
    for key, row in json.loads(OTHERS.read_text()).items():
        fresh.setdefault(key.split()[0], []).append(row)
    unseen = []
    for name, cells in [*sorted(fresh.items()), ("all", sum(fresh.values(), []))]:
        ratios, told = [row["ours"] / min(row[rival] for rival in RIVALS) for row in cells], _verdicts(cells)
        words = f"{np.median([row['words'] for row in cells]):.0f}"
        unseen.append(
            [name, words, f"{len(cells)}", f"{np.exp(np.mean(np.log(ratios))):.2f}", f"{max(ratios):.2f}"]
            + [f"{np.mean(np.array(ratios) <= 1.02):.0%}", f"{told['holds']} of {told['judged']}"]
            + [f"{told['useful']}", f"{told['wrong']}", f"{told['unclear']}"]
        )
    over = ["corpus", "words", "cells", "ours / best rival", "worst", "within 2 %", "held", "useful", "wrongly"]
    apart = [
        [name, f"{one['widening']:g}", *(f"{one[what]}" for what in ("judged", "holds", "useful", "wrong", "unclear"))]
        + [f"{one['signal']:g}", f"{100 * one['loss']:.1f} %"]
        for name, one in left_out(rows, json.loads(OWN.read_text())).items()
    ]
    head = ["corpus left out", "constant", "fits", "held", "useful", "wrongly", "cannot tell", "signal", "lost by it"]
    return {
        "parts": markdown(["without", "mean", *SHOWN], parts),
        "left out": markdown(head, apart),
        "others": markdown([*over, "cannot tell"], unseen),
        "summary": markdown([f"{len(rows)} cells", ""], whole),
        "perplexity": markdown(
            ["corpus", "persons", "words", "ours", *rivals, "without public topics", "without privacy"], lines
        ),
        "verdict": markdown(["corpus", "persons", "true gain", "found", "interval", "verdict"], verdicts),
        "labels": markdown(["corpus, all persons", "agreement with labels (NMI)"], list(labels.values())),
    }


def write_page(rows: dict[str, dict[str, Any]]) -> None:
    """Replace the tables of docs/panel.md."""
    text = PAGE.read_text("utf-8")
    for name, table in tables(rows).items():
        head, end = f"<!-- bench.panel.text {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(head)
        text = before + head + table + "\n" + end + rest.partition(end)[2]
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="corpora; default: all")
    parser.add_argument("--rows", type=Path, default=STORED, help="file of the rows")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/panel.md instead")
    parser.add_argument("--own", action="store_true", help="measure topics of the records' own beside public ones")
    parser.add_argument("--parts", action="store_true", help="measure fits without one part of the path")
    asked = parser.parse_args()
    if asked.own:
        measure_own(tuple(asked.names), OWN)
    elif asked.parts:
        measure_parts(SHOWN, PARTS)
    elif asked.page:
        write_page(json.loads(asked.rows.read_text()))
    else:
        run(tuple(asked.names), asked.rows)
    for name, figure in summary(json.loads(asked.rows.read_text())).items():
        print(f"{name}: {100 * figure:.1f} %")
