"""Join planted pairs of topics, place them, and draw both."""

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


def test_refusals():
    with pytest.raises(ValueError, match="distances: 1 members; expected at least 2"):
        Hierarchy.of(np.zeros((1, 1)))
    with pytest.raises(ValueError, match="n_groups=9: expected"):
        Hierarchy.of(hellinger(planted())).groups(9)
