"""Layers C and G over sampling x unit x start x stage. Each cell runs, or a refusal says why not.

Layer C here: the noise of every release of a fit, also of one that is resumed or goes on by `partial_fit`, has the
claimed law, shares nothing with any other release, and is charged. Layer G: another process makes the model again from
its releases, and the printed epsilon covers the events that this file composes anew.
"""

import math
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple

import faults
import numpy as np
import pytest
import scipy.sparse as sp
from priors import prior_of
from runs import Stop, ends, fail

from vips_fast import LatentDirichletAllocation, PrivateVocabulary
from vips_fast import accounting as acc
from vips_fast.audit import Part
from vips_fast.audit.noise import law, uncorrelated
from vips_fast.audit.rebuild import STATED, held_values, public_attributes, rebuild_elsewhere
from vips_fast.engine.checkpoint import RunFolder
from vips_fast.engine.transcript import TranscriptWriter
from vips_fast.models import fit as fit_module
from vips_fast.models.vocabulary.estimator import read_purchase

Z, DELTA, STEPS, ROWS, WORDS = 2.0, 1e-5, 4, 48, 1_500


class Cell(NamedTuple):
    sampling: str
    unit: str
    start: str
    stage: str

    def __str__(self):
        return "-".join(self)


SAMPLINGS = ("poisson", "without_replacement", "random_allocation", "full")
STARTS = ("fresh", "partial_fit", "resumed", "purchase", "prior")
CELLS = [Cell(*cell) for cell in product(SAMPLINGS, ("record", "person"), STARTS, ("words", "topics"))]
#: Cells that there are not, by the words of the refusal.
EXCLUDED = [
    (lambda c: c.stage == "words" and c.start == "prior", TypeError, "unexpected keyword argument 'public_prior'"),
    (lambda c: c.stage == "words" and c.start == "purchase", TypeError, "unexpected keyword argument 'after'"),
    (lambda c: c.stage == "words" and c.sampling != "full", ValueError, "expected 'full' for a vocabulary"),
    (lambda c: c.stage == "words" and c.start == "partial_fit", AttributeError, "no attribute 'partial_fit'"),
    (lambda c: c.sampling == "without_replacement" and c.start == "purchase", ValueError, "add_remove.*replace_one"),
]


def reason(cell):
    """Error and words of the refusal of a cell, or None."""
    return next(((error, words) for holds, error, words in EXCLUDED if holds(cell)), None)


RUN = [cell for cell in CELLS if reason(cell) is None]
NOT_RUN = [cell for cell in CELLS if reason(cell) is not None]


class Noted(Part):
    """A model that notes the noise of each release. The released sum less the exact one."""

    def __init__(self, inner, noises):
        super().__init__(inner)
        self.noises, self.exact = noises, None

    def round(self, fine, spacing):
        units = self.inner.round(fine, spacing)
        self.exact = units.copy()
        return units

    def update(self, release):
        if self.exact is not None:  # a release that is applied again has been noted
            self.noises.append((release.units - self.exact).reshape(-1))
        self.exact = None
        self.inner.update(release)


