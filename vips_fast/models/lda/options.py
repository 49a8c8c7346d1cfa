"""Numerics of the topic model."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...checks import check_choice, check_flag, check_number

#: Share of a document's words that its topics may still change by when the E-step stops. A thirtieth takes 1.1 to 1.3
#: times as long and predicts no better; twice as much is worse on short posts (docs/cores.md).
WORD_TOL = 0.01


@dataclass(frozen=True)
class LdaOptions:
    """Settings of `LatentDirichletAllocation` that few users need to touch.

    Attributes
    ----------
    learning_decay, learning_offset : float
        κ and τ₀ of the step size (τ₀ + t)^−κ, t = 0, 1, …. A decay of None is chosen by
        `vips_fast.plan`, and is 0.5 without privacy; an offset of 1 forgets the initial topics at once.
    length_method : {"scale", "resample"}
        How a document is brought to N words: "scale" multiplies its counts by N over their sum. "resample" draws N
        words from its own bag with replacement, anew at each visit (section 4.2). Scaling adds no sampling noise and
        gives smaller norms.
    word_clip : float or None
        A bound, as a share in (0, 1] of the clip, for one word's part of a unit's contribution. So no word takes the
        share of all others. None is 0.3; 1 is no bound.
    word_scale : float or None
        b in [0, 0.5]. Contributions and noise are scaled by the b-th power of the words' shares, and by the root of
        topics' shares of each word. These are estimated from earlier releases (`vips_fast.models.lda.scaling`). None is
        0.25; 0 gives all entries the same noise.
    topic_mean : {"geometric", "arithmetic"} or None
        What stands for a topic's word probabilities in the E-step and in the read-outs. It is exp(E[log β]), which the
        bound asks for (Hoffman et al. 2010, Eq. 5), or E[β], the shares of λ, as in variational EM (Blei et al. 2003).
        Rare words weigh less in the former, which costs perplexity where λ is small (Asuncion et al. 2009). None is
        "arithmetic"; in the article's own algorithm, "geometric". Read-outs follow `set_params` after a fit, as
        post-processing.
    distinct_words : float or None
        Distinct words of a usual document (or of all that a person wrote), public; the plan and its forecast go by
        them. None is ``doc_length ** 0.9``, as in a usual text of that length.
    dtype : {"float32", "float64"}
        Precision of the E-step.
    max_doc_update_iter : int
        Most E-step rounds for a document, each an evaluation of φ.
    mean_change_tol : float or None
        The E-step of a document stops when mean |change of γ| is below this; 0 runs a fixed number of rounds. None is
        0.1 in fits without privacy. Else it stops when the sum of the changes is below 1 % of the document's words.
    doc_topic_prior : float or None
        Dirichlet prior α of a document's topic proportions. None is 1/K in the fit (at least 4/N if N is at most 10).
        In the read-outs of a private fit it is 4/N for N words of a usual document
        (`vips_fast.models.lda.planning.read_out_prior`), and at least 2/K; its last step measures whether four times
        that is better. Without privacy it goes by the topics' weights, with a total of the root of K.
    topic_word_prior : float or None
        Dirichlet prior η of a topic's word probabilities; None is 1/K.
    measure_gain : bool or None
        Whether the last step of a private `fit` measures the finished topics in place of improving them. Then
        ``found_gain_`` says how much better they predict words than word frequencies do. It costs no epsilon, and 2.6 %
        more noise at 20 steps. None measures runs of at least 10 steps. A run with a `PublicPrior` has scores of its
        own, which this does not turn off.
    """

    learning_decay: float | None = None
    learning_offset: float = 1.0
    length_method: Literal["scale", "resample"] = "scale"
    word_clip: float | None = None
    word_scale: float | None = None
    topic_mean: Literal["geometric", "arithmetic"] | None = None
    distinct_words: float | None = None
    dtype: Literal["float32", "float64"] = "float32"
    max_doc_update_iter: int = 100
    mean_change_tol: float | None = None
    doc_topic_prior: float | None = None
    topic_word_prior: float | None = None
    measure_gain: bool | None = None

    def resolved(self, plain: bool = False) -> "LdaOptions":
        """Fill in a fit's options; ``plain`` is one without privacy."""
        chosen: dict[str, Any] = dict(topic_mean="arithmetic")
        if plain:
            chosen.update(learning_decay=0.5, mean_change_tol=0.1)
        return replace(self, **{name: value for name, value in chosen.items() if getattr(self, name) is None})

    @property
    def stop(self) -> tuple[float, float]:
        """The kernels' ``tol`` and ``word_tol``."""
        return (0.0, WORD_TOL) if self.mean_change_tol is None else (float(self.mean_change_tol), 0.0)

    def check(self) -> None:
        """Raise a ValueError for a number out of its range."""
        check_number("learning_decay", self.learning_decay, 0, 1, optional=True)
        check_number("learning_offset", self.learning_offset, 0, 1e9)
        check_choice("length_method", self.length_method, ("scale", "resample"))
        check_number("word_clip", self.word_clip, 0, 1, low_open=True, optional=True)
        check_number("word_scale", self.word_scale, 0, 0.5, optional=True)
        check_choice("topic_mean", self.topic_mean, ("geometric", "arithmetic", None))
        check_number("distinct_words", self.distinct_words, 1, 2**31 - 1, optional=True)
        check_choice("dtype", self.dtype, ("float32", "float64"))
        check_number("max_doc_update_iter", self.max_doc_update_iter, 0, 2**31 - 1, integer=True)
        check_number("mean_change_tol", self.mean_change_tol, 0, math.inf, high_open=True, optional=True)
        if self.measure_gain is not None:
            check_flag("measure_gain", self.measure_gain)
        check_number("doc_topic_prior", self.doc_topic_prior, 1e-30, 1e6, optional=True)
        check_number("topic_word_prior", self.topic_word_prior, 0, 1e6, low_open=True, optional=True)
