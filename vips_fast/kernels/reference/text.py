"""Number the words of texts, and read numbers, in plain Python."""

import re

import numpy as np

__all__ = ["integers", "token_numbers"]


def token_numbers(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """Give each word of the texts a number, by appearance.

    Words are separated by 0xFF. Returns the numbers of all words, int32; how many stand before the end of each text,
    int64; and the words.
    """
    words = [[word for word in text.split(b"\xff") if word] for text in texts]
    flat = [word for each in words for word in each]
    known = {word: number for number, word in enumerate(dict.fromkeys(flat))}
    ends = np.cumsum([len(each) for each in words], dtype=np.int64)
    return np.array([known[word] for word in flat], dtype=np.int32), ends, list(known)


def integers(text: bytes, colons: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Unsigned numbers between blanks and permitted colons.

    Returns values and the line feeds before each, int64. Also returns whether only a colon is between it and the number
    before, or the begin. Last come the numbers of numbers, line feeds and colons before the first other byte or 19th
    digit of a number, and its place.
    """
    allowed = b"0-9 \t\r\n:" if colons else b"0-9 \t\r\n"
    found = re.search(rb"[^" + allowed + rb"]|(?<=[0-9]{18})[0-9]", text)
    stop = found.start() if found else len(text)
    numbers = list(re.finditer(rb"[0-9]+", text[:stop]))
    if found and found[0].isdigit():
        numbers.pop()
    ends = [0, *(number.end() for number in numbers)]
    return (
        np.array([int(number[0]) for number in numbers], np.int64),
        np.array([text.count(b"\n", 0, number.start()) for number in numbers], np.int64),
        np.array([text[end : number.start()] == b":" for end, number in zip(ends, numbers, strict=False)], np.uint8),
        [len(numbers), text.count(b"\n", 0, stop), text.count(b":", 0, stop), stop],
    )