class Fit:
    """The fit of a cell, with transcript and all noise. ``seams`` are faults for parts of the stage or of its plan."""

    def __init__(self, cell, folder, model=LatentDirichletAllocation, **seams):
        self.cell, self.folder, self.seams, self.noises, self.purchase = cell, folder, seams, [], None
        folder.mkdir(parents=True, exist_ok=True)
        n = ROWS // 2 if cell.unit == "person" else ROWS
        replaces = cell.sampling == "without_replacement"
        self.n, self.relation = n, "replace_one" if replaces else "add_remove"
        self.call = {"groups": np.arange(ROWS) // 2} if cell.unit == "person" else {}
        common = dict(sampling=cell.sampling, noise_multiplier=Z, delta=DELTA, random_state=0)
        common["n_records"] = None if replaces else n
        if cell.stage == "words":
            self.make, X = lambda **o: PrivateVocabulary(**{**common, "analyzer": "unicode", **o}), texts()
        else:
            X = counts()
            common |= dict(n_components=2, doc_length=20, n_steps=STEPS)
            common["batch_size"] = None if cell.sampling == "full" else n / 2
            self.make = lambda **o: model(**{**common, **o})
        getattr(self, "start_" + cell.start)(X)

    def run(self, estimator, X, name="fit", first=True, resume=False, partial=False, **call):
        """Do the work of `PrivateEstimator._fit`, with the parts of this fit."""
        path = self.folder / "run" if self.cell.start == "resumed" else None
        words = self.cell.stage == "words"
        with nullcontext() if path is None else RunFolder(path, resume=resume) as folder:
            kept = None if words else TranscriptWriter(self.folder / "transcript", first=first, resume=resume)
            stage = estimator.prepare(X, folder=folder, partial=partial, **self.call, **call)
            mechanism, model = stage.plan.mechanism, stage.model
            self.claimed = Z * model.sensitivity(self.relation) / mechanism.spacing
            seams = {name: kind(getattr(stage.plan, name)) for name, kind in self.seams.items() if name != "randomness"}
            randomness = self.seams.get("randomness", lambda honest: honest)(stage.randomness)
            noted, plan = Noted(model, self.noises), replace(stage.plan, **seams)
            replace(stage, model=noted, plan=plan, randomness=randomness).run(kept)
        self.estimator = estimator
        return self

    def start_fresh(self, X):
        self.run(self.make(), X)

    def start_partial_fit(self, X):
        self.run(self.make(), X)
        assert self.estimator.partial_fit
        stated = {} if self.relation == "replace_one" else {"n_records": self.n}
        for _ in range(2):
            self.run(self.estimator, X, first=False, partial=True, **stated)

    def start_resumed(self, X):
        """Lose the third step, which is paid for."""
        with pytest.raises(Stop):
            self.run(ends(self.make(), 3, fail), X)
        self.run(self.make(), X, resume=True)

    def start_purchase(self, X):
        words = PrivateVocabulary(noise_multiplier=Z, delta=DELTA)
        self.purchase = words.fit(texts(purchasable=True), **self.call)
        if self.cell.stage == "words":
            self.make().fit(X, after=words)
        self.run(self.make(n_components=40), words.transform(texts(purchasable=True)), after=words)

    def start_prior(self, X):
        self.run(self.make(public_prior=prior_of(WORDS, 2)), X)

    def events(self):
        """Return the events of all releases, composed anew."""
        z, n = acc.GaussianEvent(Z, self.relation), self.n
        event = {
            "poisson": lambda: acc.PoissonSampledEvent(0.5, z),
            "without_replacement": lambda: acc.WithoutReplacementEvent(n // 2, n, z),
            "random_allocation": lambda: acc.RandomAllocationEvent(2, 1, z),
            "full": lambda: z,
        }[self.cell.sampling]()
        if self.cell.stage == "words":
            leak = acc.ApproximateDPEvent(0.0, -math.expm1(math.log1p(-DELTA / 4) / STEPS), "add_remove")
            event = acc.ComposedEvent((z, leak))
        each = 2 if self.cell.sampling == "random_allocation" else 1
        # A lost step is paid for again, and an epoch that is gone on with.
        spent = Counter({event: STEPS // each + (self.cell.start == "resumed")})
        if self.cell.start == "partial_fit":
            spent[z] += 2
        return spent

    def layer_c(self):
        """Names of the checks that fail."""
        checks = law(np.concatenate(self.noises), self.claimed)
        # Releases with a public prior have other sizes: of two, the entries that both have.
        names = {
            f"{i} and {j}": tuple(noise[: min(a.size, b.size)] for noise in (a, b))
            for (i, a), (j, b) in combinations(enumerate(self.noises), 2)
        }
        checks += uncorrelated(names, self.claimed)
        failed = {check.name.partition(":")[0] for check in checks if not check.passed}
        ledger = self.estimator.ledger_
        spent = Counter({event: count for (_, event), count in ledger.spent.items()})
        if self.cell.stage == "words":
            # The share of delta of a round is rounded up.
            same = set(spent.values()) == set(self.events().values()) and self.covers()
        else:
            before = [] if self.purchase is None else [self.purchase.ledger_.event()]
            same = spent == self.events() + Counter(before)
        return failed | (set() if same else {"charged"})

    def covers(self):
        """Tell whether the printed epsilon covers all events, a purchase included."""
        events = [acc.SelfComposedEvent(event, count) for event, count in self.events().items()]
        events += [] if self.purchase is None else [self.purchase.ledger_.event()]
        said = self.estimator.privacy_
        return float(STATED.match(str(said))[1]) >= acc.epsilon(acc.ComposedEvent(tuple(events)), DELTA) * (1 - 1e-9)

    def job(self):
        self.estimator.save(self.folder / "model")
        return type(self.estimator), self.folder / "model", self.folder / "transcript"

    def layer_g(self, answer):
        """Names of the checks that fail; ``answer`` is the other process's."""
        failed = set() if self.covers() else {"statement"}
        if self.cell.stage == "words":
            again = read_purchase(self.estimator.purchase_text())
            same = public_attributes(again) == public_attributes(self.estimator)
            return failed | (set() if same else {"public attributes"})
        failed |= {name for name, passed, _ in answer["checks"] if not passed}
        for name, own in (("attributes", public_attributes), ("held", held_values)):
            failed |= set() if own(self.estimator) == answer[name] else {name}
        return failed


def counts(seed=0):
    return sp.csr_array(np.random.default_rng(seed).poisson(0.01, (ROWS, WORDS)))


def texts(purchasable=False):
    """Texts of many tokens; or of four, which are all released."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(4 if purchasable else 3_000)])
    return [" ".join(rng.choice(words, 4 if purchasable else 90, replace=False)) for _ in range(ROWS)]


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """All cells, and another process's verdict on those with a transcript."""
    root = tmp_path_factory.mktemp("matrix")
    made = {cell: Fit(cell, root / str(cell)) for cell in RUN}
    topics = [cell for cell in RUN if cell.stage == "topics"]
    said = dict(zip(topics, rebuild_elsewhere([made[cell].job() for cell in topics]), strict=True))
    return made, said


@pytest.mark.parametrize("cell", RUN, ids=str)
def test_noise_of_each_cell(fits, cell, tmp_path):
    """A check fails of a true claim once in 10^6 draws. Of a thousand checks, one that fails is drawn again."""
    failed = fits[0][cell].layer_c()
    assert not failed or not failed & Fit(cell, tmp_path).layer_c()


@pytest.mark.parametrize("cell", RUN, ids=str)
def test_each_cell_follows_from_its_releases(fits, cell):
    assert fits[0][cell].layer_g(fits[1].get(cell)) == set()


@pytest.mark.parametrize("cell", NOT_RUN, ids=str)
def test_cells_that_there_are_not(cell, tmp_path):
    error, words = reason(cell)
    with pytest.raises(error, match=words):
        Fit(cell, tmp_path)


def test_the_matrix_is_whole():
    assert len(RUN) + len(NOT_RUN) == len(CELLS) == len(SAMPLINGS) * 2 * 5 * 2
    assert {c.sampling for c in RUN} == set(SAMPLINGS) and {c.start for c in RUN} == set(STARTS)


class OneKeyAnEpoch(Part):
    """All releases of an epoch have one noise."""

    def noise_key(self, step):
        self.inner.noise_key(step)
        return bytes([step // 2]) * 32


class OneKeyForAll(Part):
    """A run that goes on draws the noise of the one before."""

    def noise_key(self, step):
        self.inner.noise_key(step)
        return bytes(32)


@pytest.mark.parametrize(
    ("cell", "seen", "seams"),
    [
        ("random_allocation-record-fresh-topics", "uncorrelated", dict(randomness=OneKeyAnEpoch)),
        ("random_allocation-person-resumed-topics", "uncorrelated", dict(randomness=OneKeyAnEpoch)),
        ("poisson-record-partial_fit-topics", "uncorrelated", dict(randomness=OneKeyForAll)),
        ("full-person-resumed-words", "uncorrelated", dict(randomness=OneKeyForAll)),
        ("without_replacement-record-prior-topics", "standard deviation", dict(mechanism=faults.WeakNoise)),
        ("random_allocation-record-purchase-topics", "charged", dict(sampler=faults.StatedAsPoisson)),
        ("full-record-resumed-topics", "charged", dict(sampler=faults.Undercharged)),
        ("without_replacement-person-fresh-topics", "charged", dict(sampler=faults.Undercharged)),
    ],
)
def test_a_fault_in_a_cell_is_seen_by_layer_c(cell, seen, seams, tmp_path):
    assert seen in Fit(Cell(*cell.split("-")), tmp_path, **seams).layer_c()


def test_a_purchase_that_is_left_out_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_module, "purchase_before", lambda *_: None)
    fit = Fit(Cell("poisson", "person", "purchase", "topics"), tmp_path)
    (said,) = rebuild_elsewhere([fit.job()])
    assert "statement" in fit.layer_g(said)


def test_a_leak_of_a_call_is_seen(tmp_path):
    fit = Fit(Cell("full", "person", "partial_fit", "topics"), tmp_path, model=faults.HalfExact)
    (said,) = rebuild_elsewhere([fit.job()])
    assert fit.layer_g(said) - {"statement"}
