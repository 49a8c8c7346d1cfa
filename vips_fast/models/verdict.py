"""Judge a fitted model from releases, in words: the interval of its found gain decides."""

from dataclasses import dataclass

from ..engine.gain import FoundGain
from ..store.words import a, several

#: A gain that matters.
LEAST = 0.02
#: An interval of this width says nothing.
_HIDDEN = 1.0
#: The share of units without a counted word, and of words that are not counted, that is told.
_MANY = 0.1


@dataclass(frozen=True)
class Verdict:
    """The ``worth`` of a model: "useful", "no better", "unclear", or "" if no release shows it. ``text`` says it."""

    worth: str
    found: FoundGain | None
    text: str

    @classmethod
    def of_topics(
        cls,
        found: FoundGain | None,
        unit: str,
        empty: tuple[float, float] | None = None,
        outside: tuple[float, float] | None = None,
        hidden: bool = False,
        unlike: str | None = None,
        two: tuple[float, float] | None = None,
    ) -> "Verdict":
        """Judge topics by their gain over the records' own word frequencies.

        ``empty`` is the released share of units without a counted word, and the noise in it; ``outside`` that of a
        unit's words that are not in the vocabulary; ``two`` that of units with two counted words, of which one can
        predict the other. ``hidden`` says that nothing was measured, since noise would hide it. ``unlike`` names the
        language whose public text uses the counted words otherwise than the records.
        """
        many, told = several(unit), []
        if empty is not None and empty[0] - 2.0 * empty[1] > _MANY:
            told.append(f"about {min(empty[0], 1.0):.0%} of the {many} have none of the counted words")
        if outside is not None and outside[0] - 2.0 * outside[1] > _MANY:
            told.append(f"about {min(outside[0], 1.0):.0%} of {a(unit)}'s words are not counted")
        if unlike is not None:
            language = unlike and f" of {unlike!r}"
            told.append(f"the counted words are used otherwise than public text{language} uses them")
        claim, than = f"half of {a(unit)}'s words predict the other half", f"than the word counts of all {many} do"
        more = f"More {many} or a larger epsilon"
        remedy = f"{more} would tell; until then read the topics as hints."
        worth, text = _judged(found, claim, than, "counting words", remedy)
        if hidden or (found is not None and worth == "unclear" and found.high - found.low >= _HIDDEN):
            worth, text = "unclear", f"Verdict: cannot tell. Noise hides whether {claim} better {than}. {remedy}"
        if two is not None and two[0] + 2.0 * two[1] < _MANY:
            few = f"Less than {_MANY:.0%} of the {many} have two counted words, so hardly a half predicts the other."
            worth, text = "unclear", f"Verdict: cannot tell. {few} Read the topics as hints."
        elif worth == "no better" and unlike is None:  # of another language no number of texts would help
            text += f" {more} may help."
        if told:
            facts = "; ".join(told)
            text = f"{text} {facts[0].upper()}{facts[1:]}. Look at the language and the vocabulary.".strip()
        return cls(worth, found, text)

    @classmethod
    def of_columns(cls, found: FoundGain | None, unit: str) -> "Verdict":
        """Judge a mixture or a network by its gain over the columns' shares."""
        claim = f"half of {a(unit)}'s columns predict the other half"
        remedy = f"More {several(unit)} or a larger epsilon"
        worth, text = _judged(found, claim, "than their shares do", "the columns' shares", f"{remedy} would tell.")
        return cls(worth, found, text)

    @classmethod
    def of_outcomes(
        cls, found: FoundGain | None, told: str, claim: str, than: str, unit: str, held: float
    ) -> "Verdict":
        """Judge a regression by what it predicts.

        ``told`` says which effects are known, and ``held`` is the released share of units that have a record.
        """
        worth, text = _judged(found, claim, than, "without columns", "More records or a larger epsilon would tell.")
        if held < 1.0 - _MANY:
            of = f"the number of {several(unit)} in the guarantee"
            text += (
                f" About {1.0 - held:.0%} of {of} had no record that counts. Look at the label and at missing values."
            )
        return cls(worth, found, f"{text} {told}".strip())

    def __str__(self) -> str:
        return self.text


def _judged(found: FoundGain | None, claim: str, than: str, other: str, remedy: str) -> tuple[str, str]:
    """Judge a gain: useful if the interval is above one that matters, "no better" if it is below, else "unclear"."""
    if found is None:
        return "", ""
    side, ends = "better" if found.gain > 0.0 else "worse", f"90 % interval {found.low:+.0%} to {found.high:+.0%}"
    size = "less than 1%" if abs(found.gain) < 0.005 else f"{abs(found.gain):.0%}"
    said = f"In a release, {claim} {size} {side} ({ends}) {than}."
    if found.low > LEAST:
        return "useful", f"Verdict: useful. {said}"
    if found.high < LEAST:
        return "no better", f"Verdict: not better than {other}. {said}"
    # An interval above 0 would else read as a gain.
    small = f" It may be less than {LEAST:.0%}, which hardly matters." if found.low > 0.0 else ""
    return "unclear", f"Verdict: cannot tell. {said}{small} {remedy}"
