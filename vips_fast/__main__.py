"""``python -m vips_fast``: the same as the command ``vips-fast``."""

import sys

from vips_fast.cli import main

if __name__ == "__main__":
    sys.exit(main())
