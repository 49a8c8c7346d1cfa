"""``schema``: what a table's columns are, said in public."""

from argparse import Namespace
from typing import Any

from .arguments import command
from .output import output_file


def add(commands: Any) -> None:
    what = "the public description of a table's columns, which fit blr --schema takes"
    schema = commands.add_parser("schema", help=what, description=what)
    actions = schema.add_subparsers(dest="action", required=True, metavar="ACTION")
    parser = command(actions, "draft", draft, "write a template for a table, from the names of its columns alone")
    parser.add_argument("table", metavar="TABLE", help="CSV or Parquet")
    parser.add_argument("--out", metavar="FILE", help="default: print")
    parser = command(actions, "check", check, "check a schema, and with a table that it has the schema's columns")
    parser.add_argument("schema", metavar="FILE", help="TOML")
    parser.add_argument("table", metavar="TABLE", nargs="?", help="of which the names of the columns are read alone")


def draft(args: Namespace) -> int:
    """Print a template, to be filled in by somebody who knows what is public."""
    from ..data.records import column_names
    from ..data.schema import draft

    text = draft(column_names(args.table))
    if args.out is None:
        print(text, end="")
        return 0
    with output_file(args.out) as part:
        part.write_text(text, encoding="utf-8")
    return 0


def check(args: Namespace) -> int:
    """Say what a schema makes of a table."""
    from ..data import Schema
    from ..data.records import column_names
    from ..report import table

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
