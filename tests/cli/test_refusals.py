"""What a command refuses: one line with the option and the remedy, and no file is written, changed or charged."""

import shlex

import pytest
from written import SECRET


def tree(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


LDA = "fit lda docs.npz --vocab words.txt --topics 2 --steps 5 --doc-length 30 --epsilon 1 --out m --anyway"
NOTES = "fit lda notes.csv --text note --vocab words.txt --topics 2 --steps 2 --epsilon 2 --out m"
BLR = "fit blr X.npy --epsilon 1 --out m --quiet"
ROWS = "fit blr t.csv --schema s.toml --label ill --epsilon 5 --delta 1e-6 --out m --quiet"
COUNTS = "fit counts X.npy --label y.npy --epsilon 4 --out m --quiet"
SBN = "fit sbn answers.npy --components 2 --epsilon 1 --out m --anyway"
MIXTURE = "fit mixture answers.npy --components 2 --epsilon 1 --steps 4 --out m"
VECTORS = "fit mixture vectors.npy --components 2 --epsilon 1 --steps 4 --out m"
CLUSTERS = "fit clusters notes.csv --text note --vectors sentences --public-prior public.npz --epsilon 6 --out m"
SHARD = "shard docs.npz out --vocab words.txt"
TABULATE = "tabulate topics notes.csv --by ward,month --values values.toml --person patient --epsilon 2 --out m"
PRIOR = "prior notes.csv --language en --text note --vocab words.txt --topics 2 --stop-words none"
BUDGET = "budget create new --epsilon 3 --delta 1e-6 --dataset ward7"

REFUSED = {
    # Words, options and values
    "": "the following arguments are required: COMMAND",
    "nonsense": "invalid choice: 'nonsense'",
    "lda": "invalid choice: 'lda' (did you mean fit lda?)",
    "fit --topics 3": "the following arguments are required: COMMAND",
    "demo --out topics": "topics is not empty; expected another place",
    "predikt": "invalid choice: 'predikt' (did you mean predict?)",
    "fit lda": "required: INPUT, --out",
    "budget create new --epsilon 3": "required: --delta, --dataset",
    "plan --records 1000": "the following arguments are required: --epsilon",
    "fit lda docs.npz --topics 2 --out m": "one of the arguments --epsilon --noise-multiplier",
    f"{LDA} --noise-multiplier 1": "not allowed with argument",
    f"{LDA} --invalid skip": "argument --invalid: 'skip': expected one of raise, drop",
    f"{LDA} --workers a": "'a': expected a number of at least 1, or the address of a",
    f"{LDA} --delta 1": "argument --delta: '1': expected a number above 0 and below 1",
    f"{LDA} --seed -1": "argument --seed: '-1': expected a whole number from 0",
    f"{LDA} --epsilom 1": "unrecognized arguments: --epsilom 1 (did you mean --epsilon?)",
    "demo --epsilon -1": "argument --epsilon: '-1': expected a finite number above 0",
    "demo --epsilon nan": "'nan': expected a finite number above 0, such as 0.5",
    "demo --epsilon 1e400": "'1e400': expected a finite number above 0, such as 0.5",
    "demo --topics 0": "argument --topics: '0': expected a whole number of at least 1",
    "demo --jobs 0": "argument --jobs: '0': expected a number of threads",
    "demo --eps=1": "unrecognized arguments: --eps=1",
    "predict m x --out t.txt": "argument --out: 't.txt': expected a name that ends in .csv or .npy",
    # Texts and counts
    "fit lda notes.csv --language en --topics 2 --epsilon 1 --out m": "if the texts have another name, give --text",
    "start absent.csv": "FILE absent.csv: no such file or folder; expected CSV, Excel, ",
    f"{LDA} --batch-size 61": "--batch-size 61",
    f"{LDA} --batch-size 10 --sampling full": "--batch-size 10: leave it out with --sampling full",
    f"{LDA} --relation replace_one --sampling poisson": "expected 'add_remove' with --sampling poisson",
    f"{LDA} --set clip=2": "clip=2",
    f"{LDA} --format dsv": "--format dsv: expected one of 'npz'",
    f"{LDA} --transcript m/t": "is in use; expected another place",
    f"{LDA} --transcript m/..": "is in use; expected another place",
    f"{LDA} --vocab absent": "--vocab absent: no such file or folder; expected the vocabulary: FILE with one",
    f"{LDA} --steps 0": "argument --steps: '0': expected a whole number of at least 1",
    f"{LDA} --set dtype": "--set dtype: expected NAME=VALUE",
    f"{LDA} --set private=False": "--set private: expected --non-private",
    f"{NOTES} --vocab words.txt --vocab-size 3": "--vocab-size 3: leave it out, since --vocab",
    f"{LDA} --unit ward": "--unit ward: expected only with --person or --groups",
    f"{LDA} --set rows_per_group=3": "expected only with --person or --groups",
    f"{LDA} --groups two.txt": "--groups has shape (2,): expected (60,)",
    f"{LDA} --groups none.txt": "none.txt",
    f"{LDA} --records 60 --budget persons --delta 1e-5": "--unit record",
    f"{LDA} --budget paid --delta 1e-5": "--delta 1e-05",
    f"{LDA} --budget paid --delta 1e-6 --sampling without_replacement --batch-size 20": "replace_one",
    f"{LDA} --budget none": "--budget none: no such file or folder; expected budget of the data set, by vips-",
    f"{LDA.replace('docs.npz', 'bad.npz')}": "bad.npz: the matrix contains a negative count",
    f"{LDA.replace('docs.npz', 'shards')}": "--vocab: not with shards",
    f"{NOTES} --text body": "notes.csv: no column 'body'; it has ",
    f"{NOTES} --vocab public:tlh": "public:tlh: the package ",
    f"{NOTES} --format npz": "notes.csv: format npz has counts, no columns of text and persons",
    f"{NOTES} --public-prior any.npz": "not allowed with argument",
    "fit lda notes.csv --text note --epsilon 1 --public-prior public:fr --out m": "no public topics of this language",
    "fit lda notes.csv --text note --epsilon 1 --public-prior held.npz --out m": "expected a file of vips-fast prior",
    # Rows, labels and tables
    ROWS.replace("ill", "Ill"): "the schema has no column 'Ill'; it has 'age', 'work', 'ill'",
    BLR: "--label: expected a file of the labels, or with --schema their column",
    f"{BLR} --label y.npy --names y.txt": "60 names; expected 2",
    f"{BLR} --label nothing.npy": "nothing.npy",
    f"{BLR} --label y.npy --person who": "--person who: expected with --schema",
    f"{BLR.replace('blr', 'counts')} --label y.txt": "y.txt: expected one number",
    f"{BLR.replace('blr', 'counts')} --label text.npy": "not a .npy file of numbers",
    f"{BLR} --label bytes.txt": "bytes.txt: is not UTF-8 text",
    f"{BLR} --label two.txt": "--label has shape (2,)",
    f"{BLR} --label y.npy --classes 1 maybe": "--classes",
    f"{ROWS} --label income": "",
    f"{ROWS} --label age": "kind='number'",
    f"{ROWS} --person nobody": "'nobody'",
    f"{ROWS} --person ill": "--label, --person: expected another column for each",
    f"{ROWS} --person home --groups s.toml": "--groups: not allowed with argument --person",
    f"{ROWS} --names s.toml": "--names",
    f"{ROWS} --unit patient": "--unit patient: expected only with --person or",
    f"{ROWS.replace('t.csv', 'empty.csv')}": "empty",
    f"{ROWS.replace('t.csv', 'short.csv')}": "'work'",
    f"{ROWS} --schema open.toml": "column 'age': low=None, high=None: expected numbers, low < high",
    f"{COUNTS} --largest 0.5": "--largest 0.5: expected a number",
    f"{COUNTS} --label negative.txt": "--label: expected counts, whole numbers from 0",
    "fit counts t.csv --schema s.toml --label ill --epsilon 4 --out m": "classes; expected a number, or fit blr",
    f"{COUNTS} --label two.txt": "two.txt: expected one number on each line; fit blr",
    f"{BLR.replace('X.npy', 'shards')}": "shards of counts",
    f"{SBN.replace('answers.npy', 'shards')}": "shards of counts",
    f"{SBN} --person who": "--person who: this input has no columns",
    f"{SBN} --set sampling=tight": "sampling",
    f"{SBN.replace('answers.npy', 'text.npy')}": "text.npy",
    f"{SBN.replace('answers.npy', 'notes.csv')}": "notes.csv: not a .npy file of numbers",
    # Mixtures and clusters
    f"{MIXTURE.replace('answers.npy', 't.csv')} --schema s.toml --names two.txt": "--names: leave it out with --schema",
    f"{MIXTURE} --names two.txt": "2 names; expected 4",
    f"{MIXTURE} --set center=2": "'center' is not a setting of GaussianMixture",
    f"{MIXTURE} --person home": "--person home",
    f"{MIXTURE} --set radius=3": "--set radius: expected --radius",
    f"{MIXTURE.replace('answers.npy', 'words.txt')}": "expected a name that ends in .npy or .npz",
    f"{MIXTURE.replace('answers.npy', 'one.npy')}": "got shape (3,)",
    f"{VECTORS} --set projection=9": "projection=9: expected at most the 4 columns",
    f"{CLUSTERS} --public-prior notes.csv": "notes.csv",
    f"{CLUSTERS} --components 9": "expected at most 4",
    # Tables of topics
    f"{TABULATE} --by 'ward, town'": "has no list 'town'; expected the public values of ward, town",
    f"{TABULATE} --by '\"ward, old\",month'": "has no list 'ward, old'; expected the public values of ward, old, mo",
    f"{TABULATE} --by ward,ward": "'ward,ward': expected different names with commas between",
    f"{TABULATE} --by ward,,month": "'ward,,month': expected different names with commas between, in double quotes if",
    f"{TABULATE} --values notes.csv": "--values notes.csv: not a TOML file: ",
    f"{TABULATE} --text diary": "diary",
    f"{TABULATE} --epsilon 0": "epsilon",
    f"{TABULATE.replace(' --person patient', '')}": "--person: expected the column that tells persons apart",
    f"{TABULATE.replace('topics', 'regression')}": "holds a BayesianLogisticRegression",
    # Fitted models
    "show absent": "DIR absent: no such file or folder; expected folder written by fit, ",
    "show topics absent": "TABLES absent: no such file or folder; expected folders by tabulate",
    "show topics --out absent/page.html": "absent/page.html: no such folder: absent",
    "show topics --words 100000": "--words 100000: expected an integer in",
    "publish topics --out m --names words.txt": "--names: 6 were given; expected 2",
    "show topics --out page.txt": "page.txt': expected a name that ends in .html",
    "show topics --transcript t": "expected with --out, for the page",
    "show public:fr": "no public topics of this language are stored",
    "verify absent": "absent: no such file or folder",
    "verify topics --transcript absent": "--transcript absent: no such file or folder; expected folder written by fit",
    "predict bare X.npy": "model.json",
    "predict regression X.npy": "INPUT has 2 features, but BayesianLogisticRegression",
    "predict topics docs.npz --threshold 2": "--threshold: not for a topic model",
    "predict survey wide.npy": "9 columns",
    "predict survey rows": "shards",
    "predict network answers.npy --text words": "--text: not for a sigmoid belief network",
    # Data, priors, budgets, audits
    f"{SHARD} --label x": "--label x: expected with --schema",
    f"{SHARD} --groups two.txt --person p": "--person: not allowed with argument --groups",
    f"{SHARD} --groups two.txt": "--groups has shape",
    f"{SHARD} --groups long.txt": "expected one label for each record of docs.npz",
    f"{SHARD} --bins 0": "--bins",
    f"{SHARD.replace('out', 'shards')}": "exists",
    "shard notes.csv out --text note": "--vocab: expected a public vocabulary",
    f"{PRIOR} --out bare": "is a folder",
    f"{PRIOR} --topics 1": "--topics 1: expected an integer in [2, 10000]",
    f"{PRIOR} --vectors words.txt": "expected without INPUT",
    f"{PRIOR} --language ../en": "expected a code, such as en",
    "prior --vectors absent": "--vectors absent: no such file or folder; expected without INPUT: word vectors",
    "prior --vectors bare --language en --vocab-size 60": "vocab.txt: No such file",
    "prior --vectors words.txt --vocab-size 60 --language zz": "public:zz: the package ",
    f"{BUDGET} --epsilon 0": "epsilon",
    f"{BUDGET} --delta 1": "delta",
    f"{BUDGET} --dataset \\ ": "dataset",
    f"{BUDGET.replace('new', 'paid')}": "exists",
    "audit lda --set nonsense=1": "'nonsense' is not a setting of LatentDirichletAllocation: expected one of ",
    "audit lda --layers Q": "--layers: 'Q' is not one of A, B",
    "plan --records 1000 --vocab-size 100 --topics 200000000 --epsilon 1": "--topics 200000000: expected",
    "audit other": "argument MODEL: 'other': expected one of lda, ",
    "audit sbn --layers H": "--layers: 'H' knows no records of SigmoidBeliefNetwork",
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_refusal_says_why_and_leaves_everything_as_it_was(here, refused, line):
    before = tree(here)
    said = refused(*shlex.split(line))
    assert REFUSED[line] in said and SECRET not in said
    assert tree(here) == before
