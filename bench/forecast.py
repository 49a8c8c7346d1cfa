"""Forecast of private topics from public numbers, beside the outcome.

    python -m bench.forecast fits       # add the missing fits to bench/forecast.json; some twenty minutes
    python -m bench.forecast coverage   # write coverage, "better" and refusals, each source left out; the constants
    python -m bench.forecast persons    # write the table of persons into docs/forecast_measured.md
    python -m bench.forecast bound      # the most that any forecast from public numbers can be near
    python -m bench.forecast lengths    # the default length and prior beside the best of a grid; some ten minutes

The gain is one minus the perplexity of held-out words under the model, over their perplexity under word frequencies.
These are exact, of the training documents. A word is predicted from the other half of its document. Plan and fit have
all defaults: they know epsilon, the number of records or persons, and the words. They know the usual length of a note
if a row of `CORPORA` has one. The noise of topics comes from a fixed test key; purchased words have fresh noise. If
words are purchased, the gain is about these words.

Corpora of one source share documents, so coverage leaves out a whole source. Three corpora are of our own making:
docstrings of at most eight words, and docstrings joined by file. In the third, half of the files have a language of
their own.

Each row has two digests of its method: of the model's bits, and of the settings by the plan. No table mixes methods.
``fits`` and ``lengths`` make rows of an older one again.
"""

import argparse
import hashlib
import json
import sys
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import least_squares

sys.path.append(str(Path(__file__).resolve().parent / "paper"))

from common import DATA, ROOT, markdown, newsgroup_posts
from public_prior import cut

from vips_fast import LatentDirichletAllocation, Plan, PrivateVocabulary, plan
from vips_fast.data import Analyzer, public_vocabulary, stop_words
from vips_fast.data.readers import read_docword
from vips_fast.data.vocabulary import count_matrix
from vips_fast.demo import docstrings_corpus
from vips_fast.models.lda import LdaOptions, forecast
from vips_fast.models.lda.planning import FEW_WORDS
from vips_fast.models.vocabulary import TokenRows
from vips_fast.report import predictive_perplexity, split_words, unigram_perplexity

STORED, PAGE = ROOT / "bench" / "forecast.json", ROOT / "docs" / "forecast_measured.md"
#: Bits of the models along their paths, which a test holds.
BITS = ROOT / "tests" / "same_bits.json"
DELTA, TESTS = 1e-6, 600
#: Each corpus: its source, the usual length that the plan knows, numbers of units, and values of epsilon.
FOUR = (1.0, 2.0, 4.0, 8.0)
CORPORA: dict[str, tuple[str, int | None, tuple[int, ...], tuple[float, ...]]] = {
    "posts, purchased words": ("posts", None, (821, 1700, 3400, 6652), FOUR),
    "posts, 500 words": ("posts", None, (821, 1700, 3400, 6652), FOUR),
    "posts, 2,000 words": ("posts", None, (821, 1700, 3400, 6652), FOUR),
    "posts, 5,000 words": ("posts", None, (3400, 6652), FOUR),
    "posts cut to 8 words": ("posts", 8, (6652,), (1.0, 4.0, 8.0)),
    "docstrings": ("docstrings", 30, (2000, 6000, 18000), FOUR),
    "docstrings by file": ("docstrings", 30, (1000, 3000), FOUR),
    "docstrings by file, purchased words": ("docstrings", 30, (1000, 3000), FOUR),
    "short docstrings": ("docstrings", 6, (2000, 6000), (2.0, 8.0)),
    "docstrings joined by file": ("docstrings", 200, (1000, 2500), (2.0, 4.0, 8.0)),
    "docstrings in two languages": ("docstrings", 30, (6000, 18000), (1.0, 2.0, 8.0)),
    "newswires": ("newswires", 50, (2000, 6000, 17000), FOUR),
    "blog entries": ("blog entries", 110, (1000, 3100), (2.0, 4.0, 8.0, 16.0)),
    "sections": ("articles", 80, (6000, 18000), FOUR),
    "sections by article": ("articles", 80, (1222, 3763), FOUR),
    "sections by article, purchased words": ("articles", 80, (1222, 3763), FOUR),
    "articles": ("articles", 500, (2000, 6000), (2.0, 4.0, 8.0)),
}
#: Corpora of the table of persons.
PERSONS = [name for name in CORPORA if "by file" in name or "by article" in name or name.startswith("posts, ")]
PERSONS = [name for name in PERSONS if "joined" not in name and "5,000" not in name]
PERSON = {"rows_per_group": None}
#: Corpora that the constants are not fitted on: a language says more of a word than any topic.
ODD = ("docstrings in two languages",)


