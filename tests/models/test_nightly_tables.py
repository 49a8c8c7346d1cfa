"""Running tables: exact sums, persons, kills, copies, trends and bad input."""

import os
import shutil
import signal
import stat

import numpy as np
import pytest
from drill import Counting
from runs import KEY, bits

from vips_fast import NightlyTables, TopicTables, accounting, verify
from vips_fast.accounting.running_sum import noise_factors
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.engine.nights import NightsFolder
from vips_fast.engine.randomness import KeyedRandomness
from vips_fast.models import estimator, smoothing

WARDS = ["north", "south"]
BY = {"ward": WARDS}


def night_of(number, n=600, k=3):
    """Make a night's proportions, wards and persons, who come back later."""
    rng = np.random.default_rng(number)
    X = rng.dirichlet(np.full(k, 0.3), n)
    return X, {"ward": np.array(WARDS)[rng.integers(0, 2, n)]}, rng.integers(0, 400, n) + 300 * number


def tables_of(key=KEY, **settings):
    model = NightlyTables(BY, **{"nights": 10, "epsilon": 2.0, "delta": 1e-6, "n_records": 600, **settings})
    return model if key is None else model.set_unsafe(test_key=key)


def added(model, numbers, state, people=True, **call):
    for number in numbers:
        X, y, person = night_of(number)
        model.add_night(f"night {number}", X, y, state=state, groups=person if people else None, **call)
    return model


def truth(numbers, most=1, apart=1):
    """Add up weighted sums by ward in plain Python, counting persons' nights."""
    came, total = {}, np.zeros((2, 3))
    for number in numbers:
        X, y, person = night_of(number)
        for one in np.unique(person):
            before = came.setdefault(one, [])
            if len(before) >= most or (before and number - before[-1] < apart):
                continue
            before.append(number)
            rows = np.flatnonzero(person == one)
            wards = [rows[y["ward"][rows] == ward] for ward in WARDS]
            weight = 1 / np.sqrt(max(sum(len(rows) ** 2 for rows in wards), 1))
            total += [X[rows].sum(axis=0) * weight for rows in wards]
    return total


@pytest.mark.parametrize(("most", "apart"), [(1, 1), (2, 1), (3, 2)])
def test_without_noise_tables_are_the_weighted_sums(tmp_path, most, apart):
    settings = dict(participations=most, separation=apart, private=False, epsilon=None)
    model = added(tables_of(None, **settings), range(6), tmp_path / "state")
    found = model.table("ward")
    np.testing.assert_allclose(found.weights[:, None] * found.shares, truth(range(6), most, apart), rtol=1e-5)
    one = model.of(["night 2", "night 3"]).table("ward")
    expected = truth(range(4), most, apart) - truth(range(2), most, apart)
    np.testing.assert_allclose(one.weights[:, None] * one.shares, expected, rtol=1e-4)


def test_one_charge_for_all_nights_and_a_statement_of_what_was_declared(tmp_path):
    budget = Budget.create(tmp_path / "b", 1.0, 1e-6, dataset="d", unit="patient")
    model = tables_of(None, epsilon=1.0, delta=None, nights=3)
    for number in range(3):
        added(model, [number], tmp_path / "state", budget=budget, unit="patient", transcript=tmp_path / "t")
        assert model.privacy_.epsilon <= 1.0 and budget.spent == pytest.approx(1.0, rel=1e-3)
    said = model.privacy_.statement()
    assert "3 releases, running sums over up to 3 nights" in said and "each patient in at most 1 of them" in said
    assert said.startswith("(1, 1e-06)-differential privacy") and "one patient of 600 a night" in said
    assert model.privacy_.runs[-1].budget == budget.identity
    model.save(tmp_path / "out")
    assert verify(tmp_path / "out", tmp_path / "t").ok
    again = NightlyTables.load(tmp_path / "out")
    assert again.night_names == model.night_names and bits(again) == bits(model)
    with pytest.raises(ValueError, match="3 nights that were declared are counted"):
        added(model, [3], tmp_path / "state", budget=budget, unit="patient")
    with pytest.raises(BudgetExceededError):
        added(tables_of(None, epsilon=1.0, delta=None), [0], tmp_path / "other", budget=budget, unit="patient")
    assert budget.spent == pytest.approx(1.0, rel=1e-3)


