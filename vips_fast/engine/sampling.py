"""Random words, minibatches, and the privacy event of each way of sampling.

A sampler draws record numbers and also makes the accounting event of a release from such a minibatch, so that the two
cannot differ. Each way of sampling has its neighboring relation:

- Poisson sampling and random allocation: add or remove one record.
- A fixed size without replacement: replace one record.
- The whole data set: either.
- Rows of persons, drawn one by one: add or remove one person.

A sampler knows only public numbers; the number of rows is an argument of `draw`.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import ABC, abstractmethod
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
)
from ..data.arrays import numbers_of
from ..kernels import native


class Randomness(ABC):
    """Source of a run's random words and noise keys.

    A private fit takes no seed: its sampling decisions, its per-record randomness and its noise keys come from the
    operating system. A fit without privacy, and a test, may use a stream made from a key; for a private model such a
    key is a taint.

    The words of a purpose in a step are the ChaCha20 stream of one key. A process can compute any stretch of it from
    the key, so several processes can draw one minibatch, each its own records.
    """

    def words(self, n: int, purpose: str, step: int, first: int = 0) -> np.ndarray:
        """Draw n independent uniform uint64 for a purpose and step, from number ``first`` on."""
        return words_of(self.key(purpose, step), n, first)

    @abstractmethod
    def key(self, purpose: str, step: int) -> bytes:
        """Make the 32 bytes of the key of these words (`words_of`)."""

    @abstractmethod
    def of_step(self, step: int) -> Randomness:
        """Make randomness whose words repeat at every call, in every process. They are the words of this step."""

    @abstractmethod
    def noise_key(self, step: int) -> bytes | None:
        """Make the key of one release's noise. None lets the operating system make a fresh one."""


def words_of(key: bytes, n: int, first: int = 0) -> np.ndarray:
    """Compute n uint64 of a key's stream, from number ``first`` on."""
    out = np.empty(n, dtype=np.uint64)
    native.chacha20_words(native.Key(key), first, out)
    return out


class SystemRandomness(Randomness):
    """The operating system's generator; nothing to seed, nothing kept: new words at each call."""

    def key(self, purpose: str, step: int) -> bytes:
        """Make a fresh key at each call."""
        return os.urandom(32)

    def of_step(self, step: int) -> KeyedRandomness:
        """Make a stream from a fresh system key; forget it afterwards."""
        return KeyedRandomness(os.urandom(32))

    def noise_key(self, step: int) -> bytes | None:
        """Give None: the kernel asks the system itself for the noise key."""
        return None


class KeyedRandomness(Randomness):
    """A stream from a key, a purpose and a step. It serves one step, tests, and fits without privacy."""

    def __init__(self, key: bytes):
        self._key = bytes(key)

    def key(self, purpose: str, step: int) -> bytes:
        """Derive this stream's key; it reveals no other stream and no noise."""
        return hashlib.blake2b(f"{purpose}/{step}".encode(), key=self._key[:64], digest_size=32).digest()

    def of_step(self, step: int) -> KeyedRandomness:
        """Make the step's own stream, which reveals no other step or noise."""
        return KeyedRandomness(self.key("step", step))

    def noise_key(self, step: int) -> bytes:
        """Derive 32 bytes, different for each step."""
        return self.key("noise", step)


SAMPLINGS = ("poisson", "without_replacement", "full", "random_allocation")


class Sampler(Protocol):
    """Draws minibatches."""

    #: One of `SAMPLINGS`, or "vocabulary".
    name: str
    #: The relation of its event.
    relation: Relation
    #: Public number of records.
    n_records: int
    #: Public; sums are divided by it, never by the drawn size.
    expected_batch_size: float
    #: Minibatches that one event covers: those of an epoch, or 1.
    n_batches: int

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range) -> np.ndarray | range:
        """Draw sorted record numbers in ``part``, int64, of ``n_rows`` records; ``part`` itself is all.

        ``randomness`` is deterministic (`Randomness.of_step`): drawing part by part selects the same rows as drawing
        all at once. It is the same for all steps that one event covers.
        """

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Make the event of one release, or of an epoch's `n_batches` releases. It has this noise multiplier."""


def starts_event(sampler: Sampler, step: int, first: bool = False) -> bool:
    """Tell whether a step starts a new event, or continues an epoch.

    The first step of a run starts one even within an epoch: a resumed run draws new minibatches. The steps before and
    after the interruption then belong to two different epochs.
    """
    return first or step % sampler.n_batches == 0