class Documents(NamedTuple):
    """Load counts of training and test documents, units, and words.

    Counts are (D, V), units of the former or None; the words are V.
    """

    train: sp.csr_array
    units: np.ndarray | None
    test: sp.csr_array
    words: tuple[str, ...]

    def some(self, n: int) -> "Documents":
        """Choose n units by chance, the same ones at each call."""
        numbers = np.arange(self.train.shape[0]) if self.units is None else self.units
        kept = np.isin(numbers, np.random.default_rng(1).permutation(int(numbers.max()) + 1)[:n])
        return self._replace(train=sp.csr_array(self.train[kept]), units=None if self.units is None else numbers[kept])

    def over(self, words: Any) -> "Documents":
        """Keep the columns of these words."""
        place = {word: column for column, word in enumerate(self.words)}
        columns = [place[word] for word in words if word in place]
        train, test = (sp.csr_array(part[:, columns]) for part in (self.train, self.test))
        return Documents(train, self.units, test, tuple(self.words[column] for column in columns))


def analyzer() -> Analyzer:
    return Analyzer("unicode", 1, "mixed", 1, tuple(stop_words("public:en")))


@lru_cache(1)
def posts() -> Documents:
    """Read all words of the posts, and the public ones."""
    rows, split_text = {part: newsgroup_posts(part) for part in ("train", "test")}, analyzer()
    found = {token for row in rows["train"] for token in split_text(row["text"])}
    words = sorted(found | set(public_vocabulary("public:en", split_text, size=5000)))
    train, test = (count_matrix([[row["text"] for row in rows[part]]], words, split_text) for part in rows)
    units = np.unique([row["person"] for row in rows["train"]], return_inverse=True)[1]
    return Documents(train, units, test[:TESTS], tuple(words))


@lru_cache(1)
def docstrings() -> Documents:
    """Read docstrings of at least four words; a 30th for tests."""
    found = docstrings_corpus(4)
    counts = sp.csr_array(found.counts)
    tested = np.random.default_rng(0).random(int(found.groups.max()) + 1)[found.groups] < 1 / 30
    units = np.unique(found.groups[~tested], return_inverse=True)[1]
    return Documents(sp.csr_array(counts[~tested]), units, sp.csr_array(counts[tested]), tuple(found.vocabulary))


def shortened(found: Documents, kept: Any) -> Documents:
    """Keep the documents whose number of words ``kept`` accepts."""
    own, test = (kept(np.asarray(part.sum(axis=1))) for part in (found.train, found.test))
    units = found.units[own]
    return Documents(found.train[own], np.unique(units, return_inverse=True)[1], found.test[test][:TESTS], found.words)


def joined(counts: sp.csr_array, units: np.ndarray) -> sp.csr_array:
    """Add up the documents of each unit."""
    return sp.csr_array(sp.csr_array((np.ones(len(units), np.int32), (units, np.arange(len(units))))) @ counts)


def in_two_languages(counts: sp.csr_array, second: np.ndarray) -> sp.csr_array:
    """Give the documents of ``second`` words that no other document has."""
    parts = [sp.csr_array(sp.diags_array(part.astype(np.int32)) @ counts) for part in (~second, second)]
    found = sp.csr_array(sp.hstack(parts))
    found.eliminate_zeros()
    return found


