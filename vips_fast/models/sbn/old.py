"""Private sigmoid belief networks (Algorithm 6 of Park et al. 2020)."""

from __future__ import annotations

import math
import os

import numpy as np
from scipy.special import expit, k0e, k1e, logit

from ..inference import Schedule, State
from ..kernels import native
from ..kernels.psd import one_blas_thread, raise_spectrum
from ..kernels.sbn import MAX_PAIR_SCALE, record_blocks, sbn_pg, sbn_quadratic, visible_table, workspaces
from ..threads import resolve_n_threads, run_blocks
from .base import PrivateEstimator, check_choice, check_number, public_generator

#: Records of a block of the E-step: its arrays stay in a core's second-level cache.
_BLOCK = 512

#: Records whose Polya-Gamma means are held at a time.
_SUPERBLOCK = 4096

#: The centre of the visible units is a multiple of this, so that sums with it are integers.
_CENTER_BITS = 12

#: Visible units whose K x K systems are solved at a time.
_BLOCK_SOLVE = 32

#: Sweeps of the read-outs, which start afresh and are not part of a release.
_READ_SWEEPS = 12

#: Shares of the noise of the quadratic bound's blocks, relative to the block y x z
#: (1): the mean of z and its covariance have K and K (K - 1) / 2 entries against
#: J K, and are averaged over all of them, so little of the norm goes to them.
_SHARE_MEAN, _SHARE_COVARIANCE = 0.1, 0.15

#: Released probabilities are kept this far from 0 and 1, and variances of z above _LEAST_VARIANCE.
_LEAST_PIXEL, _LEAST_HIDDEN, _LEAST_VARIANCE = 1e-3, 0.02, 0.01

#: Least share of a visible unit's curvature that its bias keeps to itself, with the Polya-Gamma bound.
_LEAST_OWN = 0.01

#: A weight or bias beyond this saturates its pixel; noise may drive one there.
_LARGEST_WEIGHT = 1e3

#: Bounds whose K x K matrix is common to all visible units.
_QUADRATIC = ("jaakkola", "bohning")

#: Least curvature of Jaakkola's bound, that of |psi| = 10.
_LEAST_CURVATURE = 0.05


