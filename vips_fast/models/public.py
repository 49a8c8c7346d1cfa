"""Public knowledge: words and numbers that come from public text, in one ``.npz`` file.

It costs no privacy, and a model may use it before any release.
"""

import functools
import io
import os
from abc import ABC, abstractmethod
from typing import IO, BinaryIO, ClassVar, Self

import numpy as np

from ..store.npz import read_npz, write_npz


class PublicKnowledge(ABC):
    """Base of frozen dataclasses of texts, among them ``words`` and the ``name`` of the source, and arrays of numbers.

    Two are equal if they have the same ``digest`` and name. ``source`` names one in statements.
    """

    #: Fields that are texts, and fields that are arrays, in the order of a file.
    _texts: ClassVar[tuple[str, ...]] = ("words", "name")
    _arrays: ClassVar[tuple[str, ...]]
    #: An array of the file with the version of its format, if it has one; what writes such files.
    _format: ClassVar[dict[str, int]] = {}
    _writer: ClassVar[str]

    name: str

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of all but the name."""

    @property
    def source(self) -> str:
        """The name and first digits of the digest, for statements."""
        return f"{self.name} (sha256 {self.digest[:16]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and (self.digest, self.name) == (other.digest, other.name)

    def __hash__(self) -> int:
        return hash(self.digest)

    def save(self, path: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write an ``.npz`` file; equal objects give equal bytes."""
        stored = {name: getattr(self, name) for name in (*self._texts, *self._arrays)}
        write_npz(path, {name: np.asarray(value) for name, value in {**self._format, **stored}.items()})

    def to_bytes(self) -> bytes:
        """Return a file's bytes."""
        return _bytes_of(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read the bytes of `to_bytes`; ValueError for others."""
        return cls.load(cls.__name__, io.BytesIO(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str], file: BinaryIO | None = None) -> Self:
        """Read a file written by `save`; with an open ``file``, ``path`` is its name in messages.

        Raises ValueError with the fault of another file, OSError if there is no file.
        """
        arrays = read_npz(path, file=file)
        if missing := [name for name in (*cls._format, *cls._texts, *cls._arrays) if name not in arrays]:
            raise ValueError(f"{path}: has no array {missing[0]!r}; expected a file of {cls._writer}")
        for name, version in cls._format.items():
            if arrays[name].tolist() != version:
                raise ValueError(f"{path}: another version of the format; expected {version}: build it again")
        try:
            texts = {name: arrays[name].tolist() for name in cls._texts}
            return cls(**texts, **{name: arrays[name] for name in cls._arrays})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None


# Each fit has them among its settings.
@functools.lru_cache(maxsize=1)
def _bytes_of(known: PublicKnowledge) -> bytes:
    file = io.BytesIO()
    known.save(file)
    return file.getvalue()
