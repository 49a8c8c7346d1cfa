"""Minibatches, and the privacy event that each way of sampling is.

A sampler draws record numbers and emits the accounting event of a release made from such
a minibatch, so that what is drawn and what is accounted cannot differ: Poisson sampling
and random allocation with "add or remove one record"; a fixed size without replacement
with "replace one record"; the whole data set with either; rows of persons, drawn one by
one, with "add or remove one person". A sampler knows public numbers only; how many rows
there are is told to `draw` alone.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from ..accounting import (
    GaussianEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    Relation,
    SelfComposedEvent,
    WithoutReplacementEvent,
    group_event,
)
from .randomness import Randomness

SAMPLINGS = ("poisson", "without_replacement", "full", "rows", "random_allocation")


class Sampler(Protocol):
    """Draws minibatches.

    Attributes
    ----------
    name : {"poisson", "without_replacement", "full", "rows", "random_allocation"}
    neighbors : Relation
        The relation of its event.
    n_records : int
        Public number of records.
    expected_batch_size : float
        Public; what sums are divided by, never the size that was drawn.
    """

    name: str
    neighbors: Relation
    n_records: int
    expected_batch_size: float

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range | None = None) -> np.ndarray:
        """Sorted record numbers below n_rows, int64; those within ``part`` alone, where it is given.

        ``randomness`` gives the same words whenever it is asked (`Randomness.of_step`), so that parts that make up all
        rows give together what the whole gives, and is the same for all steps that one event covers.
        """

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Event of one release with this noise multiplier, or of an epoch of `n_batches` releases."""


def epoch_length(of: Sampler | PrivacyEvent | None) -> int:
    """How many steps an event of this sampler covers, or this event."""
    return int(getattr(of, "n_batches", 1))


def check_steps(sampler: Sampler, n_steps: int) -> None:
    """Refuse a run that ends within an epoch; ValueError."""
    if n_steps % epoch_length(sampler):
        raise ValueError(
            f"n_steps={n_steps}: expected a multiple of {epoch_length(sampler)}, the minibatches of an epoch "
            f"(n_records / batch_size), with sampling={sampler.name!r}; or sampling='poisson'"
        )


def charged(sampler: Sampler, step: int, first: bool = False) -> bool:
    """Whether a step of a run brings a new event: each does, or those that begin an epoch.

    The first step that a run does brings one too, wherever it stands in its epoch: a run that was resumed there goes
    on with newly drawn minibatches. What it does of them, and what was done of those before, are parts of two epochs.
    """
    return first or step % epoch_length(sampler) == 0


def n_events(of: Sampler | PrivacyEvent | None, steps: range) -> int:
    """How many events these consecutive steps of a run bring, the first of them done first."""
    length = epoch_length(of)
    return (steps.stop - 1) // length - steps.start // length + 1 if len(steps) else 0


def run_event(sampler: Sampler, noise_multiplier: float, n_steps: int) -> SelfComposedEvent:
    """The event of a whole run."""
    return SelfComposedEvent(sampler.event(noise_multiplier), n_events(sampler, range(n_steps)))


