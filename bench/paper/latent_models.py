"""Models with hidden states on real data, beside others without privacy. The rest of the family."""

import gzip
import json
from itertools import pairwise

import numpy as np
from common import DATA, crossed, listed, order, spread
from factor_analysis import FactorAnalysis
from hidden_markov import HiddenMarkovModel
from linear_dynamics import LinearDynamicalSystem
from peers import dynamics
from peers.mnist import load_mnist
from probabilistic_pca import ProbabilisticPCAOptions

TITLE = "Factor analysis, hidden Markov models and linear dynamical systems, on real data"
NEEDS = ("abalone", "people", "mnist", "hmmlearn", "sklearn")
DELTA, EPSILONS, LENGTH, FEW = 1e-6, (0.3, 1.0, 4.0), 40, 2000
#: Runs of a private fit, at any scale: noise moves single ones by more than epsilon does.
RUNS = 6
#: A digit is 14 pairs of rows, each the means of 4 stretches of columns.
TIMES, OUTPUTS, STATES = 14, 4, 3


def cells(scale):
    return [
        {"model": model, "method": method, "epsilon": epsilon, "seed": seed}
        for model, other in (("factors", "scikit-learn"), ("letters", "hmmlearn"), ("strokes", "EM by whole normals"))
        for method, epsilons in ((other, (None,)), ("ours", (None, *EPSILONS)))
        for epsilon in epsilons
        for seed in range(RUNS if epsilon is not None else 3 if scale == 1 else 1)
    ]


def _abalone():
    """Load seven measures of 4,177 shellfish; every fifth row tests.

    In units of public scales, centered on public values.
    """
    rows = [line.strip().split(",")[1:8] for line in (DATA / "abalone" / "abalone.data").read_text().splitlines()]
    X = np.array(rows, float) - [0.5, 0.4, 0.14, 0.8, 0.35, 0.2, 0.25]
    X /= [0.12, 0.1, 0.04, 0.5, 0.22, 0.11, 0.14]
    return X[np.arange(len(X)) % 5 > 0], X[::5]


def _letters(which):
    """Load the first letters of posts as symbols, and their authors. 0 stands for anything between words."""
    rows, persons = [], []
    with gzip.open(DATA / "people" / f"{which}.jsonl.gz", "rt") as file:
        for line in file:
            record = json.loads(line)
            text = "".join(c if "a" <= c <= "z" else " " for c in record["text"].lower())
            found = [ord(c) - 96 if c != " " else 0 for c in " ".join(text.split())[:LENGTH]]
            rows.append(found + [-1] * (LENGTH - len(found)))
            persons.append(record["person"])
    return np.array(rows), persons


def _likelihood(covariance, X):
    """Mean log-density of a normal distribution around 0, in nats."""
    sign, log = np.linalg.slogdet(2 * np.pi * covariance)
    return float(-0.5 * (log + np.einsum("ni,ij,nj->n", X, np.linalg.inv(covariance), X).mean()))


def _strokes():
    """Load digits as sequences of their rows, from top to bottom. Around a public center."""
    train, test, _, _ = load_mnist(DATA / "mnist", 1)
    return tuple(
        images.reshape(len(images), TIMES, 2, OUTPUTS, 7).mean(axis=(2, 4)).reshape(len(images), -1) - 0.2
        for images in (train.astype(float), test.astype(float))
    )


def _system(method, epsilon, seed, private):
    """Fit a linear dynamical system; its held-out score."""
    train, test = _strokes()
    settings = {"n_outputs": OUTPUTS, "random_state": seed}
    if epsilon is not None:
        model = LinearDynamicalSystem(STATES, radius=1.0, n_steps=30, **settings, **private)
        return {"score": model.fit(train).score(test)}
    bounds = {"radius": 10.0, "latent_radius": 30.0}
    begin = LinearDynamicalSystem(STATES, n_steps=1, **bounds, **settings, **private).fit(train)
    if method == "ours":
        model = LinearDynamicalSystem(STATES, n_steps=100, **bounds, **settings, **private).fit(train)
        return {"score": model.score(test)}
    # The same start, up to the axes of the states.
    start = begin.transitions_, begin.state_noise_, begin.loadings_, begin.variances_, begin.first_covariance_
    found = dynamics.em(train.reshape(-1, TIMES, OUTPUTS), *start, 99)
    return {"score": dynamics.log_density(test.reshape(-1, TIMES, OUTPUTS), *found)}


