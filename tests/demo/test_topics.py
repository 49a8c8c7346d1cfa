"""Source files as persons, and public topics of what everybody has."""

import numpy as np

from vips_fast import PrivateTopics
from vips_fast.data import Analyzer
from vips_fast.data.vocabulary import count_matrix
from vips_fast.demo import docstrings_by_file, public_texts, public_topics, source_files
from vips_fast.report import predictive_perplexity, split_words, unigram_perplexity


def test_persons_are_source_files_of_packages_and_none_is_public(monkeypatch):
    """Persons are source files of packages; no text of theirs is public."""
    texts, files, packages = source_files()
    assert packages[:2] == ["numpy", "scipy"] and len(texts) == len(files)
    assert set(np.diff(files)) == {0, 1} and 500 < files[-1] + 1 <= 1500
    # A few texts are the same by chance, such as "Close the file."
    assert len(set(texts) & set(public_texts())) < 0.01 * len(texts)


def test_topics_of_the_demo_beat_counting_words():
    """The demo's promise, on the packages that every installation has: numpy and scipy."""
    files = [*docstrings_by_file(("numpy",)).values(), *docstrings_by_file(("scipy",)).values()]
    order = np.random.default_rng(0).permutation(len(files))
    held_out, kept = order[: len(files) // 10], order[len(files) // 10 :]
    prior = public_topics(public_texts())
    assert prior.n_topics == 100 and len(prior.words) == 2000
    table = {"docstring": [text for k in kept for text in files[k]], "file": [int(k) for k in kept for _ in files[k]]}
    found = PrivateTopics(2.0, public_prior=prior, random_state=0).fit(table, text="docstring", person="file")
    train, test = (
        count_matrix([["\n".join(files[k]) for k in part]], prior.words, Analyzer()) for part in (kept, held_out)
    )
    given, asked = split_words(test)
    model = found.model_
    ours = predictive_perplexity(model.transform(given), model.components_, asked)
    assert ours < 0.9 * unigram_perplexity(train, asked)
