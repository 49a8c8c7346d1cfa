"""Values of parameters."""

import operator
import secrets
from typing import Any

import numpy as np

from ..checks import check_name, machine_memory


def public_seed(random_state: Any) -> int:
    """Make a seed for public randomness from a scikit-learn ``random_state``.

    Raises ValueError if it is of another kind.
    """
    if random_state is None:
        return secrets.randbits(63)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**62, dtype=np.int64))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**62))
    try:
        seed = operator.index(random_state)
    except TypeError:
        seed = -1
    if seed < 0:
        raise ValueError(f"random_state={random_state!r}: expected an integer >= 0, a numpy generator or None")
    return seed


def check_memory(what: str, need: int, advice: str = "") -> None:
    """Raise MemoryError if more bytes are needed than the machine has.

    Nothing is refused if the size of the memory is unknown.
    """
    if need > (have := machine_memory()):
        raise MemoryError(f"{what}, and the machine has {have / 2**30:.1f} GiB{advice}")


def same(a: Any, b: Any) -> bool:
    """Compare two arguments."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    try:
        return bool(a is b or a == b)
    except ValueError:
        return False


def stated_classes(classes: Any, most: int) -> np.ndarray | None:
    """Sort the labels of a classifier's ``classes``; None for None.

    Raises ValueError unless they are two to ``most`` different numbers or strings.
    """
    if classes is None:
        return None
    known, shape = np.unique(np.asarray(classes)), np.shape(classes)
    if len(shape) != 1 or not 2 <= len(known) <= most or len(known) != shape[0]:
        expected = "two" if most == 2 else f"2 to {most}"
        raise ValueError(f"classes={classes!r}: expected {expected} different labels, numbers or strings")
    if known.dtype.kind not in "fiubU":
        raise ValueError(f"classes={classes!r}: expected numbers or strings")
    return known


def unit_name(groups: Any, unit: str | None) -> str:
    """Name the privacy unit.

    Raises ValueError for a name that does not go with ``groups``.
    """
    if groups is None:
        if unit is not None:
            raise ValueError(f"unit={unit!r}: expected None without groups, or groups that say whose each row is")
        return "record"
    if unit is None:
        return "person"
    check_name("unit", unit)
    if unit == "record":
        raise ValueError("unit='record': expected the name of the privacy unit, such as 'person'")
    return unit
