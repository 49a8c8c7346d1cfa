"""The statements of fits of every kind, with known noise, as one reviewed text: ``golden.txt``.

If you change a sentence on purpose, store the text again and read it:
``PYTHONPATH=tests/helpers python tests/report/test_golden.py``.
"""

from pathlib import Path

import numpy as np
import reported

from vips_fast import LatentDirichletAllocation

GOLDEN = Path(__file__).with_name("golden.txt")


def model(**facts):
    made = LatentDirichletAllocation(2, doc_length=12, random_state=0, **facts)
    return reported.known(made), np.random.default_rng(0).poisson(0.6, (200, 12))


def statements():
    for name in ("topics", "tainted", "coefficients", "images", "vocabulary"):
        yield name, getattr(reported, name)()
    for kind, parts in (("calls with an odometer", (None, None)), ("parts", ("monday", "tuesday"))):
        called, rows = model(noise_multiplier=8.0, batch_size=200)
        for part in parts:
            called.partial_fit(rows, part=part)
        yield kind, called
    fitted, rows = model(epsilon=2.0, n_steps=2)
    yield "persons", fitted.fit(rows, groups=np.arange(200) // 2, unit="patient")
    fitted, rows = model(epsilon=2.0, n_steps=2, options={"relation": "replace_one"}, batch_size=50)
    yield "samples of a fixed size", fitted.fit(rows)


def golden():
    lines = (f"{kind}: {' '.join(str(fitted.privacy_).split())}\n" for kind, fitted in statements())
    return "\n".join(["# Statements\n", *lines])


def test_sentences_are_the_reviewed_ones():
    assert golden() == GOLDEN.read_text("utf-8"), (
        "read the new text: PYTHONPATH=tests/helpers python tests/report/test_golden.py"
    )


if __name__ == "__main__":
    GOLDEN.write_text(golden(), "utf-8")
