"""Show text from hostile files."""

import unicodedata

from vips_fast.store.text import printable


def test_every_character_that_drives_a_terminal_is_escaped():
    found = {chr(code) for code in range(0x110000) if printable(chr(code)) != chr(code)}
    drives = {c for c in map(chr, range(0x110000)) if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    turns = {c for c in map(chr, range(0x110000)) if unicodedata.bidirectional(c) in BIDI} | set("\u200e\u200f\u061c")
    assert found == (drives | turns) - {"\n", "\t"}
    assert all(printable(c).isprintable() and printable(c).startswith("\\") for c in found)
    # Joiners are letters of some scripts.
    assert printable("naïve\u200cمی‌خواهم\t健康\n") == "naïve\u200cمی‌خواهم\t健康\n"


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
