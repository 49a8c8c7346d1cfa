"""Files of every kind, changed at random, and the commands of the package that read them.

A change is blind (bits, bytes, pieces), or it keeps the form: another value in a JSON document or in a log, with new
hashes, another array in an .npz file, another field in a line. A reader may refuse a file or take it. It
may not show a traceback or an internal error, and may not wait.
"""

import contextlib
import io
import json
import random
import re
import shutil
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from advised import Trial
from written import write_notes

from vips_fast.cli import main
from vips_fast.data import public_vocabulary
from vips_fast.engine.ledger import Ledger
from vips_fast.jobs.folder import run_folder
from vips_fast.store.log import encode
from vips_fast.store.npz import write_npz

WORDS = ("cough", "fever", "rash", "sleep", "work")
SCHEMA = '[columns.age]\nkind = "number"\nlow = 0\nhigh = 100\n[columns.ill]\nkind = "binary"\nvalues = ["no", "yes"]\n'
#: Values and pieces that readers stumble on.
# fmt: off
VALUES = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**200, 1e308, -0.0, 0.5, "", "a", "NaN", "1e999", [], {}, [[]], [0],
    "x" * 3000, "\x00", "\ud800", "../../etc/passwd", {"a": 1}, [None] * 40, float("nan"), float("inf"), "é\u202e",
]
PIECES = [
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"'", b",", b"\n", b"\r", b"{", b"[" * 3000, b"}", b"9" * 400,
    b"-1", b"1e999", b"nan", b"null", b"0x1f", b"\xed\xa0\x80", b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b" " * 5000, b"=",
    b"#",
]
# fmt: on


def blind(data, chosen):
    """Flip, cut, repeat, move or put in pieces, up to three times."""
    data = bytearray(data)
    for _ in range(chosen.choice((1, 1, 2, 3))):
        at, to = sorted(chosen.randrange(len(data) + 1) for _ in range(2))
        kind = chosen.randrange(7)
        if kind == 0 and data:
            data[at - 1] ^= 1 << chosen.randrange(8)
        elif kind == 1 and data:
            data[at - 1] = chosen.randrange(256)
        elif kind == 2:
            del data[at : min(to, at + chosen.choice((1, 4, 10**6)))]
        elif kind == 3:
            data[at:at] = data[at : min(to, at + 2000)]
        elif kind == 4:
            data[at:at] = chosen.choice(PIECES)
        elif kind == 5:
            data[at : at + chosen.randrange(1, 9)] = chosen.choice(PIECES)
        else:
            del data[at:]
    return bytes(data)


def of_value(value, chosen):
    """Another JSON value, in one place of a document."""
    if isinstance(value, (dict, list)) and value and chosen.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key, copied = chosen.choice(keys), value.copy()
        if chosen.random() < 0.1:
            del copied[key]
        elif isinstance(copied, dict) and chosen.random() < 0.05:
            copied[str(chosen.choice(VALUES))[:20]] = copied.pop(key)
        else:
            copied[key] = of_value(value[key], chosen)
        return copied
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{16,}", value) and chosen.random() < 0.5:
        return value[::-1]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and chosen.random() < 0.4:
        return chosen.choice((value + 1, -value, value * 1e9, value / 3, int(value)))
    return chosen.choice(VALUES)


def of_json(data, chosen):
    said = of_value(json.loads(data), chosen)
    with contextlib.suppress(Exception):
        # A forger computes all hashes anew.
        said["ledger"] = Ledger.of(said["ledger"]["records"]).to_dict()
    return json.dumps(said).encode()


def of_log(data, chosen):
    """Another record, with a chain that holds."""
    records = [json.loads(line)["record"] for line in data.splitlines()[1:]]
    for record in records:
        del record["number"], record["before"]
    return encode(data[16:24].strip().decode(), of_value(records, chosen))