def n_events(of: Sampler | PrivacyEvent, steps: range) -> int:
    """Count the events that the next consecutive steps start."""
    length = of.n_steps if isinstance(of, PrivacyEvent) else of.n_batches
    return (steps.stop - 1) // length - steps.start // length + 1 if len(steps) else 0


def run_event(sampler: Sampler, noise_multiplier: float, n_steps: int) -> SelfComposedEvent:
    """Compose the events of a whole run."""
    return SelfComposedEvent(sampler.event(noise_multiplier), n_events(sampler, range(n_steps)))


class PoissonSampler:
    """Each record is in the minibatch with the same probability, independently.

    ``batch_size`` is the expected size of a minibatch, in (0, n_records].

    Notes
    -----
    A record is taken when its 64-bit random word is below a threshold T. The event
    states the actual probability, T / 2^64, rounded up to a double.
    """

    name = "poisson"
    relation = Relation.ADD_REMOVE
    n_batches = 1

    def __init__(self, n_records: int, batch_size: float):
        self.n_records = n_records
        self.threshold = min(math.ceil(batch_size / n_records * 2**64), 2**64)
        q = self.threshold / 2**64
        self.sampling_probability = q if math.ceil(q * 2**64) >= self.threshold else math.nextafter(q, 1.0)
        self.expected_batch_size = self.sampling_probability * n_records

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range) -> np.ndarray | range:
        if self.threshold == 2**64:
            return part
        words = randomness.words(len(part), "sample", step, part.start)
        return np.flatnonzero(words < np.uint64(self.threshold)).astype(np.int64) + part.start

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        inner = GaussianEvent(noise_multiplier, relation=self.relation)
        return inner if self.sampling_probability >= 1.0 else PoissonSampledEvent(self.sampling_probability, inner)


class FixedSizeSampler:
    """A minibatch of a fixed size, uniform without replacement (the paper's).

    Number of records, and size of a minibatch in [1, n_records], are public: neighboring data sets, which differ by
    replacing a record, have equally many.
    """

    name = "without_replacement"
    relation = Relation.REPLACE_ONE
    n_batches = 1

    def __init__(self, n_records: int, batch_size: int):
        self.n_records, self.batch_size = n_records, batch_size
        self.expected_batch_size = float(batch_size)

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range) -> np.ndarray | range:
        """Draw the records with the smallest random words of the whole data set."""
        if n_rows > self.n_records:  # of fewer, those that are not there contribute nothing
            raise ValueError(f"n_records={self.n_records}: expected the number of rows with sampling={self.name!r}")
        if self.batch_size == self.n_records:
            return part
        words = randomness.words(self.n_records, "sample", step)
        chosen = np.argpartition(words, self.batch_size - 1)[: self.batch_size]
        return np.sort(chosen[(part.start <= chosen) & (chosen < part.stop)]).astype(np.int64)

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        inner = GaussianEvent(noise_multiplier, relation=self.relation)
        if self.batch_size == self.n_records:
            return inner
        return WithoutReplacementEvent(self.batch_size, self.n_records, inner)


class RandomAllocationSampler:
    """Put each record into one minibatch of an epoch.

    The minibatch is uniform and independent of the other records.

    An epoch has ``n_batches`` minibatches, at least 1: step s is minibatch s mod n_batches of epoch s // n_batches.
    With ``reused``, all epochs use the same minibatches, drawn once when the data were written in their order; else
    each epoch draws new ones. ``edges``, int64 of shape (n_batches + 1,), are for minibatches that are reused: records
    from edges[i] to edges[i + 1] are minibatch i. Their sizes are private, so a sampler that only plans has none.

    Notes
    -----
    A record's minibatch is its 64-bit random word modulo n_batches. Words from the largest multiple of n_batches up
    are drawn again, so that there is no rounding. The minibatch depends only on the epoch's key and the record's own
    number. The loop makes a new key when a new epoch is charged, and holds it only in memory. So a run that
    begins or resumes within an epoch draws new minibatches.
    """

    name = "random_allocation"
    relation = Relation.ADD_REMOVE

    def __init__(self, n_records: int, n_batches: int, reused: bool = False, edges: np.ndarray | None = None):
        self.n_records, self.n_batches, self.reused, self.edges = n_records, n_batches, reused, edges
        self.expected_batch_size = n_records / n_batches

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range) -> np.ndarray:
        epoch, number = divmod(step, self.n_batches)
        if self.reused:
            if self.edges is None:
                raise ValueError("sampling='random_allocation': reused minibatches need the bins of X")
            first, last = np.clip(self.edges[number : number + 2], part.start, part.stop)
            return np.arange(first, last, dtype=np.int64)
        return np.flatnonzero(self._allocate(len(part), randomness, epoch, part.start) == number) + part.start

    def _allocate(self, n: int, randomness: Randomness, epoch: int, first: int = 0) -> np.ndarray:
        """Assign minibatches to n records from number ``first`` on."""
        words = randomness.words(n, "allocate", epoch, first)
        last, again = np.uint64(2**64 - 2**64 % self.n_batches - 1), 0
        while (beyond := words > last).any():
            again += 1
            words = np.where(beyond, randomness.words(n, f"allocate again {again}", epoch, first), words)
        return words % np.uint64(self.n_batches)

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        inner = GaussianEvent(noise_multiplier, relation=self.relation)
        if self.n_batches == 1:
            return inner
        return RandomAllocationEvent(self.n_batches, 1, inner, self.reused)


