"""From records to a model that others can check, for every command that fits one."""

import re
import shlex
from contextlib import chdir

import numpy as np
import pytest
from written import FITS

from vips_fast.cli.signature import COMMANDS
from vips_fast.jobs.places import kind_in


def parameters(said, line):
    """List the parameters of Python in a text, which have flags of another spelling at the shell."""
    flags = {one.name for name in COMMANDS if line.startswith(name) for one in COMMANDS[name].options()}
    return flags & set(re.findall(r"(?<![\w.])([a-z_]+)=", said))


SPENT = "--epsilon 4 --delta 1e-6 --anyway --quiet --seed 1"
ALWAYS = ["model.json", "model.npz", "privacy.json", "privacy.txt", "report.html"]


@pytest.mark.parametrize("line", FITS)
def test_a_fit_can_be_checked_read_and_used(here, run, tmp_path, line):
    files, records, head = FITS[line]
    out, kept = tmp_path / "m", ["--transcript", tmp_path / "kept"]
    job = [*shlex.split(f"{line} {SPENT}"), "--out", out, *kept, "--report"]
    code, text, _ = run(*job)
    assert code == 0 and "differential privacy" in " ".join(text.split()).replace("-", " ")
    assert sorted(path.name for path in out.iterdir()) == sorted([*files, *ALWAYS])
    model = kind_in(out).load(out)
    unit = "patient" if "--unit" in line else "person" if "--person" in line else "record"
    assert model.privacy_.private and model.privacy_.unit == unit
    for said in (text, run("show", out)[1]):
        assert not parameters(said, line)
    # The same job again has its answer, and needs no records.
    code, text, _ = run(*job, "--resume")
    assert code == 0 and "nothing was spent" in text
    if records is not None:
        code, text, _ = run("predict", out, records)
        assert code == 0 and text.startswith(f"{head}\n")
        printed = np.loadtxt(text.splitlines()[1:], delimiter=",", ndmin=2)
        for name in ("rows.npy", "rows.csv"):
            assert run("predict", out, records, "--out", tmp_path / name) == (0, "", "")
        assert (tmp_path / "rows.csv").read_text() == text
        np.testing.assert_allclose(printed, np.load(tmp_path / "rows.npy"), rtol=1e-5)
    code, text, _ = run("verify", out, *kept)
    assert code == 0 and text.endswith("The model follows from its releases.\n")
    assert {f"equal   {name}" for name in (*files[:1], "privacy.txt", "report.html")} <= set(text.splitlines())
    for name in files[:1] or ["report.html"]:  # of the others every kind's are alike
        whole = (out / name).read_text()
        (out / name).write_text(whole[:-2] + "~\n")
        code, text, _ = run("verify", out, *kept)
        assert code == 1 and [said for said in text.splitlines() if "DIFFERS" in said] == [f"DIFFERS {name}"]
        (out / name).unlink()
        code, text, _ = run("verify", out, *kept)
        assert code == 0 and (name == "report.html" or f"not checked {name}: missing" in text)
        (out / name).write_text(whole)
    with chdir(tmp_path):
        assert run("publish", "m", "--out", "public")[0] == run("verify", "public", *kept)[0] == 0
    assert not (tmp_path / "public" / "model" / "report.html").exists()  # one page is about all parts


@pytest.mark.parametrize(
    "line",
    [
        "fit lda {} --text note --vocab words.txt --topics 2 --doc-length 3 --steps 2 --out {out}",
        "fit clusters {} --text note --vectors sentences --public-prior public.npz --components 2 --out {out}",
        "tabulate topics {} --by ward,month --values values.toml --person patient --out {out}",
        "predict topics {}",
        "prior {} --text note --vocab-size 3000 --topics 2 --out {out}",
        "shard {} {out} --text note --vocab words.txt",
    ],
)
def test_texts_are_read_by_the_format_and_encoding_that_are_given(here, run, tmp_path, line):
    table = tmp_path / "notes.jsonl"
    table.write_text((here / "notes.csv").read_text().replace("\n", " é\n").replace("note é", "note"), "cp1252")
    given = [str(table) if word == "{}" else word.format(out=tmp_path / "m") for word in line.split()]
    if given[0] in ("fit", "tabulate"):
        given += ["--anyway", "--quiet", "--epsilon", 4, "--delta", 1e-6]
    assert run(*given, "--format", "csv")[0] == run(*given, "--encoding", "cp1252")[0] == 2
    code, _, err = run(*given, "--format", "csv", "--encoding", "cp1252")
    assert code == 0, err


@pytest.mark.parametrize(
    "line", [line for line, (_, records, _) in FITS.items() if records == "docs.npz" or "sbn" in line]
)
def test_a_fit_without_privacy_says_so_wherever_it_is_used(here, run, tmp_path, line):
    code, text, _ = run(*shlex.split(line), "--non-private", "--quiet", "--out", tmp_path / "m")
    assert code == 0 and "NOT PRIVATE: " in text and not parameters(text, line)
    assert (tmp_path / "m" / "privacy.txt").read_text().startswith("NOT PRIVATE: ")
    assert run("show", tmp_path / "m")[1].startswith("NOT PRIVATE: ")
    code, _, error = run("predict", tmp_path / "m", FITS[line][1])
    assert code == 0 and error.startswith("vips-fast: warning: NOT PRIVATE: ") and not parameters(error, line)
