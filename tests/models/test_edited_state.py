"""The state that a later call goes on from belongs to the fit, as the published arrays do."""

import numpy as np
import pytest

from vips_fast import BayesianLogisticRegression
from vips_fast.store.npz import read_npz, write_npz


def test_a_changed_state_does_not_load(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    BayesianLogisticRegression(noise_multiplier=5.0, n_steps=2).fit(X, y).save(tmp_path / "m")
    arrays = read_npz(tmp_path / "m" / "model.npz")
    names = [name for name in arrays if name.startswith("state.") and arrays[name].size]
    assert names
    for name in names:
        write_npz(tmp_path / "m" / "model.npz", arrays | {name: np.nextafter(arrays[name], 1e9)})
        with pytest.raises(ValueError):
            BayesianLogisticRegression.load(tmp_path / "m")
    write_npz(tmp_path / "m" / "model.npz", arrays)
    assert BayesianLogisticRegression.load(tmp_path / "m").n_steps_ == 2