class FullSampler:
    """Every record in every step; the public number of records scales the sums."""

    name = "full"
    n_batches = 1

    def __init__(self, n_records: int, relation: str = Relation.ADD_REMOVE):
        self.n_records, self.relation = n_records, Relation(relation)
        self.expected_batch_size = float(n_records)

    def draw(self, n_rows: int, randomness: Randomness, step: int, part: range) -> range:
        return part

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        return GaussianEvent(noise_multiplier, relation=self.relation)


def minibatch(
    sampler: Sampler,
    n_rows: int,
    usable: np.ndarray | None,
    randomness: Randomness,
    step: int,
    part: range | None = None,
) -> tuple[np.ndarray | range, np.ndarray]:
    """Draw a step's contributing records and a random word for each.

    The record numbers are int64 and sorted, or a range of all; the words are uint64. ``usable`` are bools of shape
    (n_rows,), or (len(part),), or None. ``randomness`` is ``of_step`` of the run's randomness, for this step or for the
    first step of its epoch. ``part`` are the records of this process, None for all; numbers count from its start.

    Notes
    -----
    The decision about a record, and its word, depend only on the step's key and on the record's own number in the data
    set. So sampling part by part selects the same records as sampling all at once.
    """
    part = range(n_rows) if part is None else part
    drawn = sampler.draw(n_rows, randomness, step, part)
    words = randomness.words(len(part), "record", step, part.start)
    if usable is None and isinstance(drawn, range):
        return range(len(part)), words
    rows = numbers_of(drawn) - part.start
    rows = rows if usable is None else rows[usable[rows]]
    return rows, words[rows]


def resolve_sampling(sampling: str | None, relation: str | None, n_bins: int | None) -> str:
    """Resolve ``sampling=None`` as `vips_fast.models.estimator.PrivateEstimator` documents it.

    ``n_bins`` is None for data in memory; for shards it is their number of bins, or 0.
    """
    if sampling is not None:
        return sampling
    if relation == Relation.REPLACE_ONE:
        return "without_replacement"
    return "poisson" if n_bins is None else "random_allocation"


def make_sampler(
    sampling: str | None, relation: str | None, n_records: int, batch_size: float | None, n_bins: int | None = None
) -> Sampler:
    """Make the sampler for an estimator's parameters.

    ``sampling`` None is resolved by `resolve_sampling`; ``relation`` None takes the relation of the sampling's
    accounting. ``n_records`` is public. ``batch_size`` None is the whole data set; with "random_allocation", an epoch
    has n_records / batch_size minibatches, rounded. ``n_bins`` are minibatches of an epoch that were drawn with the
    data, which "random_allocation" uses unchanged; 0 for shards without bins, None for data in memory.

    Raises ValueError if a name is unknown, the sampling has no accounting for the relation, or the batch does not fit
    the public number of records.
    """
    sampling = resolve_sampling(sampling, relation, n_bins)
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling={sampling!r}: expected one of {', '.join(map(repr, SAMPLINGS))}")
    stated = None if relation is None else Relation(relation)
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
        raise ValueError(f"relation={relation!r}: expected {needed!r} with sampling={sampling!r}")
    size = n_records if batch_size is None else batch_size
    if sampling == "poisson":
        return PoissonSampler(n_records, float(size))
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
