"""Articles and plurals of names that a caller gives, such as that of the privacy unit; decimals beside an interval."""

import math

_CONSONANT_SOUNDS = ("eu", "one", "uni", "use", "uti", "ura", "ure")
_VOWEL_SOUNDS = ("hour", "heir", "hono", "hones")


def a(noun: str) -> str:
    """Write a noun with its indefinite article.

    >>> a("person"), a("author"), a("user"), a("hour")
    ('a person', 'an author', 'a user', 'an hour')
    """
    low = noun.lower()
    vowel = low.startswith(tuple("aeiou")) and not low.startswith(_CONSONANT_SOUNDS)
    return f"an {noun}" if vowel or low.startswith(_VOWEL_SOUNDS) else f"a {noun}"


def several(noun: str) -> str:
    """Write a noun in the plural.

    >>> several("release"), several("family"), several("class"), several("day"), several("person")
    ('releases', 'families', 'classes', 'days', 'persons')
    """
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def decimals(value: float, low: float, high: float) -> int:
    """Count the decimals of a number and of its interval's ends: two digits of the shorter side, and none for no side.

    >>> decimals(0.99988, 0.781, 1.28), decimals(1.041, 1.038, 1.044), decimals(1234.5, 800.0, 2000.0)
    (2, 4, 0)
    """
    side = min((one for one in (value - low, high - value) if 0 < one < math.inf), default=math.inf)
    return 0 if math.isinf(side) else max(0, 1 - math.floor(math.log10(side)))


def counted(number: float, noun: str, form: str = "") -> str:
    """Write a number of things, as `format` does.

    >>> counted(1, "release"), counted(0, "release"), counted(21000, "row", ",")
    ('1 release', '0 releases', '21,000 rows')
    """
    return f"{number:{form}} {noun if number == 1 else several(noun)}"
