"""Small inputs of every command, by name."""

import numpy as np
import pytest
import scipy.sparse as sp
from vectors import WORDS as VECTOR_WORDS
from vectors import Encoder

from vips_fast import DocumentClusters, GaussianMixture, PublicVectors, SigmoidBeliefNetwork
from vips_fast.cli import main
from vips_fast.data import Batch, write_shards
from vips_fast.engine.budget import Budget

WORDS = ("red", "green", "blue", "pink", "grey", "teal")
N = 60
TABLE = """[columns.work]
kind = "category"
values = ["private", "state"]
[columns.ill]
kind = "binary"
values = ["no", "yes"]
"""
AGE = '[columns.age]\nkind = "number"\nlow = 0\nhigh = 100\n'
SECRET = "7351"

PATIENT = "--text note --person patient --unit patient"
#: A command; then files beside model and statement, the first a text that verify makes again, its new records, and the
#: head of what predict prints of them.
_FITS = f"""
fit lda docs.npz --vocab words.txt --topics 2 --doc-length 30 --steps 3
    topics.txt vocab.txt; docs.npz; topic1,topic2
fit lda notes.csv {PATIENT} --vocab words.txt --stop-words none --topics 2 --doc-length 3 --steps 3
    topics.txt text.json vocab.txt asked.json; notes.csv; topic1,topic2
fit lda shards --topics 2 --doc-length 30 --steps 3
    topics.txt vocab.txt; shards; topic1,topic2
fit blr X.npy --label y.npy --names pair.txt --steps 3
    coefficients.csv columns.txt asked.json; X.npy; p(0),p(1)
fit blr t.csv --schema s.toml --label ill --person home --unit patient --steps 3
    coefficients.csv schema.toml asked.json; t.csv; p(no),p(yes)
fit counts X.npy --label y.npy --steps 3
    coefficients.csv columns.txt asked.json; X.npy; mean
fit sbn answers.npy --components 2 --steps 3
    ; answers.npy; unit1,unit2
fit mixture answers.npy --components 2 --steps 3
    components.csv columns.txt; answers.npy; component1,component2
fit mixture t.csv --schema survey.toml --person home --unit patient --components 2 --steps 3
    components.csv schema.toml asked.json; t.csv; component1,component2
fit mixture vectors.npy --radius 2 --components 2 --steps 3
    components.csv columns.txt asked.json; vectors.npy; component1,component2
fit mixture vectors.npy --set projection=2 --components 2 --steps 3
    components.csv columns.txt; vectors.npy; component1,component2
fit clusters notes.csv {PATIENT} --vectors sentences --public-prior public.npz --components 2
    components.csv text.json asked.json
tabulate topics notes.csv --by ward,month --values values.toml --person patient
    tables.csv columns.txt asked.json
"""
_LINES = iter(_FITS.strip().splitlines())
FITS = {
    line: (files.split(), *(more or (None, None)))
    for line, (files, *more) in ((line, next(_LINES).strip().split("; ")) for line in _LINES)
}


def write_notes(path, n_persons=400):
    """Write a table of texts, two for each person."""
    rng, words = np.random.default_rng(0), "cough fever rash sleep work rent letter form".split()
    rows = [f"p{i // 2},{' '.join(rng.choice(words[: 4 + 4 * (i % 2)], 12))}" for i in range(2 * n_persons)]
    path.write_text("\n".join(["patient,note", *rows, ""]))


def texts(folder):
    """Write the small files that the commands name."""
    lines = [f"p{k // 2},{'north south'.split()[k % 2]},{k % 3},{' '.join(WORDS[k % 3 :][:3])}" for k in range(N)]
    rows = [f"{k},{k % 100},{('private', 'state')[k % 2]},{('no', 'yes')[k % 3 == 0]}" for k in range(N)]
    return {
        "words.txt": "\n".join(WORDS),
        "two.txt": "a\nb\n",
        "long.txt": "a\n" * (N + 1),
        "pair.txt": "matters\ndoes not\n",
        "notes.csv": "\n".join(["patient,ward,month,note", *lines, ""]),
        "t.csv": "\n".join(["home,age,work,ill", *rows, ""]),
        "empty.csv": "",
        "short.csv": "age,ill\n1,yes\n",
        "rows.jsonl": '{"age": 1}\n',
        "s.toml": AGE + TABLE,
        "survey.toml": TABLE,
        "open.toml": TABLE + '[columns.age]\nkind = "number"\n',
        "values.toml": 'ward = ["north", "south"]\nmonth = [0, 1, 2]\n',
        "one.toml": 'patient = ["p1"]\n',
        "y.txt": "yes\nno\n" * (N // 2),
        "negative.txt": f"-{SECRET}\n" * N,
    }


def write(folder):
    """Write them, models and budgets to a folder."""
    for name, text in texts(folder).items():
        (folder / name).write_text(text)
    rng, z = np.random.default_rng(0), np.arange(N) % 2
    X = np.stack([rng.multinomial(30, np.roll([0.4, 0.3, 0.3, 0, 0, 0], 3 * one)) for one in z])
    sp.save_npz(folder / "docs.npz", sp.csr_array(X))
    sp.save_npz(folder / "bad.npz", sp.csr_array([[1, -int(SECRET), 1, 1, 1, 1]]))
    answers = np.stack([z == 0, z == 0, z == 1, z == 1], axis=1).astype(np.uint8)
    arrays = {"answers": answers, "y": z, "text": np.array([SECRET]), "one": np.ones(3), "wide": np.ones((3, 9))}
    arrays |= {"X": rng.normal(size=(N, 2)) / 3, "vectors": np.where(z[:, None] == 1, 0.4, -0.4) * np.ones((N, 4))}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "bytes.txt").write_bytes(b"yes\n\xff\n")
    sp.save_npz(folder / "held.npz", sp.csr_array(answers[:, 1:3]))
    GaussianMixture(2, noise_multiplier=1.0, n_steps=2).fit(answers).save(folder / "survey")
    SigmoidBeliefNetwork(2, private=False).fit(answers).save(folder / "network")
    write_shards(folder / "shards", [Batch(X)], vocabulary=WORDS)
    write_shards(folder / "rows", [Batch(answers.astype(float))], kind="numbers")
    public = PublicVectors(np.eye(4), np.eye(4), np.ones(4), VECTOR_WORDS, np.eye(4), "a test")
    public.save(folder / "public.npz")
    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning):
        patch.chdir(folder)
        fit = "fit lda notes.csv --text note --vocab words.txt --stop-words none --topics 2 --doc-length 3 --anyway"
        assert main(f"{fit} --person patient --epsilon 4 --delta 1e-6 --steps 2 --quiet --out topics".split()) == 0
        fit = "fit blr t.csv --schema s.toml --label ill --epsilon 4 --delta 1e-6 --steps 2 --anyway --quiet"
        assert main(f"{fit} --out regression".split()) == 0
        DocumentClusters(2, public=public, epsilon=4.0, n_steps=1).fit(Encoder()(["cough"] * 100)).save("groups")
    (folder / "bare").mkdir()
    (folder / "sentences").mkdir()
    Budget.create(folder / "paid", 3.0, 1e-6, dataset="ward7")
    Budget.create(folder / "persons", 9.0, 1e-5, dataset="notes", unit="person")
