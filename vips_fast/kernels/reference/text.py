"""The numbers of words in plain Python."""

import numpy as np


def token_numbers(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """Number the words of some texts, which 0xFF separates, by first appearance; 0xFE stands in none.

    Returns the numbers of all words, int32; how many stand before the end of each text, int64; and the words.
    """
    words = [[word for word in text.split(b"\xff") if word] for text in texts]
    flat = [word for each in words for word in each]
    known = {word: number for number, word in enumerate(dict.fromkeys(flat))}
    ends = np.cumsum([len(each) for each in words], dtype=np.int64)
    return np.array([known[word] for word in flat], dtype=np.int32), ends, list(known)