class SigmoidBeliefNetwork(PrivateEstimator):
    """Sigmoid belief network with one hidden layer whose parameters may be published.

    z_k ~ Bern(sigmoid(b_k)), y_j ~ Bern(sigmoid(w_j . z + c_j)), fitted by
    variational Bayes in which each record's expected sufficient statistics are
    clipped, summed exactly and released with Gaussian noise in one draw a step;
    everything after that is post-processing (Park et al. 2020, section 7 and
    Algorithm 6).

    Parameters
    ----------
    n_components : int
        Number of hidden units K.
    bound : {"jaakkola", "bohning", "pg"}
        Lower bound of the logistic likelihood. "pg" is the paper's Polya-Gamma
        augmentation, whose curvature <xi_nj> differs between records: a K x K matrix
        for each visible unit. "jaakkola" is the same bound (Jaakkola & Jordan 2000)
        with one curvature for each visible unit, common to all records, at its best
        value given what was released. "bohning" expands log(1 + e^psi) with the
        constant curvature 1/4 (Bohning 1992) about the log odds of the released mean
        image. With the last two the K x K matrices of all J visible units are one, and
        what is released is centred by earlier releases.
    weight_prior : {"tpbn", "gaussian"}
        Prior of the weights: three-parameter beta normal shrinkage (appendix 5), or
        independent normals of variance ``weight_variance``.
    weight_variance, bias_variance : float
        Prior variances of the weights (``weight_prior="gaussian"``) and of b and c
        (nu_b and nu_c).
    phi : float or None
        Scale phi of the shrinkage prior; None learns phi_k and omega.
    n_sweeps : int
        Sweeps of the mean-field update of q(z), each from the same public start.
    learning_decay, learning_offset : float
        kappa and tau_0 of the step size (tau_0 + t)^-kappa of the running average,
        at most 1. With a quadratic bound ("jaakkola", "bohning") t = 0 is the first step after the mean
        image and an offset of None is 0, so that the first update, made with random
        weights, is forgotten; with "pg" t = 0 is the first step and None is 1.
    batch_size : float or None
        (Expected) records of a minibatch; None takes all.
    n_steps : int
        Releases. With a quadratic bound the first max(1, n_steps // 10) of them
        release the mean image only.
    latent_clip, visible_clip : float
        With a quadratic bound: bounds of the norms of z - E[z], in units of
        sqrt(K) / 2 (reached by z in {0, 1} around 1/2), and of y - E[y], in units of
        the root mean square sqrt(sum_j m_j (1 - m_j)) that the released mean image m
        implies. A record's contribution is scaled to them.
    clip : float
        a in (0, 1], with ``bound="pg"``: a record's contribution is scaled down to a
        share a of the largest possible joint norm; 1 never does.
    sampling, neighbors, target_epsilon, target_delta, noise_multiplier, private, \
n_records, n_jobs, unsafe_diagnostics, callback
        As in `LatentDirichletAllocation`.
    update : {"average"}
        The running average of the noised statistics is kept as it is and repaired
        (spectra floored, probabilities cut) at read-out.
    sensitivity : {"proven", "paper"}
        "paper", for ``bound="pg"``, is the paper's construction: seven blocks, each
        scaled by its own sensitivity, noise for a joint sensitivity of sqrt(7). The
        proven joint sensitivity of its six noisy blocks is sqrt(6).
    dtype : {"float32", "float64"}
        Precision of the Polya-Gamma E-step.
    random_state : int, numpy Generator, RandomState or None
        Seeds the initial weights, which are public; and, only without privacy, the
        minibatches.

    Attributes
    ----------
    components_ : ndarray, float64, shape (K, J)
        Posterior means of the weights.
    hidden_bias_, visible_bias_ : ndarray, float64, shapes (K,) and (J,)
        b and c.
    mean_image_ : ndarray, float64, shape (J,)
        Released mean of the records.
    privacy_, ledger_, n_steps_, n_features_in_, diagnostics_
        As in `LatentDirichletAllocation`.

    Notes
    -----
    *Quadratic bounds.* A step releases, in one draw, sum_n (v_n, (y_n - m) x v_n,
    upper off-diagonal of v_n v_n') with v_n the clipped z_n - zeta; m and zeta are
    the released means of y and z, so their use costs nothing. With ||v_n|| <= C_z
    min(1, C_y / ||y_n - m||) the blocks are at most C_z, C_z C_y and C_z^2 sqrt((1 -
    1/K) / 2) long, whatever the record: each is divided by its bound, weighted, and
    the whole divided by the root of the sum of squared weights. Adding or removing a
    record moves the sum by at most 1, replacing one by at most 2 (entries have
    signs). The diagonal of E[z z'] is E[z] and is not released twice.

    With S the released covariance of z, a_j that of y_j and z, and m_j the mean of y_j,
    Jaakkola's bound is largest at w_j = S^-1 a_j / kappa_j, E[psi_j] = (m_j - 1/2) /
    kappa_j and t_j^2 = E[psi_j^2], kappa_j = tanh(t_j / 2) / (2 t_j). Then
    t_j kappa_j = (a_j' S^-1 a_j + (m_j - 1/2)^2)^(1/2), so that t_j = 2 artanh of twice
    that root. The noise's part of a_j' S^-1 a_j, which is known on average, is taken off,
    and w_j is shortened to the length that is left.

    *Polya-Gamma bound.* The blocks are s_1, s_3, ..., s_7 of Algorithm 6, each
    divided by its largest norm: sqrt(K), sqrt(J), sqrt(J)/4, sqrt(JK)/4, sqrt(JK) and
    sqrt(JK(K-1)/2)/4, the last for the upper off-diagonal of s_7, whose diagonal is
    s_5. All entries lie between 0 and their largest value, and all blocks are at
    their longest at once, so adding, removing or replacing a record moves the sum by
    at most, and by as much as, sqrt(6). With ``clip=a`` replacing one moves it by at
    most min(sqrt(2) a, 1) sqrt(6): ||x - y||^2 <= ||x||^2 + ||y||^2 for entries >= 0.
    s_2 is a function of released parameters and gets no noise. With privacy this bound
    stays near the mean image: almost all of the J K (K + 3) / 2 numbers released are
    second moments, each at most 1/4, and at ordinary budgets the noise's spectrum in a
    K x K block ends above the block's own largest eigenvalue, so that the repair leaves
    a multiple of the identity and the weights shrink. MNIST, K = 50, epsilon = 3.34, every
    image in each of 10 steps: pixel accuracy .87 (mean image .844, "jaakkola" .961).

    *Lattice.* Records contribute exact integers on fine grids (factors are truncated
    toward zero, which cannot raise a norm); the finished sums are rounded to the
    noise's lattice of spacing g. Rounding moves two sums apart by at most sqrt(d) g,
    d entries, which is taken off the bounds above.

    Columns that never vary are ordinary data.
    """

    def __init__(
        self, n_components=50, *, bound="jaakkola", weight_prior="tpbn", weight_variance=1.0, bias_variance=100.0,
        phi=None, n_sweeps=4, learning_decay=1.0, learning_offset=None, batch_size=None, n_steps=10, latent_clip=0.9,
        visible_clip=1.15, clip=1.0, sampling="poisson", neighbors=None, target_epsilon=None, target_delta=None,
        noise_multiplier=None, update="average", private=True, sensitivity="proven", n_records=None, dtype="float32",
        n_jobs=None, random_state=None, unsafe_diagnostics=False, callback=None,
    ):
        self.n_components = n_components
        self.bound = bound
        self.weight_prior = weight_prior
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.phi = phi
        self.n_sweeps = n_sweeps
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.latent_clip = latent_clip
        self.visible_clip = visible_clip
        self.clip = clip
        self.sampling = sampling
        self.neighbors = neighbors
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.update = update
        self.private = private
        self.sensitivity = sensitivity
        self.n_records = n_records
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.unsafe_diagnostics = unsafe_diagnostics
        self.callback = callback

    # ------------------------------------------------------------------ fit

    def fit(self, Y, y=None):
        """Fit to binary records.

        Parameters
        ----------
        Y : array, shape (n, J)
            Entries 0 and 1 (or booleans), one record a row.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or the data are out of range, or the run would pass
            ``target_epsilon``. Nothing is spent.
        MemoryError
            Before the run, if the statistics would not fit the memory. Nothing is spent.
        """
        self._check_parameters()
        Y = _check_records(Y, None, "Y", self)
        _check_memory(self, Y.shape[1])
        kind = _QuadraticModel if self.bound in _QUADRATIC else _PolyaGammaModel
        model = kind(self, Y)
        n_steps = int(self.n_steps)
        sampler, mechanism, ledger = self._set_up(model, len(Y), n_steps)
        model.set_spacing(mechanism.spacing)
        self.n_features_in_ = Y.shape[1]
        state = State(np.zeros(model.statistics_shape))
        self._run(model, state, sampler, mechanism, ledger, n_steps, len(Y), schedule=model.engine_schedule())
        self.n_steps_ = state.step
        self._restore(model.arrays())
        return self

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        check_choice("bound", self.bound, (*_QUADRATIC, "pg"))
        check_choice("weight_prior", self.weight_prior, ("tpbn", "gaussian"))
        for name in ("weight_variance", "bias_variance"):
            check_number(name, getattr(self, name), 0, 1e12, low_open=True)
        if self.phi is not None:
            check_number("phi", self.phi, 0, 1e12, low_open=True)
        check_number("n_sweeps", self.n_sweeps, 1, 2**31 - 1, integer=True)
        check_number("latent_clip", self.latent_clip, 0, 2, low_open=True)
        check_number("visible_clip", self.visible_clip, 0, 100, low_open=True)
        check_number("clip", self.clip, 0, 1, low_open=True)
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype={self.dtype!r}: expected 'float32' or 'float64'")
        self._check_privacy_parameters()
        check_choice("update", self.update, ("average",))
        if self.bound in _QUADRATIC:
            check_number("n_steps", self.n_steps, 2, 2**31, integer=True)
            if self.sensitivity == "paper":
                raise ValueError(f"sensitivity='paper': expected 'proven' with bound={self.bound!r}, which the paper does not have")
        elif self.sensitivity == "paper" and self.clip != 1:
            raise ValueError(f"clip={self.clip!r}: expected 1 with sensitivity='paper', which does not clip")

    # ------------------------------------------------------------ read-outs

    def transform(self, Y) -> np.ndarray:
        """q(z_k = 1) of records, under the bound the model was fitted with.

        Parameters
        ----------
        Y : array, shape (n, J)
            Entries 0 and 1.

        Returns
        -------
        ndarray, float64, shape (n, K)
            They describe Y: publish them only if Y may be published.
        """
        self._check_fitted()
        Y = _check_records(Y, self.n_features_in_, "Y", self)
        if self.bound == "pg":
            return self._pg(Y).z
        return sbn_quadratic(
            Y, self.components_.T, *_quadratic_terms(
                self.components_.T, self._weight_covariance, self.visible_bias_, self._expansion, self._curvature,
                self.hidden_bias_,
            ), expit(self.hidden_bias_), n_sweeps=_READ_SWEEPS, n_threads=resolve_n_threads(self.n_jobs),
        )

    def fit_transform(self, Y, y=None):
        """Fit, then give Y's q(z) (which describe Y: they are not private)."""
        return self.fit(Y).transform(Y)

    def _pg(self, Y):
        return sbn_pg(
            Y, self.components_.T, self.components_.T**2 + self._weight_variances.T, self.visible_bias_,
            self._visible_variance, self.hidden_bias_, expit(self.hidden_bias_), n_sweeps=_READ_SWEEPS,
            dtype=self.dtype, n_threads=resolve_n_threads(self.n_jobs),
        )

    def reconstruct(self, Y) -> np.ndarray:
        """Probabilities of the visible units given each record's own E[z].

        Parameters
        ----------
        Y : array, shape (n, J)

        Returns
        -------
        ndarray, float64, shape (n, J)
            sigmoid(E[w_j] . E[z] + E[c_j]).
        """
        return expit(self.transform(Y) @ self.components_ + self.visible_bias_)

    def pixel_accuracy(self, Y) -> float:
        """Share of entries that the reconstruction, cut at 1/2, has right (section 7.1).

        Parameters
        ----------
        Y : array, shape (n, J)
            Public test records: nothing is noised here.
        """
        Y = _check_records(Y, getattr(self, "n_features_in_", None), "Y", self)
        return float(((self.reconstruct(Y) > 0.5) == (Y > 0)).mean())

    def score(self, Y, y=None) -> float:
        """Variational lower bound of log p(Y), in nats.

        The Polya-Gamma bound at its best xi, log p(y_j | psi_j) >= (y_j - 1/2) E[psi_j]
        - log(2 cosh(t_j / 2)), t_j^2 = E[psi_j^2], less the divergence of q(z) from its
        prior, with parameters at their posterior mean and variance.

        Parameters
        ----------
        Y : array, shape (n, J)
            Public test records: nothing is noised here.

        Returns
        -------
        float
            Sum over records.
        """
        self._check_fitted()
        Y = _check_records(Y, self.n_features_in_, "Y", self)
        w, variances = self.components_, self._weight_variances
        prior = _log_odds_terms(self.hidden_bias_)
        total = 0.0
        for first, last in record_blocks(len(Y), _SUPERBLOCK):
            part = Y[first:last]
            z = self._pg(part).z
            psi = z @ w + self.visible_bias_
            square = psi**2 + self._visible_variance + (z * (1 - z)) @ w**2 + z @ variances
            t = np.sqrt(np.maximum(square, 0.0))
            # log(2 cosh(t/2)) without overflow.
            total += float(((part - 0.5) * psi - t / 2 - np.log1p(np.exp(-t))).sum())
            q = np.clip(z, 1e-300, 1.0)
            r = np.clip(1 - z, 1e-300, 1.0)
            total -= float((z * (np.log(q) - prior[0]) + (1 - z) * (np.log(r) - prior[1])).sum())
        return total

    def sample(self, n_samples=1, random_state=None) -> np.ndarray:
        """Records drawn from the model.

        Parameters
        ----------
        n_samples : int
        random_state : int, numpy Generator, RandomState or None

        Returns
        -------
        ndarray, uint8, shape (n_samples, J)
        """
        self._check_fitted()
        n_samples = check_number("n_samples", n_samples, 0, 2**40, integer=True)
        generator = public_generator(random_state)
        z = generator.random((n_samples, len(self.hidden_bias_))) < expit(self.hidden_bias_)
        chance = expit(z.astype(np.float64) @ self.components_ + self.visible_bias_)
        return (generator.random(chance.shape) < chance).astype(np.uint8)

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
            "components": self.components_, "weight_variances": self._weight_variances,
            "weight_covariance": self._weight_covariance, "hidden_bias": self.hidden_bias_,
            "visible_bias": self.visible_bias_, "visible_variance": self._visible_variance,
            "expansion": self._expansion, "curvature": self._curvature, "mean_image": self.mean_image_,
            "steps": np.array([self.n_steps_]),
        }

    def _restore(self, arrays):
        self.components_ = arrays["components"]
        self._weight_variances = arrays["weight_variances"]
        self._weight_covariance = arrays["weight_covariance"]
        self.hidden_bias_, self.visible_bias_ = arrays["hidden_bias"], arrays["visible_bias"]
        self._visible_variance = arrays["visible_variance"]
        self._expansion, self._curvature = arrays["expansion"], arrays["curvature"]
        self.mean_image_ = arrays["mean_image"]
        if "steps" in arrays:
            self.n_steps_ = int(arrays["steps"][0])


