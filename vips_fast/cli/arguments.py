"""Types of arguments, and the arguments that several commands share.

An option of a fit whose destination is the name of an estimator's parameter, or of a field of its ``options``, reaches
the estimator by that name. What is not given is None and left to the estimator's own default.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from .help import examples, usage, wrapped
from .output import say


class Parser(argparse.ArgumentParser):
    """argparse, with errors of one line, and help that is no wider than the terminal."""

    def format_usage(self) -> str:
        """What the command requires."""
        return "\n".join([*wrapped(usage(self), "usage: ", " " * 11), ""])

    def format_help(self) -> str:
        """As argparse's, with examples."""
        self.usage = self.format_usage().removeprefix("usage: ").rstrip().replace("%", "%%")
        text = super().format_help()
        self.usage = None
        return "\n".join(filter(None, [text, examples(self.prog.partition(" ")[2]), self.ending()]))

    def ending(self) -> str:
        """What stands last in the help, in whole lines."""
        return ""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with exit code 2."""
        say(f"error: {message} (see {self.prog} --help)")
        raise SystemExit(2)


def command(owner: Any, name: str, run: Callable[[argparse.Namespace], int], help: str) -> Parser:
    """A new command among those of ``owner``; its arguments are added to what is returned."""
    parser: Parser = owner.add_parser(name, help=help, description=help, allow_abbrev=False)
    parser.set_defaults(run=run)
    return parser


# Types: argparse puts their messages behind the argument's name.


@dataclass(frozen=True)
class Kind:
    """A type of arguments: text that ``convert`` turns into a good value."""

    convert: Callable[[str], Any]
    good: Callable[[Any], bool]
    expected: str

    def __call__(self, text: str) -> Any:
        """The value; raises ArgumentTypeError where the text is none."""
        try:
            value = self.convert(text)
        except ValueError:
            value = None
        if value is None or not self.good(value):
            raise argparse.ArgumentTypeError(f"{text!r}: expected {self.expected}")
        return value


positive = Kind(float, lambda v: 0 < v < math.inf, "a number above 0")
probability = Kind(float, lambda v: 0 < v < 1, "a number between 0 and 1")
whole = Kind(int, lambda v: v >= 1, "a whole number of at least 1")
integer = Kind(int, lambda v: True, "a whole number")
jobs = Kind(int, lambda v: v >= 1 or v == -1, "a number of threads, or -1 for all")
seed = Kind(int, lambda v: 0 <= v < 2**32, "a whole number from 0 to 2**32 - 1")


def ending(*suffixes: str) -> Kind:
    """The name of a file that ends in one of these."""
    return Kind(str, lambda v: v.endswith(suffixes), f"a name that ends in {' or '.join(suffixes)}")


# Arguments that several commands share.


def add_model(parser: Parser, written_by: str) -> None:
    """The folder of a fitted model, and the key that its signature is held against."""
    parser.add_argument("model", metavar="DIR", help=f"folder written by {written_by}")
    parser.add_argument("--verify-key", metavar="FILE", help="Ed25519 public key (PEM) that must have signed the model")


def add_sampling(parser: Any, default: str | None = None) -> None:
    """How minibatches are drawn, and the neighbouring relation."""
    # Where there is no model's own, there are no persons whose rows could be drawn.
    ways = ("poisson", "without_replacement", "full", "random_allocation", "rows")[: 5 if default is None else 4]
    parser.add_argument(
        "--sampling",
        default=default,
        choices=ways,
        metavar="WAY",
        help=f"how minibatches are drawn: {', '.join(ways)}; default: "
        + (default or "the model's own, which may be random_allocation for shards; rows: of persons, one by one"),
    )
    relations = ("add_remove", "replace_one")
    parser.add_argument("--neighbors", choices=relations, help="default: what the sampling is accounted under")


def add_table(parser: Any) -> None:
    """Where a table of numbers goes, and how."""
    parser.add_argument("--out", metavar="FILE", type=ending(".csv", ".npy"), help=".csv or .npy; default: print")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")


def add_jobs(parser: Any, **default: int) -> None:
    """Number of threads."""
    parser.add_argument("--jobs", dest="n_jobs", type=jobs, help="threads, -1 for all", **default)


def add_fit_groups(parser: Parser) -> tuple[Any, Any, Any]:
    """Options that all fits share; returns their three groups: model, privacy and run."""
    model = parser.add_argument_group("model")
    model.add_argument("--out", metavar="DIR", required=True, help="folder to write")
    model.add_argument("--force", action="store_true", help="replace a model that is there")
    model.add_argument("--transcript", metavar="DIR", help="new folder that keeps the releases, for `vips-fast verify`")
    model.add_argument("--report", action="store_true", help="also write report.html, a page for who signs for it")
    model.add_argument("--paper", action="store_true", help="the paper's own algorithm and constants, to compare with")
    privacy = parser.add_argument_group("privacy")
    goal = privacy.add_mutually_exclusive_group()
    goal.add_argument("--epsilon", dest="target_epsilon", type=positive, help="target epsilon")
    goal.add_argument("--noise-multiplier", type=positive, help="instead of a target")
    goal.add_argument("--non-private", dest="private", action="store_const", const=False, help="no noise, no guarantee")
    privacy.add_argument("--delta", dest="target_delta", type=probability, help="default min(1e-5, 0.1 / records)")
    privacy.add_argument(
        "--budget",
        metavar="FILE",
        help="the data set's budget, which pays for the fit; without a target, the fit takes all that is left",
    )
    add_sampling(privacy)
    privacy.add_argument("--records", dest="n_records", type=whole, help="public number of records")
    what = "whose each record is, one label a line (or a .npy array): then persons are protected, with all they have"
    privacy.add_argument("--groups", metavar="FILE", help=what)
    what = "tables: the column that says whose each record is, in place of --groups"
    privacy.add_argument("--person", metavar="COLUMN", help=what)
    privacy.add_argument("--unit", metavar="NAME", help="what the statement calls who owns records, default person")
    what = "most records of a person that are used at one visit, default all"
    privacy.add_argument("--rows-per-group", type=whole, metavar="N", help=what)
    privacy.add_argument(
        "--invalid",
        choices=("raise", "drop"),
        help="records with invalid values: refuse the data (default), or let them contribute nothing and tell nobody",
    )
    run = parser.add_argument_group("run")
    run.add_argument("--batch-size", type=whole, help="expected records a step")
    run.add_argument("--steps", dest="n_steps", type=whole, help="number of steps")
    add_jobs(run)
    where = run.add_mutually_exclusive_group()
    what = "a Dask scheduler, tls://HOST:PORT or tcp://HOST:PORT, whose workers compute the sums: the same result"
    where.add_argument("--scheduler", metavar="ADDRESS", help=what)
    where.add_argument("--workers", type=whole, metavar="N", help="the same on as many processes of this machine")
    parser.set_defaults(backend=None)  # what these two stand for, once it is there
    run.add_argument("--seed", dest="random_state", type=seed, help="seed of what is public, not of the noise")
    run.add_argument("--quiet", action="store_true", help="no progress")
    run.add_argument("--config", metavar="FILE", help="job file (TOML); what is given beside it comes first")
    run.add_argument("--json", action="store_true", help="print the result as one JSON object, and nothing else")
    run.add_argument("--log-file", metavar="FILE", help="add a line for each event of the run to this file")
    what = "steps between checkpoints; default: so that they cost below 2 %%"
    run.add_argument("--checkpoint-every", type=whole, metavar="N", help=what)
    what = "go on with the run that was stopped, if there is one; a finished one spends nothing more"
    run.add_argument("--resume", action="store_true", help=what)
    run.add_argument("--no-verify", action="store_true", help="shards: check the sizes of their files alone")
    parser.set_defaults(check=False)  # that of `config`
    return model, privacy, run