def test_an_earlier_model_of_the_same_persons_is_counted_with_the_first_night(tmp_path):
    X, y, person = night_of(0)
    before = TopicTables(BY, epsilon=0.5, delta=1e-6).fit(X, y, groups=person)
    model = tables_of(None, epsilon=1.0).add_night(
        "night 0", X, y, groups=person, state=tmp_path / "s", transcript=tmp_path / "t", after=before
    )
    alone = added(tables_of(None, epsilon=1.0), [0], tmp_path / "alone")
    assert model.privacy_.epsilon <= 1.0 and model.privacy_.noise_multiplier > alone.privacy_.noise_multiplier
    added(model, [1], tmp_path / "s", transcript=tmp_path / "t").save(tmp_path / "out")
    assert model.privacy_.epsilon <= 1.0 and "earlier fit" in str(model.privacy_)
    assert verify(tmp_path / "out", tmp_path / "t").ok


@pytest.mark.parametrize("kind", [str, np.int32, float, "datetime64[s]"])
def test_a_persons_label_is_the_same_in_every_type(tmp_path, kind):
    X, y, _ = night_of(0, 4)
    model = tables_of(None, private=False, epsilon=None)
    model.add_night(
        "a",
        X,
        y,
        state=tmp_path / "s",
        groups=np.array([1, 2, 3, 4]).astype("datetime64[D]" if kind == "datetime64[s]" else int),
    )
    labels = np.array([2, 3, 4, 9]).astype("datetime64[D]") if kind == "datetime64[s]" else np.array([2, 3, 4, 9])
    model.add_night("b", X, y, state=tmp_path / "s", groups=labels.astype(kind))
    assert model.of(["b"]).table("ward").weights.sum() == pytest.approx(1.0, rel=1e-4)


def test_more_participations_take_more_noise_and_the_event_says_so(tmp_path):
    noises = []
    for number, (most, apart) in enumerate([(1, 1), (2, 5), (2, 1), (10, 1)]):
        model = tables_of(participations=most, separation=apart)
        added(model, [0], tmp_path / str(number))
        event = model.ledger_.event()
        assert event == accounting.RunningSumEvent(event.noise_multiplier, 10, most, apart)
        assert accounting.epsilon(event, 1e-6) == pytest.approx(2.0, rel=1e-3)
        noises.append(event.noise_multiplier)
    assert noises == sorted(noises) and noises[0] < 0.9 * noises[1]


# ------------------------------------------------------------------ kills and copies


def job(place, kill=0):
    """Add all nights in a child and save each model.

    Kill it at a file call.
    """
    child = os.fork()
    if child == 0:
        code = 99
        try:
            estimator.SystemRandomness = lambda: KeyedRandomness(KEY)
            calls = Counting(place, kill, signal.SIGKILL)
            out = place / "out"
            model = NightlyTables.load(out) if out.exists() else tables_of(None, nights=4)
            for number in range(4):
                if model._result is None or f"night {number}" not in model.night_names:
                    budget, transcript = place / "budget", place / "releases"
                    added(model, [number], place / "state", unit="p", budget=budget, transcript=transcript)
                    model.save(out)
            (place.parent / "calls").write_text(str(calls.count))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_kills_at_some_file_calls_lose_and_forget_nothing(tmp_path):
    """Kill within nights and between them.

    The job ends with the same bits.
    """

    def place(name):
        (tmp_path / name).mkdir()
        Budget.create(tmp_path / name / "budget", 9.0, 1e-6, dataset="d", unit="p")
        return tmp_path / name

    whole = place("whole")
    assert job(whole) == 0
    total, expected = int((tmp_path / "calls").read_text()), NightlyTables.load(whole / "out")
    assert total > 200
    for kill in np.linspace(1, total, 18).astype(int).tolist():
        folder = place(f"kill-{kill}")
        assert job(folder, kill) == -signal.SIGKILL
        assert job(folder) == 0, kill
        model, budget = NightlyTables.load(folder / "out"), Budget(folder / "budget")
        assert bits(model) == bits(expected) and model.night_names == expected.night_names
        # The first night's draw may be lost: it is then charged again, and never less than once.
        assert 2.0 <= budget.spent * (1 + 1e-4) and budget.spent < 3.2
        assert model.privacy_.epsilon <= 2.0 and verify(folder / "out", folder / "releases").ok
        shutil.rmtree(folder)


def test_a_night_that_was_recorded_is_released_once_and_reads_no_record(tmp_path):
    model = added(tables_of(None), [0], tmp_path / "state")
    model.save(tmp_path / "before")
    added(model, [1], tmp_path / "state")
    again = NightlyTables.load(tmp_path / "before")
    X, y, person = night_of(7)
    again.add_night("night 1", X, y, state=tmp_path / "state", groups=person)
    assert bits(again) == bits(model) and again.ledger_.records[:-1] == model.ledger_.records[:-1]


