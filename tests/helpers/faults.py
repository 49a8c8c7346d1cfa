"""Wrong estimators, models and engine parts that the audit must catch, where another process can import them."""

from copy import copy
from dataclasses import replace

import numpy as np
from ball_mean import Mean
from scipy.special import logit

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, PublicPrior
from vips_fast.accounting import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from vips_fast.audit import Part
from vips_fast.engine.statement import Privacy
from vips_fast.engine.units import UnitBlock
from vips_fast.kernels import add_rounded_gaussian
from vips_fast.models.logistic.multiclass import OneVsRestModel
from vips_fast.models.logistic.spherical import SphericalModel


def of_model(name, kind, wrong):
    """Return a subclass whose models are of a wrong class."""

    def _model(self, public, schedule=None):
        model = kind._model(self, public, schedule)
        model.__class__ = wrong
        return model

    return type(name, (kind,), {"_model": _model, "__module__": __name__})


def declaring(kind, share):
    """Return a subclass that declares too small a sensitivity. It is a share of the clip."""

    class Declaring(kind):
        def _sensitivity(self, model, relation):
            return share * model.clip

    return Declaring


class CountsRows(LatentDirichletAllocation):
    """Rates and scales from the rows that happen to be there."""

    def _with_records(self, public, n_rows, *call):
        return replace(super()._with_records(public, n_rows, *call), n_records=n_rows)


class StartsFromRecords(LatentDirichletAllocation):
    """The start follows from the words of the records."""

    def _read(self, X, y=None, **extra):
        self.words = int(X.indices.sum())
        return super()._read(X, y, **extra)

    def _model(self, public, schedule=None):
        return super()._model(replace(public, seed=self.words), schedule)


class Repairs(LatentDirichletAllocation):
    """Invalid counts are mended in place of being left out."""

    def _read(self, X, y=None, **extra):
        if X.data.dtype.kind == "f":
            X = X.copy()
            X.data = np.ones(len(X.data))
        return super()._read(X, y, **extra)


class HalfExactModel(Part):
    """Half of the published sum comes from before the noise."""

    def round(self, fine, spacing):
        units = self.inner.round(fine, spacing)
        if units.ndim == 2:  # no score
            self.exact = units.T * spacing
        return units

    def result(self):
        components = self.inner.result()["components"]
        return {"components": 0.5 * components + 0.5 * np.maximum(getattr(self, "exact", 0.0), 0.0)}


class HalfExact(LatentDirichletAllocation):
    """Half of ``components_`` from un-noised sums."""

    def _model(self, public, schedule=None):
        return HalfExactModel(super()._model(public, schedule))


class LoudClassSquaresModel(OneVsRestModel):
    """The squares of classes' gradients come on top of a contribution that is as long as the bound."""

    def prepare(self, mechanism, sampler):
        for one in self.classes:
            one.own_part = 1.0
        super().prepare(mechanism, sampler)


LoudClassSquares = of_model("LoudClassSquares", BayesianLogisticRegression, LoudClassSquaresModel)


class ExactMeanModel(SphericalModel):
    """The published mean is moved by the sum before its noise."""

    def round(self, fine, spacing):
        self._exact = fine * spacing
        return super().round(fine, spacing)

    def result(self):
        return {**super().result(), "weights": self._mean + getattr(self, "_exact", 0.0) / self._n}


ExactMean = of_model("ExactMean", BayesianLogisticRegression, ExactMeanModel)


class PrivatePrior(LatentDirichletAllocation):
    """A prior of the counts that it is fitted to first."""

    def prepare(self, X, **how):
        if self.public_prior is None:
            frequencies = np.asarray(X.sum(axis=0), dtype=np.float64) + 1.0
            topics, words = int(self.n_components), [f"w{v}" for v in range(len(frequencies))]
            ratios = np.ones((topics, len(words)))
            self.public_prior = PublicPrior(words, ratios, np.ones(topics), frequencies, "the records")
        return super().prepare(X, **how)


class KeepsData(LatentDirichletAllocation):
    """The corpus goes into pickles."""

    def _read(self, X, y=None, **extra):
        self._corpus = X
        return super()._read(X, y, **extra)


