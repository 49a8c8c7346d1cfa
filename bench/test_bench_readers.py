"""Count files: UCI's docword format beside pandas' parser."""

import numpy as np
import pytest

from vips_fast.data import load_corpus

N_DOCUMENTS, N_WORDS, DISTINCT = 20_000, 7_000, 150


def test_docword(paired, tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is the peer here (extra tables)")
    rng, path = np.random.default_rng(0), tmp_path / "docword.txt"
    documents = np.repeat(np.arange(1, N_DOCUMENTS + 1), DISTINCT)
    words = np.concatenate([np.sort(rng.choice(N_WORDS, DISTINCT, replace=False)) + 1 for _ in range(N_DOCUMENTS)])
    counts = rng.integers(1, 20, len(words))
    head = f"{N_DOCUMENTS}\n{N_WORDS}\n{len(words)}\n"
    lines = "\n".join(map("{} {} {}".format, documents, words, counts))
    path.write_text(f"{head}{lines}\n")
    paired(
        lambda: load_corpus(path, format="docword"),
        {"pandas.read_csv, numbers alone": lambda: pandas.read_csv(path, sep=" ", skiprows=3, header=None)},
        f"{len(words):,} entries of a docword file, read, checked and made CSR",
    )
