"""Write the files of the version switch: ``python docs/_ext/versions.py SITE``.

SITE/versions.json lists them, newest first, under the path of DOCS_BASE; SITE/index.html leads to the newest.
"""

import json
import os
import re
import sys
from pathlib import Path


def main(site: Path) -> None:
    """Write both files. Raises ValueError if no version lies in ``site``."""
    found = [path.name for path in site.iterdir() if (path / "index.html").exists()]
    numbered = [name for name in found if re.fullmatch(r"\d+(\.\d+)*", name)]
    numbered.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    names = numbered + sorted(set(found) - set(numbered))
    if not names:
        raise ValueError(f"{site}: no version of the documentation lies there")
    base = os.environ.get("DOCS_BASE", "")
    entries = [{"name": name, "version": name, "url": f"{base}/{name}/"} for name in names]
    entries[0] |= {"name": f"{names[0]} (newest)", "preferred": True}
    (site / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
    newest = f"{names[0]}/index.html"
    head = f'<meta charset="utf-8"><title>vips_fast</title><meta http-equiv="refresh" content="0; {newest}">'
    page = f'<!DOCTYPE html>{head}<a href="{newest}">vips_fast {names[0]}</a>\n'
    (site / "index.html").write_text(page, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