# ------------------------------------------------------------------- priors


def gig_means(a, b):
    """Means of X and 1/X under the generalised inverse Gaussian GIG(0, a, b).

    Density proportional to exp(-(a x + b / x) / 2) / x. E[X] = sqrt(b/a) R and
    E[1/X] = sqrt(a/b) R, R = K_1(s) / K_0(s), s = sqrt(a b). The exponentially scaled
    Bessel functions keep R finite for large s, where both underflow; for s below
    1e-300 R is -1 / (s log s) to double precision, and the floor gives its value there.

    Parameters
    ----------
    a, b : arrays of floats > 0

    Returns
    -------
    tuple of two arrays
    """
    s = np.sqrt(a) * np.sqrt(b)
    small = np.maximum(s, 1e-300)
    ratio = k1e(small) / k0e(small)
    return np.sqrt(b / a) * ratio, np.sqrt(a / b) * ratio


class _WeightPrior:
    """Prior precisions of the weights and, for shrinkage, their hyper-posteriors (appendix 5).

    All updates are functions of released posteriors. Two of the printed ones do not
    follow from the model and are corrected (as in Gan et al. 2015): q(xi_jk) is
    Gam(1, E[zeta_jk] + E[phi_k]), which the print gives without E[phi_k].
    """

    def __init__(self, estimator, n_visible, n_hidden):
        self._estimator = estimator
        shape = (n_visible, n_hidden)
        if estimator.weight_prior == "gaussian":
            self.precision = np.full(shape, 1.0 / estimator.weight_variance)
        else:
            self.precision = np.ones(shape)
            self._xi = np.ones(shape)
            self._phi = np.full(n_hidden, 1.0 if estimator.phi is None else float(estimator.phi))
            self._omega = 1.0

    def update(self, second_moment):
        """One pass of appendix 5 from E[w_jk^2]."""
        if self._estimator.weight_prior == "gaussian":
            return
        n_visible, n_hidden = second_moment.shape
        # Below the floor, 1/zeta is beyond any precision the data can oppose.
        zeta, self.precision = gig_means(2.0 * self._xi, np.maximum(second_moment, 1e-12))
        self._xi = 1.0 / (zeta + self._phi)
        if self._estimator.phi is None:
            self._phi = (n_visible / 2 + 0.5) / (self._omega + self._xi.sum(axis=0))
            self._omega = (n_hidden / 2 + 0.5) / (1.0 + self._phi.sum())


