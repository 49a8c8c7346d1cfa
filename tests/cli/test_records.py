"""Raw records at the shell. Fitted by person, and read the same way again by the model."""

import json
import re

import pytest

from vips_fast import LatentDirichletAllocation, PrivateVocabulary, plan
from vips_fast.accounting.printing import rounded_up
from vips_fast.cli.messages import Exit
from vips_fast.engine.budget import Budget

NOTES = [
    ("T4 up, B12 low; M\u00fcller", "p1"),
    ("t3 \u041c\u0438\u0440 b6", "p2"),
    ("", "p1"),
    ("the red red blue", "p3"),
    ("\u6771\u4eac T4", "p2"),
] * 8
WORDS = ["t4", "t3", "b12", "b6", "m\u00fcller", "\u043c\u0438\u0440", "\u6771", "red"]
FIT = ("--topics", 2, "--steps", 2, "--doc-length", 10, "--epsilon", 2, "--delta", 1e-5, "--quiet", "--seed", 1)


@pytest.fixture
def notes(tmp_path):
    import pandas

    frame = pandas.DataFrame(NOTES, columns=["note", "patient"])
    frame.to_parquet(tmp_path / "notes.parquet")
    frame.to_csv(tmp_path / "notes.csv", index=False)
    frame.to_json(tmp_path / "notes.jsonl", orient="records", lines=True)
    (tmp_path / "words").write_text("\n".join(WORDS))
    return tmp_path


@pytest.mark.parametrize("kind", ("parquet", "csv", "jsonl"))
def test_notes_to_topics_and_new_notes_to_proportions(notes, run, kind):
    """Words that a-z lost have columns of their own. The saved model needs nothing to read new notes."""
    model, source = notes / "m", notes / f"notes.{kind}"
    how = (*"--text note --person patient --unit patient --stop-words none".split(), "--vocab", notes / "words")
    code, out, err = run("fit", "lda", source, *how, *FIT, "--out", model)
    assert (code, err) == (0, "") and "one patient of 3" in " ".join(out.split())
    assert "as English" not in out  # every word of a file counts
    assert json.loads((model / "text.json").read_text())["columns"] == ["note"]
    expected = run("predict", model, source)
    assert expected[0] == 0 and len(expected[1].splitlines()) == 41
    for other in ("parquet", "csv", "jsonl"):
        assert run("predict", model, notes / f"notes.{other}", "--text", "note") == expected
    assert run("verify", model, "--transcript", notes / "none")[0] != 0


def test_the_analyzer_of_the_fit_is_that_of_transform(notes, run, monkeypatch):
    from vips_fast.data import records

    seen, real = [], records.count_matrix
    monkeypatch.setattr(records, "count_matrix", lambda *a: seen.append(real(*a)) or seen[-1])
    words = ("--numbers", "mixed", "--ngrams", 2, "--analyzer", "unicode")
    (notes / "two").write_text("\n".join(word for word in WORDS if len(word) > 1))
    how = ("--text", "note", "patient", "--vocab", notes / "two")
    assert run("fit", "lda", notes / "notes.csv", *how, *words, *FIT, "--out", notes / "m")[0] == 0
    assert run("predict", notes / "m", notes / "notes.csv")[0] == 0
    one, other = seen
    assert (one != other).nnz == 0 and one.toarray()[0].tolist() == [1, 0, 1, 0, 1, 0, 0]


def test_a_reading_that_no_fit_wrote_is_refused(notes, refused):
    other = LatentDirichletAllocation(2, n_steps=1, noise_multiplier=9.0, doc_length=3)
    inputs = {"text.json": '{"columns": ["note"], "analyzer": {"words": "x"}}'}
    other.fit([[1, 2]] * 9, inputs=inputs).save(notes / "o")
    assert refused("predict", notes / "o", notes / "notes.csv").endswith("text.json: not as fit wrote it")


# A vocabulary that is purchased


SECRET = "zq7351"
ONE_LINE = ("--text", "note", "--person", "patient", "--unit", "patient", "--epsilon", 6, "--delta", 1e-5, "--quiet")
SMALL = ("--language", "en", "--topics", 2, "--steps", 2, "--doc-length", 10, "--anyway")


