"""``python -m bench.paper``; see runner.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from runner import main

if __name__ == "__main__":
    raise SystemExit(main())
