"""Shards whose columns are other words than a model's are refused."""


def test_shards_in_another_order_of_words(refused, run, files):
    steps = ["--steps", 5, "--doc-length", 30, "--noise-multiplier", 2, "--records", 60, "--delta", "1e-5", "--quiet"]
    out, other, vocab = (files.folder / name for name in ("shards", "other", "other.txt"))
    assert run("shard", files.docs, out, "--vocab", files.vocab)[0] == 0
    assert run("fit", "lda", out, "--topics", 2, "--out", files.model, *steps)[0] == 0
    vocab.write_text("\n".join(reversed(files.words)) + "\n")
    assert run("shard", files.docs, other, "--vocab", vocab)[0] == 0
    assert "other words, or another order" in refused("predict", files.model, other)