def of_arrays(data, chosen):
    """Another array: missing, renamed, of another type, shape or value."""
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    name = chosen.choice(sorted(arrays))
    array, kind, out = arrays.pop(name), chosen.randrange(8), io.BytesIO()
    if kind == 1:
        arrays[name + "x"] = array
    elif kind == 2:
        arrays[name] = array.astype(chosen.choice(("<f4", ">i8", "<u1", "<U5", "?", "<c16")))
    elif kind == 3:
        arrays[name] = array.reshape(chosen.choice(((-1,), (1, -1), (-1, 1), (1, 1, -1))))
    elif kind == 4:
        arrays[name] = array[: len(array) // 2] if array.ndim else array[None]
    elif kind == 5:
        arrays[name] = np.concatenate((array, array)) if array.ndim else np.zeros((0, 3))
    elif kind >= 6 and array.size:
        array = array.copy()
        value = chosen.choice((0, -1, 2**31, 2**62) if array.dtype.kind in "iu" else (np.nan, np.inf, -1e308))
        with contextlib.suppress(Exception):
            array.reshape(-1)[chosen.randrange(array.size)] = value
        arrays[name] = array
    (write_npz if chosen.random() < 0.5 else lambda file, all: np.savez(file, **all))(out, arrays)
    return out.getvalue()


def of_lines(data, chosen):
    """Change a field, or repeat, move or drop a line."""
    lines = data.split(b"\n")
    at, kind = chosen.randrange(len(lines)), chosen.randrange(5)
    if kind == 0:
        lines.insert(chosen.randrange(len(lines)), lines[at])
    elif kind == 1:
        lines.insert(chosen.randrange(len(lines)), lines.pop(at))
    elif kind == 2:
        del lines[at]
    else:
        fields = re.split(rb"([ ,:=\t\"])", lines[at])
        value = json.dumps(chosen.choice(VALUES)).encode() if kind == 3 else chosen.choice(PIECES)
        fields[chosen.randrange(len(fields))] = value
        lines[at] = b"".join(fields)
    return b"\n".join(lines)


def of_parquet(data, chosen):
    """Return a column of another type, with gaps, or of another name."""
    table, out = pq.read_table(io.BytesIO(data)), io.BytesIO()
    name = chosen.choice(table.column_names)
    values = table[name].to_pylist()
    values[chosen.randrange(len(values))] = None
    others = [range(len(values)), [[one] for one in values], [{"a": one} for one in values], [None] * len(values)]
    others += [values, [one and one.encode("utf-16") for one in values]]
    column = chosen.choice([*map(pa.array, others), pa.array(values).dictionary_encode()])
    other = chosen.choice((name, name, "text", ""))
    pq.write_table(table.set_column(table.column_names.index(name), other, column), out)
    return out.getvalue()


FORMS = {
    ".json": of_json,
    ".jsonl": of_log,
    ".npz": of_arrays,
    ".parquet": of_parquet,
    **dict.fromkeys((".csv", ".txt", ".toml", ".ndjson"), of_lines),
}
LOGS = ("budget",)


def changed(name, data, chosen):
    """Return a changed file. Half of all changes keep its form, if it has one that is known here."""
    form = of_log if name in LOGS else FORMS.get(Path(name).suffix)
    if form is not None and chosen.random() < 0.5:
        with contextlib.suppress(LookupError, ValueError, TypeError, OverflowError, AttributeError, EOFError):
            return form(data, chosen)
    return blind(data, chosen)


def called(line):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(line.split())
    return code, out.getvalue()


def make(root):
    """Make a valid file of each kind in a folder."""
    rng = np.random.default_rng(0)
    write_notes(root / "notes.csv", 60)
    rows = [line.split(",") for line in (root / "notes.csv").read_text().splitlines()[1:]]
    (root / "notes.ndjson").write_text("".join(json.dumps({"patient": p, "note": n}) + "\n" for p, n in rows))
    patients, notes = zip(*rows)
    pq.write_table(pa.table({"patient": patients, "note": notes}), root / "notes.parquet")
    counts = sp.csr_array(rng.poisson(0.8, (60, len(WORDS))).astype(np.int32))
    sp.save_npz(root / "counts.npz", counts)
    (root / "words.txt").write_text("\n".join(WORDS) + "\n")
    (root / "texts").mkdir()
    for number, (_, note) in enumerate(rows[:30]):
        (root / "texts" / f"{number}.txt").write_text(note)
    (root / "names.txt").write_text("a\nb\nc\n")
    (root / "groups.txt").write_text("".join(f"g{i // 2}\n" for i in range(60)))
    vectors = ((word, *map("{:.3f}".format, rng.normal(size=4))) for word in public_vocabulary("public:en", size=60))
    (root / "vectors.txt").write_text("".join(f"{' '.join(vector)}\n" for vector in vectors))
    table = (f"{age},{'yes' if age > 50 else 'no'}\n" for age in rng.integers(0, 100, 60))
    (root / "rows.csv").write_text("age,ill\n" + "".join(table))
    (root / "schema.toml").write_text(SCHEMA)
    np.save(root / "rows.npy", rng.normal(size=(60, 3)))
    np.save(root / "labels.npy", np.arange(60) % 2)
    images = rng.integers(0, 256, (20, 3, 3), dtype=np.uint8)
    np.save(root / "images.npy", images)
    (root / "books").mkdir()
    lda = f"fit lda {root}/notes.csv --text note --delta 1e-5 --steps 2 --quiet --topics 2 --doc-length 12 --anyway"
    lda, words = f"{lda} --seed 1", f"--vocab {root}/words.txt --epsilon 4"
    blr = "fit blr --epsilon 4 --delta 1e-3 --steps 2 --quiet"
    for line in (
        f"{lda} {words} --out {root}/topics --transcript {root}/topics-releases",
        f"{lda} --language en --vocab private --max-share 1 --epsilon 15 --out {root}/bought --person patient "
        f"--transcript {root}/bought-releases",
        f"{blr} {root}/rows.csv --schema {root}/schema.toml --label ill --out {root}/table "
        f"--transcript {root}/table-releases",
        f"shard {root}/notes.csv {root}/shards --text note --person patient --vocab {root}/words.txt",
        f"budget create {root}/books/budget --epsilon 20 --delta 1e-5 --dataset d",
        f"{lda} {words} --out {root}/other --budget {root}/books/budget",
        f"publish {root}/table --out {root}/public",
        f"{blr} {root}/rows.npy --label {root}/labels.npy --names {root}/names.txt --out {root}/named --report "
        f"--transcript {root}/named-releases",
    ):
        code, said = called(line)
        assert code == 0, said
    shutil.rmtree(root / "other")
    write_notes(root / "many.csv", 200)
    for name in JOBS:
        stopped(root, name)


#: Jobs that are stopped: a fit to public words, and a purchase; how far, in parts of their file calls.
JOBS = {"job": ("notes.csv", "words.txt", 2 / 3), "buying": ("many.csv", "private", 0.4)}


def trial_of(root, name, new=True):
    """Return a job in its place, which is there already if it is not ``new``."""
    notes, vocab, _ = JOBS[name.removesuffix("-whole")]
    words = vocab if vocab == "private" else root / vocab
    command = f"fit lda {root / notes} --text note --person patient --topics 2 --records 400 --epsilon 8 --steps 3"
    more = " --language en --max-share 1" * (vocab == "private")
    return Trial(root / name, f"{command} --anyway --jobs 1 --vocab {words}{more}", True, new)


def stopped(root, name):
    """Kill a job before one of its file calls."""
    whole, trial = trial_of(root, f"{name}-whole"), trial_of(root, name)
    calls = whole.calls("SIGKILL")
    for path in (whole.folder, whole.beside):
        shutil.rmtree(path)
    code, said = trial.run(trial.line, int(JOBS[name][2] * calls), "SIGKILL")
    assert code == -signal.SIGKILL, said
    run = run_folder(trial.out)
    assert run.exists() and (name == "job") != (run / "words" / "ledger.jsonl").exists()


def targets(root):
    """Map a name to the file that is to change, what is copied with it, and the commands that read it."""
    found = {}

    def add(name, file, *commands, copied=None):
        found[name] = (file, copied or file, commands)

    lda = "fit lda --epsilon 4 --delta 1e-5 --steps 1 --topics 2 --doc-length 9 --quiet --anyway --seed 1 --out made"
    topics = f"{lda} --vocab {root}/words.txt"
    blr = "fit blr --epsilon 4 --delta 1e-3 --steps 1 --quiet --out made"
    both = f"{blr} {root}/rows.npy --label {root}/labels.npy"
    drop = "--invalid drop"
    for name in ("csv", "ndjson", "parquet"):
        file = root / f"notes.{name}"
        read = f"{file} --text note{' --format jsonl' if name == 'ndjson' else ''}"
        predict = f"predict {root}/topics {read}"
        add(f"records {name}", file, f"{topics} {read}", f"{topics} {read} --person patient {drop}", predict)
    plain = f"{topics} {root}/counts.npz"
    add("counts", root / "counts.npz", f"{plain} --format npz", f"{plain} --format npz {drop}")
    add("a text of a folder", root / "texts" / "7.txt", f"{topics} {root}/texts --format folder")
    add("names", root / "names.txt", f"{both} --names {root}/names.txt")
    add("vocabulary", root / "words.txt", plain)
    add("groups", root / "groups.txt", f"{plain} --groups {root}/groups.txt")
    prior = "prior --vocab-size 60 --stop-words none --topics 2 --out mended"
    add("word vectors", root / "vectors.txt", f"{prior} --vectors {root}/vectors.txt")
    table = f"{blr} {root}/rows.csv --schema {root}/schema.toml --label ill"
    add("table csv", root / "rows.csv", table, f"predict {root}/table {root}/rows.csv")
    add("schema", root / "schema.toml", table)
    add("rows npy", root / "rows.npy", both)
    add("labels npy", root / "labels.npy", both)
    sbn = "--components 2 --epsilon 4 --delta 1e-3 --steps 2 --anyway --quiet --out made"
    add("images", root / "images.npy", f"fit sbn {root}/images.npy {sbn}")
    budget = root / "books" / "budget"
    shown = f"budget show {budget}"
    add("budget", budget, shown, f"{shown} --out mended", f"{plain} --budget {budget}", copied=root / "books")
    given = {"topics": "notes.csv", "bought": "notes.csv", "table": "rows.csv", "named": "rows.npy"}
    for kind, data in given.items():
        folder, releases = root / kind, root / f"{kind}-releases"
        read = (f"show {folder}", f"predict {folder} {root}/{data}", f"show {folder} --out page.html")
        verify = f"verify {folder} --transcript {releases}"
        for file in sorted(path for path in folder.iterdir() if path.is_file()):
            add(f"{kind} {file.name}", file, *read, verify)
        for file in sorted(path for path in releases.rglob("*") if path.is_file()):
            add(f"{kind} transcript {file.name}", file, verify)
    for file in sorted(path for path in (root / "shards").rglob("*") if path.is_file()):
        add(f"shards {file.relative_to(root / 'shards')}", file, f"{lda} {root}/shards")
    for each in JOBS:
        trial = trial_of(root, each, new=False)
        for file in sorted(path for path in trial.folder.rglob("*") if path.is_file() and path.name != "budget.lock"):
            name, again = f"{each} {file.relative_to(trial.folder)}", f"{' '.join(trial.line)} --resume"
            add(name, file, again, copied=trial.folder)
    return found


class Waits(Exception):
    """A reader takes too long."""


@contextlib.contextmanager
def at_once(seconds=20):
    """Raise `Waits` if something takes too long."""

    def late(*_):
        raise Waits

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def unread(root):
    """List the files that no command takes as they are."""
    codes = {}
    for _, copied, commands in targets(root).values():
        if commands[0] not in codes:  # many files have one reader
            with restored(root, copied):
                codes[commands[0]] = called(commands[0])[0]
    return [name for name, (*_, commands) in targets(root).items() if codes[commands[0]]]


@contextlib.contextmanager
def restored(root, copied):
    """Undo a command's changes, and remove its files."""
    kept = root / "kept"
    (shutil.copytree if copied.is_dir() else shutil.copy)(copied, kept)
    try:
        yield
    finally:
        if copied.is_dir():
            shutil.rmtree(copied)
        kept.replace(copied)
        for made in ("made", "made.run"):
            shutil.rmtree(made, ignore_errors=True)
        for made in ("page.html", "mended"):
            Path(made).unlink(missing_ok=True)


def fuzz(root, names, number, seed):
    """Change files, and run a command on each. Returns counts, and (file, seed, fault) of each fault."""
    known, counts, faults = targets(root), Counter(), []
    for place in range(number):
        name = names[place % len(names)]
        file, copied, commands = known[name]
        chosen = random.Random(f"{name} {seed} {place}")
        command, data = chosen.choice(commands), changed(file.name, file.read_bytes(), chosen)
        with restored(root, copied):
            file.unlink()
            file.write_bytes(data)
            try:
                with at_once(30):
                    code, said = called(command)
            except BaseException as error:
                code, said = type(error).__name__, f"{type(error).__name__}: {error}"
            if code not in (0, 1, 2, 3) or "internal error" in said or "Traceback" in said:
                (root.parent / f"fault-{seed}-{place}").write_bytes(data)
                faults.append((name, seed, place, command, said.strip()[-500:]))
        counts[f"{name}: {'taken' if code == 0 else 'refused'}"] += 1
    return counts, faults
