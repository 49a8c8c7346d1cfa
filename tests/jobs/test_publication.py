"""Publications, and all that can be wrong with them.

One folder of a model, its tables, one page and one signature.
"""

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from vips_fast import LatentDirichletAllocation, TopicTables
from vips_fast.cli import main
from vips_fast.jobs import check_publication, publish
from vips_fast.jobs.folder import write_model
from vips_fast.jobs.signing import check_signature, folder_digests, sign_folder
from vips_fast.models.privacy_file import schema

WORDS = [f"word{k}" for k in range(10)]
WARDS = ["north", "south"]
KEY = ec.derive_private_key(1234567, ec.SECP256R1())
PEM = KEY.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
PUBLIC_PEM = KEY.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Folders of a model and of two tables, and keys.

    Each with its transcript.
    """
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
    (root / "key").write_bytes(PEM)
    (root / "key.pub").write_bytes(PUBLIC_PEM)
    return root


@pytest.fixture(scope="module")
def whole(parts):
    folders = [parts / name for name in ("topics", "wards", "months")]
    facts = {"dataset": "Notes of ward 3", "date": "July 2026"}
    publish(parts / "whole", *folders, **facts, names=["colds", "rents", "a <b>long</b> name"])
    (parts / "whole" / "model.sig").write_bytes(sign_folder(parts / "whole", KEY))
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
    jsonschema.Draft202012Validator(schema()).validate(said)
    assert sorted(path.name for path in whole.iterdir()) == [
        *("model", "model.sig", "names.txt", "privacy.json", "publication.json"),
        *("report.html", "tables-1", "tables-2"),
    ]
    transcripts = [parts / name for name in ("releases", "wards.releases", "months.releases")]
    assert check_publication(whole, transcripts).ok and check_signature(whole, KEY.public_key()) == []


def test_every_changed_added_or_missing_file_is_seen(copy, tmp_path):
    names = [name for name in folder_digests(copy) if "model." not in name]
    assert len(names) == 14 and "report.html" in names
    for name in [*names, "added", "tables-1/added"]:
        place = copy / name
        before = place.read_bytes() if place.exists() else None
        place.write_bytes((before or b"") + b"x\n")
        assert [one for one, _ in check_signature(copy, KEY.public_key())] == [name]
        try:
            assert not check_publication(copy).ok, name
        except ValueError as error:  # a part's source cannot be read
            assert name in ("names.txt", "model/vocab.txt", "publication.json"), error
        place.unlink()
        if before is not None:
            assert check_signature(copy, KEY.public_key()) == [(name, "missing")]
            place.write_bytes(before)
    assert check_signature(copy, KEY.public_key()) == [] and check_publication(copy).ok
    (copy / "link").symlink_to(copy / "report.html")
    with pytest.raises(ValueError, match="is a link"):
        check_signature(copy, KEY.public_key())


def test_another_signature_does_not_hold(copy):
    with pytest.raises(ValueError, match="does not hold under the given key"):
        check_signature(copy, ec.derive_private_key(77, ec.SECP256R1()).public_key())
    text = (copy / "model.sig").read_text()
    for old, new, message in (
        ("bundle.v0.3", "bundle.v0.9", "not a bundle of OpenSSF model signing"),
        ('"dsseEnvelope"', '"envelope"', "malformed"),
        ('"payload": "', '"payload": "AAAA', "does not hold under the given key"),
        (text, "[]", "malformed"),
        (text, "{", "not a JSON file"),
    ):
        (copy / "model.sig").write_text(text.replace(old, new, 1))
        with pytest.raises(ValueError, match=message):
            check_signature(copy, KEY.public_key())
    (copy / "model.sig").unlink()
    with pytest.raises(ValueError, match="holds no signature"):
        check_signature(copy, KEY.public_key())
    other = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
    for key in (other, ec.derive_private_key(77, ec.SECP256K1())):
        with pytest.raises(TypeError, match="expected an elliptic-curve private key on P-256"):
            sign_folder(copy, key)


def test_the_tool_of_the_format_holds_our_signatures_and_we_hold_its(copy):
    # It needs sigstore and its network parts, too heavy for the tests' environment.
    pytest.importorskip("model_signing", reason="pip install model-signing, which is no part of an extra")
    from model_signing import signing, verifying

    (copy.parent / "key").write_bytes(PEM)
    (copy.parent / "key.pub").write_bytes(PUBLIC_PEM)
    held = verifying.Config().use_elliptic_key_verifier(public_key=copy.parent / "key.pub")
    held.verify(copy, copy / "model.sig")
    (copy / "model.sig").unlink()
    signing.Config().use_elliptic_key_signer(private_key=copy.parent / "key").sign(copy, copy / "model.sig")
    assert check_signature(copy, KEY.public_key()) == []


def test_the_shell_publishes_signs_and_verifies(parts, tmp_path, capsys):
    out, key = str(tmp_path / "out"), ["--key", str(parts / "key")]
    (tmp_path / "names").write_text("".join(f"Weather: {line}\n" for line in "abc"))
    more = ["--names", str(tmp_path / "names"), "--dataset", "Notes of ward 3", "--date", "July 2026", *key]
    folders = [str(parts / name) for name in ("topics", "wards")]
    assert main(["publish", *folders, "--out", out, *more]) == 0
    assert capsys.readouterr().out.startswith(f"Written to {out}, and signed.")
    assert (tmp_path / "out/names.txt").read_text() == (tmp_path / "names").read_text()
    verify = ["verify", out, "--verify-key", str(parts / "key.pub")]
    verify += [text for name in ("releases", "wards.releases") for text in ("--transcript", str(parts / name))]
    assert main(verify) == 0
    said = capsys.readouterr().out
    assert "equal   model.sig: of all files, under the given key\n" in said and said.endswith(
        "Every file follows from releases and public facts.\n"
    )
    (tmp_path / "out/names.txt").write_text("one\ntwo\nthree\n")
    assert main(verify) == 1
    said = capsys.readouterr().out
    assert "DIFFERS model.sig: names.txt is changed" in said and "DIFFERS report.html" in said
    assert main(["publish", *folders, "--out", out]) == 2 and "is not empty" in capsys.readouterr().err
    assert main(["publish", *folders, "--out", out, "--force"]) == 2
    assert "names.txt' is not what was published" in capsys.readouterr().err
    shutil.rmtree(out)
    for more in ([], ["--force"]):
        assert main(["publish", *folders, "--out", out, *more]) == 0


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
        (["topics"], {"namer": lambda lists: ["x"]}, "namer: gave 1 names; expected 3"),
        (["none"], {}, "none"),
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
