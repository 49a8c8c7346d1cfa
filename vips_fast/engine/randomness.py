"""Where random numbers come from.

A private fit draws its sampling decisions, its per-record randomness and its noise keys from the operating system and
takes no seed. A fit that is not private, and a test, may use a stream made from a key; for a private model such a key
is a taint.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

import numpy as np


class Randomness(Protocol):
    """Source of a run's random words and of the keys of its noise."""

    def words(self, n: int, purpose: str, step: int) -> np.ndarray:
        """n independent uniform uint64 for a purpose in a step."""

    def noise_key(self, step: int) -> bytes | None:
        """Key for the noise of one release; None asks the operating system for a fresh one."""


class SystemRandomness:
    """The operating system's generator; nothing to seed, nothing kept."""

    def words(self, n: int, purpose: str, step: int) -> np.ndarray:
        """n independent uniform uint64."""
        return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)

    def noise_key(self, step: int) -> bytes | None:
        """Key for the noise of one release: None lets the kernel ask the system itself."""
        return None


class KeyedRandomness:
    """A stream that is a function of a key, a purpose and a step: for tests and fits that are not private."""

    def __init__(self, key: bytes):
        self._key = bytes(key)

    def _digest(self, purpose: str, step: int) -> bytes:
        return hashlib.blake2b(f"{purpose}/{step}".encode(), key=self._key[:64], digest_size=32).digest()

    def words(self, n: int, purpose: str, step: int) -> np.ndarray:
        """The first n uint64 of the purpose's stream in this step."""
        seed = int.from_bytes(self._digest(purpose, step), "little")
        return np.random.Generator(np.random.Philox(seed)).integers(0, 2**64, n, dtype=np.uint64)

    def noise_key(self, step: int) -> bytes:
        """32 bytes, another for each step."""
        return self._digest("noise", step)
