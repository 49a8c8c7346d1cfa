"""The numbers of words in plain Python."""

import numpy as np


def token_numbers(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """Number the words of some texts by first appearance.

    Parameters
    ----------
    texts : list of bytes
        0xFF separates words; 0xFE stands in none.

    Returns
    -------
    int32 array, the numbers of all words; int64 array, how many stand before the end of each text; the words.
    """
    words = [[word for word in text.split(b"\xff") if word] for text in texts]
    flat = [word for each in words for word in each]
    known = {word: number for number, word in enumerate(dict.fromkeys(flat))}
    ends = np.cumsum([len(each) for each in words], dtype=np.int64)
    return np.array([known[word] for word in flat], dtype=np.int32), ends, list(known)