@pytest.fixture
def ward(tmp_path):
    """Notes of 600 patients, two each. One of them has words of their own."""
    lines = [f"patient{k},the blue fever {'cough rash' if k % 2 else 'T4 B12'} {k % 7}" for k in range(600)] * 2
    lines.append(f"patient7,{SECRET} {' '.join(f'{SECRET}{k}' for k in range(500))}")
    (tmp_path / "notes.csv").write_text("\n".join(["patient,note", *lines, ""]))
    return tmp_path


def fit_ward(ward, *more):
    return "fit", "lda", ward / "notes.csv", *ONE_LINE, *SMALL, "--out", ward / "m", "--max-share", 1, *more


def test_the_one_line_purchases_its_vocabulary(ward, run):
    code, out, err = run(*fit_ward(ward))
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "(6, 1e-05)-differential privacy" in said and "one patient of 600" in said
    assert "The vocabulary is included." in said and "vocabulary or the columns" not in said
    words = (ward / "m" / "vocab.txt").read_text().split()
    assert f"Its {len(words)} words were purchased for epsilon = " in said
    assert "Texts: note; persons: patient; language: en." in said
    assert {"fever", "t4", "b12", "cough"} <= set(words) and not {"the", "3"} & set(words)
    assert not any(SECRET.encode() in path.read_bytes() for path in (ward / "m").iterdir())
    assert run("predict", ward / "m", ward / "notes.csv")[0] == 0
    assert run(*fit_ward(ward, "--force", "--vocab-size", 3))[0] == 0
    assert len((ward / "m" / "vocab.txt").read_text().split()) == 3


def test_a_vocabulary_of_nothing_says_what_was_spent(ward, refused):
    said = refused(*fit_ward(ward, "--vocab", "private", "--vocab-share", 0.001), code=Exit.FAILED)
    assert said.startswith(
        "--vocab private: no word can be released; epsilon = 0.006 is spent; expected a larger epsilon, more patients, "
    )
    assert "--resume" not in said and not (ward / "m.run").exists()  # nothing is there to go on with
    assert SECRET not in said


def budget_of(ward, **options):
    """Make a budget with one purchase. Its share of delta is as large as without a budget."""
    options = dict(purchases=1) | options
    return Budget.create(ward / "b", epsilon=6.0, delta=1e-5, dataset="ward", unit="patient", **options)


def by_budget(ward, *more):
    whose = ("--text", "note", "--person", "patient", "--unit", "patient", "--max-share", 1, "--quiet")
    return "fit", "lda", ward / "notes.csv", *whose, *SMALL, "--budget", ward / "b", "--out", ward / "m", *more


def test_a_budget_alone_pays_for_words_and_topics(ward, run, refused):
    """The plan splits the rest of the budget. The topics get all of the rest, in one ledger."""
    budget = budget_of(ward)
    assert run(*by_budget(ward))[0] == 0
    model, share = LatentDirichletAllocation.load(ward / "m"), plan(600, None, 2, doc_length=10, epsilon=6.0)
    words, topics = budget.show()["runs"]
    assert (words["what"], topics["what"]) == ("PrivateVocabulary", "LatentDirichletAllocation")
    assert (words["drawn"], topics["drawn"]) == (share.vocabulary.n_rounds, 2)
    assert words["event"]["events"][0]["noise_multiplier"] == pytest.approx(share.vocabulary.noise_multiplier, rel=1e-5)
    assert 5.99 < budget.spent <= 6.0 and model.privacy_.vocabulary and model.privacy_.epsilon <= 6.0
    assert "0 of 1, which share a delta" in run("budget", "show", ward / "b")[1]
    assert "holds no further vocabulary purchase" in refused(*by_budget(ward, "--force"), code=3)


