"""The contract, held by every model. Additive sums, resumable state, one result that cannot contradict itself."""

import json
import math
import pickle
import shutil
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from cases import EVERY as CASES
from cases import calling
from runs import EndsInSum, Stop, bits, ends, fail

from vips_fast.engine.backend import Threads
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.loop import run
from vips_fast.engine.model import Release
from vips_fast.engine.result import FitResult
from vips_fast.engine.sampling import SystemRandomness
from vips_fast.engine.transcript import read_transcript
from vips_fast.jobs.publication import verify
from vips_fast.models import persistence
from vips_fast.models.estimator import NotFittedError
from vips_fast.models.lda import LdaOptions
from vips_fast.store.npz import read_npz, write_npz

ALL = pytest.mark.parametrize("name", CASES)
KEY = b"k" * 32


def fitted(name, **options):
    make, data = CASES[name]
    return make(**options).fit(*data())


def prepare(name, **options):
    make, data = CASES[name]
    stage = make(**options).prepare(*data())
    return stage.estimator, stage.model, stage.plan, stage.records


def public_view(estimator):
    """Everything public that an estimator holds, comparable with ==."""
    result = estimator._result
    if result is None:
        return None
    return bits(estimator), result.ledger.head, str(estimator.privacy_), result.n_steps, repr(estimator)


# ------------------------------------------------------------------ additivity


@ALL
def test_sums_are_additive_over_shards(name):
    """Any split into shards in any order gives the same integers. Before rounding, in every step."""
    rng = np.random.default_rng(0)
    _, model, plan, records = prepare(name)
    words = rng.integers(0, 2**64, records.n_rows, dtype=np.uint64)
    for step in range(plan.n_steps):
        rows = np.arange(records.n_rows)
        whole = Threads(1).sum(model, records, rows, words)
        assert whole.shape == model.fine_shape and whole.any()
        for n_shards in (2, 5, 16):
            owner = rng.integers(0, n_shards, records.n_rows)
            parts = [
                Threads(2).sum(model, records, np.flatnonzero(owner == i), words[owner == i])
                for i in rng.permutation(n_shards)
            ]
            assert (sum(parts) == whole).all()
        units = model.round(whole.copy(), plan.mechanism.spacing)
        noise = rng.normal(0, plan.mechanism.noise_sd / plan.mechanism.spacing, units.shape)
        scale = plan.mechanism.spacing / plan.sampler.expected_batch_size
        model.update(Release(step, units + np.rint(noise).astype(np.int64), scale, scale))


@ALL
def test_a_minibatch_beyond_the_capacity_gives_the_same_sums(name):
    _, model, plan, records = prepare(name)
    words = np.arange(records.n_rows, dtype=np.uint64)
    rows, capacity = np.arange(records.n_rows), model.capacity
    for step in range(2):
        model.capacity = capacity
        whole = model.round(Threads(1).sum(model, records, rows, words), plan.mechanism.spacing)
        model.capacity = 7
        parts = Threads(2).sum(model, records, rows, words)
        assert parts.dtype == object
        rounded = model.round(parts, plan.mechanism.spacing)
        assert rounded.dtype == np.int64 and (rounded == whole).all()
        model.update(Release(step, whole, plan.mechanism.spacing / records.n_rows, 1e-9))


# ------------------------------------------------------------ state and resume


@ALL
def test_state_and_restore_go_on_with_the_same_bits(name):
    _, model, plan, _ = prepare(name)
    rng, spacing, sd = np.random.default_rng(1), plan.mechanism.spacing, plan.mechanism.noise_sd
    size, releases = plan.sampler.expected_batch_size, []
    for step in range(plan.n_steps):
        units = np.rint(rng.normal(0, sd / spacing, model.shape)).astype(np.int64)
        releases.append(Release(step, units, spacing / size, sd / size))
    for cut in range(1, plan.n_steps):
        whole, second, first = (prepare(name)[1] for _ in range(3))
        for one in releases:
            whole.update(one)
        for one in releases[:cut]:
            first.update(one)
        second.restore({k: np.array(v) for k, v in first.state().items()})
        for one in releases[cut:]:
            second.update(one)
        for a, b in ((whole.result(), second.result()), (whole.state(), second.state())):
            assert a.keys() == b.keys()
            for key in a:
                assert np.asarray(a[key]).tobytes() == np.asarray(b[key]).tobytes(), key


@ALL
def test_a_damaged_state_is_refused(name):
    _, model, _, _ = prepare(name)
    state = fitted(name)._result.state
    for key, array in ((key, array) for key, array in state.items() if array.size):
        others = {one: state[one] for one in state if one != key}
        for change in ({}, {key: np.zeros(np.add(array.shape, 1))}, {key: np.full(array.shape, np.nan)}):
            with pytest.raises(ValueError, match="state"):
                model.restore(others | change)


