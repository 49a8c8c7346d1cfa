"""The layers of an audit; each is a function of an adapter and sizes."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from .. import inference
from ..accounting import SelfComposedEvent, delta, epsilon
from ..kernels.lattice import is_power_of_two
from ..sampling import make_sampler
from .adapters import Adapter, adapter_for, is_close_below, squared_norm
from .report import AuditReport, Check, LayerResult
from .statistics import delta_lower_bound, mu_interval, mu_lower_bound

LAYERS = ("A", "B", "C", "D", "E")

#: A draw fails a check of a true claim this often. CI runs hundreds of them on fresh
#: noise, so what chance can fail is drawn again, and fails where both draws fail.
ERROR = 1e-6
#: Of the confidence bounds of layers D and E.
CONFIDENCE_ERROR = 1e-5


@dataclass(frozen=True)
class Sizes:
    """How much each layer does.

    Attributes
    ----------
    pairs : int
        Generated pairs of layer A.
    records : int
        Records of layer B that are looked at one by one.
    draws : int
        Noise draws of layer C, in four releases.
    releases : int
        Releases a side and noise multiplier of layer D.
    runs : int
        Whole runs a side of layer E.
    """

    pairs: int
    records: int
    draws: int
    releases: int
    runs: int


QUICK = Sizes(pairs=500, records=60, draws=800_000, releases=8_000, runs=1_500)
FULL = Sizes(pairs=500, records=1_000, draws=10_000_000, releases=30_000, runs=20_000)

MULTIPLIERS = (1.0, 2.0, 5.0)
_THREADS = (2, 7, 16)
_STATES = 5
_N_RECORDS, _E_STEPS, _E_RATE, _E_GRID = 20, 20, 0.1, 9


def audit(
    model, settings: dict | None = None, *, layers=LAYERS, full: bool = False, sizes: Sizes | None = None,
    random_state: int | None = None, callback=None,
) -> AuditReport:
    """Audit a model class under some settings.

    Parameters
    ----------
    model : {"lda", "sbn", "blr"}, estimator class, unfitted estimator or `Adapter`
        `conjugate_adapter` makes an adapter of a model of your own.
    settings : dict or None
        Constructor arguments of the estimator: the relation (``sampling``,
        ``neighbors``), clipping, sensitivity, precision, … . Sampling rate, steps and
        noise multiplier are chosen by the layers; layer E takes the
        ``noise_multiplier`` of the settings where there is one.
    layers : iterable of {"A", "B", "C", "D", "E"}
    full : bool
        The full sizes (minutes) in place of the quick ones (about a minute).
    sizes : Sizes or None
        Other sizes.
    random_state : int or None
        Seeds the generated records; noise and sampling take no seed.
    callback : callable(LayerResult) or None
        Called when a layer is done.

    Returns
    -------
    AuditReport

    Raises
    ------
    ValueError
        If the model, a setting or a layer is unknown.
    """
    adapter = adapter_for(model, settings)
    chosen = tuple(layers)
    for layer in chosen:
        if layer not in LAYERS:
            raise ValueError(f"layers: {layer!r} is not one of {', '.join(LAYERS)}")
    if not chosen:
        raise ValueError(f"layers: expected at least one of {', '.join(LAYERS)}")
    given = dict(adapter.settings)
    adapter.settings.update(callback=None, n_records=None, private=True, target_epsilon=None)
    if adapter.settings.get("random_state") is None:
        # Both sides of a comparison have the same public start.
        adapter.settings["random_state"] = 0
    sizes = sizes or (FULL if full else QUICK)
    neighbors = relation(adapter)
    estimator = adapter.estimator()
    make_sampler(estimator.sampling, estimator.neighbors, _N_RECORDS, None)
    _whole(adapter, neighbors, noise_multiplier=1.0)._check_parameters()
    done, claimed = [], {}
    for layer in chosen:
        start = time.perf_counter()
        result = _FUNCTIONS[layer](adapter, neighbors, sizes, np.random.default_rng(random_state))
        if result.failed_by_chance:
            # Fresh noise and sampling, as they take no seed.
            result = result.drawn_again(_FUNCTIONS[layer](adapter, neighbors, sizes, np.random.default_rng(random_state)))
        result = replace(result, seconds=time.perf_counter() - start)
        claimed = result.figures.get("claimed", claimed)
        done.append(result)
        if callback is not None:
            callback(result)
    return AuditReport(adapter.estimator_type.__name__, given, neighbors, tuple(done), claimed)


def relation(adapter: Adapter) -> str:
    """The neighbouring relation that the settings are accounted under."""
    estimator = adapter.estimator()
    replaces = estimator.sampling == "without_replacement" or estimator.neighbors == "replace_one"
    return "replace_one" if replaces else "add_remove"


class _Watched:
    """A model in the loop whose sums and releases are shown to the audit.

    With ``learns=False`` its parameters stay as they are.
    """

    def __init__(self, model, *, learns, before=None, after=None):
        self.model, self.learns, self.before, self.after = model, learns, before, after
        self.statistics_shape, self.clip_norm = model.statistics_shape, model.clip_norm

    def estep(self, records, words, spacing, sums, n_threads):
        """The model's own, then ``before(sums)``."""
        self.model.estep(records, words, spacing, sums, n_threads)
        self.sums = sums
        if self.before is not None:
            self.before(sums)

    def project(self, released):
        """The model's own."""
        self.model.project(released)

    def mstep(self, state):
        """``after(state, noised sums)``, then the model's own."""
        if self.after is not None:
            self.after(state, self.sums)
        if self.learns:
            self.model.mstep(state)


