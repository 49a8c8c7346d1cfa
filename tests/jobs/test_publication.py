"""Publications, and all that can be wrong with them. One folder of a model, its tables and one page."""

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, TopicTables
from vips_fast.cli import main
from vips_fast.jobs import check_publication, publish
from vips_fast.jobs import publication as publications
from vips_fast.jobs.folder import write_model
from vips_fast.jobs.publication import file_digests
from vips_fast.models import privacy_file

WORDS = [f"word{k}" for k in range(10)]
WARDS = ["north", "south"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("parts"), np.random.default_rng(0)
    topics = rng.dirichlet(np.full(10, 0.3), 3)
    counts = np.stack([rng.multinomial(12, topics[i % 3]) for i in range(3000)])
    listed = {"vocab.txt": "".join(f"{word}\n" for word in WORDS)}
    model = LatentDirichletAllocation(3, epsilon=4.0, delta=1e-5, doc_length=12, n_steps=3, random_state=0)
    model.fit(counts, inputs=listed, transcript=root / "releases")
    write_model(model, root / "topics")
    shares, before = model.transform(counts), model
    for k, name in enumerate(("wards", "months"), 1):
        by = {"ward": WARDS} if k == 1 else {"month": [1, 2, 3, 4]}
        values = {key: np.array(known)[np.arange(3000) % len(known)] for key, known in by.items()}
        tables = TopicTables(by, epsilon=1.0, delta=1e-5)
        tables.fit(shares, values, after=before, transcript=root / f"{name}.releases")
        write_model(tables, root / name)
        before = tables
    return root


@pytest.fixture(scope="module")
def whole(parts):
    folders = [parts / name for name in ("topics", "wards", "months")]
    facts = {"dataset": "Notes of ward 3", "date": "July 2026"}
    publish(parts / "whole", *folders, **facts, names=["colds", "rents", "a <b>long</b> name"])
    return parts / "whole"


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def test_a_publication_is_one_page_with_one_statement(parts, whole):
    last = TopicTables.load(whole / "tables-2")
    page, said = (whole / "report.html").read_text("utf-8"), json.loads((whole / "privacy.json").read_bytes())
    assert last.privacy_.statement() == said["statement"] and said["privacy_loss"]["epsilon"] == last.privacy_.epsilon
    places = [
        "<h1>Topic model and tables",
        "Released: 3 topics",
        "July 2026",
        "Topic 1: colds",
        'id="tables1"',
        'id="tables2"',
    ]
    places += [said["statement"].replace("'", "&#39;"), 'id="assumptions"']
    found = [page.find(one) for one in places]
    assert found == sorted(found) and found[0] > 0 and "a &lt;b&gt;long&lt;/b&gt; name by month" in page.lower()
    schema = json.loads(Path(privacy_file.__file__).with_name("privacy.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(said)
    assert sorted(path.name for path in whole.iterdir()) == [
        *("model", "names.txt", "privacy.json", "publication.json"),
        *("report.html", "tables-1", "tables-2"),
    ]
    transcripts = [parts / name for name in ("releases", "wards.releases", "months.releases")]
    assert check_publication(whole, transcripts).ok


def test_every_changed_added_or_missing_file_is_seen(copy):
    """Any damage is seen by tests/jobs/test_claims.py."""
    assert len(file_digests(copy)) == 19
    for name in ("added", "tables-1/added"):
        (copy / name).write_text("x\n")
    for name in ("report.html", "model/topics.txt"):
        (copy / name).write_text("x\n")
    for name in ("privacy.json", "tables-2/privacy.txt"):
        (copy / name).unlink()
    report = check_publication(copy)
    (found,) = (check for check in report.checks if check.name == "publication.json")
    assert not report.ok and found.detail.split("; ") == [
        *("added is not listed", "model/topics.txt is changed", "privacy.json is missing", "report.html is changed"),
        *("tables-1/added is not listed", "tables-2/privacy.txt is missing"),
    ]
    (copy / "link").symlink_to(copy / "report.html")
    with pytest.raises(ValueError, match="is a link"):
        check_publication(copy)


def test_a_file_that_is_not_listed_is_not_read(copy, monkeypatch):
    """It may be of any size: to hash 8 GiB of holes took a minute."""
    (copy / "added").write_text("x")
    read, digest = [], publications._digest
    monkeypatch.setattr(publications, "_digest", lambda path: read.append(path.name) or digest(path))
    report = check_publication(copy)
    assert "added is not listed" in report.text() and "report.html" in read and "added" not in read


def test_a_signature_of_others_is_left_to_their_tool(parts, copy):
    for said, write in (("there is none", False), ("model_signing verify tells whose it is", True)):
        if write:
            (copy / "model.sig").write_text("{}")
        (found,) = (check for check in check_publication(copy).checks if check.name == "model.sig")
        assert found.ok is None and said in found.detail
    publish(copy, parts / "topics", force=True)  # it is no foreign file
    assert not (copy / "model.sig").exists()


def test_the_shell_publishes_and_verifies(parts, tmp_path, capsys):
    out = str(tmp_path / "out")
    (tmp_path / "names").write_text("".join(f"Weather: {line}\n" for line in "abc"))
    more = ["--names", str(tmp_path / "names"), "--dataset", "Notes of ward 3", "--date", "July 2026"]
    folders = [str(parts / name) for name in ("topics", "wards")]
    assert main(["publish", *folders, "--out", out, *more]) == 0
    assert capsys.readouterr().out.startswith(f"Written to {out}.")
    assert "July 2026" in (tmp_path / "out/report.html").read_text("utf-8")
    assert (tmp_path / "out/names.txt").read_text() == (tmp_path / "names").read_text()
    verify = ["verify", out]
    verify += [text for name in ("releases", "wards.releases") for text in ("--transcript", str(parts / name))]
    assert main(verify) == 0
    assert capsys.readouterr().out.endswith("Every file follows from releases and public facts.\n")
    assert main(["verify", out]) == 0
    said = capsys.readouterr().out  # once, for all files
    assert (
        said.count("no transcript") == 1 and "no transcript was given: whether releases gave model, tables-1." in said
    )
    (tmp_path / "out/names.txt").write_text("one\ntwo\nthree\n")
    assert main(verify) == 1
    said = capsys.readouterr().out
    assert "DIFFERS publication.json: names.txt is changed" in said and "DIFFERS report.html" in said
    assert main(["publish", *folders, "--out", out]) == 2 and "is not empty" in capsys.readouterr().err
    assert main(["publish", *folders, "--out", out, "--force"]) == 2
    assert "names.txt' is not what was published" in capsys.readouterr().err
    shutil.rmtree(out)
    for more in ([], ["--force"]):
        assert main(["publish", *folders, "--out", out, *more]) == 0
    capsys.readouterr()
    assert main(["show", *folders]) == 0
    apart = capsys.readouterr().out
    assert main(["show", out]) == 0 and capsys.readouterr().out == apart
    for shown in (folders, [out]):
        assert main(["show", *shown, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["head"] == TopicTables.load(folders[1]).ledger_.head
    assert main(["predict", out, "records"]) == 2
    assert f"holds a publication; expected one of its parts, such as {out}/model" in capsys.readouterr().err
    (tmp_path / "out/model/vocab.txt").unlink()
    assert main(["verify", out]) == 2
    assert "vocab.txt: missing; expected the folder as it was written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("folders", "more", "message"),
    [
        (["topics", "months"], {}, "leaves out the model"),
        (["topics", "wards", "wards"], {}, "leaves out the tables before them"),
        (["wards", "topics"], {}, "expected fitted TopicTables"),
        (["topics"], {"dataset": "two\nlines"}, "dataset='two"),
        (["topics"], {"date": "9" * 201}, "date='99.*: expected a line of at most 200 characters"),
        (["topics"], {"names": ["one"]}, "titles: 1 were given; expected 3"),
        (["topics"], {"names": ["one", " ", "x"]}, "names: expected a line of text for each"),
        (["none"], {}, "none: no such folder; expected one written by vips-fast fit"),
    ],
)
def test_bad_parts_write_nothing(parts, tmp_path, folders, more, message):
    with pytest.raises((ValueError, OSError), match=message):
        publish(tmp_path / "out", *(parts / name for name in folders), **more)
    assert list(tmp_path.iterdir()) == []


def test_a_tainted_model_and_a_foreign_folder_are_refused(parts, tmp_path):
    model = LatentDirichletAllocation(2, epsilon=4.0, doc_length=5, n_steps=2).set_unsafe(test_key=bytes(32))
    model.fit(np.ones((100, 4), dtype=int)).save(tmp_path / "tainted")
    with pytest.raises(ValueError, match="is NOT PRIVATE"):
        publish(tmp_path / "out", tmp_path / "tainted")
    shutil.copytree(parts / "topics", tmp_path / "more")
    (tmp_path / "more" / "notes.csv").write_text("secret")
    with pytest.raises(ValueError, match="not a file that fit writes"):
        publish(tmp_path / "out", tmp_path / "more")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("")
    with pytest.raises(ValueError, match="has no publication.json.*'thesis' in it would be lost"):
        publish(tmp_path / "mine", parts / "topics", force=True)
    assert not (tmp_path / "out").exists()
