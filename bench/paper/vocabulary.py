"""Words that a vocabulary bought from the budget holds, and their share of all tokens.

    python bench/paper/vocabulary.py               # 21,475 Wikipedia articles, and 400,000 drawn from them
    python bench/paper/vocabulary.py perplexity    # topics at epsilon = 1 in all, beside those of all words

Each article is a person, delta = 1e-6. Beside the default of four rounds stand one round of the same mechanism, and one
round with at most 300 tokens a person, the weighted set union of Gopi et al. 2020. An article that is drawn again is
another person with the same words. Writes bench/results/vocabulary.csv.
"""

import argparse
import time

import numpy as np
import scipy.sparse as sp
from lda_common import DATA, RESULTS

from vips_fast import LatentDirichletAllocation, PrivateVocabulary
from vips_fast.models.vocabulary import TokenRows, plan_vocabulary

DELTA = 1e-6
VARIANTS = {"gopi": dict(n_steps=1, max_tokens=300), "one round": dict(n_steps=1), "four rounds": {}}


def articles(n=None):
    """Counts of n articles drawn with replacement, or of all; and the words of the columns."""
    matrix = sp.load_npz(DATA / "train.npz").tocsr()
    if n is not None:
        matrix = matrix[np.random.default_rng(1).integers(0, matrix.shape[0], n)]
    return matrix, (DATA / "vocab.txt").read_text().split()


def perplexity(matrix, words):
    """Held-out perplexity at epsilon = 1 in total, over the bought words, with them and with the public vocabulary."""
    test = sp.load_npz(DATA / "test.npz").tocsr()
    n = matrix.shape[0]
    share = plan_vocabulary(n, 1.0, DELTA).target_epsilon
    bought = PrivateVocabulary(target_epsilon=share, target_delta=DELTA, n_records=n).fit(
        TokenRows.of_counts(matrix, words)
    )
    columns = np.sort([words.index(word) for word in bought.vocabulary_])
    # Both are asked about the same words, so that their perplexities can be compared.
    for name, options, kept in (("public", {}, np.arange(len(words))), ("private", {"after": bought}, columns)):
        model = LatentDirichletAllocation(
            n_components=50, doc_length=500, n_records=n, target_epsilon=1.0, target_delta=DELTA, n_jobs=-1
        ).fit(matrix[:, kept], **options)
        topics = model.components_[:, np.searchsorted(kept, columns)]
        again = topics / topics.sum(axis=1, keepdims=True)
        shown = test[:, columns]
        mixture = model.transform(test[:, kept])
        likelihood = (shown.multiply(np.log(np.maximum(mixture @ again, 1e-300)))).sum()
        print(f"{name}: {len(columns)} words, perplexity {np.exp(-likelihood / shown.sum()):.1f}; {model.privacy_}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("words", "perplexity"), default="words")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--articles", type=int, nargs="+", default=[21_475, 400_000])
    args = parser.parse_args()
    if args.what == "perplexity":
        perplexity(*articles(max(args.articles)))
        return
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "vocabulary.csv", "w") as file:
        for n in args.articles:
            matrix, words = articles(None if n == 21_475 else n)
            rows, tokens = TokenRows.of_counts(matrix, words), np.asarray(matrix.sum(axis=0)).ravel()
            for epsilon in (0.1, 0.3, 1.0):
                for name in args.variants:
                    start = time.perf_counter()
                    model = PrivateVocabulary(target_epsilon=epsilon, target_delta=DELTA, n_records=n, **VARIANTS[name])
                    found = [words.index(word) for word in model.fit(rows).vocabulary_]
                    share, seconds = tokens[found].sum() / tokens.sum(), time.perf_counter() - start
                    line = f"{n},{epsilon},{name},{len(found)},{share:.4f},{seconds:.0f}"
                    print(line, file=file, flush=True)
                    print(line, flush=True)


if __name__ == "__main__":
    main()