def _whole(adapter, neighbors, **overrides):
    """An estimator that takes all records in each step."""
    return adapter.estimator(**{"sampling": "full", "neighbors": neighbors, "batch_size": None, **overrides})


def _set_up(adapter, estimator, records, n_rows=None, n_steps=1):
    model = adapter.model(estimator, records)
    sampler, mechanism, ledger = estimator._set_up(model, len(records) if n_rows is None else n_rows, n_steps)
    adapter.prepare(model, mechanism, sampler)
    return model, sampler, mechanism, ledger


def _declared_square(sensitivity: float, spacing: float) -> float:
    return Fraction(sensitivity) ** 2 / Fraction(spacing) ** 2


# ------------------------------------------------------------------ A replay


def layer_a(adapter: Adapter, neighbors: str, sizes: Sizes, rng) -> LayerResult:
    """Distances of the exact sums of neighbouring data sets, the randomness of records frozen."""
    estimator = _whole(adapter, neighbors, noise_multiplier=1.0)
    base = adapter.base(5)
    each = -(-sizes.pairs // _STATES)
    most, over, total = Fraction(0), 0, 0
    reached = None
    for number in range(_STATES):
        pairs = [adapter.worst_pair()]
        pairs += [(adapter.generated(rng, adapter.small), adapter.generated(rng, adapter.small)) for _ in range(each)]
        records = base + [record for pair in pairs for record in pair]
        model, _, mechanism, _ = _set_up(adapter, estimator, records)
        adapter.start(model)
        (adapter.sharp(model) if number == 0 else adapter.scramble(model, rng))
        bound = _declared_square(mechanism.sensitivity, mechanism.spacing)
        frozen = rng.integers(0, 2**64, len(base) + 1, dtype=np.uint64)

        def sums(last):
            rows = np.array([*range(len(base)), *last], dtype=np.int64)
            out = np.zeros(model.statistics_shape, dtype=np.int64)
            model.estep(rows, frozen[: len(rows)], mechanism.spacing, out, 1)
            return out.reshape(-1)

        without = sums([])
        for pair in range(len(pairs)):
            first = sums([len(base) + 2 * pair])
            second = sums([len(base) + 2 * pair + 1]) if neighbors == "replace_one" else without
            square = squared_norm(first - second)
            if number == 0 and pair == 0:
                reached = square
                worst_bound = bound
            total += 1
            over += square > bound
            most = max(most, square / bound)
    checks = [
        Check(
            "distance of neighbours", over == 0, math.sqrt(most), 1.0,
            f"largest of {total} pairs in {_STATES} released states over the declared L2 sensitivity; {over} beyond it",
        )
    ]
    if adapter.tight(neighbors):
        checks.append(
            Check(
                "worst case is reached", is_close_below(reached, worst_bound), math.sqrt(reached / worst_bound), 1.0,
                "distance of the worst pair over the declared sensitivity: the claim is not loose",
            )
        )
    adapter.poison(model)
    alone = []
    for row in range(min(20, len(records))):
        out = np.zeros(model.statistics_shape, dtype=np.int64)
        with np.errstate(invalid="ignore"):
            model.estep(np.array([row]), frozen[:1], mechanism.spacing, out, 1)
        alone.append(squared_norm(out.reshape(-1)))
    limit = _declared_square(model.clip_norm, mechanism.spacing)
    checks.append(
        Check(
            "non-finite numbers", max(alone) <= limit, math.sqrt(max(alone) / limit), 1.0,
            "largest contribution over the clip norm when the parameters are NaN",
        )
    )
    return LayerResult("A", "replay of neighbours", tuple(checks))


# ------------------------------------------------------------------ B purity


@contextmanager
def _poisoned(adapter, model):
    """The model with `Adapter.poison`; afterwards what poison changed, and only that, is as it was."""
    before = dict(vars(model))
    copies = {name: value.copy() for name, value in before.items() if isinstance(value, np.ndarray)}
    adapter.poison(model)
    changed = {name: value for name, value in before.items() if vars(model)[name] is not value}
    inside = [name for name, value in copies.items() if not np.array_equal(before[name], value)]
    try:
        yield
    finally:
        vars(model).update(changed)
        for name in inside:
            before[name][...] = copies[name]


def layer_b(adapter: Adapter, neighbors: str, sizes: Sizes, rng) -> LayerResult:
    """Bits of one record's contribution, alone and in company."""
    # The number of records is public: the same for a record's own data set.
    estimator = _whole(adapter, neighbors, noise_multiplier=1.0, n_records=adapter.many)
    records = [adapter.generated(rng, adapter.wide) for _ in range(adapter.many)]
    state_seed = int(rng.integers(2**32))

    def ready(rows):
        model, _, mechanism, _ = _set_up(adapter, estimator, rows)
        adapter.start(model)
        adapter.scramble(model, np.random.default_rng(state_seed))
        return model, mechanism.spacing

    model, spacing = ready(records)
    n = len(records)
    words = rng.integers(0, 2**64, n, dtype=np.uint64)

    def sums(rows, n_threads=1, of=model, w=None):
        rows = np.asarray(rows, dtype=np.int64)
        return adapter.exact_sums(of, rows, words[rows] if w is None else w, spacing, n_threads)

    everything = np.arange(n)
    whole = sums(everything)
    checks = [
        Check(f"{k} threads", bool((sums(everything, k) == whole).all()), detail=f"sum of {n} records, bit for bit")
        for k in _THREADS
    ]
    order = rng.permutation(n)
    checks.append(
        Check(
            "any order", bool((sums(order[:-1], 2) + sums(order[-1:]) == whole).all()),
            detail="all but one record, shuffled, plus that record",
        )
    )
    cuts = np.sort(rng.choice(np.arange(1, n), min(20, n - 1), replace=False))
    parts = sum(sums(part) for part in np.split(everything, cuts))
    checks.append(Check("any chunks", bool((parts == whole).all()), detail=f"{len(cuts) + 1} chunks of unequal size"))

    looked = np.sort(rng.choice(n, min(sizes.records, n), replace=False))
    single = {i: sums([i]) for i in looked}
    together = sums(looked)
    checks.append(
        Check(
            "alone and together", bool((sum(single.values()) == together).all()),
            detail=f"{len(looked)} records alone, and in one batch",
        )
    )
    some = looked[: max(1, min(20, len(looked)))]
    bad = sum(not (together - sums(np.setdiff1d(looked, [i])) == single[i]).all() for i in some)
    checks.append(Check("any company", bad == 0, detail=f"batch less the batch without the record, {len(some)} records"))
    bad = sum(not (sums([i]) == single[i]).all() for i in some)
    checks.append(Check("after other minibatches", bad == 0, detail="the same record again, later"))
    with _poisoned(adapter, model), np.errstate(all="ignore"):
        sums(everything[: max(1, n // 10)], 2)
    bad = sum(not (sums([i]) == single[i]).all() for i in some)
    checks.append(Check("after a poisoned minibatch", bad == 0, detail="the same again, after one whose parameters were NaN"))
    bad = 0
    for i in some:
        own, _ = ready([records[i]])
        bad += not (sums([0], of=own, w=words[[i]]) == single[i]).all()
    checks.append(Check("its own data set", bad == 0, detail="the record as the only one of another data set"))
    return LayerResult("B", "purity of contributions", tuple(checks))


# ------------------------------------------------------------------- C noise


def layer_c(adapter: Adapter, neighbors: str, sizes: Sizes, rng) -> LayerResult:
    """The law of noised sums less exact sums: two runs of two steps, on two threads."""
    records = adapter.blank(-(-sizes.draws // 4))
    multiplier = 1.5
    noises, spacings, off_lattice = [], set(), 0.0
    for _ in range(2):
        estimator = _whole(adapter, neighbors, noise_multiplier=multiplier)
        model, sampler, mechanism, ledger = _set_up(adapter, estimator, records, n_steps=2)
        sensitivity = model.paper_sensitivity if estimator.sensitivity == "paper" else model.sensitivity
        claimed = multiplier * sensitivity(neighbors) / mechanism.spacing
        exact = []

        def after(state, sums):
            nonlocal off_lattice
            units = state.average.reshape(-1) * (sampler.expected_batch_size / mechanism.spacing)
            whole = np.rint(units)
            off_lattice = max(off_lattice, float(np.abs(units - whole).max()))
            noises.append(whole.astype(np.int64) - exact[-1])

        watched = _Watched(model, learns=False, before=lambda s: exact.append(s.reshape(-1).copy()), after=after)
        inference.run(
            watched, sampler, mechanism, ledger, estimator._randomness(), adapter.start(model), n_steps=2,
            schedule=inference.Schedule(1.0, 0.0), n_threads=2,
        )
        spacings.add(mechanism.spacing)
    x = np.concatenate(noises) / claimed
    n = len(x)
    from scipy import stats

    def normal(name, value, sd, centre, detail):
        p = 2 * float(stats.norm.sf(abs(value - centre) / sd))
        return Check(name, p > ERROR, value, centre, f"{detail}; p = {p:.2g}", ERROR)

    checks = [
        normal("standard deviation", float(x.std()), math.sqrt(0.5 / n), 1.0, f"{n} draws over the claimed sd"),
        normal("mean", float(x.mean()), 1 / math.sqrt(n), 0.0, "in standard deviations"),
        normal("skewness", float((x**3).mean()), math.sqrt(15 / n), 0.0, "third moment"),
        normal("symmetry", float((x > 0).mean() + 0.5 * (x == 0).mean()), 0.5 / math.sqrt(n), 0.5, "share above 0"),
    ]
    p = float(stats.kstest(x, "norm").pvalue)
    checks.append(Check("normal law", p > ERROR, p, detail="p of Kolmogorov and Smirnov's test", by_chance=ERROR))
    low = np.bincount((np.concatenate(noises) & 255).astype(np.intp), minlength=256)
    p = float(stats.chisquare(low).pvalue)
    checks.append(Check("low bytes uniform", p > ERROR, p, detail="p of a chi-square test", by_chance=ERROR))
    checks.append(
        Check(
            "lattice", off_lattice < 1e-6 and len(spacings) == 1 and is_power_of_two(next(iter(spacings))), off_lattice, 0.0,
            "released sums are whole multiples of one power of two",
        )
    )
    flat = [a / claimed for a in noises]
    for name, a, b in (
        ("entries 1 apart", x[:-1], x[1:]),
        ("entries 2 apart", x[:-2], x[2:]),
        ("entries 8 apart, drawn as pairs", x[:-8], x[8:]),
        ("two steps of a run", flat[0], flat[1]),
        ("two runs, first steps", flat[0], flat[2]),
        ("two runs, second steps", flat[1], flat[3]),
        ("two runs, first and second step", flat[0], flat[3]),
    ):
        r = float((a * b).mean())
        checks.append(normal("uncorrelated: " + name, r, 1 / math.sqrt(len(a)), 0.0, f"{len(a)} pairs"))
    estimator = _whole(adapter, neighbors, noise_multiplier=multiplier)
    first, second = (estimator._randomness().words(1000, "sample", 0) for _ in range(2))
    checks.append(
        Check("fresh sampling", bool((first != second).all()), detail="random words of two runs differ, all of 1,000")
    )
    return LayerResult("C", "noise of a release", tuple(checks), figures={"sd": float(x.std()), "draws": n})


# ---------------------------------------------------------------------- D mu


def _sides(adapter, neighbors, n):
    """Records with and without the audited one; the rest of the data set is the same."""
    extra, replaced = adapter.worst_pair()
    base = adapter.base(n - 1)
    if neighbors == "replace_one":
        return base + [extra], base + [replaced]
    return base + [extra], base


def _releases(adapter, neighbors, records, multiplier, n, use):
    # n_records is public and the same on both sides.
    estimator = _whole(adapter, neighbors, noise_multiplier=multiplier, n_records=_N_RECORDS)
    model, sampler, mechanism, ledger = _set_up(adapter, estimator, records, n_steps=n)
    state = adapter.start(model)
    adapter.sharp(model)
    state.average[...] = 0.0
    watched = _Watched(model, learns=False, after=lambda state, _: use(state.average.reshape(-1)))
    inference.run(
        watched, sampler, mechanism, ledger, estimator._randomness(), state, n_steps=n,
        schedule=inference.Schedule(1.0, 0.0),
    )


def layer_d(adapter: Adapter, neighbors: str, sizes: Sizes, rng) -> LayerResult:
    """Gaussian-DP mu of one release of the whole data set, from two samples."""
    with_record, without = _sides(adapter, neighbors, _N_RECORDS)
    # The attacker knows all but the noise: the direction is that of the noiseless releases.
    means = []
    for records in (with_record, without):
        _releases(adapter, neighbors, records, 0.0, 1, lambda average: means.append(average.copy()))
    direction = means[0] - means[1]
    length = float(np.linalg.norm(direction))
    if length > 0:
        direction = direction / length
    checks, table = [], []
    for z in MULTIPLIERS:
        samples = []
        for records in (with_record, without):
            out: list[float] = []
            _releases(adapter, neighbors, records, z, sizes.releases, lambda average: out.append(float(average @ direction)))
            samples.append(np.array(out))
        mu, low, high = mu_interval(*samples, CONFIDENCE_ERROR)
        free = mu_lower_bound(*samples, CONFIDENCE_ERROR)
        claim = 1.0 / z
        table.append({"noise_multiplier": z, "claimed": claim, "mu": mu, "low": low, "high": high, "distribution_free": free})
        checks.append(
            Check(
                f"noise multiplier {z:g}", low <= claim and free <= claim, mu, claim,
                f"mu in [{low:.4f}, {high:.4f}], distribution-free at least {free:.4f}",
                # Of each of the two bounds.
                2 * CONFIDENCE_ERROR,
            )
        )
    return LayerResult(
        "D", f"mu of one release, {sizes.releases} a side", tuple(checks), figures={"mu": table}
    )


# ----------------------------------------------------------------- E profile


def _alike(a, b) -> bool:
    """Whether two records are the same; a record is an array or a tuple of arrays and numbers."""
    return all(map(np.array_equal, a, b)) if isinstance(a, tuple) else np.array_equal(a, b)


def _scores(adapter, neighbors, holds, multiplier, n_runs):
    """Log-likelihood ratios, "with" against "without", of whole runs on data that hold the audited record, or not.

    The attacker sees every release, knows all records but the one in question, and
    knows neither the minibatches nor the noise.
    """
    replaces = neighbors == "replace_one"
    overrides = dict(
        sampling="without_replacement" if replaces else "poisson", neighbors=None, n_records=_N_RECORDS, n_steps=_E_STEPS,
        batch_size=round(_E_RATE * _N_RECORDS), noise_multiplier=multiplier,
    )
    estimator = adapter.estimator(**{**adapter.cheap, **adapter.settings, **overrides})
    base = adapter.base(_N_RECORDS - 1)
    extra, replaced = adapter.worst_pair()
    # Rows beyond n_rows are there for the attacker's own sums alone.
    if replaces:
        records = base + ([extra, replaced] if holds else [replaced, extra])
        n_rows, here = len(base) + 1, {"with": len(base) + (not holds), "without": len(base) + holds}
    else:
        records, n_rows, here = base + [extra], len(base) + holds, {"with": len(base)}
    out = np.empty(n_runs)
    none = np.zeros(1, dtype=np.uint64)
    kinds: list[list[int]] = []  # rows of the base that are the same record
    for row in range(0 if adapter.disjoint else len(base)):
        same = [rows for rows in kinds if _alike(base[rows[0]], base[row])]
        (same[0].append(row) if same else kinds.append([row]))
    sizes_of_kinds = np.array([float(len(rows)) for rows in kinds])
    log_q, log_rest = math.log(_E_RATE), math.log1p(-_E_RATE)
    for run in range(n_runs):
        model, sampler, mechanism, ledger = _set_up(adapter, estimator, records, n_rows, _E_STEPS)
        state = adapter.start(model)
        variance = (mechanism.noise_sd / mechanism.spacing) ** 2
        score = 0.0

        def contribution(rows, words):
            sums = np.zeros(model.statistics_shape, dtype=np.int64)
            model.estep(rows, words, mechanism.spacing, sums, 1)
            return sums.reshape(-1).astype(np.float64)

        def after(state, sums):
            nonlocal score
            seen, rest = sums.reshape(-1), np.zeros((0, sums.size))
            # The rest of the minibatch is unknown. Its mean is taken off, and its covariance,
            # that of the number of records of each kind, is accounted for.
            if kinds:
                rest = np.array([contribution(np.array(rows[:1]), none) for rows in kinds])
                seen = seen - _E_RATE * (sizes_of_kinds @ rest)
                inner = np.linalg.inv(variance * np.diag(1.0 / (sizes_of_kinds * _E_RATE * (1 - _E_RATE))) + rest @ rest.T)
            for name, sign in (("with", 1.0), ("without", -1.0)):
                if name in here:
                    own = contribution(np.array([here[name]]), none)
                    filtered = own - (rest @ own) @ inner @ rest if kinds else own
                    exponent = float((seen - 0.5 * own) @ filtered) / variance
                    score += sign * float(np.logaddexp(log_rest, log_q + exponent))

        watched = _Watched(model, learns=True, after=after)
        schedule = inference.Schedule(1.0, 0.7)
        if hasattr(model, "engine_schedule"):
            schedule = model.engine_schedule()
        # With 20 records the noise may drive the public parameters anywhere; what counts is the sums.
        with np.errstate(all="ignore"):
            inference.run(
                watched, sampler, mechanism, ledger, estimator._randomness(), state, n_steps=_E_STEPS,
                schedule=schedule, update=estimator.update,
            )
        out[run] = score
    return out, SelfComposedEvent(sampler.event(multiplier), _E_STEPS)


def layer_e(adapter: Adapter, neighbors: str, sizes: Sizes, rng) -> LayerResult:
    """delta(epsilon) of whole runs: the accountant's claim against what an attack attains."""
    multiplier = float(adapter.settings.get("noise_multiplier") or 1.0)
    with_record, event = _scores(adapter, neighbors, True, multiplier, sizes.runs)
    without, _ = _scores(adapter, neighbors, False, multiplier, sizes.runs)
    grid = np.linspace(0.0, 0.8 * epsilon(event, 1e-3), _E_GRID)
    claims = [delta(event, float(e)) for e in grid]
    half = sizes.runs // 2
    thresholds = np.quantile(np.concatenate((with_record[:half], without[:half])), np.linspace(0.01, 0.99, 99))
    rows, best = [], None
    for e, claim in zip(grid.tolist(), claims):
        # Both tests of the relation: "more like with" and "more like without".
        options = [
            (delta_lower_bound(a[:half], b[:half], e, t, CONFIDENCE_ERROR), sign, t)
            for sign, a, b in ((1, with_record, without), (-1, -without, -with_record))
            for t in thresholds * sign
        ]
        guess, sign, t = max(options)
        a, b = (with_record, without) if sign > 0 else (-without, -with_record)
        measured = delta_lower_bound(a[half:], b[half:], e, t, CONFIDENCE_ERROR)
        rows.append(measured)
        # By the difference, not the ratio: a bound that is barely above a tiny claim does not repeat.
        if best is None or guess - claim > best[0]:
            best = (guess - claim, e, claim, measured)
    _, e, claim, measured = best
    checks = [
        Check(
            f"delta at epsilon = {e:.4f}", measured <= claim, measured, claim,
            f"Clopper-Pearson lower bound on {sizes.runs - half} runs a side, epsilon chosen on the others",
            CONFIDENCE_ERROR,
        )
    ]
    at = {
        "epsilon": grid.tolist(), "delta": claims, "measured": rows, "noise_multiplier": multiplier, "steps": _E_STEPS,
        "sampling_probability": _E_RATE,
    }
    return LayerResult("E", f"profile of whole runs, {sizes.runs} a side", tuple(checks), figures={"claimed": at})


_FUNCTIONS = {"A": layer_a, "B": layer_b, "C": layer_c, "D": layer_d, "E": layer_e}
