"""Say in words what a regression tells of its effects, and which problems its releases show."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...engine.gain import JUDGES
from ...store.words import counted
from ..several import clear_deviations
from .effects import FEWEST_STEPS, Effect, Reading, ratio_of, reading

#: Effects that a list begins with, and names of those that have no interval.
MOST_LISTED, _MOST_NAMED = 10, 5
#: The largest ratio that is told of a large effect.
_MOST_TOLD = 1000.0

#: How much longer than the bound rows have to be for a finding; the log odds ratio of a value that tells the class: in
#: simulations 4.1 and more if all its records had one, and 3.4 if the true ratio was 20.
_LONGER, _TELLING = 1.1, 4.0
#: Standard deviations of the noise that a finding stands clear of; those of a 90 % interval.
_CLEAR, _NINETY = 3.0, 1.645
#: Probability that no warning is made by noise alone: fits are many.
_SURELY = 1 - 1e-6
#: A share of moved values that is not told; noise in the ratio of counts' variance to the stated one that hides it.
_NEXT_TO_NONE, _HIDES = 0.001, 0.5


class Told(NamedTuple):
    """What a regression tells about its effects, for every door.

    ``known`` are those with an interval, the largest first by one standard deviation of the column, and ``unknown`` the
    others, in their order. Effects on classes that do not occur (``absent``) are in neither.
    """

    known: list[Effect]
    unknown: list[Effect]
    absent: list[str]

    @classmethod
    def of(cls, model: Any, names: Sequence[str] | None = None) -> Told:
        """Sort the effects of a fitted regression; ``names`` replace those of its columns."""
        read = reading(model)
        every, absent = read.told, [label for label, k, _ in read.outcomes if k in read.absent]
        if names is not None:
            own = (names[j % len(names)] for j in range(len(every)))
            every = [
                one._replace(name=name, label=f"{name} {one.change}" if one.label.startswith(one.name) else one.label)
                for one, name in zip(every, own, strict=True)
            ]
        told = [one for one in every if one.change and one.outcome not in absent]
        known = sorted((one for one in told if one.known), key=lambda one: -abs(one.standard.mean))
        return cls(known, [one for one in told if not one.known], list(map(str, read.absent.values())))

    @property
    def any(self) -> bool:
        """Whether something is known of an effect."""
        return bool(self.known) or any(one.large for one in self.unknown)

    @property
    def sentence(self) -> str:
        """Count the effects that are known, and the intervals that leave out a ratio of 1."""
        n, apart = len(self.known), sum(one.log_ratio.clear for one in self.known)
        large, every = sum(one.large for one in self.unknown), n + len(self.unknown)
        if not every:
            return ""
        if not n:
            told = "none is known at this epsilon"
        elif n == 1:
            told = f"1 is known, and its 90 % interval {'leaves out' if apart else 'holds'} a ratio of 1"
        else:
            some = f"the 90 % interval{'s' * (apart > 1)} of {apart} leave{'s' * (apart == 1)} out a ratio of 1"
            told = f"{n} are known, and {some if apart else 'all their 90 % intervals hold a ratio of 1'}"
        more = f" {large} {'is' if large == 1 else 'are'} only known to be large." if large else ""
        return f"Of {counted(every, 'effect')} {told}.{more}"

    def lines(self, ratio: str, most: int | None = MOST_LISTED, more: str = "") -> list[str]:
        """List the known effects, at most ``most`` of them, and name the others. ``more`` says where the rest is."""
        several = len({one.outcome for one in [*self.known, *self.unknown]}) > 1
        shown, lines = self.known[:most], []

        def name_of(one: Effect) -> str:
            return f"{one.outcome}: {one.label}" if several else one.label

        for one in shown:
            mean, low, high = map(ratio_text, one.ratio)
            ends = f"[{low}, {high}]{' *' if one.clear else ''}"
            lines.append(f"  {mean:>8}  {ends:<20}  {ratio_text(ratio_of(one.standard.mean)):>6}  {name_of(one)}")
        for one in [one for one in self.unknown if one.large][:most]:
            up = one.log_ratio.mean > 0
            end = ratio_text(min(one.ratio.low, _MOST_TOLD) if up else max(one.ratio.high, 1 / _MOST_TOLD))
            end = f"at {'least' if up else 'most'} {end}"
            lines.insert(0, f"  {'large':>8}  {end:<20}  {'':>6}  {name_of(one)}")
        if lines:
            lines.insert(0, f"  {ratio:>8}  {'90 % interval':<20}  {'one sd':>6}  change")
        if rest := len(self.known) - len(shown):
            lines.append(f"  … and {rest} more{f' ({more})' if more else ''}")
        if any(one.clear for one in self.known):
            lines.append("* leaves out 1 also if the intervals are to hold for all effects together.")
        if unknown := [one for one in self.unknown if not one.large]:
            n, whole, named = len(unknown), len(self.known) + len(self.unknown), _some(map(name_of, unknown))
            lines.append(f"Not known at this epsilon, without interval: {n} of {whole} effects ({named}).")
        return lines


def ratio_text(value: float) -> str:
    """Write a ratio with three digits, or as many as show two of its distance from 1.

    >>> ratio_text(1.6834), ratio_text(1.0634), ratio_text(0.99997), ratio_text(1.0), ratio_text(1234.5)
    ('1.68', '1.063', '0.99997', '1', '1,230')
    """
    if not math.isfinite(value) or not value or abs(value - 1) < 1e-8:
        return f"{value:.0f}"
    size, apart = (math.floor(math.log10(v)) for v in (value, abs(value - 1)))
    digits = 3 if value > 100 else max(3, size - apart + 2)
    return f"{float(f'{value:.{digits}g}'):,.{max(digits, size + 1)}g}"


def _of_unknown(read: Reading, told: Told, but: Collection[str] = ()) -> list[str]:
    """Say in words which effects are not known, ``but`` those of some columns."""
    unknown = [one for one in told.unknown if one.name not in but and not one.large]
    if not unknown:
        return []
    if read.too_few:
        return [
            f"effects: {read.too_few} steps are too few for intervals, since the centers are still on their way; "
            f"expected n_steps={FEWEST_STEPS} or more"
        ]
    return [
        f"effects: the data say little or nothing about {len(unknown)} of {len(told.known) + len(told.unknown)} at "
        f"this epsilon, so they have no intervals ({_some(one.name for one in unknown)}); expected more records or "
        "epsilon, or fewer columns"
    ]


def _some(names: Iterable[str]) -> str:
    """List the first names."""
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:_MOST_NAMED]) + ", …" * (len(listed) > _MOST_NAMED)


def counted_findings(model: Any, level: float = 0.99) -> list[str]:
    """Say what the last step counted: values beyond bounds, counts that were cut; and whether dispersion is known.

    With probability ``level`` no share is said that only noise made. Columns of 0 and 1 have no bounds.
    """
    read, found = reading(model), []
    counts, one = not read.labels, read.one
    if "shares" in read.state:
        *shares, sd = read.state["shares"].tolist()
        n = read.public.n_records
        numbers = zip(read.names, read.changes, shares, strict=False)
        own = [(name, share) for name, change, share in numbers if change.step]
        if counts:
            own.append(("", shares[-1]))
        least = clear_deviations(len(own), level=level) * sd
        for name, share in own:
            if share <= max(least, _NEXT_TO_NONE):
                continue
            error = _NINETY * math.hypot(sd, math.sqrt(share * max(1 - share, 0.0) / min(n, JUDGES)) * (n > JUDGES))
            about = f"about {share:.1%} (± {error:.1%})"
            if name:
                found.append(
                    f"{name}: {about} of the values are beyond its bounds and were moved to them, which bends its "
                    'effect; expected wider public bounds, or beyond = "missing" or "refuse" in the schema'
                )
            else:
                found.append(
                    f"largest={float(one.largest):g}: {about} of the counts are above it and were cut, so that effects "
                    "are on the mean of the cut counts; expected a larger public bound"
                )
    if counts and read.private and read.full:
        noise, curvature = math.sqrt(float(read.state["squares"][-1])), read.state["matrix"].diagonal()
        # A curvature that noise brought to 0 or less hides it, too.
        if noise > _HIDES * float(np.linalg.norm(np.maximum(curvature, 0.0))):
            found.append(
                f"dispersion={float(one.dispersion):g}: the noise hides whether counts are spread more than that, so "
                "intervals rest on it; expected more records or epsilon, a smaller largest=, or a dispersion known to "
                "be large enough"
            )
    return found


@np.errstate(all="ignore")
def findings(model: Any) -> list[str]:
    """List problems that releases show or leave open, with remedies.

    The first released s2, S = sum of b/4 x x^T, says more than the coefficients. Its trace over its entry of the
    constant is the rows' mean square length before they are scaled down, since a row and its constant are scaled alike.
    Its last row gives the mean of the logits, and S itself their spread. The law of the noise in S is known. The last
    step counts values that were moved to a bound, and counts that were cut.
    """
    read, told, found = reading(model), Told.of(model), counted_findings(model, _SURELY)
    binary = len(read.weights) == 1 and bool(read.constant)
    if binary and (read.full or read.spherical):
        found += _of_long_rows(read)
    separated, by_these = read.separating
    if separated:
        mostly = [name for name, one in zip(read.names, by_these, strict=True) if one]
        by = f" (mostly {', '.join(mostly[:_MOST_NAMED])})" if mostly else ""
        # That is why nothing is known.
        return [
            *found,
            f"classes {read.labels}: almost separated by the columns{by}, so that coefficients say only how "
            "completely; expected no column that tells the label: leave it out",
        ]
    rare = [
        f"classes: {name!r} occurs in hardly any record, so that no effect on it can be seen; expected classes "
        "that occur: join it with another, or check its spelling"
        for name in read.absent.values()
    ]
    if rare and binary:
        return found + rare
    # Of values whose records have nearly all one class the curvature is next to nothing: noise hides their intervals.
    telling = [
        one
        for one, change in zip(read.told, read.changes, strict=False)
        if binary and read.moments and read.classifies and change.text and not change.step
        if abs(one.log_ratio.mean) > _TELLING and (one.clear or not one.known)
    ]
    found = _of_unknown(read, told, {one.name for one in telling}) + found + rare
    if telling:
        listed = ", ".join(f"{one.name.partition('=')[0]} {one.change}" for one in telling[:_MOST_NAMED])
        found.append(
            f"effects: nearly all records of a value have one class ({listed}), so that its odds ratio says only that "
            "it is large; expected values with records of both classes: leave the column out, or join the value with "
            "another"
        )
    return found


def _of_long_rows(read: Reading) -> list[str]:
    """Say whether rows are longer than their bound, or that noise hides it."""
    moments, bound = read.moments, float(read.one.row_norm)
    if not read.private:
        return []
    if moments is not None:
        square, limit = float(moments.matrix.diagonal()[:-1].sum()), (_LONGER * bound) ** 2
        error = _CLEAR * moments.noise * math.sqrt(read.d)
        if square - error > limit:
            return [
                f"row_norm={bound:g}: rows are about {math.sqrt(square):.2g} long and were scaled down, which biases "
                "coefficients; expected a public bound above that, such as the schema's largest row norm"
            ]
        if square + error <= limit:
            return []
    if read.schema is not None:
        return []
    return [
        f"row_norm={bound:g}: the noise hides whether rows are longer and were scaled down, which would bias "
        "coefficients; expected a bound that follows from public facts, such as a schema"
    ]
