"""Parameters and keywords that all estimators share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypedDict, get_args, is_typeddict

import numpy.typing as npt

from ..data.types import Column, RandomState
from ..engine.backend import Backend
from ..engine.budget import Budget
from ..engine.checkpoint import RunFolder
from ..engine.loop import Progress
from ..engine.planner import Planner
from ..engine.request import RunForecast

#: The budget of a data set, or the path of its file; None for no budget.
BudgetLike: TypeAlias = str | Path | Budget | None


class Purchased(Protocol):
    """A fit that chose a later one's columns.

    An example is a `vips_fast.PrivateVocabulary`.
    """

    def purchase(self) -> dict[str, object]:
        """Return the facts that the later fit records about it."""

    def purchase_text(self) -> str | None:
        """Return the text that the later fit publishes about it."""


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


@dataclass(kw_only=True, repr=False, eq=False)
class Parameters:
    """Constructor arguments of every estimator, stored unchanged under their own names.

    A model's own parameters are fields of its class, beside these; a field that it repeats has another default.

    Parameters
    ----------
    sampling : {"poisson", "without_replacement", "full", "random_allocation"} or None
        How minibatches are drawn. "random_allocation": epochs of ``n_records / batch_size`` minibatches, rounded, with
        every record once in each epoch; ``n_steps`` is a multiple of that number. The bins that a
        `vips_fast.data.ShardedCorpus` was written in are its minibatches, in every epoch. None is "without_replacement"
        where ``relation`` is "replace_one", else "random_allocation" for a ``fit`` to a ``ShardedCorpus`` and "poisson"
        for data in memory. The statement says which it was.
    relation : {"add_remove", "replace_one"} or None
        Neighboring relation; None takes the one that the sampling is accounted under ("without_replacement": replace
        one record; others: add or remove one).
    batch_size : float or None
        (Expected) records of a minibatch; None takes all.
    n_steps : int
        Minibatches, each one release.
    n_records : int or None
        Public number of records; None takes the number of rows as public.
    epsilon, delta : float or None
        The guarantee; the noise multiplier is calibrated for it before the run. delta None is
        min(1e-5, 1/(10 n_records)).
    target_attack_success : float or None
        Instead of epsilon, in (1/2, 1): the share of right guesses of the best attacker whether one person is in the
        data. The attacker knows all else and finds both cases equally likely; 0.6 is epsilon = 2.29 at delta = 1e-6 for
        a Gaussian run. The noise is calibrated for it by the exact trade-off curve
        (`vips_fast.accounting.attack_success`), for the fit and everything before it that the statement includes.
    noise_multiplier : float or None
        Noise standard deviation over the L2 sensitivity, instead of a target. With both, a run that would pass the
        target is refused. With neither, the target is epsilon = 1. 0 adds no noise and marks the model NOT PRIVATE.
    private : bool
        False fits without clipping and noise.
    invalid : {"raise", "drop"}
        What happens to a record with values that its model cannot take, or without a label among ``groups``. The fit is
        refused before anything is spent, or the record contributes nothing, without a message. A refusal says something
        about that record; unattended jobs drop.
    rows_per_group : int or None
        With ``groups``: most rows of a person that are used at one visit, public. A person's rows beyond it are left
        out, chosen by that person's own random word, anew at each visit. None uses all rows.
    n_jobs : int or None
        Threads; -1 for all processors, None for ``VIPS_FAST_NUM_THREADS`` or 1.
    random_state : int, numpy Generator, RandomState or None
        Seeds the public choices, such as a random start; and, only without privacy, the minibatches.
    callback : callable(Progress) or None
        Called after each step with `vips_fast.engine.loop.Progress`, which is public.
    """

    sampling: str | None = None
    relation: str | None = None
    batch_size: float | None = None
    n_steps: int | None = None
    n_records: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    target_attack_success: float | None = None
    noise_multiplier: float | None = None
    private: bool = True
    invalid: str = "raise"
    rows_per_group: int | None = None
    n_jobs: int | None = None
    random_state: RandomState = None
    callback: Callable[[Progress], None] | None = None

    #: Class of the ``options`` parameter, a frozen dataclass, if the class has one.
    _options_type: ClassVar[type | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Show the keywords behind ``**`` in a subclass's signatures, by name."""
        super().__init_subclass__(**options)
        for name, thing in [*vars(cls).items()]:
            function = getattr(thing, "__func__", thing)
            if isinstance(function, FunctionType) and function.__code__.co_flags & inspect.CO_VARKEYWORDS:
                spell(function, getattr(super(cls, cls), name, None))

    @property
    def _options(self) -> Any:
        """``options``, or their defaults; ValueError if they are of another class."""
        given, kind = getattr(self, "options", None), self._options_type
        if kind is not None and given is None:
            return kind()
        if kind is not None and not isinstance(given, kind):
            raise ValueError(f"options={given!r}: expected {kind.__name__} or None")
        return given

    @classmethod
    def _parameter_names(cls) -> list[str]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return sorted(p.name for p in parameters if p.name != "self")

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Constructor arguments by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: object) -> Self:
        """Set constructor arguments; return the estimator.

        Raises ValueError if a name is not a parameter.
        """
        names = self._parameter_names()
        for name, value in params.items():
            if name not in names:
                raise ValueError(f"{name!r} is not a parameter of {type(self).__name__}: expected one of {names}")
            setattr(self, name, value)
        return self


