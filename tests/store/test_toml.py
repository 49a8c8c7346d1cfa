"""The one reader of TOML: what it finds before `tomllib` sees a text."""

import random
import tomllib

import pytest
from bounded import bounded

from vips_fast.store import toml
from vips_fast.store.toml import parse_toml, read_toml

LETTERS = "abcdefghijklmno"
HOSTILE = {
    "brackets": ("a = " + "[" * 4000, "more than 32 brackets within each other"),
    "braces": ("a = " + "{a=" * 4000, "more than 32 brackets within each other"),
    "brackets on lines": ("a = [\n" + "[ # ]\n" * 4000, "more than 32 brackets within each other"),
    "dots": ("a" + ".a" * 30_000 + " = 1", "a key of more than 16 parts"),
    "quoted dots": ('a."a\\"b"' + " . 'a]'" * 50_000 + " = 1", "a key of more than 16 parts"),
    "dots in a head": ("[a" + ".a" * 50_000 + "]", "a key of more than 16 parts"),
    "dots in braces": ("a = {a" + ".a" * 50_000 + " = 1}", "a key of more than 16 parts"),
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
        "\n".join(".".join(f"{x}{i}" for x in LETTERS) + " = 0" for i in range(16_000)),
        "a = '''" + "[{.," * 100_000 + "'''",
        'a = "' + "\\n" * 1_000_000 + '"',
        "a = [" + "0, " * 200_000 + "]",
        "# " + "[" * 100_000 + "\na = 1",
        "a = " + "[" * 32 + "]" * 32,
    ],
    ids=["keys", "marks in a text", "escapes", "values", "a comment", "depth"],
)
def test_what_is_taken_takes_little(text):
    kind, said = bounded(lambda: parse_toml(text) == tomllib.loads(text))
    assert (kind, said) == ("", "True")


def drawn(rng, depth):
    """Draw a value whose strings and comments are full of marks; return it with its depth."""
    kind = rng.randrange(6)
    if depth == 0 or kind < 2:
        body = "".join(rng.choice(["[", "{", "]", ".", "a", "#", '\\"', "\\\\", ",", "="]) for _ in range(6))
        quote = rng.choice(["'", '"', "'''", '"""'])
        body += rng.choice(["", quote[0], 2 * quote[0], "\n"]) if len(quote) == 3 else ""
        if quote[0] == "'":
            body = body.replace("\\", "")
        return f"{quote}{body}{quote}", 0
    if kind < 3:
        return rng.choice(["1", "2.5", "true", "1979-05-27T00:32:00.5"]), 0
    if kind < 5:
        several = [drawn(rng, depth - 1) for _ in range(rng.randrange(3))]
        between = rng.choice([", ", ",\n", ", # ]]]\n"])
        end = rng.choice(["", "\n", "# [[[\n"])
        return f"[{between.join(text for text, _ in several)}{end}]", 1 + max([d for _, d in several], default=0)
    text, below = drawn(rng, depth - 1)
    return f"{{a.'b.]' = {text}}}", 1 + below


def test_the_scan_sees_what_the_parser_sees(monkeypatch):
    """Exactly the depth of a text passes; one less is refused."""
    rng, seen = random.Random(0), 0
    for _ in range(6000):
        text, depth = drawn(rng, 6)
        text = f"k = {text}\nz = 'x'\n"
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue  # such as a line break within braces
        monkeypatch.setattr(toml, "MOST_DEPTH", depth)
        parse_toml(text)
        if depth:
            monkeypatch.setattr(toml, "MOST_DEPTH", depth - 1)
            with pytest.raises(ValueError, match="within each other"):
                parse_toml(text)
            seen += 1
    assert seen > 1000
