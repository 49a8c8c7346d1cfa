"""A fit remembers a frame's column names for all later calls."""

import re
import warnings

import numpy as np
import pandas
import polars
import pytest
from cases import calling
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, SigmoidBeliefNetwork, verify
from vips_fast.data.frames import names_persons, repeats
from vips_fast.models.caveats import COLUMN_REPEATS, REPEATS
from vips_fast.models.forecast import HopelessWarning

NAMES = ["a", "b", "c"]
BITS = np.tile([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0]], (25, 1))
LABELS = np.arange(100) % 2
MODELS = {
    "blr": BayesianLogisticRegression(epsilon=1),
    "lda": LatentDirichletAllocation(2, n_steps=2, doc_length=10, epsilon=1),
    "sbn": SigmoidBeliefNetwork(2, n_steps=2, epsilon=1),
}
READS = [
    *(("blr", read) for read in ("decision_function", "decision_variance", "predict_proba", "predict")),
    *(("lda", read) for read in ("transform", "score", "perplexity")),
    *(("sbn", read) for read in ("transform", "score", "reconstruct")),
]


def frame(kind, names=NAMES, values=BITS):
    return kind(dict(zip(names, values.T.copy())))


@pytest.fixture(scope="module", params=[pandas.DataFrame, polars.DataFrame])
def fitted(request):
    models = {name: model._from_settings(model._settings()) for name, model in MODELS.items()}
    return request.param, {name: model.fit(frame(request.param), LABELS) for name, model in models.items()}


@pytest.mark.parametrize(("name", "method"), READS)
def test_names_are_held_by_every_read_out(fitted, name, method):
    kind, models = fitted
    model, read = models[name], getattr(models[name], method)
    assert model.feature_names_in_.tolist() == NAMES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = read(frame(kind))
    swapped = frame(kind)[["b", "a", "c"]]
    with pytest.raises(ValueError, match="same order"):
        read(swapped)
    with pytest.raises(ValueError, match="'d' unseen in fit"):
        read(frame(kind, ["a", "b", "d"]))
    with pytest.raises(ValueError, match="'c' seen in fit, now missing"):
        read(frame(kind)[["a", "b"]])
    with pytest.warns(UserWarning, match="fit had names of columns and X has none"):
        np.testing.assert_array_equal(read(BITS), expected)


@pytest.mark.parametrize("name", MODELS)
def test_names_stand_in_the_files_and_their_digest(fitted, name, tmp_path):
    _, models = fitted
    models[name].save(tmp_path / "m")
    assert type(models[name]).load(tmp_path / "m").feature_names_in_.tolist() == NAMES
    meta = tmp_path / "m" / "model.json"
    meta.write_text(meta.read_text().replace('"a",', '"z",'))
    with pytest.raises(ValueError, match="not as the fit wrote it"):
        type(models[name]).load(tmp_path / "m")


def test_without_names():
    model = BayesianLogisticRegression(epsilon=1).fit(BITS, LABELS)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has names of columns and fit had none"):
        model.predict(frame(pandas.DataFrame))
    numbered = pandas.DataFrame(BITS)
    assert not hasattr(BayesianLogisticRegression(epsilon=1).fit(numbered, LABELS), "feature_names_in_")
    with pytest.raises(TypeError, match="all texts"):
        model.fit(pandas.DataFrame(BITS, columns=["a", 1, 2]), LABELS)


def test_partial_fit_holds_the_names_of_the_first_call():
    model = BayesianLogisticRegression(noise_multiplier=5.0).partial_fit(frame(pandas.DataFrame), LABELS)
    with pytest.raises(ValueError, match="same order"):
        model.partial_fit(frame(pandas.DataFrame)[["b", "a", "c"]], LABELS)
    with pytest.warns(UserWarning, match="X has none"):
        model.partial_fit(BITS, LABELS)
    assert model.feature_names_in_.tolist() == NAMES and model.n_steps_ == 2


def of_releases(warning):
    """Tell whether a warning is about the noised releases. These differ from fit to fit."""
    return str(warning.message).startswith(("effects: ", "row_norm", "classes "))


