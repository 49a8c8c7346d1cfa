"""A user's program that uses every public name.

It runs, and type checkers find no error and no Any in it.

`mypy` holds it to ``disallow_any_expr`` (pyproject.toml), ``make types`` runs pyright in its strict mode.
"""

import math
import tempfile
from pathlib import Path
from typing import assert_type

import numpy as np

import vips_fast
from vips_fast import (
    BayesianLogisticRegression,
    ClassConditionalNetwork,
    ColumnEncoder,
    ConjugateEstimator,
    CountRegression,
    DocumentClusters,
    GaussianMixture,
    LatentDirichletAllocation,
    Ledger,
    Plan,
    Privacy,
    PrivateTopics,
    PrivateVocabulary,
    PublicPrior,
    PublicVectors,
    SigmoidBeliefNetwork,
    TopicTables,
    get_include,
    load_prior,
    plan,
    prior_from_documents,
    prior_from_vectors,
    public_vectors,
    runtime_info,
    verify,
)
from vips_fast.data import Schema
from vips_fast.data.types import Array, Bits, Cells, Labels, Matrix, Names, Vector
from vips_fast.models.conjugate import parameter
from vips_fast.models.fit import Fit

SCHEMA = """
[columns.age]
kind = "number"
low = 0
high = 100
"""


class Mean(ConjugateEstimator):
    """The mean of numbers in [-1, 1]. The smallest model of one's own."""

    mean_ = parameter(0, "(d,) the mean.")

    @staticmethod
    def statistics(records: Matrix, parameters: tuple[Vector], out: Matrix) -> None:
        out[:] = np.clip(records, -1.0, 1.0)

    def n_statistics(self, n_columns: int) -> int:
        return n_columns

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(n_columns)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Vector]:
        return (np.zeros(n_columns),)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Vector]:
        return (mean,)


