"""The table of the shell: every command, its options and its examples.

A new option is one entry here. The parser, the job file and the help then have it.
"""

from ..options import Option, command, switch
from .fits import DRIFT, FIT, TABULATE
from .models import CLEAN, EFFECTS, PREDICT, PUBLISH, REPORT, SHOW, SIGN, TRANSFORM, VERIFY
from .tools import AUDIT, BUDGET, DEMO, INFO, PLAN, PRIOR, PRIVACY, SCHEMA, SHARD, START

VERSION = Option("--version", "print the version", const=True)

#: The program itself, with all commands inside.
PROGRAM = command(
    "",
    "Fit models to private records under differential privacy, by variational Bayes.",
    VERSION,
    switch("--debug", "show the traceback of an error"),
    examples=(
        "start notes.csv",
        "demo",
        "fit lda notes.parquet --text note --person patient --topics 20 --epsilon 2 --out topics",
        "fit blr table.csv --schema schema.toml --label income --epsilon 0.5 --out model",
        "privacy --records 400000 --batch 20000 --steps 20 --epsilon 1 --delta 1e-6",
    ),
    inner=(
        *(START, DEMO, FIT, TABULATE, DRIFT, PLAN, CLEAN, SCHEMA, SHARD, PRIOR, PREDICT),
        *(EFFECTS, TRANSFORM, PRIVACY, BUDGET, PUBLISH, VERIFY, SIGN, AUDIT, REPORT, SHOW, INFO),
    ),
)
