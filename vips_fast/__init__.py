"""Differentially private variational Bayes (VIPS), after Park, Foulds, Chaudhuri & Welling (2020)."""

import gc
import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from .models.family import exported_classes

if TYPE_CHECKING:
    from .data.encoder import ColumnEncoder as ColumnEncoder
    from .engine.ledger import Ledger as Ledger
    from .engine.statement import Privacy as Privacy
    from .jobs.publication import verify as verify
    from .jobs.topics import PrivateTopics as PrivateTopics
    from .models.clusters import DocumentClusters as DocumentClusters
    from .models.clusters import PublicVectors as PublicVectors
    from .models.clusters import public_vectors as public_vectors
    from .models.conjugate import ConjugateEstimator as ConjugateEstimator
    from .models.lda import LatentDirichletAllocation as LatentDirichletAllocation
    from .models.lda import Plan as Plan
    from .models.lda import PublicPrior as PublicPrior
    from .models.lda import load_prior as load_prior
    from .models.lda import plan as plan
    from .models.lda import prior_from_documents as prior_from_documents
    from .models.lda import prior_from_vectors as prior_from_vectors
    from .models.logistic import BayesianLogisticRegression as BayesianLogisticRegression
    from .models.logistic import CountRegression as CountRegression
    from .models.mixture import GaussianMixture as GaussianMixture
    from .models.sbn import ClassConditionalNetwork as ClassConditionalNetwork
    from .models.sbn import SigmoidBeliefNetwork as SigmoidBeliefNetwork
    from .models.tables import TopicTables as TopicTables
    from .models.vocabulary import PrivateVocabulary as PrivateVocabulary

__version__ = "0.3.0.dev0"

#: Where each public name lives; a name is imported when it is first used.
_HOMES = exported_classes() | {
    "ColumnEncoder": "data.encoder",
    "ConjugateEstimator": "models.conjugate",
    "Ledger": "engine.ledger",
    "Plan": "models.lda",
    "Privacy": "engine.statement",
    "PrivateTopics": "jobs.topics",
    "PublicPrior": "models.lda",
    "PublicVectors": "models.clusters",
    "load_prior": "models.lda",
    "plan": "models.lda",
    "prior_from_documents": "models.lda",
    "prior_from_vectors": "models.lda",
    "public_vectors": "models.clusters",
    "verify": "jobs.publication",
}

# A program that configures logging sees a line for each event of a fit; others see nothing.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = sorted([*_HOMES, "get_include", "runtime_info"])


def __getattr__(name: str) -> Any:
    if name == "kernels":
        # C extensions reach the interface's capsule by attributes, without importing each module on the way.
        return import_module(".kernels", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Modules leave no garbage, and looking for it takes a quarter of the time of an import.
    collects = gc.isenabled()
    gc.disable()
    try:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    finally:
        if collects:
            gc.enable()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def get_include() -> str:
    """Return the folder for a C compiler to find ``vips_fast/vips_fast.h``.

    >>> import pathlib, vips_fast
    >>> pathlib.Path(vips_fast.get_include(), "vips_fast", "vips_fast.h").exists()
    True
    """
    package = Path(__file__).resolve().parent
    installed = package / "include"
    return str(installed if installed.is_dir() else package.parent / "csrc" / "include")


class RuntimeInfo(TypedDict):
    """What `runtime_info` gives."""

    version: str
    isa: str
    isas_available: list[str]
    n_threads: int
    processors: int


def runtime_info() -> RuntimeInfo:
    """Return version, instruction sets in use and available, and threads.

    >>> import vips_fast
    >>> info = vips_fast.runtime_info()
    >>> info["isa"] in info["isas_available"], info["version"] == vips_fast.__version__
    (True, True)
    """
    from .kernels import native
    from .kernels.threads import resolve_n_threads

    return {
        "version": __version__,
        "isa": native.isa(),
        "isas_available": native.isas_available(),
        "n_threads": resolve_n_threads(None),
        "processors": resolve_n_threads(-1),
    }
