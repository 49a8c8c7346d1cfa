"""A fitted estimator: its result, the readouts, its files."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..data.frames import check_names
from ..data.types import Names
from ..engine.gain import FoundGain
from ..engine.ledger import Ledger
from ..engine.measured import measured_gain
from ..engine.model import Model
from ..engine.request import RunSchedule
from ..engine.result import FitResult, Public
from ..engine.statement import Privacy
from ..store.words import a
from . import persistence
from .conventions import Conventions
from .settings import same
from .verdict import Verdict

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


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


class Fitted(Conventions):
    """Settings and result of an estimator, and all readouts."""

    _result: FitResult | None = None

    def _check_parameters(self) -> None:
        """Raise a ValueError for a parameter out of its range."""
        raise NotImplementedError(f"{type(self).__name__} does not define _check_parameters")

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        """Make the model for settings and public facts, at its start.

        Without a schedule, only to `Model.restore` a state or to ask for shapes.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define _model")

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        """Name and `ArraySpec` of each array that `Model.result` gives."""
        raise NotImplementedError(f"{type(self).__name__} does not define _array_specs")

    # ------------------------------------------------------------- settings

    def _settings(self) -> dict[str, Any]:
        """List the arguments as numbers, texts, dicts and arrays, without callback."""
        out: dict[str, Any] = {}
        for name, value in self.get_params().items():
            if name == "callback" or (name == "random_state" and not isinstance(value, (int, np.integer))):
                value = None
            elif is_dataclass(value) and not isinstance(value, type):
                value = {one.name: getattr(value, one.name) for one in fields(value)}
            elif isinstance(value, np.generic):
                value = value.item()
            elif isinstance(value, np.ndarray):
                value = np.array(value)
            out[name] = value
        return out

    @classmethod
    def _from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make an unfitted estimator with these settings, checked."""
        arguments = dict(settings)
        if cls._options_type is not None and isinstance(arguments.get("options"), dict):
            arguments["options"] = cls._options_type(**arguments["options"])
        estimator = cls(**arguments)
        estimator._check_parameters()
        return estimator

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{name}={value!r}" for name, value in self.get_params().items() if not same(value, defaults[name].default)
        ]
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
        """Make an estimator with the fit's settings, not later ones."""
        return self._from_settings(self._fitted().settings)

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
        unit = self._fitted().privacy.unit
        return Verdict.of(
            self.found_gain_, f"half of {a(unit)}'s columns predict the other half", over="their shares do"
        )

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
    def load(cls, path: str | Path, *, verify: Ed25519PublicKey | bytes | None = None) -> Self:
        """Read a model that `save` wrote.

        ``verify`` is an Ed25519 public key (of the ``cryptography`` package, or its 32 bytes). The model's signature
        must be valid under it; None does not look at a signature.

        The folder may be anybody's (`vips_fast.store.folder`). The signature is checked before anything else is
        interpreted. Raises FileNotFoundError if the folder or one of its files is missing. Raises ValueError if the
        signature is not valid. It also does so if the files are of another model or format, do not agree with the
        ledger, or hold arrays of wrong shapes or values.
        """
        return persistence.load(cls, path, verify)

    def sign(self, key: Ed25519PrivateKey | bytes) -> bytes:
        """Sign the fitted model; `save` then writes the signature beside it.

        ``key`` is an Ed25519 private key of the ``cryptography`` package (extra ``sign``), or its 32 bytes. Returns the
        detached signature of ``ledger_.head``, which stands for arrays, settings, inputs and ledger.
        """
        self._result, signature = persistence.sign(self._fitted(), key)
        return signature
