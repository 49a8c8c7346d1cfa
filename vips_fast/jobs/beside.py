"""Text files beside a model: fit writes them, verify makes them again.

Each is a function of released quantities and of public inputs in the same folder. ``vocab.txt`` has the words,
``text.json`` the way texts are read; ``schema.toml``, ``coefficients.csv`` and ``components.csv`` have the columns of
tables. The model's family (`vips_fast.models.family`) writes the texts of a model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..models.family import family_of

PRIVACY, REPORT = "privacy.txt", "report.html"
#: Written with the model itself.
STATEMENT = "privacy.json"
#: Public inputs, kept as they were given: words, how texts were read (columns and analyzer), columns of a table.
VOCABULARY, READING, SCHEMA = "vocab.txt", "text.json", "schema.toml"


def statement(model: Any) -> str:
    """Write the guarantee, for ``privacy.txt``."""
    from ..report import paragraph

    return paragraph(model.privacy_.statement()) + "\n"


def describe_budget(budget: Any) -> str:
    """Write the state of a budget after a fit, in one line.

    Its head shows a rollback of the budget's file.
    """
    from ..accounting.printing import rounded_down, rounded_up

    said = budget.show()
    return (
        f"Charged to the budget of {said['dataset']}: epsilon = {rounded_up(said['spent'])} of {said['epsilon']:g} "
        f"spent at delta = {said['delta']:g}, {rounded_down(said['left'])} left; head {said['head']}"
    )


def written(model: Any, columns: Sequence[str] | None, n_words: int = 10) -> dict[str, str]:
    """Write the text of the model's family, if any, by file name."""
    from ..report import part_of

    name = family_of(model).text
    return {name: part_of(model).text(model, columns, n_words)} if name else {}


def kept_vocabulary(folder: str | Path) -> tuple[str, ...] | None:
    """Read the words in the folder of a topic model, if any."""
    from ..data import load_vocabulary

    path = Path(folder) / VOCABULARY
    return load_vocabulary(path) if path.exists() else None


def public_names(model: Any, files: Mapping[str, str]) -> dict[str, Any]:
    """Read the names of a model's columns from the texts beside it.

    The key is ``words`` for a topic model and ``names`` for another; the mapping is empty if no text names them.
    """
    from ..report import part_of

    part = part_of(model)
    return {part.keyword: part.names(model, files[part.source])} if part.source in files else {}


def naming(model: Any, folder: Path) -> dict[str, str]:
    """Read the text in a model's folder that names its columns."""
    from ..report import part_of

    name = part_of(model).source
    found = bool(name) and (folder / name).exists()
    return {name: (folder / name).read_bytes().decode("utf-8", "replace")} if found else {}


def report(model: Any, files: Mapping[str, str]) -> str:
    """Write the report of a model and its texts, for ``report.html``."""
    from ..report import html_report

    return html_report(model, **public_names(model, files))


def follows(model: Any, folder: Path, name: str) -> bool:
    """Compare a text file with the one that fit would write."""
    from ..report import part_of

    text = (folder / name).read_bytes().decode("utf-8", "replace")
    if name == PRIVACY:
        return text == statement(model)
    if name == REPORT:
        return text == report(model, naming(model, folder))
    part = part_of(model)
    return name == family_of(model).text and part.follows(model, text, naming(model, folder).get(part.source))
