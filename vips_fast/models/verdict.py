"""Judge a fitted model from releases, in words: the interval of its found gain decides."""

import math
from dataclasses import dataclass

from ..engine.gain import FoundGain
from ..store.words import a, several

#: A gain that matters.
_LEAST = 0.02
#: A sure gain is above another by this many half widths of its interval, in nats: noise passes for it in 1 fit of 200.
_SURE = 1.6
#: An interval of this width says nothing.
_HIDDEN = 1.0
#: The share of units without a counted word, and of words that are not counted, that is told.
_MANY = 0.1


@dataclass(frozen=True)
class Verdict:
    """The worth of a model.

    Attributes
    ----------
    worth : {"useful", "weak", "noise", "no better", "unclear", ""}
        "" if no release shows it. Of topics and outcomes "useful", "no better" or "unclear".
    found : FoundGain or None
    text : str
        The verdict in one line, "" without one.
    """

    worth: str
    found: FoundGain | None
    text: str

    @classmethod
    def of(cls, found: FoundGain | None, claim: str, over: str) -> "Verdict":
        """Judge a found gain of ``claim``, a prediction, over another one; without counts a sure gain is needed."""
        if found is None:
            return cls("", None, "")
        sure = _is_above(found, 0.0)
        worth = "useful" if _is_above(found, _LEAST) else "weak" if sure else "noise"
        if sure:
            gain = f"{found.gain:.0%} better (90 % interval {found.low:.0%} to {found.high:.0%})"
        else:
            gain = f"perhaps no better ({found.low:.0%} to {found.high:.0%})" if found.high > _LEAST else "no better"
        head = "mostly noise" if worth == "noise" else worth
        return cls(worth, found, f"Verdict: {head}. Found in a release: {claim} {gain} than {over}.")

    @classmethod
    def of_topics(
        cls,
        found: FoundGain | None,
        unit: str,
        empty: tuple[float, float] | None = None,
        outside: tuple[float, float] | None = None,
        hidden: bool = False,
        unlike: str | None = None,
    ) -> "Verdict":
        """Judge topics by their gain over the records' own word frequencies.

        ``empty`` is the released share of units without a counted word, and the noise in it; ``outside`` that of a
        unit's words that are not in the vocabulary. ``hidden`` says that nothing was measured, since noise would hide
        it. ``unlike`` names the language whose public text uses the counted words otherwise than the records.
        """
        many, told = several(unit), []
        if empty is not None and empty[0] - 2.0 * empty[1] > _MANY:
            told.append(f"about {min(empty[0], 1.0):.0%} of the {many} have none of the counted words")
        if outside is not None and outside[0] - 2.0 * outside[1] > _MANY:
            told.append(f"about {min(outside[0], 1.0):.0%} of {a(unit)}'s words are not counted")
        if unlike is not None:
            told.append(
                f"the counted words are used otherwise than public text{unlike and f' of {unlike!r}'} uses them"
            )
        claim, than = f"half of {a(unit)}'s words predict the other half", f"than the word counts of all {many} do"
        remedy = f"More {many} or a larger epsilon would tell; until then read the topics as hints."
        worth, text = _judged(found, claim, than, "counting words", remedy)
        if hidden or (found is not None and worth == "unclear" and found.high - found.low >= _HIDDEN):
            worth, text = "unclear", f"Verdict: cannot tell. Noise hides whether {claim} better {than}. {remedy}"
        if told:
            facts = "; ".join(told)
            advice = "Look at the language and the vocabulary."
            text = f"{text} {facts[0].upper()}{facts[1:]}. {advice}".strip()
        return cls(worth, found, text)

    @classmethod
    def of_outcomes(cls, found: FoundGain | None, told: str, claim: str, than: str) -> "Verdict":
        """Judge a regression by what it predicts; ``told`` says which effects are known."""
        worth, text = _judged(found, claim, than, "without columns", "More records or a larger epsilon would tell.")
        return cls(worth, found, f"{text} {told}".strip())

    def __str__(self) -> str:
        return self.text


def _judged(found: FoundGain | None, claim: str, than: str, other: str, remedy: str) -> tuple[str, str]:
    """Judge a gain: useful if the interval is above one that matters, "no better" if it is below, else "unclear"."""
    if found is None:
        return "", ""
    side, ends = "better" if found.gain > 0.0 else "worse", f"90 % interval {found.low:+.0%} to {found.high:+.0%}"
    said = f"In a release, {claim} {abs(found.gain):.0%} {side} ({ends}) {than}."
    if found.low > _LEAST:
        return "useful", f"Verdict: useful. {said}"
    if found.high < _LEAST:
        return "no better", f"Verdict: not better than {other}. {said}"
    return "unclear", f"Verdict: cannot tell. {said} {remedy}"


def _is_above(found: FoundGain, least: float) -> bool:
    """Tell whether a gain is surely above another.

    Noise is about the nats: a gain near 1 has a short way up and a long one down.
    """
    nats, low = (-math.log(max(1.0 - gain, 1e-12)) for gain in (found.gain, found.low))
    return nats - _SURE * (nats - low) > -math.log1p(-least)
