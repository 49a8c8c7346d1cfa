"""Judge a fitted model from releases: useful, weak or noise.

The judgment is in words.

Of topics and of regressions the interval of the found gain decides. Of other models two numbers do. The found gain says
how much the model tells about a record. The clear features say how far the model stands above the noise. A model with
clear features and a small gain is good for reading and for tables, and not for prediction.
"""

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
    clear : int or None
        Different features that stand clear of the noise; None if the model has no such count.
    text : str
        The verdict in one line, "" without one.
    """

    worth: str
    found: FoundGain | None
    clear: int | None
    text: str

    @classmethod
    def of(
        cls,
        found: FoundGain | None,
        claim: str,
        *,
        over: str,
        clear: int | None = None,
        enough: int = 0,
        feature: str = "",
    ) -> "Verdict":
        """Judge a found gain and the number of clear features.

        ``claim`` names the prediction, ``over`` the one that it is compared with. From ``enough`` clear features on,
        the model can be read.
        """
        readable = clear is None or clear >= enough
        if found is None:
            if readable:
                return cls("", found, clear, "")
            return cls("noise", found, clear, f"Verdict: mostly noise. {_count(clear, feature)}")
        advice = ""
        if _is_above(found, _LEAST):
            worth = "useful" if readable else "weak"
            advice = "" if readable else "good for prediction, not for reading"
        elif clear is None:
            worth = "weak" if _is_above(found, 0.0) else "noise"
        else:
            worth = "weak" if readable else "noise"
            if readable and found.low <= _LEAST:
                advice = "good for reading and for tables, not for prediction"
        if _is_above(found, 0.0):
            gain = f"{found.gain:.0%} better (90 % interval {found.low:.0%} to {found.high:.0%})"
        else:
            gain = f"perhaps no better ({found.low:.0%} to {found.high:.0%})" if found.high > _LEAST else "no better"
        head = f"{words_of_worth(worth)}{': ' if advice else ''}{advice}"
        text = f"Verdict: {head}. Found in a release: {claim} {gain} than {over}."
        return cls(worth, found, clear, text + (f" {_count(clear, feature)}" if feature else ""))

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

        Useful if the interval is above a gain that matters, "no better" if it is below, else "unclear". ``empty`` is
        the released share of units without a counted word, and the noise in it; ``outside`` that of a unit's words that
        are not in the vocabulary. ``hidden`` says that nothing was
        measured, since noise would hide it. ``unlike`` names the language whose public text uses the counted words
        otherwise than the records.
        """
        many = several(unit)
        without = ""
        if empty is not None and empty[0] - 2.0 * empty[1] > _MANY:
            without = (
                f" About {empty[0]:.0%} of the {many} have none of the counted words: look at their language, and "
                "at the vocabulary."
            )
        if outside is not None and outside[0] - 2.0 * outside[1] > _MANY:
            without += (
                f" About {min(outside[0], 1.0):.0%} of {a(unit)}'s words are not in the list of words that are "
                "counted. A longer list, or one of your own, counts more (vocab_size, vocab)."
            )
        if unlike is not None:
            without += (
                f" The records use the counted words otherwise than public text{unlike and f' of {unlike!r}'}: if they "
                "are in another language, give the language; if they have many words of their own, give a vocabulary."
            )
        claim, than = f"half of {a(unit)}'s words predict the other half", f"than the word counts of all {many} do"
        more = f"More {many} or a larger epsilon would tell; until then read the topics as hints."
        if found is None and not hidden:
            return cls("", found, None, without.strip())
        if found is None:
            text = f"Verdict: cannot tell. With so few {many} noise would hide whether {claim} better {than}."
            return cls("unclear", found, None, f"{text} {more}{without}")
        side = "better" if found.gain > 0.0 else "worse"
        ends = f"90 % interval {found.low:+.0%} to {found.high:+.0%}"
        told = f"In a release, {claim} {abs(found.gain):.0%} {side} ({ends}) {than}"
        if found.low > _LEAST:
            worth, text = "useful", f"useful. {told}."
        elif found.high < _LEAST:
            worth, text = "no better", f"not better than counting words. {told}."
        elif found.high - found.low < _HIDDEN:
            worth, text = "unclear", f"cannot tell. {told}. {more}"
        else:
            worth, text = "unclear", f"cannot tell. Noise hides whether {claim} better {than}. {more}"
        return cls(worth, found, None, f"Verdict: {text}{without}")

    @classmethod
    def of_outcomes(cls, found: FoundGain | None, told: str, clear: int, claim: str, than: str) -> "Verdict":
        """Judge a regression by what it predicts, and say apart from it which effects are known.

        Useful if the interval of the gain is above one that matters, "no better" if it is below, else "unclear".
        ``told`` is the sentence about the effects.
        """
        if found is None:
            return cls("", None, clear, told)
        side, ends = "better" if found.gain > 0.0 else "worse", f"90 % interval {found.low:+.0%} to {found.high:+.0%}"
        said = f"In a release, {claim} {abs(found.gain):.0%} {side} ({ends}) {than}."
        if found.low > _LEAST:
            worth, text = "useful", f"useful. {said}"
        elif found.high < _LEAST:
            worth, text = "no better", f"not better than without columns. {said}"
        else:
            worth, text = "unclear", f"cannot tell. {said} More records or a larger epsilon would tell."
        return cls(worth, found, clear, f"Verdict: {text} {told}".strip())

    def __str__(self) -> str:
        return self.text


def _is_above(found: FoundGain, least: float) -> bool:
    """Tell whether a gain is surely above another.

    Noise is about the nats: a gain near 1 has a short way up and a long one down.
    """
    nats, low = (-math.log(max(1.0 - gain, 1e-12)) for gain in (found.gain, found.low))
    return nats - _SURE * (nats - low) > -math.log1p(-least)


def words_of_worth(worth: str) -> str:
    """Write a worth as a verdict and a forecast say it."""
    return "mostly noise" if worth == "noise" else worth


def _count(clear: int | None, feature: str) -> str:
    if clear == 1:
        return f"1 {feature} stands clear of the noise."
    return f"{clear or 'No'} {several(feature)} stand clear of the noise."
