"""Verify a purchased vocabulary that is published with its model."""

import json

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, PrivateVocabulary, verify
from vips_fast.cli import main
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.result import FitResult, Public
from vips_fast.models.family import PURCHASE
from vips_fast.models.vocabulary.estimator import read_purchase
from vips_fast.models.vocabulary.model import texts_of

TEXTS = ["red green blue " * 3, "one two three", "red two blue", "green one"] * 100 + ["johnsmith red"]


def purchased(**options):
    settings = dict(epsilon=3.0, delta=1e-5, max_tokens=20, n_records=400)
    return PrivateVocabulary(**settings | options)


def topics(folder, words, counts=None, names=None, text=None):
    """Fit topics over purchased words, and publish them with a transcript."""
    counts = words.transform(TEXTS) if counts is None else counts
    names = words.get_feature_names_out() if names is None else names
    model = LatentDirichletAllocation(2, doc_length=10, n_steps=2, epsilon=4.0, delta=1e-5, n_records=400)
    if text is not None:
        words.purchase_text = lambda: text
    inputs = {"vocab.txt": "".join(f"{name}\n" for name in names)}
    model.fit(counts, after=words, inputs=inputs, transcript=folder / "t").save(folder / "m")
    return model


def differing(folder):
    return {check.name for check in verify(folder / "m", folder / "t").checks if check.ok is False}


def test_the_purchase_is_verified_with_its_model(tmp_path):
    words = purchased().fit(TEXTS)
    model = topics(tmp_path, words)
    report = verify(tmp_path / "m", tmp_path / "t")
    names = [check.name for check in report.checks]
    assert report.ok and {PURCHASE, "epsilon of the vocabulary", "vocabulary in the ledger"} <= set(names)
    again = read_purchase((tmp_path / "m" / PURCHASE).read_text())
    assert again.get_feature_names_out().tolist() == words.get_feature_names_out().tolist()
    for name in ("weights_", "shares_"):
        assert getattr(again, name).tobytes() == getattr(words, name).tobytes()
    assert again.privacy_ == words.privacy_ and again.ledger_.head == model.ledger_.plan["purchase"]["head"]
    assert "johnsmith" not in "".join(path.read_text("latin-1") for path in (tmp_path / "m").iterdir())


def test_later_choices_among_released_words_are_published(tmp_path):
    words = purchased().fit(TEXTS).set_params(max_features=3, stop_words=("red",))
    topics(tmp_path, words)
    assert verify(tmp_path / "m", tmp_path / "t").ok
    again = read_purchase((tmp_path / "m" / PURCHASE).read_text())
    assert len(again.vocabulary_) == 3 and "red" not in again.vocabulary_ and again.ledger_.head == words.ledger_.head


def forged(words, change):
    """Forge a purchase: change tokens and sums, and compute every hash anew."""
    said = json.loads(PrivateVocabulary.purchase_text(words))
    change(said)
    fake = read_anyway(said)
    said["ledger"] = fake.ledger.to_dict()
    return json.dumps(said)


def read_anyway(said):
    records = [record for record in said["ledger"]["records"] if record["kind"] != "close"]
    words, public = PrivateVocabulary._from_settings(said["settings"]), Public(**said["public"])
    model = words.request(public).plan().model
    model.restore({"sums": np.array(said["sums"], dtype=np.int64), **texts_of(said["tokens"])})
    return FitResult.make(
        said["model"], said["settings"], public, len(said["sums"]), model.result(), model.state(), Ledger.of(records)
    )


def rename(said):
    said["tokens"][said["tokens"].index("one")] = "johnsmith"
    order = sorted(range(len(said["tokens"])), key=said["tokens"].__getitem__)
    said["tokens"] = [said["tokens"][i] for i in order]
    said["sums"] = [[units[0], *(units[1 + i] for i in order)] for units in said["sums"]]