class PoissonSampler:
    """Each record is in the minibatch with the same probability, independently.

    Parameters
    ----------
    n_records : int
        Public number of records.
    batch_size : float
        Expected size of a minibatch, in (0, n_records].

    Notes
    -----
    A record is taken when its 64-bit random word is below a threshold T. The event
    states T / 2^64, the probability that is really used, rounded up to a double.
    """

    name = "poisson"
    neighbors = Relation.ADD_REMOVE

    def __init__(self, n_records: int, batch_size: float):
        self.n_records = n_records
        self.threshold = min(math.ceil(batch_size / n_records * 2**64), 2**64)
        q = self.threshold / 2**64
        self.sampling_probability = q if math.ceil(q * 2**64) >= self.threshold else math.nextafter(q, 1.0)
        self.expected_batch_size = self.sampling_probability * n_records

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range | None = None) -> np.ndarray:
        """Sorted record numbers, int64; possibly none."""
        part = range(n_rows) if part is None else part
        if self.threshold == 2**64:
            return np.arange(part.start, part.stop, dtype=np.int64)
        words = randomness.words(len(part), "sample", step, part.start)
        return np.flatnonzero(words < np.uint64(self.threshold)).astype(np.int64) + part.start

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Event of one release with this noise multiplier."""
        inner = GaussianEvent(noise_multiplier, neighbors=self.neighbors)
        return inner if self.sampling_probability >= 1.0 else PoissonSampledEvent(self.sampling_probability, inner)


class RowSampler(PoissonSampler):
    """Rows of persons, each drawn by itself as `PoissonSampler` draws records, where no person has many of them.

    Parameters
    ----------
    n_records : int
        Public number of rows.
    batch_size : float
        Expected rows of a minibatch, in (0, n_records].
    rows_per_unit : int
        Most rows of a person among those that are drawn from, which `vips_fast.engine.units.KeptRows` sees to.

    Notes
    -----
    Each row is clipped by itself, and the noise multiplier is over the sensitivity of one row.

    *Proof that the event holds for a person with any number of rows.* Let all words by which `KeptRows` chose be given.
    They are independent of everything else, and a bound that holds given them holds on average: the hockey-stick
    divergence is jointly convex. Which rows of a person are kept follows from that person's rows and words alone, so
    data sets that differ by one person keep the same rows of everybody else, and differ by at most `rows_per_unit`
    kept rows. Of these, each is drawn by a coin of its own in each step, and j of them move the rounded sum by at most
    j times one row's sensitivity (which holds what rounding adds once, however many they are). That is what
    `GroupEvent` is about, and `vips_fast.accounting.privacy_loss.rows` proves, compositions included. With all rows in
    each step, the person's move the sum by at most `rows_per_unit` times one row's.
    """

    name = "rows"

    def __init__(self, n_records: int, batch_size: float, rows_per_unit: int):
        super().__init__(n_records, batch_size)
        self.rows_per_unit = rows_per_unit

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Event of one release with this noise multiplier, for a person."""
        return group_event(super().event(noise_multiplier), self.rows_per_unit)


