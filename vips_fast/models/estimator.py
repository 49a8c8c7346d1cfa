"""Base of all estimators: parameters as in scikit-learn, private fits, read-outs and files of the one result.

A subclass says how its data are read (`_read`) and which `Model` goes with its parameters and with public facts
(`_model`), and reads its result out. What a fit does is in `vips_fast.models.fit`.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, Self, cast

import numpy as np

from ..accounting import SelfComposedEvent
from ..checks import check_choice, check_flag, check_number, same
from ..data.frames import check_names
from ..data.types import Names, RandomState
from ..engine.backend import Backend, Threads
from ..engine.budget import Budget
from ..engine.checkpoint import RunFolder
from ..engine.gain import MEASURED, FoundGain, measured_gain
from ..engine.ledger import Ledger
from ..engine.loop import Progress
from ..engine.model import MAX_RECORDS, Model, Records
from ..engine.plan import Request, RunForecast, RunSchedule, Terms
from ..engine.result import FitResult, Public
from ..engine.sampling import SAMPLINGS, KeyedRandomness, Randomness, SystemRandomness, make_sampler
from ..engine.statement import Privacy
from ..engine.transcript import TranscriptWriter
from ..kernels.threads import resolve_n_threads
from . import persistence
from .caveats import begin_uncounted, tell
from .family import family_of
from .fit import prepare, with_records
from .parameters import BudgetLike, Options, spell
from .public import PublicKnowledge
from .verdict import Verdict

#: Where settings name the source of public knowledge.
_SOURCE = "public_prior_source"


class NotFittedError(ValueError, AttributeError):
    """A read-out was asked of an estimator before ``fit``."""


@dataclass(frozen=True)
class ArraySpec:
    """A published array's required shape, range and type.

    A length of -1 stands for any length, and the range is closed.
    """

    shape: tuple[int, ...]
    low: float = -math.inf
    high: float = math.inf
    dtype: str = "float64"


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateEstimator:
    """Base of the estimators; constructor arguments are stored unchanged under their own names.

    `fit` makes one immutable result and takes it over at the end: an interrupted fit leaves the estimator exactly as
    it was. A model's own parameters are fields of its class, beside these; a field that it repeats has another default.

    Parameters
    ----------
    sampling : {"poisson", "without_replacement", "full", "random_allocation"} or None
        How minibatches are drawn. "random_allocation": epochs of ``n_records / batch_size`` minibatches, rounded, with
        every record once in each epoch; ``n_steps`` is a multiple of that number. The bins that a
        `vips_fast.data.ShardedCorpus` was written in are its minibatches, in every epoch. None is "without_replacement"
        where ``relation`` is "replace_one", else "random_allocation" for a ``fit`` to a ``ShardedCorpus`` and "poisson"
        for data in memory. The statement says which it was.
    batch_size : float or None
        (Expected) records of a minibatch; None takes all.
    n_steps : int
        Minibatches, each one release.
    n_records : int or None
        Public number of records; None takes the number of rows as public.
    epsilon, delta : float or None
        The guarantee; the noise multiplier is calibrated for it before the run. delta None is
        min(1e-5, 1/(10 n_records)).
    noise_multiplier : float or None
        Noise standard deviation over the L2 sensitivity, instead of a target. With both, a run that would pass the
        target is refused. With neither, the target is epsilon = 1. 0 adds no noise and marks the model NOT PRIVATE.
    private : bool
        False fits without clipping and noise.
    n_jobs : int or None
        Threads; -1 for all processors, None for ``VIPS_FAST_NUM_THREADS`` or 1.
    random_state : int, numpy Generator, RandomState or None
        Seeds the public choices, such as a random start; and, only without privacy, the minibatches.
    options : Options, dict or None
        Settings that few fits need: `vips_fast.models.parameters.Options`, and a model's own. A dict has them by name;
        `set_params` sets one as ``options__NAME``.
    """

    sampling: str | None = None
    batch_size: float | None = None
    n_steps: int | None = None
    n_records: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None
    private: bool = True
    n_jobs: int | None = None
    random_state: RandomState = None
    options: Options | Mapping[str, object] | None = None

    #: Whether a fit without privacy keeps ``diagnostics_`` unasked.
    _diagnostics_without_privacy: ClassVar[bool] = False
    _result: FitResult | None = field(default=None, init=False)
    _test_key: bytes | None = field(default=None, init=False)
    _diagnose: bool = field(default=False, init=False)

    #: Steps without ``n_steps``; None refuses that.
    _usual_steps: ClassVar[int | None] = None
    #: Name and class of the parameter that is public knowledge.
    _knowledge: ClassVar[tuple[str, type[PublicKnowledge]] | None] = None
    #: Class of the ``options`` parameter.
    _options_type: ClassVar[type[Options]] = Options

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
        return self._options_type.of(self.options)

    @classmethod
    @functools.cache
    def _parameter_names(cls) -> list[str]:
        return sorted(inspect.signature(cls.__init__).parameters.keys() - {"self"})

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Constructor arguments by name."""
        names = self._parameter_names()
        return dict(zip(names, map(self.__getattribute__, names), strict=True))

    def set_params(self, **params: object) -> Self:
        """Set constructor arguments, or one of the options as ``options__NAME``; return the estimator.

        Raises ValueError if a name is not a parameter.
        """
        names = self._parameter_names()
        for name, value in params.items():
            if name.startswith("options__"):
                given = vars(self._options_type.of(self.options))
                self.options = self._options_type.of({**given, name.removeprefix("options__"): value})
                continue
            if name not in names:
                raise ValueError(f"{name!r} is not a parameter of {type(self).__name__}: expected one of {names}")
            setattr(self, name, value)
        return self

    # ------------------------------------------- definitions of a subclass

    def _read(self, X: Any, y: Any = None) -> tuple[Records, dict[str, Any]]:
        """Read checked records and their public facts. The facts are ``n_features``, and ``classes`` or ``scale``."""
        raise NotImplementedError(f"{type(self).__name__} does not define _read")

    @property
    def _has_score(self) -> bool:
        """Whether the settings make a model that has a score."""
        return True

    def _schedule(self, public: Public, terms: Terms) -> RunSchedule | None:
        """Plan minibatches and steps of a whole fit; see `Request.schedule`."""
        size, bins = self.batch_size, public.n_bins
        sampler = make_sampler(self.sampling, self._options.relation, public.n_records, size, bins)
        n_steps = self._planned_steps()
        return RunSchedule(sampler, n_steps, n_steps)

    def _planned_steps(self) -> int:
        """Count the steps of a whole fit, or of calls of ``partial_fit``, which nobody counts beforehand."""
        if (n_steps := self._usual_steps if self.n_steps is None else self.n_steps) is None:
            raise ValueError("n_steps=None: expected an integer")
        return int(n_steps)

    def _steps_of(self, schedule: RunSchedule | None) -> int:
        """Find the horizon of a schedule, or of the settings, or 1."""
        return int(self.n_steps or 1) if schedule is None else schedule.horizon

    def _sensitivity(self, model: Model, relation: str) -> float | None:
        """Declare a sensitivity in place of the proven one, or None."""
        return None

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        """Predict the worth of a run; None if nothing predicts it."""
        return None

    def _inspect(self, model: Model) -> None:
        """Warn before a fit if a model fails on public test records."""

    # Not abstract: every parameter of an author's estimator can be set and shown before its model is written.

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        """Make the model for settings and public facts, at its start.

        Without a schedule, only to `Model.restore` a state or to ask for shapes.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define _model")

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        """Name and `ArraySpec` of each array that `Model.result` gives."""
        raise NotImplementedError(f"{type(self).__name__} does not define _array_specs")

    # ------------------------------------------------------------- settings

    def _check_parameters(self) -> None:
        """Raise ValueError for any parameter out of its range; a subclass adds its own."""
        check_flag("private", self.private)
        check_number("n_steps", self.n_steps, 1, 2**31, integer=True, optional=True)
        check_number("epsilon", self.epsilon, 0, math.inf, low_open=True, high_open=True, optional=True)
        check_number("delta", self.delta, 0, 1, low_open=True, high_open=True, optional=True)
        check_number("noise_multiplier", self.noise_multiplier, 0, math.inf, high_open=True, optional=True)
        options = self._options
        check_number("batch_size", self.batch_size, 0, math.inf, low_open=True, high_open=True, optional=True)
        check_number("n_records", self.n_records, 1, MAX_RECORDS, integer=True, optional=True)
        check_number("rows_per_group", options.rows_per_group, 1, MAX_RECORDS, integer=True, optional=True)
        check_choice("sampling", self.sampling, (*SAMPLINGS, None))
        check_choice("invalid", options.invalid, ("raise", "drop"))
        resolve_n_threads(self.n_jobs)

    @property
    def _terms(self) -> Terms:
        """Limits of a fit's cost, by the settings."""
        return Terms(bool(self.private), self.epsilon, self.delta, self.noise_multiplier)

    def set_unsafe(self, *, test_key: bytes | None = None, diagnostics: bool = False) -> Self:
        """Disable privacy for tests, audits and public data.

        All later fits are NOT PRIVATE for good. With a ``test_key`` of 32 bytes, sampling, per-record randomness and
        noise come from this known key. Such fits can be repeated bit for bit. ``diagnostics=True`` keeps un-noised
        diagnostics of the training records in ``diagnostics_``. Neither is a parameter; files and pickles hold neither.
        Returns the estimator; raises TypeError or ValueError if the key is not 32 bytes.

        >>> import numpy as np
        >>> from vips_fast import SigmoidBeliefNetwork
        >>> model = SigmoidBeliefNetwork(2, noise_multiplier=9.0, n_steps=2).set_unsafe(diagnostics=True)
        >>> len(model.fit(np.eye(50, 4, dtype=int)).diagnostics_), model.privacy_.epsilon
        (2, inf)
        >>> print(model.privacy_)
        NOT PRIVATE: unsafe diagnostics: computed from the training records without noise.
        """
        if test_key is not None:
            if not isinstance(test_key, (bytes, bytearray)):
                raise TypeError(f"test_key: expected 32 bytes or None, got {type(test_key).__name__}")
            if len(test_key) != 32:
                raise ValueError(f"test_key: expected 32 bytes or None, got {len(test_key)}")
        check_flag("diagnostics", diagnostics)
        self._test_key = None if test_key is None else bytes(test_key)
        self._diagnose = bool(diagnostics)
        return self

    def _settings(self) -> dict[str, Any]:
        """List the arguments as numbers, texts, dicts and arrays. Public knowledge has its source beside its bytes."""
        out: dict[str, Any] = {}
        for name, value in self.get_params().items():
            if name == "random_state" and not isinstance(value, (int, np.integer)):
                value = None
            elif name == "options":
                value = dict(vars(self._options_type.of(value)))
            elif isinstance(value, PublicKnowledge):
                out[_SOURCE] = value.source
                value = np.frombuffer(value.to_bytes(), np.uint8)
            elif is_dataclass(value) and not isinstance(value, type):
                value = {one.name: getattr(value, one.name) for one in fields(value)}
            elif isinstance(value, np.generic):
                value = value.item()
            elif isinstance(value, np.ndarray):
                value = np.array(value)
            elif isinstance(value, range):
                value = list(value)  # as JSON has it
            out[name] = value
        return out

    @classmethod
    def _from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make an unfitted estimator with these settings, checked."""
        arguments = dict(settings)
        if cls._knowledge is not None:
            name, kind = cls._knowledge
            said, known = arguments.pop(_SOURCE, None), arguments[name]
            if isinstance(known, np.ndarray) and known.dtype == np.uint8:
                arguments[name] = known = kind.from_bytes(known.tobytes())
            # Statements repeat the source, so a file must not be able to name another.
            if said != (known.source if isinstance(known, kind) else None):
                raise ValueError(f"{_SOURCE}={said!r}: not the source of {name}")
        if "options" in arguments:
            arguments["options"] = cls._options_type.of(arguments["options"])
        estimator = cls(**arguments)
        estimator._check_parameters()
        return estimator

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self).__init__).parameters.items()}
        given = self.get_params()
        with suppress(ValueError):  # None, a dict and an instance may say the same
            given["options"], defaults["options"] = self._options, self._options_type()
        shown = [f"{name}={value!r}" for name, value in given.items() if not same(value, defaults[name])]
        text = f"{type(self).__name__}({', '.join(shown)})"
        if self._result is None or self._result.ledger.private:
            return text
        return f"{text}  # NOT PRIVATE: {'; '.join(self._result.ledger.taints)}"

    def _repr_html_(self) -> str:
        from html import escape

        if self._result is None:
            return f"<pre>{escape(repr(self))}</pre>"
        verdict = f"<p><strong>{escape(str(self.verdict_))}</strong></p>" if self.verdict_.text else ""
        return f"{verdict}<pre>{escape(repr(self))}</pre>{self._result.privacy._repr_html_()}"

    def __getstate__(self) -> dict[str, Any]:
        # Neither a key nor a lock is ever stored or copied.
        return {k: v for k, v in vars(self).items() if k not in ("_test_key", "_lock")}

    # ------------------------------------------------------------- fitting

    def _fit(
        self,
        X: Any,
        y: Any = None,
        *,
        partial: bool = False,
        transcript: str | Path | None = None,
        checkpoint: str | Path | RunFolder | None = None,
        resume: bool = False,
        budget: BudgetLike = None,
        on_forecast: Callable[[RunForecast], None] | None = None,
        callback: Callable[[Progress], None] | None = None,
        **call: Any,
    ) -> Self:
        """Run `fit` or `partial_fit` of any model.

        ``call`` has the other keywords of `prepare`. ``on_forecast`` is called with the forecast of a new run, before
        anything is spent on it, and may raise. None logs it, or warns if the run is hopeless.
        """
        method = "partial_fit" if partial else "fit"
        known = inspect.signature(getattr(self, method)).parameters
        named = {"transcript": transcript, "on_forecast": on_forecast, "callback": callback, "checkpoint": checkpoint}
        given = call | {name: value for name, value in {**named, "resume": resume or None}.items() if value is not None}
        if (unknown := given.keys() - known.keys()) and not any(one.kind is one.VAR_KEYWORD for one in known.values()):
            raise TypeError(f"{type(self).__name__}.{method}() got an unexpected keyword argument {min(unknown)!r}")
        if callback is not None and not callable(callback):
            raise ValueError(f"callback={callback!r}: expected a callable or None")
        check_flag("resume", resume)
        alone = bool(self.private) and budget is None and not (resume or self._taints())
        if resume and checkpoint is None:
            raise ValueError("resume=True: expected checkpoint= with it, the folder of the run")
        with ExitStack() as held:
            lock = vars(self).setdefault("_lock", threading.Lock())
            if not lock.acquire(blocking=False):
                raise RuntimeError("this estimator is being fitted by another thread; expected one fit at a time")
            held.callback(lock.release)
            if checkpoint is None or isinstance(checkpoint, RunFolder):
                folder = checkpoint
            else:
                folder = held.enter_context(RunFolder(checkpoint, resume=resume))
            first, resumed = not partial or self._result is None, folder is not None and folder.begun
            writer = None if transcript is None else TranscriptWriter(transcript, first=first, resume=resumed)
            fit = self.prepare(X, y, partial=partial, budget=budget, folder=folder, **call)
            held.callback(fit.close)
            if fit.planned.forecast is not None and not (partial or resumed):
                tell(fit.planned.forecast, on_forecast, 3)
            if alone:
                before, included = fit.planned.request.earlier, (fit.plan.purchase or {}).get("head")
                follows = None if before is None else before.ledger.head
                end = begin_uncounted(type(self).__name__, follows, included)
            fit.run(writer, callback)
            if alone:
                end(self._fitted().ledger.head)
        return self

    prepare = prepare
    _with_records = with_records

    def request(
        self,
        public: Public,
        *,
        partial: bool = False,
        before: FitResult | None = None,
        folder: RunFolder | None = None,
        taints: tuple[str, ...] | None = None,
    ) -> Request:
        """Make the request of a run from settings and public facts. ``taints`` are given for a run that is rebuilt."""
        # An option of some models, and an attribute of the class of others.
        asked = getattr(self._options, "measure_gain", getattr(self, "measure_gain", None))
        return Request(
            settings=self._settings(),
            public=public,
            terms=self._terms,
            schedule=self._call_schedule if partial else self._schedule,
            model=self._model,
            sensitivity=self._sensitivity,
            forecast=self._forecast,
            taints=self._taints() if taints is None else taints,
            measured_from=None if partial or asked is False or not self._has_score else 2 if asked else MEASURED,
            partial=partial,
            earlier=before,
            resumed_noise=None if folder is None else folder.noise_multiplier,
        )

    def _call_schedule(self, public: Public, terms: Terms) -> RunSchedule:
        """Schedule a call of ``partial_fit``: one step over all rows, of as many as a whole fit has."""
        size = next(n for n in (public.call_records, self.batch_size, public.n_records) if n is not None)
        accounted = "replace_one" if self.sampling == "without_replacement" else "add_remove"
        sampler = make_sampler("full", self._options.relation or accounted, int(size), None)
        return RunSchedule(sampler, 1, self._planned_steps(), whole=False)

    def cost(
        self,
        n_features: int | None = None,
        *,
        unit: str = "record",
        n_bins: int | None = None,
        budget: BudgetLike = None,
    ) -> SelfComposedEvent | None:
        """Find the releases of a fit from public numbers; reserve nothing.

        ``n_features`` are the columns of the data to come, ``unit`` and ``n_bins`` as in `Public`. None if these
        numbers do not decide it: ``n_records`` is not given, or neither ``n_steps`` nor the columns. Raises as `fit`.
        """
        payer = None if budget is None else Budget.of(budget)
        # The relation does not depend on the number of records.
        n_records = int(self.n_records or math.ceil(self.batch_size or 1))
        request = self.request(Public(n_features or 0, n_records, seed=0, unit=unit, n_bins=n_bins))
        if self.n_records is None:
            request.complete_terms(payer)
            return None
        return request.cost(payer)

    def purchase(self) -> dict[str, object]:
        """Describe this fit for a later one whose statement includes it.

        The answer is JSON-ready, and has no "event" if this fit is tainted. A "fit" that chose no columns says so.
        """
        ledger = self._fitted().ledger
        plan, event = self._fitted().privacy, cast(Any, ledger.event())
        said: dict[str, object] = {"head": ledger.head, "unit": plan.unit, "relation": plan.relation}
        if ledger.private:
            said["event"] = event.to_dict()
        if family_of(self).name != "words":
            said["fit"] = True
        payers = {run.budget for run in plan.runs}
        return said | ({"budget": payers.pop()} if len(payers) == 1 and None not in payers else {})

    def purchase_text(self) -> str | None:
        """Write this fit for the later one that publishes it, or None."""
        return None

    def _taints(self) -> tuple[str, ...]:
        """List reasons, known from the settings, why the guarantee will not hold."""
        if not self.private:
            return ()
        known = ("unsafe test_key: noise and sampling are known",) if self._test_key is not None else ()
        why = "unsafe diagnostics: computed from the training records without noise"
        return known + ((why,) if self._diagnose else ())

    def _randomness(self, public: Public) -> Randomness:
        if self._test_key is not None:
            return KeyedRandomness(self._test_key)
        if self.private:
            return SystemRandomness()
        return KeyedRandomness(np.random.default_rng(public.seed).bytes(32))

    def _backend(self) -> Backend:
        return Threads(resolve_n_threads(self.n_jobs))

    # ------------------------------------------------------------ read-outs

    def _fitted(self) -> FitResult:
        """Return the result, or raise NotFittedError."""
        if self._result is None:
            try:
                from sklearn import exceptions
            except ImportError:
                kind: type[Exception] = NotFittedError
            else:
                kind = exceptions.NotFittedError
            raise kind(f"This {type(self).__name__} instance is not fitted yet: call fit first")
        return self._result

    def _as_fitted(self) -> Self:
        """Make an estimator with the fit's settings, not later ones; it is made once, and not to be changed."""
        result = self._fitted()
        if "as fitted" not in result.derived:
            result.derived["as fitted"] = self._from_settings(result.settings)
        return cast(Self, result.derived["as fitted"])

    def __sklearn_is_fitted__(self) -> bool:
        return self._result is not None

    @property
    def privacy_(self) -> Privacy:
        """The guarantee; ``privacy_.statement()`` says it in words."""
        return self._fitted().privacy

    @property
    def ledger_(self) -> Ledger:
        """Every release, and their sum."""
        return self._fitted().ledger

    @property
    def found_gain_(self) -> FoundGain | None:
        """The measured gain of the model, with its 90 % interval (`vips_fast.engine.gain`).

        The gain is the share of perplexity that the model saves over released frequencies, as it predicts a part of a
        unit from the rest. The last step of a fit measures it. None without noise, with few steps, after
        ``partial_fit``, for models without a score, or with ``measure_gain=False``.
        """
        return measured_gain(self._fitted().state)

    @property
    def verdict_(self) -> Verdict:
        """The worth of the model in words, from releases only."""
        return Verdict.of_columns(self.found_gain_, self._fitted().privacy.unit)

    @property
    def n_steps_(self) -> int:
        """Steps done."""
        return self._fitted().n_steps

    @property
    def n_iter_(self) -> int:
        """The same, by scikit-learn's name."""
        return self.n_steps_

    @property
    def n_features_in_(self) -> int:
        """Columns of the data."""
        return self._fitted().public.n_features

    @property
    def feature_names_in_(self) -> Names:
        """Names of the frame's columns; AttributeError without a frame."""
        if (names := self._fitted().public.feature_names) is None:
            raise AttributeError("feature_names_in_: the fit was not to a frame with named columns")
        return np.array(names, dtype=object)

    @property
    def inputs_(self) -> dict[str, str]:
        """Public texts that give the numbers their meaning, by file name."""
        return dict(self._fitted().public.inputs)

    def _held(self, X: Any) -> Any:
        """Check X's column names and order, if the fit had names."""
        return check_names(type(self).__name__, self._fitted().public.feature_names, X)

    @property
    def diagnostics_(self) -> list[dict[str, float]] | None:
        """Un-noised diagnostics of each step, with ``set_unsafe(diagnostics=True)``; else None."""
        diagnostics = self._fitted().diagnostics
        return None if diagnostics is None else [dict(step) for step in diagnostics]

    # --------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder, without pickle.

        The files are ``model.npz``, ``model.json``, ``privacy.json`` and the files of ``inputs_``. Only released
        quantities and the arguments of the constructor and of ``fit`` that are public are written. The folder appears
        whole or not at all. An existing model is exchanged for the new one, in one step if the system can.

        Raises NotFittedError before ``fit``, and ValueError if an argument of the constructor cannot be written as
        JSON. Raises FileExistsError if the path is a file, or a folder that holds anything but a saved model.

        >>> import tempfile
        >>> import numpy as np
        >>> from vips_fast import SigmoidBeliefNetwork
        >>> model = SigmoidBeliefNetwork(2, noise_multiplier=9.0, n_steps=2).fit(np.eye(50, 4, dtype=int))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model")
        ...     again = SigmoidBeliefNetwork.load(f"{folder}/model")
        >>> again.privacy_ == model.privacy_, np.array_equal(again.components_, model.components_)
        (True, True)
        """
        persistence.save(self._fitted(), path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote.

        The folder may be anybody's (`vips_fast.store.folder`). Raises FileNotFoundError if the folder or one of its
        files is missing. Raises ValueError if the files are of another model or format, do not agree with the ledger,
        or hold arrays of wrong shapes or values.
        """
        return persistence.load(cls, path)

    # ------------------------------------------------------------- scikit-learn

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy for scikit-learn's ``clone``."""
        params: dict[str, Any] = {name: copy.deepcopy(value) for name, value in self.get_params(deep=False).items()}
        other = type(self)(**params)
        # Requests of the user, and no results of fits.
        vars(other).update({name: vars(self)[name] for name in ("_output", "_requests") if name in vars(self)})
        return other

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Choose the keywords of ``fit`` that scikit-learn's metadata routing hands on, where it is enabled.

        True, or another name there, hands one on; False does not. None, as at first, refuses it: nobody's ``groups``
        are left out unseen. Returns the estimator; raises TypeError for an unknown keyword.
        """
        # Each subclass has a `fit` of its own signature, which the base cannot declare.
        known = inspect.signature(self.fit).parameters  # type: ignore[attr-defined]
        if unknown := requests.keys() - known.keys():
            raise TypeError(f"set_fit_request: {min(unknown)!r} is not a keyword of fit: expected one of {[*known]}")
        vars(self)["_requests"] = vars(self).get("_requests", {}) | requests
        return self

    def get_metadata_routing(self) -> object:
        """Return the requests in scikit-learn's form (needs scikit-learn)."""
        from sklearn.utils.metadata_routing import MetadataRequest

        routing, asked = MetadataRequest(owner=self), vars(self).get("_requests", {})
        # See `set_fit_request`.
        for name in [*inspect.signature(self.fit).parameters][1:]:  # type: ignore[attr-defined]
            if name != "y":
                routing.fit.add_request(param=name, alias=asked.get(name))
        return routing

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import Tags, TargetTags

        target_tags = TargetTags(required=False)
        return Tags(estimator_type=None, target_tags=target_tags, non_deterministic=bool(self.private))


spell(cast(FunctionType, prepare), None)
