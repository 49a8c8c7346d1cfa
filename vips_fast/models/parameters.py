"""Parameters and keywords that all estimators share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, get_args, is_typeddict

import numpy.typing as npt

from ..data.schema import Schema
from ..data.types import Column, RandomState
from ..engine.backend import Backend
from ..engine.budget import Budget
from ..engine.checkpoint import RunFolder
from ..engine.loop import Progress
from ..engine.plan import RunForecast

if TYPE_CHECKING:
    from .estimator import PrivateEstimator

#: The budget of a data set, or the path of its file; None for no budget.
BudgetLike: TypeAlias = str | Path | Budget | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings that few fits need, the same for every estimator; a model's own options are a subclass.

    Attributes
    ----------
    relation : {"add_remove", "replace_one"} or None
        Neighboring relation; None takes the one that the sampling is accounted under ("without_replacement": replace
        one record; others: add or remove one).
    invalid : {"raise", "drop"}
        What happens to a record with values that its model cannot take, or without a label among ``groups``. The fit is
        refused before anything is spent, or the record contributes nothing, without a message. A refusal says something
        about that record; unattended jobs drop.
    rows_per_group : int or None
        With ``groups``: most rows of a person that are used at one visit, public. A person's rows beyond it are left
        out, chosen by that person's own random word, anew at each visit. None uses all rows, of more than 2^18 so many.
    """

    relation: str | None = None
    invalid: str = "raise"
    rows_per_group: int | None = None

    @classmethod
    def of(cls, given: Any) -> Self:
        """Make the options that ``options`` of an estimator are: an instance, a dict, or None for the defaults.

        None in a dict is an option's default, too.
        """
        if given is None or isinstance(given, cls):
            return cls._default() if given is None else given
        if not isinstance(given, Mapping):
            raise ValueError(f"options={given!r}: expected {cls.__name__}, a dict or None")
        known = [one.name for one in fields(cls)]
        if unknown := sorted(given.keys() - {*known}, key=repr):
            raise ValueError(f"options: {unknown[0]!r} is not an option: expected one of {', '.join(known)}")
        return cls(**{name: value for name, value in given.items() if value is not None})

    @classmethod
    @cache
    def _default(cls) -> Self:
        return cls()


class Words(str):
    """Text that a signature shows without quotes."""

    __repr__ = str.__str__


def spell(function: FunctionType, parent: Callable[..., object] | None) -> None:
    """Name in a function's signature each keyword that it takes as ``**``.

    They are the fields of the TypedDict in ``Unpack``, or without one the parameters of ``parent``. Type checkers read
    the source, which stays the same.
    """
    signature = inspect.signature(function)
    *own, rest = signature.parameters.values()
    said: Any = rest.annotation
    name = said[len("Unpack[") : -1] if isinstance(said, str) else ""
    kind = function.__globals__.get(name) if name else next(iter(get_args(said)), None)
    if is_typeddict(kind):
        more = _fields(kind)
    elif parent is not None:
        more = [*inspect.signature(parent).parameters.values()]
    else:
        return
    names = {"self", *(p.name for p in own)}
    own += [p.replace(kind=max(p.kind, p.KEYWORD_ONLY)) for p in more if p.name not in names]
    own = [p.replace(annotation=_words(p.annotation)) for p in own]
    returned = _words(signature.return_annotation)
    vars(function)["__signature__"] = inspect.Signature(own, return_annotation=returned)


def _words(annotation: Any) -> Any:
    return Words(annotation) if isinstance(annotation, str) else annotation


def _fields(kind: Any) -> list[inspect.Parameter]:
    known = kind.__annotations__
    # The defaults of ``paper`` stand in a class that is imported later.
    of_paper = known.keys() >= Common.__annotations__.keys()
    found = []
    for name, annotation in known.items():
        text = Words(getattr(annotation, "__forward_arg__", annotation))
        default = Words("...") if of_paper else False if text == "bool" else None
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=text))
    return found


