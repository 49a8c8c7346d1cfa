"""Words of a purchased vocabulary, and topics over them.

    python bench/paper/vocabulary.py words         # 21,475 Wikipedia articles, and 400,000 drawn from them
    python bench/paper/vocabulary.py forecast      # the forecast for them, for 4,000 articles, sections and posts
    python bench/paper/vocabulary.py people        # topics of posts at epsilon = 4 in all, beside public vocabularies
    python bench/paper/vocabulary.py wiki          # topics of 400,000 articles at epsilon = 1 in all, beside all words

Each article, section or writer of posts is a person, delta = 1e-6. Beside the default of four rounds stand one round
of the same mechanism, and one round with at most 300 tokens a person, the weighted set union of Gopi et al. 2020. An
article that is drawn again is another person with the same words. Writes bench/results/vocabulary-*.csv.

Perplexities are of one half of each test document's tokens, drawn at random, with the topic proportions of the other
half. First of all tokens that some list has: the words that are not in a model's list share the part of the tokens that
they make up, by their public frequencies (alike where none are known). Then of the tokens that all lists have, given
that a token is one of them.
"""

import argparse
import gzip
import json
import time
from functools import partial

import numpy as np
import scipy.sparse as sp
from lda_common import DATA, RESULTS, load

from vips_fast import LatentDirichletAllocation, PrivateVocabulary, plan
from vips_fast.data import Analyzer, Records, public_vocabulary, stop_words
from vips_fast.data.vocabulary import count_matrix
from vips_fast.models.lda import LdaOptions
from vips_fast.models.vocabulary import TokenRows, plan_vocabulary

DELTA = 1e-6
VARIANTS = {"gopi": dict(n_rounds=1, max_tokens=300), "one round": dict(n_rounds=1), "four rounds": {}}
PEOPLE = DATA.parent / "people"


def articles(n=None, name="train"):
    """Draw counts of n articles with replacement, or all; and words.

    The words of the columns.
    """
    matrix = sp.load_npz(DATA / f"{name}.npz").tocsr()
    if n is not None:
        matrix = matrix[np.random.default_rng(1).integers(0, matrix.shape[0], n)]
    return matrix, (DATA / "vocab.txt").read_text().split()


def posts():
    """Load the posts' texts and persons, test texts, and analyzer.

    The analyzer is the command line's.
    """
    train = Records(PEOPLE / "train.jsonl.gz", ("text",), "person")
    texts, persons = zip(*((t, p) for batch in train.batches() for t, p in zip(*batch, strict=True)), strict=True)
    with gzip.open(PEOPLE / "test.jsonl.gz", "rt", encoding="utf-8") as file:
        test = [json.loads(line)["text"] for line in file]
    return list(texts), list(persons), test, Analyzer(numbers="mixed", stop_words=stop_words("public:en"))


def corpora():
    """Load a corpus: its name, token rows, persons, and possible words.

    Also whose each row is, and the tokens of each word.
    """
    texts, persons, _, analyzer = posts()
    rows = TokenRows(analyzer).extend(texts)
    names = list(rows._index.columns)
    tokens = dict(zip(names, count_matrix([texts], names, analyzer).sum(axis=0), strict=True))
    yield "people", rows, persons, tokens, len(set(persons)), None
    for name, n, given in (
        ("4,000 articles", 4000, "train"),
        ("sections", None, "train_sections"),
        ("21,475 articles", None, "train"),
        ("400,000 articles", 400_000, "train"),
    ):
        matrix, words = articles(None if n == 4000 else n, given)
        matrix = matrix[: n if n == 4000 else None]
        tokens = dict(zip(words, np.asarray(matrix.sum(axis=0)).ravel(), strict=True))
        yield name, TokenRows.of_counts(matrix, words), None, tokens, matrix.shape[0], len(words)


def purchased(rows, n, groups=None, **settings):
    """Return a fitted vocabulary."""
    return PrivateVocabulary(delta=DELTA, n_records=n, **settings).fit(rows, groups=groups)


def share_of(tokens, words):
    """Share of all tokens that some words make up."""
    return sum(tokens[word] for word in words) / sum(tokens.values())


def words(say, variants, persons):
    """Make the table of words."""
    for n in persons:
        matrix, names = articles(None if n == 21_475 else n)
        rows = TokenRows.of_counts(matrix, names)
        tokens = dict(zip(names, np.asarray(matrix.sum(axis=0)).ravel(), strict=True))
        for epsilon in (0.1, 0.3, 1.0):
            for name in variants:
                start = time.perf_counter()
                found = purchased(rows, n, epsilon=epsilon, **VARIANTS[name]).vocabulary_
                seconds = time.perf_counter() - start
                say(n, epsilon, name, len(found), f"{share_of(tokens, found):.4f}", f"{seconds:.0f}")


def forecast(say, only):
    """Words and share of tokens beside those that the plan expects."""
    for name, rows, groups, tokens, n, known in corpora():
        if only and name.split()[0] not in only:
            continue
        # What a person holds, rounded: a public guess would be as good.
        held = {"people": 35.0, "sections": 60.0}.get(name, 300.0)
        for epsilon in (0.1, 0.3, 1.0) if name != "people" else (0.5, 1.0, 2.0, 4.0):
            closed = {} if known is None else {"n_words": known}
            made = plan_vocabulary(n, epsilon, DELTA, tokens=held, share=1.0, max_features=10**6, **closed)
            found = purchased(rows, n, groups, **made.parameters()).vocabulary_
            say(
                name,
                epsilon,
                made.n_rounds,
                made.max_tokens,
                len(found),
                f"{made.words:.0f}",
                f"{share_of(tokens, found):.3f}",
                f"{made.token_share:.3f}",
            )