def add(said):
    said["tokens"].append("zz")
    said["sums"] = [[*units, 5] for units in said["sums"]]


def test_a_word_that_was_not_purchased_is_found(tmp_path):
    """Find a false word in columns, purchase and a forged purchase."""
    for name in ("vocab", "tokens", "hashes", "threshold", "rounds", "missing"):
        (tmp_path / name).mkdir()
    words = purchased().fit(TEXTS)
    names = ["johnsmith", *words.get_feature_names_out()[1:]]
    topics(tmp_path / "vocab", words, names=names)
    assert differing(tmp_path / "vocab") == {"words of the columns"}
    text = PrivateVocabulary.purchase_text(words)
    topics(tmp_path / "tokens", words, text=text.replace('"two"', '"twp"'))
    assert differing(tmp_path / "tokens") == {PURCHASE}
    text = forged(words, rename)
    assert "johnsmith" in read_purchase(text).vocabulary_  # its own hashes hold
    topics(tmp_path / "hashes", words, text=text)
    assert differing(tmp_path / "hashes") == {"vocabulary in the ledger", "words of the columns"}
    topics(tmp_path / "threshold", words, text=forged(words, add))
    assert differing(tmp_path / "threshold") == {PURCHASE}
    words.save(tmp_path / "words")
    said = json.loads(PrivateVocabulary.load(tmp_path / "words").purchase_text())
    said["sums"], said["n_steps"] = said["sums"][:3], 3
    topics(tmp_path / "rounds", words, text=json.dumps(said))
    assert differing(tmp_path / "rounds") == {PURCHASE}
    with pytest.raises(ValueError, match=f"not a model as it was saved: one of .*{PURCHASE}"):
        topics(tmp_path / "missing", purchased().fit(TEXTS))
        path = tmp_path / "missing" / "m" / PURCHASE
        path.write_text(path.read_text().replace("red", "rod"))
        LatentDirichletAllocation.load(tmp_path / "missing" / "m")


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"format": 4, "model": "os.system"}', "[" * 10**5, "1,[{" * 3 * 10**6]
)
def test_what_is_no_purchase_is_refused(text):
    with pytest.raises(ValueError, match="not a purchase as it was published"):
        read_purchase(text)


def test_half_of_the_purchase_in_the_topics_ledger_is_seen(tmp_path, monkeypatch):
    """Sums and hashes that do not follow are seen by the audit's layer G; the reader has the honest code."""
    true = PrivateVocabulary.purchase

    def half(self):
        said = true(self)
        return {**said, "event": {**said["event"], "count": said["event"]["count"] // 2}}

    with monkeypatch.context() as patch:
        patch.setattr(PrivateVocabulary, "purchase", half)
        topics(tmp_path, purchased().fit(TEXTS))
    assert differing(tmp_path) == {"vocabulary in the ledger"}


def test_the_shell_states_what_the_words_cost(capsys, tmp_path):
    rows = [f"p{i // 2},{text}" for i, text in enumerate(TEXTS[:400])]
    (tmp_path / "notes.csv").write_text("\n".join(["patient,note", *rows, ""]))
    said = "--text note --person patient --language en --topics 2 --epsilon 6 --delta 1e-5 --max-share 1 --anyway"
    folders = ["--out", str(tmp_path / "m"), "--transcript", str(tmp_path / "t")]
    assert main(["fit", "lda", str(tmp_path / "notes.csv"), *said.split(), *folders]) == 0
    stated = float(" ".join(capsys.readouterr()).partition("for epsilon = ")[2].split()[0].rstrip("."))
    spent = read_purchase((tmp_path / "m" / PURCHASE).read_text()).ledger_.epsilon(1e-5)
    assert stated >= spent * (1 - 1e-3)
    assert main(["verify", str(tmp_path / "m"), "--transcript", str(tmp_path / "t")]) == 0
    assert f"equal   {PURCHASE}" in capsys.readouterr().out
