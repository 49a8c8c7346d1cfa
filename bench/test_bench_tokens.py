"""Time W7: counts of a public vocabulary in English text.

scikit-learn's CountVectorizer over the same one stands beside.

The text is the posts of ``people`` (VIPS_FAST_DATA), 18 MB; without them, Python's language reference.
"""

import time

import pytest
from common import DATA
from sklearn.feature_extraction.text import CountVectorizer

from vips_fast.data import Analyzer, count_matrix, public_vocabulary
from vips_fast.data.records import Records


@pytest.fixture(scope="module")
def texts():
    path = DATA / "people" / "train.jsonl.gz"
    if path.exists():
        return [text for batch, _ in Records(path).batches() for text in batch]
    from pydoc_data.topics import topics

    return list(topics.values()) * 8


def test_w7_counts(texts, paired):
    pytest.importorskip("wordfreq")
    words, megabytes = public_vocabulary("public:en", size=8000), sum(len(text.encode()) for text in texts) / 1e6

    def ours(analyzer=None):
        return count_matrix([texts[k : k + 1000] for k in range(0, len(texts), 1000)], words, analyzer)

    theirs = CountVectorizer(vocabulary=words)
    ratios = paired(
        ours,
        {
            "scikit-learn's CountVectorizer": lambda: theirs.transform(texts),
            "pairs of words, too": lambda: ours(Analyzer(ngrams=2)),
        },
        f"W7 counts of 8,000 words in {megabytes:.0f} MB, one thread",
        rounds=3,
    )
    assert ratios["scikit-learn's CountVectorizer"] > 2
    start = time.process_time()
    ours()
    print(f"{megabytes / (time.process_time() - start):.1f} MB/s of processor time")
