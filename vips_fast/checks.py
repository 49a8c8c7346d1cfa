"""Check arguments; messages name argument, value and valid values."""

import math
import operator
import os
import secrets
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float,
    *,
    integer: bool = False,
    low_open: bool = False,
    high_open: bool = False,
    optional: bool = False,
) -> Any:
    """Check a number, and return it as int or float.

    ``optional`` permits None. Raises ValueError if it is no number, or out of its range.
    """
    if optional and value is None:
        return None
    number, kind = math.nan, Integral if integer else Real
    if isinstance(value, kind) and not isinstance(value, (bool, np.bool_)):
        with suppress(OverflowError):  # an integer beyond doubles is in no range of theirs
            number = int(cast(int, value)) if integer else float(cast(float, value))
    if (low < number if low_open else low <= number) and (number < high if high_open else number <= high):
        return number
    interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open or high == math.inf else ']'}"
    raise ValueError(f"{name}={shown(value)}: expected {'an integer' if integer else 'a number'} in {interval}")


def shown(value: Any) -> str:
    """Print a value in one short line, or only its type."""
    text = "\n"
    with suppress(ValueError):  # Python prints no very long integers
        text = repr(value)
    return text if len(text) < 200 and "\n" not in text else type(value).__name__


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """Return a value that is one of the choices; raise ValueError for another."""
    for choice in choices:
        # The type keeps 1 apart from True; a string of NumPy, as a grid of parameters has, is a string.
        if value is choice or ((type(value) is type(choice) or isinstance(value, str)) and value == choice):
            return choice
    raise ValueError(f"{name}={shown(value)}: expected one of {', '.join(map(repr, choices))}")


def check_name(name: str, value: Any) -> str:
    """Check a name: printable text without space at its ends. Raises ValueError for other names."""
    if not isinstance(value, str) or not value or value != value.strip() or not value.isprintable():
        raise ValueError(f"{name}={value!r}: expected a name")
    return value


def check_flag(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise a ValueError unless value is True or False, or with ``optional`` None."""
    if not isinstance(value, (bool, np.bool_)) and not (optional and value is None):
        raise ValueError(f"{name}={value!r}: expected True or False")


def missing_package(what: str, package: str, extra: str) -> ImportError:
    """Make the error for a missing package, with the remedy.

    The remedy is the line that installs this optional package. The first argument names the feature that needs it;
    ``extra`` is its name in pyproject.toml.
    """
    return ImportError(f'{what} needs the package {package}: pip install "vips_fast[{extra}]"', name=package)


def machine_memory() -> float:
    """Read the machine's memory in bytes; infinity if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


def check_array(
    name: str, value: ArrayLike, shape: tuple[int, ...], low: float = -math.inf, high: float = math.inf
) -> np.ndarray:
    """Check a finite array; return it as C-contiguous float64. It has this shape, and entries in [low, high]."""
    array = np.ascontiguousarray(value, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}: expected {shape}")
    if not np.isfinite(array).all() or (array.size and (array.min() < low or array.max() > high)):
        raise ValueError(f"{name}: expected finite values in [{low:g}, {high:g}]")
    return array


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


def same(a: Any, b: Any) -> bool:
    """Compare two arguments."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    try:
        return bool(a is b or a == b)
    except ValueError:
        return False
