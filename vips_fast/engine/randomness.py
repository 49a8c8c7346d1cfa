"""Sources of random numbers.

A private fit takes no seed: its sampling decisions, its per-record randomness and its noise keys come from the
operating system. A fit without privacy, and a test, may use a stream made from a key; for a private model such a key is
a taint.

The words of a purpose in a step are the ChaCha20 stream of one key. A process can compute any stretch of it from the
key, so several processes can draw one minibatch, each its own records.
"""

import hashlib
import os
from abc import ABC, abstractmethod

import numpy as np

from ..kernels import native


class Randomness(ABC):
    """Source of a run's random words and noise keys."""

    def words(self, n: int, purpose: str, step: int, first: int = 0) -> np.ndarray:
        """Draw n independent uniform uint64 for a purpose and step, from number ``first`` on."""
        return words_of(self.key(purpose, step), n, first)

    @abstractmethod
    def key(self, purpose: str, step: int) -> bytes:
        """Make the 32 bytes of the key of these words (`words_of`)."""

    @abstractmethod
    def of_step(self, step: int) -> "Randomness":
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

    def of_step(self, step: int) -> "KeyedRandomness":
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

    def of_step(self, step: int) -> "KeyedRandomness":
        """Make the step's own stream, which reveals no other step or noise."""
        return KeyedRandomness(self.key("step", step))

    def noise_key(self, step: int) -> bytes:
        """Derive 32 bytes, different for each step."""
        return self.key("noise", step)
