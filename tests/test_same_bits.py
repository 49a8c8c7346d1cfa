"""Every model along every path gives its bits in same_bits.json.

A change that means to keep all results keeps these digests. Numbers of plans and events are compared on every machine;
digests of arrays only where the environment is the recorded one, since floating-point bits depend on the instruction
set and on numpy and scipy.

If a change of bits is intended, record anew and say why in the commit: ``python tests/test_same_bits.py``.
"""

import json
import math
import os
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path[:0] = [str(Path(__file__).parent / "helpers"), str(Path(__file__).parent.parent / "docs" / "examples")]

import bits
import pytest

STORED = Path(__file__).with_name("same_bits.json")
RECORD = json.loads(STORED.read_text()) if STORED.exists() else {"environment": {}, "cases": {}}


def close(found, stored):
    """Tell whether nested lists of numbers and texts agree to 11 digits."""
    if isinstance(stored, list):
        return isinstance(found, list) and len(found) == len(stored) and all(map(close, found, stored))
    if isinstance(stored, float) and isinstance(found, (int, float)):
        return found == stored or math.isclose(found, stored, rel_tol=1e-11)
    return found == stored


@pytest.mark.parametrize("case", bits.MATRIX)
def test_the_bits_are_the_stored_ones(case, tmp_path):
    stored, found = RECORD["cases"][case], bits.measured(case, tmp_path)
    assert found.pop("said", None) is None or "refused" in stored, "refused now"
    assert found.keys() == stored.keys()
    assert close(found.get("numbers"), stored.get("numbers")), "numbers of plans, events or the statement"
    assert found.get("refused") == stored.get("refused")
    here = bits.environment()
    if here != RECORD["environment"] and "refused" not in stored:
        differs = [f"{key} {here[key]}, not {was}" for key, was in RECORD["environment"].items() if here[key] != was]
        pytest.skip(f"the numbers agree; digests of arrays were recorded elsewhere: {', '.join(differs)}")
    assert found == stored


def test_every_case_is_stored():
    assert set(RECORD["cases"]) == set(bits.MATRIX), "python tests/test_same_bits.py records anew"


def record():
    cases = {}
    for case in bits.MATRIX:
        with tempfile.TemporaryDirectory() as folder:
            cases[case] = bits.measured(case, Path(folder))
        if (said := cases[case].pop("said", None)) is not None:
            print(f"{case}: {cases[case]['refused']}: {said}")
    lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(found)}" for case, found in cases.items())
    STORED.write_text(f'{{"environment": {json.dumps(bits.environment())},\n"cases": {{\n{lines}\n}}}}\n')
    print(f"{len(cases)} cases, {STORED.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    record()
