"""One record a model. Complete, closed, and all that the package needs to serve a model that is added."""

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rehearsal import add, call, copy_tree, listed

import vips_fast
from vips_fast import LatentDirichletAllocation, models, verify
from vips_fast.audit.adapter import Adapter
from vips_fast.cli import main as _main  # it knows all commands
from vips_fast.cli import signature
from vips_fast.models import family
from vips_fast.models.estimator import PrivateEstimator
from vips_fast.models.family import FAMILIES, class_named, family_of, resolve
from vips_fast.report.part import Part

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "vips_fast"
NAMES = {path.partition(":")[2] for one in FAMILIES for path in (*one.classes, *one.variants)}
#: Bases of estimators that are no model's class.
BASES = set("PrivateEstimator Transformer Classifier NetworkEstimator ConjugateEstimator Regression Mixture".split())


@pytest.mark.parametrize("one", FAMILIES, ids=lambda one: one.name)
def test_every_record_is_complete(one):
    assert [other.name for other in FAMILIES].count(one.name) == 1 and one.title
    kinds = [resolve(path) for path in (*one.classes, *one.variants)]
    for kind in kinds:
        assert issubclass(kind, PrivateEstimator) and family_of(kind) is one and family_of(kind()) is one
        assert class_named(kind.__name__) is kind
        assert not one.verb or callable(getattr(kind, one.verb))
    assert all(getattr(vips_fast, path.partition(":")[2]) is resolve(path) for path in one.classes)
    part = resolve(one.part)()
    assert isinstance(part, Part)
    # A family that writes a text has a part that makes it.
    assert bool(one.text) == (type(part).text is not Part.text)
    if one.adapter:
        adapter = resolve(one.adapter)
        assert issubclass(adapter, Adapter) and adapter.estimator_type is kinds[0] is one.estimator()
    assert one.command or not one.verb
    if one.command:
        module, _, fit = signature.COMMANDS[f"fit {one.command}"].function.partition(":")
        assert callable(signature.load(f"commands.{module}:{fit}"))
        assert not one.verb or callable(signature.load(f"commands.{module}:read_new"))


def test_every_estimator_of_the_package_is_in_one_record():
    found = set()
    for module in pkgutil.walk_packages(models.__path__, "vips_fast.models."):
        for name, kind in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(kind) and issubclass(kind, PrivateEstimator) and not name.startswith("_"):
                found.add(kind.__name__)
    assert found - BASES == NAMES
    assert sum(len(one.classes) + len(one.variants) for one in FAMILIES) == len(NAMES)


LDA = "vips_fast.models.lda:LatentDirichletAllocation"


@pytest.mark.parametrize("name", ["evil:X", LDA, "os:system", "PrivateEstimator", "X", "", ":", "lda"])
def test_a_name_that_is_in_no_record_is_refused_before_anything_is_imported(name, monkeypatch):
    def imported(module):
        raise AssertionError(f"{module} was imported")

    monkeypatch.setattr(family, "import_module", imported)
    with pytest.raises(ValueError, match="is not a class of this package"):
        class_named(name)


def saved(folder):
    model = LatentDirichletAllocation(2, noise_multiplier=5.0, n_steps=2, doc_length=20)
    model.fit(np.ones((50, 6), dtype=int), transcript=folder / "transcript").save(folder / "model")
    return folder / "model"


@pytest.fixture
def evil(tmp_path):
    model = saved(tmp_path)
    (tmp_path / "evil.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "from vips_fast import LatentDirichletAllocation\n"
        "class X(LatentDirichletAllocation): pass\n"
    )
    meta = json.loads((model / "model.json").read_text())
    assert meta["model"] == "LatentDirichletAllocation"
    (model / "model.json").write_text(json.dumps({**meta, "model": "evil:X"}))
    return tmp_path


#: Each is run in the folder of the module.
COMMANDS = [
    ["verify", "model", "--transcript", "transcript"],
    ["show", "model"],
    ["show", "model", "--out", "report.html"],
    ["predict", "model", "docs.npz"],
    ["fit", "lda", "docs.npz", "--topics", "2", "--epsilon", "1", "--out", "model", "--force"],
]


def test_no_file_of_a_model_chooses_the_code_that_runs(evil, monkeypatch, capsys):
    """Although the folder is first on the path, as in `python -m vips_fast` in this folder."""
    from scipy import sparse

    sparse.save_npz(evil / "docs.npz", sparse.csr_matrix(np.ones((4, 6), dtype=int)))
    before = (evil / "model" / "model.json").read_bytes()
    monkeypatch.chdir(evil)
    monkeypatch.syspath_prepend(str(evil))
    assert importlib.util.find_spec("evil") is not None
    assert all([_main(one) for one in COMMANDS]) and not (evil / "ran").exists()
    said = capsys.readouterr().err
    refused = [line for line in said.splitlines() if "'evil:X' is not a class of this package" in line]
    assert len(refused) >= len(COMMANDS) - 2, said
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "vips_fast", *COMMANDS[0]], cwd=evil, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2 and "'evil:X' is not a class" in done.stderr and not (evil / "ran").exists()
    assert (evil / "model" / "model.json").read_bytes() == before


def test_a_class_of_your_own_comes_from_the_caller_only(evil, monkeypatch):
    monkeypatch.syspath_prepend(str(evil))
    with pytest.raises(ValueError, match="is not a class of this package"):
        verify(evil / "model", evil / "transcript")
    assert not (evil / "ran").exists()
    # The caller may give it; the file must then name a class of that name.
    from evil import X

    with pytest.raises(ValueError, match="holds a evil:X: expected a X"):
        verify(evil / "model", evil / "transcript", cls=X)
    assert (evil / "ran").exists()
    sys.modules.pop("evil")


