"""Build the C kernels for each instruction set, and the Cython module.

csrc/generate.py first writes the files that repeat the kernels' declarations
(csrc/kernels.toml). Each kernel file in csrc is then compiled for every instruction set
of the target machine (see csrc/simd/isa.h); csrc/dispatch.c picks one at import. csrc/sources.mk,
which csrc/Makefile shares, lists the files that are compiled once and the flags. Metadata is in
pyproject.toml.
"""

import os
import platform
import runpy
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if os.name != "posix" or sys.maxsize < 2**32 or sys.byteorder != "little" or sys.version_info < (3, 11):
    raise SystemExit(
        "vips_fast: built for Linux and macOS on 64-bit x86 and Arm, with Python 3.11 or newer; this is "
        f"{platform.system()} {platform.machine()} with Python {'.'.join(map(str, sys.version_info[:2]))}"
    )

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent.resolve()
CSRC = ROOT / "csrc"


def make_variables(path: Path) -> dict[str, list[str]]:
    """Return the variables of csrc/sources.mk, each a list of words."""
    out: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, value = (part.strip() for part in line.split("=", 1))
            words = (out[word[2:-1]] if word.startswith("$(") else [word] for word in value.split())
            out[name] = [word for group in words for word in group]
    return out


BUILD = make_variables(CSRC / "sources.mk")
ROOMS = {path.relative_to(CSRC).as_posix() for path in CSRC.glob("*/*.c")}
BUILD["KERNEL_SOURCES"] = sorted((ROOMS | {"table.c"}).difference(BUILD["COMMON_SOURCES"]))
#: Python's own flags ask for debugging information, five times the size of the code; CFLAGS=-g brings it back.
DEBUG = [] if "-g" in os.environ.get("CFLAGS", "").split() else ["-g0"]


class BuildKernels(build_ext):
    """Compile csrc for each instruction set, and link the Cython module."""

    def build_extension(self, ext: Extension) -> None:
        compiler = self.compiler.compiler_so[0]
        if shutil.which(compiler) is None:
            raise SystemExit(
                f"vips_fast: no C compiler found ({compiler}): install a wheel, or gcc or clang, or name yours in CC"
            )
        include = [str(CSRC), str(CSRC / "include")]

        x86 = platform.machine().lower() in ("x86_64", "amd64")
        tasks = [(name, "common", "VF_HAVE_X86" if x86 else None, []) for name in BUILD["COMMON_SOURCES"]]
        for isa in ["PORTABLE", *(BUILD["X86_SETS"] if x86 else [])]:
            flags = BUILD.get(isa, [])
            tasks += [(name, isa.lower(), f"VF_ISA_{isa}", flags) for name in BUILD["KERNEL_SOURCES"]]

        def compile_one(task: tuple[str, str, str | None, list[str]]) -> list[str]:
            name, folder, macro, flags = task
            return self.compiler.compile(
                [f"csrc/{name}"],
                output_dir=str(Path(self.build_temp) / folder),
                macros=[(macro, "1")] if macro else [],
                include_dirs=include,
                extra_postargs=BUILD["FLAGS"] + DEBUG + flags,
            )

        # The compiler is another process, so threads are enough to run several. Cython's module is written and compiled
        # meanwhile: only the link needs all.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            kernels = [pool.submit(compile_one, task) for task in tasks]
            link = self.compiler.link_shared_object

            def link_all(objects: list[str], *args: object, **keywords: object) -> None:
                link([*objects, *(one for kernel in kernels for one in kernel.result())], *args, **keywords)

            self.compiler.link_shared_object = link_all
            super().build_extension(ext)


class CopyHeaders(build_py):
    """Ship the C headers, where get_include() finds them."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "vips_fast" / "include" / "vips_fast"
            target.mkdir(parents=True, exist_ok=True)
            for header in (CSRC / "include" / "vips_fast").glob("*.h"):
                shutil.copy(header, target)


runpy.run_path(str(CSRC / "generate.py"))["write"]()
setup(
    ext_modules=[
        Extension(
            "vips_fast.kernels.native",
            ["vips_fast/kernels/native.pyx"],
            include_dirs=["csrc/include"],
            # The bindings convert and call; optimizing them further doubles the time of a build.
            extra_compile_args=["-O1", *DEBUG],
            depends=[str(p.relative_to(ROOT)) for p in sorted(CSRC.rglob("*.[ch]"))]
            + [str(p.relative_to(ROOT)) for p in sorted((ROOT / "vips_fast" / "kernels").glob("*.p*i*"))],
        )
    ],
    cmdclass={"build_ext": BuildKernels, "build_py": CopyHeaders},
)
