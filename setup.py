"""Build of the C kernels, once per instruction set, and of the Cython module.

Each kernel file in csrc is compiled for every instruction set of the target
machine (see csrc/vf_isa.h); dispatch.c picks one at import. Metadata is in
pyproject.toml.
"""

import platform
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent.resolve()

#: Compiled once per instruction set.
KERNEL_SOURCES = [
    "lda_estep.c", "shrink.c", "pg_mean.c", "blr_estep.c", "sbn_estep.c", "chacha20.c", "gaussian.c", "symmetric.c", "table.c",
]
#: Compiled once.
COMMON_SOURCES = ["dispatch.c", "gaussian_exact.c", "os_random.c"]

#: -ffp-contract=off: a multiply-add is fused only where the source says so, so
#: that error bounds hold as written. No -ffast-math, no -march=native.
FLAGS = ["-O3", "-std=c11", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wall"]
V2 = ["-msse3", "-mssse3", "-msse4.1", "-msse4.2", "-mpopcnt", "-mcx16"]
V3 = [*V2, "-mavx", "-mavx2", "-mfma", "-mbmi", "-mbmi2", "-mlzcnt", "-mf16c"]
V4 = [*V3, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mavx512cd", "-mprefer-vector-width=512"]
X86_SETS = {"BASELINE": V2, "AVX2": V3, "AVX512": V4}


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
            "vips_fast.kernels._native",
            ["vips_fast/kernels/_native.pyx"],
            include_dirs=["csrc/include"],
            depends=[str(p.relative_to(ROOT)) for p in sorted((ROOT / "csrc").rglob("*.[ch]"))]
            + [str(p.relative_to(ROOT)) for p in sorted((ROOT / "vips_fast" / "kernels").glob("*.pxi"))],
        )
    ],
    cmdclass={"build_ext": BuildKernels, "build_py": CopyHeader},
)
