"""Articles and plurals of names that a caller gives, such as that of the privacy unit."""

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


def counted(number: float, noun: str, form: str = "") -> str:
    """Write a number of things, as `format` does.

    >>> counted(1, "release"), counted(0, "release"), counted(21000, "row", ",")
    ('1 release', '0 releases', '21,000 rows')
    """
    return f"{number:{form}} {noun if number == 1 else several(noun)}"