class FixedSizeSampler:
    """A minibatch of a fixed size, uniform without replacement (the paper's).

    Parameters
    ----------
    n_records, batch_size : int
        Number of records, which is public where neighbours differ by replacing one, and
        size of a minibatch, in [1, n_records].
    """

    name = "without_replacement"
    neighbors = Relation.REPLACE_ONE

    def __init__(self, n_records: int, batch_size: int):
        self.n_records, self.batch_size = n_records, batch_size
        self.expected_batch_size = float(batch_size)

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range | None = None) -> np.ndarray:
        """Sorted record numbers, int64: those with the smallest random words, of all records' even for a part."""
        if n_rows != self.n_records:
            raise ValueError(
                f"n_records={self.n_records}: expected the number of rows with sampling='without_replacement'"
            )
        part = range(n_rows) if part is None else part
        if self.batch_size == self.n_records:
            return np.arange(part.start, part.stop, dtype=np.int64)
        words = randomness.words(self.n_records, "sample", step)
        chosen = np.argpartition(words, self.batch_size - 1)[: self.batch_size]
        return np.sort(chosen[(part.start <= chosen) & (chosen < part.stop)]).astype(np.int64)

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Event of one release with this noise multiplier."""
        inner = GaussianEvent(noise_multiplier, neighbors=self.neighbors)
        if self.batch_size == self.n_records:
            return inner
        return WithoutReplacementEvent(self.batch_size, self.n_records, inner)


class RandomAllocationSampler:
    """Each record is in one minibatch of an epoch, uniformly and independently of the others.

    Parameters
    ----------
    n_records : int
        Public number of records.
    n_batches : int
        Minibatches of an epoch, at least 1. Step s is minibatch s mod n_batches of epoch s // n_batches.
    reused : bool
        Whether minibatches were drawn once, when the data were written in their order, and serve every epoch; else
        they are drawn anew for each.
    edges : int64 array of shape (n_batches + 1,), or None
        Records from edges[i] to edges[i + 1] are minibatch i, where minibatches are reused. The sizes are private:
        whoever only plans has none.

    Notes
    -----
    A record's minibatch is its 64-bit random word modulo n_batches; words from the largest multiple of n_batches up
    are drawn again, so that nothing is rounded. It follows from the epoch's key and the record's own number alone. The
    loop makes a new key where `charged` says that a new epoch is paid for, and keeps it in memory only: whoever begins
    or goes on with an epoch in any other way draws anew.
    """

    name = "random_allocation"
    neighbors = Relation.ADD_REMOVE

    def __init__(self, n_records: int, n_batches: int, reused: bool = False, edges: np.ndarray | None = None):
        self.n_records, self.n_batches, self.reused, self.edges = n_records, n_batches, reused, edges
        self.expected_batch_size = n_records / n_batches

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range | None = None) -> np.ndarray:
        """Sorted record numbers, int64; possibly none. ``randomness`` is the same for all steps of an epoch."""
        part, (epoch, number) = range(n_rows) if part is None else part, divmod(step, self.n_batches)
        if self.reused:
            if self.edges is None:
                raise ValueError("sampling='random_allocation': minibatches that are reused, and are not known here")
            first, last = np.clip(self.edges[number : number + 2], part.start, part.stop)
            return np.arange(first, last, dtype=np.int64)
        return np.flatnonzero(self._allocate(len(part), randomness, epoch, part.start) == number) + part.start

    def _allocate(self, n: int, randomness: Randomness, epoch: int, first: int = 0) -> np.ndarray:
        """The minibatches of n records from number ``first`` on."""
        words = randomness.words(n, "allocate", epoch, first)
        last, again = np.uint64(2**64 - 2**64 % self.n_batches - 1), 0
        while (beyond := words > last).any():
            again += 1
            words = np.where(beyond, randomness.words(n, f"allocate again {again}", epoch, first), words)
        return words % np.uint64(self.n_batches)

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Event of one epoch with this noise multiplier."""
        inner = GaussianEvent(noise_multiplier, neighbors=self.neighbors)
        if self.n_batches == 1:
            return inner
        return RandomAllocationEvent(self.n_batches, 1, inner, self.reused)


class FullSampler:
    """Every record in every step.

    Parameters
    ----------
    n_records : int
        Public number of records, which alone scales the sums.
    neighbors : {"add_remove", "replace_one"}
    """

    name = "full"

    def __init__(self, n_records: int, neighbors: str = Relation.ADD_REMOVE):
        self.n_records, self.neighbors = n_records, Relation.of(neighbors)
        self.expected_batch_size = float(n_records)

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range | None = None) -> np.ndarray:
        """All record numbers, int64."""
        part = range(n_rows) if part is None else part
        return np.arange(part.start, part.stop, dtype=np.int64)

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Event of one release with this noise multiplier."""
        return GaussianEvent(noise_multiplier, neighbors=self.neighbors)


def minibatch(
    sampler: Sampler,
    n_rows: int,
    usable: np.ndarray | None,
    randomness: Randomness,
    step: int,
    part: range | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The records of a step that contribute, int64 and sorted, and the random word of each, uint64.

    Parameters
    ----------
    sampler : Sampler
    n_rows : int
        Records of the data set.
    usable : bool array of shape (n_rows,), or (len(part),), or None
    randomness : Randomness
        ``of_step`` of the run's, for the step, or for the first step of its epoch.
    step : int
    part : range or None
        The records that are at hand; None for all. Numbers are counted from its start.

    Notes
    -----
    Whether a record is drawn, and its word, are functions of the step's key and of the record's own number in the data
    set: any parts that make up the data set draw what the whole draws.
    """
    if part is None:
        part, rows = range(n_rows), sampler.draw(n_rows, randomness, step)
    else:
        rows = sampler.draw(n_rows, randomness, step, part) - part.start
    words = randomness.words(len(part), "record", step, part.start)[rows]
    if usable is not None:
        kept = usable[rows]
        rows, words = rows[kept], words[kept]
    return rows, words


