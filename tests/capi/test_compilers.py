"""Every compiler gives the kernels the same bits.

At every optimization level, on x86 and on Arm.

Noise and integer sums have them on every instruction set too. E-steps, clipping and shrinkage, in floating point, have
the bits of their set. Nothing is left to the compiler or to a mathematical library, so that portable C computes the
same bits on Arm, and beside musl, as on x86.
"""

import hashlib
import os
import re
import shutil

import pytest

from .conftest import CONSUMERS, ROOT, build_program, call

# The head of digest.c states it, so that a kernel and its bits come in the same file.
EXPECTED = re.search(r"SHA-256 .*:\n \* (\w{64}) ", (CONSUMERS / "digest.c").read_text())[1]


def digest_lines(program, *runner):
    """Return the lines of each instruction set, by its name. For noise and integer sums, and for E-steps."""
    sets = {}
    for line in call([*runner, program]).splitlines():
        if line.startswith("# "):
            lines, esteps = sets.setdefault(line[2:], ([], []))
        elif line == "esteps":
            lines = esteps
        else:
            lines.append(line)
    return sets


@pytest.fixture(scope="module")
def as_built(library, tmp_path_factory):
    return check(os.environ.get("CC") or "cc", tmp_path_factory.mktemp("as_built"), archive=library)


def check(cc, folder, *options, flags="", runner=(), archive=None, like=None):
    """Build the kernels and digest.c, and run it.

    Compare its output for each set.

    Noise and integer sums have the expected digest; the E-steps of a set have the digest of ``like``.
    """
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
    static = ["-static"] if runner or cc == "musl-gcc" else []
    call([cc, "-std=c11", *static, f"-I{include}", CONSUMERS / "digest.c", archive, "-lm", "-o", program])
    sets = digest_lines(program, *runner)
    assert sets
    for name, (lines, esteps) in sets.items():
        got = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        assert got == EXPECTED, (name, lines)
        assert len(esteps) > 40 and (like is None or esteps == like[name][1]), name
    return sets


def test_the_library_as_it_is_built(as_built):
    assert "portable" in as_built
    assert len(as_built) == 1 or len({tuple(esteps) for _, esteps in as_built.values()}) > 1


def test_another_compiler(tmp_path, as_built):
    """gcc without optimization is among the slow ones below."""
    assert check("clang", tmp_path, flags="-O0", like=as_built).keys() == as_built.keys()


def test_musl(tmp_path, as_built):
    """Portable C beside another C library."""
    sets = check("musl-gcc", tmp_path, "SETS=PORTABLE", "COMMON_FLAGS=", flags="-O0", like=as_built)
    assert list(sets) == ["portable"]


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("cc", ["gcc", "clang", "musl-gcc"])
def test_every_compiler_at_every_level_without_a_warning(cc, level, tmp_path, as_built):
    check(cc, tmp_path, flags=f"-O{level} -Wextra -Werror", like=as_built)


def test_arm(tmp_path, as_built):
    """Portable C, compiled for 64-bit Arm and run in an emulator. It is all that there is for Arm."""
    cc, runner = "aarch64-linux-gnu-gcc", shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if runner is None:
        # Like the cross compiler, it is a package of the operating system that no extra can install.
        pytest.skip("no qemu-aarch64")
    sets = check(cc, tmp_path, "AR=aarch64-linux-gnu-ar", flags="-O2", runner=[runner], like=as_built)
    assert list(sets) == ["portable"]


def test_a_changed_bit_is_seen(library, tmp_path):
    """The digest program reads the kernels' output. With another key everything but the integer sums differs."""
    source = (CONSUMERS / "digest.c").read_text()
    other = source.replace("7 * i + 1", "7 * i + 2")
    assert other != source
    (tmp_path / "other.c").write_text(other)
    build_program(tmp_path / "other.c", tmp_path / "other", library)
    build_program(CONSUMERS / "digest.c", tmp_path / "same", library)
    (ours, _), (theirs, _) = (digest_lines(tmp_path / name)["portable"] for name in ("same", "other"))
    different = {a.split()[0].rstrip(",") for a, b in zip(ours, theirs, strict=True) if a != b}
    assert different >= {"chacha20_fill", "chacha20_words", "rounded_gaussian", "symmetric_gaussian"}
    assert not different & {"sbn_cross", "sbn_gram", "logistic_accumulate", "lda_gather"}


@pytest.mark.slow
def test_a_changed_rounding_of_an_estep_is_seen(tmp_path, as_built):
    """A build that fuses multiply-adds has other E-steps. Noise and integer sums are the same."""
    if "avx2" not in as_built:
        # Other processors fuse with other flags.
        pytest.skip("this machine has no fused multiply-add of x86")
    sets = check("gcc", tmp_path, "SETS=PORTABLE", "COMMON_FLAGS=", flags="-O2 -ffp-contract=fast -mfma")
    assert sets["portable"][1] != as_built["portable"][1]
