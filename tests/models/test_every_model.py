"""What a user meets in every model. Budgets, seeds, threads, callbacks, further steps, parameters."""

import numpy as np
import pytest
from cases import EVERY, MORE

from vips_fast.accounting import epsilon
from vips_fast.engine.gain import MEASURED
from vips_fast.jobs.publication import verify

ALL = pytest.mark.parametrize("name", EVERY)
#: Batches of 50 of 200 records, but where all take part.
SAMPLINGS = {
    "poisson": dict(sampling="poisson", batch_size=50),
    "without replacement": dict(sampling="without_replacement", batch_size=50),
    "full": dict(sampling="full"),
    "full, replacing": dict(sampling="full", options={"relation": "replace_one"}),
    "random allocation": dict(sampling="random_allocation", batch_size=50),
}


def fitted(name, unsafe=None, call=None, **options):
    make, data = EVERY[name]
    return make(**options).set_unsafe(**unsafe or {}).fit(*data(), **call or {})


def same_bits(*estimators):
    first, *others = ({k: a.tobytes() for k, a in e._result.arrays.items()} for e in estimators)
    return all(other == first for other in others)


@ALL
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_budget_that_was_asked_for_is_met_and_used(name, sampling):
    options = SAMPLINGS[sampling]
    model = fitted(name, noise_multiplier=None, epsilon=1.5, n_steps=4, **options)
    replaces = "replac" in sampling
    assert len(model.ledger_) == model.n_steps_ == model.privacy_.steps == 4
    assert model.privacy_.relation == ("replace_one" if replaces else "add_remove")
    if name == "lda-paper" and replaces:
        # The paper's sensitivity is too small by sqrt(2) there, and only there.
        assert not model.privacy_.private and model.privacy_.epsilon == np.inf
        return
    # Calibration stops within 0.1 % of the noise multiplier; epsilon moves by less than 1 % then.
    assert model.privacy_.private and 0.98 * 1.5 < model.privacy_.epsilon <= 1.5
    assert "differential privacy" in model.privacy_.statement()
    assert model.privacy_.runs[-1].sampling == options["sampling"]
    assert epsilon(model.ledger_.event(), model.privacy_.delta) == model.privacy_.epsilon
    make, data = EVERY[name]
    with pytest.raises(ValueError, match="noise_multiplier=0.3 with . steps gives epsilon"):
        make(noise_multiplier=0.3, epsilon=0.5, n_steps=4, **options).fit(*data())


@ALL
def test_private_fits_take_no_seed(name):
    assert not same_bits(*(fitted(name, random_state=3) for _ in range(2)))
    plain = dict(random_state=3, private=False, noise_multiplier=None, sampling="poisson", batch_size=50)
    assert same_bits(*(fitted(name, **plain) for _ in range(2)))
    assert fitted(name, **plain).privacy_.epsilon == np.inf


@ALL
@pytest.mark.parametrize("sampling", list(SAMPLINGS)[:3])
def test_same_bits_for_any_number_of_threads(name, sampling):
    make, data = EVERY[name]
    X, options = data(20_000), {**SAMPLINGS[sampling], "n_steps": 2}
    if "batch_size" in options:
        options["batch_size"] = 15_000
    records, _ = make()._read(*X)
    assert len(records.edges(np.arange(15_000))) > 2  # several blocks, so that threads have something to share
    models = [make(n_jobs=jobs, **options).set_unsafe(test_key=b"k" * 32).fit(*X) for jobs in (1, 7)]
    assert same_bits(*models) and any("unsafe test_key" in taint for taint in models[0].privacy_.taints)


SCORED = "logistic", "network", "network-classes", "mixture"


@pytest.mark.parametrize("name", sorted({*MORE, *SCORED} - {"vocabulary"}))
def test_threads_files_and_releases_keep_every_bit(name, tmp_path):
    """Of models of other kinds, and of those whose last step is a score."""
    make, data = MORE.get(name) or EVERY[name]
    options = {} if name in MORE else {"n_steps": MEASURED}
    models = [
        make(n_jobs=n, **options).set_unsafe(test_key=b"k" * 32).fit(*data(2000), transcript=tmp_path / f"t{n}")
        for n in (1, 2)
    ]
    assert same_bits(*models) and (name in MORE or models[0].found_gain_ is not None)
    models[1].save(tmp_path / "m")
    again = type(models[1]).load(tmp_path / "m")
    assert same_bits(again, models[1]) and repr(again) == repr(models[1])
    assert name in MORE or again.found_gain_ == models[0].found_gain_
    assert verify(tmp_path / "m", tmp_path / "t2").ok


