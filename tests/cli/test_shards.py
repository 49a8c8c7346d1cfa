"""Shards at the shell. Records of each kind are written, and fits from them equal fits of the records."""

import csv

import numpy as np
import pandas

from vips_fast.data import Batch, ShardedCorpus, write_shards

STEPS = ["--noise-multiplier", 2, "--records", 60, "--delta", "1e-5", "--quiet"]


def rows(corpus):
    return corpus.matrix(np.arange(corpus.n_rows)).toarray()


def test_topics_of_counts(run, files):
    out = files.folder / "shards"
    code, text, _ = run("shard", files.docs, out, "--vocab", files.vocab)
    assert code == 0 and "as private as" in text and "60" not in text.replace(str(files.folder), "")
    corpus = ShardedCorpus(out)
    np.testing.assert_array_equal(rows(corpus), files.X)
    assert corpus.vocabulary == files.words
    fit = ["fit", "lda", out, "--topics", 2, "--out", files.model, "--steps", 5, "--doc-length", 30, *STEPS]
    assert run(*fit)[0] == 0
    assert (files.model / "vocab.txt").read_text().split() == list(files.words)
    printed = [run("predict", files.model, source)[1] for source in (files.docs, out)]
    assert printed[0] == printed[1]


def test_texts_and_their_persons(run, refused, files):
    table, out = files.folder / "notes.csv", files.folder / "shards"
    with open(table, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "patient"])
        for i, x in enumerate(files.X):
            writer.writerow([" ".join(w for w, n in zip(files.words, x, strict=True) for _ in range(n)), f"p{i % 9}"])
    named = ["--text", "note", "--person", "patient", "--bins", 3]
    assert run("shard", table, out, *named, "--vocab", files.vocab)[0] == 0
    corpus = ShardedCorpus(out)
    starts = corpus.groups.starts
    assert len(starts) == 10 and len(corpus.bins) == 4
    whole = rows(corpus)
    owned = [whole[a:b].tolist() for a, b in zip(starts, starts[1:], strict=False)]
    assert sorted(owned) == sorted(files.X[person::9].tolist() for person in range(9))
    fit = ["fit", "lda", out, "--topics", 2, "--out", files.model, "--steps", 5, "--doc-length", 30, *STEPS]
    code, text, _ = run(*fit, "--unit", "patient", "--sampling", "poisson", "--batch-size", 20)
    assert code == 0 and "patient" in text and "(Poisson sampling)" in " ".join(text.split())
    assert run("predict", files.model, table)[0] == 0  # the model knows the column and the analyzer
    # Bins are the minibatches, and a budget knows them before the records are read: six steps are two epochs.
    spend = ["--budget", files.folder / "budget", "--unit", "patient", "--force"]
    create = ["--epsilon", 9, "--delta", "1e-5", "--dataset", "notes", "--unit", "patient", "--filter", "gaussian"]
    assert run("budget", "create", files.folder / "budget", *create)[0] == 0
    assert "expected a multiple of 3" in refused(*fit, *spend)
    fit[fit.index("--steps") + 1] = 6
    code, text, _ = run(*fit, *spend)
    assert code == 0 and all(
        words in " ".join(text.split()) for words in ("(random allocation)", ", drawn once with the data")
    )
    # A finished model belongs to the same settings, whatever they stand for.
    assert "nothing was spent" in run(*fit, *spend, "--resume")[1]


def test_tables(run, tmp_path):
    (tmp_path / "s.toml").write_text(
        '[columns.age]\nkind = "number"\nlow = 0\nhigh = 100\n[columns.ill]\nkind = "binary"\nvalues = ["no", "yes"]\n'
    )
    age = np.arange(60) * 1.5
    table = pandas.DataFrame({"age": age, "ill": np.where(age > 40, "yes", "no"), "home": np.arange(60) // 2})
    table.to_csv(tmp_path / "t.csv", index=False)
    named = ["--schema", tmp_path / "s.toml", "--label", "ill", "--person", "home"]
    assert run("shard", tmp_path / "t.csv", tmp_path / "shards", *named)[0] == 0
    assert len(ShardedCorpus(tmp_path / "shards").groups.starts) == 30 + 1
    # So little noise that the column is among the coefficients which are shown.
    loud = ["--noise-multiplier", 0.1]
    code, text, err = run("fit", "blr", tmp_path / "shards", "--out", tmp_path / "m", *STEPS, *loud)
    assert code == 0 and "person" in text, err
    assert "age" in run("show", tmp_path / "m")[1]
    assert (tmp_path / "m" / "schema.toml").exists()
    printed = [run("predict", tmp_path / "m", tmp_path / name)[1] for name in ("t.csv", "shards")]
    assert printed[0] == printed[1] and printed[0].startswith("p(no),p(yes)")


def test_networks(run, tmp_path):
    Y = (np.random.default_rng(0).random((60, 9)) < 0.4).astype(np.uint8)
    write_shards(tmp_path / "shards", [Batch(Y)], kind="binary")
    np.save(tmp_path / "Y.npy", Y)
    fit = ["fit", "sbn", tmp_path / "shards", "--components", 2, "--out", tmp_path / "m", *STEPS]
    assert run(*fit)[0] == 0
    printed = [run("predict", tmp_path / "m", tmp_path / name)[1] for name in ("Y.npy", "shards")]
    assert printed[0] == printed[1]


def test_a_damaged_shard_is_refused(refused, run, files):
    out = files.folder / "shards"
    assert run("shard", files.docs, out, "--vocab", files.vocab)[0] == 0
    (out / "values.npy").write_bytes(b"")
    fit = ["fit", "lda", out, "--topics", 2, "--out", files.model, "--steps", 5, "--doc-length", 30, *STEPS]
    assert "values.npy: cut; expected another size" in refused(*fit) and not files.model.exists()


def test_shards_in_another_order_of_words(refused, run, files):
    out, other, vocab = (files.folder / name for name in ("shards", "other", "other.txt"))
    assert run("shard", files.docs, out, "--vocab", files.vocab)[0] == 0
    assert run("fit", "lda", out, "--topics", 2, "--out", files.model, "--steps", 5, "--doc-length", 30, *STEPS)[0] == 0
    vocab.write_text("\n".join(reversed(files.words)) + "\n")
    assert run("shard", files.docs, other, "--vocab", vocab)[0] == 0
    assert "other words, or another order" in refused("predict", files.model, other)