def topics(counts: Bits, folder: Path) -> LatentDirichletAllocation:
    planned = plan(100, counts.shape[1], 2, epsilon=2.0, doc_length=20, unit="person")
    assert_type(planned, Plan)
    print(planned.forecast(), planned.batch_size)
    model = LatentDirichletAllocation(2, doc_length=20, epsilon=2.0, **planned.parameters())
    model.fit(counts, transcript=folder / "transcript", groups=[k // 2 for k in range(len(counts))], unit="patient")
    assert_type(model.components_, Matrix)
    assert_type(model.components_sd_, Matrix)
    assert_type(model.components_interval(0.9), Array)
    assert_type(model.transform(counts), Matrix)
    assert_type(model.perplexity(counts), float)
    assert_type(model.get_feature_names_out(), Names)
    stage = model.prepare(counts, groups=[k // 2 for k in range(len(counts))], unit="patient")
    assert_type(stage, Fit)
    print(stage.plan.relation, stage.plan.sampler.n_records)
    public = PublicPrior([f"w{v}" for v in range(16)], np.ones((2, 16)), np.ones(2), np.ones(16), "an example")
    assert_type(public.restricted_to(public.words).topics(), Matrix)
    public.save(folder / "prior.npz")
    assert_type(load_prior(folder / "prior.npz"), PublicPrior)
    texts: Matrix = np.ones((16, 16))
    assert_type(prior_from_documents(texts, public.words, 2, language=""), PublicPrior)
    assert_type(prior_from_vectors(texts, [f"{v}" for v in range(16)], 2), PublicPrior)
    printed = LatentDirichletAllocation.paper(2, doc_length=20, n_steps=2, batch_size=50, clip=0.2)
    assert_type(printed.fit(counts).components_, Matrix)
    model.save(folder / "model")
    report = verify(folder / "model", folder / "transcript")
    print(report.ok, report.text())
    return LatentDirichletAllocation.load(folder / "model")


def rates(rows: Matrix, counts: Labels) -> CountRegression:
    model = CountRegression(epsilon=1.0, n_steps=2, largest=9.0, dispersion=0.5).fit(rows, counts)
    assert_type(model.effects()[0].ratio.mean, float)
    assert_type(model.score(rows, counts), float)
    return model


def coefficients(rows: Matrix, labels: Labels) -> BayesianLogisticRegression:
    model = BayesianLogisticRegression(epsilon=1.0, n_steps=2, classes=[0, 1]).fit(rows, labels)
    assert_type(model.coef_, Matrix)
    assert_type(model.intercept_, Vector)
    assert_type(model.predict(rows), Labels)
    assert_type(model.predict_proba(rows), Matrix)
    assert_type(model.decision_function(rows), Array)
    assert_type(model.credible_interval(0.9), Array)
    assert_type(model.score(rows, labels), float)
    assert_type(model.outcome_, str | float | None)
    assert_type(model.effects()[0].ratio.mean, float)
    assert_type(model.marginal_effects(rows)[0][0], str)
    assert_type(model.get_params(), dict[str, object])
    printed = BayesianLogisticRegression.paper(n_steps=2, epsilon=1.0, form="orthonormal")
    assert_type(printed.fit(rows, labels).coef_, Matrix)
    return model


def pictures(images: Bits) -> Bits:
    """Records that are drawn from a model of others."""
    network = SigmoidBeliefNetwork(3, epsilon=5.0, n_steps=3).fit(images)
    assert_type(network.visible_bias_, Vector)
    assert_type(network.transform(images), Matrix)
    labeled = ClassConditionalNetwork(2, epsilon=5.0, n_steps=3, classes=[0, 1]).fit(images, images[:, 0])
    assert_type(labeled.components_, Array)
    assert_type(network.components_, Matrix)
    assert_type(labeled.predict_proba(images), Matrix)
    assert_type(labeled.sample(5), tuple[Bits, Labels])
    return network.sample(5, random_state=0)


def clusters(answers: Bits, rows: Matrix) -> list[list[str]]:
    """A mixture of answers, and clusters of vectors with words."""
    points = GaussianMixture(2, radius=2.0, epsilon=5.0, n_steps=3).fit(answers)
    assert_type(points.means_, Matrix)
    assert_type(points.weights_, Array)
    assert_type(points.predict_proba(answers), Matrix)
    assert_type(points.score(answers), float)
    first = points.start(rows.shape[1], np.random.default_rng(0))
    assert_type(first, tuple[Array, ...])
    assert_type(points.mstep(points.average_, points.noise_sd_, first), tuple[Array, ...])
    known = public_vectors(rows, [f"w{v}" for v in range(rows.shape[1])], np.eye(rows.shape[1]), n_prototypes=4)
    assert_type(known, PublicVectors)
    tables = TopicTables({"ward": ["n", "s"]}, epsilon=5.0).fit(np.eye(2), ["n", "s"])
    assert_type(tables.table("ward").shares, Matrix)
    assert_type(tables.contrast("ward", [-1, 1]).low, Vector)
    assert_type(tables.trend("ward").estimate, Vector)
    notes = DocumentClusters(2, public=known, epsilon=5.0, n_steps=3).fit(rows)
    assert_type(notes.predict(rows), Labels)
    assert_type(notes.keywords(), list[list[str]])
    return notes.keywords(1)


def words(texts: list[str]) -> dict[str, int]:
    purchased = PrivateVocabulary(noise_multiplier=2.0).fit(texts, groups=[str(i) for i in range(200)])
    vectorizer = PrivateVocabulary(noise_multiplier=2.0).fit(texts)
    assert_type(purchased.shares_, Vector)
    assert_type(vectorizer.vocabulary_, dict[str, int])
    return purchased.vocabulary_


def texts(folder: Path) -> PrivateTopics:
    """Topics of a table in memory, with public ones for a start."""
    names = [f"word{v}" for v in range(16)]
    ratios = np.where(np.arange(16) < 8, [[5.0], [0.2]], [[0.2], [5.0]])
    prior = PublicPrior(names, ratios, np.ones(2), np.ones(16), "an example")
    table = {"note": [" ".join(names[:8]), " ".join(names[8:])] * 100, "person": range(200)}
    found = PrivateTopics(2.0, 1e-6, public_prior=prior, progress=False).fit(table, text="note", person="person")
    found.save(folder / "texts")
    again = PrivateTopics.load(folder / "texts")
    assert_type(again.transform(["word1 word2"]), Matrix)
    assert_type(again.privacy_, Privacy)
    assert_type(again.fit(["one text", None] * 100), PrivateTopics)
    return found


def main() -> None:
    rng = np.random.default_rng(0)
    counts: Bits = rng.integers(0, 4, (200, 10), dtype=np.uint8)
    images: Bits = rng.integers(0, 2, (200, 8), dtype=np.uint8)
    rows: Matrix = rng.uniform(-1.0, 1.0, (200, 3))
    labels: Labels = (rows[:, 0] > 0.0).astype(np.int64)
    with tempfile.TemporaryDirectory() as name:
        fitted = topics(counts, Path(name))
        print(texts(Path(name)))
    assert_type(fitted.privacy_, Privacy)
    assert_type(fitted.ledger_, Ledger)
    record = fitted.ledger_.plan
    assert record is not None
    assert_type(record["n_records"], int)
    assert_type(fitted.ledger_.to_dict(), dict[str, object])
    print(fitted.privacy_.statement(), fitted.privacy_.epsilon, len(fitted.ledger_), fitted.n_steps_)
    print(coefficients(rows, labels).privacy_.epsilon, pictures(images).shape)
    print(clusters(images, rows))
    print(sorted(words(["the same words in every text"] * 200)))
    encoder = ColumnEncoder(Schema.parse(SCHEMA))
    assert_type(encoder.get_feature_names_out(), Names)
    mean = Mean(epsilon=1.0, n_steps=1).fit(rows)
    assert_type(mean.mean_, Array)
    assert_type(mean.records(rows), Cells)
    assert_type(mean.start(3, rng), tuple[Vector])
    assert_type(mean.average_, Vector)
    assert_type(mean.noise_sd_, float)
    print(get_include(), runtime_info()["isa"], vips_fast.__version__)


if __name__ == "__main__":
    main()
