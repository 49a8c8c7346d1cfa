"""Topic models: a fit's files, its refusals, reading back, interruption."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.models.lda.planning import LdaOptions


def test_fit_without_privacy(run, files):
    """What every fit writes and prints is in test_families.py; this one has the bits of Python."""
    code, out, err = run(*files.fit("--non-private"))
    assert code == 0 and re.fullmatch(r"(fit: step \d of 5, \d+\.\d s\n){5}", err)
    topics, privacy = ((files.model / name).read_text() for name in ("topics.txt", "privacy.txt"))
    halves = {frozenset(line.split()[1:4]) for line in topics.splitlines()}
    assert halves == {frozenset(files.words[:3]), frozenset(files.words[3:])}
    said = privacy.replace("private=False", "--non-private")
    assert said != privacy and out == f"{topics}\n{said}Written to {files.model}.\n"
    same = LatentDirichletAllocation(2, n_steps=5, doc_length=30, random_state=1, private=False).fit(files.X)
    assert np.array_equal(LatentDirichletAllocation.load(files.model).components_, same.components_)
    assert run("predict", files.model, files.docs, "--jobs", 2, "--out", files.folder / "t.npy")[0] == 0
    assert np.array_equal(np.load(files.folder / "t.npy", allow_pickle=False), same.transform(files.X))
    assert files.names() == {"docs.npz", "words.txt", "model", "t.npy"}


def test_settings_reach_the_estimator(run, files):
    settings = "--noise-multiplier 3 --delta 0.5 --sampling without_replacement --relation replace_one --set clip=0.2"
    more = "--records 60 --batch-size 20 --set doc_topic_prior=0.3 --set topic_word_prior=2.0 --jobs 2 --invalid drop"
    code, _, err = run(*files.fit(*settings.split(), *more.split()))
    assert code == 0 and "fit: step 5 of 5, epsilon " in err
    assert "warning: delta = 0.5 is not below 1 / 60 records" in err.splitlines()[-1]
    params = LatentDirichletAllocation.load(files.model).get_params()
    expected = dict(
        n_components=2,
        noise_multiplier=3.0,
        delta=0.5,
        epsilon=None,
        sampling="without_replacement",
        clip=0.2,
        n_records=60,
        batch_size=20,
        public_prior=None,
        n_jobs=2,
        n_steps=5,
        doc_length=30,
        random_state=1,
        private=True,
        options=LdaOptions(doc_topic_prior=0.3, topic_word_prior=2.0, relation="replace_one", invalid="drop"),
    )
    assert params == expected


def test_existing_output(run, refused, files):
    arguments = files.fit("--non-private", "--quiet")
    files.model.mkdir()
    assert run(*arguments)[0] == 0
    before = (files.model / "model.npz").read_bytes()
    # It is refused before data are looked at.
    assert "is not empty; --force replaces a model in it" in refused(*arguments[:2], "absent", *arguments[3:])
    # A fit that fails leaves the model as it was.
    refused(*arguments, "--force", "--batch-size", 61)
    assert (files.model / "model.npz").read_bytes() == before
    again = [*arguments, "--force", "--seed", 2]
    assert run(*again)[0] == 0 and (files.model / "model.npz").read_bytes() != before
    assert files.names() == {"docs.npz", "words.txt", "model"}


def test_plan_of_a_vocabulary_that_is_bought(run):
    sizes = ["--records", 6652, "--topics", 10, "--epsilon", 2, "--delta", 1e-6, "--doc-length", 100]
    said = " ".join(run("plan", *sizes)[1].split())
    words = plan(6652, None, 10, epsilon=2.0, delta=1e-6, doc_length=100).vocabulary
    assert f"epsilon = {words.epsilon:.3g} in {words.n_rounds} rounds" in said
    assert f"about {words.words:.2g}, {words.token_share:.0%} of all tokens" in said
    assert " ".join(run("plan", *sizes, "--distinct-words", 20)[1].split()) != said
    assert "epsilon = 0.2 in" in " ".join(run("plan", *sizes, "--vocab-share", 0.1)[1].split())


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """A folder with counts of 60 documents of 25 persons. Their labels are in both formats."""
    monkeypatch.chdir(tmp_path)
    sp.save_npz("X.npz", sp.csr_matrix(np.random.default_rng(0).poisson(0.5, (60, 12))))
    labels = np.arange(60) % 25
    np.save("who.npy", labels)
    (tmp_path / "who.txt").write_text("".join(f"Ärztin {label}\n" for label in labels), encoding="utf-8")
    return tmp_path


FIT = "fit lda X.npz --topics 2 --noise-multiplier 3 --delta 1e-5 --steps 2 --quiet".split()


@pytest.mark.parametrize("file", ["who.npy", "who.txt"])
def test_the_statement_is_about_persons(inputs, run, file):
    code, out, err = run(*FIT, "--groups", file, "--unit", "patient", "--set", "rows_per_group=2", "--out", "m")
    assert code == 0 and "adding or removing one patient of 25" in " ".join(out.split())
    assert "Ärztin" not in out + err
    assert not any("Ärztin 3".encode() in path.read_bytes() for path in inputs.glob("m/*"))
    _, _, err = run(*FIT, "--delta", 0.5, "--groups", file, "--unit", "patient", "--out", "n")
    said = "is not below 1 / 25 patients: all that is known of one patient may be published"
    assert f"vips-fast: warning: delta = 0.5 {said}\n" in err