class Common(TypedDict, total=False):
    """Keywords of every ``paper``: the parameters of `PrivateEstimator`."""

    sampling: str
    batch_size: float | None
    n_steps: int | None
    n_records: int | None
    epsilon: float | None
    delta: float | None
    noise_multiplier: float | None
    private: bool
    n_jobs: int | None
    random_state: RandomState
    options: Options | Mapping[str, object] | None


class Rows(TypedDict, total=False):
    """Privacy units of rows, and the place and payment of releases.

    These are keywords of ``fit`` and ``partial_fit``.

    Attributes
    ----------
    groups : array-like of shape (n_rows,), or None
        Whose each row is: labels of persons (`vips_fast.data.groups.canonical_label`), private like the rows. The
        guarantee is then about adding or removing a person with all rows. Persons are sampled, and the sum of a
        person's rows is clipped once, jointly. So a person with many rows has no more influence than the clip allows.
        ``n_records`` is the public number of persons. None: each row is a record of its own.
    unit : str or None
        What the statement calls them, such as "patient"; None is "person".
    transcript : path or None
        New folder that keeps the releases: they make the model again without the data (`vips_fast.verify`). Further
        calls of ``partial_fit`` go to the folder of the first.
    budget : str, path, Budget or None
        The budget of the data set, which pays for the run (`vips_fast.engine.budget`).
    after : fitted PrivateVocabulary, another fitted model, or None
        The purchase of the columns, or clusters beside these topics, from the same persons. It is a part of this
        model's ledger and statement, and a target is for both together.
    inputs : mapping of str to str, Schema or None
        Public texts that give the numbers their meaning, by file name, such as ``{"vocab.txt": "fever\\ncough\\n"}``.
        They are part of the model and of its signature; `save` writes them, and ``inputs_`` has them. None takes the
        earlier calls' texts. A `vips_fast.data.Schema` of the columns stands for its own.
    backend : Backend or None
        Where sums are computed, such as `vips_fast.engine.cluster.DaskBackend`; None is ``n_jobs`` threads of this
        process. The result is the same bits.
    callback : callable(Progress) or None
        Called after each step with `vips_fast.engine.loop.Progress`, which is public.
    """

    groups: Column | None
    unit: str | None
    transcript: str | Path | None
    budget: BudgetLike
    after: PrivateEstimator | None
    inputs: Mapping[str, str] | Schema | None
    backend: Backend | None
    callback: Callable[[Progress], None] | None


class Bookkeeping(Rows, total=False):
    """Keywords of every ``fit``: `Rows`, and how far the run is.

    Attributes
    ----------
    checkpoint : path or None
        Folder that keeps the run as it goes: its ledger, written ahead of each release, and its releases.
    resume : bool
        Whether a run that is in the folder resumes; lost steps are done and paid for again.
    on_forecast : callable(RunForecast) or None
        Called with a new run's forecast, before anything is spent on it; may raise. None logs the forecast, or warns if
        the run is hopeless.
    """

    checkpoint: str | Path | RunFolder | None
    resume: bool
    on_forecast: Callable[[RunForecast], None] | None


class Call(Rows, total=False):
    """Keywords of every ``partial_fit``: `Rows`, and the records of the call.

    A model's own settings are those of the first call; noise and minibatches may be others.

    Attributes
    ----------
    part : str or None
        Name of the part of the data set that the rows are, "2026-11-20", say, if each record lies in one part only.
        Calls about different parts compose in parallel: the worst part decides epsilon. Calls about one part, and calls
        without a part, which are about all records, compose in sequence. That no record lies in two parts is not
        checked; the statement says that it is assumed (`vips_fast.accounting.parts` has the proof).
    n_records : int or None
        Public number of records of this call, the scale of its sums. None takes ``batch_size``; if that is None
        too, the estimator's ``n_records`` for each part, or without it the number of rows.
    """

    part: str | None
    n_records: int | None


class Reading(TypedDict, total=False):
    """Further columns of the records, for the models that have them.

    Attributes
    ----------
    exposure : array-like of shape (n_rows,), or None
        Exposures, as in ``fit`` of a regression of counts.
    """

    exposure: npt.ArrayLike | None