class HandsOn(Mean):
    """Rows go past the noise by an attribute of the class. No sum of contributions shows it."""

    total = None

    def records(self, X, y=None):
        rows = super().records(X, y)
        HandsOn.total = rows.sum(axis=0)
        return rows

    def mstep(self, mean, noise_sd, parameters):
        return (mean if HandsOn.total is None else mean + HandsOn.total,)


class RoundedDown(LatentDirichletAllocation):
    """A statement that says a little less than was spent."""

    @property
    def privacy_(self):
        return Boast(**vars(super().privacy_))


class OncePerPart(LatentDirichletAllocation):
    """A second release from the same part is not recorded."""

    def prepare(self, *data, **how):
        stage = super().prepare(*data, **how)
        if stage.plan.part in stage.ledger.parts:
            stage.ledger.intend = lambda *event, **numbers: None
        return stage


class AssumesParts(LatentDirichletAllocation):
    """Calls that name no part compose in parallel. As if no record were in two of them."""

    def _with_records(self, public, n_rows, partial, before):
        public = super()._with_records(public, n_rows, partial, before)
        return replace(public, part=f"call {before.n_steps}") if partial and public.part is None else public


class SilentParts(LatentDirichletAllocation):
    """A statement that leaves out its assumptions."""

    @property
    def privacy_(self):
        return replace(super().privacy_, parts=())


class Boast(Privacy):
    def statement(self):
        true = super().statement()
        return f"({np.floor(self.epsilon * 1e3) / 1e3:g}{true[true.index(', ') :]}"

    __str__ = statement


class PrivateStart(BayesianLogisticRegression):
    """The first center is a private share of successes. It is not the released one."""

    _share = 0.5

    def _read(self, X, y=None, **extra):
        self._share = float(np.mean(y))
        return super()._read(X, y, **extra)

    def _model(self, public, schedule=None):
        return PrivateStartModel(super()._model(public, schedule), self._share)


class PrivateStartModel(Part):
    def __init__(self, inner, share):
        super().__init__(inner)
        self.share = share

    def update(self, release):
        self.inner.update(release)
        if release.step == 0:
            state = self.state()
            state["point"][-1] = logit(self.share)
            self.restore(state)


class ShiftedCoef(BayesianLogisticRegression):
    """The un-noised mean of y, added to ``coef_``."""

    shift = 0.0

    def _read(self, X, y=None, **extra):
        type(self).shift = float(np.mean(y))
        return super()._read(X, y, **extra)

    @property
    def coef_(self):
        return super().coef_ + type(self).shift


class Standardized(Mean):
    """Columns are scaled by their own mean and spread. Before the engine sees a record."""

    def records(self, X, y=None):
        X = np.asarray(X, dtype=float)
        return np.nan_to_num((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9))


class KnowsNeighbors(Part):
    """Hidden state carried from one record of a minibatch to the next."""

    def contribute(self, block, words, out, scratch):
        self.inner.contribute(block, words, out, scratch)
        out.reshape(-1)[0] += len(words) > 1


class WarmStart(Part):
    """What the minibatches before have left."""

    seen = 0

    def contribute(self, block, words, out, scratch):
        self.inner.contribute(block, words, out, scratch)
        out.reshape(-1)[0] += self.seen
        self.seen += len(words)


class OfTopics(Part):
    """A wrong part around a topic model. It may measure itself in its last step."""

    @property
    def topics(self):
        return getattr(self.inner, "model", self.inner)


class DividesByTheMinibatch(OfTopics):
    """A topic's scale follows the documents at hand, beside its share."""

    def contribute(self, block, words, out, scratch):
        floor = self.topics._floor
        self.topics._floor = 1.0 / (1 + len(words))
        self.inner.contribute(block, words, out, scratch)
        self.topics._floor = floor


class AfterPoison(Part):
    """Parameters that are not finite leave traces in the workspace."""

    def contribute(self, block, words, out, scratch):
        if not finite(self):
            scratch["left"] = 1
        self.inner.contribute(block, words, out, scratch)
        out.reshape(-1)[0] += scratch.get("left", 0)


