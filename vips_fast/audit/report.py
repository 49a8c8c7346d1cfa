"""What an audit found, as text and as JSON-ready dicts."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..accounting import Relation


@dataclass(frozen=True)
class Check:
    """One comparison, in words in ``detail``.

    ``by_chance`` is the largest probability that one draw fails this check of a true claim; 0 if nothing is left to
    chance.
    """

    name: str
    passed: bool
    measured: float | None = None
    claimed: float | None = None
    detail: str = ""
    by_chance: float = 0.0


@dataclass(frozen=True)
class LayerResult:
    """The checks of one layer; ``figures`` holds values to plot."""

    layer: str
    title: str
    checks: tuple[Check, ...]
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every check passed, and there was one."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def combine_draws(self, second: "LayerResult") -> "LayerResult":
        """Return the verdict of two independent draws of this layer.

        A check that chance can fail fails where both draws fail it, which a true claim does with probability
        ``by_chance`` squared. Any other fails if either does. The figures come from the second draw.
        """
        checks = []
        for one, other in zip(self.checks, second.checks, strict=True):
            if one.by_chance == 0:
                checks.append(other if one.passed else one)
            elif one.passed:
                checks.append(one)
            else:
                words = f"{other.detail}; drawn again, as the first draw failed: {_sides(one)}; {one.detail}"
                checks.append(replace(other, detail=words))
        return replace(second, checks=tuple(checks))


@dataclass(frozen=True)
class AuditReport:
    """All layers that were run on one model and its settings.

    ``claimed`` has ``epsilon`` and ``delta``, the accountant's curve for the runs of layer E, or is empty where E was
    not run.
    """

    model: str
    settings: dict[str, Any]
    relation: Relation
    layers: tuple[LayerResult, ...]
    claimed: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """The verdict."""
        return bool(self.layers) and all(layer.passed for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready copy."""
        plain = (int, float, str, bool, type(None))
        return {
            "model": self.model,
            "settings": {k: v if isinstance(v, plain) else repr(v) for k, v in self.settings.items()},
            "relation": self.relation,
            "passed": self.passed,
            "claimed": self.claimed,
            "layers": [dict(asdict(layer), passed=layer.passed) for layer in self.layers],
        }

    def text(self) -> str:
        """Return lines for a terminal."""
        given = ", ".join(f"{k}={v!r}" for k, v in self.settings.items())
        lines = [f"Audit of {self.model}({given}), neighbors: {self.relation.describe()}"]
        for layer in self.layers:
            verdict = "passed" if layer.passed else "FAILED"
            lines += ["", f"{layer.layer}  {layer.title}: {verdict} ({layer.seconds:.1f} s)"]
            for check in layer.checks:
                more = "; ".join(part for part in (_sides(check), check.detail) if part)
                lines.append(f"   {'ok  ' if check.passed else 'FAIL'} {check.name}: {more}")
        if self.claimed:
            lines += ["", f"   {'epsilon':>9}  {'claimed delta':>13}  {'measured, at least':>18}"]
            for row in zip(self.claimed["epsilon"], self.claimed["delta"], self.claimed["measured"], strict=True):
                lines.append("   {:9.4f}  {:13.3e}  {:18.3e}".format(*row))
        lines += ["", f"Verdict: {'no violation found' if self.passed else 'THE CLAIM DOES NOT HOLD'}"]
        return "\n".join(lines)

    __str__ = text


def _sides(check: Check) -> str:
    sides = [f"measured {check.measured:.6g}"] if check.measured is not None else []
    sides += [f"claimed {check.claimed:.6g}"] if check.claimed is not None else []
    return ", ".join(sides)