def halves(counts: np.ndarray, rng: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Divide documents into training and test documents."""
    rows = np.random.default_rng(rng).permutation(counts.shape[0])
    tests = min(TESTS, counts.shape[0] // 10)
    return rows[tests:], rows[:tests]


@lru_cache(3)
def corpus(name: str) -> Documents:
    """Read all documents of a corpus."""
    kind, _, more = name.partition(", ")
    if kind.startswith("posts"):
        found = posts()
        if "purchased" in more:
            return found
        size = int(more.split()[0].replace(",", "")) if more else 2000
        found = found.over(public_vocabulary("public:en", analyzer(), size=size))
        return found._replace(train=cut(found.train, 8), test=cut(found.test, 8)) if "cut" in kind else found
    if kind == "short docstrings":
        return shortened(docstrings(), lambda length: length <= 8)._replace(units=None)
    if kind.startswith("docstrings"):
        found = shortened(docstrings(), lambda length: length >= 10)
        if "joined" in kind:
            counts = joined(found.train, found.units)
            train, test = halves(counts)
            return Documents(counts[train], None, counts[test], found.words)
        if "two languages" in kind:
            train = in_two_languages(found.train, found.units % 2 == 1)
            test = in_two_languages(found.test, np.arange(found.test.shape[0]) % 2 == 1)
            return Documents(train, None, test, found.words + tuple(f"{word} 2" for word in found.words))
        return found if "by file" in kind else found._replace(units=None)
    if kind in ("newswires", "blog entries"):
        folder, part = ("reuters", "reuters") if kind == "newswires" else ("kos_uci", "kos")
        counts = sp.csr_array(read_docword(DATA / "text" / folder / f"docword.{part}.txt.gz").counts)
        train, test = halves(counts)
        return Documents(counts[train], None, counts[test], tuple(map(str, range(counts.shape[1]))))
    suffix = "" if kind == "articles" else "_sections"
    train, test = (sp.csr_array(sp.load_npz(DATA / "wiki" / f"{part}{suffix}.npz")) for part in ("train", "test"))
    units = np.load(DATA / "wiki" / "train_sections_article.npy") if "by article" in kind else None
    if units is not None:
        units = np.unique(units, return_inverse=True)[1]
    words = tuple((DATA / "wiki" / "vocab.txt").read_text().split())
    return Documents(train.astype(np.int32), units, test[:TESTS].astype(np.int32), words)


def gain_of(model: LatentDirichletAllocation, found: Documents) -> float:
    """Compute the gain of a fit."""
    given, asked = split_words(found.test, 0)
    reached = predictive_perplexity(model.transform(given), model.components_, asked)
    return 1 - reached / unigram_perplexity(found.train, asked)


def settings(row: dict[str, Any]) -> dict[str, Any]:
    """Read the public settings of a row."""
    return {"doc_length": CORPORA[row["corpus"]][1], "epsilon": row["epsilon"], "delta": DELTA}


def purchase(found: Documents, row: dict[str, Any]) -> PrivateVocabulary | None:
    """Purchase words by the plan; None if they are too few."""
    before = plan(row["units"], None, None, rows_per_group=None, **settings(row))
    given = dict(delta=DELTA, n_records=row["units"], max_share=0.3, **before.vocabulary.parameters())
    rows = TokenRows.of_counts(found.train, found.words)
    words = PrivateVocabulary(**given).fit(rows, groups=found.units)
    row["words"] = len(words.get_feature_names_out())
    return words if row["words"] >= 5 else None


def outcome(name: str, n: int, epsilon: float) -> dict[str, Any]:
    """Fit, and give public numbers, gain, found gain and verdict."""
    row: dict[str, Any] = {"corpus": name, "units": n, "epsilon": epsilon}
    found, after, topics = corpus(name).some(n), None, None
    persons = {} if found.units is None else {"rows_per_group": None}
    row["units"] = n = found.train.shape[0] if found.units is None else len(np.unique(found.units))
    if "purchased" in name:
        if (after := purchase(found, row)) is None:
            return row
        found = found.over(after.get_feature_names_out())
        topics = plan(n, None, None, **persons, **settings(row)).n_components
    row["words"] = found.train.shape[1]
    row["topics"] = topics or plan(n, row["words"], None, **persons, **settings(row)).n_components
    model = LatentDirichletAllocation(row["topics"], n_records=n, random_state=0, n_jobs=1, **settings(row))
    model.set_unsafe(test_key=bytes(32)).fit(found.train, groups=found.units, after=after)
    state = model._fitted().state
    readable = float((state["average"] > 4 * state["average_noise"]).sum() / row["topics"])
    row |= {"gain": round(gain_of(model, found), 4), "readable": round(readable, 1)}
    verdict = model.verdict_
    return row | {"found": [round(x, 4) for x in verdict.found], "verdict": verdict.worth}


class Settled(LatentDirichletAllocation):
    """A topic model that shows the settings which a fit would have."""

    def _model_settings(self, public: Any, schedule: Any) -> dict[str, Any]:
        self.settled = super()._model_settings(public, schedule)
        return self.settled


@lru_cache(1)
def bits() -> str:
    """Digest the stored bits of topic models."""
    cases = json.loads(BITS.read_text("utf-8"))["cases"]
    own = {name: case for name, case in cases.items() if name.startswith(("lda/", "lda-"))}
    return digest(json.dumps(own, sort_keys=True))


def method(row: dict[str, Any], lengths: tuple[int | None, ...]) -> str:
    """Digest the settings of a fit, as the plan chooses them.

    The forecast's constants are fitted to such rows, and are no part of it.
    """
    found: list[Any] = []
    persons = {"rows_per_group": None} if is_by_person(row["corpus"]) else {}
    for length in lengths:
        how = {"doc_length": length, "epsilon": row["epsilon"], "delta": DELTA}
        if "purchased" in row["corpus"]:
            early = plan(row["units"], None, None, rows_per_group=None, **how)
            found += [early.vocabulary.parameters(), early.n_components]
        if "topics" in row:
            columns = sp.csr_array((1, row["words"]), dtype=np.int32)
            one = Settled(row["topics"], n_records=row["units"], random_state=0, n_jobs=1, **how)
            stage = one.prepare(columns, **({"groups": np.zeros(1, int)} if persons else {}))
            found += [one.settled, stage.n_steps, plan(row["units"], row["words"], row["topics"], **persons, **how)]
    return digest(rounded(found))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def rounded(value: Any) -> str:
    """Write settings with six digits.

    The expected worth of a plan is no setting.
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ",".join(f"{name}={rounded(own)}" for name, own in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(rounded, value))}]"
    return rounded(value.parameters()) if isinstance(value, Plan) else repr(value)


