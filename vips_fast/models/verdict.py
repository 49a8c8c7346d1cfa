"""Judge a fitted model from releases: useful, weak or noise.

The judgment is in words.

Two numbers decide. The found gain says how much the model tells about a record. The clear features say how far the
model stands above the noise: words of topics, for example. A model with clear features and a small gain is good for
reading and for tables, and not for prediction.
"""

import math
from dataclasses import dataclass

from ..engine.gain import FoundGain

#: A gain that matters.
_LEAST = 0.02
#: A sure gain is above another by this many half widths of its interval, in nats: noise passes for it in 1 fit of 200.
_SURE = 1.6


@dataclass(frozen=True)
class Verdict:
    """The worth of a model.

    Attributes
    ----------
    worth : {"useful", "weak", "noise", ""}
        "" if no release shows it.
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
        careful: FoundGain | None = None,
    ) -> "Verdict":
        """Judge a found gain and the number of clear features.

        ``claim`` names the prediction, ``over`` the one that it is compared with. From ``enough`` clear features on,
        the model can be read. ``careful`` is the gain with doubts that are no noise of the score, if there are any. It
        is the one that you read, and a model is useful only if its interval is above a gain that matters.
        """
        readable = clear is None or clear >= enough
        if found is None:
            if readable:
                return cls("", found, clear, "")
            return cls("noise", found, clear, f"Verdict: mostly noise. {_count(clear, feature)}")
        advice = ""
        if _is_above(found, _LEAST) and (careful is None or careful.low > _LEAST):
            worth = "useful" if readable else "weak"
            advice = "" if readable else "good for prediction, not for reading"
        elif clear is None:
            worth = "weak" if _is_above(found, 0.0) else "noise"
        else:
            worth = "weak" if readable else "noise"
            if readable and found.low <= _LEAST:
                advice = "good for reading and for tables, not for prediction"
        # Doubts take from a gain that is sure to be above the noise, and make none of another.
        sure, found = _is_above(found, 0.0), found if careful is None else careful
        if sure and found.low > 0.0:
            gain = f"{found.gain:.0%} better (90 % interval {found.low:.0%} to {found.high:.0%})"
        else:
            gain = f"perhaps no better ({found.low:.0%} to {found.high:.0%})" if found.high > _LEAST else "no better"
        head = f"{words_of_worth(worth)}{': ' if advice else ''}{advice}"
        text = f"Verdict: {head}. Found in a release: {claim} {gain} than {over}."
        return cls(worth, found, clear, text + (f" {_count(clear, feature)}" if feature else ""))

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
    return f"{clear or 'No'} {feature}s stand clear of the noise."