def resolve_sampling(sampling: str | None, neighbors: str | None, n_bins: int | None) -> str:
    """How minibatches are drawn; None is what `vips_fast.models.parameters.Parameters` says of it.

    ``n_bins`` is None for data in memory, and else in how many bins the shards were written, or 0.
    """
    if sampling is not None:
        return sampling
    if neighbors == Relation.REPLACE_ONE:
        return "without_replacement"
    return "poisson" if n_bins is None else "random_allocation"


def make_sampler(
    sampling: str | None,
    neighbors: str | None,
    n_records: int,
    batch_size: float | None,
    rows_per_unit: int | None = None,
    n_bins: int | None = None,
) -> Sampler:
    """The sampler for an estimator's parameters.

    Parameters
    ----------
    sampling : {"poisson", "without_replacement", "full", "rows", "random_allocation"} or None
        None is what `resolve_sampling` takes.
    neighbors : {"add_remove", "replace_one"} or None
        None takes the relation that the sampling is accounted under.
    n_records : int
        Public number of records.
    batch_size : float or None
        None is the whole data set. With "random_allocation", epochs have n_records / batch_size minibatches, rounded,
        or as many as there are bins.
    rows_per_unit : int or None
        Most rows of a person, which "rows" needs and the others do not read.
    n_bins : int or None
        Minibatches of an epoch that were drawn with the data, which "random_allocation" takes as they are; 0 for shards
        without any, None for data in memory.

    Raises
    ------
    ValueError
        If a name is unknown, the relation is not one that the sampling can be accounted
        under, or the batch does not fit the public number of records.
    """
    sampling = resolve_sampling(sampling, neighbors, n_bins)
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling={sampling!r}: expected one of {', '.join(map(repr, SAMPLINGS))}")
    stated = None if neighbors is None else Relation.of(neighbors)
    if n_records < 1:
        raise ValueError(f"n_records={n_records!r}: expected at least 1")
    if batch_size is not None and not 0 < batch_size <= n_records:
        raise ValueError(f"batch_size={batch_size!r}: expected a number in (0, {n_records}], the number of records")
    if sampling == "full":
        if batch_size is not None and batch_size != n_records:
            raise ValueError(f"batch_size={batch_size!r}: expected None with sampling='full'")
        return FullSampler(n_records, stated or Relation.ADD_REMOVE)
    needed = Relation.REPLACE_ONE if sampling == "without_replacement" else Relation.ADD_REMOVE
    if stated not in (None, needed):
        raise ValueError(f"neighbors={neighbors!r}: expected {needed!r} with sampling={sampling!r}")
    size = n_records if batch_size is None else batch_size
    if sampling == "poisson":
        return PoissonSampler(n_records, float(size))
    if sampling == "rows":
        if rows_per_unit is None:
            raise ValueError("rows_per_group=None: expected the most rows of a person with sampling='rows'")
        return RowSampler(n_records, float(size), rows_per_unit)
    if sampling == "random_allocation":
        n_batches = max(1, round(n_records / size))
        if not n_bins:
            return RandomAllocationSampler(n_records, n_batches)
        if batch_size is not None and n_batches != n_bins:
            raise ValueError(
                f"batch_size={batch_size!r}: expected None, or a minibatch for each of the {n_bins} bins that X has; "
                "or sampling='poisson'"
            )
        return RandomAllocationSampler(n_records, n_bins, reused=True)
    if int(size) != size or size < 1:
        raise ValueError(f"batch_size={batch_size!r}: expected an integer with sampling='without_replacement'")
    return FixedSizeSampler(n_records, int(size))