def test_folders_and_models_of_another_state_are_refused(tmp_path):
    state = tmp_path / "state"
    model = added(tables_of(None), [0], state)
    model.save(tmp_path / "one")
    shutil.copytree(state, tmp_path / "old")
    added(model, [1], state)
    with pytest.raises(ValueError, match="load the newest model, or add night='night 1' again"):
        added(NightlyTables.load(tmp_path / "one"), [2], state)
    with pytest.raises(ValueError, match="an older copy was put back"):
        added(model, [2], tmp_path / "old")
    with pytest.raises(ValueError, match="is counted already"):
        added(model, [1], state)
    with pytest.raises(ValueError, match="is counted already"):
        added(model, [0], state)
    with pytest.raises(ValueError, match="hold 0 nights, this model 2"):
        added(model, [2], tmp_path / "new")
    other = added(added(tables_of(None), [0], tmp_path / "other"), [1], tmp_path / "other")
    with pytest.raises(ValueError, match="of another model"):
        added(other, [2], state)
    with pytest.raises(ValueError, match="hold 2 nights, this model 0"):
        added(tables_of(None), [0], state)
    with pytest.raises(ValueError, match="have by=.*this night"):
        added(NightlyTables({"ward": WARDS[::-1]}, epsilon=2.0), [2], state)
    with pytest.raises(BlockingIOError), NightsFolder(state):
        added(model, [2], state)
    assert model.n_steps_ == 2
    added(model, [2], state)


def test_any_changed_byte_of_the_private_folder_is_refused_and_only_its_owner_reads_it(tmp_path):
    model = added(tables_of(None), [0], tmp_path / "state")
    path = tmp_path / "state" / "nights.npz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(data), 40):
        broken = bytearray(data)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(broken))
        try:
            NightsFolder(tmp_path / "state").close()
        except ValueError:
            continue
        # A zip archive has bytes that nobody reads, such as dates.
        with NightsFolder(tmp_path / "state") as folder:
            assert folder.names == ["night 0"]
    path.write_bytes(data)
    assert added(model, [1], tmp_path / "state").n_steps_ == 2


def test_what_is_published_says_nothing_of_the_private_folder(tmp_path):
    model = added(tables_of(None), [0, 1], tmp_path / "state", transcript=tmp_path / "t")
    model.save(tmp_path / "out")
    folder = NightsFolder(tmp_path / "state")
    secret = [
        folder._arrays["key"].tobytes(),
        folder._arrays["sums"][0, 0].tobytes(),
        folder._arrays["persons"][0].tobytes(),
    ]
    folder.close()
    for path in [*(tmp_path / "out").rglob("*"), *(tmp_path / "t").rglob("*")]:
        if path.is_file():
            arrays = np.load(path) if path.suffix == ".npz" else {}
            whole = path.read_bytes() + b"".join(arrays[name].tobytes() for name in arrays)
            assert not any(one in whole for one in secret)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(nights=0), "nights=0"),
        (dict(nights=5000), "nights=5000"),
        (dict(participations=0), "participations=0"),
        (dict(separation=1.5), "separation=1.5"),
        (dict(relation="replace_one"), "add_remove"),
        (dict(sampling="poisson"), "'full'"),
        (dict(n_steps=2), "n_steps"),
    ],
)
def test_bad_settings_are_refused(tmp_path, settings, said):
    with pytest.raises(ValueError, match=said):
        added(tables_of(None, **settings), [0], tmp_path / "state")
    assert not (tmp_path / "state" / "nights.npz").exists()


def test_other_bad_input_is_refused_before_anything_is_spent(tmp_path):
    X, y, person = night_of(0)
    budget = Budget.create(tmp_path / "b", 9.0, 1e-6, dataset="d", unit="person")
    with pytest.raises(ValueError, match="expected add_night"):
        tables_of(None).fit(X, y)
    with pytest.raises(ValueError, match="expected labels of persons"):
        tables_of(None, participations=2).add_night("a", X, y, state=tmp_path / "s")
    with pytest.raises(ValueError, match="a name"):
        tables_of(None).add_night("", X, y, state=tmp_path / "s")
    with pytest.raises(ValueError, match="not fit 62 bits"):
        tables_of(None, epsilon=None, noise_multiplier=1e-4, n_records=10**9).add_night("a", X, y, state=tmp_path / "s")
    model = added(tables_of(None), [0], tmp_path / "state", budget=budget)
    with pytest.raises(ValueError, match="about a 'record', the earlier ones"):
        added(model, [1], tmp_path / "state", people=False)
    with pytest.raises(ValueError, match="have epsilon=2.0, this night 3.0"):
        added(model.set_params(epsilon=3.0), [1], tmp_path / "state", budget=budget)
    with pytest.raises(ValueError, match="is none of the 1 nights"):
        model.of(["night 9"])
    with pytest.raises(ValueError, match="where: ward='east'"):
        model.course({"a": ["night 0"]}, where={"ward": "east"})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.csv").write_text("")
    with pytest.raises(FileExistsError, match="notes.csv"):
        added(tables_of(None), [0], tmp_path / "full")
    assert budget.spent == pytest.approx(2.0, rel=1e-3)


