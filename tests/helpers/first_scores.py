"""Fits whose first step is their score. It is the step that an audit's layers look at."""

from vips_fast.engine.gain import MeasuredModel


def begins(kind):
    """Make a class whose fits begin, and end, with the score."""

    def _model(self, public, schedule=None):
        model = kind._model(self, public, schedule)
        return MeasuredModel(model, 1, public.n_records) if schedule else model

    return type("Begins", (kind,), {"__module__": kind.__module__, "_model": _model})


class FirstScore:
    """Part of an adapter for such fits. No record reaches the bound, and there are no canaries."""

    def tight(self, relation):
        return False

    def adds_up(self):
        return False

    def canaries(self, *arguments):
        return None


def mutants_are_seen(monkeypatch, prediction, failed):
    """Check that layers A and B see wrong contributions.

    Those beyond the bound, and those that depend on other units.
    """
    honest = prediction.rows
    with monkeypatch.context() as patch:
        patch.setattr(prediction, "rows", lambda self, *a: 40.0 * honest(self, *a))
        assert any(name.startswith("distance of") for name in failed("A"))
    with monkeypatch.context() as patch:
        patch.setattr(prediction, "rows", lambda self, b, w, *a: honest(self, b, w, *a) * (1 - 1e-4 * len(w)))
        assert failed("B")
