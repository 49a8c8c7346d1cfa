"""Purchased vocabularies: the words and their noised shares."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...store.words import counted, several
from .. import figures
from ..part import MOST_ROWS, Group, Learned, Part


class Words(Part):
    """The part of a vocabulary."""

    needs_names = False

    def released(self, model: Any) -> str:
        """Give the number of words."""
        return (
            f"{counted(len(model.shares_), 'word')}, with the share of the {several(model.privacy_.unit)} that use each"
        )

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show the commonest words."""
        names, shares = [str(name) for name in model.get_feature_names_out()], model.shares_
        order = np.argsort(-shares, kind="stable")[:MOST_ROWS]
        groups = []
        for first in range(0, len(order), 20):
            part = order[first : first + 20]
            rows = figures.bars([names[j] for j in part], shares[part].tolist())
            groups.append(Group(f"Words {first + 1} to {first + len(part)}", rows))
        units = several(model.privacy_.unit)
        return Learned(
            f"{counted(len(names), 'word')} that enough {units} use. A bar is the noised share of the {units} that "
            "hold the word.",
            groups=tuple(groups),
            words=tuple(names),
            note="" if names else "No word passed the threshold: the vocabulary is empty.",
        )
