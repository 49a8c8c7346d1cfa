"""What the tests of the data share."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def misaligned():
    """Return a function that copies an array one byte off its alignment."""

    def copy(array):
        shifted = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        shifted[...] = array
        assert not shifted.flags.aligned
        return shifted

    return copy