def stamp(kind: str, row: dict[str, Any]) -> dict[str, str]:
    """Name the method that makes a row now."""
    return {"bits": bits(), "plan": method(row, LENGTH_OF[kind](row))}


def of_this_method(kind: str, row: dict[str, Any]) -> bool:
    """Tell whether the code would make a row as it was made."""
    return "plan" in row and stamp(kind, row).items() <= row.items()


#: The lengths that the fits of a row know.
LENGTH_OF = {"fits": lambda row: (CORPORA[row["corpus"]][1],), "lengths": lambda row: (None, CORPORA[row["corpus"]][1])}


def of_one_method(kind: str) -> list[dict[str, Any]]:
    """Read the stored rows; refuse a mixture of methods.

    The bits of all are the same, be they older than the code's; the settings are those of the plan now.
    """
    rows = stored()[kind]
    old = sum("plan" not in row or row["plan"] != stamp(kind, row)["plan"] for row in rows)
    if old or len({row.get("bits") for row in rows}) > 1:
        why = f"{old} of {len(rows)} rows have other settings than the plan" if old else "rows have different bits"
        raise SystemExit(f"{STORED.name}, {kind}: {why}; run python -m bench.forecast {kind}")
    return rows


def stored() -> dict[str, list[dict[str, Any]]]:
    """Read the stored rows."""
    return json.loads(STORED.read_text("utf-8")) if STORED.exists() else {"fits": [], "lengths": []}


