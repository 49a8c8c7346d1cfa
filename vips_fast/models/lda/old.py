"""Private latent Dirichlet allocation (Algorithm 3 of Park et al. 2020)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import digamma, gammaln

from ..data.corpus import check_counts
from ..inference import Schedule, State
from ..kernels import native
from ..kernels.lda import BLOCK_NNZ, document_blocks, estep_blocks, scaled_table
from ..planning import DEFAULT_STEPS, default_batch_size, default_clip, plan
from ..sampling import FullSampler, make_sampler
from ..threads import resolve_n_threads, run_blocks
from .base import PrivateEstimator, check_choice, check_number, public_generator
from .shrinkage import ProductShrinkage

#: Words whose statistics are turned into parameters at a time.
_CHUNK = 2048


class LatentDirichletAllocation(PrivateEstimator):
    """Latent Dirichlet allocation whose topics may be published.

    Online variational Bayes in which each document's expected sufficient
    statistics are clipped to an L2 norm of ``clip * doc_length``, summed exactly,
    and released with Gaussian noise; everything after that is post-processing
    (Park et al. 2020, section 4 and Algorithm 3).

    Parameters
    ----------
    n_components : int
        Number of topics K.
    doc_topic_prior : float or None
        Dirichlet prior alpha of a document's topic proportions; None is 1/K.
    topic_word_prior : float, float64 array of shape (K, V) or None
        Dirichlet prior eta of the topics; None is 1/K. An array is a prior that knows
        something: words that were counted in public documents, such as the
        ``components_`` of a model fitted to them without noise and with the same
        ``doc_length``, or a multiple. The run then starts from these topics. Nothing
        in it may come from the private records.
    learning_decay, learning_offset : float or None
        kappa and tau_0 of the step size (tau_0 + t)^-kappa, t = 0, 1, …. An offset
        of None is 1 with ``update="average"`` (the initial topics are forgotten at
        once) and the paper's 1024 with ``update="paper"``. A decay of None is chosen
        by `vips_fast.plan` (0.7 with "paper").
    batch_size : float or None
        (Expected) documents of a minibatch; None is a quarter of the records, at
        least 25,000, at most all.
    n_steps : int or None
        Minibatches, each one release; None is 20, or 40 where `vips_fast.plan` expects
        the statistics to stand clear of the noise.
    doc_length : int or None
        N: every document is brought to exactly N words. Public. None keeps the
        documents as they are (only without privacy).
    length_method : {"scale", "resample"} or None
        How: "scale" multiplies a document's counts by N over their sum; "resample"
        draws N words from its own bag with replacement, anew at each visit (section
        4.2). Scaling adds no sampling noise and gives smaller norms. None is "scale"
        with ``update="average"`` and "resample" with ``update="paper"``.
    clip : float or None
        a in (0, 1]: a document's contribution is scaled down to an L2 norm of at
        most a N (Eq. 29). None is 0.6 N^-0.425 (`vips_fast.plan`; 0.043 for 500
        words), with ``update="paper"`` the paper's 0.1.
    sampling : {"poisson", "without_replacement", "full"}
        How minibatches are drawn.
    neighbors : {"add_remove", "replace_one"} or None
        Neighbouring relation; None takes the one that the sampling is accounted
        under ("poisson" and "full": add or remove one document; "without_replacement":
        replace one).
    target_epsilon, target_delta : float or None
        The guarantee; the noise multiplier is calibrated for it before the run.
        target_delta None is min(1e-5, 1/(10 n_records)).
    noise_multiplier : float or None
        Noise standard deviation over the L2 sensitivity, instead of a target. With
        both, a run that would pass the target is refused. With neither, the target
        is epsilon = 1. 0 adds no noise and marks the model NOT PRIVATE.
    update : {"average", "paper"}
        "average" keeps the running average of the noised statistics as it is, never
        clipped, and reads it out with ``readout``. "paper" maps each step's negative
        entries to 0, as Algorithm 3 does.
    readout : {"shrinkage", "threshold"}
        With ``update="average"``, lambda = eta + n_records * m, where m is the
        empirical-Bayes mean of the statistics given the average and the noise sd that
        is known to be in it (`vips_fast.models.shrinkage`), or the soft threshold
        max(0, average - threshold * sd).
    threshold : float
        Noise standard deviations taken off by ``readout="threshold"``.
    private : bool
        False fits without clipping and noise.
    sensitivity : {"proven", "paper"}
        "paper" uses the paper's clip * N / S for replacing one document, which is
        too small by sqrt(2), and marks the model NOT PRIVATE there.
    n_records : int or None
        Public number of documents; None takes the number of rows as public.
    dtype : {"float32", "float64"}
        Precision of the E-step.
    n_jobs : int or None
        Threads; -1 for all processors, None for ``VIPS_FAST_NUM_THREADS`` or 1.
    max_doc_update_iter : int
        Most E-step rounds for a document.
    mean_change_tol : float
        E-step stops when mean |change of gamma| is below this; 0 runs a fixed number
        of rounds, so that the time a step takes does not depend on the documents' words.
    random_state : int, numpy Generator, RandomState or None
        Seeds the initial topics, which are public; and, only without privacy, the
        minibatches and resampling.
    unsafe_diagnostics : bool
        True keeps figures of the training documents in ``diagnostics_`` and marks the
        model NOT PRIVATE.
    callback : callable(step, epsilon, seconds) or None
        Called after each step with what is public: steps done, epsilon so far,
        seconds since the start.

    Attributes
    ----------
    components_ : ndarray, float64, shape (K, V)
        Variational Dirichlet parameters lambda of the topics.
    privacy_ : `vips_fast.Privacy`
        The guarantee; ``privacy_.statement()`` says it in words.
    ledger_ : `vips_fast.Ledger`
        Every release.
    n_steps_ : int
        Steps done.
    n_features_in_ : int
        V.
    diagnostics_ : list of dict or None
        With ``unsafe_diagnostics``, for each step the drawn ``records``, how many of
        them were ``clipped`` and the ``mean_norm`` of contributions before clipping.

    Notes
    -----
    A contribution has entries >= 0, so replacing a document moves the sum by at
    most sqrt(2) a N: ||x - y||^2 = ||x||^2 + ||y||^2 - 2 x.y <= 2 (a N)^2. Adding or
    removing one moves it by a N. (Appendix 2 of the paper drops one of the two
    terms and gets a N for replacing.)

    Empty documents contribute zero and are counted as records.
    """

    def __init__(
        self, n_components=10, *, doc_topic_prior=None, topic_word_prior=None, learning_decay=None, learning_offset=None,
        batch_size=None, n_steps=None, doc_length=500, length_method=None, clip=None, sampling="poisson", neighbors=None,
        target_epsilon=None, target_delta=None, noise_multiplier=None, update="average", readout="shrinkage",
        threshold=1.0, private=True, sensitivity="proven", n_records=None, dtype="float32", n_jobs=None, max_doc_update_iter=100, mean_change_tol=1e-3, random_state=None,
        unsafe_diagnostics=False, callback=None,
    ):
        self.n_components = n_components
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.doc_length = doc_length
        self.length_method = length_method
        self.clip = clip
        self.sampling = sampling
        self.neighbors = neighbors
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.update = update
        self.readout = readout
        self.threshold = threshold
        self.private = private
        self.sensitivity = sensitivity
        self.n_records = n_records
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.max_doc_update_iter = max_doc_update_iter
        self.mean_change_tol = mean_change_tol
        self.random_state = random_state
        self.unsafe_diagnostics = unsafe_diagnostics
        self.callback = callback

    # ------------------------------------------------------------- fitting

    def fit(self, X, y=None):
        """Fit the topics to documents.

        Parameters
        ----------
        X : sparse matrix or array, shape (D, V)
            Counts: integers >= 0 of any width, any format.
        y : ignored

        Returns
        -------
        LatentDirichletAllocation

        Raises
        ------
        ValueError
            If a parameter or X is unusable, or the run would overspend. Nothing has
            been spent then.
        """
        self._check_parameters()
        corpus = _check_documents(X, None, "X", self)
        n_records = self._public_n_records(corpus.shape[0])
        n_steps = self._resolve_n_steps(corpus.shape)
        model = _LdaModel(self, corpus, corpus.shape[0])
        sampler = None
        if self.batch_size is None and self.sampling != "full":
            size = default_batch_size(n_records)
            sampler = make_sampler(self.sampling, self.neighbors, n_records, size, corpus.shape[0])
        sampler, mechanism, ledger = self._set_up(model, corpus.shape[0], n_steps, sampler=sampler)
        decay = self.learning_decay
        if decay is None:
            decay = 0.7
            if self.update == "average" and self.private and mechanism.noise_multiplier > 0:
                decay = plan(
                    n_records, corpus.shape[1], int(self.n_components), doc_length=int(self.doc_length), n_steps=n_steps,
                    batch_size=min(sampler.expected_batch_size, n_records), clip=model.clip_norm / self.doc_length,
                    noise_multiplier=mechanism.noise_multiplier,
                ).learning_decay
        state = model.initial_state()
        self.n_features_in_ = corpus.shape[1]
        self._run(model, state, sampler, mechanism, ledger, n_steps, corpus.shape[0], self._schedule(decay))
        self._finish(model, state)
        return self

    def _resolve_n_steps(self, shape) -> int:
        """``n_steps``, or what the plan says for (documents, words)."""
        if self.n_steps is not None:
            return int(self.n_steps)
        if self.update == "paper" or not self.private or self.noise_multiplier == 0:
            return DEFAULT_STEPS
        n_records = self._public_n_records(shape[0])
        size = n_records if self.sampling == "full" else self.batch_size
        return plan(
            n_records, shape[1], int(self.n_components), doc_length=int(self.doc_length), clip=self.clip,
            target_epsilon=1.0 if self.target_epsilon is None else self.target_epsilon, target_delta=self.target_delta,
            batch_size=None if size is None else min(size, n_records), noise_multiplier=self.noise_multiplier,
        ).n_steps

    def _schedule(self, decay: float) -> Schedule:
        offset = self.learning_offset
        return Schedule((1024.0 if self.update == "paper" else 1.0) if offset is None else float(offset), float(decay))

    def partial_fit(self, X, y=None):
        """One more step, made from all rows of X.

        Each call is one release over the whole of X. The ledger composes the calls as
        if all were about the same documents; ``target_epsilon`` bounds them together,
        so give a ``noise_multiplier`` (or the first call would spend the whole target).

        Parameters and errors are those of `fit`.
        """
        self._check_parameters()
        if self.private and self.noise_multiplier is None:
            raise ValueError(
                "noise_multiplier=None: expected a number with partial_fit, since the number of calls to come is unknown"
            )
        fitted = hasattr(self, "ledger_")
        corpus = _check_documents(X, self.n_features_in_ if fitted else None, "X", self)
        model = _LdaModel(self, corpus, corpus.shape[0])
        sampler = FullSampler(corpus.shape[0], self.neighbors or "add_remove")
        sampler, mechanism, ledger = self._set_up(
            model, corpus.shape[0], 1, sampler=sampler, ledger=self.ledger_ if fitted else None
        )
        if fitted:
            state = State(
                np.ascontiguousarray(self._average.T), self._noise_sd, self._initial_weight, self.n_steps_
            )
            model.mstep(state)
        else:
            state = model.initial_state()
        self.n_features_in_ = corpus.shape[1]
        decay = 0.7 if self.learning_decay is None else self.learning_decay
        self._run(model, state, sampler, mechanism, ledger, 1, corpus.shape[0], self._schedule(decay))
        self._finish(model, state)
        return self

    def fit_transform(self, X, y=None):
        """Fit, then give X's topic proportions (which describe X: they are not private)."""
        return self.fit(X).transform(X)

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        if self.doc_topic_prior is not None:
            check_number("doc_topic_prior", self.doc_topic_prior, 0, 1e6, low_open=True)
        if np.ndim(self.topic_word_prior) > 0:
            _check_prior(self.topic_word_prior, int(self.n_components))
        elif self.topic_word_prior is not None:
            check_number("topic_word_prior", self.topic_word_prior, 0, 1e6, low_open=True)
        if self.doc_length is not None:
            check_number("doc_length", self.doc_length, 1, 2**31 - 1, integer=True)
        elif self.private:
            raise ValueError("doc_length=None: expected a public length with private=True")
        if self.clip is not None:
            check_number("clip", self.clip, 0, 1, low_open=True)
        check_choice("length_method", self.length_method, ("scale", "resample", None))
        check_choice("readout", self.readout, ("shrinkage", "threshold"))
        check_number("threshold", self.threshold, 0, math.inf, high_open=True)
        check_number("max_doc_update_iter", self.max_doc_update_iter, 0, 2**31 - 1, integer=True)
        check_number("mean_change_tol", self.mean_change_tol, 0, math.inf, high_open=True)
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype={self.dtype!r}: expected 'float32' or 'float64'")
        self._check_privacy_parameters()

    @property
    def _alpha(self) -> float:
        return 1.0 / self.n_components if self.doc_topic_prior is None else float(self.doc_topic_prior)

    def _eta(self, n_words: int) -> np.ndarray:
        """The prior as a (V, K) array, which takes no memory where it is one number."""
        if np.ndim(self.topic_word_prior) == 0:
            eta = 1.0 / self.n_components if self.topic_word_prior is None else float(self.topic_word_prior)
            return np.broadcast_to(eta, (n_words, int(self.n_components)))
        prior = np.asarray(self.topic_word_prior, dtype=np.float64)
        if prior.shape[1] != n_words:
            raise ValueError(f"topic_word_prior has {prior.shape[1]} columns: expected {n_words}, the words of X")
        return np.ascontiguousarray(prior.T)

    def _finish(self, model, state) -> None:
        """Set the fitted attributes from released quantities."""
        self.n_steps_ = state.step
        self.components_ = model.components(state)
        self._average, self._noise_sd, self._initial_weight = state.average.T, state.noise_sd, state.initial_weight

    # ------------------------------------------------------------ read-outs

    def _elog_beta(self) -> np.ndarray:
        """(K, V) E[log beta] under q(beta)."""
        return digamma(self.components_) - digamma(self.components_.sum(axis=1, keepdims=True))

    def _posterior(self, X) -> tuple:
        """Counts, gamma and E[log beta] for documents that are taken as they are."""
        self._check_fitted()
        corpus = _check_documents(X, self.n_features_in_, "X", self)
        elog = self._elog_beta()
        table = scaled_table(np.exp(elog - elog.max(axis=0)), np.dtype(self.dtype))
        gamma = np.empty((corpus.shape[0], elog.shape[0]))
        indptr = corpus.indptr.astype(np.int64)
        estep_blocks(
            indptr, corpus.indices, lambda a, b: corpus.data[indptr[a] : indptr[b]].astype(np.float64), table,
            np.full(elog.shape[0], self._alpha), tol=float(self.mean_change_tol), max_iter=int(self.max_doc_update_iter),
            clip_norm=None, spacing=1.0, n_threads=resolve_n_threads(self.n_jobs), gamma=gamma,
        )
        return corpus, gamma, elog

    def transform(self, X) -> np.ndarray:
        """Topic proportions of documents.

        Parameters
        ----------
        X : sparse matrix or array, shape (D, V)

        Returns
        -------
        ndarray, float64, shape (D, K)
            Rows sum to 1. They describe X: publish them only if X may be published.
        """
        _, gamma, _ = self._posterior(X)
        return gamma / gamma.sum(axis=1, keepdims=True)

    def score(self, X, y=None) -> float:
        """Variational lower bound of log p(X), in nats (the numerator of Eq. 32).

        Parameters
        ----------
        X : sparse matrix or array, shape (D, V)
            Public test documents: nothing is noised here.

        Returns
        -------
        float
            Sum over documents of E[log p(n, theta, z | lambda)] - E[log q(theta, z)].
        """
        corpus, gamma, elog = self._posterior(X)
        alpha, n_topics = self._alpha, elog.shape[0]
        elog_theta = digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))
        total = 0.0
        step = max(1, 4_000_000 // n_topics)
        for first in range(0, len(corpus.indices), step):
            last = min(first + step, len(corpus.indices))
            documents = np.searchsorted(corpus.indptr, np.arange(first, last), side="right") - 1
            s = elog_theta[documents] + elog[:, corpus.indices[first:last]].T
            top = s.max(axis=1)
            total += float(corpus.data[first:last] @ (top + np.log(np.exp(s - top[:, None]).sum(axis=1))))
        total += float(((alpha - gamma) * elog_theta + gammaln(gamma) - gammaln(alpha)).sum())
        total += float((gammaln(n_topics * alpha) - gammaln(gamma.sum(axis=1))).sum())
        return total

    def perplexity(self, X) -> float:
        """Upper bound of the held-out perplexity per word (Eq. 32; Hoffman et al. 2010).

        Parameters
        ----------
        X : sparse matrix or array, shape (D, V)
            Public test documents.
        """
        counts = check_counts(X)
        return math.exp(-self.score(counts) / max(1, int(counts.data.sum(dtype=np.int64))))

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Names of `transform`'s columns."""
        self._check_fitted()
        name = type(self).__name__.lower()
        return np.asarray([f"{name}{k}" for k in range(self.components_.shape[0])], dtype=object)

    def __sklearn_tags__(self):
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64"]),
            input_tags=InputTags(sparse=True, positive_only=True),
            non_deterministic=bool(self.private),
        )

    # --------------------------------------------------------------- files

    def _arrays(self):
        return {
            "components": self.components_,
            "average": self._average,
            "noise": np.array([self._noise_sd, self._initial_weight, self.n_steps_]),
        }

    def _restore(self, arrays):
        self.components_ = arrays["components"]
        self._average = arrays["average"]
        self._noise_sd, self._initial_weight = map(float, arrays["noise"][:2])
        self.n_steps_ = int(arrays["noise"][2])


