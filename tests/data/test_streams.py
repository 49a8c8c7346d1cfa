"""Queries, lazy frames and streams of Arrow. The same records as from a file, a batch at a time."""

import subprocess
import sys

import duckdb
import numpy as np
import polars
import pyarrow
import pytest

from vips_fast import PrivateTopics
from vips_fast.data import load_corpus

WORDS = ("alpha", "beta", "gamma", "delta")
SECRET = "zq7351"


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(4)
    notes = [" ".join(rng.choice(WORDS, 6)) for _ in range(3000)]
    persons = [f"p{k % 700}" for k in range(3000)]
    lines = ("note,person", *map(",".join, zip(notes, persons, strict=True)))
    (tmp_path / "notes.csv").write_text("\n".join(lines))
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    return tmp_path / "notes.csv"


def streams(path):
    frame = polars.read_csv(path)
    table = pyarrow.table({name: frame[name].to_list() for name in frame.columns})
    yield "duckdb", duckdb.sql(f"select * from read_csv('{path}')")
    yield "lazy", polars.scan_csv(path)
    yield "reader", pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=100))
    yield "capsule", Capsule(table)
    yield "pandas", frame.to_pandas()


def topics_of(folder, **more):
    return PrivateTopics(5.0, public_prior=None, n_topics=2, vocab=folder / "words.txt", stop_words="none", **more)


class Capsule:
    """An object with only the names of its columns and the stream."""

    def __init__(self, table):
        self.column_names = table.column_names
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_counts_are_those_of_the_file(path):
    expected = load_corpus(path, WORDS, text="note", person="person")
    for name, source in streams(path):
        found = load_corpus(source, WORDS, text="note", person="person")
        assert (found.counts != expected.counts).nnz == 0, name
        assert np.array_equal(found.groups, expected.groups), name


def test_a_job_reads_a_query_as_it_reads_the_file(path, tmp_path):
    """As often as it needs: it counts the persons first."""
    found = []
    for source in (path, duckdb.sql(f"select * from read_csv('{path}')"), polars.scan_csv(path)):
        topics = topics_of(tmp_path)
        topics.fit(source, text="note", person="person", out=tmp_path / str(len(found)))
        found.append(topics.model_.privacy_)
    assert found[0].n_records == found[1].n_records == found[2].n_records == 700


def test_a_stream_is_fitted_to_in_one_reading_or_not_at_all(path, tmp_path):
    topics_of(tmp_path, n_records=700).fit(dict(streams(path))["reader"], text="note", person="person")
    reader = dict(streams(path))["reader"]
    message = "records: a stream can be read once only; expected a file or a query, or a public vocabulary"
    for n_records in (700, None):
        topics = PrivateTopics(5.0, public_prior=None, language="en", n_topics=2, n_records=n_records)
        with pytest.raises(ValueError, match=message):
            topics.fit(reader, text="note", person="person", out=tmp_path / f"run-{n_records}")
    assert len(reader.read_all()) == 3000


def test_a_stream_that_breaks_off_spends_nothing_and_quotes_nothing(path, tmp_path):
    def parts():
        yield pyarrow.record_batch({"note": ["alpha"] * 50, "person": ["a"] * 50})
        raise RuntimeError(SECRET)

    schema = pyarrow.schema([("note", pyarrow.string()), ("person", pyarrow.string())])
    reader = pyarrow.RecordBatchReader.from_batches(schema, parts())
    topics = PrivateTopics(5.0, public_prior=None, n_topics=2, vocab=tmp_path / "words.txt", n_records=700)
    with pytest.raises(ValueError, match="records: the stream broke off") as caught:
        topics.fit(reader, text="note", person="person", out=tmp_path / "run")
    assert SECRET not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_memory_does_not_grow_with_two_gigabytes_of_text():
    program = """
import resource, sys
import pyarrow
from vips_fast.data import load_corpus
batch = pyarrow.record_batch({"text": ["alpha beta gamma delta " * 2000] * 20})
batches = (batch for _ in range(int(sys.argv[1])))
reader = pyarrow.RecordBatchReader.from_batches(batch.schema, batches)
assert load_corpus(reader, ("alpha", "beta"), text="text").counts.shape[0] == 20 * int(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    few, many = (
        int(subprocess.run([sys.executable, "-c", program, n], capture_output=True, check=True, text=True).stdout)
        for n in ("22", "2200")
    )
    assert many < few + 100