def keep(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Store rows, one a line, in the order of the corpora."""
    order = list(CORPORA)
    rows["fits"].sort(key=lambda row: (order.index(row["corpus"]), row["asked"], row["epsilon"]))
    parts = (f'"{name}": [\n' + ",\n".join(map(json.dumps, own)) + "\n]" for name, own in rows.items())
    STORED.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def fits(names: list[str]) -> None:
    """Add the missing fits; make old ones again."""
    rows = stored()
    rows["fits"] = [row for row in rows["fits"] if row["corpus"] not in names or of_this_method("fits", row)]
    known = {(row["corpus"], row["asked"], row["epsilon"]) for row in rows["fits"]}
    for name in names:
        for n in CORPORA[name][2]:
            for epsilon in CORPORA[name][3]:
                if (name, n, epsilon) not in known:
                    row = outcome(name, n, epsilon)
                    rows["fits"].append({"asked": n, **row, **stamp("fits", row)})
                    keep(rows)
                    print(row, flush=True)


def is_by_person(name: str) -> bool:
    """Tell whether a corpus has units of several records."""
    return name.startswith("posts") or "by article" in name or ("by file" in name and "joined" not in name)


def planned(row: dict[str, Any]) -> Any:
    """Plan a stored fit, again from public numbers."""
    rows = {"rows_per_group": None} if is_by_person(row["corpus"]) else {}
    return plan(row["units"], row["words"], row["topics"], **rows, **settings(row))


class Runs:
    """Stored fits as arrays: gain, signal, words, topics and source of each."""

    def __init__(self) -> None:
        self.rows = [row for row in of_one_method("fits") if "gain" in row]
        self.gain = np.array([row["gain"] for row in self.rows])
        self.found = np.array([row["found"] for row in self.rows]).T
        plans = [planned(row) for row in self.rows]
        self.shapes = [(one.n_features, one.n_components) for one in plans]
        self.signals = np.array([one.signal_to_noise * one.n_components for one in plans])
        self.source = np.array([CORPORA[row["corpus"]][0] for row in self.rows])

    def expected(self, constants: Any, times: float = 1.0, more: float = 0.0) -> np.ndarray:
        """Expect the gain of each fit."""
        found = (
            forecast.nats(x * times, *shape, constants) for x, shape in zip(self.signals, self.shapes, strict=True)
        )
        return -np.expm1(-np.maximum(np.fromiter(found, float), -2.0) - more)

    def constants(self, chosen: np.ndarray) -> Any:
        """Fit the constants to some of the fits."""
        chosen = chosen & (self.gain > -0.6) & [row["corpus"] not in ODD for row in self.rows]

        def missed(p: np.ndarray) -> np.ndarray:
            return (self.expected(forecast.Constants(*np.exp(p))) - self.gain)[chosen]

        start = np.log(forecast.CONSTANTS)
        bounds = start - 2.0, np.minimum(start + 2.0, np.log([1.0, 1e6, 1.0, 2.0, 2.0]))
        return forecast.Constants(*np.exp(least_squares(missed, start, loss="soft_l1", f_scale=0.03, bounds=bounds).x))


def left_out(runs: Runs) -> np.ndarray:
    """Forecast each source with constants fitted on the others, (3, n)."""
    ends = np.empty((3, len(runs.rows)))
    for name in np.unique(runs.source):
        own = runs.source == name
        found = runs.constants(~own)
        ends[:, own] = [runs.expected(found, times, more)[own] for times, more in forecast.ENDS]
    return ends


def coverage() -> None:
    """Write the coverage of each source, with constants fitted on the others."""
    runs = Runs()
    print("constants", runs.constants(runs.gain > -np.inf), "\nused     ", forecast.CONSTANTS, "\n")
    write_table("coverage", coverage_table(runs, *(ends := left_out(runs))))
    early = [
        (row, plan(row["units"], None, None, rows_per_group=None, **settings(row))) for row in of_one_method("fits")
    ]
    few = [row["words"] for row, said in early if "purchased" in row["corpus"] and said.vocabulary.words < FEW_WORDS]
    print(
        f"\nPurchases refused: {len(few)}; of these found 20 words all the same: {sum(words >= 20 for words in few)}."
    )
    own = np.array(["purchased" in row["corpus"] for row in runs.rows]) & (ends[2] >= forecast.HOPELESS)
    said = {(row["corpus"], row["asked"], row["epsilon"]): one.expected_gain for row, one in early}
    before = np.array([said[row["corpus"], row["asked"], row["epsilon"]] for row in runs.rows])
    shares = (percent(np.mean(is_near(one, runs.gain)[own])) for one in (before, ends[1]))
    print(f"Of {own.sum()} runs with purchased words the forecast is near in {' before and '.join(shares)} after them.")


def bound() -> None:
    """Print how much of the forecast's miss is the corpus, which no public number names."""
    runs = Runs()
    _, middle, high = left_out(runs)
    kept, names = high >= forecast.HOPELESS, np.array([row["corpus"] for row in runs.rows])
    missed = np.log1p(-middle) - np.log1p(-runs.gain)
    known, within = np.zeros(len(missed)), 0.0
    for name in np.unique(names[kept]):
        own = kept & (names == name)
        within += float(((missed[own] - missed[own].mean()) ** 2).sum())
        known[own] = (missed[own].sum() - missed[own]) / max(own.sum() - 1, 1)
    share = 1 - within / ((missed[kept] - missed[kept].mean()) ** 2).sum()
    near = (percent(np.mean(is_near(one, runs.gain)[kept])) for one in (middle, 1 - (1 - middle) * np.exp(-known)))
    print(f"{percent(share)} of the variance of the miss is between corpora.")
    print(f"Near: {next(near)}; if the mean miss of a corpus's other runs were known, {next(near)}.")
    public = np.array([[row["epsilon"], is_by_person(row["corpus"]), 1, 1] for row in runs.rows])
    public[:, 2:] = np.log([[row["units"], row["words"]] for row in runs.rows])
    far = np.maximum(0.05, 0.15 * np.abs(runs.gain))
    pairs = [
        abs(runs.gain[i] - runs.gain[j]) > far[i] + far[j]
        for i, j in zip(*np.triu_indices(len(names), 1), strict=True)
        if kept[i] and kept[j] and names[i] != names[j] and same_length(names[i], names[j])
        if (public[i, :2] == public[j, :2]).all() and (np.abs(public[i] - public[j])[2:] < np.log(1.5)).all()
    ]
    print(f"Pairs of corpora of like numbers: {len(pairs)}; no forecast is near both gains in {sum(pairs)}.")


def same_length(one: str, other: str) -> bool:
    """Tell whether usual lengths are within a factor of 1.5."""
    lengths = [CORPORA[name][1] or 40 for name in (one, other)]
    return max(lengths) < 1.5 * min(lengths)


def coverage_table(runs: Runs, low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> str:
    """Tabulate coverage, "better" and refusals by source."""
    lines = []
    odd = np.array([row["corpus"] in ODD for row in runs.rows])
    groups = [(name, runs.source == name) for name in dict.fromkeys(runs.source)]
    for name, own in [*groups, ("all", runs.gain > -np.inf), (f"all but {', '.join(ODD)}", ~odd)]:
        refused, better = own & (high < forecast.HOPELESS), own & (low > 0)
        kept, gain = own & ~refused, runs.gain
        near = is_near(middle, gain)
        found, least, most = runs.found
        lines.append(
            [
                name,
                int(own.sum()),
                percent(np.mean((low <= gain)[kept] & (gain <= high)[kept])),
                percent(np.median((high - low)[kept])),
                f"{int((gain[better] < -0.02).sum())} of {int(better.sum())}",
                f"{int((gain[refused] > 0).sum())} of {int(refused.sum())}",
                percent(np.mean(near[kept])),
                percent(np.mean(((least <= gain) & (gain <= most))[own])),
                percent(np.median((most - least)[own])),
                percent(np.mean(is_near(found, gain)[own])),
            ]
        )
    head = ["source", "runs", "interval covers", "width", "“better” below −2 %", "refused with a gain", "near"]
    head += ["verdict covers", "width", "near"]
    return markdown(head, lines)


def is_near(said: np.ndarray, gain: np.ndarray) -> Any:
    """Find figures within 15 % of the gain, or 5 points."""
    return np.abs(said - gain) <= np.maximum(0.05, 0.15 * np.abs(gain))


def percent(gain: float) -> str:
    """Write a share in whole percents, with a true minus."""
    return f"{100 * gain:.0f} %".replace("-0 %", "0 %").replace("-", "\u2212")


def persons() -> None:
    """Write the table of persons."""
    cells: dict[tuple[str, int], dict[float, str]] = {}
    for row in of_one_method("fits"):
        if (name := row["corpus"]) not in PERSONS:
            continue
        purchased = "purchased" in name
        said = plan(row["units"], None if purchased else row["words"], None, **PERSON, **settings(row))
        low, high = (percent(end).removesuffix(" %") for end in (max(said.gain_low, -1), said.gain_high))
        words = f"{row['words']:,}/{said.vocabulary.words:,.0f}; " if said.vocabulary else ""
        found = f"**{percent(row['gain'])}** {row['verdict']}" if "gain" in row else "too few"
        text = f"{words}{'refused' if said.hopeless else f'{low}…{high}'}; {found}"
        cells.setdefault((f"{name.split(',')[0]}, {'purchased' if purchased else row['words']}", row["units"]), {})[
            row["epsilon"]
        ] = text
    lines = [[name, f"{units:,}", *(own.get(one, "") for one in FOUR)] for (name, units), own in cells.items()]
    write_table("persons", markdown(["words", "persons", *(f"ε = {one:g}" for one in FOUR)], lines))


def write_table(name: str, table: str) -> None:
    """Replace a table of docs/forecast_measured.md, and print it."""
    start, end = f"<!-- bench.forecast {name} -->\n", "<!-- end -->"
    before, found, after = PAGE.read_text("utf-8").partition(start)
    if not found:
        raise SystemExit(f"{PAGE}: has no line {start.strip()}")
    PAGE.write_text(f"{before}{start}{table}\n{end}{after.partition(end)[2]}", "utf-8")
    print(table)


#: Corpora of the test of the default length, at one size; the lengths and priors of the grid.
LENGTHS = ("posts, 2,000 words", "sections", "articles", "docstrings", "newswires")
LENGTHS += ("short docstrings", "docstrings joined by file", "docstrings in two languages")
GRID, ALPHAS = (15, 50, 200), (0.05, 0.2, 1.0)


def lengths(names: list[str]) -> None:
    """Compare the default length and prior with the best of a grid.

    A fit brings documents to the length. It has the same prior of proportions as new documents.
    """
    rows = stored()
    rows["lengths"] = [row for row in rows["lengths"] if row["corpus"] not in names or of_this_method("lengths", row)]
    known = {row["corpus"] for row in rows["lengths"]}
    for name in [name for name in LENGTHS if name in names and name not in known]:
        found = corpus(name).some(3000)
        n = found.train.shape[0] if found.units is None else len(np.unique(found.units))
        row = {"corpus": name, "units": n, "epsilon": 4.0}
        row["words"] = found.train.shape[1]
        row["topics"] = topics = plan(n, row["words"], None, **PERSON, **settings(row)).n_components
        row |= stamp("lengths", row)
        for private in (True, False):
            how = dict(epsilon=4.0, delta=DELTA, n_records=n) if private else dict(private=False)
            units = found.units if private else None

            def reached(length: int | None, alpha: float | None, how=how, units=units, found=found) -> float:
                options = LdaOptions(doc_topic_prior=alpha)
                model = LatentDirichletAllocation(
                    topics, doc_length=length, random_state=0, n_jobs=1, options=options, **how
                )
                if how.get("private", True):
                    model.set_unsafe(test_key=bytes(32))
                return 1 - gain_of(model.fit(found.train, groups=units), found)

            usual = reached(None, None)
            said = reached(CORPORA[name][1], None)
            grid = {
                (length, alpha): reached(length, alpha) for length in (GRID if private else (None,)) for alpha in ALPHAS
            }
            best = min(grid, key=lambda at: grid[at])
            more = {"private": private, "default": usual / grid[best], "said": said / grid[best]}
            rows["lengths"].append({**row, **more, "best": best})
            keep(rows)
            print(rows["lengths"][-1], flush=True)
    cells: dict[str, list[str]] = {}
    for row in of_one_method("lengths"):
        cells.setdefault(row["corpus"], []).extend(f"{row[name]:.2f}" for name in ("said", "default"))
    head = ["", "private, length given", "default", "without privacy, length given", "default"]
    write_table("lengths", markdown(head, [[name, *own] for name, own in cells.items()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fits", "coverage", "persons", "bound", "lengths"))
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # hopeless fits are wanted
    if args.what in ("fits", "lengths"):
        if not DATA.is_dir():
            raise SystemExit("real data not found: set VIPS_FAST_DATA")
        (fits if args.what == "fits" else lengths)(args.corpora)
    else:
        {"coverage": coverage, "persons": persons, "bound": bound}[args.what]()


if __name__ == "__main__":
    main()
