"""Faults put into the source, one at a time, and the tests that should see each.

``mutants.toml`` has them: one piece of one file, which has to be there exactly once, and what takes its place.

    python tests/mutants/mutants.py [PART_OF_A_NAME ...]

tries them in a copy of the tree, and stores in ``killed.json`` which test saw each; null for none.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KILLED = HERE / "killed.json"
#: What a copy of the tree is made of.
_COPIED = ("vips_fast", "csrc", "tests", "bench", "docs", "setup.py", "pyproject.toml", "README.md", "CHANGELOG.md")
_SECONDS = 400


@dataclass(frozen=True)
class Mutant:
    """A fault, an example of its ``kind``; ``tests`` are tried one after the other until one fails."""

    name: str
    kind: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]

    @property
    def source(self) -> str:
        """The file with the fault in it."""
        text = (ROOT / self.file).read_text("utf-8")
        found = text.count(self.old)
        if found != 1 or self.old == self.new:
            raise ValueError(f"{self.name}: {self.file} has its piece {found} times; expected once: {self.old!r}")
        return text.replace(self.old, self.new)


def read_mutants() -> dict[str, Mutant]:
    """Read all mutants, by name."""
    said = tomllib.loads((HERE / "mutants.toml").read_text("utf-8"))
    return {
        name: Mutant(name, **{key: tuple(value) if key == "tests" else value for key, value in one.items()})
        for name, one in said.items()
    }


class Copy:
    """A copy of the tree, for one mutant at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in _COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, path / name)

    @contextmanager
    def holding(self, mutant: Mutant) -> Iterator[None]:
        """Put the fault in, and take it out again."""
        place, compiled = self.path / mutant.file, mutant.file.startswith("csrc/")
        before, built = place.read_bytes(), [*(self.path / "vips_fast/kernels").glob("native*.so")]
        kept = [one.read_bytes() for one in built]
        try:
            place.write_text(mutant.source, "utf-8")
            self._forget(place)
            if compiled:
                build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
                subprocess.run(build, cwd=self.path, check=True, capture_output=True)
            yield
        finally:
            place.write_bytes(before)
            self._forget(place)
            for one, content in zip(built, kept) if compiled else ():
                one.write_bytes(content)

    @staticmethod
    def _forget(place: Path) -> None:
        """Remove the bytecode: a file of the same second and size would pass for unchanged."""
        for one in place.parent.glob(f"__pycache__/{place.stem}.*"):
            one.unlink()

    def failing(self, test: str) -> str | None:
        """Run one file of tests, and name the first that fails; None if all pass."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", test]
        environment = {**os.environ, "PYTHONPATH": str(self.path), "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, cwd=self.path, env=environment, capture_output=True, text=True, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            return f"{test} (no end)"
        if done.returncode in (0, 4):  # 4: a test of before, which is no more
            return None
        # A test's parameters may hold blanks.
        found = re.search(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if done.returncode != 1 or found is None:
            raise RuntimeError(
                f"{test}: pytest ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-999:]}"
            )
        return found[1]

    def killer(self, mutant: Mutant, before: str | None = None) -> str | None:
        """Name a test that sees the fault: the one that did ``before``, if it still does, or the first that does."""
        with self.holding(mutant):
            return next((name for test in (before, *mutant.tests) if test and (name := self.failing(test))), None)


def main(parts: list[str]) -> int:
    """Try the mutants whose names hold one of the parts, or all."""
    known = read_mutants()
    chosen = [one for name, one in known.items() if not parts or any(part in name for part in parts)]
    killed = json.loads(KILLED.read_text("utf-8")) if KILLED.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for mutant in chosen:
            start = time.perf_counter()
            killed[mutant.name] = found = copy.killer(mutant, killed.get(mutant.name))
            word = "SURVIVED" if found is None else "killed  "
            print(f"{word} {time.perf_counter() - start:5.1f} s {mutant.name}: {found}", flush=True)
            text = json.dumps({name: killed[name] for name in sorted(known) if name in killed}, indent=0)
            KILLED.write_text(text + "\n", "utf-8")
    return sum(killed[one.name] is None for one in chosen)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
