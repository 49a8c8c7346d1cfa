"""Noise and integer sums have the same bits from every compiler, at every optimization level, on x86 and on Arm."""

import hashlib
import os
import shutil

import pytest

from .conftest import CONSUMERS, ROOT, build_program, call

# Of the lines that consumers/digest.c prints for one instruction set.
EXPECTED = "796c923cd2aaa93faf7bd3c705d42c6527653863084c7d895fc264150b7b9b33"


def digest_lines(program, *runner):
    """The lines of each instruction set, by its name."""
    sets = {}
    for line in call([*runner, program]).splitlines():
        if line.startswith("# "):
            lines = sets.setdefault(line[2:], [])
        else:
            lines.append(line)
    return sets


def check(cc, folder, *options, flags="", runner=(), archive=None):
    """Build the kernels and digest.c, run it, and compare every instruction set's lines with the expected ones."""
    if shutil.which(cc) is None:
        # Further compilers come with the system, not with the test extra; one was needed to build the package.
        pytest.skip(f"no {cc}")
    if archive is None:
        jobs = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
        command = ["make", "-s", "-j", jobs, "-C", ROOT / "csrc", f"CC={cc}", f"BUILD={folder}", f"CFLAGS={flags}"]
        call([*command, *options])
        archive = folder / "libvips_fast.a"
    program = folder / "digest"
    include = ROOT / "csrc" / "include"
    static = ["-static"] if runner else []
    call([cc, "-std=c11", *static, f"-I{include}", CONSUMERS / "digest.c", archive, "-lm", "-o", program])
    sets = digest_lines(program, *runner)
    assert sets
    for name, lines in sets.items():
        got = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        assert got == EXPECTED, (name, lines)
    return sets


def test_the_library_as_it_is_built(library, tmp_path):
    sets = check(os.environ.get("CC") or "cc", tmp_path, archive=library)
    assert "portable" in sets


@pytest.mark.parametrize("cc, level", [("gcc", 0), ("clang", 0)])
def test_compilers(cc, level, tmp_path):
    check(cc, tmp_path, flags=f"-O{level}")


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_every_compiler_at_every_level_without_a_warning(cc, level, tmp_path):
    check(cc, tmp_path, flags=f"-O{level} -Wextra -Werror")


def test_arm(tmp_path):
    """Portable C, compiled for 64-bit Arm and run in an emulator."""
    cc, runner = "aarch64-linux-gnu-gcc", shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if runner is None:
        # Like the cross compiler, it is a package of the operating system that no extra can install.
        pytest.skip("no qemu-aarch64")
    sets = check(cc, tmp_path, "AR=aarch64-linux-gnu-ar", flags="-O2", runner=[runner])
    assert list(sets) == ["portable"]


def test_a_changed_bit_is_seen(library, tmp_path):
    """The digest program reads what the kernels wrote: with another key everything but the integer sums differs."""
    source = (CONSUMERS / "digest.c").read_text()
    other = source.replace("7 * i + 1", "7 * i + 2")
    assert other != source
    (tmp_path / "other.c").write_text(other)
    build_program(tmp_path / "other.c", tmp_path / "other", library)
    build_program(CONSUMERS / "digest.c", tmp_path / "same", library)
    ours, theirs = digest_lines(tmp_path / "same")["portable"], digest_lines(tmp_path / "other")["portable"]
    different = {a.split()[0].rstrip(",") for a, b in zip(ours, theirs, strict=True) if a != b}
    assert different >= {"chacha20_fill", "chacha20_words", "rounded_gaussian", "symmetric_gaussian"}
    assert not different & {"sbn_cross", "sbn_gram", "sbn_moments", "blr_accumulate", "lda_gather"}
