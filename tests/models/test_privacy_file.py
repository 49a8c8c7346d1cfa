"""``privacy.json`` and its schema: the guarantee of every saved model, for programs."""

import copy
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation
from vips_fast import accounting as acc
from vips_fast.engine.budget import Budget
from vips_fast.jobs.publication import verify
from vips_fast.models import privacy_file
from vips_fast.store.folder import Folder

SCHEMA = json.loads(Path(privacy_file.__file__).with_name("privacy.schema.json").read_text("utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA)
X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
COUNTS = np.random.default_rng(1).integers(0, 4, size=(40, 6))


def logistic(**settings):
    return BayesianLogisticRegression(n_steps=3, random_state=0, classes=[0, 1], **settings)


def saved(model, folder):
    model.save(folder)
    return json.loads((folder / "privacy.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "make",
    [
        lambda _: logistic(epsilon=2.0).fit(X, Y),
        lambda _: logistic(noise_multiplier=3.0, sampling="full", delta=1e-6).fit(X, Y),
        lambda _: logistic(epsilon=2.0, sampling="without_replacement", batch_size=10).fit(X, Y),
        lambda _: logistic(epsilon=2.0, sampling="random_allocation", batch_size=20).fit(X, Y),
        lambda _: logistic(epsilon=2.0).fit(X, Y, groups=np.arange(60) // 3, unit="ward"),
        lambda _: logistic(private=False).fit(X, Y),
        lambda _: logistic(epsilon=2.0).set_unsafe(test_key=bytes(32)).fit(X, Y),
        lambda _: (
            logistic(noise_multiplier=5.0, n_records=60)
            .partial_fit(X[:30], Y[:30], part="a", n_records=30)
            .partial_fit(X[30:], Y[30:], part="b", n_records=30)
        ),
        lambda _: logistic(noise_multiplier=5.0).partial_fit(X, Y).partial_fit(X, Y),
        lambda path: logistic().fit(X, Y, budget=Budget.create(path / "b", 3.0, 1e-5, dataset="d")),
        lambda _: LatentDirichletAllocation(2, epsilon=2.0, n_steps=3, random_state=0).fit(COUNTS),
    ],
    ids=["poisson", "full", "replace", "dealt", "ward", "open", "test_key", "parts", "odometer", "budget", "lda"],
)
def test_every_model_has_one_that_the_schema_and_the_ledger_hold(make, tmp_path):
    model = make(tmp_path)
    said = saved(model, tmp_path / "m")
    VALID.validate(said)
    privacy, loss = model.privacy_, said["privacy_loss"]
    assert said["statement"] == privacy.statement() and said["taints"] == list(privacy.taints)
    assert said["private"] == privacy.private == (loss["epsilon"] is not None)
    if privacy.private:
        assert loss["epsilon"] == privacy.epsilon and loss["delta"] == privacy.delta
        # Only the events lead to the same epsilon, in another's hands.
        events = [(acc.event_from_dict(one["event"]), one["share"]) for one in said["accounting"]["events"]]
        assert max(acc.epsilon(event, share * loss["delta"]) for event, share in events) == loss["epsilon"]
        assert {one["part"] for one in said["accounting"]["events"]} == (set(privacy.parts) or {None})
    if loss["mu"] is not None:
        assert loss["rho"] == pytest.approx(loss["mu"] ** 2 / 2)
        assert acc.gaussian_epsilon(loss["mu"], loss["delta"]) == pytest.approx(loss["epsilon"])
    assert {one["array"]: tuple(one["shape"]) for one in said["released"]} == {
        name: array.shape for name, array in model._fitted().arrays.items()
    }
    risk = said["risk"]
    # The level of an odometer was not fixed ahead.
    stated = privacy.private and privacy.calls != "odometer"
    assert [one["baseline"] for one in risk["inference"]] == ([0.5, 0.1, 0.01] if stated else [])
    assert all(one["baseline"] < one["success"] < 1 for one in risk["inference"])
    success = max(acc.attack_success(event) for event, _ in events) if stated else None
    assert risk["attack_success"] == privacy.attack_success == success != 0.5
    assert [one["success"] for one in risk["inference"]] == [
        max(acc.inference_success(event, one["baseline"]) for event, _ in events) for one in risk["inference"]
    ]
    assert said["digests"]["ledger"] == model.ledger_.head
    assert (said["accounting"]["budget"] is None) == (model.ledger_.budget is None)
    with Folder(tmp_path / "m") as folder:
        assert privacy_file.compare_record(folder, model._fitted()) == (True, "")


def written(said):
    return json.dumps(said, indent=1, sort_keys=True) + "\n"


def test_it_is_never_read_as_truth(tmp_path):
    """A loaded model contradicts a smaller statement, and verification names it."""
    model = logistic(epsilon=2.0).fit(X, Y, transcript=tmp_path / "t")
    said = saved(model, tmp_path / "m")
    path = tmp_path / "m" / "privacy.json"
    for change, what in (
        (lambda d: d["privacy_loss"].update(epsilon=0.1), "privacy_loss"),
        (lambda d: d.update(more=1), "more"),
        (lambda d: d.pop("assumptions"), "assumptions"),
    ):
        other = copy.deepcopy(said)
        change(other)
        path.write_text(json.dumps(other))
        again = BayesianLogisticRegression.load(tmp_path / "m")
        assert again.privacy_.epsilon == model.privacy_.epsilon
        found = {one.name: one for one in verify(tmp_path / "m", tmp_path / "t").checks}
        assert not found["privacy.json"].ok and what in found["privacy.json"].detail
    said["versions"]["vips_fast"] = "0.0.1"
    path.write_text(written(said))
    assert verify(tmp_path / "m", tmp_path / "t").ok
    own = [[[]], "all is well"]
    versions = [[[]], {}, None, "1.0", *({"vips_fast": one} for one in own), {"vips_fast": "1", "more": "1"}]
    wrong = [(written(dict(said, versions=one)), "versions: expected") for one in versions]
    wrong += [
        (json.dumps(said), "in another form"),
        (written(said)[:-3] + ', "private": true\n}\n', "a key stands twice"),
    ]
    for text, what in (("{", "not a JSON file"), ("[]", "not a JSON object"), ("[" * 900 + "]" * 900, "not a"), *wrong):
        path.write_text(text)
        with Folder(tmp_path / "m") as folder:
            same, note = privacy_file.compare_record(folder, model._fitted())
        assert not same and what in note
    path.unlink()
    assert not verify(tmp_path / "m", tmp_path / "t").ok


#: By whether the record is of a private fit.
CHANGES = {
    True: [
        lambda d: d.pop("digests"),
        lambda d: d.update(format=1),
        lambda d: d.update(extra=1),
        lambda d: d.update(private="yes"),
        lambda d: d.update(private=False),
        lambda d: d.update(taints=["sensitivity"]),
        lambda d: d["privacy_loss"].update(epsilon=None),
        lambda d: d["privacy_loss"].update(epsilon=-1.0),
        lambda d: d["privacy_loss"].update(epsilon="2"),
        lambda d: d["privacy_loss"].update(delta=0),
        lambda d: d["privacy_loss"].update(delta=1),
        lambda d: d["privacy_loss"].update(unit=""),
        lambda d: d["implementation"]["runs"][0].pop("n_records"),
        lambda d: d["implementation"].update(runs=[]),
        lambda d: d["dp_flavor"].update(relation="zero_out"),
        lambda d: d["model"].update(name="local"),
        lambda d: d["accounting"].update(events=[{"part": None, "event": {"event": {}}}]),
        lambda d: d["accounting"].update(events=[{"part": None, "event": {"type": "composed", "events": [3]}}]),
        lambda d: d["accounting"].update(releases=1.5),
        lambda d: d["accounting"].update(budget={"dataset": "d"}),
        lambda d: d["implementation"].update(mechanism="Laplace"),
        lambda d: d.update(assumptions=[]),
        lambda d: d["assumptions"][0].update(checked=None),
        lambda d: d["digests"].update(ledger="0" * 63),
        lambda d: d.update(versions={}),
    ],
    False: [
        lambda d: d["privacy_loss"].update(epsilon=1.0),
        lambda d: d.update(taints=[]),
        lambda d: d.update(private=True),
        lambda d: d.update(statement="(1, 1e-5)-differential privacy"),
    ],
}


def check_refusal(model, change):
    said = privacy_file.privacy_record(model.fit(X, Y)._fitted())
    VALID.validate(said)
    change(said)
    assert not VALID.is_valid(said)


@pytest.mark.parametrize("change", CHANGES[True])
def test_the_schema_refuses(change):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    check_refusal(logistic(epsilon=2.0), change)


@pytest.mark.parametrize("change", CHANGES[False])
def test_what_is_not_private_says_so_in_every_field(change):
    check_refusal(logistic(private=False), change)
