"""Labels of rows: numbers by first appearance, and what is refused."""

import datetime

import numpy as np
import pytest

from vips_fast.data.groups import check_whole, group_codes


@pytest.mark.parametrize(
    "labels",
    [
        [7, 3, 7, 7, -1],
        ["w", "a", "w", "w", ""],
        np.array([2.5, 0.0, 2.5, 2.5, np.inf]),
        np.array(["b", "a", "b", "b", "ab"]),
        np.array([9, 1, 9, 9, 0], dtype=np.uint8),
        [("x", 1), "x", ("x", 1), ("x", 1), 1],
        np.array(["2020-01-02", "2020-01-01", "2020-01-02", "2020-01-02", "1999-01-01"], dtype="datetime64[D]"),
        [datetime.date(2020, 1, 2), "a", datetime.date(2020, 1, 2), datetime.date(2020, 1, 2), 5],
        [True, 0, True, True, "True"],
    ],
)
def test_labels_are_numbered_by_first_appearance(labels):
    codes = group_codes(labels, 5)
    assert codes.dtype == np.int64 and codes.tolist() == [0, 1, 0, 0, 2]


def test_no_rows():
    assert group_codes([], 0).shape == (0,)


@pytest.mark.parametrize("labels", [[1, 2], [[1, 2, 3]], np.zeros((3, 1)), 5, "abc"])
def test_one_label_for_each_row(labels):
    with pytest.raises(ValueError, match=r"^groups has shape .*: expected \(3,\), one label for each row of X$"):
        group_codes(labels, 3)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        np.array([1.0, np.nan, 2.0]),
        ["a", float("nan"), "b"],
        np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[D]"),
    ],
)
def test_missing_labels_are_refused_without_being_shown(labels):
    with pytest.raises(ValueError, match="^groups: expected a label for each row of X; some are missing$"):
        group_codes(labels, 3)


def test_labels_must_be_hashable():
    with pytest.raises(TypeError, match="^groups: expected hashable labels .* of type list$"):
        group_codes([["secret"], 2, 3], 3)


DAY = np.array(["2020-01-01"], dtype="datetime64[s]")


@pytest.mark.parametrize(
    "blocks",
    [
        ([1, "a"], [1, 2]),
        (["x", 1.0], [1, 2]),
        (DAY, DAY.astype("datetime64[ns]")),
        (np.float32([0.1]), np.array([0.1])),
        (["a\0"], np.array(["a\0"])),
    ],
)
def test_blocks_of_labels_that_cannot_be_held_against_each_other(blocks):
    with pytest.raises(ValueError, match="^groups: expected labels of one kind in all blocks$"):
        check_whole(blocks)


@pytest.mark.parametrize(
    "blocks",
    [
        ([1, 2, 2], [], np.array([3, 2], dtype=np.uint8)),
        (["x", 1.0], ["y", 1]),
        ([("x", 1)], [("y", 1), ("x", 1)]),
        (np.array(["a", "bcd"]), np.array(["c", "a"])),
        (DAY, DAY + 1, DAY),
        (np.array([[1], [2]]), np.array([[2]])),
    ],
)
def test_a_person_in_two_blocks(blocks):
    with pytest.raises(ValueError, match="^groups: expected all rows of a person in one block$"):
        check_whole(blocks)
    check_whole(blocks[:1])


def test_whole_persons_in_blocks():
    check_whole(([1, 1, 2], [], np.array([3], dtype=np.uint8), [2**63]))
    check_whole((["a", "a"], ["b"]))
    check_whole((DAY, DAY + 1))
    with pytest.raises(ValueError, match="some are missing"):
        check_whole((["a", None], ["b"]))
