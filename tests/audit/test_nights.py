"""Audit running sums by distances, noise, an attack and a rebuild; with mutants."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from runs import edit_transcript

from vips_fast import NightlyTables, accounting, verify
from vips_fast.accounting import running_sum
from vips_fast.engine.nights import NightsFolder
from vips_fast.engine.randomness import KeyedRandomness
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models import estimator

CELLS = list(range(40))
pytestmark = pytest.mark.filterwarnings("ignore::vips_fast.models.forecast.HopelessWarning")


def watched(patch):
    """Note each mixed sum before its noise, the noise, and its sd in units."""
    seen, add_noise = [], GaussianMechanism.add_noise

    def noted(self, sums, *rest):
        before = sums.copy()
        add_noise(self, sums, *rest)
        seen.append((before, sums - before, self.noise_sd / self.spacing))

    patch.setattr(GaussianMechanism, "add_noise", noted)
    return seen


def run(state, nights, persons, cells=CELLS, n_topics=2, noise_multiplier=2.0, transcript=None, **settings):
    """Add nights; ``persons`` maps labels to nights and the cell of their documents."""
    declared = dict(nights=len(nights), noise_multiplier=noise_multiplier, n_records=100)
    model = NightlyTables({"cell": cells}, **declared, **settings)
    for number, name in enumerate(nights):
        here = [(label, cell) for label, (days, cell) in persons.items() if number in days]
        X = np.eye(n_topics)[[hash_of(label) % n_topics for label, _ in here]].reshape(-1, n_topics)
        rows = {"cell": np.array([cell for _, cell in here], int)}
        model.add_night(name, X, rows, state=state, groups=[label for label, _ in here], transcript=transcript)
    return model


def hash_of(label):
    return sum(map(ord, label))


NIGHTS = [f"n{t}" for t in range(7)]
OTHERS = {f"other {i}": (set(np.random.default_rng(i).choice(7, 3, replace=False).tolist()), i % 40) for i in range(40)}


def distances(tmp_path, patch, most, apart):
    """Find how far a person moves the mixed sums, over the event's claim."""
    seen, found = watched(patch), []
    run(tmp_path / "without", NIGHTS, OTHERS, participations=most, separation=apart)
    without = np.array([before for before, _, _ in seen])
    for days in ({0}, {3}, {0, 3, 6}, set(range(7))):
        seen.clear()
        mine = {"me": (days, 0)} | OTHERS
        model = run(tmp_path / "".join(map(str, days)), NIGHTS, mine, participations=most, separation=apart)
        moved = np.array([before for before, _, _ in seen]) - without
        claimed = seen[0][2] / model.ledger_.event().equivalent().noise_multiplier
        found.append(np.linalg.norm(moved.astype(float)) / claimed)
        # Nobody else's contributions change.
        assert np.count_nonzero(moved.any(axis=(0, 2))) == 1
    return max(found)


@pytest.mark.parametrize(("most", "apart"), [(1, 1), (2, 3), (3, 1)])
def test_no_person_moves_the_sums_further_than_the_event_claims(tmp_path, monkeypatch, most, apart):
    assert 0.999 < distances(tmp_path, monkeypatch, most, apart) <= 1.0 + 1e-9


def nobody_is_absent(patch):
    patch.setattr(NightsFolder, "absent", lambda self, labels, *most: None)


def a_sensitivity_without_the_columns_norm(patch):
    patch.setattr(running_sum, "participation_norm", lambda *declared: 1.0)
    patch.setattr("vips_fast.accounting.events.participation_norm", lambda *declared: 1.0)


def nights_that_forget_who_came(patch):
    record = NightsFolder.record

    def forgetful(self, release):
        self._visitors = self._visitors[:0]
        record(self, release)

    patch.setattr(NightsFolder, "record", forgetful)


@pytest.mark.parametrize(
    "mutant", [nobody_is_absent, a_sensitivity_without_the_columns_norm, nights_that_forget_who_came]
)
def test_a_wrong_sensitivity_is_seen(tmp_path, monkeypatch, mutant):
    mutant(monkeypatch)
    assert distances(tmp_path, monkeypatch, 1, 1) > 1.1


