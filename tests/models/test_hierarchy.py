"""Join planted pairs of topics, place them, and draw both."""

import copy

import numpy as np
import pytest
import scipy.cluster.hierarchy as scipy_hierarchy

from vips_fast import DocumentClusters, LatentDirichletAllocation, PublicVectors
from vips_fast.models.hierarchy import Hierarchy, classical_mds, euclidean, hellinger
from vips_fast.report import html_report

RNG = np.random.default_rng(0)


def planted(n_pairs=4, n_words=80):
    """Two topics to a pair, which share most of their words."""
    base = RNG.dirichlet(np.full(n_words, 0.05), n_pairs)
    return np.array([0.7 * base[k // 2] + 0.3 * RNG.dirichlet(np.full(n_words, 0.05)) for k in range(2 * n_pairs)])


def test_planted_pairs_are_joined_first():
    topics = planted()
    found = Hierarchy.of(hellinger(topics))
    groups = found.groups(4)
    assert (groups[::2] == groups[1::2]).all() and len(set(groups)) == 4
    place = {k: i for i, k in enumerate(found.order)}
    assert all(abs(place[k] - place[k + 1]) == 1 for k in range(0, 8, 2))
    assert scipy_hierarchy.is_valid_linkage(found.links) and (np.diff(found.links[:, 2]) >= 0).all()
    # Heights are mean distances of the two groups.
    first = [int(k) for k in found.links[0, :2]]
    assert found.links[0, 2] == pytest.approx(hellinger(topics)[first[0], first[1]])
    assert found.links[-1, 2] <= hellinger(topics).max()
    assert len(found.joints()) == 7 and found.joints()[-1][-1] == found.links[-1, 2]
    assert len(set(found.groups(1))) == 1 and len(set(found.groups(8))) == 8


def test_distances_and_map():
    topics = planted()
    apart = hellinger(topics)
    p = topics / topics.sum(axis=1, keepdims=True)
    assert apart[0, 1] == pytest.approx(np.sqrt(0.5 * ((np.sqrt(p[0]) - np.sqrt(p[1])) ** 2).sum()))
    plane, shown = classical_mds(euclidean(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])))
    assert euclidean(plane)[1, 2] == pytest.approx(5.0) and shown == pytest.approx(1.0)


def test_private_topics_and_clusters_have_one_in_the_report():
    topics = planted(3, 40)
    counts = np.array([RNG.multinomial(30, t @ topics) for t in RNG.dirichlet(np.full(6, 0.1), 400)])
    model = LatentDirichletAllocation(6, doc_length=30, epsilon=8.0, delta=1e-5, n_steps=5, random_state=0).fit(counts)
    assert sorted(model.hierarchy().order) == [*range(6)]
    page = html_report(model, words=[f"w{k}" for k in range(40)])
    assert page.count('<div class="lines"') == 1 and "mean Hellinger distance" in page
    axes = model.plot_hierarchy().axes
    assert len(axes) == 2 and len(axes[0].lines) == 5
    with pytest.raises(ValueError, match="expected 6"):
        model.plot_hierarchy(["one"])
    public = PublicVectors(np.eye(3), np.eye(3), np.ones(3), ["cough", "wheel", "rent"], np.eye(3), "an example")
    z = np.arange(900) % 3
    clusters = DocumentClusters(3, public=public, epsilon=8.0, random_state=0)
    clusters.fit(np.eye(3)[z], np.eye(3, dtype=int)[z])
    assert "mean Euclidean distance" in html_report(clusters) and len(clusters.hierarchy().order) == 3


def test_the_noise_hardly_moves_distances_and_a_subtraction_would():
    """Noise moves distances little; a subtraction would move them more.

    Statistics are clear; the read-out is compared with the distances before.
    """
    rng = np.random.default_rng(0)
    topics = planted(6, 300)
    counts = np.array([rng.multinomial(40, t @ topics) for t in rng.dirichlet(np.full(12, 0.1), 3000)])
    model = LatentDirichletAllocation(12, doc_length=40, noise_multiplier=0.02, n_steps=12, random_state=0)
    clear = model.fit(counts)._restored()
    exact, sd = np.maximum(clear._average.values, 0.0), np.broadcast_to(clear._average.noise_sd, (300, 12))
    truth, pairs = hellinger(exact.T), np.triu_indices(12, 1)
    sd = sd * float((exact / sd).max(axis=0).mean()) / 17.0
    errors = []
    for _ in range(3):
        seen = copy.deepcopy(clear)
        seen._average.values, seen._average.noise_sd = exact + rng.normal(size=sd.shape) * sd, sd.copy()
        seen._shrinkage = seen._read_out(12)
        seen._shrinkage.update(seen._average.values, seen._average.noise_sd)
        components = seen.result()["components"]
        totals = components.sum(axis=1, keepdims=True)
        shares, spread = components / totals, seen.standard_errors() / totals
        # The variance of the root of a share, to first order.
        noise = 0.5 * np.minimum(spread**2 / (4 * shares), shares).sum(axis=1)
        found = hellinger(components)
        less = np.sqrt(np.maximum(found**2 - noise[:, None] - noise, 0.0))
        errors.append([np.sqrt(((one - truth)[pairs] ** 2).mean()) for one in (found, less)])
    plain, subtracted = np.mean(errors, axis=0)
    assert plain < 0.06 and subtracted > 1.5 * plain


def test_refusals():
    with pytest.raises(ValueError, match="distances: 1 members; expected at least 2"):
        Hierarchy.of(np.zeros((1, 1)))
    with pytest.raises(ValueError, match="n_groups=9: expected"):
        Hierarchy.of(hellinger(planted())).groups(9)
