"""The commands that take a fitted model."""

from typing import Any

from ..options import INTEGER, WHOLE, Option, command, ending, file, folder, switch
from .shared import CLASS, FORCE, JOBS, JSON, QUIET, ROWS, TABLE, TOPIC_WORDS, documents, model

_VOCAB = file("--vocab", "words of a topic model's columns; default: those in DIR")
_REPORTED = (*model("fit, or by a vocabulary's save"), TOPIC_WORDS, _VOCAB, CLASS)

PREDICT = command(
    "predict",
    "print each row's probabilities of classes or clusters, which are as private as the rows",
    *model("fit blr or fit mixture"),
    *ROWS,
    *TABLE,
    run="models:predict",
    examples=("model new.npz --out probabilities.csv", "types new.npy --out shares.csv"),
)

EFFECTS = command(
    "effects",
    "print a regression's effects on probabilities, averaged over PUBLIC or held-out rows, and its calibration there",
    *model("fit blr"),
    *ROWS,
    file("--labels", "of a matrix: the rows' labels, for the calibration; .npy, or lines"),
    Option("--label", "of a table: the column of labels, for the calibration", metavar="COLUMN"),
    Option("--bins", "parts of the rows, by their probability, default 10", WHOLE, default=10),
    run="logistic:effects",
    examples=("model heldout.csv --label income",),
)

TRANSFORM = command(
    "transform",
    "print each record's topic proportions or hidden units, which are as private as the records",
    *model("fit lda or fit sbn"),
    *documents(learns=False),
    Option("--threshold", "networks: as in fit sbn, if INPUT is images; default 1", INTEGER),
    *TABLE,
    JOBS,
    QUIET,
    run="models:transform",
    examples=("topics new.jsonl --text note --out proportions.npy",),
)

_AGAIN: dict[str, Any] = {"repeated": True, "default": ()}
_TABLES = "tables of the model, which page and statement then cover too; repeat for later ones"

REPORT = command(
    "report",
    "write a report of a model as one HTML page, from releases only; needs no data",
    *_REPORTED,
    file("--out", "an .html file", ending(".html"), required=True),
    folder("--tables", _TABLES, metavar="TABLES", **_AGAIN),
    file("--audit", "report of an audit, as vips-fast audit --json wrote it"),
    file("--budget", "the privacy budget that the fit spent from, to show its rest"),
    Option("--dataset", "the data set's name, for the page; default: the budget's", metavar="NAME"),
    Option("--date", "the records' date, for the page, such as 'July 2026'", metavar="TEXT"),
    folder("--transcript", "the fit's transcript: the report says whether the model follows from it"),
    run="models:report",
    examples=("topics --out topics.html --transcript releases",),
)

SHOW = command(
    "show",
    "print the short form of a model's report; needs no data",
    *_REPORTED,
    switch("--all", "list all effects of a regression, and not only the largest"),
    JSON,
    run="models:show",
    examples=("topics", "topics --json"),
)

VERIFY = command(
    "verify",
    "make a model again from its releases, without the data, and compare every file; or check a publication",
    *model("fit or by publish"),
    folder(
        "--transcript",
        "folder written by fit --transcript; default DIR.releases; repeat for each part of a publication",
        **_AGAIN,
    ),
    CLASS,
    JSON,
    run="models:verify",
    examples=("topics", "topics --transcript releases", "public --verify-key public.pem"),
)

SIGN = command(
    "sign",
    "sign a model: arrays, settings and ledger, not the text files beside them; or all files of a publication",
    folder("model", "folder written by fit or by publish"),
    file("--key", "private key (PEM, without a password): Ed25519, of a publication P-256", required=True),
    run="models:sign",
    examples=("topics --key private.pem",),
)

PUBLISH = command(
    "publish",
    "put a model, its tables and one page of all into a folder; spends nothing and needs no data",
    folder("parts", "folder of the model, then the folders of its tables in their order", nargs="+"),
    folder("--out", "folder to write", required=True),
    file("--about", "public facts about the data (TOML), for the page and the registry of deployments"),
    file("--names", "names of the topics or clusters, one a line, made from released words"),
    file("--categories", "name topics by public categories: public:en, or FILE", words=("public:",)),
    file("--key", "sign all files: P-256 private key (PEM, without a password)"),
    FORCE,
    run="models:publish",
    examples=("topics topics-tables --out public --about about.toml --categories public:en --key private.pem",),
)

CLEAN = command(
    "clean",
    "remove the files that killed processes left in or beside a folder, and a model's run folder",
    folder("folder", "OUT, OUT.run, or a folder, such as a budget's"),
    switch("--force", "also remove a finished fit whose model is not written"),
    run="models:clean",
    examples=("topics.run",),
)