def run(cell):
    epsilon, seed = cell["epsilon"], cell["seed"]
    private = {"private": False, "learning_decay": 0} if epsilon is None else {"epsilon": epsilon, "delta": DELTA}
    if cell["model"] == "strokes":
        return _system(cell["method"], epsilon, seed, private)
    if cell["model"] == "factors":
        train, test = _abalone()
        if cell["method"] == "ours":
            if epsilon is None:
                options = ProbabilisticPCAOptions(latent_radius=30.0, min_variance=1e-6, ridge=1e-9)
                center, radius, steps = train.mean(axis=0), 30.0, 1500
            else:
                options, center, radius, steps = None, None, 6.0, 15
            model = FactorAnalysis(
                2, radius=radius, center=center, options=options, n_steps=steps, random_state=seed, **private
            ).fit(train)
            return {"score": _likelihood(model.get_covariance(), test - (0.0 if center is None else center))}
        from sklearn import decomposition

        model = decomposition.FactorAnalysis(2, max_iter=1000, random_state=seed).fit(train)
        return {"score": model.score(test)}
    (train, persons), (test, _) = _letters("train"), _letters("test")
    if cell["method"] == "ours":
        few = slice(None) if epsilon is not None else slice(FEW)
        steps = 100 if epsilon is None else 30
        model = HiddenMarkovModel(3, n_symbols=27, staying=0.0, n_steps=steps, random_state=seed, **private)
        model.fit(train[few], **({} if epsilon is None else {"groups": persons}))
        return {"score": model.score(test)}
    from hmmlearn.hmm import CategoricalHMM

    def rows(X):
        lengths = (X >= 0).sum(axis=1)
        return X[X >= 0][:, None], lengths[lengths > 0]

    model = CategoricalHMM(3, n_iter=100, tol=1e-4, random_state=seed, n_features=27).fit(*rows(train[:FEW]))
    return {"score": model.score(*rows(test)) / int((test >= 0).sum())}


def orders(rows):
    """Check fits without privacy against others, and that epsilon helps on average."""
    found = {}
    for row in rows:
        found.setdefault((row["model"], row["method"] == "ours", row["epsilon"]), []).append(row["score"])
    mean = {key: float(np.mean(scores)) for key, scores in found.items()}
    near, better = {}, {}
    for model in dict.fromkeys(row["model"] for row in rows):
        ours, other = mean.get((model, True, None)), mean.get((model, False, None))
        near[model] = None if ours is None or other is None else ours >= other - 0.02 * abs(other)
        for less, more in pairwise(EPSILONS):
            little, much = (mean.get((model, True, e)) for e in (less, more))
            better[f"{model}, ε = {more:g}"] = None if little is None or much is None else much > little
    return [
        order("without privacy within 2 % of the other's figure", near),
        order("better than at the next smaller ε", better),
    ]


def report(rows):
    """See the runner."""

    def shown(line, epsilon):
        found = [r["score"] for r in rows if (r["model"], r["method"], r["epsilon"]) == (*line, epsilon)]
        return spread(found, 3) if found else None

    lines = {(r["model"], r["method"]): f"{r['model']}, {r['method']}" for r in rows}
    columns = {None: "no privacy"} | {e: f"ε = {e:g}" for e in EPSILONS}
    return f"""Mean log-probability of held-out records in nats, higher is better: of a row of seven measures
(factors: abalone, two factors), of a letter (posts' first {LENGTH} letters, three states), and of {OUTPUTS} outputs
at one of {TIMES} times (strokes: digits of MNIST from top to bottom, three hidden dimensions). Private fits have a
public center. Letters without privacy have the first {FEW:,} posts, private ones all posts and persons as units; else a
record is added or removed; δ = 10⁻⁶. Private figures are means ± standard deviations of {RUNS} runs.

{listed(orders(rows))}

{crossed("data, fit", lines, columns, shown)}"""


def draw(rows, folder):
    return []
