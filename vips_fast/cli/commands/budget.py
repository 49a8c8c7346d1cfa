"""Run ``budget``: manage the file with a data set's privacy budget."""

import time
from typing import Any

from ...accounting.printing import rounded_down, rounded_up
from ...engine.budget import Budget
from ...report import table
from ..arguments import BudgetCreate, BudgetShow
from ..messages import print_object, print_written, say


def create(args: BudgetCreate) -> int:
    """Make a budget."""
    how = args.take("dataset", "relation", "unit", "filter", "purchases")
    budget = Budget.create(args.file, args.epsilon, args.delta, **how)
    limit = f"epsilon = {rounded_up(args.epsilon)}, delta = {args.delta:g} for {args.dataset}"
    return print_written(args.file, f"Written to {args.file}: {limit}.\nhead {budget.head}")


def show(args: BudgetShow) -> int:
    """Print a budget; 3 if its history lacks a head."""
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
        ("head", said["head"]),
    ]
    if (pot := said["purchases"])["delta"]:
        share = f"{pot['left']} of {pot['number']}, which share a delta of {pot['delta']:.3g}"
        rows.insert(5, ("vocabulary purchases left", share + ("" if pot["fixed"] else ", if the first run is one")))
    if said["parts"]:
        rows.insert(4, ("parts", f"{len(said['parts'])}; each record in one only, as the runs say: not checked"))
    print(table(rows))
    if said["torn"]:
        print("\nThe end of the file is torn: every open reservation counts as spent to the full.")
    if said["runs"]:
        runs = [
            (
                one["run"],
                one["what"] + (f", part {one['part']}" if one["part"] else ""),
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["at"])),
                f"{one['counted']}/{one['reserved']}",
                _state(one),
            )
            for one in said["runs"]
        ]
        print("\n" + table(runs, ("run", "what", "begun", "releases", "")))
    return 0


def _state(run: dict[str, Any]) -> str:
    if run["state"] == "closed":
        return "done" if run["counted"] == run["reserved"] else "ended early, the rest given back"
    holder = f"process {run['holder']['pid']} on {run['holder']['host']}"
    return f"held by {holder}" if run["state"] == "open" else f"{holder} has ended, the next run takes the rest back"
