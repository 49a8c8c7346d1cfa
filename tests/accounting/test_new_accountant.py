"""An accountant that is added, rehearsed in a copy.

Three files, and every test that asks for them knows it.
"""

import re

from rehearsal import ROOT, add, call, copy_tree, listed

#: All that it takes, by file: its text, or a mark in an existing file and the text to put before it.
ADDED = {
    "vips_fast/accounting/simple.py": '''"""The simple conversion of zero-concentrated differential privacy."""

from .accountant import Accountant
from .events import PrivacyEvent
from .zcdp import zcdp_epsilon, zcdp_rho


class SimpleAccountant(Accountant):
    """Bound rho-zCDP by rho + 2 sqrt(rho ln(1/delta)) (Bun & Steinke 2016, proposition 1.3, with its proof).

    >>> from vips_fast.accounting import GaussianEvent, epsilon
    >>> round(epsilon(GaussianEvent(1.0), 1e-5, "simple"), 4)
    5.2985
    """

    name = "simple"
    title = "zero-concentrated differential privacy, simple conversion"
    source = "Bun & Steinke 2016, proposition 1.3"

    def check(self, event: PrivacyEvent) -> None:
        """Accept mechanisms on the whole data that are zCDP."""
        zcdp_rho(event)

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon by `zcdp_epsilon`."""
        return zcdp_epsilon(zcdp_rho(event), delta, "simple")
''',
    "vips_fast/accounting/accountants.py": (
        "from .wang import ",
        "from .simple import SimpleAccountant\n",
        "        GenericAccountant(),\n",
        "        SimpleAccountant(),\n",
    ),
    "docs/accounting.md": ("| `generic` ", "| `simple` | sound | – | – | sound | – | Bun & Steinke 2016 |\n"),
}

REHEARSED = """
import math
from vips_fast import accounting as acc

event = acc.SelfComposedEvent(acc.GaussianEvent(10.0), 20)
rho = 20 / 200
assert acc.epsilon(event, 1e-5, "simple") == rho + 2 * math.sqrt(rho * math.log(1e5))
assert acc.delta(event, acc.epsilon(event, 1e-5, "simple"), "simple") <= 1.01e-5
assert "simple" in [row.accountant for row in acc.compare(event, 1e-5)]
assert "simple conversion" in acc.describe(event, 1e-5, "simple")
z = acc.calibrate_noise_multiplier(lambda z: acc.GaussianEvent(z), 1.0, 1e-5, "simple")
assert acc.epsilon(acc.GaussianEvent(z), 1e-5, "simple") <= 1.0
"""


def asked():
    """Tests that CONTRIBUTING.md names for an accountant, by file."""
    text = (
        (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("\n## An accountant\n")[2].partition("\nA rehearsal")[0]
    )
    return re.findall(r"`(accounting/\w+\.py)::(\w+)`", text)


def test_an_accountant_takes_three_files(tmp_path):
    assert len(ADDED) <= 3 and ADDED.keys() == listed("## An accountant", NAME="simple")
    copy_tree(tmp_path, "vips_fast", "docs/accounting.md", compiled=True)
    add(tmp_path, ADDED)
    call(tmp_path, "-c", REHEARSED)
    tests = [f"{ROOT / 'tests' / file}::{name}" for file, name in asked()]
    assert len(tests) == 7
    # Tests of one accountant; those that go over all of them take one event here.
    chosen = "simple or page or light or (gaussian and (attack or inverts)) or know_no_groups"
    done = call(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-k", chosen, *tests)
    assert all(f"::{name}" in done.stdout for _, name in asked())
    assert "states_a_published_value[simple]" in done.stdout and "refused[simple-laplace]" in done.stdout
