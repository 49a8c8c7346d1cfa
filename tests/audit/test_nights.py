"""Audit running sums by distances, noise, attacks and a rebuild; with mutants."""

import numpy as np
import pytest
from runs import edit_transcript

from vips_fast import NightlyTables, verify
from vips_fast.accounting import running_sum
from vips_fast.audit import audit
from vips_fast.engine.nights import NightsFolder
from vips_fast.engine.randomness import KeyedRandomness
from vips_fast.models import estimator

pytestmark = pytest.mark.filterwarnings(
    "ignore::vips_fast.models.forecast.HopelessWarning", "ignore:X's columns have a range"
)
DECLARED = [(1, 1), (2, 3), (3, 1)]


def failed(layers, most=1, apart=1):
    """Name the layers that find a violation."""
    settings = {"participations": most, "separation": apart}
    report = audit("nights", settings, layers=layers, random_state=0)
    print(report.text())
    return {result.layer for result in report.layers if not result.passed}


@pytest.mark.parametrize(("most", "apart"), DECLARED)
def test_no_layer_finds_a_violation(most, apart):
    assert failed("ACDE", most, apart) == set()


def test_everything_public_follows_from_the_releases():
    assert failed("G", 2, 3) == set()


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
    ("mutant", "layers"),
    [
        (nobody_is_absent, {"A", "E"}),
        (a_sensitivity_without_the_columns_norm, {"A"}),
        (nights_that_forget_who_came, {"A", "E"}),
    ],
)
def test_a_wrong_sensitivity_is_seen(monkeypatch, mutant, layers):
    mutant(monkeypatch)
    assert failed("ADE") >= layers


def test_an_attack_sees_a_sensitivity_without_the_columns_norm(monkeypatch):
    """Use little noise, so that the difference is clear.

    Mu of 5.2 is seven standard errors above what would pass for 4.
    """
    a_sensitivity_without_the_columns_norm(monkeypatch)
    monkeypatch.setattr("vips_fast.audit.nights._MULTIPLIER", 0.25)
    assert failed("D") == {"D"}


def test_a_key_that_is_used_for_two_nights_is_seen(monkeypatch):
    class Repeats(KeyedRandomness):
        def noise_key(self, step):
            return super().noise_key(step // 2)

    monkeypatch.setattr(estimator, "SystemRandomness", lambda: Repeats(b"k" * 32))
    assert failed("C") == {"C"}


def run(folder):
    """Make and save three nights with their transcript."""
    model = NightlyTables({"cell": [0, 1]}, nights=3, noise_multiplier=2.0, n_records=100)
    for number in range(3):
        X, labels = np.full((20, 2), 0.5), [f"p{number}-{i}" for i in range(20)]
        y = {"cell": np.arange(20) % 2}
        model.add_night(f"n{number}", X, y, state=folder / "s", groups=labels, transcript=folder / "t")
    model.save(folder / "out")


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
    run(tmp_path)
    assert verify(tmp_path / "out", tmp_path / "t").ok
    edit_transcript(tmp_path / "t" / "run-0001", edit)
    try:
        assert not verify(tmp_path / "out", tmp_path / "t").ok
    except ValueError:
        pass
