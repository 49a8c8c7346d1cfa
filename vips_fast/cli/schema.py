"""``schema``: the public description of a table's columns."""

from argparse import Namespace
from typing import Any

from ..data import Schema
from ..data.records import column_names
from ..data.schema import draft as template
from ..report import table
from .output import output_file


def draft(args: Namespace) -> int:
    """Print a template, for a person who knows the public facts."""
    text = template(column_names(args.table))
    if args.out is None:
        print(text, end="")
        return 0
    with output_file(args.out) as part:
        part.write_text(text, encoding="utf-8")
    return 0


def check(args: Namespace) -> int:
    """Print the features that a schema makes of a table."""
    schema = Schema.load(args.schema)
    rows: list[tuple[str, Any]] = [
        ("columns", len(schema.columns)),
        ("features", len(schema.feature_names)),
        ("largest row norm", f"{schema.row_norm:.4g}"),
    ]
    if args.table is not None:
        names = column_names(args.table)
        for column in schema.columns:
            if column.name not in names and column.kind != "ignore":
                raise ValueError(f"{args.table}: there is no column {column.name!r}, which the schema has")
        known = {column.name for column in schema.columns}
        rows.append(("not in the schema", ", ".join(name for name in names if name not in known) or "none"))
    print(table(rows))
    return 0
