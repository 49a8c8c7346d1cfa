"""``coherence`` and ``compare``."""

import json

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation
from vips_fast.models.lda.coherence import coherence
from vips_fast.report import compare_topics, mean_overlap
from vips_fast.report.compare import over_the_same_words


@pytest.fixture
def fitted(run, files):
    assert run(*files.fit("--epsilon", 2, "--delta", 1e-3, "--quiet"))[0] == 0
    return LatentDirichletAllocation.load(files.model)


def test_coherence_is_the_models(run, files, fitted):
    code, out, err = run("coherence", files.model, files.docs, "--words", 3, "--json")
    assert code == 0 and err.count("INPUT is taken to be public") == 1 and len(err.splitlines()) == 1
    said = json.loads(out)
    for measure in ("npmi", "c_v"):
        expected = coherence(fitted.components_, files.X, measure, 3)
        assert said[measure] == expected.tolist() and said["mean"][measure] == pytest.approx(expected.mean())
    assert said["diversity"] == fitted.topic_diversity(6)
    code, out, _ = run("coherence", files.model, files.docs, "--words", 3)
    assert code == 0 and f"mean   {said['mean']['npmi']:.3f}  {said['mean']['c_v']:.3f}".split() in [
        line.split() for line in out.splitlines()
    ]
    # Without privacy no statement is printed, but a line that says so.
    assert run(*files.fit("--non-private", "--quiet", "--force"))[0] == 0
    assert "NOT PRIVATE" in run("coherence", files.model, files.docs, "--words", 3)[2]


def test_compare_pairs_topics(run, refused, files, fitted):
    other = files.folder / "other"
    assert run(*files.fit("--non-private", "--quiet", "--out", other, "--topics", 3))[0] == 0
    code, out, err = run("compare", files.model, other, "--words", 3, "--json")
    said = json.loads(out)
    free = LatentDirichletAllocation.load(other).components_
    pairs = compare_topics(fitted.components_, free, files.words, 3)
    assert code == 0 and "NOT PRIVATE" in err and said["mean"] == mean_overlap(pairs) and len(pairs) == 2
    assert [(row["a"], row["b"]) for row in said["pairs"]] == [(p.topic + 1, p.other + 1) for p in pairs]
    code, out, _ = run("compare", files.model, files.model)
    assert code == 0 and out.count("100.0%") == 3
    assert "Without a partner: 1 of B." in run("compare", files.model, other)[1]
    # Words in another order, and one that only one model has.
    files.vocab.write_text("\n".join([*files.words[1::-1], *files.words[2:5], "rust"]) + "\n")
    assert run(*files.fit("--non-private", "--quiet", "--out", other, "--force"))[0] == 0
    assert run("compare", files.model, other)[0] == 0
    (other / "vocab.txt").write_text("red\n")
    assert "vocab.txt: not as the fit wrote it" in refused("compare", files.model, other)
    assert "none: no such folder" in refused("compare", files.model, "none")


def test_words_are_matched_by_name():
    a, b = np.array([[4.0, 3, 1], [1, 1, 6]]), np.array([[6.0, 1, 1, 2], [1, 3, 4, 0]])
    first, second, words = over_the_same_words(a, ["x", "y", "z"], b, ["z", "y", "x", "new"])
    assert words == ["x", "y", "z", "new"] and first[:, 3].tolist() == [0, 0]
    assert second.tolist() == [[1, 1, 6, 2], [4, 3, 1, 0]]
    pairs = compare_topics(first, second, words, 2)
    assert [(p.topic, p.other) for p in pairs] == [(0, 1), (1, 0)] and pairs[0].overlap == 1.0
    assert pairs[1].overlap == pytest.approx(0.8) and pairs[0].shared == ("x", "y")
    with pytest.raises(ValueError, match="over 3 and over 4 columns"):
        over_the_same_words(a, None, b, ["z", "y", "x", "new"])
