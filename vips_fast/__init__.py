"""Differentially private variational Bayes (VIPS), after Park, Foulds, Chaudhuri & Welling (2020)."""

from __future__ import annotations

from pathlib import Path

from .kernels import native
from .ledger import Ledger
from .models.base import Privacy
from .models.lda import LatentDirichletAllocation
from .models.logistic import BayesianLogisticRegression
from .models.sbn import SigmoidBeliefNetwork
from .planning import Plan, plan
from .threads import resolve_n_threads

__version__ = "0.1.0"

__all__ = [
    "BayesianLogisticRegression",
    "LatentDirichletAllocation",
    "Ledger",
    "Plan",
    "Privacy",
    "SigmoidBeliefNetwork",
    "get_include",
    "plan",
    "runtime_info",
]


def get_include() -> str:
    """Folder to put on a C compiler's include path for ``#include <vips_fast/vips_fast.h>``."""
    package = Path(__file__).resolve().parent
    installed = package / "include"
    return str(installed if installed.is_dir() else package.parent / "csrc" / "include")


def runtime_info() -> dict:
    """Version, instruction set in use, instruction sets this machine has, threads."""
    return {
        "version": __version__,
        "isa": native.isa(),
        "isas_available": native.isas_available(),
        "n_threads": resolve_n_threads(None),
        "processors": resolve_n_threads(-1),
    }