#: Numbers that no run of a model leaves: the array of its state, and what fills it.
OUT_OF_RANGE = {
    "lda": {"average_noise": [-1.0], "average_weight": [-1.0]},
    "network": {
        "weight_variances": [-1e-9],
        "hidden_covariance": [0.26, -0.26],
        "curvature": [0.26, 0.0],
        "mean_image": [0.0, 1.0],
        "visible_bound": [1e-300],  # the search for a person's weight would not end
    },
    "logistic-spherical": {"law": [[-1.0, 0, 0, 0, 0], [0.5, 0, 0, 0, 0], [1.0, 2000, 0, 0, 0], [1.0, 0, -1, 0, 0]]},
}


@pytest.mark.parametrize(
    "name, key, value", [(name, key, one) for name, of in OUT_OF_RANGE.items() for key in of for one in of[key]]
)
def test_a_state_out_of_its_range_is_refused(name, key, value):
    state = fitted(name)._result.state
    _, model, _, _ = prepare(name)
    model.restore(state)
    with pytest.raises(ValueError, match="state: .*out of"):
        model.restore({**state, key: np.broadcast_to(value, state[key].shape)})


# ------------------------------------------- one result that cannot contradict


def covered(estimator, tmp_path, releases):
    if estimator._result is None:
        for attribute in ("privacy_", "ledger_", "n_steps_", "n_features_in_"):
            assert not hasattr(estimator, attribute)
        with pytest.raises((NotFittedError, ValueError), match="not fitted"):
            estimator.save(tmp_path / "none")
        return
    result = estimator._result
    result.check()
    assert len(result.ledger) == result.n_steps == releases
    assert estimator.privacy_.steps == releases
    path = tmp_path / "saved"
    estimator.save(path)
    back = type(estimator).load(path)
    assert public_view(back)[:4] == public_view(estimator)[:4]


def interrupted():
    raise KeyboardInterrupt


@contextmanager
def interrupting(estimator, where, kind):
    """Make the run in the block end early: at a step boundary, inside a sum, or inside a step that is paid for."""
    before = dict(vars(estimator))
    if kind == "callback":
        calling(estimator, lambda progress: progress.step == where and fail())
    elif kind == "sum":
        estimator._backend = lambda: EndsInSum(where, interrupted)
    else:
        ends(estimator, where, fail)
    with pytest.raises((Stop, KeyboardInterrupt)) as error:
        yield error
    for name in vars(estimator).keys() - before.keys():
        delattr(estimator, name)


CALLS = {
    "fit": lambda estimator, data: estimator.fit(*data),
    "partial_fit": lambda estimator, data: estimator.partial_fit(*data),
    "part": lambda estimator, data: estimator.partial_fit(*data, part="a"),
}


@pytest.mark.parametrize("name", ["lda", "own"])  # it is the engine that is interrupted
@pytest.mark.parametrize("kind", ["callback", "sum", "paid"])
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(name, kind, tmp_path):
    """Interrupts at every step boundary and inside steps. For orders of fit and partial_fit, about parts too."""
    make, data = CASES[name]
    for before in ((), ("fit",), ("fit", "partial_fit"), ("partial_fit",), ("part", "partial_fit")):
        for then in CALLS:
            steps = make().n_steps if then == "fit" else 1
            for where in range(1, steps + 1):
                estimator = make()
                for call in before:
                    CALLS[call](estimator, data())
                held = public_view(estimator)
                with interrupting(estimator, where, kind) as error:
                    CALLS[then](estimator, data(seed=1))
                spent = where - (kind == "sum")
                notes = "".join(getattr(error.value, "__notes__", ()))
                assert f"It made up to {spent} release" in notes or spent == 0 == len(notes)
                assert public_view(estimator) == held
                releases = 0 if held is None else held[3]
                covered(estimator, tmp_path, releases)
                # Later calls build on the finished ones, not on the interrupted run.
                estimator.partial_fit(*data())
                covered(estimator, tmp_path, releases + 1)


@ALL
def test_budget_laundering(name):
    """A private ledger never continues statistics of another run. That is, of a run that is not private (fault 1)."""
    make, data = CASES[name]
    estimator = make(private=False).fit(*data())
    calling(estimator.set_params(private=True), lambda progress: fail())
    with pytest.raises(Stop):
        estimator.fit(*data())
    calling(estimator, None).partial_fit(*data())
    assert not estimator.privacy_.private and math.isinf(estimator.privacy_.epsilon)
    assert "NOT PRIVATE" in repr(estimator)