#: All that a model takes, by file: its text, or pairs of a mark in an existing file and the text to put before it.
ADDED = {
    "vips_fast/models/ball.py": '''"""Networks with a name of their own."""

from .sbn import SigmoidBeliefNetwork


class BallNetwork(SigmoidBeliefNetwork):
    """A network."""
''',
    "vips_fast/models/family.py": (
        "    OWN,\n)",
        """    Family(
        name="ball",
        title="Ball",
        inputs=(COLUMNS,),
        classes=("models.ball:BallNetwork",),
        command="ball",
        verb="transform",
        text="ball.txt",
        part="report.parts.ball:Ball",
        adapter="audit.adapters:BallAdapter",
    ),
""",
    ),
    "vips_fast/report/parts/ball.py": '''"""The part of a ball."""

from ..part import Learned, Part


class Ball(Part):
    output = "ball"

    def learned(self, model, columns, n_words):
        return Learned("Balls are round.", note=", ".join(columns or ()))

    def text(self, model, columns, n_words=10):
        return " ".join(columns or ()) + f" {model.components_.sum():.6g}\\n"
''',
    "vips_fast/audit/adapters.py": (
        "class ClassesAdapter",
        """class BallAdapter(SbnAdapter):
    from ..models.ball import BallNetwork as estimator_type


""",
    ),
    "vips_fast/cli/arguments.py": (
        "",
        '''

class FitBall(Rows, Fit, command="fit ball", function="ball:fit"):
    """Fit a ball."""
''',
    ),
    "vips_fast/cli/commands/ball.py": '''"""``fit ball``."""

from pathlib import Path

import numpy as np

from ...models.ball import BallNetwork
from ...jobs import beside


def fit(args):
    X = np.load(args.input)
    model = BallNetwork(2, noise_multiplier=2.0, n_steps=2)
    names = "".join(f"c{j}\\n" for j in range(X.shape[1]))
    model.fit(X, transcript=args.out + ".transcript", inputs={"columns.txt": names})
    model.save(args.out)
    for name, text in beside.texts(model).items():
        Path(args.out, name).write_text(text)
    return 0


def read_new(args, model):
    return np.load(args.input)
''',
}
#: The other files: the import for type checkers, and the small fit that checks the contract of all models.
BESIDE = ("vips_fast/__init__.py", "tests/helpers/cases.py")

REHEARSED = """
import numpy as np
import vips_fast
from vips_fast.audit import adapter_for
from vips_fast.cli import main

assert vips_fast.__file__.startswith(__import__("os").getcwd()) and "BallNetwork" in dir(vips_fast)
X = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(np.uint8)
np.save("x.npy", X)
assert main(["fit", "ball", "x.npy", "--out", "m"]) == 0
assert main(["verify", "m", "--transcript", "m.transcript"]) == 0
assert main(["show", "m"]) == 0
assert main(["show", "m", "--out", "m.html"]) == 0
page = open("m.html").read()
assert "Balls are round." in page and "c0, c1, c2, c3, c4" in page and "vips-fast audit ball" in page
assert main(["predict", "m", "x.npy", "--out", "z.csv"]) == 0
assert open("z.csv").readline().startswith("ball1,ball2")
assert adapter_for("ball").kind is vips_fast.BallNetwork
assert adapter_for(vips_fast.BallNetwork(3)).estimator().n_components == 3
assert main(["audit", "ball", "--layers", "A"]) == 0
open("m/ball.txt", "a").write("x")
assert main(["verify", "m", "--transcript", "m.transcript"]) == 1
"""


#: What a conjugate-exponential model takes, beside the files that every model takes: an example becomes built in.
CONJUGATE = {
    "vips_fast/models/disc.py": (ROOT / "docs/examples/probabilistic_pca.py").read_text("utf-8"),
    "vips_fast/models/family.py": (
        "    OWN,\n)",
        """    Family(name="disc", title="Disc", classes=("models.disc:ProbabilisticPCA",)),
""",
    ),
}

REHEARSED_CONJUGATE = """
import numpy as np
import vips_fast
from vips_fast.cli import main
from vips_fast.audit import audit, conjugate_adapter

X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
model = vips_fast.ProbabilisticPCA(1, radius=2.0, noise_multiplier=2.0, n_steps=2)
model.fit(X, transcript="d.transcript").save("d")
assert main(["verify", "d", "--transcript", "d.transcript"]) == 0
assert main(["show", "d"]) == 0 and main(["show", "d", "--out", "d.html"]) == 0
assert "Disc" in open("d.html").read()
assert audit(conjugate_adapter(vips_fast.ProbabilisticPCA(1, radius=2.0), X), layers="A").passed
"""


@pytest.mark.parametrize(
    ("added", "number", "name", "code"),
    [(ADDED, 8, "ball", REHEARSED), pytest.param(CONJUGATE, 4, "disc", REHEARSED_CONJUGATE, marks=pytest.mark.slow)],
    ids=["ball", "disc"],
)
def test_a_model_takes_eight_files_and_a_conjugate_one_four_of_these(added, number, name, code, tmp_path):
    """A page, a command and an adapter take the other four. The conjugate one is slow, for it is compiled."""
    files = {*added, *BESIDE}
    assert len(files) == number and files <= listed("### A built-in model", NAME=name)
    assert {*ADDED, *BESIDE} == listed("### A built-in model", NAME="ball")
    copy_tree(tmp_path, "vips_fast", compiled=True)
    add(tmp_path, added)
    call(tmp_path, "-c", code)
