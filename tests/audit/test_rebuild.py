"""Layer G: one other process makes all models again from only their releases, without the data; leaks are caught."""

import faults
import numpy as np
import pytest
from ball_mean import Mean
from faults import declaring
from own_models import EXAMPLES, adapter_of
from seams import seams

from vips_fast import (
    BayesianLogisticRegression,
    ClassConditionalNetwork,
    CountRegression,
    LatentDirichletAllocation,
    SigmoidBeliefNetwork,
)
from vips_fast.audit import Bench, adapter_for, audit
from vips_fast.audit.bench import relation_of
from vips_fast.audit.rebuild import Fitted, rebuild_elsewhere
from vips_fast.jobs.publication import verify
from vips_fast.models import rebuild

HONEST = {
    "lda": LatentDirichletAllocation(3),
    "lda_replace": LatentDirichletAllocation(3, sampling="without_replacement", doc_length=37),
    "lda_paper": LatentDirichletAllocation.paper(3),
    "blr": BayesianLogisticRegression(),
    "blr_poisson": BayesianLogisticRegression(sampling="poisson", batch_size=9),
    "blr_classes": BayesianLogisticRegression(classes=[0, 1, 2]),
    "blr_paper": BayesianLogisticRegression.paper(),
    "counts": CountRegression(),
    "sbn": SigmoidBeliefNetwork(3),
    "sbn_replace": SigmoidBeliefNetwork(2, sampling="without_replacement"),
    "sbn_classes": ClassConditionalNetwork(2),
    **{kind.__name__: adapter_of(kind) for kind in [Mean, *EXAMPLES]},
}
LEAKS = {
    "half_of_components": (faults.HalfExact(3), {"rebuilt bit for bit"}),
    "start_from_the_base_rate": (faults.PrivateStart(), {"rebuilt bit for bit", "nothing else is held"}),
    "mean_of_y_in_coef": (faults.ShiftedCoef(), {"public attributes"}),
    "epsilon_rounded_down": (faults.RoundedDown(3), {"rebuilt bit for bit", "statement"}),
    "same_part_counted_once": (faults.OncePerPart(3), {"rebuilt bit for bit", "statement"}),
    "parts_nobody_claimed": (faults.AssumesParts(3), {"statement"}),
    "parts_unsaid": (faults.SilentParts(3), {"rebuilt bit for bit", "statement"}),
    "prior_of_private_counts": (faults.PrivatePrior(3), {"settings"}),
    "rows_by_an_attribute_of_the_class": (adapter_of(faults.HandsOn), {"rebuilt bit for bit"}),
    "data_in_pickles": (faults.KeepsData(3), {"nothing else is held"}),
}
SEAMS = {"half_of_components_by_seam": {"model": faults.HalfExactModel}}


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Names of the checks that fail, by name of the model."""
    subjects = {**{k: (v, {}) for k, v in HONEST.items()}, **{k: (v, {}) for k, (v, _) in LEAKS.items()}}
    subjects |= {k: (HONEST["lda"], faulty) for k, faulty in SEAMS.items()}
    fits = {}
    for name, (model, faulty) in subjects.items():
        adapter = adapter_for(model)
        adapter.settings["random_state"] = 0
        bench = Bench(adapter, relation_of(adapter))
        with seams(**faulty):
            fits[name] = Fitted(bench, tmp_path_factory.mktemp(name), np.random.default_rng(0))
    said = rebuild_elsewhere([fit.job for fit in fits.values()])
    checks = {name: fit.checks(answer) for (name, fit), answer in zip(fits.items(), said, strict=True)}
    return {name: {check.name: check.detail for check in own if not check.passed} for name, own in checks.items()}


@pytest.mark.parametrize("name", HONEST)
def test_everything_public_follows_from_the_releases(failed, name):
    assert failed[name] == {}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_caught(failed, name):
    assert set(failed[name]) == LEAKS[name][1], failed[name]
    assert failed["lda"] == failed["blr"] == {}


@pytest.fixture
def model(tmp_path):
    made = LatentDirichletAllocation(2, noise_multiplier=1.0, n_steps=2, random_state=0)
    made.fit(np.ones((30, 4), int), transcript=tmp_path / "releases").save(tmp_path / "m")
    return made


@pytest.mark.parametrize("group", ["arrays", "state"])
def test_every_array_is_compared_whether_or_not_an_attribute_shows_it(group, model, tmp_path):
    """One bit of an array is other than the releases make it."""
    assert verify(tmp_path / "m", tmp_path / "releases").ok
    for name, array in getattr(model._fitted(), group).items():
        held = array.copy()
        array.setflags(write=True)
        array.view(np.uint8).reshape(-1)[0] ^= 1
        found = rebuild.compare(model, tmp_path / "m", tmp_path / "releases")
        assert f"{group} {name}" in {check.name for check in found.checks if check.ok is False}
        array[...] = held


@pytest.mark.parametrize("run", ["", "run-0000/"])
@pytest.mark.parametrize("name", ["secret.txt", ".secret", "a/b/c", "release-000002.npz", "lost-0-run-0001/run.jsonl"])
def test_a_transcript_holds_nothing_but_its_runs(name, run, model, tmp_path):
    stray = tmp_path / "releases" / run / name
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_text("x")
    report = verify(tmp_path / "m", tmp_path / "releases")
    assert [check.name for check in report.checks if check.ok is False] == [run + name[: name.find("/") + 1 or None]]


def test_texts_beside_a_model_are_made_again_or_named(model, tmp_path):
    assert "not checked topics.txt: missing" in verify(tmp_path / "m", tmp_path / "releases").text()
    (tmp_path / "m" / "privacy.txt").write_text("(0.001, 1e-09)-differential privacy")
    assert "DIFFERS privacy.txt" in verify(tmp_path / "m", tmp_path / "releases").text()


def test_other_layers_look_at_sums_and_miss_what_goes_past_them():
    assert audit(adapter_of(faults.HandsOn), layers="ABD").passed


def test_a_leak_in_a_seam_is_caught(failed):
    assert "rebuilt bit for bit" in failed["half_of_components_by_seam"]


def test_a_class_that_no_other_process_can_import():
    report = audit(declaring(LatentDirichletAllocation, 2.0)(2), layers="G")
    assert not report.passed and "cannot be imported" in report.text()
    assert audit("lda", layers="G").passed
