"""Warn of private fits that nothing counts: no budget pays for them, and others may have read the same records.

A statement is about one fit. Whether other fits add to it is judged by calls alone and by no record, so the warning
reveals nothing; and it comes before the fit spends anything. Only this process is seen: a fit in a worker, beside which
others may run, always warns. A program that is started twice is not seen at all.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Fits of this process that no budget paid, by the heads of their ledgers; each with the fits that it includes.
_fits: dict[object, frozenset[object]] = {}
_forked = False


def _note_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_note_fork)


def in_worker() -> bool:
    """Tell whether this process works for another: a child, forked or of a pool, or a worker of Dask."""
    from multiprocessing import parent_process

    if _forked or parent_process() is not None:
        return True
    distributed = sys.modules.get("distributed")  # a worker of Dask without a nanny is nobody's child
    try:
        return distributed is not None and distributed.get_worker() is not None
    except (ValueError, AttributeError):
        return False


@contextmanager
def uncounted_fit(name: str, continues: str | None, purchase: str | None) -> Iterator[Callable[[str], None]]:
    """Warn if a fit without budget adds to others, and remember it.

    ``continues`` and ``purchase`` are heads of the ledgers that the fit goes on from and includes. Call what this gives
    with the fit's own head. A fit that ends in an error may have spent something, and counts.
    """
    own: set[object] = {head for head in (continues, purchase) if head is not None}
    own = own.union(*(_fits.get(head, ()) for head in own))
    where = "in a worker process" if in_worker() else "after another such fit in this process"
    if in_worker() or set(_fits) - own:
        warnings.warn(
            f"{name} is fitted with privacy and without a budget, {where}: the epsilons of fits to the "
            "same records add up, and no statement says to how much. Give budget= to count and bound them",
            stacklevel=5,
        )
    key = object()
    _fits[key] = frozenset()

    def done(head: str) -> None:
        for old in (key, continues):
            _fits.pop(old, None)
        _fits[head] = frozenset(own)

    yield done
