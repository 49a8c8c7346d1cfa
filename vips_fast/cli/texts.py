"""The text files beside a model: written by fit, made again by verify.

Each is a function of what the model publishes and of public inputs that stand in the folder themselves: the words in
``vocab.txt``, how texts are read in ``text.json``, the columns of tables in ``schema.toml``,
``coefficients.csv`` and ``components.csv``.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TOPICS, PRIVACY, REPORT = "topics.txt", "privacy.txt", "report.html"
COEFFICIENTS, COMPONENTS = "coefficients.csv", "components.csv"
#: Written with the model itself.
STATEMENT = "privacy.json"
#: Public inputs, kept as they were given: words, how texts were read (columns and analyzer), columns of a table.
VOCABULARY, READING, SCHEMA = "vocab.txt", "text.json", "schema.toml"


def statement(model: Any) -> str:
    """The guarantee, for ``privacy.txt``."""
    from ..report import paragraph

    return paragraph(model.privacy_.statement()) + "\n"


def charged(budget: Any) -> str:
    """What a budget says after a fit, in one line; its head is what a rollback of the file is seen by."""
    from ..accounting.printing import rounded_down, rounded_up

    said = budget.show()
    return (
        f"Charged to the budget of {said['dataset']}: epsilon = {rounded_up(said['spent'])} of {said['epsilon']:g} "
        f"spent at delta = {said['delta']:g}, {rounded_down(said['left'])} left; head {said['head']}"
    )


def topics(model: Any, vocabulary: Sequence[str] | None, n_words: int) -> str:
    """The commonest words of each topic, for ``topics.txt``."""
    from ..report import topics_table

    return topics_table(model.components_, vocabulary, n_words) + "\n"


def coefficients(model: Any, names: Sequence[str]) -> str:
    """Posterior means and intervals of a logistic regression (of each class, if not of two): ``coefficients.csv``."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    several, intervals = len(model.coef_) > 1, model.credible_interval(0.9).reshape(*model.coef_.shape, 2)
    table.writerow([*["class"] * several, "feature", "mean", "low_90", "high_90"])
    for k, label in enumerate(model.classes_.tolist() if several else [None]):
        own = [label] * several
        table.writerow([*own, "(intercept)", f"{model.intercept_[k]:.6g}", "", ""])
        for name, mean, interval in zip(names, model.coef_[k], intervals[k], strict=True):
            table.writerow([*own, name, *(f"{number:.6g}" for number in (mean, *interval))])
    return out.getvalue()


def components(model: Any, names: Sequence[str] | None) -> str:
    """Each component of a mixture, its weight, and its mean in each column, or its keywords: ``components.csv``."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    if hasattr(model, "projection"):
        has_words = model.vocabulary is not None
        head, rows = ["keywords"] * has_words, [[" ".join(row)] for row in model.keywords()] if has_words else None
    else:
        means = model.probabilities_ if hasattr(model, "probabilities_") else model.means_
        head, rows = list(names or ()), [[f"{number:.6g}" for number in row] for row in means]
    table.writerow(["component", "weight", *head])
    for k, weight in enumerate(model.weights_.tolist()):
        table.writerow([k + 1, f"{weight:.6g}", *(rows[k] if rows else ())])
    return out.getvalue()


def kept_vocabulary(folder: str | Path) -> tuple[str, ...] | None:
    """The words in the folder of a topic model, or None."""
    from ..data import load_vocabulary

    path = Path(folder) / VOCABULARY
    return load_vocabulary(path) if path.exists() else None


def kept_names(model: Any, text: str) -> list[str] | None:
    """The names of the columns in the text of ``coefficients.csv``, or None if they are not as many as columns."""
    (n_models, d), rows = model.coef_.shape, list(csv.reader(io.StringIO(text, newline="")))
    names = ["".join(row[n_models > 1 :][:1]) for row in rows][2 : d + 2]
    return names if len(names) == d else None


def has_components(model: Any) -> bool:
    """Whether a model is a mixture."""
    return hasattr(model, "weights_") and hasattr(model, "predict_proba")


def component_names(model: Any, text: str) -> list[str] | None:
    """The names of the columns in the text of ``components.csv``; None if they are not as many, or of vectors."""
    names = next(csv.reader(io.StringIO(text, newline="")), [])[2:]
    return None if hasattr(model, "projection") or len(names) != model.n_columns_ else names


def public_names(model: Any, files: Mapping[str, str]) -> dict[str, Any]:
    """What the texts beside a model call its columns: ``words`` of a topic model, ``names`` of another, or nothing."""
    if has_components(model) and COMPONENTS in files:
        return {"names": component_names(model, files[COMPONENTS])}
    if hasattr(model, "perplexity") and VOCABULARY in files:
        return {"words": [line.strip() for line in files[VOCABULARY].removeprefix("\ufeff").rstrip().split("\n")]}
    if hasattr(model, "coef_") and COEFFICIENTS in files:
        return {"names": kept_names(model, files[COEFFICIENTS])}
    return {}


def naming(folder: Path) -> dict[str, str]:
    """The texts in a model's folder that name its columns."""
    paths = (folder / name for name in (VOCABULARY, COEFFICIENTS, COMPONENTS))
    return {path.name: path.read_bytes().decode("utf-8", "replace") for path in paths if path.exists()}


def report(model: Any, files: Mapping[str, str]) -> str:
    """The report of a model and of the texts beside it, for ``report.html``."""
    from ..report import html_report

    return html_report(model, **public_names(model, files))


def follows(model: Any, folder: Path, name: str) -> bool:
    """Whether a text file is the one that fit would write for the model."""
    text = (folder / name).read_bytes().decode("utf-8", "replace")
    if name == PRIVACY:
        return text == statement(model)
    if name == TOPICS and hasattr(model, "perplexity"):
        # How many words were asked for is not stored: at most as many as the longest line has.
        vocabulary, longest = kept_vocabulary(folder), max(len(line.split()) for line in text.split("\n"))
        return any(text == topics(model, vocabulary, n) for n in range(longest, 0, -1))
    if name == COEFFICIENTS and hasattr(model, "coef_"):
        names = kept_names(model, text)
        return names is not None and text == coefficients(model, names)
    if name == COMPONENTS and has_components(model):
        return text == components(model, component_names(model, text))
    if name == REPORT:
        return text == report(model, naming(folder))
    return False
