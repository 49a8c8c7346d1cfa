"""Source files as persons, their docstrings as texts, and public topics of what everybody has."""

import sys
from functools import cache

import numpy as np
import pytest
from peers.perplexity import predictive_perplexity, split_words, unigram_perplexity

from vips_fast import PrivateTopics, demo
from vips_fast.data import Analyzer
from vips_fast.data.vocabulary import count_matrix
from vips_fast.demo import docstrings_by_file, public_texts, public_topics, source_files


@pytest.fixture(scope="module", autouse=True)
def parsed_once():
    """Parse each source file once: two tests read the same packages."""
    honest = demo._docstrings
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "_docstrings", cache(lambda path: tuple(honest(path))))
        yield


def test_docstrings_are_read_as_they_stand(tmp_path, monkeypatch):
    package = tmp_path / "madeup_package"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text(
        '"""module"""\n'
        "raise SystemExit('imported')\n"
        "if True:\n"
        "    class A:\n"
        '        """class"""\n'
        "        async def f():\n"
        '            """function"""\n'
        "        def g():\n"
        '            """class"""\n'
    )
    (package / "more.py").write_text('"""class"""\ndef f():\n    """more"""\n')
    for name in ("tests/a.py", "test_a.py"):
        (package / name).write_text('"""tests"""\n')
    (package / "broken.py").write_text('"""broken')
    monkeypatch.syspath_prepend(tmp_path)
    found = docstrings_by_file(("madeup_package", "absent_package"))
    assert "madeup_package" not in sys.modules
    assert [*found.values()] == [["module", "class", "function"], ["more"]]
    assert [path.rpartition("/")[2] for path in found] == ["__init__.py", "more.py"]
    assert len(docstrings_by_file(("madeup_package",), 1)) == 1
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(package))
    assert docstrings_by_file() == found


def test_persons_are_source_files_of_packages_and_none_is_public(monkeypatch):
    """Persons are source files of packages, as many as are asked for; no text of theirs is public."""
    monkeypatch.setattr(demo, "_FILES", 500)
    texts, files, packages = source_files()
    assert packages == ["numpy", "scipy"] and len(texts) == len(files)
    assert set(np.diff(files)) == {0, 1} and files[-1] + 1 == 500
    # A few texts are the same by chance, such as "Close the file."
    assert len(set(texts) & set(public_texts())) < 0.01 * len(texts)


def test_topics_of_the_demo_beat_counting_words():
    """The demo's promise, on the packages that every installation has: numpy and scipy."""
    files = [*docstrings_by_file(("numpy",)).values(), *docstrings_by_file(("scipy",)).values()]
    order = np.random.default_rng(0).permutation(len(files))
    held_out, kept = order[: len(files) // 10], order[len(files) // 10 :]
    prior = public_topics(public_texts())
    assert prior.n_topics == 100 and len(prior.words) == 2000
    table = {"docstring": [text for k in kept for text in files[k]], "file": [int(k) for k in kept for _ in files[k]]}
    found = PrivateTopics(2.0, public_prior=prior, random_state=0).fit(table, text="docstring", person="file")
    train, test = (
        count_matrix([["\n".join(files[k]) for k in part]], prior.words, Analyzer()) for part in (kept, held_out)
    )
    given, asked = split_words(test)
    model = found.model_
    ours = predictive_perplexity(model.transform(given), model.components_, asked)
    assert ours < 0.9 * unigram_perplexity(train, asked)
