"""How much an audit does, and how sure it is."""

from dataclasses import dataclass

#: A draw fails a check of a true claim this often. The tests run hundreds of them on fresh
#: noise, so a check that chance can fail is drawn again, and fails if both draws fail.
ERROR = 1e-6
#: Of each end of the confidence bounds of layers D, E and H.
CONFIDENCE_ERROR = 1e-5

#: Records of the data sets of layers D and E.
N_RECORDS = 20


@dataclass(frozen=True)
class Sizes:
    """How much each layer does.

    ``pairs`` generated pairs of layer A. ``records`` that layer B examines one by one, and ``rows`` of its largest data
    set. Noise ``draws`` of layer C, from two runs. ``releases`` a side and noise multiplier of layer D. Whole ``runs``
    a side of layer E; ``canaries`` of layer H, at most.
    """

    pairs: int
    records: int
    draws: int
    releases: int
    runs: int
    rows: int = 2**20
    canaries: int = 10_000


QUICK = Sizes(pairs=500, records=60, draws=800_000, releases=8_000, runs=1_500)
FULL = Sizes(pairs=500, records=1_000, draws=10_000_000, releases=30_000, runs=20_000, rows=2**22, canaries=10**6)
