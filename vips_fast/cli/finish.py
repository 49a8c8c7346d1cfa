"""``finish`` and ``clean``: what a fit has left that was stopped, killed or could not write its model."""

import errno
import os
from argparse import Namespace
from pathlib import Path

from ..jobs import beside
from ..jobs.places import kind_in
from .exits import Exit, ExitWith


def finish(args: Namespace) -> int:
    """Write the model that a run's folder holds."""
    from ..engine.checkpoint import lock_folder
    from ..jobs.folder import MODEL, belongs, put, spent

    folder = _run(args.folder)
    out = folder.with_suffix("") if args.out is None else Path(args.out)
    with lock_folder(folder):
        if not belongs(folder / MODEL, folder):
            raise ValueError(f"{folder}: holds no finished fit, but {spent(folder)}; expected fit --resume, to go on")
        model = kind_in(folder / MODEL).load(folder / MODEL)
        try:
            put(folder, out, args.force)
        except OSError as error:
            raise ExitWith(Exit.KEPT) from error
    print(f"{beside.statement(model)}Written to {out}; nothing more was spent.")
    return 0


def clean(args: Namespace) -> int:
    """Remove what is left, and say what it was."""
    from ..engine.checkpoint import ledger_in, lock_folder
    from ..jobs.folder import MODEL, belongs, is_run, remove, run_folder, spent, state
    from ..store.atomic import delete, leftovers

    path = Path(os.path.abspath(args.folder))
    run = path if is_run(path) else run_folder(path)
    parts = [part for part in leftovers(path.parent) if part.name.startswith((f".{path.name}.", f".{run.name}."))]
    parts += leftovers(path) if path.is_dir() else []
    if not (path.exists() or run.exists() or parts):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if is_run(run):
        with lock_folder(run):
            if belongs(run / MODEL, run) and not args.force:
                raise ValueError(
                    f"{run}: holds a finished fit; expected vips-fast finish {run}, or --force to throw it away"
                )
            charge = "; the budget keeps the charge" if ledger_in(run)[0].budget else ""
            print(f"{run}: stopped at {state(run)}, with {spent(run)}{charge}; removed.", flush=True)
            remove(run)
    elif not parts:
        print(f"{path}: nothing was left.")
    for part in parts:
        print(f"{part}: removed.")
        delete(part)
    return 0


def _run(name: str) -> Path:
    from ..jobs.folder import is_run

    path = Path(os.path.abspath(name))
    if not is_run(path):
        raise ValueError(f"{name}: expected the folder of a run, OUT.run, as vips-fast fit makes beside OUT")
    return path
