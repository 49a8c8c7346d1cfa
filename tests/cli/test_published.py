"""Attack folders of models: their seal, and the readers.

`load`, and with it each command, reads model.json, model.npz and the inputs (vocab.txt and text.json;
schema.toml or columns.txt). `verify` also reads every other file, to compare it. Nobody takes anything from
privacy.json, privacy.txt, report.html, topics.txt, coefficients.csv or components.csv.
"""

import json
import os
import random
import shutil

import numpy as np
import pytest
from fuzz import at_once

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation
from vips_fast.cli import main
from vips_fast.engine.result import FitResult, Public
from vips_fast.models import persistence
from vips_fast.models.rebuild import alike

WORDS = ["cough", "fever", "rash", "sleep", "walk", "winter"]
SCHEMA = '[columns.age]\nkind = "number"\nlow = 0\nhigh = 100\n[columns.ill]\nkind = "binary"\nvalues = ["no", "yes"]\n'
KINDS = {"text": LatentDirichletAllocation, "table": BayesianLogisticRegression}
INPUTS = {"text": ["vocab.txt", "text.json"], "table": ["schema.toml"]}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Fit models of texts and of a table. With report and transcript."""
    root, rng = tmp_path_factory.mktemp("published"), np.random.default_rng(0)
    notes = "".join(f"{' '.join(rng.choice(WORDS, 12))}\n" for _ in range(200))
    rows = "".join(f"{age},{'yes' if age > 50 else 'no'}\n" for age in rng.integers(0, 100, 200))
    for name, text in (("notes.csv", "note\n" + notes), ("rows.csv", "age,ill\n" + rows), ("schema.toml", SCHEMA)):
        (root / name).write_text(text)
    (root / "words").write_text("\n".join(WORDS) + "\n")
    common = "--epsilon 4 --delta 1e-3 --steps 2 --seed 1 --quiet --report".split()
    topics = [*"--text note --topics 2 --doc-length 12 --anyway --vocab".split(), root / "words"]
    table = ["--schema", root / "schema.toml", "--label", "ill"]
    for kind, family, records, more in (("text", "lda", "notes", topics), ("table", "blr", "rows", table)):
        out = ["--out", root / kind, "--transcript", root / f"{kind}.transcript"]
        assert called("fit", family, root / f"{records}.csv", *more, *common, *out) == 0
    return root


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def model(places, tmp_path, kind):
    """A copy of a model, that a test may damage."""
    shutil.copytree(places / kind, tmp_path / "model")
    return tmp_path / "model"


def called(*argv):
    return main([str(arg) for arg in argv])


def readers(places, kind, model):
    """List the commands that read a model, by name."""
    return {
        "show": ["show", model],
        "report": ["show", model, "--out", model.parent / "page.html"],
        "predict": ["predict", model, places / ("notes.csv" if kind == "text" else "rows.csv")],
    }


def verifying(places, kind, model):
    return ["verify", model, "--transcript", places / f"{kind}.transcript"]


def refused_by_all(places, kind, model, capsys):
    """Every reader refuses, with one line and no trace of Python."""
    commands = {**readers(places, kind, model), "verify": verifying(places, kind, model)}
    with at_once():
        for name, command in commands.items():
            capsys.readouterr()
            code, (out, err) = called(*command), capsys.readouterr()
            assert code in (1, 2) and len(err.splitlines()) == 1 and "internal error" not in err, (name, out, err)
            assert out == "" or name == "verify", (name, out)


# ---------------------------------------------------------------- one seal over all inputs


def swapped(model, kind):
    """Reverse the words, or change the bounds of a column."""
    path = model / INPUTS[kind][0]
    text = path.read_text()
    other = "".join(f"{word}\n" for word in WORDS[::-1]) if kind == "text" else text.replace("100", "900")
    assert other != text
    path.write_text(other)


def reread(model, kind):
    """Change the last input."""
    path = model / INPUTS[kind][-1]
    text = path.read_text()
    path.write_text(text.replace("note", "more") if kind == "text" else text.replace("age", "old"))


def removed(model, kind):
    (model / INPUTS[kind][0]).unlink()


def added(model, kind):
    """Add an input that the fit did not have."""
    name = "columns.txt" if kind == "table" else "text.json"
    shutil.copy(model / INPUTS[kind][0], model / name)


def denied(model, kind):
    """Remove an input from the list too."""
    meta = json.loads((model / "model.json").read_text())
    del meta["public"]["inputs"][INPUTS[kind][0]]
    (model / "model.json").write_text(json.dumps(meta))
    removed(model, kind)


def restated(model, kind):
    """Other words, with the digest that the list would have for them."""
    swapped(model, kind)
    text, meta = (model / INPUTS[kind][0]).read_text(), json.loads((model / "model.json").read_text())
    meta["public"] = Public(**{**meta["public"], "inputs": {INPUTS[kind][0]: text}}).to_dict()
    (model / "model.json").write_text(json.dumps(meta))


@pytest.mark.parametrize("change", [swapped, reread, removed, added, denied, restated], ids=lambda one: one.__name__)
def test_other_inputs_are_refused_by_every_reader(places, model, kind, change, capsys):
    if change is not added:
        KINDS[kind].load(model)
    elif kind == "text":
        (model / "text.json").unlink()
    change(model, kind)
    refused_by_all(places, kind, model, capsys)
    with pytest.raises((ValueError, FileNotFoundError)):
        KINDS[kind].load(model)


def forged(model, kind, **changes):
    """Compute every hash of other inputs anew."""
    have = KINDS[kind].load(model)._fitted()
    ledger = have.ledger.copy()
    ledger._frozen = False
    del ledger.records[-1], ledger.heads[-1]
    inputs = {**have.public.inputs, **changes}
    public = Public(**{**vars(have.public), "inputs": inputs})
    made = FitResult.make(have.kind, have.settings, public, have.n_steps, have.arrays, have.state, ledger)
    persistence.save(made, model.parent / "forged")
    return model.parent / "forged"


def test_verify_makes_the_inputs_again(places, model, kind, capsys):
    name = INPUTS[kind][0]
    other = (model / name).read_text().replace("fever", "health").replace("100", "900")
    folder = forged(model, kind, **{name: other})
    assert called(*verifying(places, kind, folder)) == 1 and "DIFFERS public" in capsys.readouterr().out


# ------------------------------------------------------------ entries that are not files


def pipe(path):
    os.mkfifo(path)


def link(path):
    path.symlink_to("/etc/passwd")


def link_to_itself(path):
    os.rename(path.with_name(path.name + ".old"), path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


def device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("kind", "name", "make"),
    [(kind, name, pipe) for kind in KINDS for name in ("model.json", "model.npz", *INPUTS[kind])]
    + [("text", "vocab.txt", make) for make in (link, link_to_itself, device, os.mkdir)],
    indirect=["kind"],
)
def test_only_files_of_the_folder_are_read(places, model, kind, make, name, capsys):
    os.rename(model / name, model / f"{name}.old")
    make(model / name)
    refused_by_all(places, kind, model, capsys)
    with at_once(), pytest.raises(ValueError, match="expected a file"):
        KINDS[kind].load(model)


@pytest.mark.parametrize(
    ("name", "make"), [("privacy.json", pipe), ("privacy.txt", link), ("report.html", device), ("diary", os.mkdir)]
)
def test_a_file_that_nobody_reads_may_be_anything_and_verify_says_so(places, model, kind, make, name, capsys):
    (model / name).unlink(missing_ok=True)
    make(model / name)
    with at_once(60):
        for command in readers(places, kind, model).values():
            assert called(*command) == 0
        assert called(*verifying(places, kind, model)) in (1, 2)


@pytest.mark.parametrize(
    ("name", "make"),
    [("run-0000/run.jsonl", pipe), ("run-0000/run.npz", link), ("run-0000/release-000001.npz", device)]
    + [("run-0000", os.mkdir), ("run-0000", link)],
)
def test_only_files_of_a_transcript_are_read(places, model, kind, make, name, tmp_path, capsys):
    shutil.copytree(places / f"{kind}.transcript", tmp_path / "t")
    os.rename(tmp_path / "t" / name, tmp_path / "old")
    make(tmp_path / "t" / name)
    with at_once():
        assert called("verify", model, "--transcript", tmp_path / "t") in (1, 2)
    assert "internal error" not in capsys.readouterr().err


# --------------------------------------------------------------------- terminals

HOSTILE = ["\x1b[2Jred", "\u202eneerg", "blue\x07\x9b1m", "pi\rnk", "grey", "teal"]


def test_words_never_drive_a_terminal(tmp_path, capsys):
    fitted = LatentDirichletAllocation(2, noise_multiplier=5.0, n_steps=2, doc_length=6)
    fitted.fit(np.ones((50, 6), dtype=int), inputs={"vocab.txt": "".join(f"{word}\n" for word in HOSTILE)})
    fitted.save(tmp_path / "\x1b]0;m")
    folder = tmp_path / "\x1b]0;m"
    for command in (["show", folder], ["show", f"{folder}/none"]):
        called(*command)
        shown = "".join(capsys.readouterr())
        assert shown and not set(shown) & set("\x1b\x07\x9b\r\u202e"), command
    assert called("show", folder, "--out", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    assert "\\u202eneerg" in page and not set(page) & set("\x1b\x07\x9b\r\u202e")


# ------------------------------------------------------------------------ any one byte


def answers(places, kind, model, capsys):
    """Collect the output of all readers."""
    found = {}
    for name, command in readers(places, kind, model).items():
        capsys.readouterr()
        assert called(*command) == 0, name
        found[name] = capsys.readouterr()[0].replace(str(model.parent), "")
    return found | {"page": (model.parent / "page.html").read_text()}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_any_byte_that_is_changed_is_refused_or_is_not_read(places, model, kind, seed, capsys):
    """Change 24 single bytes of each kind.

    `verify` refuses each, except in the free versions of privacy.json.

    `load` refuses each, or gives the same model; the readers then answer as before.
    """
    first, chosen = answers(places, kind, model, capsys), random.Random(seed)
    have = KINDS[kind].load(model)._fitted()
    files = sorted(path for path in model.iterdir())
    for number in range(24):
        path = files[number % len(files)]
        whole = path.read_bytes()
        place, other = chosen.randrange(len(whole)), chosen.randrange(1, 256)
        changed = bytearray(whole)
        changed[place] ^= other
        path.write_bytes(changed)
        where = f"{path.name}, byte {place} ^ {other}"
        try:
            again = KINDS[kind].load(model)._fitted()
        except ValueError:
            name = chosen.choice(sorted(first.keys() - {"page", "predict"}))
            assert called(*readers(places, kind, model)[name]) == 2, where
        else:
            assert alike(again.public, have.public) and again.ledger.head == have.ledger.head, where
            if number % 5 == 0:
                assert answers(places, kind, model, capsys) == first, where
        code = called(*verifying(places, kind, model))
        if code == 0:
            assert path.name == "privacy.json", where
            assert json.loads(changed)["versions"] != json.loads(whole)["versions"], where
        path.write_bytes(whole)
        capsys.readouterr()