class Common(TypedDict, total=False):
    """Keywords of every ``paper``: the fields of `Parameters`."""

    sampling: str
    relation: str | None
    batch_size: float | None
    n_steps: int | None
    n_records: int | None
    epsilon: float | None
    delta: float | None
    target_attack_success: float | None
    noise_multiplier: float | None
    private: bool
    invalid: str
    rows_per_group: int | None
    n_jobs: int | None
    random_state: RandomState
    callback: Callable[[Progress], None] | None


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
    inputs : mapping of str to str, or None
        Public texts that give the numbers their meaning, by file name, such as ``{"vocab.txt": "fever\\ncough\\n"}``.
        They are part of the model and of its signature; `save` writes them, and ``inputs_`` has them. None takes the
        earlier calls' texts.
    backend : Backend or None
        Where sums are computed, such as `vips_fast.engine.cluster.DaskBackend`; None is ``n_jobs`` threads of this
        process. The result is the same bits.
    planner : Planner or None
        The planner of the job that this fit is a part of, whose calibrations are not repeated.
    """

    groups: Column | None
    unit: str | None
    transcript: str | Path | None
    budget: BudgetLike
    after: Purchased | None
    inputs: Mapping[str, str] | None
    backend: Backend | None
    planner: Planner | None


class Bookkeeping(Rows, total=False):
    """Keywords of every ``fit``: `Rows`, and how far the run is.

    Attributes
    ----------
    checkpoint : path or None
        Folder that keeps the run as it goes: its ledger, written ahead of each release, and its last checkpoint.
    resume : bool
        Whether a run that is in the folder resumes; lost steps are done and paid for again.
    checkpoint_every : int or None
        Steps between checkpoints; None spaces them so that they take less than 2 % of the time.
    on_forecast : callable(RunForecast) or None
        Called with a new run's forecast, before anything is spent on it; may raise. None logs the forecast, or warns if
        the run is hopeless.
    """

    checkpoint: str | Path | RunFolder | None
    resume: bool
    checkpoint_every: int | None
    on_forecast: Callable[[RunForecast], None] | None


class Call(Rows, total=False):
    """Keywords of every ``partial_fit``: `Rows`, and the records of the call.

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
    trials : array-like of shape (n_rows,), or None
        Numbers of trials, as in ``fit`` of a logistic regression.
    """

    trials: npt.ArrayLike | None
