"""Run ``budget``: manage the file with a data set's privacy budget."""

import time
from typing import Any

from ...accounting.printing import rounded_down, rounded_up
from ...engine.budget import Budget
from ...engine.budget_repair import read_damaged
from ...report import table
from ...store.words import counted
from ..arguments import BudgetCreate, BudgetShow
from ..messages import print_object, say


def create(args: BudgetCreate) -> int:
    """Make a budget."""
    how = args.take("dataset", "relation", "unit", "filter", "purchases")
    budget = Budget.create(args.file, args.epsilon, args.delta, **how)
    print(f"Written to {args.file}: epsilon = {rounded_up(args.epsilon)}, delta = {args.delta:g} for {args.dataset}.")
    print(f"head {budget.head}")
    return 0


def show(args: BudgetShow) -> int:
    """Print a budget; 3 if its history lacks a head."""
    if args.out is not None:
        return _repair(args.file, args.out)
    budget = Budget(args.file)
    if args.give_back is not None:
        budget.give_back(args.give_back)
    said = budget.show()
    if args.head is not None and not budget.knows(args.head):
        say(f"error: {args.file} does not hold the head {args.head}: another budget, or an older copy was put back")
        return 3
    if args.json:
        keys = "spent", "left", "epsilon", "delta", "dataset", "unit", "runs", "purchases"
        print_object({key: said[key] for key in keys})
        return 0
    how = {"gaussian": "Gaussian filter", "renyi": "Renyi filter", "auto": "the first run decides the filter"}
    rows = [
        ("data set", said["dataset"]),
        ("limit", f"epsilon = {rounded_up(said['epsilon'])} at delta = {said['delta']:g}"),
        ("neighbors", f"{said['relation']}, unit: {said['unit']}"),
        ("spent", f"{rounded_up(said['spent'])} ({how[said['filter']]})"),
        ("left", rounded_down(said["left"])),
        ("for information", f"{rounded_up(said['tight'])} if all that was drawn had been fixed beforehand"),
        ("head", said["head"]),
    ]
    if (pot := said["purchases"])["delta"]:
        share = f"{pot['left']} of {pot['number']}, which share a delta of {pot['delta']:.3g}"
        rows.insert(5, ("vocabulary purchases left", share + ("" if pot["fixed"] else ", if the first run is one")))
    if said["parts"]:
        rows.insert(4, ("parts", f"{len(said['parts'])}; each record in one only, as the runs say: not checked"))
    print(table(rows))
    if said["repaired"]:
        print("\nRepaired: every reservation before it counts as spent to the full.")
    if said["torn"]:
        print("\nThe end of the file is torn: every open reservation counts as spent to the full.")
    if said["lists"]:
        lines = [
            (
                one["list"],
                one["name"],
                _time(one["at"]),
                f"{sum(taken for _, _, taken in one['runs'])}/{sum(count for _, count, _ in one['runs'])}",
                rounded_up(one["epsilon"]),
                f"{one['delta']:g}",
                "begun" if one["begun"] else "reserved",
            )
            for one in said["lists"]
        ]
        print("\n" + table(lines, ("list", "name", "declared", "releases", "epsilon", "delta", "")))
    if said["runs"]:
        runs = [
            (
                one["run"],
                one["what"] + (f", part {one['part']}" if one["part"] else ""),
                _time(one["at"]),
                f"{one['counted']}/{one['reserved']}",
                _state(one),
            )
            for one in said["runs"]
        ]
        print("\n" + table(runs, ("run", "what", "begun", "releases", "")))
    return 0


def _time(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _state(run: dict[str, Any]) -> str:
    if run["state"] == "closed":
        return "done" if run["counted"] == run["reserved"] else "ended early, the rest given back"
    holder = f"process {run['holder']['pid']} on {run['holder']['host']}"
    return f"held by {holder}" if run["state"] == "open" else f"{holder} has ended, the next run takes the rest back"


def _repair(file: str, out: str) -> int:
    """Show the readable part of a damaged budget; write a repaired copy."""
    found = read_damaged(file)
    if not found.damage:
        print(f"{file}: is not damaged; use it as it is.")
        return 0
    found.write(out)
    state = found.state
    rows = [
        ("data set", state.dataset),
        ("damage", found.damage.removeprefix(f"{found.path}: ")),
        ("readable", f"{counted(found.readable, 'record')}, {counted(len(state.runs), 'run')}"),
        ("lost", "unknown" if found.lost is None else f"at most {counted(found.lost, 'record')}"),
        ("counts as spent", "all of it" if state.exhausted else "every reservation in full, also ended ones"),
        (
            "spent",
            f"{rounded_up(state.total(reserved=False))} of {rounded_up(state.epsilon)} at delta = {state.delta:g}",
        ),
    ]
    print(table(rows))
    print(f"\nWritten to {out}; {file} is unchanged. head {Budget(out).head}")
    return 0