@ALL
def test_the_callback_sees_what_is_public(name):
    seen = []
    model = fitted(name, sampling="poisson", batch_size=50, n_steps=4, call=dict(callback=seen.append))
    assert [p.step for p in seen] == [1, 2, 3, 4] and all(p.seconds >= 0 for p in seen)
    spent = [p.epsilon for p in seen]
    assert spent == sorted(spent) and spent[-1] == model.privacy_.epsilon
    assert model.diagnostics_ is None
    with pytest.raises(ValueError, match="callback=3: expected a callable"):
        fitted(name, call=dict(callback=3))


@ALL
def test_partial_fits_compose_up_to_the_target(name):
    make, data = EVERY[name]
    model = make()
    spent = [model.partial_fit(*data()).privacy_.epsilon for _ in range(3)]
    assert len(model.ledger_) == model.n_steps_ == 3
    with pytest.raises(ValueError, match="noise_multiplier=None"):
        make(noise_multiplier=None).partial_fit(*data())
    if name == "lda-paper":  # its sensitivity does not hold for its own sampling
        assert set(spent) == {np.inf}
        return
    assert 0 < spent[0] < spent[1] < spent[2] < np.inf
    capped = make(epsilon=spent[1]).partial_fit(*data()).partial_fit(*data())
    held = capped._result
    with pytest.raises(ValueError, match="noise_multiplier"):
        capped.partial_fit(*data())
    assert capped._result is held


@ALL
def test_further_steps_are_those_of_a_fit(name):
    """As many calls as steps give the same bits. Without noise and with all records."""
    options, unsafe = dict(noise_multiplier=0.0, n_steps=3, sampling="full"), dict(test_key=b"k" * 32)
    make, data = EVERY[name]
    model = make(**options).set_unsafe(**unsafe)
    for step in range(3):
        assert model.partial_fit(*data()).n_steps_ == step + 1
    assert same_bits(model, fitted(name, unsafe, **options))


#: Arguments out of their range, alone and beside another; the first is named in the refusal.
ALONE = dict(epsilon=[0.0, -1, np.nan], delta=[0.0, 1.0], n_steps=[0], batch_size=[0], n_jobs=[0], n_records=[0])
ALONE |= dict(noise_multiplier=[-1], sampling=["bernoulli"], private=["yes"], random_state=[-1], options=[3])
ALONE |= dict(options__relation=["add"], options__invalid=["ignore"])
WRONG = [{name: value} for name, values in ALONE.items() for value in values] + [
    dict(batch_size=201, sampling="poisson"),
    dict(batch_size=2.5, sampling="without_replacement"),
    dict(options__relation="replace_one", sampling="poisson", batch_size=50),
    dict(options__relation="add_remove", sampling="without_replacement", batch_size=50),
]


@ALL
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_parameter_out_of_its_range_is_named_and_nothing_spent(name, wrong):
    make, data = EVERY[name]
    model = make().set_params(**wrong)
    with pytest.raises(ValueError, match=f"^{next(iter(wrong)).removeprefix('options__')}="):
        model.fit(*data())
    assert not hasattr(model, "ledger_")


@ALL
def test_parameters_are_shown_cloned_and_set_and_keywords_known(name):
    from sklearn.base import clone

    make, _ = EVERY[name]
    model = make()
    assert clone(model).get_params().keys() == model.get_params().keys() and len(model.get_params()) <= 17
    assert repr(clone(model)) == repr(model) and "noise_multiplier=2.0" in repr(model)
    assert model.set_params(epsilon=2.0).epsilon == 2.0
    for wrong in (lambda: model.set_params(nothing=1), lambda: make(nothing=1)):
        with pytest.raises((ValueError, TypeError), match="nothing"):
            wrong()
    for call in (model.fit, model.partial_fit):
        said = rf"^\w+\.{call.__name__}\(\) got an unexpected .* 'transcrpt'$"
        with pytest.raises(TypeError, match=said):
            call(*EVERY[name][1](), transcrpt="t")
    with pytest.raises(TypeError, match=r"partial_fit\(\) got an unexpected keyword argument 'on_forecast'"):
        model.partial_fit(*EVERY[name][1](), on_forecast=print)
    assert not hasattr(model, "ledger_")
