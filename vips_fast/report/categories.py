"""Name topics and clusters by public categories of their released words."""

from collections import Counter
from collections.abc import Mapping, Sequence

from .text import Namer

#: Words of a topic that a category has to have, and words behind it in a name.
_LEAST, _SHOWN = 3, 3


def category_namer(categories: Mapping[str, frozenset[str]]) -> Namer:
    """Make a namer that puts public categories before topics' words.

    A word that many categories have says little, so it counts for one over their number. A category needs at least
    three of a topic's words. A topic without such a category is named by its words. The namer sees released words only.

    >>> name = category_namer({"vehicle": frozenset(["car", "bike", "bus"]), "food": frozenset(["bread", "car"])})
    >>> name([["car", "engine", "bike", "bus"], ["bread", "car", "rent"]])
    ['vehicle: car, bike, bus', 'bread, car, rent']
    """
    n_categories = Counter(word for words in categories.values() for word in words)

    def name(lists: Sequence[Sequence[str]]) -> list[str]:
        return [_name(words) for words in lists]

    def _name(words: Sequence[str]) -> str:
        scores = {}
        for category, known in categories.items():
            found = [word for word in words if word in known]
            if len(found) >= _LEAST:
                scores[category] = sum(1 / n_categories[word] for word in found) * len(found) ** 0.5
        if not scores:
            return ", ".join(words[:_SHOWN])
        best = max(sorted(scores), key=scores.__getitem__)
        # Its own words come first, in their order.
        shown = sorted((word for word in words if word != best), key=lambda word: word not in categories[best])
        return f"{best}: {', '.join(shown[:_SHOWN])}"

    return name
