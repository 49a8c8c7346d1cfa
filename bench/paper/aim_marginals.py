"""Marginals by AIM, for the interpreter that has dpmm.

python aim_marginals.py GIVEN.npz MADE.npz
"""

import sys

import numpy as np
import pandas as pd
from dpmm.models.aim import AIM


def main(given, made):
    """Make the model's marginals and records from codes and their sizes.

    Files: from ``given`` to ``made``.
    """
    said = np.load(given)
    codes, sizes = said["codes"], said["sizes"].tolist()
    frame = pd.DataFrame(codes, columns=[str(i) for i in range(len(sizes))])
    prng = np.random.RandomState(np.random.SeedSequence().generate_state(4))
    aim = AIM(
        epsilon=float(said["epsilon"]),
        delta=float(said["delta"]),
        prng=prng,
        max_model_size=float(said["size"]),
        n_iters=int(said["n_iters"]),
        degree=2,
        domain=dict(zip(frame.columns, sizes, strict=True)),
        n_jobs=1,
    )
    aim.fit(frame)
    out = {}
    for i in range(len(sizes)):
        out[f"{i}"] = aim.model.project((str(i),)).datavector()
        for j in range(i):
            out[f"{j}-{i}"] = aim.model.project((str(j), str(i))).datavector().reshape(sizes[j], sizes[i])
    # As many records as the model itself thinks there are.
    np.savez(made, records=aim.model.synthetic_data().df.to_numpy(), **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
