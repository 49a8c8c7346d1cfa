"""Words of a purchased vocabulary, and their share of all tokens: the table of docs/vocabulary.md.

    python bench/paper/vocabulary.py    # 21,475 Wikipedia articles, and 400,000 drawn from them

Each article is a person, delta = 1e-6. Beside the default of four rounds stand one round of the same mechanism, and one
round with at most 300 tokens a person, the weighted set union of Gopi et al. 2020. An article that is drawn again is
another person with the same words. Writes bench/results/vocabulary.csv.
"""

import argparse

import numpy as np
import scipy.sparse as sp
from lda_common import DATA, Table

from vips_fast import PrivateVocabulary

VARIANTS = {"gopi": dict(n_rounds=1, max_tokens=300), "one round": dict(n_rounds=1), "four rounds": {}}
N_ARTICLES = 21_475


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--persons", type=int, nargs="+", default=[N_ARTICLES, 400_000])
    args = parser.parse_args()
    articles, names = sp.load_npz(DATA / "train.npz").tocsr(), (DATA / "vocab.txt").read_text().split()
    texts = [" ".join(names[v] for v in row.indices) for row in articles]
    table = Table("vocabulary", ["persons", "epsilon", "rounds", "words", "share"])
    for n in args.persons:
        drawn = np.random.default_rng(1).integers(0, articles.shape[0], n)
        drawn = np.arange(n) if n == N_ARTICLES else drawn
        matrix = articles[drawn]
        tokens = dict(zip(names, np.asarray(matrix.sum(axis=0)).ravel(), strict=True))
        for epsilon in (0.1, 0.3, 1.0):
            for name, settings in VARIANTS.items():
                model = PrivateVocabulary(epsilon=epsilon, delta=1e-6, n_records=n, analyzer=str.split, **settings)
                found = model.fit(texts[i] for i in drawn).vocabulary_
                table.add(n, epsilon, name, len(found), sum(tokens[word] for word in found) / sum(tokens.values()))


if __name__ == "__main__":
    main()