def _hidden_bias(mean, n_records, variance):
    """q(b) of Eqs. 85 and 86 with q(xi^(1)) at its own optimum: the fixed point of both.

    mean is in (0, 1). The iteration is that of the Jaakkola-Jordan bound, which rises
    each time; from the log odds, the limit for a broad prior, it needs few rounds.
    """
    b = logit(mean)
    for _ in range(50):
        b = (mean - 0.5) / (1.0 / (variance * n_records) + _pg_mean(np.abs(b)))
    return b


def _pg_mean(t):
    small = np.maximum(t, 1e-6)
    return np.tanh(small / 2) / (2 * small)


def _log_odds_terms(b):
    """log sigmoid(b) and log sigmoid(-b)."""
    return -np.logaddexp(0.0, -b), -np.logaddexp(0.0, b)


def _quadratic_terms(w, covariance, c, expansion, curvature, b):
    """``gram`` and ``linear`` of `sbn_quadratic`.

    log p(y_j | psi) >= (y_j - sigmoid(e_j)) (psi - e_j) - kappa_j (psi - e_j)^2 / 2 +
    constant (Jaakkola: e_j = 0); with psi = w . z + c, r = c - e and kappa_j E[w_j w_j']
    summed over j the coefficient of z_k is
    b_k + w_k . (y - sigmoid(e) - kappa r) - gram_kk / 2 - sum_{l != k} gram_kl z_l.
    ``covariance`` is the sum over j of kappa_j times the weights' posterior covariances.
    """
    gram = (w.T * curvature) @ w + covariance
    linear = b - w.T @ (expit(expansion) + curvature * (c - expansion)) - 0.5 * np.diag(gram)
    return np.ascontiguousarray(gram), np.ascontiguousarray(linear)


def _denoised_energy(cross, covariance, variance):
    """a_j' S^-1 a_j of each row less what noise of ``variance`` in its entries adds on average, and the
    factor that brings S^-1 a_j to the length that is left."""
    inverse = np.linalg.inv(covariance)
    raw = np.einsum("jk,jk->j", cross @ inverse, cross)
    energy = np.maximum(raw - variance * np.trace(inverse), 0.0)
    return energy, np.sqrt(energy / np.maximum(raw, 1e-300))


def _common_curvature(energy, mean):
    """kappa_j of Jaakkola's bound at its best common t_j, see the notes of the class.

    ``energy`` is a_j' S^-1 a_j; y_j's variance bounds it, so the root is at most 1/2.
    """
    root = np.sqrt(energy + (mean - 0.5) ** 2)
    t = 2.0 * np.arctanh(np.minimum(2.0 * root, 0.99999))
    return np.maximum(_LEAST_CURVATURE, _pg_mean(t))


def floor_spectrum(matrices, least):
    """Symmetric matrices with eigenvalues below ``least`` raised to it, all at once.

    Parameters
    ----------
    matrices : (..., K, K) float array, symmetric
    least : float

    Returns
    -------
    (..., K, K) float array
    """
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def solve_repaired(moments, least, extra, right, lapack):
    """Solve (F(M_j) + diag(e_j)) x = r for many j, F the repair of `floor_spectrum`.

    Parameters
    ----------
    moments : (m, K, K) C-contiguous float64 array
        Symmetric; entries on and right of the diagonals are read. Overwritten.
    least : float > 0
        Least eigenvalue of F(M_j).
    extra : (m, K) float64 array, >= 0
    right : (m, K, r) float64 array
    lapack : `scipy.linalg.lapack`

    Returns
    -------
    solutions : (m, K, r) float64 array
    variances : (m, K) float64 array
        Diagonals of the inverses.
    """
    solutions, variances = np.empty(right.shape), np.empty(extra.shape)
    for j, matrix in enumerate(moments):
        repaired = raise_spectrum(matrix, least, lapack)
        if repaired is None:
            # F is least I: noise drowned the matrix.
            variances[j] = 1.0 / (least + extra[j])
            solutions[j] = variances[j][:, None] * right[j]
            continue
        repaired.flat[:: len(matrix) + 1] += extra[j]
        factor, info = lapack.dpotrf(repaired.T if repaired.flags.c_contiguous else repaired, lower=1, overwrite_a=1)
        if info != 0:
            raise np.linalg.LinAlgError(f"dpotrf failed (info={info})")
        solutions[j] = lapack.dpotrs(factor, right[j], lower=1)[0]
        inverse, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        variances[j] = np.einsum("ik,ik->k", inverse, inverse)
    return solutions, variances


def _diagonals(matrices):
    """Writable view of the diagonals of (n, K, K) matrices."""
    return np.einsum("jkk->jk", matrices)


# ----------------------------------------------------------------- the loop


