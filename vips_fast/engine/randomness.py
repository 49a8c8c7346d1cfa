"""Where random numbers come from.

A private fit draws its sampling decisions, its per-record randomness and its noise keys from the operating system and
takes no seed. A fit that is not private, and a test, may use a stream made from a key; for a private model such a key
is a taint.

The words of a purpose in a step are the ChaCha20 stream of one key. Any stretch of it can be computed from the key
alone, so that several processes can draw one minibatch, each its own records.
"""

import hashlib
import os
from typing import Protocol

import numpy as np

from ..kernels import native


class Randomness(Protocol):
    """Source of a run's random words and of the keys of its noise."""

    def words(self, n: int, purpose: str, step: int, first: int = 0) -> np.ndarray:
        """n independent uniform uint64 for a purpose in a step: those from number ``first`` on."""

    def of_step(self, step: int) -> "Randomness":
        """Randomness whose words of this step are the same whenever, and wherever, they are asked for."""

    def noise_key(self, step: int) -> bytes | None:
        """Key for the noise of one release; None asks the operating system for a fresh one."""


class SystemRandomness:
    """The operating system's generator; nothing to seed, nothing kept."""

    def words(self, n: int, purpose: str, step: int, first: int = 0) -> np.ndarray:
        """n independent uniform uint64, others at each call."""
        return self.of_step(step).words(n, purpose, step, first)

    def of_step(self, step: int) -> "KeyedRandomness":
        """A stream of a fresh key of the operating system, another at each call; who asks forgets it after the step."""
        return KeyedRandomness(os.urandom(32))

    def noise_key(self, step: int) -> bytes | None:
        """Key for the noise of one release: None lets the kernel ask the system itself."""
        return None


class KeyedRandomness:
    """A stream that is a function of a key, a purpose and a step: for one step, tests and fits that are not private."""

    def __init__(self, key: bytes):
        self._key = bytes(key)

    def _digest(self, purpose: str, step: int) -> bytes:
        return hashlib.blake2b(f"{purpose}/{step}".encode(), key=self._key[:64], digest_size=32).digest()

    def words(self, n: int, purpose: str, step: int, first: int = 0) -> np.ndarray:
        """n uint64 of the purpose's stream in this step, from number ``first`` on."""
        out = np.empty(n, dtype=np.uint64)
        native.chacha20_words(native.Key(self._digest(purpose, step)), first, out)
        return out

    def of_step(self, step: int) -> "KeyedRandomness":
        """A stream of its own for the step, which says nothing about other steps or about noise."""
        return KeyedRandomness(self._digest("step", step))

    def noise_key(self, step: int) -> bytes:
        """32 bytes, another for each step."""
        return self._digest("noise", step)
