"""Write the text files beside a model, which verify makes again.

Fit writes them, verify makes them again, and nobody reads them. Each is a function of the model and its inputs. The
model's family (`vips_fast.models.family`) writes the texts of a model.
"""

from typing import Any

from ..accounting.printing import rounded_down, rounded_up
from ..models.family import family_of
from ..models.inputs import column_names
from ..models.persistence import PRIVACY as PRIVACY
from ..models.persistence import REPORT as REPORT
from ..report import html_report, paragraph, part_of
from ..store.folder import Folder
from ..store.text import printable


def statement(model: Any) -> str:
    """Write the guarantee, for ``privacy.txt``."""
    return printable(paragraph(model.privacy_.statement())) + "\n"


def describe_budget(budget: Any) -> str:
    """Write the state of a budget after a fit, in one line. Its head shows a rollback of the budget's file."""
    said = budget.show()
    return (
        f"Charged to the budget of {said['dataset']}: epsilon = {rounded_up(said['spent'])} of {said['epsilon']:g} "
        f"spent at delta = {said['delta']:g}, {rounded_down(said['left'])} left; head {said['head']}"
    )


def texts(model: Any) -> dict[str, str]:
    """Write all texts of a model, by file name: that of its family, if any, and the guarantee."""
    found = {PRIVACY: statement(model)}
    if name := family_of(model).text:
        found[name] = printable(part_of(model).text(model, column_names(model._fitted().public)))
    return found


def shown(model: Any) -> str:
    """Write the lines that show a model on a terminal."""
    return printable(part_of(model).shown(model, column_names(model._fitted().public)))


def follows(model: Any, folder: Folder, name: str) -> bool:
    """Compare a text file with the one that fit would write."""
    text = folder.read(name).decode("utf-8", "replace")
    return text == (html_report(model) if name == REPORT else texts(model).get(name))