class _Model:
    """What the two bounds share: blocks of the statistic, rounding to the lattice."""

    def __init__(self, estimator: SigmoidBeliefNetwork, Y):
        self._estimator, self._Y = estimator, Y
        self.n_visible, self.n_hidden = Y.shape[1], int(estimator.n_components)
        self._n_records = estimator._public_n_records(len(Y))
        self._prior = _WeightPrior(estimator, self.n_visible, self.n_hidden)
        generator = public_generator(estimator.random_state)
        self._start_weights = generator.standard_normal((self.n_visible, self.n_hidden))
        self._upper = np.triu_indices(self.n_hidden, 1)
        self._step = 0
        self.diagnostics = None

    def _lay_out(self, **sizes):
        """Number the entries of the statistic, block by block."""
        self._blocks, first = {}, 0
        for name, size in sizes.items():
            self._blocks[name] = slice(first, first + size)
            first += size
        self.statistics_shape = (first,)

    def set_spacing(self, spacing: float) -> None:
        """Take the rounding to the lattice off the bounds: sqrt(d) g, and its own rounding."""
        self._slack = 1.001 * math.sqrt(self.statistics_shape[0]) * spacing
        if self._slack > 0.5 * self.clip_norm:
            raise ValueError("noise_multiplier: too large for the number of statistics; expected less noise a step")

    def _add(self, sums, name, fine, scale, spacing):
        """Round exact sums, times scale, to the lattice."""
        out = sums[self._blocks[name]]
        fine = fine.reshape(-1)
        for first in range(0, fine.size, 1 << 16):
            part = fine[first : first + (1 << 16)]
            out[first : first + (1 << 16)] += np.rint(part * (scale / spacing)).astype(np.int64)

    def _symmetric(self, upper):
        """K x K matrices from strict upper triangles, diagonal zero."""
        out = np.zeros((*upper.shape[:-1], self.n_hidden, self.n_hidden))
        out[..., self._upper[0], self._upper[1]] = upper
        return out + np.swapaxes(out, -1, -2)

    def _diagnose(self, n_records, clipped):
        """Open one step's figures, where ``unsafe_diagnostics`` asks for them."""
        if self.diagnostics is not None:
            self.diagnostics.append({"records": n_records, "clipped": int(clipped)})

    def _rows(self, records):
        """Function (first, last) -> rows of those records; a view where they are consecutive."""
        if len(records) == len(self._Y):
            return lambda first, last: self._Y[first:last]
        return lambda first, last: self._Y[records[first:last]]

    def project(self, released):
        """Not used: statistics are repaired at read-out."""
        raise NotImplementedError


