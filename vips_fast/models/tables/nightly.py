"""Tables of topics over nights: running sums with correlated noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np

from ...accounting.running_sum import MOST_STEPS, noise_factors
from ...checks import check_flag, check_number
from ...data.groups import unit_labels
from ...data.types import Column, Data
from ...engine.model import Model, Release, array_of
from ...engine.nights import NightsFolder, most_units, open_nights
from ...engine.request import Request, RunForecast, RunSchedule, Terms
from ...engine.result import Public
from ...engine.sampling import NightsSampler, Sampler
from ...engine.transcript import TranscriptWriter
from ...engine.units import UnitRecords
from ...mechanisms import GaussianMechanism
from ..forecast import tell
from ..parameters import Night
from ..stage import Stage
from .course import Course, course_of
from .estimator import TopicTables
from .model import TableModel
from .readout import Contrast, Estimate, share_contrast


class NightlyTableModel(TableModel):
    """The sums of `TableModel`, released night by night as mixed sums.

    Notes
    -----
    *Sensitivity.* A night's sum is the sum of `TableModel`, with its proof: contributions have norms of at most C. The
    event has the effect of a unit on several nights (`vips_fast.accounting.running_sum`).
    """

    at_root = ("_values",)

    def __init__(self, sizes: Sequence[int], n_topics: int, n_nights: int):
        super().__init__(sizes, n_topics)
        self._n_nights, self._values, self._noise_sd, self._n_records = n_nights, np.zeros((0, *self.shape)), 0.0, 1.0

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice of a night's sum, coarser than the mixed sums'."""
        super().prepare(dataclasses.replace(mechanism, lattice_bits=0), sampler)
        self._n_records = float(sampler.n_records)
        if self._n_records * self.clip / self._spacing > most_units(self._n_nights):
            raise ValueError(
                f"n_records={sampler.n_records}: sums over {self._n_nights} nights do not fit 62 bits with so little "
                "noise; expected fewer records a night, or a smaller epsilon"
            )

    def update(self, release: Release) -> None:
        """Take a night's release."""
        self._values = np.concatenate([self._values, release.values[None] * self._n_records])
        self._noise_sd = release.noise_sd * self._n_records

    def result(self) -> dict[str, np.ndarray]:
        """Give sums over all nights with their noise, per unit.

        The noise is a standard deviation."""
        factors = noise_factors(np.ones((1, len(self._values))))
        sd = self._noise_sd * float(np.linalg.norm(factors))
        sums = np.tensordot(factors[0], self._values, axes=1)
        return {"sums": sums / self._n_records, "noise_sd": np.array([sd / self._n_records])}

    def state(self) -> dict[str, np.ndarray]:
        """Give all releases."""
        return {"night_values": self._values.copy(), "night_law": np.array([self._noise_sd])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        values, (noise_sd,) = array_of(state, "night_values"), array_of(state, "night_law", (1,)).tolist()
        if values.shape[1:] != self.shape or not 0 <= len(values) <= self._n_nights or noise_sd < 0:
            raise ValueError(
                f"state: 'night_values' has shape {values.shape}; expected at most {self._n_nights} nights"
            )
        self._values, self._noise_sd = values, noise_sd


@dataclass(kw_only=True, repr=False, eq=False)
class NightlyTables(TopicTables):
    """Running tables of topics: each night adds its documents, for one epsilon.

    Parameters
    ----------
    by : mapping
        As in `TopicTables`.
    nights : int
        Most nights to come, fixed before the first, up to 4,096. All of them together cost the ``epsilon``.
    participations : int
        Most nights of a person that count. The program enforces it if ``groups`` are given. Without them each record is
        a unit of its own, in one night.
    separation : int
        Fewest nights from one of a person's nights to the next that counts. With more than one participation, a larger
        separation takes less noise.
    **common
        `vips_fast.models.parameters.Parameters`.

    Notes
    -----
    The noise of a night partly cancels the noise of earlier nights. Compare the noise of the sum with independent noise
    each night, at the same epsilon. It is 2.55 times less over 30 nights, and 6.5 times less over 365.
    `vips_fast.accounting.running_sum` has the mechanism and the proof.

    Each night needs the exact sums of the nights before. They are in the folder ``state`` of `add_night`, which is
    **private**: a reader of it knows each night's sums without noise. `vips_fast.engine.nights` describes the folder,
    and how it survives crashes.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from vips_fast import NightlyTables
    >>> topics, wards = np.eye(2)[np.arange(6000) % 3 // 2], {"ward": np.repeat(["north", "south"], 3000)}
    >>> tables = NightlyTables({"ward": ["north", "south"]}, nights=30, epsilon=1.0, n_records=6000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for night in ("Monday", "Tuesday"):
    ...         tables = tables.add_night(night, topics, wards, state=folder + "/private")
    >>> tables.night_names, tables.privacy_.epsilon <= 1.0
    (('Monday', 'Tuesday'), True)
    >>> tables.table("ward").shares.round(1).tolist(), tables.of(["Tuesday"]).table("ward").shares.round(1).tolist()
    ([[0.7, 0.3], [0.7, 0.3]], [[0.7, 0.3], [0.7, 0.3]])
    >>> week = {"Monday": ["Monday"], "Tuesday": ["Tuesday"]}
    >>> tables.change(week).low.shape, tables.course(week).shares.shape
    ((2,), (2, 2))
    """

    nights: int = 30
    participations: int = 1
    separation: int = 1

    _chosen: tuple[str, ...] | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("nights", self.nights, 1, MOST_STEPS, integer=True)
        check_number("participations", self.participations, 1, MOST_STEPS, integer=True)
        check_number("separation", self.separation, 1, MOST_STEPS, integer=True)
        if self.sampling != "full" or self.relation not in (None, "add_remove"):
            raise ValueError(
                f"sampling={self.sampling!r}, relation={self.relation!r}: expected 'full' and 'add_remove' with nights"
            )
        if self.batch_size is not None or self.n_steps is not None:
            raise ValueError("batch_size, n_steps: expected None with nights, each of which is one release")

    def add_night(
        self,
        night: str,
        X: Data,
        y: Column | None = None,
        *,
        state: str | Path | NightsFolder,
        transcript: str | Path | None = None,
        **call: Unpack[Night],
    ) -> Self:
        """Release the running tables with a night's documents; returns the estimator.

        Parameters
        ----------
        night : str
            Name of the night, public. A name that is counted already is refused.
        X, y : array-like
            The documents of this night only, as in `TopicTables.fit`.
        state : path or NightsFolder
            The private folder of these nights, new for the first night.
        transcript : path or None
            As in `vips_fast.models.parameters.Rows`.
        **call
            `vips_fast.models.parameters.Night`.

        If a process was killed after the night was recorded, add it again: you get the same release, and no record is
        read. Raises ValueError if the night is counted already, or all declared nights are. It also does so if a
        parameter or the data are unusable, or ``state`` is not the newest folder of this model. Nothing has been spent
        then.
        """
        first, on_forecast = self._result is None, call.pop("on_forecast", None)
        with self._alone(), open_nights(state) as folder:
            writer = None if transcript is None else TranscriptWriter(transcript, first=first, resume=True)
            stage = self.prepare(X, y, folder=folder, night=night, **call)
            with stage.payment:
                if stage.forecast is not None and not folder.begun:
                    tell(stage.forecast, on_forecast, 3)
                self.run(stage, writer, folder)
        return self

    def prepare(self, X: Data, y: Column | None = None, *, folder: Any = None, night: Any = None, **call: Any) -> Stage:
        """Plan a night; draw and spend nothing. See `PrivateEstimator.prepare`."""
        if not isinstance(folder, NightsFolder) or night is None:
            raise ValueError(f"nights={self.nights}: expected add_night, once for each night, in place of fit")
        self._check_parameters()
        number, groups = folder.admit(night, self._result, self._settings()), call.get("groups")
        if groups is None and self.participations > 1:
            raise ValueError(f"participations={self.participations}: expected labels of persons in groups, or 1")
        labels = None if groups is None else unit_labels(groups, self.invalid)
        absent = folder.absent(labels, self.participations, self.separation)
        stage = super().prepare(X, y, partial=True, folder=folder, night=(number, night), **call)
        if absent is not None and not folder.begun:
            assert isinstance(stage.records, UnitRecords)
            stage.records.leave_out(absent)
        return stage

    def request(self, public: Public, **how: Any) -> Request:
        """See `PrivateEstimator.request`; every night is a call of its own."""
        return super().request(public, **{**how, "partial": True})

    def _call_schedule(self, public: Public, terms: Terms) -> RunSchedule:
        number, name = (0, "") if public.night is None else public.night
        most = self.participations, self.separation
        return RunSchedule(NightsSampler(public.n_records, self.nights, *most, number, name), 1, 1, whole=False)

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> NightlyTableModel:
        return NightlyTableModel(self._sizes, public.n_features, self.nights)

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        return None if public.night is not None and public.night[0] else super()._forecast(public, schedule, model)

    def _noise(self, public: Public, schedule: RunSchedule, model: Model) -> tuple[float, int]:
        factors = noise_factors(np.ones((1, self.nights)))
        sd = schedule.noise_multiplier * model.sensitivity(schedule.sampler.relation) * float(np.linalg.norm(factors))
        return sd, public.n_records * self.nights

    # ------------------------------------------------------------ read-outs

    @property
    def night_names(self) -> tuple[str, ...]:
        """Names of the nights so far, in order."""
        plans: Any = self._fitted().ledger.plans
        return tuple(plan["nights"]["night"] for plan in plans)

    def of(self, nights: Collection[str]) -> Self:
        """Make tables of some nights only, from the same releases.

        Returns a copy. A run of nights next to each other has less noise than nights far apart. Raises ValueError for
        other names.
        """
        other = dataclasses.replace(self)
        other._result, other._chosen = self._fitted(), tuple(nights)
        other._weights([other._chosen])
        return other

    def _weights(self, periods: Collection[Sequence[str]]) -> np.ndarray:
        """Make a row of 0 and 1 over the nights.

        There is one for each period.
        """
        names = self.night_names
        for period in periods:
            if unknown := [name for name in period if name not in names]:
                raise ValueError(f"nights: {unknown[0]!r} is none of the {len(names)} nights of these tables")
            if not len(period) or len(set(period)) < len(period):
                raise ValueError(f"nights={list(period)!r}: expected different nights, and at least one")
        return np.array([[name in period for name in names] for period in periods], np.float64)

    def _sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Estimate sums weighted by (m, n), and their covariance (m, m)."""
        state = self._fitted().state
        factors = noise_factors(weights)
        noise = float(state["night_law"][0]) * factors
        return np.tensordot(factors, state["night_values"], axes=1), noise @ noise.T

    def _estimate(self) -> Estimate:
        if self._chosen is None:
            return super()._estimate()
        (sums,), variance = self._sums(self._weights([self._chosen]))
        return Estimate(self._as_fitted()._sizes, sums, float(variance[0, 0]) ** 0.5)

    def _periods(
        self, periods: Mapping[str, Sequence[str]], where: Mapping[str, str | int] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Estimate the sums of topics in each period.

        They are (P, K), and their covariance is (P, P).
        """
        sums, noise = self._sums(self._weights(list(periods.values())))
        by, where = {name: list(values) for name, values in self._as_fitted().by.items()}, dict(where or {})
        if wrong := [name for name, value in where.items() if name not in by or value not in by[name]]:
            raise ValueError(f"where: {wrong[0]}={where[wrong[0]]!r}; expected columns and values of these tables")
        estimates = [Estimate(self._as_fitted()._sizes, one, 1.0) for one in sums]
        names = list(where)
        matrix = estimates[0].merged([list(by).index(name) for name in names])
        place = 0
        for name in names:
            place = place * len(by[name]) + by[name].index(where[name])
        row = matrix[place]
        return np.array([row @ one.cells for one in estimates]), noise * float(row @ estimates[0].inverse @ row)

    def course(
        self,
        periods: Mapping[str, Sequence[str]],
        *,
        where: Mapping[str, str | int] | None = None,
        level: float = 0.9,
        smooth: bool = True,
    ) -> Course:
        """Follow the shares over periods, such as the nights of each month.

        ``where`` selects a group, such as ``{"ward": "north"}``; None is all documents. With ``smooth`` the shares of a
        period borrow strength from the periods beside it, if the releases show that shares move little
        (`vips_fast.models.tables.course`). It costs nothing.
        """
        check_flag("smooth", smooth)
        level = check_number("level", level, 0, 1, low_open=True, high_open=True)
        return course_of(tuple(periods), *self._periods(periods, where), level, smooth)

    def change(
        self, periods: Mapping[str, Sequence[str]], *, where: Mapping[str, str | int] | None = None, level: float = 0.9
    ) -> Contrast:
        """Find each share's change a period, by least squares."""
        level = check_number("level", level, 0, 1, low_open=True, high_open=True)
        if len(periods) < 2:
            raise ValueError(f"periods: {len(periods)}; expected at least two")
        steps = np.arange(len(periods)) - (len(periods) - 1) / 2
        return Contrast(*share_contrast(*self._periods(periods, where), steps / (steps @ steps), level))