def test_an_index_that_repeats_is_told():
    X = frame(pandas.DataFrame).set_index(np.arange(100) // 2)
    with pytest.warns(UserWarning, match=r"groups=") as told:
        BayesianLogisticRegression(epsilon=1).fit(X, LABELS)
    assert [str(w.message) for w in told if not of_releases(w)] == [REPEATS]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", HopelessWarning)
        LatentDirichletAllocation(2, n_steps=2, doc_length=10, epsilon=1).fit(X, groups=X.index)


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame, lambda c: polars.DataFrame(c).to_arrow()])
def test_a_column_of_persons_that_repeats_is_told(kind):
    """A person's column is recognized by its name and by repeats; nothing else counts."""

    def told(X, **how):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            BayesianLogisticRegression(epsilon=1).fit(X, LABELS, **how)
        return [str(w.message) for w in caught if not of_releases(w)]

    twice, once = np.arange(100.0) // 2, np.arange(100.0)
    assert told(kind({"a": LABELS, "Patient_ID": twice})) == [COLUMN_REPEATS.format("Patient_ID", "repeats")]
    assert told(kind({"a": LABELS, "Patient_ID": once})) == told(kind({"paid": LABELS, "patience": twice})) == []
    assert told(kind({"a": LABELS, "patient": twice}), groups=twice) == []
    assert not repeats([[1, None], [None, float("nan"), ""], [float("nan"), "", [1], [1]]]) and repeats([["x"], ["x"]])


@pytest.mark.parametrize(("output", "kind"), [("pandas", pandas.DataFrame), ("polars", polars.DataFrame)])
def test_set_output(output, kind):
    model = SigmoidBeliefNetwork(2, n_steps=2, epsilon=1).set_output(transform=output)
    X = frame(pandas.DataFrame).set_index(np.arange(100) + 7)
    out = model.fit(X).transform(X)
    assert isinstance(out, kind) and list(out.columns) == ["sigmoidbeliefnetwork0", "sigmoidbeliefnetwork1"]
    assert output == "polars" or out.index.tolist() == X.index.tolist()
    assert isinstance(model.reconstruct(X), np.ndarray)
    np.testing.assert_array_equal(np.asarray(out), model.set_output(transform="default").transform(X))
    with pytest.raises(ValueError, match="transform='csv'"):
        model.set_output(transform="csv")


def test_names_are_rebuilt_and_resumed(tmp_path):
    X, names = frame(pandas.DataFrame), {"transcript": tmp_path / "t", "checkpoint": tmp_path / "c"}

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step == 3:
            raise Stop

    model = calling(BayesianLogisticRegression(epsilon=1, n_steps=6), stop)
    with pytest.raises(Stop):
        model.fit(X, LABELS, **names)
    calling(model, None)
    with pytest.raises(ValueError, match="holds a run with public: feature_names"):
        model.fit(X[["b", "a", "c"]], LABELS, resume=True, **names)
    model.fit(X, LABELS, resume=True, **names).save(tmp_path / "m")
    assert model.feature_names_in_.tolist() == NAMES
    report = verify(tmp_path / "m", tmp_path / "t")
    assert report.ok, report.text()


def normal(seed):
    return np.random.default_rng(seed).normal(3.0, 2.0, (100, 4))


@pytest.mark.parametrize("scale", [StandardScaler(), MinMaxScaler(), MinMaxScaler((-1, 1))])
@pytest.mark.parametrize("frame", [False, True])
def test_columns_that_a_scaler_was_fitted_to_draw_a_warning(scale, frame):
    """In a pipeline too, whose last step sees only its own input."""
    X, y = normal(0), LABELS
    X[:, 1] = np.rint(X[:, 1])
    model = BayesianLogisticRegression(n_steps=1, classes=[0, 1])
    with pytest.warns(UserWarning, match="over these very rows: scaled by private numbers"):
        if frame:
            scaled = pandas.DataFrame(clone(scale).fit_transform(X), columns=list("abcd"))
            clone(model).fit(scaled, y)
        else:
            make_pipeline(clone(scale), clone(model)).fit(X, y)


def test_other_columns_draw_no_warning():
    X, y = normal(0), LABELS
    public, scaled = StandardScaler().fit(normal(1)), StandardScaler().fit_transform(X)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*these very rows")
        for data, options in ((X, {}), (public.transform(X), {}), (X > 3.0, {}), (scaled, {"private": False})):
            BayesianLogisticRegression(n_steps=1, classes=[0, 1], **options).fit(data, y)
        # Bad records are dropped without a word, so no message mentions good ones.
        BayesianLogisticRegression(n_steps=1, classes=[0, 1], options={"invalid": "drop"}).fit(scaled, y)


def test_names_of_columns_that_are_a_persons():
    persons = """patient,Patient_ID,pid,PID,p_id,id,ID ,uid,subject id,respondent,Besucher,Kunden-Nr.,Patientennummer
student no,paziente,Employee No,Patient No.,MRN,emp_no,EMPNO,Patient #,hashed_patient_id,medical record number
name,Full Name,user_name,username,Patientenname,E-Mail,Nachname,Haushalt-Nr,Versicherten-Nr"""
    others = """subject,grid,paid,period,p,,valid,age,Nr,uno,number,medical record,casino,campaign id,patient notes,emp
product_name,filename,hostname,subject line"""
    assert [name for name in re.split("[,\n]", persons) if not names_persons(name)] == []
    assert [name for name in re.split("[,\n]", others) if names_persons(name)] == []