@pytest.mark.parametrize("paid", [False, True])
def test_words_that_a_share_leaves_out_were_released(ward, run, refused, paid):
    """Ten words that everybody uses."""
    everybody = "fever cough rash blue grey pink teal elbow ankle knee"
    (ward / "notes.csv").write_text("\n".join(["patient,note", *(f"p{k},{everybody}" for k in range(600)), ""]))
    budget = budget_of(ward)
    job = by_budget(ward) if paid else fit_ward(ward)
    said = refused(*job, "--max-share", 0.3, code=Exit.FAILED)
    assert said.startswith("--max-share 0.3: leaves out all 10 released words; epsilon = ")
    least = float(re.search("expected at least --max-share ([.0-9]+), the share of the rarest, with --resume", said)[1])
    assert 0.8 < least <= 1
    figure = said.partition("epsilon = ")[2].partition(" ")[0]
    own = PrivateVocabulary.load(ward / "m.run" / "words" / "model").privacy_.epsilon
    assert figure == rounded_up(budget.spent if paid else own, 3) and (f" of {ward / 'b'} is spent" in said) is paid
    assert budget.spent != pytest.approx(own, rel=0.01)  # the two figures differ clearly
    spent = budget.spent
    assert run(*job, "--max-share", least, "--resume")[0] == 0 and (budget.spent > spent) is paid


REFUSED = {
    ("--sampling", "without_replacement"): "replace_one",
    ("--batch-size", 4000): "--batch-size 4000: expected a number in (0, 600], the number of records",
    ("--sampling", "random_allocation", "--batch-size", 200, "--steps", 4): "--steps 4: expected a multiple of 3",
}


@pytest.mark.parametrize(
    "paid, more, message", [(paid, *one) for paid in (None, (), ("--epsilon", 4)) for one in REFUSED.items()]
)
def test_what_the_fit_refuses_purchases_no_words(ward, refused, paid, more, message):
    """Without a budget, with only a budget, and with a target too."""
    budget = budget_of(ward)
    said = refused(*(fit_ward(ward, *more) if paid is None else by_budget(ward, *paid, *more)))
    assert message in said and "spent" not in said
    assert budget.spent == 0 and not budget.show()["runs"] and not (ward / "m.run").exists()


@pytest.mark.parametrize(
    "kind, target", [("gaussian", 7), ("gaussian", 6), ("gaussian", 5.9), ("renyi", 6), ("auto", 5.9)]
)
def test_words_and_topics_fit_a_budget_together_or_nothing_is_bought(ward, run, target, kind):
    """A budget of 6. The Gaussian filter counts releases of all persons without loss, the Renyi filter above 6."""
    budget = budget_of(ward, filter=kind)
    before, fits = (ward / "b").read_bytes(), kind == "gaussian" and target <= 6
    code, _, err = run(*by_budget(ward, "--epsilon", target))
    assert code == (0 if fits else 3) and (f"--epsilon {target:g}: {ward / 'b'}: the budget" in err) is not fits
    if fits:
        assert target - 0.01 < budget.spent <= target and (ward / "m").exists()
    else:
        assert (ward / "b").read_bytes() == before and not (ward / "m.run").exists() and err.endswith("is left\n")


@pytest.mark.parametrize("target", [(), ("--epsilon", 4)])
def test_topics_reserve_nothing_before_their_words_are_bought(ward, run, target):
    """Public numbers of records and steps, which would let them."""
    budget = budget_of(ward, filter="gaussian")
    assert run(*by_budget(ward, "--records", 600, *target))[0] == 0
    assert (budget.spent <= 4.01) is bool(target) and sum(one["drawn"] > 0 for one in budget.show()["runs"]) == 2


@pytest.mark.parametrize(
    "change, message",
    [
        (("-",), "-: standard input can be read once only; expected a file or a query, or a public vocabulary"),
        (("notes.csv", "--noise-multiplier", 2), "--vocab private: expected --epsilon, or only --budget, of which"),
    ],
)
def test_what_a_private_vocabulary_needs(ward, refused, monkeypatch, change, message):
    monkeypatch.chdir(ward)
    epsilon = () if "--noise-multiplier" in change else ("--epsilon", 1)
    said = refused("fit", "lda", *change, "--language", "en", "--text", "note", "--topics", 2, *epsilon, "--out", "m")
    assert said.startswith(message) and not (ward / "m.run").exists()


def test_the_language_chooses_stop_words_and_segmenter(notes, run):
    how = ("--text", "note", "--vocab", "public:de", "--vocab-size", 50)
    for language, words, stopped in (("de", "unicode", "und"), ("zh", "jieba", "的")):
        code, _, err = run(
            "fit", "lda", notes / "notes.csv", *how, "--language", language, *FIT, "--out", notes / language
        )
        assert code == 0, err
        analyzer = json.loads((notes / language / "text.json").read_text())["analyzer"]
        assert analyzer["words"] == words and stopped in analyzer["stop_words"]
