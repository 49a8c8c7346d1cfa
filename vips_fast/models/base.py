"""What the estimators share: parameters, privacy set-up, the statement, files."""

from __future__ import annotations

import inspect
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from .. import inference
from ..accounting import SelfComposedEvent, calibrate_noise_multiplier
from ..ledger import Ledger, compose
from ..mechanisms import GaussianMechanism
from ..randomness import KeyedRandomness, SystemRandomness
from ..sampling import FullSampler, make_sampler
from ..threads import resolve_n_threads

FORMAT = 1
#: Names of constructor arguments that are arrays, in ``model.npz``.
_SETTING = "setting:"


class NotFittedError(ValueError, AttributeError):
    """A read-out was asked of an estimator before ``fit``."""


@dataclass(frozen=True)
class Privacy:
    """What a fit has spent and what that promises.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee; epsilon is inf where there is none.
    neighbors : str
        The neighbouring relation, "add_remove" or "replace_one".
    accountant : str
        Name of the accountant that gives epsilon.
    steps : int
        Releases made.
    noise_multiplier : float
        Noise standard deviation over the L2 sensitivity, of the last fit.
    sampling : str
        How minibatches were drawn.
    batch_size : float
        (Expected) size of a minibatch.
    n_records : int
        Public number of records.
    taints : tuple of str
        Reasons why the guarantee does not hold; empty if it does.
    """

    epsilon: float
    delta: float
    neighbors: str
    accountant: str
    steps: int
    noise_multiplier: float
    sampling: str
    batch_size: float
    n_records: int
    taints: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        """Whether the stated guarantee covers the model."""
        return not self.taints

    def statement(self) -> str:
        """The guarantee in one paragraph."""
        if self.taints:
            return "NOT PRIVATE: " + "; ".join(self.taints) + "."
        relation = {"add_remove": "adding or removing one record", "replace_one": "replacing one record"}[self.neighbors]
        how = {
            "poisson": f"minibatches of {self.batch_size:g} expected records (Poisson sampling)",
            "without_replacement": f"minibatches of {self.batch_size:g} records (without replacement)",
            "full": "the whole data set in each step",
        }[self.sampling]
        return (
            f"({_up(self.epsilon)}, {self.delta!r})-differential privacy with respect to {relation} of {self.n_records}: "
            f"{self.steps} releases, {how}, noise multiplier {self.noise_multiplier:.4g}, "
            f"accountant {self.accountant!r}. Number of records, vocabulary or columns, and all parameters are taken as public."
        )

    __str__ = statement


def check_number(name: str, value, low: float, high: float, *, integer=False, low_open=False, high_open=False):
    """The number itself, or a ValueError that names the argument, its value and its range."""
    kinds = (int, np.integer) if integer else (int, float, np.integer, np.floating)
    ok = isinstance(value, kinds) and not isinstance(value, (bool, np.bool_)) and not math.isnan(value)
    ok = ok and (low < value if low_open else low <= value) and (value < high if high_open else value <= high)
    if not ok:
        interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open or high == math.inf else ']'}"
        raise ValueError(f"{name}={value!r}: expected {'an integer' if integer else 'a number'} in {interval}")
    return int(value) if integer else float(value)


def check_choice(name: str, value, choices: tuple) -> None:
    """Raise a ValueError unless value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")


def public_generator(random_state) -> np.random.Generator:
    """Generator for what is public: initial parameters, test splits."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, 4, dtype=np.uint64))
    return np.random.default_rng(random_state)


