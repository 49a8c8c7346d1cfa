"""Build of the C kernels, once per instruction set, and of the Cython module.

Each kernel file in csrc is compiled for every instruction set of the target
machine (see csrc/vf_isa.h); dispatch.c picks one at import. The list of sources
and flags is csrc/sources.mk, which csrc/Makefile shares. Metadata is in
pyproject.toml.
"""

import platform
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent.resolve()


def make_variables(path: Path) -> dict[str, list[str]]:
    """The variables of csrc/sources.mk, each a list of words."""
    out = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, value = (part.strip() for part in line.split("=", 1))
            words = (out[word[2:-1]] if word.startswith("$(") else [word] for word in value.split())
            out[name] = [word for group in words for word in group]
    return out


BUILD = make_variables(ROOT / "csrc" / "sources.mk")
KERNEL_SOURCES, COMMON_SOURCES, FLAGS = BUILD["KERNEL_SOURCES"], BUILD["COMMON_SOURCES"], BUILD["FLAGS"]
X86_SETS = {name: BUILD[name] for name in BUILD["X86_SETS"]}


class BuildKernels(build_ext):
    """Compile csrc for each instruction set, then link it into the Cython module."""

    def build_extension(self, ext):
        sets = {"PORTABLE": []}
        macros = []
        if platform.machine().lower() in ("x86_64", "amd64"):
            sets.update(X86_SETS)
            macros.append(("VF_HAVE_X86", "1"))
        include = [str(ROOT / "csrc"), str(ROOT / "csrc" / "include")]
        sanitize = ext.extra_compile_args
        objects = self.compiler.compile(
            [f"csrc/{name}" for name in COMMON_SOURCES],
            output_dir=self.build_temp, macros=macros, include_dirs=include, extra_postargs=FLAGS + sanitize,
        )
        for name, flags in sets.items():
            objects += self.compiler.compile(
                [f"csrc/{source}" for source in KERNEL_SOURCES],
                output_dir=str(Path(self.build_temp) / name.lower()),
                macros=[(f"VF_ISA_{name}", "1")], include_dirs=include, extra_postargs=FLAGS + flags + sanitize,
            )
        ext.extra_objects = objects
        super().build_extension(ext)


class CopyHeader(build_py):
    """Ship the public C header inside the package, where get_include() finds it."""

    def run(self):
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "vips_fast" / "include" / "vips_fast"
            target.mkdir(parents=True, exist_ok=True)
            for header in (ROOT / "csrc" / "include" / "vips_fast").glob("*.h"):
                shutil.copy(header, target)


setup(
    ext_modules=[
        Extension(
            "vips_fast.kernels.native",
            ["vips_fast/kernels/native.pyx"],
            include_dirs=["csrc/include"],
            depends=[str(p.relative_to(ROOT)) for p in sorted((ROOT / "csrc").rglob("*.[ch]"))]
            + [str(p.relative_to(ROOT)) for p in sorted((ROOT / "vips_fast" / "kernels").glob("*.pxi"))],
        )
    ],
    cmdclass={"build_ext": BuildKernels, "build_py": CopyHeader},
)
