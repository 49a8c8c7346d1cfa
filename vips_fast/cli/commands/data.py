"""Run ``shard`` and ``schema``, the commands about data. A schema is the public description of a table's columns."""

import json
from collections.abc import Iterator
from typing import Any

from ...data import Batch, Schema, count_matrix, holds_records, load_corpus, write_shards
from ...data.delimited import are_names
from ...data.records import column_names
from ...data.schema import draft as template
from ...jobs.text import PRIVATE, reading_file
from ...models.family import SCHEMA
from ..arguments import Shard, Template
from ..inputs import at_lines, read_labels, table_batches, text_file
from ..messages import print_written, say
from ..output import warn_of_drops

#: The public values of a label, beside the rows of a table.
CLASSES = "classes.json"


def shard(args: Shard) -> int:
    """Write shards."""
    if args.label is not None and args.schema is None:
        raise ValueError(f"--label {args.label}: expected with --schema")
    warn_of_drops(args.invalid, args.schema)
    batches, how = _text_or_counts(args) if args.schema is None else _table(args, Schema.load(args.schema))
    if args.groups is not None:
        labels, given = read_labels(args.groups, args.invalid), batches

        def grouped() -> Iterator[Batch]:
            first = 0
            for batch in given:
                last = first + batch.rows.shape[0]
                yield Batch(batch.rows, batch.labels, labels[first:last])
                first = last
            if first != len(labels):
                raise ValueError(f"--groups {args.groups}: expected one label for each record of {args.input}")

        batches = grouped()
    write_shards(args.out, batches, bins=args.bins, invalid=args.invalid, **how)
    private = f"It is as private as {args.input}, its shards.json too."
    return print_written(args.out, f"Written to {args.out}. {private}")


def _text_or_counts(args: Shard) -> tuple[Iterator[Batch], dict[str, Any]]:
    if not holds_records(args.input, args.format, args.text, args.person):
        corpus = load_corpus(args.input, text_file(args).public_words(), args.format, invalid=args.invalid)
        return iter([Batch(corpus.counts)]), {"vocabulary": corpus.vocabulary}
    if args.vocab in (None, PRIVATE):
        raise ValueError("--vocab: expected a public vocabulary, FILE or public:LANGUAGE; fit purchases a private one")
    source = text_file(args)
    words, analyzer = source.public_words(), source.words_analyzer
    assert words is not None
    batches = (Batch(count_matrix([some], words, analyzer), None, whose) for some, whose in source.records().batches())
    return batches, {"vocabulary": words, "files": reading_file(args.text, analyzer)}


def _table(args: Shard, schema: Schema) -> tuple[Iterator[Batch], dict[str, Any]]:
    others = [name for name in (args.label, args.person) if name is not None]
    if len(set(others)) < len(others):
        raise ValueError(f"--person {args.person}: expected another column than --label")
    kept = schema.without(*others, label=args.label)
    counts = args.label is not None and schema[args.label].kind == "number"
    files = {SCHEMA: kept.to_toml()}
    if args.label is not None:
        schema.label(args.label, [], counts=counts)  # refuses a column that is no label
        files |= {} if counts else {CLASSES: json.dumps(list(schema[args.label].values)) + "\n"}

    def batches() -> Iterator[Batch]:
        for rows, cells, lines in table_batches(args, schema, others):
            labels = None
            if args.label is not None:
                labels = schema.label(args.label, cells[args.label], counts=counts, **at_lines(args, lines))
            yield Batch(rows, labels, None if args.person is None else cells[args.person])

    return batches(), {"kind": "numbers", "files": files}


def schema(args: Template) -> int:
    """Print a template, for a person who knows the public facts."""
    names = column_names(args.input, args.encoding, keys=True)
    if not are_names(names):
        say(f"warning: the first line of {args.input} looks like a record or repeats a name; expected names of columns")
    print(template(list(dict.fromkeys(names))), end="")
    return 0
