"""Compare forecasts of private topics with their results.

    python -m bench.forecast fits        # a fit of each corpus, size and epsilon: bench/results/forecast.csv
    python -m bench.forecast fits --neighbors   # the same with words that are used alike, by a public model's vectors
    python -m bench.forecast constants   # the forecast's constants, from the corpora that they are fitted on
    python -m bench.forecast table       # the forecast beside the result, in Markdown
    python -m bench.forecast persons     # posts by person, all defaults: words that are purchased, and public ones

The gain is one minus the perplexity of held-out words under the model over that under the training documents' own word
frequencies; a word is predicted from the other half of its document (`vips_fast.report.predictive_perplexity`). A word
of a topic is readable where its released average stands above four standard deviations of its noise. The forecast is
told the median number of distinct words of the training documents, which a user would have to guess.

``fits`` adds to what the file has, so it can be stopped; a whole run takes some ten minutes of processor time, and as
long again with neighbors, with VIPS_FAST_VECTORS as the name of the file that bench/paper/word_vectors.py writes.
"""

import argparse
import csv
import math
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.optimize import least_squares

sys.path.append(str(Path(__file__).resolve().parent / "paper"))

from common import DATA, ROOT, newsgroup_posts
from word_vectors import neighbors, posts_analyzer, vocabulary

from vips_fast import LatentDirichletAllocation, PrivateVocabulary, plan
from vips_fast.data import Analyzer, Corpus, load_corpus, public_vocabulary, split, stop_words
from vips_fast.data.vocabulary import count_matrix
from vips_fast.models.lda import LdaOptions, forecast
from vips_fast.models.vocabulary import TokenRows
from vips_fast.report import predictive_perplexity, split_words, unigram_perplexity

RESULTS = ROOT / "bench" / "results" / "forecast.csv"
DELTA = 1e-6
#: Corpora, and the words that each document is brought to.
LENGTHS = {"articles": 500, "kos": 150, "docstrings": 30, "sections": 100, "reuters": 70, "people": 60}
#: Those that the constants are fitted on.
FITTED = ("articles", "kos", "docstrings")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
#: The vocabulary of a corpus whose words have vectors; the words of KOS are not among the data.
WORDS = {"articles": "wiki", "sections": "wiki", "reuters": "reuters", "people": "posts", "docstrings": "docstrings"}
#: Most documents of a corpus.
MOST = {"articles": 12_000}
COLUMNS = ("corpus", "records", "words", "topics", "length", "distinct", "epsilon", "neighbors", "gain", "readable")


def corpus(name):
    """Training and test documents, (D, V) and at most (600, V), and nothing that the forecast may see."""
    if name in ("articles", "sections"):
        suffix = "" if name == "articles" else "_sections"
        train, test = (sp.csr_array(sp.load_npz(DATA / "wiki" / f"{part}{suffix}.npz")) for part in ("train", "test"))
        return train, test[:600]
    if name == "kos":
        found = load_corpus(DATA / "text" / "kos_uci" / "docword.kos.txt.gz", format="docword")
    elif name == "reuters":
        found = load_corpus(DATA / "text" / "reuters" / "docword.reuters.txt.gz", format="docword")
    elif name == "people":
        train, test = (
            sp.csr_array(
                count_matrix([[post["text"] for post in newsgroup_posts(part)]], vocabulary("posts"), posts_analyzer())
            )
            for part in ("train", "test")
        )
        return train, test[:600]
    else:
        from vips_fast.demo import docstrings_corpus

        found = docstrings_corpus()
    train, test = split(Corpus(found.counts), 600 if found.n_documents > 6000 else 330, random_state=0)
    return sp.csr_array(train.counts), sp.csr_array(test.counts)