# ------------------------------------------------------------------ read-outs


def test_the_course_of_planted_trends_is_found_with_its_interval_and_none_is_invented():
    """Simulate 200 runs of 12 months with fixed seeds.

    Topics grow, fall or stay.
    """
    n, months, size, runs = 360, 12, 40.0, 200
    shares = np.column_stack([np.linspace(0.2, 0.3, months), np.linspace(0.3, 0.24, months), np.full(months, 0.25)])
    shares = np.column_stack([shares, 1 - shares.sum(axis=1)])
    exact = np.repeat(shares, n // months, axis=0) * size
    names = [f"{t}" for t in range(n)]
    periods = {f"{m}": names[30 * m : 30 * (m + 1)] for m in range(months)}
    slope = np.polynomial.polynomial.polyfit(np.arange(months), shares, 1)[1]
    model, sd = NightlyTables({"all": ["a"]}, nights=n), 8.0
    weights = np.kron(np.eye(months), np.ones(n // months))
    factors, rng, inside, found, covered = noise_factors(weights), np.random.default_rng(0), [], [], []
    errors = {True: [], False: []}
    for _ in range(runs):
        noise = factors @ rng.normal(size=(n, 4)) * sd
        sums, covariance = weights @ exact + noise, sd**2 * factors @ factors.T
        vars(model)["_periods"] = lambda *_, sums=sums, covariance=covariance: (sums, covariance)
        change = model.change(periods)
        inside.append((change.low <= slope) & (slope <= change.high))
        found.append((change.low > 0).astype(int) - (change.high < 0))
        for smooth, seen in errors.items():
            course = model.course(periods, smooth=smooth)
            seen.append(((course.shares - shares) ** 2).mean())
            covered.append((course.low <= shares) & (shares <= course.high))
    assert 0.86 <= np.mean(inside) <= 0.94 and 0.86 <= np.mean(covered) <= 0.94
    found = np.array(found)
    assert (found[:, 0] == 1).mean() > 0.99 and (found[:, 1] == -1).mean() > 0.9
    # A trend that is not there is called in at most a tenth of the runs, up to chance.
    assert (found[:, 2] != 0).mean() < 0.17
    assert np.mean(errors[True]) < 0.6 * np.mean(errors[False])


def test_smoothing_is_the_kalman_smoother_for_independent_noise(monkeypatch):
    """Compare the means with a filter and smoother in a loop.

    For one q.
    """
    rng = np.random.default_rng(1)
    values, sd = np.cumsum(rng.normal(size=9)) + rng.normal(size=9), 1.3
    for name, value in (("_LEAST", 0.5), ("_MOST", 0.5), ("_TRIED", 1)):
        monkeypatch.setattr(smoothing, name, value)
    (mean,) = smoothing.smoothed(values[None], np.eye(9)[None] * sd**2)
    q = 0.5 * sd**2
    level, variance = [values[0]], [sd**2]  # a flat start
    for value in values[1:]:
        ahead = variance[-1] + q
        gain = ahead / (ahead + sd**2)
        level.append(level[-1] + gain * (value - level[-1]))
        variance.append(ahead * (1 - gain))
    means = level[:]
    for t in range(7, -1, -1):
        back = variance[t] / (variance[t] + q)
        means[t] = level[t] + back * (means[t + 1] - level[t])
    np.testing.assert_allclose(mean, means, rtol=1e-9)


def test_tables_of_nights_have_their_own_noise(tmp_path):
    """Compare some nights' table with `TopicTables`: the same up to noise."""
    model = added(tables_of(epsilon=50.0), range(4), tmp_path / "state", people=False)
    X, wards = (
        np.concatenate(parts) for parts in zip(*((night_of(i)[0], night_of(i)[1]["ward"]) for i in (1, 2)), strict=True)
    )
    whole = TopicTables(BY, epsilon=50.0, delta=1e-6).set_unsafe(test_key=KEY).fit(X, {"ward": wards})
    few = model.of(["night 1", "night 2"])
    np.testing.assert_allclose(few.table("ward").shares, whole.table("ward").shares, atol=0.01)
    assert [row[:2] for row in few.rows()] == [row[:2] for row in whole.rows()]
    assert few.table("ward").high[0, 0] - few.table("ward").low[0, 0] > 0
    assert "a night" in str(model.privacy_) or not model.privacy_.private
