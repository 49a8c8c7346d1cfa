"""One word a concept.

Words that the glossary replaced occur no more often than glossary.json says.

Each entry names the term that the project uses, the words that it does not, and where these are looked for: in code,
messages, options, docstrings and pages alike. Code has none of these words, and stays so; the counts are of pages. They
may only fall; ``python tests/test_glossary.py`` stores lower ones.
"""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STORED = Path(__file__).with_name("glossary.json")
PACKAGE = ("vips_fast/", "csrc/")
PAGES = ("docs/", "README.md", "CONTRIBUTING.md", "SECURITY.md")
EVERYWHERE = (*PACKAGE, *PAGES, "bench/", "tests/", ".ci/", "Makefile", "CHANGELOG.md")
#: Engine, store and jobs know no Bayesian prior, except in assumptions, and texts with their public prior.
BELOW = ("vips_fast/engine/", "vips_fast/store/", "vips_fast/jobs/")
#: A page that shows words of posts.
KEYWORDS = ("docs/mixtures_measured.md",)
TEXT = (".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".toml", ".json", ".md", ".html", ".css", ".yml", ".mk", "Makefile")


@dataclass(frozen=True)
class Term:
    """A term, the pattern of words to avoid, and its files.

    These are searched.
    """

    instead: str
    pattern: str
    within: tuple[str, ...] = (*PACKAGE, *PAGES, "bench/")
    #: Beginnings of paths whose words mean something else.
    allowed: tuple[str, ...] = ()

    def found(self) -> list[str]:
        """Each occurrence, as file:line."""
        out = []
        for name, text in texts():
            if name.startswith(self.within) and not name.startswith(self.allowed or ("\0",)):
                for match in re.finditer(self.pattern, text):
                    out.append(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}")
        return out


TERMS = {
    "forecast: foresee, foretell": Term("forecast", r"(?i)fore(?:tell|told|see|saw)"),
    "forecast: outlook": Term("forecast", r"(?i)outlook"),
    "diagnostics: figures": Term("diagnostics", r"\b_?figures", (*BELOW, "vips_fast/models/", "vips_fast/cli/")),
    "diagnostics: opened": Term("diagnostics, or the verb that is meant", r"\bopened\b"),
    "on_release: keep": Term("on_release, or keywords by name", r"\*\*keep\b|\bkeep(?=: |=)|\bkeep\.\w+\("),
    "influence, fits: room": Term("fits, influence", r"\broom\b"),
    "influence: heard": Term("has influence", r"\bheard\b", allowed=KEYWORDS),
    "contribution: release in C": Term(
        "contribution",
        r"(?i)(?<!blend_)release(?!d? (?:the|GIL|memory|numbers)|s the GIL)",
        ("csrc/",),
        ("csrc/noise/", "csrc/lda/noised.c"),
    ),
    "vocabulary purchase: bought": Term(
        "vocabulary purchase, choose", r"\b_?(?:bought|buy|buys|buying)(?:\b|_)", allowed=KEYWORDS
    ),
    "guarantee: promise": Term("guarantee", r"(?i)\bpromis(?:e|es|ed|ing)\b"),
    # A file has an owner, and so has scikit-learn's request for metadata.
    "privacy unit: owner": Term(
        "privacy unit, person",
        r"(?i)(?<!someone who )(?<!MetadataRequest\()\b_?own(?:er|ers|s|ed)\b",
        allowed=("vips_fast/store/", "docs/jobs.md"),
    ),
    "word neighbors: used alike": Term("word neighbors", r"\bused\s+alike\b"),
    "plan: prepared": Term("plan", r"\bPrepared\b|\bprepared\b"),
    "vocabulary purchase: prior": Term(
        "vocabulary purchase",
        r"\bprior\b",
        BELOW,
        ("vips_fast/engine/assumptions.py", *(f"vips_fast/jobs/{name}.py" for name in ("clusters", "text", "topics"))),
    ),
    "starts_event: charged": Term("starts_event", r"\bcharged\("),
    "unpack_block: opened": Term("unpack", r"\bdef _?opened\b"),
    "resume: go on": Term("resume", r"\b(?:go|goes|going|went|gone) on\b"),
    "without result: in vain": Term("without result", r"\bin vain\b"),
    "American spelling": Term(
        "neighbor, color, favor, behavior, center, -ize, labeled, learned",
        r"(?i)(?:neighbour|colour|favour|behaviour|honour|labour|analyse|catalogue|licence|judgement|modelling|learnt|"
        r"(?<!aria-)labelled|travell|centre|(?:random|binar|discret|standard|maxim|minim|vector|pseudonym|penal|general|"
        r"normal|summar|recogn|organ|optim|initial|regular)is(?:e|ed|es|ing|ation)\b)",
        EVERYWHERE,
        ("tests/test_glossary.py", "tests/glossary.json"),
    ),
}


def texts():
    """Name and text of each file of the project that people write."""
    if not _texts:
        command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        for name in names:
            if name.endswith(TEXT) and name.startswith(EVERYWHERE) and (ROOT / name).is_file():
                _texts.append((name, (ROOT / name).read_text("utf-8", errors="replace")))
    return _texts


_texts: list[tuple[str, str]] = []


@pytest.mark.parametrize("name", TERMS)
def test_words_of_no_concept_do_not_return(name):
    found, stored = TERMS[name].found(), json.loads(STORED.read_text())[name]
    places = "\n".join(found[:40])
    code = [place for place in found if not place.startswith(PAGES)]
    assert not code, f"say {TERMS[name].instead} in code:\n" + "\n".join(code)
    assert len(found) <= stored, f"say {TERMS[name].instead}; {len(found)} found, {stored} stored:\n{places}"
    fell = "store the lower count: python tests/test_glossary.py"
    assert len(found) >= stored - max(5, stored // 5), f"{len(found)} found, {stored} stored; {fell}"


def test_every_term_has_its_count():
    assert set(json.loads(STORED.read_text())) == set(TERMS)


def test_a_word_is_found_in_code_and_in_prose():
    """Identifiers, options and messages count as docstrings do."""
    for text in ("def _foresee(self):", '"--foresee"', "It foresees the end."):
        assert re.search(TERMS["forecast: foresee, foretell"].pattern, text)
    keep = TERMS["on_release: keep"].pattern
    assert re.search(keep, "def fit(self, X, **keep):") and not re.search(keep, "keep the rows")
    spelling = TERMS["American spelling"].pattern
    assert re.search(spelling, "Neighbouring") and not re.search(spelling, "neighboring, raise, precise, likewise")


def lower():
    """Store the counts that fell.

    A new term gets the count of today.
    """
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    counts = {name: len(term.found()) for name, term in TERMS.items()}
    rose = {name: count for name, count in counts.items() if count > stored.get(name, count)}
    lines = {name: min(count, stored.get(name, count)) for name, count in counts.items()}
    STORED.write_text(json.dumps(lines, indent=2) + "\n")
    print(json.dumps(lines, indent=2))
    for name, count in rose.items():
        print(f"{name}: {count} found; say {TERMS[name].instead}", *TERMS[name].found(), sep="\n  ")


if __name__ == "__main__":
    lower()
