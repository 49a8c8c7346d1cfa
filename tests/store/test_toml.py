"""The one reader of TOML: what it finds before `tomllib` sees a text."""

import tomllib

import pytest
from bounded import bounded

from vips_fast.store.toml import parse_toml, read_toml

LETTERS = "abcdefghijklmno"
HOSTILE = {
    "brackets": ("a = " + "[" * 4000, "recursion"),
    "braces": ("a = " + "{a=" * 4000, "recursion"),
    "brackets on lines": ("a = [\n" + "[ # ]\n" * 4000, "recursion"),
    "dots": ("a" + ".a" * 30_000 + " = 1", "too many dots in its lines"),
    "quoted dots": ('a."a\\"b"' + " . 'a]'" * 50_000 + " = 1", "too many dots in its lines"),
    "dots in a head": ("[a" + ".a" * 50_000 + "]", "too many dots in its lines"),
    "dots in braces": ("a = {a" + ".a" * 50_000 + " = 1}", "too many dots in its lines"),
    "many keys": ("\n".join(f"a{i} = 0" for i in range(300_000)), "more than 262144 keys and values"),
    "many long keys": (
        "\n".join(".".join(f"{x}{i}" for x in LETTERS) + " = 0" for i in range(30_000)),
        "more than 262144 keys and values",
    ),
    "many values": ("a = [" + "{}, " * 300_000 + "]", "more than 262144 keys and values"),
    "much text": ("a = '" + "x" * (1 << 24) + "'", "more than 8388608 characters"),
    "a wide integer": ("a = 0x" + "f" * 10**6, "an integer of more than 64 bits"),
    "many digits": ("a = " + "9" * 5000, "Exceeds the limit"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_strangers_text_takes_little(case, tmp_path):
    text, message = HOSTILE[case]
    assert bounded(lambda: parse_toml(text))[0] == "ValueError"
    (tmp_path / "a.toml").write_text(text)
    kind, said = bounded(lambda: read_toml(tmp_path / "a.toml"))
    assert kind == "ValueError" and said.startswith(f"{tmp_path}/a.toml: ") and "\n" not in said and len(said) < 500
    assert message in said or (case == "much text" and "has more than 8388608 bytes" in said)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(".".join(f"{x}{i}" for x in LETTERS) + " = 0" for i in range(8_000)),
        "a = '''" + "[{.,\n" * 60_000 + "'''",
        'a = "' + "\\n" * 300_000 + '"',
        "a = [" + "0, " * 100_000 + "]",
        "# " + "[" * 100_000 + "\na = 1",
        "a = " + "[" * 32 + "]" * 32,
        "a = [" + "0.5, " * 4000 + "]",
    ],
    ids=["keys", "marks in a text", "escapes", "values", "a comment", "depth", "decimals"],
)
def test_what_is_taken_takes_little(text):
    kind, said = bounded(lambda: parse_toml(text) == tomllib.loads(text))
    assert (kind, said) == ("", "True")
