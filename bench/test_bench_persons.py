"""Time the topic model's E-step over persons.

The first 20,000 sections of articles are the data, the article is the person, and K = 50.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation
from vips_fast.models.lda import LdaOptions

WORK = "sum of one step over 20,000 sections of 100 words of some 2,500 articles"


@pytest.fixture(scope="module")
def step(data_dir):
    """Make a call that sums one full step. Persons are labels or None."""
    folder = data_dir / "wiki"
    X = sp.csr_array(sp.load_npz(folder / "train_sections.npz"))[:20_000]
    articles = np.load(folder / "train_sections_article.npy")[:20_000]

    def make(groups=None, n_jobs=1, **options):
        model = LatentDirichletAllocation(
            50,
            doc_length=100,
            n_steps=1,
            noise_multiplier=1.0,
            delta=1e-6,
            sampling="full",
            random_state=0,
            n_jobs=n_jobs,
            **options,
        )
        run = model.prepare(X, groups=groups)
        rows = np.arange(run.records.n_rows)
        words = rows.astype(np.uint64)
        return lambda: run.backend.sum(run.model, run.records, rows, words)

    return make, articles


@pytest.mark.benchmark(group="persons")
def test_persons_beside_documents(paired, step):
    make, articles = step
    alone = make(np.arange(20_000), options=LdaOptions(word_clip=1.0))
    peers = {"documents": make(), "persons of one document": alone}
    paired(make(articles), peers, WORK, rounds=9)


@pytest.mark.benchmark(group="persons")
def test_two_threads(paired, step):
    make, articles = step
    paired(make(articles, n_jobs=2), {"one thread": make(articles)}, WORK, rounds=9)
