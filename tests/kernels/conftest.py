"""What the tests of the noise share."""

import pytest

from vips_fast.kernels import noise


@pytest.fixture
def no_key(monkeypatch):
    def refuse(*_):
        raise AssertionError("a key was drawn")

    monkeypatch.setattr(noise.native, "Key", refuse)
