"""Order topics or clusters by likeness: distances, a map, a hierarchy.

All follows from released parameters, and costs no privacy. Distances are between posterior means, which the noise makes
a little shorter and not longer. So the expected squared noise is not subtracted from them. At 17 standard errors for
the first words of 12 topics, distances of .63 come out as .61, and as .54 after a subtraction
(``tests/models/test_hierarchy.py``). Where all topics are noise, all distances are alike, and the hierarchy joins them
near one height.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..checks import check_number
from ..data.types import Array, Labels, Matrix
from .estimator import PrivateEstimator
from .plots import column_names, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def hellinger(components: Array) -> Matrix:
    """Compute Hellinger distances (K, K) of topics (K, V), in [0, 1]."""
    roots = np.sqrt(components / components.sum(axis=1, keepdims=True))
    alike = np.clip(np.einsum("kv,lv->kl", roots, roots), 0.0, 1.0)
    np.fill_diagonal(alike, 1.0)
    apart: Matrix = np.sqrt(1.0 - alike)
    return apart


def euclidean(centers: Array) -> Matrix:
    """Compute Euclidean distances (K, K) of centers (K, D)."""
    apart: Matrix = np.sqrt(((centers[:, None] - centers[None]) ** 2).sum(axis=2))
    return apart


def classical_mds(distance: Matrix) -> tuple[Matrix, float]:
    """Find points (K, 2) with about these distances, and the share shown.

    Classical multidimensional scaling (Torgerson 1952) by the two leading eigenvectors of -J D² J / 2, J = I - 1/K.
    Each has a sign that makes its largest entry positive.
    """
    center = np.eye(len(distance)) - 1.0 / len(distance)
    values, vectors = np.linalg.eigh(-0.5 * np.einsum("ij,jk,kl->il", center, distance**2, center))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    plane = np.zeros((len(distance), 2))
    found = vectors[:, :2] * np.sqrt(values[:2])
    plane[:, : found.shape[1]] = found * np.sign(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])])
    total = float(values.sum())
    return plane, float(values[:2].sum()) / total if total > 0 else 0.0


@dataclass(frozen=True)
class Hierarchy:
    """Topics or clusters, joined one pair after the other (average linkage).

    Attributes
    ----------
    distances : array of float64, (K, K)
    links : array of float64, (K - 1, 4)
        A row joins two groups at a height: their numbers, the height, the number of members. Numbers from K on are the
        groups of the rows before. It is the form of ``scipy.cluster.hierarchy``, whose functions take it.
    order : tuple of int
        The members as a drawing without crossing lines has them.
    """

    distances: Matrix
    links: Matrix
    order: tuple[int, ...]

    @classmethod
    def of(cls, distances: Matrix) -> Hierarchy:
        """Join by mean distance; ValueError for fewer than two members."""
        if len(distances) < 2:
            raise ValueError(f"distances: {len(distances)} members; expected at least 2")
        from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
        from scipy.spatial.distance import squareform

        apart = squareform(0.5 * (distances + distances.T), checks=False)
        links = optimal_leaf_ordering(linkage(apart, "average"), apart)
        return cls(distances, links, tuple(map(int, leaves_list(links))))

    def groups(self, n_groups: int) -> Labels:
        """Cut into groups: int64 (K,), from 0, by the order."""
        check_number("n_groups", n_groups, 1, len(self.order), integer=True)
        from scipy.cluster.hierarchy import fcluster

        found = fcluster(self.links, n_groups, "maxclust")
        numbers: dict[int, int] = {}
        for k in self.order:
            numbers.setdefault(int(found[k]), len(numbers))
        return np.array([numbers[int(one)] for one in found], np.int64)

    def joints(self) -> list[tuple[float, float, float, float, float]]:
        """List the joints: two heights of branches, their two places, the height."""
        place = {k: float(i) for i, k in enumerate(self.order)}
        height = dict.fromkeys(self.order, 0.0)
        found = []
        for number, (a, b, at, _) in enumerate(self.links.tolist(), len(self.order)):
            one, other = sorted((int(a), int(b)), key=lambda k: place[k])
            found.append((height[one], height[other], place[one], place[other], at))
            place[number], height[number] = 0.5 * (place[one] + place[other]), at
        return found


def plot_hierarchy(model: PrivateEstimator, found: Hierarchy, names: Sequence[str] | None) -> Figure:
    """Draw a hierarchy beside the map of the same distances."""
    n = len(found.order)
    known = column_names(names, n, "{}")
    figure = new_figure(model, 11.0, max(3.5, 0.22 * n + 1.2))
    tree, panel = figure.subplots(1, 2, width_ratios=(3, 2))
    for left, right, top, bottom, at in found.joints():
        tree.plot([left, at, at, right], [top, top, bottom, bottom], color="#0b5cad", linewidth=1.2)
    tree.set_yticks(range(n), [known[k] for k in found.order], fontsize=8)
    tree.invert_yaxis()
    tree.set_xlim(left=0.0)
    tree.spines[["top", "right", "left"]].set_visible(False)
    tree.set_xlabel("mean distance", fontsize=8)
    plane, shown = classical_mds(found.distances)
    panel.scatter(*plane.T, s=30, color="#0b5cad", alpha=0.4)
    for k in range(n):
        panel.annotate(str(k + 1), plane[k], fontsize=8, ha="center", va="center")
    panel.set_aspect("equal", "datalim")
    panel.set_axis_off()
    panel.set_title(f"map: {shown:.0%} of the squared distances", fontsize=9)
    return figure
