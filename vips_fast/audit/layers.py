"""One call for all layers."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import check_number
from ..engine.sampling import make_sampler
from .adapter import adapter_for
from .attack import layer_d, layer_e
from .bench import FULL, N_RECORDS, QUICK, Bench, Sizes, relation_of
from .noise import layer_c
from .one_run import layer_h
from .persons import Persons
from .purity import layer_b
from .rebuild import layer_g
from .replay import layer_a
from .report import AuditReport, LayerResult

Layer = Callable[[Bench, Sizes, np.random.Generator], LayerResult]

FUNCTIONS: dict[str, Layer] = {
    "A": layer_a,
    "B": layer_b,
    "C": layer_c,
    "D": layer_d,
    "E": layer_e,
    "G": layer_g,
    "H": layer_h,
}

#: F, the mutants, is the audit's own test and not a layer of it: `tests/audit/test_layers.py`.
LAYERS = tuple(FUNCTIONS)


def audit(
    model: Any,
    settings: dict[str, Any] | None = None,
    *,
    layers: Iterable[str] | None = None,
    full: bool = False,
    sizes: Sizes | None = None,
    random_state: int | None = None,
    callback: Callable[[LayerResult], None] | None = None,
    rows_per_unit: int | None = None,
) -> AuditReport:
    """Audit a model class under some settings.

    Parameters
    ----------
    model : short name of a family, estimator class, unfitted estimator or `Adapter`
        `conjugate_adapter` makes an adapter of a model of your own.
    settings : dict or None
        Constructor arguments of the estimator: the relation (``sampling``, ``relation``), clipping, precision, … .
        Sampling rate, steps and noise multiplier are chosen by the layers; layer E takes the ``noise_multiplier`` of
        the settings where there is one.
    layers : iterable of {"A", "B", "C", "D", "E", "G", "H"} or None
        None is all; H only if the adapter has `Adapter.canaries`, as for topic models and logistic
        regression do.
    full, sizes : bool, Sizes or None
        The full sizes (minutes) in place of the quick ones (about a minute), or others.
    random_state : int or None
        Seeds the generated records; noise and sampling take no seed.
    callback : callable(LayerResult) or None
        Called when a layer is done.
    rows_per_unit : int or None
        Audit fits with ``groups``, of persons with up to this number of rows. The worst pair has exactly this number.
        None audits records of one row.

    Raises ValueError if the model, a setting or a layer is unknown.
    """
    adapter = adapter_for(model, settings)
    if rows_per_unit is not None:
        adapter = Persons(adapter, int(check_number("rows_per_unit", rows_per_unit, 1, 2**31, integer=True)))
    apart = adapter.canaries(2, relation_of(adapter)) is not None
    chosen = tuple(layer for layer in LAYERS if layer != "H" or apart) if layers is None else tuple(layers)
    for layer in chosen:
        if layer not in LAYERS:
            raise ValueError(f"layers: {layer!r} is not one of {', '.join(LAYERS)}")
    if "H" in chosen and not apart:
        raise ValueError(f"layers: 'H' knows no records of {adapter.kind.__name__} whose contributions lie apart")
    if not chosen:
        raise ValueError(f"layers: expected at least one of {', '.join(LAYERS)}")
    given = dict(adapter.settings)
    adapter.settings.update(n_records=None, private=True, epsilon=None)
    if adapter.settings.get("random_state") is None:
        # Both sides of a comparison have the same public start.
        adapter.settings["random_state"] = 0
    bench = Bench(adapter, relation_of(adapter))
    # Refuses settings that no fit takes, and relations that the sampling is not accounted under.
    make_sampler(adapter.estimator().sampling, adapter.estimator()._options.relation, N_RECORDS, None)
    bench.prepare(bench.whole(), adapter.base(N_RECORDS))
    sizes = sizes or (FULL if full else QUICK)
    done: list[LayerResult] = []
    for layer in chosen:
        start, function = time.perf_counter(), adapter.layers.get(layer, FUNCTIONS[layer])
        result = function(bench, sizes, np.random.default_rng(random_state))
        if any(not check.passed and check.by_chance > 0 for check in result.checks):
            # A true claim fails it now and then. Noise and sampling are fresh, as they take no seed.
            result = result.combine_draws(function(bench, sizes, np.random.default_rng(random_state)))
        result = replace(result, seconds=time.perf_counter() - start)
        done.append(result)
        if callback is not None:
            callback(result)
    claimed: dict[str, Any] = next((result.figures["claimed"] for result in done if "claimed" in result.figures), {})
    return AuditReport(adapter.kind.__name__, given, bench.relation, tuple(done), claimed)
