"""``privacy``: epsilon of a run, or the noise that a target needs."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import add_sampling, command, positive, probability, whole
from .output import warn_of_delta, width

if TYPE_CHECKING:
    from ..accounting import PrivacyEvent


def add(commands: Any) -> None:
    """Add ``privacy``."""
    parser = command(commands, "privacy", privacy, "epsilon of a run, or the noise that a target needs")
    parser.add_argument("--records", metavar="N", type=whole, required=True, help="number of records")
    parser.add_argument("--batch", metavar="N", type=whole, help="expected batch size, default: all records")
    parser.add_argument("--steps", metavar="N", type=whole, required=True, help="number of steps")
    parser.add_argument("--delta", metavar="X", type=probability, required=True)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--noise-multiplier", metavar="X", type=positive, help="to know epsilon")
    goal.add_argument("--epsilon", metavar="X", type=positive, help="to know the noise multiplier")
    add_sampling(parser, "poisson")
    parser.add_argument("--accountant", metavar="NAME", help="default: the tightest sound one")
    parser.add_argument("--compare", action="store_true", help="a table of all accountants")
    parser.add_argument("--plot", metavar="FILE", help="epsilon against steps, as .png, .pdf, .svg")


def privacy(args: argparse.Namespace) -> int:
    """Print epsilon, or the noise multiplier, of a run."""
    from .. import accounting
    from ..engine.sampling import make_sampler
    from ..engine.statement import round_up
    from ..report.text import paragraph, table

    if args.sampling == "full" and args.batch not in (None, args.records):
        raise ValueError("--sampling full takes all records; leave out --batch")
    if args.accountant is not None and args.accountant not in accounting.ACCOUNTANTS:
        raise ValueError(f"--accountant {args.accountant}: expected one of {', '.join(accounting.ACCOUNTANTS)}")
    if args.plot is not None and Path(args.plot).suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"--plot {args.plot}: expected a name that ends in .png, .pdf or .svg")
    sampler = make_sampler(args.sampling, args.neighbors, args.records, args.batch)

    def event(noise_multiplier: float, steps: int = args.steps) -> PrivacyEvent:
        return accounting.SelfComposedEvent(sampler.event(noise_multiplier), steps)

    noise = args.noise_multiplier
    if noise is None:
        noise = accounting.calibrate_noise_multiplier(event, args.epsilon, args.delta, accountant=args.accountant)
        # Epsilon is computed for the noise that is printed.
        noise = float(round_up(noise, 6))
    spent = accounting.epsilon(event(noise), args.delta, args.accountant)
    rows = [
        ("records", args.records),
        ("expected batch", f"{sampler.expected_batch_size:g}"),
        ("sampling probability", f"{sampler.expected_batch_size / args.records:g}"),
        ("steps", args.steps),
        ("noise multiplier", f"{noise:.6g}"),
        ("delta", f"{args.delta:g}"),
        ("epsilon", round_up(spent, 6)),
    ]
    print(table(rows))
    print()
    print(paragraph(accounting.describe(event(noise), args.delta, args.accountant), width()))
    warn_of_delta(args.delta, args.records)
    if args.compare:
        print()
        print(_comparison(event(noise), args.delta, args.accountant))
    if args.plot is not None:
        _plot(args, lambda steps: event(noise, steps))
        print(f"Written to {args.plot}.")
    return 0


def _comparison(event: PrivacyEvent, delta: float, accountant: str | None) -> str:
    """What every accountant says of one event, as a table, and what is left open."""
    from ..accounting import compare
    from ..engine.statement import round_up
    from ..report.text import table

    attack, *bounds = compare(event, delta)
    rows = [(attack.title, attack.accountant, _round_down(attack.epsilon, 5), "")]
    for row in bounds:
        used = row.default if accountant is None else row.accountant == accountant
        rows.append((row.title, row.accountant, round_up(row.epsilon, 5), "used" if used else ""))
    shown = table(rows, ("accountant", "name", "epsilon", ""))
    return f"{shown}\n\nThe exact epsilon is between {rows[0][2]} and {rows[1][2]}."


def _round_down(value: float, digits: int) -> str:
    """A number with so many significant digits, never above its value: a lower bound."""
    if not value > 0 or math.isinf(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return f"{math.floor(value / unit) * unit:.{digits}g}"


def _plot(args: argparse.Namespace, event: Callable[[int], PrivacyEvent]) -> None:
    """Epsilon against the number of steps, whole under its name or not at all."""
    from ..accounting import plot_epsilon

    path = Path(args.plot)
    accountants = None if args.compare or args.accountant is None else [args.accountant]
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.absolute().parent) as folder:
        os.replace(plot_epsilon(event, args.steps, args.delta, Path(folder) / path.name, accountants), path)