class PrivateEstimator:
    """Base of the estimators; parameters as in scikit-learn, privacy as in this package.

    A subclass stores its constructor's arguments unchanged under their own names
    and has the parameters ``sampling, neighbors, batch_size, n_steps,
    target_epsilon, target_delta, noise_multiplier, private, sensitivity,
    learning_decay, learning_offset, update, n_jobs, random_state, n_records,
    callback``.
    """

    @classmethod
    def _parameter_names(cls) -> list[str]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return sorted(p.name for p in parameters if p.name != "self")

    def get_params(self, deep: bool = True) -> dict:
        """Constructor arguments by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params):
        """Set constructor arguments; returns the estimator.

        Raises
        ------
        ValueError
            If a name is not a parameter.
        """
        names = self._parameter_names()
        for name, value in params.items():
            if name not in names:
                raise ValueError(f"{name!r} is not a parameter of {type(self).__name__}: expected one of {names}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, defaults[name].default)
        ]
        text = f"{type(self).__name__}({', '.join(shown)})"
        ledger = getattr(self, "ledger_", None)
        return text if ledger is None or ledger.private else f"{text}  # NOT PRIVATE: {'; '.join(ledger.taints)}"

    def _check_fitted(self) -> None:
        if not hasattr(self, "ledger_"):
            try:
                from sklearn.exceptions import NotFittedError as error
            except ImportError:
                error = NotFittedError
            raise error(f"This {type(self).__name__} instance is not fitted yet: call fit first")

    # ------------------------------------------------------------- privacy

    def set_unsafe_test_key(self, key):
        """Draw sampling, per-record randomness and noise from a known key, for tests and audits.

        The fits that follow can be repeated bit for bit, and are NOT PRIVATE for good:
        model and ledger say so. The key is no parameter and is never stored in a file.

        Parameters
        ----------
        key : bytes of length 32, or None for the operating system's randomness

        Returns
        -------
        The estimator.

        Raises
        ------
        TypeError, ValueError
            If the key is not 32 bytes.
        """
        if key is not None:
            if not isinstance(key, (bytes, bytearray)):
                raise TypeError(f"unsafe_test_key: expected 32 bytes or None, got {type(key).__name__}")
            if len(key) != 32:
                raise ValueError(f"unsafe_test_key: expected 32 bytes or None, got {len(key)}")
        self._unsafe_test_key = None if key is None else bytes(key)
        return self

    def _check_privacy_parameters(self) -> None:
        """Raise a ValueError for any parameter out of its range, before data are touched."""
        for name in ("private", "unsafe_diagnostics"):
            if not isinstance(getattr(self, name, False), (bool, np.bool_)):
                raise ValueError(f"{name}={getattr(self, name)!r}: expected True or False")
        if self.n_steps is not None:
            check_number("n_steps", self.n_steps, 1, 2**31, integer=True)
        if self.learning_decay is not None:
            check_number("learning_decay", self.learning_decay, 0, 1)
        if self.learning_offset is not None:
            check_number("learning_offset", self.learning_offset, 0, 1e9)
        if self.target_epsilon is not None:
            check_number("target_epsilon", self.target_epsilon, 0, math.inf, low_open=True, high_open=True)
        if self.target_delta is not None:
            check_number("target_delta", self.target_delta, 0, 1, low_open=True, high_open=True)
        if self.noise_multiplier is not None:
            check_number("noise_multiplier", self.noise_multiplier, 0, math.inf, high_open=True)
        if self.batch_size is not None:
            check_number("batch_size", self.batch_size, 0, math.inf, low_open=True, high_open=True)
        if self.n_records is not None:
            check_number("n_records", self.n_records, 1, 2**53, integer=True)
        check_choice("update", self.update, ("average", "paper"))
        check_choice("sensitivity", self.sensitivity, ("proven", "paper"))
        check_choice("sampling", self.sampling, ("poisson", "without_replacement", "full"))
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback={self.callback!r}: expected a callable or None")
        resolve_n_threads(self.n_jobs)

    def _public_n_records(self, n_rows: int) -> int:
        """The public number of records: the parameter, or the number of rows."""
        return n_rows if self.n_records is None else int(self.n_records)

    def _delta(self, n_records: int) -> float:
        """target_delta, or min(1e-5, 1/(10 n_records))."""
        return float(self.target_delta) if self.target_delta is not None else min(1e-5, 0.1 / n_records)

    def _randomness(self):
        key = getattr(self, "_unsafe_test_key", None)
        if key is not None:
            return KeyedRandomness(key)
        if self.private:
            return SystemRandomness()
        return KeyedRandomness(public_generator(self.random_state).bytes(32))

    def _set_up(self, model, n_rows: int, n_steps: int, *, sampler=None, ledger: Ledger | None = None):
        """Sampler, mechanism and ledger of a run; everything that can fail fails here.

        Calibrates the noise multiplier where it is not given, and refuses a run
        whose releases would pass ``target_epsilon``.
        """
        if sampler is None:
            n_records = self._public_n_records(n_rows)
            sampler = make_sampler(self.sampling, self.neighbors, n_records, self.batch_size, n_rows)
        ledger = Ledger() if ledger is None else ledger
        delta = self._delta(self._public_n_records(n_rows))
        spent = ledger.event()

        def total(z):
            fresh = SelfComposedEvent(sampler.event(z), n_steps)
            return fresh if spent is None else compose(((spent, 1), (fresh, 1)))

        if not self.private:
            z = 0.0
            taints = ["fitted with private=False"]
        else:
            taints = []
            target = self.target_epsilon
            if self.noise_multiplier is None:
                z = calibrate_noise_multiplier(total, 1.0 if target is None else target, delta)
            else:
                z = float(self.noise_multiplier)
                if z == 0.0:
                    taints.append("noise_multiplier=0")
                elif target is not None:
                    from ..accounting import epsilon

                    would = epsilon(total(z), delta)
                    if would > target:
                        raise ValueError(
                            f"noise_multiplier={z:g} with {n_steps} steps gives epsilon = {would:.4g} at delta = {delta:g}: "
                            f"expected at most target_epsilon={target:g}; raise noise_multiplier or leave it None"
                        )
        sensitivity = model.sensitivity(sampler.neighbors)
        if self.sensitivity == "paper":
            paper = model.paper_sensitivity(sampler.neighbors)
            if paper < sensitivity and self.private:
                taints.append(f"sensitivity='paper' ({paper:.6g}) is below the proven {sensitivity:.6g}")
            sensitivity = paper
        if getattr(self, "_unsafe_test_key", None) is not None and self.private:
            taints.append("unsafe_test_key: noise and sampling are known")
        if getattr(self, "unsafe_diagnostics", False):
            if self.private:
                taints.append("unsafe_diagnostics: figures of the training records were opened")
            model.diagnostics = []
        mechanism = GaussianMechanism(z, sensitivity, model.clip_norm, n_rows)
        for reason in taints:
            ledger.taint(reason)
        return sampler, mechanism, ledger

    def _run(self, model, state, sampler, mechanism, ledger, n_steps: int, n_rows: int, schedule=None) -> None:
        """Run the loop and set ``ledger_`` and ``privacy_``; a schedule of None is that of the parameters."""
        delta = self._delta(self._public_n_records(n_rows))
        report: Callable | None = None
        if self.callback is not None:

            def report(step, seconds):
                self.callback(step, ledger.epsilon(delta) if ledger.private else math.inf, seconds)

        offset = self.learning_offset
        if schedule is None:
            schedule = inference.Schedule(
                (1024.0 if self.update == "paper" else 1.0) if offset is None else float(offset), float(self.learning_decay)
            )
        self.ledger_ = ledger
        self.diagnostics_ = getattr(model, "diagnostics", None)
        inference.run(
            model, sampler, mechanism, ledger, self._randomness(), state, n_steps=n_steps, schedule=schedule,
            update=self.update, n_threads=resolve_n_threads(self.n_jobs), callback=report,
        )
        self.privacy_ = Privacy(
            epsilon=ledger.epsilon(delta) if ledger.private else math.inf,
            delta=delta,
            neighbors=sampler.neighbors,
            accountant=ledger.accountant() or "none",
            steps=state.step,
            noise_multiplier=mechanism.noise_multiplier,
            sampling="full" if isinstance(sampler, FullSampler) else self.sampling,
            batch_size=sampler.expected_batch_size,
            n_records=self._public_n_records(n_rows),
            taints=ledger.taints,
        )

    # --------------------------------------------------------------- files

    def _arrays(self) -> dict[str, np.ndarray]:
        """Released arrays that describe the fitted model."""
        raise TypeError(f"{type(self).__name__} cannot be saved")

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the fitted attributes from `_arrays`."""
        raise TypeError(f"{type(self).__name__} cannot be loaded")

    def save(self, path) -> None:
        """Write the fitted model to a folder: ``model.npz`` and ``model.json``, no pickle.

        Only released quantities and the constructor's arguments, which are public, are
        written. The folder appears whole or not at
        all; an existing model in it is replaced.

        Parameters
        ----------
        path : str or path
            Folder to write; its parent must exist.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        FileExistsError
            If path is a file, or a folder that holds anything but a saved model.
        """
        self._check_fitted()
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise FileExistsError(f"{path}: expected a folder or a new name")
        if path.is_dir() and not {p.name for p in path.iterdir()} <= {"model.npz", "model.json"}:
            raise FileExistsError(f"{path}: the folder holds other files; expected an empty one or a saved model")
        params, arrays = {}, {}
        for name, value in self.get_params().items():
            if name in ("callback", "random_state") and not isinstance(value, (int, type(None))):
                value = None
            if isinstance(value, np.ndarray):
                arrays[_SETTING + name] = value
            else:
                params[name] = value.item() if isinstance(value, np.generic) else value
        meta = {
            "format": FORMAT,
            "model": type(self).__name__,
            "params": params,
            "privacy": asdict(self.privacy_),
            "ledger": self.ledger_.to_dict(),
            "n_features_in": int(self.n_features_in_),
        }
        meta["privacy"]["epsilon"] = _json_float(meta["privacy"]["epsilon"])
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=path.name + ".", suffix=".part", dir=path.parent))
        try:
            folder.chmod(0o755)
            with open(folder / "model.npz", "wb") as file:
                np.savez(file, **self._arrays(), **arrays)
                _sync(file)
            with open(folder / "model.json", "w", encoding="utf-8") as file:
                json.dump(meta, file, indent=1, sort_keys=True, allow_nan=False)
                _sync(file)
            if path.is_dir():
                shutil.rmtree(path)
            os.replace(folder, path)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @classmethod
    def load(cls, path):
        """Read a model that `save` wrote.

        Raises
        ------
        FileNotFoundError
            If the folder or one of its files is missing.
        ValueError
            If the files are of another model or format, or the ledger's chain is broken.
        """
        path = Path(path)
        with open(path / "model.json", encoding="utf-8") as file:
            try:
                meta = json.load(file)
            except ValueError:
                raise ValueError(f"{path / 'model.json'}: not a JSON file") from None
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise ValueError(f"{path}: expected a saved model of format {FORMAT}")
        if meta.get("model") != cls.__name__:
            raise ValueError(f"{path} holds a {meta.get('model')}: expected a {cls.__name__}")
        with np.load(path / "model.npz", allow_pickle=False) as file:
            arrays = dict(file)
        settings = {name[len(_SETTING) :]: arrays.pop(name) for name in list(arrays) if name.startswith(_SETTING)}
        estimator = cls(**meta["params"], **settings)
        privacy = dict(meta["privacy"], taints=tuple(meta["privacy"]["taints"]))
        if privacy["epsilon"] is None:
            privacy["epsilon"] = math.inf
        estimator.ledger_ = Ledger.from_dict(meta["ledger"])
        if estimator.ledger_.taints != privacy["taints"]:
            raise ValueError(f"{path}: the statement and the ledger do not agree")
        estimator.privacy_ = Privacy(**privacy)
        estimator.n_features_in_ = meta["n_features_in"]
        try:
            estimator._restore(arrays)
        except KeyError as missing:
            raise ValueError(f"{path / 'model.npz'}: has no array {missing}; expected one that this version wrote") from None
        return estimator


def _up(value: float) -> str:
    """Four significant digits, never below the value."""
    if not value > 0 or math.isinf(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    text = f"{math.ceil(value / unit - 1e-9) * unit:.4g}"
    return text if float(text) >= value else f"{value + unit:.4g}"


def _same(a, b) -> bool:
    try:
        return bool(a is b or a == b)
    except ValueError:
        return False


def _json_float(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _sync(file) -> None:
    file.flush()
    os.fsync(file.fileno())
