"""Find the columns of a table by its header, the first line.

Names of columns are public: they are the same for every record that the table could hold. So messages list them. The
first line of a file without a header is a record. Such a line is not shown if it does not look like names.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

#: Delimiters of CSV, and their names.
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: The most characters of a name, and of names in a message.
_LONGEST, _SHOWN = 60, 400
#: Signs of another delimiter in a header of one column.
_OTHERS = re.compile(r"[:^~\x00-\x1f]|\S {2,}\S")
_EXPECTED = "expected commas, semicolons, tabs or bars between columns"


def find_delimiter(headers: Mapping[str, Sequence[str]]) -> str:
    """Choose the delimiter that makes the most columns of the header.

    Raises ValueError if two delimiters make equally many columns, or another character seems to be the delimiter.
    """
    most = max(map(len, headers.values()))
    best = [delimiter for delimiter, names in headers.items() if len(names) == most]
    if most > 1 and len(best) > 1:
        named = " and ".join(DELIMITERS[delimiter] for delimiter in best)
        raise ValueError(f"{named} make {most} columns of the header each; expected one kind of delimiter")
    if most == 1 and _OTHERS.search(headers[best[0]][0].strip()):
        raise ValueError(f"the header is one column; {_EXPECTED}")
    return best[0]


def places_of(columns: Sequence[str], names: Sequence[Any]) -> list[int]:
    """Find the places of columns; ValueError names missing ones."""
    listed = list(names)
    for name in columns:
        if listed.count(name) > 1:
            raise ValueError(f"{listed.count(name)} of its {len(listed)} columns are named {name!r}; expected one")
        if name not in listed:
            raise ValueError(missing_column(name, listed))
    return [listed.index(name) for name in columns]


def missing_column(name: str, names: Sequence[Any]) -> str:
    """Write the message about a column that is not there."""
    if not _are_names(names):
        return f"no column {name!r}, and its first line looks like a record; expected a header with names of columns"
    known = {str(one).casefold(): str(one) for one in names}
    near = get_close_matches(name.casefold(), known, 1, 0.7)
    near = near or [key for key in known if len(name) > 2 and name.casefold() in key][:1]
    text = ", ".join(map(repr, names))
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN].rpartition(', ')[0]}, …"
    guess = f"; did you mean {known[near[0]]!r}?" if near else ""
    alone = f" ({_EXPECTED})" if len(names) == 1 else ""
    return f"no column {name!r}{guess} It has {text}{alone}" if guess else f"no column {name!r}; it has {text}{alone}"


def _are_names(names: Sequence[Any]) -> bool:
    """Tell whether these can be names of columns, not a record's cells."""
    texts = [str(name).strip() for name in names]
    filled = [text for text in texts if text]
    short = all(len(text) <= _LONGEST and len(text.split()) <= 6 and "\n" not in text for text in filled)
    worded = all(any(map(str.isalpha, text)) for text in filled)
    return bool(filled) and short and worded and len(set(filled)) == len(filled)
