"""A belief network for each class. Learning, drawing, refusals."""

import math

import numpy as np
import pytest

from vips_fast import ClassConditionalNetwork, SigmoidBeliefNetwork

KEY = bytes(range(32))


def stripes(n, seed=0):
    """Records of 24 pixels in three classes of unequal sizes. In class c stripe c is on, the others now and then."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    on = rng.random((n, 3)) < 0.3
    on[np.arange(n), labels] = True
    return (np.repeat(on, 8, axis=1) ^ (rng.random((n, 24)) < 0.1)).astype(np.uint8), np.array(list("abc"))[labels]


TRAIN, LABELS = stripes(6000)
TEST, TRUE = stripes(2000, seed=1)


def model(**settings):
    return ClassConditionalNetwork(3, **{"delta": 1e-5, "random_state": 0, **settings})


@pytest.mark.parametrize("settings", [dict(private=False), dict(epsilon=4.0)], ids=["free", "private"])
def test_classes_are_told_apart_and_drawn_as_often_as_they_are(settings):
    # The known key makes the noise the same in every run of this test.
    fitted = model(**settings).set_unsafe(test_key=KEY).fit(TRAIN, LABELS)
    assert fitted.classes_.tolist() == ["a", "b", "c"] and fitted.components_.shape == (3, 3, 24)
    np.testing.assert_allclose(fitted.class_prior_, [0.5, 0.3, 0.2], atol=0.03)
    assert fitted.class_prior_.sum() == pytest.approx(1, abs=1e-12)
    # Bayes' own rule gets 77 % of these, where other classes' stripes are on.
    assert fitted.score(TEST, TRUE) > 0.7
    Y, y = fitted.sample(4000, random_state=1)
    assert [(y == c).mean() for c in "abc"] == pytest.approx([0.5, 0.3, 0.2], abs=0.06)
    for number, label in enumerate("abc"):
        np.testing.assert_allclose(Y[y == label].mean(axis=0), TRAIN[LABELS == label].mean(axis=0), atol=0.12)
        own = slice(8 * number, 8 * number + 8)
        assert Y[y == label][:, own].mean() > 0.8


def test_without_noise_a_class_has_the_network_that_it_would_have_alone():
    fitted = model(private=False, n_steps=6).fit(TRAIN, LABELS)
    for number, label in enumerate("abc"):
        alone = SigmoidBeliefNetwork(3, private=False, n_steps=6, sampling="full", random_state=0)
        alone.fit(TRAIN[LABELS == label])
        np.testing.assert_allclose(fitted.mean_image_[number], alone.mean_image_, atol=1e-3)
        np.testing.assert_allclose(fitted.components_[number], alone.components_, atol=0.05)
        assert fitted.decision_function(TEST)[:, number].sum() == pytest.approx(
            alone.score(TEST) + len(TEST) * math.log(fitted.class_prior_[number]), rel=2e-3
        )


def test_probabilities_and_asked_labels():
    fitted = model(private=False, n_steps=3).fit(TRAIN[:900], LABELS[:900])
    p = fitted.predict_proba(TEST[:50])
    assert p.shape == (50, 3) and np.allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(TEST[:50]))
    asked = ["c", "a", "c", "b"]
    Y, y = fitted.sample(4, random_state=0, labels=asked)
    assert y.tolist() == asked and Y.shape == (4, 24)
    np.testing.assert_array_equal(Y, fitted.sample(4, random_state=0, labels=asked)[0])
    assert fitted.sample(0)[0].shape == (0, 24)


def test_a_class_without_records_keeps_a_share():
    """No share is zero, as only noise says how many there are. The model runs on."""
    fitted = model(classes=["a", "b", "c", "d"], epsilon=1.0).set_unsafe(test_key=KEY).fit(TRAIN, LABELS)
    assert 0 < fitted.class_prior_[3] < 0.1 and np.isfinite(fitted.components_).all()
    assert fitted.sample(10, labels=["d"] * 10)[0].shape == (10, 24)