def noise_of(tmp_path, patch):
    """Draw the noise of 7 nights over its standard deviation, 4,000 entries each."""
    seen = watched(patch)
    run(tmp_path / "s", NIGHTS, {"me": ({0}, 0)}, list(range(100)), 40)
    return np.array([noise.reshape(-1) / sd for _, noise, sd in seen])


def independent(noise):
    """Check the law of each night's noise, and that no two are alike.

    A right program fails with a chance below 1e-6.
    """
    limit = 6.0 / noise.shape[1] ** 0.5
    pairs = [abs(float(np.mean(a * b))) for a, b in itertools.combinations(noise, 2)]
    return bool((abs(noise.var(axis=1) - 1) < limit * 2**0.5).all() and max(pairs) < limit)


def test_each_night_has_noise_of_its_own(tmp_path, monkeypatch):
    assert independent(noise_of(tmp_path, monkeypatch))


def test_a_key_that_is_used_for_two_nights_is_seen(tmp_path, monkeypatch):
    class Repeats(KeyedRandomness):
        def noise_key(self, step):
            return super().noise_key(step // 2)

    monkeypatch.setattr(estimator, "SystemRandomness", lambda: Repeats(b"k" * 32))
    assert not independent(noise_of(tmp_path, monkeypatch))


N_CANARIES = 1600


def label_of(topic, number):
    """Make a label whose characters add up to the topic, modulo 40."""
    start = f"canary {number} "
    return start + chr(80 + (topic - hash_of(start)) % 40)


def attacked(tmp_path, noise_multiplier):
    """Measure mu of the best test for a person of the first night."""
    there = np.random.default_rng(0).random(N_CANARIES) < 0.5
    persons = {label_of(c % 40, c): ({0}, c // 40) for c in range(N_CANARIES) if there[c]}
    model = run(tmp_path / "s", NIGHTS, persons, CELLS, 40, noise_multiplier)
    values = model._fitted().state["night_values"].reshape(len(NIGHTS), -1)
    scores = running_sum.coefficients(len(NIGHTS)) / 2**running_sum.BITS @ values
    spread = np.sqrt((scores[there].var() + scores[~there].var()) / 2)
    claimed = 1.0 / model.ledger_.event().equivalent().noise_multiplier
    return (scores[there].mean() - scores[~there].mean()) / spread, claimed


def test_the_best_attack_reaches_what_is_claimed_and_no_more(tmp_path):
    found, claimed = attacked(tmp_path, 2.0)
    assert abs(found - claimed) < 5.5 * 2.1 / N_CANARIES**0.5


def test_an_attack_sees_a_sensitivity_without_the_columns_norm(tmp_path, monkeypatch):
    """Use little noise, so that the difference is clear."""
    a_sensitivity_without_the_columns_norm(monkeypatch)
    found, claimed = attacked(tmp_path, 0.5)
    assert found - claimed > 5.5 * (2 + found / 2) / N_CANARIES**0.5


def test_everything_public_follows_from_the_releases(tmp_path):
    """Make the model from the transcript in another process (layer G)."""
    model = run(tmp_path / "s", NIGHTS[:3], OTHERS, transcript=tmp_path / "t")
    model.save(tmp_path / "out")
    command = [sys.executable, "-m", "vips_fast", "verify", tmp_path / "out", "--transcript", tmp_path / "t"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert model.ledger_.event() == accounting.RunningSumEvent(2.0, 3)


def another_number(run, records):
    run["public"]["night"][0] = 0


def more_participations(run, records):
    for plan in (run["plan"], *(record["plan"] for record in records if record["kind"] == "plan")):
        plan["nights"]["participations"] = 2


def an_event_less(run, records):
    for record in records:
        if record["kind"] == "release":
            record["event"]["count"] = 1


@pytest.mark.parametrize("edit", [another_number, more_participations, an_event_less])
def test_nights_that_say_something_else_do_not_verify(tmp_path, edit):
    model = run(tmp_path / "s", NIGHTS[:3], OTHERS, transcript=tmp_path / "t")
    model.save(tmp_path / "out")
    edit_transcript(tmp_path / "t" / "run-0001", edit)
    try:
        assert not verify(tmp_path / "out", tmp_path / "t").ok
    except ValueError:
        pass
