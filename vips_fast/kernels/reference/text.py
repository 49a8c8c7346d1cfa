"""Number the words of texts, and read numbers, in plain Python."""

import re

import numpy as np

__all__ = ["csv_cells", "token_numbers"]


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


def csv_cells(text: bytes, delimiter: str, n_columns: int) -> tuple[list[list[bytes]], list[int]]:
    """Split the plain rows of a table into cells.

    Returns the cells of each row; doubled quotes stay. Also returns the end of the last row or of an empty line behind
    it, the line feeds before that, and 1 if a row that is not plain follows.
    """
    mark = re.escape(delimiter.encode())
    cell = rb'(?:"((?:[^"]|"")*)"|([^"' + mark + rb"\r\n\0][^" + mark + rb"\r\n\0]*|))"
    row, rows, at = re.compile(mark.join([cell] * n_columns) + rb"\r?\n"), list[list[bytes]](), 0
    empty = re.compile(rb"\r?\n")
    while True:
        if found := empty.match(text, at):
            at = found.end()
        elif found := row.match(text, at):
            parts = found.groups()
            pairs = zip(parts[::2], parts[1::2], strict=True)
            rows.append([bare if quoted is None else quoted for quoted, bare in pairs])
            at = found.end()
        else:
            break
    # What can become a plain row by more text behind it: some cells, and the begin of one or of the line's end.
    begin = rb"(?:" + cell + mark + rb"){,%d}" % (n_columns - 1) + rb'(?:"(?:[^"]|"")*"?|[^"' + mark
    begin += rb"\r\n\0][^" + mark + rb"\r\n\0]*|)"
    last = rb"(?:" + cell + mark + rb"){,%d}" % (n_columns - 1) + cell + rb"\r"
    open_ = re.fullmatch(begin, text[at:]) or re.fullmatch(last, text[at:])
    return rows, [at, text.count(b"\n", 0, at), int(not open_)]