class _LdaModel:
    """Algorithm 3's E-step and M-step for the loop; statistics are word-major (V, K)."""

    def __init__(self, estimator: LatentDirichletAllocation, corpus, n_rows: int):
        self._estimator = estimator
        self._indptr = corpus.indptr.astype(np.int64)
        self._indices, self._counts = corpus.indices, corpus.data
        self.n_topics, self.n_words = int(estimator.n_components), corpus.shape[1]
        self.statistics_shape = (self.n_words, self.n_topics)
        self._n_records = estimator._public_n_records(n_rows)
        self._alpha = np.full(self.n_topics, estimator._alpha)
        self._private = bool(estimator.private)
        self.diagnostics = None
        lengths = np.diff(self._indptr)
        self._longest = int(lengths.max(initial=0))
        if estimator.doc_length is None:
            self._mode, length = native.LDA_AS_IS, max(1, int(self._counts.max(initial=1)) * max(1, self._longest))
        else:
            method = estimator.length_method or ("resample" if estimator.update == "paper" else "scale")
            self._mode = native.LDA_RESAMPLE if method == "resample" else native.LDA_SCALE
            length = int(estimator.doc_length)
        self._length = length
        clip = estimator.clip
        if clip is None:
            clip = 0.1 if estimator.update == "paper" else default_clip(length)
        self.clip_norm = (clip if self._private else 1.0) * float(length)
        self._eta = estimator._eta(self.n_words)
        self._shrinkage = ProductShrinkage(self.n_topics)
        self._table = np.empty((self.n_words, native.lda_stride(self.n_topics)), dtype=estimator.dtype)

    def sensitivity(self, neighbors: str) -> float:
        """a N for adding or removing a document, sqrt(2) a N for replacing one (entries are >= 0)."""
        return self.clip_norm * (1.0 if neighbors == "add_remove" else math.sqrt(2.0))

    def paper_sensitivity(self, neighbors: str) -> float:
        """The paper's a N (Eq. 28 and 29), whatever the relation."""
        return self.clip_norm

    def estep(self, records, words, spacing, sums, n_threads):
        """Gather, resample, E-step, clip, truncate and add, block by block."""
        estimator = self._estimator
        lengths = self._indptr[records + 1] - self._indptr[records]
        edges = document_blocks(np.concatenate(([0], np.cumsum(lengths))))
        norms = None if self.diagnostics is None else np.zeros(len(records))
        if norms is not None:
            figures = {"records": len(records), "clipped": 0, "mean_norm": 0.0}
            self.diagnostics.append(figures)
        if len(edges) < 2:
            return
        n_threads = min(n_threads, len(edges) - 1)
        single = self._table.dtype == np.float32
        widest = min(self._longest, self._length) if self._mode == native.LDA_RESAMPLE else self._longest
        capacity = max(BLOCK_NNZ, self._longest)
        documents = int(np.diff(edges).max())
        bytes_needed = native.lda_workspace(self.n_topics, widest, single)
        scratch_items = max(native.LDA_RESAMPLE_TOKENS, self._longest)
        buffers = [
            (
                np.empty(documents + 1, dtype=np.int64),
                np.empty(capacity, dtype=np.int32),
                np.empty(capacity),
                np.empty(scratch_items, dtype=np.uint32),
                np.empty(bytes_needed // 8 + 1).view(np.uint8),
                sums if worker == 0 else np.zeros_like(sums),
            )
            for worker in range(n_threads)
        ]
        clip = self.clip_norm if self._private else 0.0

        def work(block, worker):
            rows = records[edges[block] : edges[block + 1]]
            indptr, indices, counts, scratch, workspace, total = buffers[worker]
            indptr = indptr[: len(rows) + 1]
            native.lda_gather(
                rows, self._mode, self._length, self._indptr, self._indices, self._counts,
                words[edges[block] : edges[block + 1]], scratch, indptr, indices, counts,
            )
            native.lda_estep(
                indptr, indices, counts, self._table, self._alpha, float(estimator.mean_change_tol),
                int(estimator.max_doc_update_iter), clip, spacing, workspace, None, total, None,
                None if norms is None else norms[edges[block] : edges[block + 1]],
            )

        run_blocks(len(edges) - 1, n_threads, work)
        for buffer in buffers[1:]:
            sums += buffer[5]
        if norms is not None:
            figures.update(clipped=int((norms > self.clip_norm).sum()), mean_norm=float(norms.mean()))

    def project(self, released):
        """Algorithm 3: negative entries become 0."""
        np.maximum(released, 0.0, out=released)

    def initial_state(self) -> State:
        """Public initial topics: lambda ~ Gamma(100, 1/100), as in Hoffman et al. (2010), times the prior if that is an array."""
        generator = public_generator(self._estimator.random_state)
        average = generator.gamma(100.0, 0.01, self.statistics_shape)
        if np.ndim(self._estimator.topic_word_prior) > 0:
            # The factors part topics that are the same in the prior.
            average *= self._eta
        self._fill_table(average)
        average -= self._eta
        average /= self._n_records
        return State(average)

    @property
    def _shrinks(self) -> bool:
        return self._estimator.update == "average" and self._estimator.readout == "shrinkage"

    def _lambda(self, state: State, first: int, last: int) -> np.ndarray:
        """Dirichlet parameters of words first..last, shape (last - first, K)."""
        estimator = self._estimator
        if self._shrinks and state.noise_sd > 0:
            mean = self._shrinkage.means(state.average, first, last).astype(np.float64)
        elif estimator.update == "average":
            mean = np.maximum(state.average[first:last] - estimator.threshold * state.noise_sd, 0.0)
        else:
            mean = state.average[first:last]
        return self._eta[first:last] + self._n_records * mean

    def components(self, state: State) -> np.ndarray:
        """(K, V) Dirichlet parameters."""
        out = np.empty((self.n_topics, self.n_words))
        for first in range(0, self.n_words, _CHUNK):
            out[:, first : first + _CHUNK] = self._lambda(state, first, first + _CHUNK).T
        return out

    def mstep(self, state: State) -> None:
        """The next E-step's table of exp(E[log beta])."""
        if self._shrinks and state.noise_sd > 0:
            self._shrinkage.update(state.average, state.noise_sd)
        self._fill_table(None, state)

    def _fill_table(self, lam, state: State | None = None) -> None:
        """Fill the scaled table from (V, K) parameters, given whole or read from a state by chunks."""

        # Two passes, so that the parameters are read once: first their digammas, then
        # what depends on their sums.
        table, total = self._table[:, : self.n_topics], np.zeros(self.n_topics)
        self._table[:, self.n_topics :] = 0
        for first in range(0, self.n_words, _CHUNK):
            last = min(first + _CHUNK, self.n_words)
            chunk = lam[first:last] if state is None else self._lambda(state, first, last)
            total += chunk.sum(axis=0)
            table[first:last] = digamma(chunk)
        bias = digamma(total)
        for first in range(0, self.n_words, _CHUNK):
            elog = table[first : first + _CHUNK] - bias
            elog -= elog.max(axis=1, keepdims=True)
            # Below e^-85 a share would be a denormal float32, slow and without effect.
            elog[elog < -85.0] = -np.inf
            table[first : first + _CHUNK] = np.exp(elog)


def _check_prior(prior, n_topics: int) -> None:
    """Refuse an array that is no (K, V) prior; its width is compared with X later."""
    prior = np.asarray(prior)
    if prior.ndim != 2 or prior.shape[0] != n_topics or prior.shape[1] == 0:
        raise ValueError(f"topic_word_prior has shape {prior.shape}: expected a number or ({n_topics}, V)")
    if prior.dtype.kind not in "iuf" or not np.isfinite(prior).all() or not (prior > 0).all():
        raise ValueError("topic_word_prior: expected finite numbers > 0")


def _check_documents(X, n_features, name, estimator):
    """Canonical CSR of integer counts in the kernel's types."""
    if n_features is not None and getattr(X, "ndim", 2) == 2 and hasattr(X, "shape") and X.shape[1] != n_features:
        raise ValueError(
            f"{name} has {X.shape[1]} features, but {type(estimator).__name__} is expecting {n_features} features as input"
        )
    counts = check_counts(X, n_features=n_features, name=name)
    if counts.data.dtype != np.int32:
        if counts.data.max(initial=0) > 2**31 - 1:
            raise ValueError(f"{name}: expected counts below 2^31")
        counts.data = counts.data.astype(np.int32)
    if counts.indices.dtype != np.int32:
        counts.indices = counts.indices.astype(np.int32)
    if len(counts.data) and np.add.reduceat(counts.data, counts.indptr[:-1][np.diff(counts.indptr) > 0], dtype=np.int64).max() >= 2**32:
        raise ValueError(f"{name}: expected fewer than 2^32 words a document")
    return counts
