"""Read frames of pandas, polars and pyarrow; check column names. The names are checked after a fit."""

import re
import sys
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from ..checks import check_choice

#: Names of such columns, in any case and with or without an id or a number, as in "User_ID" (`names_persons`).
PERSON_COLUMNS = tuple(
    """
    account author client customer employee guest household member mrn participant patient person respondent reviewer
    ssn student user visitor writer
    autor autorin benutzer benutzerin besucher besucherin haushalt kunde kunden kundin mitarbeiter mitarbeiterin nutzer
    nutzerin patienten patientin schüler schülerin teilnehmer teilnehmerin verfasser verfasserin
    versicherte versicherten
    auteur élève employé participante personne utilisateur visiteur
    autore cliente dipendente paziente persona studente utente visitatore
    alumno empleado paciente usuario visitante
    """.split()
)
#: What a number or an id makes a person's, but nothing else: emp_no, PatID, medical record number.
_NUMBERED = ("cust", "emp", "medical record", "nhs", "pat", "subject")
#: What names one of whoever the table is about, which may be a product: a column above is likelier a person's.
NAMES = ("name", "full name", "last name", "surname", "email", "e mail", "nachname", "nom", "nome", "cognome")
#: An id, a number or the word name at the end of a name.
_NUMBER = re.compile(r" ?(id|identifier|name|nr|no|num|number|nummer|#)$")


def table_columns(X: Any) -> list[Any] | None:
    """List the columns of a frame, table, mapping, query or stream."""
    if isinstance(X, Mapping):
        return list(X)
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return None
    if hasattr(X, "collect_schema"):  # polars; the attribute of a LazyFrame warns of its price
        return list(X.collect_schema().names())
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None and hasattr(X, "__arrow_c_stream__"):
        names = getattr(getattr(X, "schema", None), "names", None)
    return None if names is None else list(names)


def is_stream(X: Any) -> bool:
    """Tell whether a table gives its rows in batches only."""
    if isinstance(X, Mapping) or hasattr(X, "iloc"):
        return False
    return hasattr(X, "collect_batches") or (hasattr(X, "__arrow_c_stream__") and not hasattr(X, "slice"))


def reads_once(source: Any) -> bool:
    """Tell whether a source is gone after its first reading."""
    if isinstance(source, str):
        return source == "-"
    return hasattr(source, "__next__") or hasattr(source, "read_next_batch")


def named_columns(X: Any) -> tuple[str, ...] | None:
    """Find the columns' names of a frame, table or mapping."""
    names = table_columns(X)
    if not names:
        return None
    if all(isinstance(name, str) for name in names):
        return tuple(names)
    if any(isinstance(name, str) for name in names):
        raise TypeError("X: expected names of columns that are all texts, or none of them")
    return None


def check_names(estimator: str, known: Sequence[str] | None, X: Any) -> Any:
    """Compare the columns of X with the fit's; return X.

    Raises ValueError if X has names that are others, or stand in another order; warns if only one of the two had names.
    """
    names = named_columns(X)
    if names == (None if known is None else tuple(known)):
        return X
    if names is None or known is None:
        some, none = ("X has", "fit had") if known is None else ("fit had", "X has")
        what = f"{estimator}: {some} names of columns and {none} none, so that only their order counts"
        warnings.warn(what, stacklevel=4)
        return X
    new, gone = set(names) - set(known), set(known) - set(names)
    for told, which in ((new, "unseen in fit"), (gone, "seen in fit, now missing")):
        if told:
            raise ValueError(f"X: expected the columns of fit: {', '.join(map(repr, sorted(told)[:5]))} {which}")
    raise ValueError("X: expected the columns of fit in the same order")


def names_persons(column: str) -> bool:
    """Tell whether a name, in any case, is a person identifier's: patient, "Employee No.", user_name, MRN, name."""
    name = _plain(column)
    stem = _NUMBER.sub("", name)
    if stem in PERSON_COLUMNS or name in NAMES or name.replace(" ", "") in ("id", "pid", "uid"):
        return True
    return stem != name and any(f" {stem}".endswith(f" {person}") for person in (*PERSON_COLUMNS, *_NUMBERED))


def person_column(columns: Sequence[str]) -> str | None:
    """Choose the column that is likeliest a person's, by the names alone.

    A bare id is most often a row's. A column such as "name" is taken where no other names a person.
    """
    found = [name for name in columns if names_persons(name) and _plain(name) != "id"]
    return min(found, key=lambda name: _plain(name) in NAMES, default=None)


def _plain(column: str) -> str:
    """Write a column's name in small letters, with one blank between its parts."""
    return re.sub(r"[\s_.-]+", " ", column.lower()).strip()


def is_missing(cell: Any) -> bool:
    """Tell whether a cell is None, NaN, or pandas' NA."""
    # What does not equal itself, or cannot say, is missing. A decimal's signaling NaN raises.
    try:
        return cell is None or not isinstance(equal := cell == cell, (bool, np.bool_)) or not equal
    except ArithmeticError:
        return True


def repeats(batches: Iterable[Iterable[Any]]) -> bool:
    """Tell whether a value stands twice in a column, given in parts."""
    seen: set[Hashable] = set()
    for value in chain.from_iterable(batches):
        if isinstance(value, Hashable) and not is_missing(value) and value != "":
            if value in seen:
                return True
            seen.add(value)
    return False


def set_output(estimator: Any, transform: str | None) -> Any:
    """Set the output of ``transform``, see `to_frame`; None leaves it. Raises ValueError for another name."""
    check_choice("transform", transform, (None, "default", "pandas", "polars"))
    if transform is not None:
        estimator._output = transform
    return estimator


def to_frame(estimator: Any, values: Any, X: Any) -> Any:
    """Convert values to the format of ``set_output``, or of scikit-learn's configuration; the index comes from X."""
    scikit = sys.modules.get("sklearn")
    output = getattr(estimator, "_output", None) or (scikit.get_config()["transform_output"] if scikit else "default")
    if output == "default":
        return values
    dense, names = values.toarray() if sparse.issparse(values) else values, list(estimator.get_feature_names_out())
    if output == "polars":
        import polars

        return polars.DataFrame(dense, schema=names)
    import pandas

    return pandas.DataFrame(dense, columns=names, index=getattr(X, "index", None) if hasattr(X, "iloc") else None)
