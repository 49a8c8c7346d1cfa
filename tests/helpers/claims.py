"""The claims of docs/privacy.md, as rows of its tables."""

import re
from pathlib import Path
from typing import NamedTuple

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "privacy.md").read_text("utf-8")
HEAD = "| Claim | Why | Proof | Test | Mutant |"
NONE = "–"
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


class Claim(NamedTuple):
    section: str
    claim: str
    why: str
    proof: str
    test: str
    mutant: str


def claims():
    """Return all rows under the head of claims. With the title that they stand under."""
    found, section, inside = [], "", False
    for line in PAGE.splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        inside = line == HEAD or (inside and line.startswith("|"))
        if inside and line != HEAD and set(line) - set("| -"):
            found.append(Claim(section, *(cell.strip() for cell in line.strip("|").split(" | "))))
    return found


CLAIMS = claims()