@ALL
def test_what_is_published_is_read_only(name):
    estimator = fitted(name)
    for array in (*estimator._result.arrays.values(), *estimator._result.state.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(RuntimeError, match="takes no more releases"):
        estimator.ledger_.taint("late")


@ALL
def test_rows_do_not_matter_where_the_number_of_records_is_given(name):
    """With n_records the number of rows changes nothing public. No plan, scale, grid or refusal (fault 5)."""
    make, data = CASES[name]
    plans = []
    for n in (0, 20, 200, 1000):
        estimator = make(n_records=100, batch_size=50, sampling="poisson")
        arguments = [part[:n] for part in data(1000)]
        if len(arguments) == 2 and n == 0:
            continue  # the two labels are public, so there are rows with them
        stage = estimator.prepare(*arguments)
        plans.append((stage.plan.public(), stage.model.capacity, stage.planned.request.public.n_records))
        estimator.fit(*arguments)
    assert len(plans) >= 3 and all(plan == plans[0] for plan in plans)


@ALL
def test_one_estimator_takes_one_fit_at_a_time(name):
    make, data = CASES[name]
    entered, go = threading.Event(), threading.Event()

    def wait(progress):
        entered.set()
        assert go.wait(60)

    estimator = calling(make(), wait)
    thread = threading.Thread(target=lambda: estimator.fit(*data()))
    thread.start()
    assert entered.wait(60)
    with pytest.raises(RuntimeError, match="another thread"):
        estimator.fit(*data())
    go.set()
    thread.join()
    assert len(estimator.ledger_) == estimator.n_steps_


@ALL
def test_keys_and_figures_are_in_no_file(name, tmp_path):
    make, data = CASES[name]
    estimator = make().set_unsafe(test_key=KEY, diagnostics=True).fit(*data())
    assert len(estimator.diagnostics_) == estimator.n_steps_ and "records" in estimator.diagnostics_[0]
    estimator.save(tmp_path / "m")
    stored = pickle.dumps(estimator) + b"".join(p.read_bytes() for p in (tmp_path / "m").iterdir())
    assert KEY not in stored and KEY.hex().encode() not in stored
    assert pickle.loads(pickle.dumps(estimator))._test_key is None
    assert type(estimator).load(tmp_path / "m").diagnostics_ is None
    assert sum("unsafe" in taint for taint in estimator.ledger_.taints) == 2


def test_a_run_that_is_planned_stays_private_whatever_is_set_before_it():
    make, data = CASES["own"]
    estimator = make()
    stage = estimator.prepare(*data())
    estimator.set_unsafe(test_key=KEY, diagnostics=True)
    stage.run()
    assert estimator.privacy_.private and estimator.diagnostics_ is None


# ---------------------------------------------------------------------- files


def edits(meta):
    plan = next(r for r in meta["ledger"]["records"] if r["kind"] == "plan")["plan"]
    release = next(r for r in meta["ledger"]["records"] if r["kind"] == "release")

    def shorten(n):
        def change(m):
            del m["ledger"]["records"][-n:]
            m["ledger"]["head"] = m["ledger"]["records"][-1]["before"] if m["ledger"]["records"] else "0" * 64

        return change

    other = {"add_remove": "replace_one", "replace_one": "add_remove"}
    yield "delta", lambda m: plan.update(delta=1e-9)
    yield "relation", lambda m: plan.update(relation=other[plan["relation"]])
    yield "steps", lambda m: m.update(n_steps=1)
    yield "noise", lambda m: release["event"].update(noise_multiplier=100.0)
    yield "part", lambda m: release.update(part="monday")
    yield "one record less", shorten(1)
    yield "two records less", shorten(2)
    yield "no ledger", lambda m: m.update(ledger={"schema": 2, "head": "0" * 64, "records": []})
    yield "setting", lambda m: m["settings"].update(delta=1e-9)
    yield "columns", lambda m: m["public"].update(n_features=m["public"]["n_features"] + 1)
    yield "text for columns", lambda m: m["public"].update(n_features="many")
    yield "records", lambda m: m["public"].update(n_records=10**6)
    yield "seed", lambda m: m["public"].update(seed=None)
    yield "unknown setting", lambda m: m["settings"].update(nonsense=1)
    yield "no settings", lambda m: m.pop("settings")
    yield "no public facts", lambda m: m.pop("public")
    yield "no model", lambda m: m.pop("model")
    yield "format", lambda m: m.update(format=1)
    yield "a list", lambda m: m.update(settings=[])


@ALL
def test_a_file_that_was_edited_does_not_load(name, tmp_path):
    estimator = fitted(name)
    estimator.save(tmp_path / "m")
    text = (tmp_path / "m" / "model.json").read_text()
    for number in range(len(list(edits(json.loads(text))))):
        meta = json.loads(text)
        what, change = list(edits(meta))[number]
        change(meta)
        (tmp_path / "m" / "model.json").write_text(json.dumps(meta))
        with pytest.raises(ValueError) as error:
            type(estimator).load(tmp_path / "m")
        assert str(tmp_path / "m") in str(error.value), what
        assert what != "format" or "saved in format 1; expected format" in str(error.value)
    for raw in ("", "{", "[" * 100_000, "null", "\x00"):
        (tmp_path / "m" / "model.json").write_text(raw)
        with pytest.raises(ValueError, match="model"):
            type(estimator).load(tmp_path / "m")


@ALL
def test_arrays_of_another_fit_do_not_load(name, tmp_path):
    make, data = CASES[name]
    private, plain = fitted(name), make(private=False).fit(*data())
    private.save(tmp_path / "a")
    plain.save(tmp_path / "b")
    stored, others = (read_npz(tmp_path / folder / "model.npz") for folder in "ab")
    changed = [key for key in stored.keys() & others.keys() if stored[key].tobytes() != others[key].tobytes()]
    assert {key.partition(".")[0] for key in changed} == {"array", "state"}
    for key in changed:  # published ones, and those of the state that a later call goes on from
        write_npz(tmp_path / "a" / "model.npz", {**stored, key: others[key]})
        with pytest.raises(ValueError, match="not a model as it was saved"):
            type(private).load(tmp_path / "a")


@ALL
def test_arrays_out_of_range_do_not_load_even_with_every_hash_made_anew(name, tmp_path):
    estimator = fitted(name)
    result = estimator._result
    for key, array in result.arrays.items():
        wrong = [np.zeros(np.add(array.shape, 1) if array.ndim else (2,))]
        for bad in (np.nan, np.inf) if array.size else ():
            wrong.append(np.array(array))
            wrong[-1].reshape(-1)[0] = bad
        for one in wrong:
            ledger = Ledger()
            for record in result.ledger.to_dict()["records"]:
                if record["kind"] != "close":
                    ledger._replay(record)
            made = result.kind, result.settings, result.public, result.n_steps, {**result.arrays, key: one}
            persistence.save(FitResult.make(*made, result.state, ledger), tmp_path / "m")
            with pytest.raises(ValueError, match=f"array {key!r}|parameter"):
                type(estimator).load(tmp_path / "m")
            shutil.rmtree(tmp_path / "m")


# -------------------------------------------------------------------- rebuild


@ALL
def test_a_model_follows_from_its_transcript(name, tmp_path):
    make, data = CASES[name]
    estimator = make().fit(*data(), transcript=tmp_path / "t")
    estimator.partial_fit(*data(seed=2), transcript=tmp_path / "t")
    estimator.save(tmp_path / "m")
    report = verify(tmp_path / "m", tmp_path / "t", cls=type(estimator))
    assert report.ok, report.text()
    assert {"model.npz", "model.json", "privacy_", "statement", "epsilon"} <= {check.name for check in report.checks}
    # Every release counts: one bit of one of them shows, and the message names its place.
    runs = read_transcript(tmp_path / "t")
    for place in (runs[0].path / "release-000001.npz", runs[1].path / "release-000000.npz"):
        whole = place.read_bytes()
        with np.load(place) as file:
            arrays = dict(file)
        arrays["units"].reshape(-1)[0] ^= 1
        np.savez(place, **arrays)
        report = verify(tmp_path / "m", tmp_path / "t", cls=type(estimator))
        assert not report.ok and place.stem in report.text() and place.parent.name in report.text()
        place.write_bytes(whole)
    with pytest.raises(FileExistsError, match="transcript"):
        make().fit(*data(), transcript=tmp_path / "t")


@pytest.mark.parametrize("call, spent", [("of_step", 0), ("noise_key", 1)])
def test_the_loop_writes_the_ledger_before_the_key_is_drawn(call, spent):
    _, model, plan, records = prepare("own", batch_size=50)
    ledger, randomness = Ledger(), SystemRandomness()

    def fails(*arguments):
        raise RuntimeError("no randomness")

    setattr(randomness, call, fails)
    with pytest.raises(RuntimeError, match="no randomness"):
        run(model, records, plan, ledger, randomness, Threads(1))
    assert len(ledger) == spent


PRIORS = [LdaOptions(doc_topic_prior=p) for p in (1e-30, 1e6)]
EDGES = [("lda", dict(clip=c, options=p)) for c in (1e-30, 1e-12, 1.0) for p in PRIORS]
EDGES += [(n, dict(row_norm=r)) for n in ("logistic", "logistic-paper") for r in (1e-12, 1e5, 1e12)]
EDGES += [(n, {}) for n in ("network", "own")]


@pytest.mark.parametrize("noise_multiplier", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("name, options", EDGES)
def test_settings_at_their_edges_are_refused_before_anything_is_spent_or_fit(name, options, noise_multiplier):
    make, data = CASES[name]
    try:
        make(noise_multiplier=noise_multiplier, **options).fit(*data(60))
    except ValueError as error:
        assert not getattr(error, "__notes__", ()), "releases were made"