def scores(say, models, test, universe, frequency):
    """Compute perplexities of models over lists of words.

    Name to (model, words); ``test`` counts the universe's.
    """
    at = {word: column for column, word in enumerate(universe)}
    seen = test.copy()
    seen.data = np.random.default_rng(7).binomial(test.data.astype(np.int64), 0.5)
    held = (test - seen).tocoo()
    common = sorted(set.intersection(*(set(at[word] for word in listed) for _, listed in models.values())))
    is_common = np.isin(np.arange(len(universe)), common)
    total = held.data.sum()
    for name, (model, listed) in models.items():
        columns = np.array([at[word] for word in listed])
        place = np.full(len(universe), -1)
        place[columns] = np.arange(len(columns))
        mixture = model.transform(sp.csr_array(seen.tocsr()[:, columns]))
        topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
        inside = place[held.col] >= 0
        row, count, column = held.row[inside], held.data[inside], held.col[inside]
        p = np.concatenate(
            [
                np.einsum("ij,ij->i", mixture[row[a : a + 10**5]], topics.T[place[column[a : a + 10**5]]])
                for a in range(0, len(row), 10**5)
            ]
        )
        missing = 1 - count.sum() / total
        likelihood = count @ np.log(p * (1 - missing))
        if missing:
            rest = np.where(place < 0, frequency, 0.0)
            likelihood += held.data[~inside] @ np.log(missing * rest[held.col[~inside]] / rest.sum())
        shared = is_common[column]
        given = (mixture @ topics[:, is_common[columns]].sum(axis=1))[row[shared]]
        on_common = count[shared] @ np.log(p[shared] / given) / count[shared].sum()
        said = model.privacy_
        say(
            name,
            len(listed),
            f"{1 - missing:.4f}",
            f"{np.exp(-likelihood / total):.1f}",
            f"{np.exp(-on_common):.1f}",
            f"{len(common)}",
            f"{said.epsilon:.3f}",
            f"{said.noise_multiplier:.3f}",
        )


def people(say, repeats, share):
    """Fit ten topics of posts over three vocabularies, at epsilon = 4.

    A purchased vocabulary, the same as if it were public, and as many words of a public list.
    """
    import wordfreq

    texts, persons, test, analyzer = posts()
    n, length = len(set(persons)), 100
    made = plan(n, None, 10, doc_length=length, epsilon=4.0, delta=DELTA, unit="person", vocab_share=share).vocabulary
    rows = TokenRows(analyzer).extend(texts)
    listed = public_vocabulary("public:en", analyzer, size=50_000)
    for _ in range(repeats):
        words = purchased(rows, n, persons, analyzer=analyzer, max_share=0.3, **made.parameters())
        own = list(words.get_feature_names_out())
        universe = list(dict.fromkeys([*listed, *own]))
        models = {}
        lists = {"purchased": own, "the same, public": own, "public:en": list(listed[: len(own)])}
        for name, chosen in lists.items():
            call = {"after": words} if name == "purchased" else {}
            model = LatentDirichletAllocation(10, doc_length=length, n_records=n, epsilon=4.0, delta=DELTA, n_jobs=-1)
            models[name] = model.fit(count_matrix([texts], chosen, analyzer), groups=persons, **call), chosen
        # The words that no list of frequencies knows are as frequent as the rarest that it knows.
        frequency = np.array([wordfreq.word_frequency(word, "en", minimum=1e-8) for word in universe])
        scores(say, models, count_matrix([test], universe, analyzer), universe, frequency)


def wiki(say, n, repeats, share, steps):
    """Fit fifty topics of n articles, at epsilon = 1 in all.

    Resampled to 500 words, over a purchased vocabulary and over all words; in each repeat of other samples. Both have
    the public list's planned steps and step sizes: fewer words may have more.
    """
    settings = dict(doc_length=500, epsilon=1.0, delta=DELTA)
    made = plan(n, None, 50, vocab_share=share, **settings).vocabulary
    for seed in range(repeats):
        matrix, test, words = load(n, seed=seed)
        like = plan(n, len(words), 50, n_steps=steps, **settings)
        model = partial(
            LatentDirichletAllocation,
            50,
            n_records=n,
            n_steps=like.n_steps,
            n_jobs=-1,
            options=LdaOptions(learning_decay=like.learning_decay),
            **settings,
        )
        after = purchased(TokenRows.of_counts(matrix, words), n, **made.parameters())
        columns = np.sort([words.index(word) for word in after.vocabulary_])
        models = {
            f"purchased with {made.epsilon:.2f}": (
                model().fit(matrix[:, columns], after=after),
                [words[column] for column in columns],
            ),
            "public": (model().fit(matrix), words),
        }
        scores(partial(say, seed, like.n_steps), models, test, words, np.ones(len(words)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("words", "forecast", "people", "wiki"))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--persons", type=int, nargs="+", default=[21_475, 400_000])
    parser.add_argument("--corpora", nargs="+", default=[], help="of the forecast: first words of their names")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--share", type=float, help="of epsilon for the vocabulary, in place of the plan's")
    parser.add_argument("--steps", type=int, help="of wiki, in place of the plan's")
    args = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / f"vocabulary-{args.what}.csv", "w") as file:

        def say(*cells):
            for out in (file, None):
                print(*cells, sep=",", file=out, flush=True)

        {
            "words": partial(words, say, args.variants, args.persons),
            "forecast": partial(forecast, say, args.corpora),
            "people": partial(people, say, args.repeats, args.share),
            "wiki": partial(wiki, say, args.persons[-1], args.repeats, args.share, args.steps),
        }[args.what]()


if __name__ == "__main__":
    main()