class _QuadraticModel(_Model):
    """Curvature common to all records: mean image first, then centred statistics."""

    clip_norm = 1.0

    def __init__(self, estimator, Y):
        super().__init__(estimator, Y)
        J, K = Y.shape[1], self.n_hidden
        self._lay_out(image=J, mean=K, cross=J * K, covariance=K * (K - 1) // 2)
        self._mean_steps = max(1, int(estimator.n_steps) // 10)
        offset = estimator.learning_offset
        self._schedule = Schedule(0.0 if offset is None else float(offset), float(estimator.learning_decay))
        self._mean = np.zeros(J)
        self._average = None

    def engine_schedule(self) -> Schedule:
        """Rate 1: each release is averaged here, where its centre is known."""
        return Schedule(1.0, 0.0)

    def sensitivity(self, neighbors: str) -> float:
        """1 for adding or removing a record, 2 for replacing one (entries have signs)."""
        return 1.0 if neighbors == "add_remove" else 2.0

    # -- E-step

    def estep(self, records, words, spacing, sums, n_threads):
        if self._step < self._mean_steps:
            self._estep_mean(records, spacing, sums)
        else:
            self._estep_joint(records, spacing, sums, n_threads)

    def _estep_mean(self, records, spacing, sums):
        """sum_n (y_n - 1/2) / (sqrt(J) / 2): every record has norm 1."""
        rows, total = self._rows(records), np.zeros(self.n_visible, dtype=np.int64)
        for first, last in record_blocks(len(records), 1 << 13):
            total += rows(first, last).sum(axis=0, dtype=np.int64)
        self._add(sums, "image", 2 * total - len(records), self._image_scale(), spacing)
        self._diagnose(len(records), 0)

    def _image_scale(self):
        return (1.0 - self._slack) / math.sqrt(self.n_visible)

    def _scales(self):
        """Multipliers of the three blocks; each is its weight over its bound and the joint norm."""
        joint = (1.0 - self._slack) / math.sqrt(1.0 + _SHARE_MEAN**2 + _SHARE_COVARIANCE**2)
        C = self._latent_bound
        pair = C * C * math.sqrt(max(0.5 * (1 - 1 / self.n_hidden), 1e-300))
        return (
            _SHARE_MEAN * joint / C, joint / (C * self._visible_bound), _SHARE_COVARIANCE * joint / pair,
        )

    def _estep_joint(self, records, spacing, sums, n_threads):
        estimator, J, K = self._estimator, self.n_visible, self.n_hidden
        gram, linear = _quadratic_terms(
            self._w, self._covariance, self._c, self._expansion, self._curvature, self._b
        )
        start = expit(self._b)
        rows, blocks = self._rows(records), record_blocks(len(records), _BLOCK)
        n_threads = max(1, min(n_threads, len(blocks)))
        quadratic, small = workspaces("quadratic", J, K, n_threads), workspaces("gram", J, K, n_threads)
        unit = math.ldexp(1.0, math.frexp(self._latent_bound)[1] - 20)
        clipped = None if self.diagnostics is None else np.zeros(len(records), dtype=bool)
        clip = self._latent_bound if estimator.private else 0.0
        totals = [
            (np.zeros(K, np.int64), np.zeros((J, K), np.int64), np.zeros(K * (K - 1) // 2, np.int64))
            for _ in range(n_threads)
        ]

        def work(block, worker):
            y = rows(*blocks[block])
            z, norms = np.empty((len(y), K)), np.empty(len(y))
            native.sbn_quadratic(y, self._w, gram, linear, start, int(estimator.n_sweeps), quadratic[worker], z)
            factor = None
            if clip:
                native.sbn_visible_norms(y, self._center, norms)
                factor = np.minimum(1.0, self._visible_bound / np.maximum(norms, self._visible_bound))
            v, lengths = np.empty_like(z), None if clipped is None else np.empty(len(y))
            native.sbn_clip(z, self._zeta, factor, clip, unit, v, lengths)
            if clipped is not None and clip:
                clipped[slice(*blocks[block])] = (factor < 1.0) | (lengths > clip)
            mean, cross, pairs = totals[worker]
            mean += v.sum(axis=0).astype(np.int64)
            native.sbn_cross(y, v, cross)
            native.sbn_gram(v, small[worker], pairs)

        run_blocks(len(blocks), n_threads, work)
        for extra in totals[1:]:
            for total, part in zip(totals[0], extra):
                total += part
        mean, cross, pairs = totals[0]
        # sum_n (y_n - m) x v_n, m a multiple of 2^-_CENTER_BITS: still integers.
        cross *= 1 << _CENTER_BITS
        cross -= np.rint(np.ldexp(self._center, _CENTER_BITS)).astype(np.int64)[:, None] * mean
        a1, a6, a7 = self._scales()
        self._add(sums, "mean", mean, a1 * unit, spacing)
        self._add(sums, "cross", cross, a6 * math.ldexp(unit, -_CENTER_BITS), spacing)
        self._add(sums, "covariance", pairs, a7 * unit * unit, spacing)
        self._diagnose(len(records), 0 if clipped is None else clipped.sum())

    # -- M-step

    def mstep(self, state: State) -> None:
        """Parameters from the fresh release in ``state.average``."""
        if self._step < self._mean_steps:
            self._mstep_mean(state)
        else:
            self._mstep_joint(state)
        self._step += 1

    def _mstep_mean(self, state):
        scale = 2 * self._image_scale()
        self._mean += (0.5 + state.average[self._blocks["image"]] / scale) / self._mean_steps
        if self._step + 1 < self._mean_steps:
            return
        sd = state.noise_sd / scale / math.sqrt(self._mean_steps)
        least = min(0.4, max(_LEAST_PIXEL, 2 * sd))
        mean = np.clip(self._mean, least, 1 - least)
        self._mean_image = mean
        if self._estimator.bound == "bohning":
            self._expansion, self._curvature = logit(mean), np.full(len(mean), 0.25)
        else:
            self._expansion, self._curvature = np.zeros(len(mean)), _common_curvature(0.0, mean)
        self._center = np.ldexp(np.rint(np.ldexp(mean, _CENTER_BITS)), -_CENTER_BITS)
        # E[m (1 - m)] under the noise falls short by its variance.
        spread = float((self._mean * (1 - self._mean)).sum() + len(mean) * sd * sd)
        spread = math.sqrt(min(max(spread, 1.0), len(mean) / 4 + 1))
        self._visible_bound = float(self._estimator.visible_clip) * spread
        self._latent_bound = float(self._estimator.latent_clip) * math.sqrt(self.n_hidden) / 2
        if not self._estimator.private:
            # Nothing is clipped; bounds that no record passes set the grids.
            self._latent_bound, self._visible_bound = math.sqrt(self.n_hidden), math.sqrt(self.n_visible)
        # w . (y - m) then has a spread of about 1.
        self._w = self._start_weights / spread
        self._variances = np.zeros_like(self._w)
        self._covariance = np.zeros((self.n_hidden, self.n_hidden))
        self._zeta, self._b = np.full(self.n_hidden, 0.5), np.zeros(self.n_hidden)
        self._c = self._mean_log_odds() - self._w @ self._zeta

    def _mean_log_odds(self):
        """E[psi_j] at which the bound's slope in c_j is zero."""
        return self._expansion + (self._mean_image - expit(self._expansion)) / self._curvature

    def _mstep_joint(self, state):
        a1, a6, a7 = self._scales()
        blocks, average, zeta = self._blocks, state.average, self._zeta
        mean = np.clip(zeta + average[blocks["mean"]] / a1, _LEAST_HIDDEN, 1 - _LEAST_HIDDEN)
        cross = average[blocks["cross"]].reshape(self.n_visible, self.n_hidden) / a6
        covariance = self._symmetric(average[blocks["covariance"]] / a7) - np.outer(mean - zeta, mean - zeta)
        # E[z^2] = E[z]: the diagonal about the mean.
        np.fill_diagonal(covariance, mean * (1 - mean))
        fresh, variance = (mean, cross, covariance), (state.noise_sd / a7) ** 2
        t = self._step - self._mean_steps
        offset = self._schedule.offset + t
        rate = 1.0 if self._average is None or offset <= 1 else min(1.0, offset ** -self._schedule.decay)
        if rate < 1:
            fresh = tuple((1 - rate) * old + rate * new for old, new in zip(self._average, fresh))
            variance = (1 - rate) ** 2 * self._noise + rate**2 * variance
        self._average, self._noise = fresh, variance
        mean, cross, covariance = fresh
        # The noise's own spectrum ends at 2 sqrt(K) sd (the semicircle law): below
        # that an eigenvalue says nothing, and too small a one would blow W up.
        least = max(_LEAST_VARIANCE, 2 * math.sqrt(self.n_hidden * variance))
        repaired = floor_spectrum(covariance, least)
        shorten = None
        if self._estimator.bound == "jaakkola":
            energy, shorten = _denoised_energy(cross, repaired, variance * (a7 / a6) ** 2)
            self._curvature = _common_curvature(energy, self._mean_image)
        self._solve(cross, repaired, shorten)
        self._zeta = mean
        self._b = _hidden_bias(mean, self._n_records, self._estimator.bias_variance)
        self._c = self._mean_log_odds() - self._w @ mean

    def _solve(self, cross, covariance, shorten):
        """q(W): with the centre of z at its mean, c drops out of the equations of W.

        ``shorten`` is None or the factor of each unit's weights.
        """
        n, curvature = self._n_records, self._curvature
        if self._estimator.weight_prior == "gaussian":
            # One decomposition serves all visible units: their matrices differ in
            # kappa_j alone and the prior is isotropic.
            values, vectors = np.linalg.eigh(covariance)
            spread = 1.0 / (n * curvature[:, None] * values + self._prior.precision[0, 0])
            w = n * (cross @ vectors * spread) @ vectors.T
            variances = spread @ (vectors**2).T
            total = (vectors * (curvature @ spread)) @ vectors.T
        else:
            w, variances = np.empty_like(cross), np.empty_like(cross)
            blocks = record_blocks(self.n_visible, _BLOCK_SOLVE)
            totals = [None] * len(blocks)

            def work(block, worker):
                first, last = blocks[block]
                own = curvature[first:last, None, None]
                precision = n * own * covariance
                _diagonals(precision)[...] += self._prior.precision[first:last]
                sigma = np.linalg.inv(precision)
                w[first:last] = n * np.matmul(sigma, cross[first:last, :, None])[:, :, 0]
                variances[first:last] = _diagonals(sigma)
                totals[block] = (own * sigma).sum(axis=0)

            run_blocks(len(blocks), resolve_n_threads(self._estimator.n_jobs), work)
            # In the order of the blocks, so that the sum does not depend on the threads.
            total = sum(totals)
        if shorten is not None:
            w *= shorten[:, None]
        self._w, self._variances, self._covariance = w, variances, total
        self._prior.update(w * w + variances)

    def arrays(self):
        """What the estimator keeps; all of it released."""
        return {
            "components": np.ascontiguousarray(self._w.T), "weight_variances": np.ascontiguousarray(self._variances.T),
            "weight_covariance": self._covariance, "hidden_bias": self._b, "visible_bias": self._c,
            "visible_variance": np.zeros(self.n_visible), "expansion": self._expansion, "curvature": self._curvature,
            "mean_image": self._mean_image,
        }


class _PolyaGammaModel(_Model):
    """Algorithm 6: the six noisy blocks of the complete-data statistic."""

    def __init__(self, estimator, Y):
        super().__init__(estimator, Y)
        J, K = Y.shape[1], self.n_hidden
        self._paper = estimator.sensitivity == "paper"
        pairs = K * (K - 1) // 2
        if self._paper:
            self._lay_out(s1=K, s2=K, s3=J, s4=J, s5=J * K, s6=J * K, s7=J * (K * (K + 1) // 2))
        else:
            self._lay_out(s1=K, s3=J, s4=J, s5=J * K, s6=J * K, s7=J * pairs)
        # Largest norms, all six reached by a record of ones with z = 1 and psi = 0.
        self._largest = {
            "s1": math.sqrt(K), "s3": math.sqrt(J), "s4": math.sqrt(J) / 4, "s5": math.sqrt(J * K) / 4,
            "s6": math.sqrt(J * K), "s7": math.sqrt(J) * K / 4 if self._paper else math.sqrt(J * max(pairs, 1)) / 4,
        }
        self.clip_norm = float(estimator.clip) * math.sqrt(6.0)
        self._w = 0.1 * self._start_weights
        self._variances = np.zeros_like(self._w)
        self._c, self._c_variance, self._b = np.zeros(J), np.zeros(J), np.zeros(K)
        self._mean_image = np.full(J, 0.5)
        # |sum| <= n 2^(21 + bits) has to stay below 2^62.
        self._pair_bits = min(int(math.log2(MAX_PAIR_SCALE)), 40 - max(0, math.ceil(math.log2(max(1, len(Y))))))

    def engine_schedule(self) -> Schedule:
        """The paper's step sizes."""
        offset = self._estimator.learning_offset
        return Schedule(1.0 if offset is None else float(offset), float(self._estimator.learning_decay))

    def sensitivity(self, neighbors: str) -> float:
        """a sqrt(6) for adding or removing a record, min(sqrt(2) a, 1) sqrt(6) for replacing one."""
        if neighbors == "add_remove":
            return self.clip_norm
        return min(math.sqrt(2.0) * self.clip_norm, math.sqrt(6.0))

    def paper_sensitivity(self, neighbors: str) -> float:
        """The paper's sqrt(7), one for each block (Eq. 72)."""
        return math.sqrt(7.0)

    # -- E-step

    def estep(self, records, words, spacing, sums, n_threads):
        estimator, J, K = self._estimator, self.n_visible, self.n_hidden
        dtype = estimator.dtype
        table = visible_table(self._w, dtype)
        table2 = visible_table(self._w**2 + self._variances, dtype)
        c, c_var, b = (x.astype(dtype) for x in (self._c, self._c_variance, self._b))
        start = expit(self._b).astype(dtype)
        rows, n_pairs = self._rows(records), K * (K + 1) // 2
        areas = workspaces("pg_f32" if dtype == "float32" else "pg_f64", J, K, n_threads)
        moments_areas = workspaces("moments", J, K, n_threads)
        fine = {
            "s7": np.zeros((J, n_pairs), np.int64),
            "clipped": [np.zeros(1, np.int64) for _ in range(n_threads)],
            "cross": [np.zeros((J, K + 1), np.int64) for _ in range(n_threads)],
            "z": [np.zeros(K, np.int64) for _ in range(n_threads)],
            "xi": [np.zeros(J, np.int64) for _ in range(n_threads)],
        }
        unit, unit_xi, pair_scale = 2.0**-20, 2.0**-23, math.ldexp(1.0, self._pair_bits)
        for begin, end in record_blocks(len(records), _SUPERBLOCK):
            blocks = [(begin + i, begin + e) for i, e in record_blocks(end - begin, _BLOCK)]
            z = np.empty((end - begin, K))
            x = np.empty((end - begin, J))

            def work(block, worker):
                i, e = blocks[block]
                y = rows(i, e)
                own_z, own_x = z[i - begin : e - begin], x[i - begin : e - begin]
                xi = np.empty((e - i, J))
                native.sbn_pg(y, table, table2, c, c_var, b, start, int(estimator.n_sweeps), areas[worker], own_z, xi)
                np.clip(own_z, 0.0, 1.0, out=own_z)
                factor = self._factors(y, own_z, xi)
                if factor is not None:
                    fine["clipped"][worker] += np.count_nonzero(factor < 1.0)
                v = np.empty((e - i, K + 1))
                native.sbn_clip(np.column_stack([own_z, np.ones(e - i)]), None, factor, 0.0, unit, v, None)
                native.sbn_clip(xi, None, factor, 0.0, unit_xi, own_x, None)
                native.sbn_cross(y, v, fine["cross"][worker])
                fine["z"][worker] += v[:, :K].sum(axis=0).astype(np.int64)
                fine["xi"][worker] += own_x.sum(axis=0).astype(np.int64)

            run_blocks(len(blocks), n_threads, work)
            parts = record_blocks(n_pairs, 24 * -(-n_pairs // (24 * n_threads)))
            run_blocks(
                len(parts), n_threads,
                lambda part, worker: native.sbn_moments(
                    x, z, *parts[part], pair_scale, moments_areas[worker], fine["s7"]
                ),
            )
        cross, z_sum, xi_sum = sum(fine["cross"]), sum(fine["z"]), sum(fine["xi"])
        scale = {name: (1 - self._slack / self.clip_norm) / largest for name, largest in self._largest.items()}
        pair_unit = unit_xi / pair_scale
        diagonal = np.cumsum([0, *range(K, 1, -1)])
        self._add(sums, "s1", z_sum, scale["s1"] * unit, spacing)
        self._add(sums, "s3", cross[:, K], scale["s3"] * unit, spacing)
        self._add(sums, "s4", xi_sum, scale["s4"] * unit_xi, spacing)
        self._add(sums, "s5", fine["s7"][:, diagonal], scale["s5"] * pair_unit, spacing)
        self._add(sums, "s6", np.ascontiguousarray(cross[:, :K]), scale["s6"] * unit, spacing)
        if not self._paper:
            fine["s7"] = np.delete(fine["s7"], diagonal, axis=1)
        self._add(sums, "s7", fine["s7"], scale["s7"] * pair_unit, spacing)
        self._diagnose(len(records), sum(fine["clipped"])[0])

    def _factors(self, y, z, xi):
        """Scale of each record's whole contribution, so that its joint norm is at most clip_norm.

        Every block is a product of a record's own factors, so the joint norm needs
        sums of squares alone. None where nothing can be longer.
        """
        if self._estimator.clip == 1 or not self._estimator.private:
            return None
        largest = self._largest
        zz, xx = (z * z).sum(axis=1), (xi * xi).sum(axis=1)
        on = y.sum(axis=1, dtype=np.float64)
        pairs = np.maximum(zz * zz - (z**4).sum(axis=1), 0.0) / 2
        square = (
            zz / largest["s1"] ** 2 + on / largest["s3"] ** 2 + xx / largest["s4"] ** 2
            + xx * zz / largest["s5"] ** 2 + on * zz / largest["s6"] ** 2 + xx * pairs / largest["s7"] ** 2
        )
        # The margin is above the rounding of the sums of squares.
        norm = np.sqrt(square) * (1 + 1e-9)
        return np.minimum(1.0, self.clip_norm / np.maximum(norm, self.clip_norm))

    # -- M-step

    def mstep(self, state: State) -> None:
        """Appendix 5 from the running average."""
        J, K, n = self.n_visible, self.n_hidden, self._n_records
        keep = 1 - self._slack / self.clip_norm

        def block(name):
            return state.average[self._blocks[name]] * (self._largest[name] / keep)

        sd = state.noise_sd / keep
        z, y = block("s1"), block("s3")
        xi = np.clip(block("s4"), 1e-3, 0.25)
        xi_z, y_z = (block(name).reshape(J, -1) for name in ("s5", "s6"))
        upper, scale = state.average[self._blocks["s7"]].reshape(J, -1), self._largest["s7"] / keep
        # PSD repair: to the edge of the known noise's spectrum.
        least = max(1e-6, 2 * math.sqrt(K) * sd * self._largest["s7"])
        c_variance = 1.0 / (1.0 / self._estimator.bias_variance + n * xi)
        # q(w) for a given c is first + c times second. Neither z nor y is cut here: the
        # equations would contradict each other, and a unit that is all but always on drift away.
        right = np.stack([y_z - 0.5 * z, -xi_z], axis=2)
        lines, variances = np.empty((J, K, 2)), np.empty((J, K))
        blocks = record_blocks(J, _BLOCK_SOLVE)

        def work(block, worker):
            part = slice(*blocks[block])
            moments = self._moments(upper[part], scale, xi_z[part])
            lines[part], variances[part] = solve_repaired(
                moments, least, self._prior.precision[part] / n, right[part], lapack
            )

        with one_blas_thread(K) as lapack:
            run_blocks(len(blocks), resolve_n_threads(self._estimator.n_jobs), work)
        variances /= n
        first, second = lines[:, :, 0], lines[:, :, 1]
        # Eqs. 87 and 88 at their joint fixed point (the print of 88 has a factor 1/2 before the
        # last term, which does not follow from the bound). ``own`` is what is left of xi when
        # z is known, >= 0 but for noise and close to 0 where some z hardly varies.
        own = np.maximum(xi + (second * xi_z).sum(axis=1), _LEAST_OWN * xi)
        c = n * (y - 0.5 - (first * xi_z).sum(axis=1)) / (1.0 / self._estimator.bias_variance + n * own)
        c = np.clip(c, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
        w = np.clip(first + c[:, None] * second, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
        self._w, self._variances, self._c, self._c_variance = w, variances, c, c_variance
        self._mean_image = np.clip(y, _LEAST_PIXEL, 1 - _LEAST_PIXEL)
        self._b = self._q_b(np.clip(z, _LEAST_HIDDEN, 1 - _LEAST_HIDDEN), state)
        self._prior.update(w * w + variances)

    def _moments(self, upper, scale, diagonal):
        """K x K matrices of some visible units, on and right of their diagonals."""
        K, first = self.n_hidden, 0
        moments = np.zeros((len(upper), K, K))
        skip = 0 if self._paper else 1
        for k in range(K - skip):
            last = first + K - k - skip
            np.multiply(upper[:, first:last], scale, out=moments[:, k, k + skip :])
            first = last
        if not self._paper:
            _diagonals(moments)[...] = diagonal
        return moments

    def _q_b(self, z, state):
        """Eqs. 85 and 86; the paper's construction adds noise to the public xi^(1)."""
        if not self._paper:
            return _hidden_bias(z, self._n_records, self._estimator.bias_variance)
        noise = state.average[self._blocks["s2"]] * (math.sqrt(self.n_hidden) / 4) * self._n_records
        xi = np.clip(_pg_mean(np.abs(self._b)) + noise, 1e-3, 0.25)
        return (z - 0.5) / (1.0 / (self._estimator.bias_variance * self._n_records) + xi)

    def arrays(self):
        """What the estimator keeps; all of it released."""
        return {
            "components": np.ascontiguousarray(self._w.T), "weight_variances": np.ascontiguousarray(self._variances.T),
            # Read with the other bound alone.
            "weight_covariance": np.zeros((0, 0)), "hidden_bias": self._b, "visible_bias": self._c,
            "visible_variance": self._c_variance, "expansion": self._c, "curvature": np.zeros(0),
            "mean_image": self._mean_image,
        }


# ------------------------------------------------------------------- checks


def _check_records(Y, n_features, name, estimator):
    """Binary records as a C-contiguous uint8 array; messages never show an entry."""
    if hasattr(Y, "toarray"):
        Y = Y.toarray()
    Y = np.asarray(Y)
    if Y.ndim != 2 or 0 in Y.shape:
        raise ValueError(f"{name} has shape {Y.shape}: expected (n, J) with n, J >= 1")
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {Y.dtype}: expected booleans or numbers")
    if n_features is not None and Y.shape[1] != n_features:
        raise ValueError(
            f"{name} has {Y.shape[1]} features, but {type(estimator).__name__} is expecting {n_features} features as input"
        )
    for first in range(0, len(Y), 1 << 13):
        part = Y[first : first + (1 << 13)]
        if Y.dtype.kind == "f" and not np.isfinite(part).all():
            raise ValueError(f"{name} holds NaN or infinity: expected only 0 and 1")
        if Y.dtype != bool and not ((part == 0) | (part == 1)).all():
            raise ValueError(f"{name}: expected only 0 and 1; binarise it with a public threshold first")
    return np.ascontiguousarray(Y, dtype=np.uint8)


def _check_memory(estimator, n_visible):
    """Refuse, before anything is spent, statistics that the machine cannot hold."""
    K = int(estimator.n_components)
    if estimator.bound in _QUADRATIC:
        entries = n_visible * (K + 2) + K * K
        need = 8 * (6 * entries + 3 * _BLOCK_SOLVE * K * K)
    else:
        entries = n_visible * (K * (K + 1) // 2 + 2 * K + 2)
        need = 8 * (5 * entries + 6 * _BLOCK_SOLVE * K * K)
    try:
        have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if need > have:
        raise MemoryError(
            f"n_components={K}: the statistics of {n_visible} visible units need about {need / 2**30:.0f} GiB, "
            f"and the machine has {have / 2**30:.0f} GiB; expected fewer components"
        )
