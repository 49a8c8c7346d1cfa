"""Commands run in this process, and a corpus of two clear topics."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from vectors import Encoder
from written import write

from vips_fast.cli import main
from vips_fast.jobs import clusters
from vips_fast.models import forecast as models_forecast
from vips_fast.models.lda import planning
from vips_fast.models.logistic import forecast as logistic_forecast

WORDS = ("red", "green", "blue", "pink", "grey", "teal")


@pytest.fixture(autouse=True)
def hopeful(monkeypatch):
    """Tiny corpora would be refused by their forecasts. Test_forecast.py has the limit back."""
    monkeypatch.setattr(planning, "HOPELESS", -math.inf)
    monkeypatch.setattr(logistic_forecast, "HOPELESS", math.inf)
    monkeypatch.setattr(models_forecast, "HOPELESS", 0.0)


@pytest.fixture
def run(capsys):
    """Exit code, standard output and standard error of a command.

    Without the lines that --quiet keeps, if it is given: they are in every fit, and tests of their own look at them.
    """

    def call(*argv):
        code = main([str(arg) for arg in argv])
        out, err = capsys.readouterr()
        return code, out, without_forecast(err) if "--quiet" in argv else err

    return call


def without_forecast(err):
    """Drop the lines of standard error that public numbers make, before a fit."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("vips-fast: forecast: ", DROPS)))


#: What a fit or shards with --invalid drop always say.
DROPS = "vips-fast: warning: --invalid drop: "


@pytest.fixture
def refused(run):
    """The message of a command that must fail. One line, nothing on standard output."""

    def call(*argv, code=2):
        got, out, err = run(*argv)
        lines = [line for line in err.splitlines() if not line.startswith("fit: step")]
        assert (got, out, len(lines)) == (code, "", 1), err
        assert lines[0].startswith("vips-fast: error: ")
        return lines[0].removeprefix("vips-fast: error: ")

    return call


class Files:
    """A folder with counts of documents and their vocabulary. `fit` has the arguments that fit topics to them."""

    def __init__(self, folder):
        topics = np.array([[0.4, 0.3, 0.3, 0, 0, 0], [0, 0, 0, 0.4, 0.3, 0.3]])
        rng = np.random.default_rng(0)
        X = np.stack([rng.multinomial(30, topics[d % 2]) for d in range(60)])
        self.folder, self.X, self.words = folder, X, WORDS
        self.docs, self.vocab, self.model = folder / "docs.npz", folder / "words.txt", folder / "model"
        sp.save_npz(self.docs, sp.csr_array(X))
        self.vocab.write_text("\n".join(WORDS) + "\n")

    def fit(self, *more):
        """Arguments of a fit. The last of an option that is given twice counts."""
        settings = "--topics 2 --steps 5 --doc-length 30 --seed 1 --anyway".split()
        return ["fit", "lda", self.docs, "--vocab", self.vocab, "--out", self.model, *settings, *more]

    def names(self):
        """List the folder, hidden files included."""
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder of inputs, models and budgets, which no test changes."""
    folder = tmp_path_factory.mktemp("inputs")
    write(folder)
    return folder


@pytest.fixture
def here(place, monkeypatch):
    """Work in that folder."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(clusters, "SentenceEncoder", Encoder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    return place