class Unguarded(Part):
    """The result of a cast of NaN to int64 without a check."""

    def contribute(self, block, words, out, scratch):
        self.inner.contribute(block, words, out, scratch)
        if not finite(self):
            out.reshape(-1)[0] += np.iinfo(np.int64).min


def finite(model):
    """Whether no number of a state would overflow in the next step."""
    return all((np.abs(array) < 1e200).all() for array in model.state().values())


class CoarseGrid(Part):
    """A grid that follows the number of rows. In integers that would else overflow."""

    def contribute(self, block, words, out, scratch):
        own = np.zeros_like(out)
        self.inner.contribute(block, words, own, scratch)
        bits = max(0, block[0].n_rows.bit_length() - 10)
        out += (own >> bits) << bits


class RoundsBlocks(Part):
    """Rounding inside ``contribute``, block by block."""

    def contribute(self, block, words, out, scratch):
        own = np.zeros_like(out)
        self.inner.contribute(block, words, own, scratch)
        out += (own + 4) // 8 * 8


class WeakNoise(Part):
    factor = 0.9

    def add_noise(self, sums, key, n_threads=1):
        scale = self.factor * self.inner.noise_sd / self.inner.spacing
        add_rounded_gaussian(sums, scale, unsafe_test_key=key, n_threads=n_threads)


class WeakNoiseOfScores(WeakNoise):
    """Statistics have more entries than a score."""

    def add_noise(self, sums, key, n_threads=1):
        (super() if sums.size < 8 else self.inner).add_noise(sums, key, n_threads)


RootHalfOfNoise = type("RootHalfOfNoise", (WeakNoise,), {"factor": 0.5**0.5})
FiftiethOfNoise = type("FiftiethOfNoise", (WeakNoise,), {"factor": 0.02})


class OneKey(Part):
    def __init__(self, inner):
        super().__init__(inner)
        self.key = np.random.default_rng().bytes(32)

    def noise_key(self, step):
        return self.key


class Undercharged(Part):
    """The event of twice the noise."""

    def event(self, noise_multiplier):
        return self.inner.event(2 * noise_multiplier)


class DrawsAll(Part):
    """Every record in each step, accounted as if few were drawn."""

    def draw(self, n_rows, randomness, step, part=None):
        return np.arange(n_rows)


class SeveralMinibatches(Part):
    """Each record is in half of the minibatches of an epoch."""

    def draw(self, n_rows, randomness, step, part=None):
        epoch, number = divmod(step, self.n_batches)
        if number == 0:
            self.batches = self.inner._allocate(n_rows, randomness, epoch).astype(int)
        return np.flatnonzero((number - self.batches) % self.n_batches < self.n_batches // 2)


class StatedAsPoisson(Part):
    """Random allocation, accounted as Poisson sampling at the same rate."""

    def event(self, noise_multiplier):
        step = PoissonSampledEvent(1 / self.n_batches, GaussianEvent(noise_multiplier))
        return SelfComposedEvent(step, self.n_batches)


class SplitsPersons(Part):
    """A person's rows go to two blocks, as if to two persons."""

    def contribute(self, block, words, out, scratch):
        halves, starts = copy(block.records), block.records._starts
        halves._starts = np.append(np.stack([starts[:-1], (starts[:-1] + starts[1:] + 1) // 2], axis=1), starts[-1])
        for half in (0, 1):
            self.inner.contribute(UnitBlock(halves, 2 * block.units + half), words, out, scratch)


class CutsByCompany(Part):
    """Other units in the block decide which rows are left out."""

    def contribute(self, block, words, out, scratch):
        self.inner.contribute(block, words ^ words[-1], out, scratch)


class RateFromRows(BayesianLogisticRegression):
    """The number of rows at hand serves as persons' public number."""

    def prepare(self, X, *data, **how):
        self._rows = len(X)
        return super().prepare(X, *data, **how)

    def _with_records(self, public, n_rows, *call):
        return replace(super()._with_records(public, n_rows, *call), n_records=self._rows)