def runs(n):
    """Records, topics and epsilon of each fit to a corpus of n documents."""
    yield from ((size, 10, epsilon) for size in (max(n // 9, 200), n // 3, n) for epsilon in EPSILONS)
    yield from ((n, topics, epsilon) for topics in (5, 20, 50) for epsilon in (1.0, 4.0, 8.0))


def outcome(train, test, topics, length, distinct, epsilon, near):
    """Return the gain of a fit, and its readable words a topic."""
    model = LatentDirichletAllocation(
        topics,
        doc_length=length,
        epsilon=epsilon,
        delta=DELTA,
        random_state=0,
        word_neighbors=near,
        options=LdaOptions(distinct_words=distinct),
    ).fit(train)
    given, asked = split_words(test, 0)
    reached = predictive_perplexity(model.transform(given), model.components_, asked)
    state = model._fitted().state
    clear = (state["average"] > 4 * state["average_noise"]).sum()
    return 1 - reached / unigram_perplexity(train, asked), clear / topics


def fits(names, alike):
    """Add missing fits to the file."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    known = {(row["corpus"], row["records"], row["topics"], row["epsilon"], row["neighbors"]) for row in stored()}
    with open(RESULTS, "a", newline="") as file:
        table = csv.writer(file)
        if not known:
            table.writerow(COLUMNS)
        for name in names:
            train, test = corpus(name)
            near = neighbors(WORDS[name]) if alike else None
            train = train[np.random.default_rng(0).permutation(train.shape[0])][: MOST.get(name)]
            for n, topics, epsilon in runs(train.shape[0]):
                if (name, n, topics, epsilon, alike) in known:
                    continue
                X = sp.csr_array(train[:n])
                distinct = float(np.median(np.diff(X.indptr)))
                gain, readable = outcome(X, test, topics, LENGTHS[name], distinct, epsilon, near)
                row = (
                    name,
                    n,
                    X.shape[1],
                    topics,
                    LENGTHS[name],
                    distinct,
                    epsilon,
                    int(alike),
                    f"{gain:.4f}",
                    f"{readable:.1f}",
                )
                table.writerow(row)
                file.flush()
                print(*row, flush=True)


def stored():
    """Rows of the file."""
    if not RESULTS.exists():
        return []
    with open(RESULTS, newline="") as file:
        return [
            {name: text if name == "corpus" else float(text) for name, text in row.items()}
            for row in csv.DictReader(file)
        ]


def planned(row):
    """Return the plan for a row."""
    n, words, topics, length = (int(row[name]) for name in ("records", "words", "topics", "length"))
    return plan(
        n,
        words,
        topics,
        doc_length=length,
        distinct_words=row["distinct"],
        epsilon=row["epsilon"],
        delta=DELTA,
        word_neighbors=bool(row["neighbors"]),
    )


def constants():
    """The constants that fit best where the gain begins and above: by soft least squares; the last by logarithms."""
    rows = [row for row in stored() if row["corpus"] in FITTED and row["gain"] > -0.1]
    alike = [row["neighbors"] for row in rows]
    signal = np.array([planned(row).signal_to_noise * row["topics"] for row in rows])
    gain, topics, words, length = (
        np.array([row[name] for row in rows]) for name in ("gain", "topics", "words", "length")
    )
    worth = signal * np.where(alike, forecast.NEIGHBORS, 1.0) * words**forecast.WORDS
    told = np.maximum(0, 1 - forecast.SHORT / length)

    def missed(p):
        free, top = p[1] * np.log(worth / p[0]), p[2] * np.log(topics)
        return 1 - np.exp(-np.where(free < 0, p[3] * free, told * top * np.tanh(free / top))) - gain

    start = (forecast.ORIGIN, forecast.SLOPE, forecast.CEILING, forecast.LOSS)
    found = least_squares(missed, start, loss="soft_l1", f_scale=0.03).x
    readable = np.array([row["readable"] for row in rows]) * topics / (words * signal)
    print("origin {:.2f}, slope {:.3f}, ceiling {:.3f}, loss {:.2f}".format(*found), end=", ")
    print(f"readable {math.exp(np.log(readable[readable > 0]).mean()):.3f}")
    print(f"used: {forecast.ORIGIN}, {forecast.SLOPE}, {forecast.CEILING}, {forecast.LOSS}, {forecast.READABLE}")


def percent(gain):
    """Return a share in whole percents, with a true minus."""
    return f"{100 * gain:.0f} %".replace("-0 %", "0 %").replace("-", "\u2212")


def neighbors_worth():
    """How many times smaller the origin is with neighbors, by curves of one slope and ceiling, in each corpus."""
    for name in WORDS:
        rows = [row for row in stored() if row["corpus"] == name and row["gain"] > -0.1]
        signal, alike, topics, gain = (
            np.array(column)
            for column in zip(
                *(
                    (planned(row).signal_to_noise * row["topics"], row["neighbors"], row["topics"], row["gain"])
                    for row in rows
                ),
                strict=True,
            )
        )

        def missed(p):
            free, top = p[1] * np.log(signal * np.where(alike, p[3], 1.0) / p[0]), p[2] * np.log(topics)
            return 1 - np.exp(-np.where(free < 0, free, top * np.tanh(free / top))) - gain

        found = least_squares(missed, (4.0, 0.2, 0.2, 1.2), loss="soft_l1", f_scale=0.03).x
        print(f"{name}: origin {found[0]:.2f}, neighbours worth {found[3]:.2f} times the signal")


def tables():
    """Fits without neighbors of words, then with them."""
    for alike in (0, 1):
        print("\nWith words that are used alike\n" if alike else "")
        table([(row, planned(row)) for row in stored() if row["neighbors"] == alike])


def table(rows):
    """Print both side by side; then their distance, and the cost of a refusal."""
    print("| | records | distinct words | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |")
    print("| --- " * (3 + len(EPSILONS)) + "|")
    for name in LENGTHS:
        own = [(row, said) for row, said in rows if row["corpus"] == name and row["topics"] == 10]
        for n in sorted({row["records"] for row, _ in own}):
            cells = {
                row["epsilon"]: f"{'refused' if said.hopeless else percent(said.expected_gain)}, {percent(row['gain'])}"
                for row, said in own
                if row["records"] == n
            }
            (distinct,) = {row["distinct"] for row, _ in own if row["records"] == n}
            line = (f"{name}{' (fitted)' * (name in FITTED)}", f"{n:,.0f}", f"{distinct:.0f}")
            print("| " + " | ".join([*line, *(cells.get(epsilon, "") for epsilon in EPSILONS)]) + " |")
    print(
        "\n| | runs | mean miss | root of mean square | gains over 10 % | of these within 15 % | mean ratio | "
        "readable words, ratio |"
    )
    print("| --- " * 8 + "|")
    for name in dict.fromkeys(row["corpus"] for row, _ in rows):
        own = [(row, said) for row, said in rows if row["corpus"] == name and not said.hopeless]
        miss = np.array([said.expected_gain - row["gain"] for row, said in own])
        large = [said.expected_gain / row["gain"] for row, said in own if row["gain"] > 0.1]
        near = sum(abs(ratio - 1) <= 0.15 for ratio in large)
        words = np.exp(np.mean([np.log(said.readable_words / row["readable"]) for row, said in own]))
        print(
            f"| {name} | {len(own)} | {miss.mean():+.3f} | {math.sqrt((miss**2).mean()):.3f} | {len(large)} | {near}"
            f" | {np.mean(large):.2f} | {words:.2f} |"
        )
    refused = [row["gain"] for row, said in rows if said.hopeless]
    kept = [row["gain"] for row, said in rows if not said.hopeless]
    print(
        f"\n{len(rows)} runs. Refused: {len(refused)}, the best gain among them {max(refused):.3f}. Not refused: "
        f"{len(kept)}, of them without a gain {sum(gain <= 0 for gain in kept)}."
    )


def persons():
    """Gain, forecast and verdict for posts by person, with purchased words and over public lists; one seed."""
    analyzer = Analyzer("unicode", 1, "mixed", 1, tuple(stop_words("public:en")))
    rows, tests = newsgroup_posts("train"), [post["text"] for post in newsgroup_posts("test")]
    whose = np.unique([post["person"] for post in rows], return_inverse=True)[1]
    order = np.random.default_rng(1).permutation(whose.max() + 1)
    print("| persons | ε | purchased words | gain, forecast | 500 public words | 2,000 |\n" + "| --- " * 6 + "|")
    for n in (821, 1700, 3400, 6652):
        own = np.isin(whose, order[:n])
        texts, groups = [row["text"] for row, kept in zip(rows, own, strict=True) if kept], whose[own]

        def outcome(said, epsilon, words, texts=texts, groups=groups, n=n, **after):
            train, test = (count_matrix([part], words, analyzer) for part in (texts, tests))
            given, asked = split_words(test, 0)
            common = dict(epsilon=epsilon, delta=DELTA, n_records=n, random_state=0, n_jobs=1)
            model = LatentDirichletAllocation(said.n_components, **common).fit(train, groups=groups, **after)
            reached = predictive_perplexity(model.transform(given), model.components_, asked)
            verdict = ", refused" if said.hopeless else ""
            gain = 1 - reached / unigram_perplexity(train, asked)
            return f"{percent(gain)}, {percent(said.expected_gain)}{verdict}"

        for epsilon in (1.0, 2.0, 4.0, 8.0):
            given = dict(epsilon=epsilon, delta=DELTA)
            said = plan(n, None, None, **given)
            purchased = PrivateVocabulary(
                delta=DELTA, n_records=n, analyzer=analyzer, max_share=0.3, **said.vocabulary.parameters()
            ).fit(TokenRows(analyzer).extend(texts), groups=groups)
            words = list(purchased.get_feature_names_out())
            cells = [f"{len(words)} (expected {said.vocabulary.words:.0f})"]
            cells.append("refused" if len(words) < 5 else outcome(said, epsilon, words, after=purchased))
            for size in (500, 2000):
                listed = public_vocabulary("public:en", analyzer, size=size)
                cells.append(outcome(plan(n, size, None, **given), epsilon, listed))
            print(f"| {n:,} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fits", "constants", "table", "persons"))
    parser.add_argument("--corpora", nargs="+", choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--neighbors", action="store_true", help="fits with words that are used alike")
    args = parser.parse_args()
    if args.what == "fits":
        if not DATA.is_dir():
            raise SystemExit("real data not found: set VIPS_FAST_DATA")
        fits([name for name in args.corpora if name in WORDS or not args.neighbors], args.neighbors)
    else:
        for show in {"constants": (constants, neighbors_worth), "persons": (persons,)}.get(args.what, (tables,)):
            show()


if __name__ == "__main__":
    main()
