"""Options that several commands share."""

from ..options import (
    INTEGER,
    POSITIVE,
    PROBABILITY,
    WHOLE,
    Entry,
    Group,
    Kind,
    Option,
    ending,
    file,
    folder,
    setting,
    switch,
)

THREADS = Kind(int, lambda v: v >= 1 or v == -1, "a number of threads, or -1 for all")
SEED = Kind(int, lambda v: 0 <= v < 2**32, "a whole number from 0 to 2**32 - 1")
SUCCESS = Kind(float, lambda v: 0.5 < v < 1, "a number between 0.5, which is chance, and 1")
SHARE = Kind(float, lambda v: 0 < v <= 1, "a share above 0, at most 1")

_FORMATS = "csv, jsonl, parquet, xlsx, folder, npz, mtx, docword, ldac, svmlight or svmlight0"
RELATIONS = ("add_remove", "replace_one")
DELTA = "default min(1e-5, 0.1 / records)"
LABELS = "privacy units of the records: one label a line, or a .npy array"
ATTACK = "instead of epsilon: how often the best attacker may guess right about one person, such as 0.6"
ANYWAY = switch("--anyway", "fit although the forecast, from public numbers, expects nothing but noise")
QUIET = switch("--quiet", "no progress")
SET = Option(
    "--set",
    "any other setting of the estimator or its options, as in Python",
    metavar="NAME=VALUE",
    repeated=True,
    default=(),
)
JSON = switch("--json", "print one JSON object, and nothing else")
JOBS = setting("--jobs", "threads, -1 for all", THREADS, dest="n_jobs")
FORCE = switch("--force", "replace an existing model")
NAMES = file("--names", "names of a matrix's columns, one a line")
TOPIC_WORDS = Option("--words", "words a topic, default 10", WHOLE, default=10)
COARSE_WORDS = file(
    "--coarse-words",
    "coarse words to drop: FILE, public:LANGUAGE or none (default of the language, which is for en)",
    words=("none", "public:"),
)
VERIFY_KEY = file("--verify-key", "Ed25519 public key (PEM) that must have signed the model")
CLASS = Option("--class", "class of a model of your own", dest="cls", metavar="MODULE:CLASS")
_DISTINCT = "distinct words of a usual document or person, public; default: N ** 0.9"
DISTINCT_WORDS = setting("--distinct-words", _DISTINCT, POSITIVE, metavar="M")
_LENGTH = "about the words of a usual document, without stop words; default 40"
DOC_LENGTH = setting("--doc-length", _LENGTH, WHOLE, metavar="N")
#: The place and form of a table of numbers.
TABLE = (file("--out", ".csv or .npy; default: print", ending(".csv", ".npy")), JSON)
#: Rows of numbers, or a table with a schema.
ROWS = (
    file(
        "input",
        "rows: .npy, .npz (scipy sparse) or shards; with a schema CSV, Excel, JSON Lines or Parquet",
        metavar="INPUT",
    ),
    file("--schema", "the table's columns (TOML, see vips-fast schema); predict: default, the one in DIR"),
)


def model(written_by: str) -> tuple[Option, Option]:
    """Give the options for a fitted model's folder and signature key."""
    return folder("model", f"folder written by {written_by}"), VERIFY_KEY


def sampling(default: str | None = None) -> tuple[Option, Option]:
    """Give the way to draw minibatches, and the neighboring relation."""
    ways = ("poisson", "without_replacement", "full", "random_allocation")
    own = default or "the model's own; random_allocation for shards with bins"
    what = f"way to draw minibatches: {', '.join(ways)}; default: {own}"
    return (
        setting("--sampling", what, default=default, choices=ways, metavar="WAY"),
        setting("--relation", "neighboring relation; default: the sampling's own", choices=RELATIONS),
    )


_WORDS = Group(
    "words",
    Option("--vocab-size", "most words: default 8000 of public:LANGUAGE, planned for private", WHOLE),
    Option("--vocab-share", "private: share of epsilon for the vocabulary; default: planned", PROBABILITY),
    Option("--max-share", "private: drop words of more than this share of persons, default 0.3", SHARE, default=0.3),
    Option(
        "--analyzer",
        "unicode (default), jieba, sudachi or pythainlp (default for --language zh, ja, th), or paper: only a to z",
        choices=("unicode", "paper", "jieba", "sudachi", "pythainlp"),
    ),
    Option("--language", "of the texts, for stop words and segmenter, such as de; default en"),
    file(
        "--stop-words",
        "words to drop: FILE, public:LANGUAGE or none (default with --vocab FILE, else of the language)",
        words=("none", "public:"),
    ),
    COARSE_WORDS,
    Option("--min-length", "fewest characters of a word, default 1", WHOLE, default=1),
    Option(
        "--numbers",
        "words with digits: keep (default with --vocab FILE), mixed (else: only those with letters too) or drop",
        choices=("keep", "mixed", "drop"),
    ),
    Option(
        "--ngrams",
        "2 or 3: also pairs (and triples) of adjacent words, default 1",
        INTEGER,
        choices=(1, 2, 3),
        default=1,
    ),
)


def documents(*, learns: bool) -> tuple[Entry, ...]:
    """Give the options for documents and, for learned words, tokens.

    The latter are for a command that learns words: how text becomes words.
    """
    formats = (
        "CSV, Excel, JSON Lines, Parquet, a folder of .txt files, - (standard input), "
        "counts (CSR .npz, MatrixMarket, UCI docword, LDA-C, svmlight), shards, or the word docstrings; "
        "text files also gzip, bzip2 or xz"
    )
    words = "the vocabulary: FILE with one word a line"
    if learns:
        words += (
            "; public:LANGUAGE, its commonest words; or private (default for raw records), purchased from the budget"
        )
    columns = "columns of the text, joined by a line break; default: " + ("text" if learns else "the fit's columns")
    where = (
        file("input", formats, metavar="INPUT", words=("docstrings", "-")),
        file("--vocab", words, words=("private", "public:") * learns),
        Option("--format", f"{_FORMATS}; default: detected"),
        Option("--features", "number of words, if no file gives it", WHOLE),
        Option("--text", columns, metavar="COLUMN", nargs="+"),
        Option("--encoding", "of text files, default utf-8", default="utf-8"),
        Option("--lemmas", "a public function from a word to its base form", metavar="MODULE:FUNCTION"),
    )
    return (*where, _WORDS) if learns else where
