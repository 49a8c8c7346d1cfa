"""The panel: corpora and tables on which each mechanism and default is judged beside rivals of a few lines."""

import sys
from pathlib import Path

#: ``python -m bench.panel.text`` finds the other benches' modules.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
