/* E-step of Bayesian logistic regression, Park et al. (2020), Eqs. 47-50.
 *
 * A record (x, y of b trials) under q(m) with M = <m m^T> has
 *
 *     c  = sqrt(x^T M x)                             (Eq. 49)
 *     xi = b tanh(c/2)/(2c)                          (mean of PG(b, c))
 *     s1 = (y - b/2 - xi x^T center) x               (Eq. 50 for center = 0)
 *     s2 = xi x x^T
 *
 * center is a public vector. Around it the likelihood of m = center + delta is exp(s1^T delta - delta^T s2 delta / 2)
 * up to a constant. That is the same model with the same sufficient statistics, shifted by s2 center. Since
 * c >= |x^T center| when M contains center center^T, |y - b/2 - xi x^T center| <= b.
 *
 * Without M, m is the center itself: M = center center^T and c = |x^T center|, which is 0 without a center. Then s1 is the
 * gradient of the likelihood at the center, and s2 is its curvature there, b p (1 - p) x x^T with
 * p (1 - p) = (1 - tanh(c/2)^2)/4 <= xi/b. The joint clip counts it as xi x x^T (logistic_weights only: several classes
 * have one s2 with max_k xi_k).
 *
 * Rows longer than the public bound R are scaled to norm R first.
 *
 * A factor scales a long contribution down. It may depend on the record's own y (label_free = 0), or on the worst y in
 * [0, b] (label_free = 1). The second is a weight that depends only on x and on released numbers. So
 * sum_n w_n (y_n - E[y_n | x_n]) x_n keeps its zero at the true m. The first pulls every probability away from 1/2.
 *
 * A contribution is the vector v = (s1/C1, s2/C2). s2 is taken in the orthonormal basis {E_ii, (E_ij + E_ji)/sqrt(2)}
 * of the symmetric matrices. Its coordinates are s2_ii and sqrt(2) s2_ij (i < j). So its Euclidean norm is the
 * Frobenius norm of s2. A longer v is scaled down to norm L. Then Gaussian noise of one standard deviation z L on all
 * coordinates of v has the noise multiplier z. On an off-diagonal entry of s2 that is z L C2/sqrt(2). (The form with
 * z L C2 on all entries i <= j of s2 has the entries themselves as its coordinates. Their norm is at most the Frobenius
 * norm, so the same clip serves and is conservative.)
 *
 * Integers. s1/C1 is truncated toward zero to multiples of g. s2/C2 = f f^T with the factor f = sqrt(xi/C2) x.
 * Truncating f toward zero gives a, integers in units of h. The contribution is a a^T in units of h^2. Its Frobenius
 * norm is sum a_i^2, exactly, and cannot exceed the norm of s2/C2. So the bound
 *
 *     g^2 sum q_i^2 + (h^2 sum a_i^2)^2 <= L^2
 *
 * holds in integers (h^2 sum a^2 is rounded up to a multiple of g). Truncation lengthens nothing: for the record's
 * factors w and f, sum q_i^2 <= w^2 x.x and sum a_i^2 <= f^2 x.x. x.x as computed has a relative error below
 * (d + 2) 2^-53 in any order. With it and the roundings of the rest, the bound holds if it does for these two, computed,
 * times 1 + (d + 16) 2^-52. Else the integers are counted, and the record is shrunk until they hold it. Products of the a are below 2^42, so a block of 256 records is summed exactly. The sum
 * is a tiled product in doubles (dense rows) or directly in int64 (CSR). Every order, block and thread gives the same
 * bits.
 *
 * At the end of a pass the caller turns the sum of a a^T into coordinates on the lattice g, in exact integers. Two
 * neighboring sums, both rounded to nearest, can move apart by one more unit g a coordinate. The caller leaves a margin
 * for that in its bound.
 *
 * A record contributes zero if its numbers are not finite, or if its row's norm is outside [1e-140, 1e150]. Nothing
 * below overflows then, and a factor times an entry is below 2^31 up to rounding.
 *
 * Units of several rows (units_body.h). The rows are weighted as records. One factor u then scales all rows of a unit,
 * its f by sqrt(u). With it (q, A), the sums of q_r and of a_r a_r^T, is no longer than L. Since
 *
 *     |sum_r a_r a_r^T|^2 = sum_{r,s} (a_r . a_s)^2,
 *
 * no d x d matrix is needed. A unit has one only if it has few columns and more rows: it is cheaper then. An inner
 * product of the a is at most 2^42, and so is every partial sum of it (Cauchy-Schwarz). An entry of sum_r a_r a_r^T is
 * at most the largest entry on its diagonal. That is below the same sum of the f before truncation, and so below the
 * norm, 2^42. Both are exact in doubles, in any order.
 *
 * The m^2 squares are added in rows, tiles and stripes, in chains of at most 2 m + 128 additions. Their relative error
 * is below (2 m + 130) 2^-53 <= 2^-21 for m < 2^31 - 64 rows. The d squares of |q|^2 are integers that int64 holds. Its
 * error is below (n + 3) 2^-53 <= 2^-21 for n < 2^32 stored entries. So if
 *
 *     (g^2 |q|^2 + h^4 |A|^2) (1 + 2^-20) <= floor(L/g)^2 g^2
 *
 * holds as computed, the unit keeps its bound; otherwise u shrinks, which ends, as
 * factors below 1 over the largest entry truncate to nothing.
 *
 * If the clip must not depend on labels, u is chosen for the bound |s1|^2 <= sum_{r,s} W_r W_s |x_r . x_s| over all
 * labels. Here W_r |x_r| is the linear part of row r's norm with its worst label. The check of the integers then holds
 * but for roundings.
 *
 * Several classes (classes_body.h), each against the rest. Class k has its own M_k and center_k. A record contributes
 * the stack of s1_k = r_k x with r_k = [y = k] - 1/2 - xi_k x^T center_k. It also contributes one
 * s2 = max_k xi_k x x^T, which no label enters. With q_k the residual of a record that is not of class k, the
 * stack of the s1_k is at most
 *
 *     |x| (sum_k q_k^2 + 1 + 2 max_k q_k)^(1/2)
 *
 * long, whatever the label is. All parts of a record are scaled by one factor, so that this bound and |s2| together are
 * at most L (1 - 2^-20). The margin covers the roundings: (d + 2 K + 16) 2^-53 relative. The rows of a unit are scaled
 * by one factor more, so that the sum of their bounds is at most the same.
 *
 * A record's contribution depends only on that record, M, center and the parameters. The order of the additions in
 * x^T M x depends on the row's own entries (CSR) or on d (dense), never on the block. */

#include "declarations.h"
#include "simd/math.h"

/* Records of one group. Their c go through one call of the Polya-Gamma mean. 256 products below 2^42 stay below 2^50,
 * exact in a double. */
#define GROUP 256
/* Rows are padded to this, a multiple of every vector width. */
#define PANEL 16
/* Doubles of a strip of VF_ND columns of a group. It is a cache line longer: strips a power of two apart would share few
 * lines of the cache. Then the rows of a tile. */
#define STRIP (GROUP * VF_ND + 8)
#define TILE (VF_ND > 4 ? VF_ND : 4)
/* A linear factor times an entry is below the first, a quadratic one below the second. */
#define LINEAR_LIMIT 0x1p31
#define FACTOR_LIMIT 0x1p21
/* Largest L/h^2, which keeps a factor below 2^21. */
#define MAX_FACTOR_UNITS 4398046511104.0
/* Limits of the parameters. Rows longer than the largest norm, or shorter than the
 * root of the least square, contribute nothing: their squares leave the doubles. */
#define LEAST 0x1p-100
#define MAX_ROW_NORM 1e150
#define MAX_SQUARE 1e300
#define MIN_SQUARE 1e-280
/* Rows of a unit that are multiplied with others at a time. */
#define UNIT_TILE 64
/* Most columns for the matrix of moments of a unit with more rows than columns; else pairs of rows serve. */
#define MOMENT_COLUMNS 256
/* The bound of a record of several classes, over L. */
#define CLASS_MARGIN (1.0 - 0x1p-20)
#define TRIANGLE_ROW(i, d) ((int64_t)((uint64_t)((i) * (2 * (d) - (i)-1)) >> 1))

#if defined(VF_ISA_AVX512) || defined(VF_ISA_AVX2)
#define MULADD(a, b, c) __builtin_fma(a, b, c)
#else
#define MULADD(a, b, c) ((a) * (b) + (c))
#endif

/* Bytes that single rows need: one row's values and its factors (CSR), or a group of rows and one strip of M. */
VF_INLINE int64_t rows_workspace(int64_t n_features, int dense) {
    return (dense ? GROUP + PANEL : 2) * VF_ROUND_UP(n_features, PANEL) * (int64_t)sizeof(double) + VF_LINE;
}

int64_t VF_FN(vf_logistic_workspace)(int64_t n_features, int32_t dense) {
    if (n_features < 1 || n_features > INT32_MAX / 2) return -1;
    const int64_t d = VF_ROUND_UP(n_features, PANEL), rows = rows_workspace(n_features, dense);
    /* Units: three tiles of rows, the matrix of moments and a sum. */
    const int64_t units = (3 * UNIT_TILE + d + 1) * d * (int64_t)sizeof(double) + VF_LINE;
    return n_features <= MOMENT_COLUMNS && units > rows ? units : rows;
}

/* Everything about the lattice that does not depend on the record. */
typedef struct {
    double row_norm, inv_linear, inv_quadratic; /* R, 1/C1, 1/C2 */
    double target;                              /* clip to this: L less two units */
    double inv_spacing, inv_factor;             /* 1/g, 1/h */
    double factor_unit;                         /* h^2/g */
    uint64_t limit;                             /* floor(L/g) */
    int shift;                                  /* log2(g / h^2) */
} lattice;

static int32_t prepare(const vf_logistic_params *p, lattice *l) {
    int eg, eh;
    if (!(p->row_norm >= LEAST && p->row_norm <= MAX_ROW_NORM)) return VF_ERR_PARAMETER;
    if (!(p->scale_linear >= LEAST) || !(p->scale_quadratic >= LEAST)) return VF_ERR_PARAMETER;
    if (!(p->n_trials > 0.0 && p->n_trials <= 1e15) || !(p->clip_norm > 0.0)) return VF_ERR_PARAMETER;
    if (!vf_is_spacing(p->spacing, VF_MIN_SPACING, VF_MAX_SPACING)) return VF_ERR_PARAMETER;
    if (!vf_is_spacing(p->factor_spacing, VF_MIN_SPACING, VF_MAX_SPACING)) return VF_ERR_PARAMETER;
    (void)frexp(p->spacing, &eg);
    (void)frexp(p->factor_spacing, &eh);
    const double units = floor(p->clip_norm / p->spacing);
    if (!(units >= 4.0) || units >= 2147483648.0) return VF_ERR_PARAMETER;
    const double factor_units = p->clip_norm / p->factor_spacing / p->factor_spacing;
    if (!(factor_units >= 1.0) || factor_units > MAX_FACTOR_UNITS) return VF_ERR_PARAMETER;
    l->row_norm = p->row_norm;
    l->inv_linear = 1.0 / p->scale_linear;
    l->inv_quadratic = 1.0 / p->scale_quadratic;
    l->target = p->clip_norm - 2.0 * p->spacing;
    l->inv_spacing = 1.0 / p->spacing;
    l->inv_factor = 1.0 / p->factor_spacing;
    l->factor_unit = p->factor_spacing * p->factor_spacing / p->spacing;
    l->limit = (uint64_t)units;
    /* frexp gives 2^(e-1): g = 2^(eg-1), h^2 = 2^(2 eh - 2). */
    l->shift = (eg - 1) - (2 * eh - 2);
    return VF_OK;
}

/* Does a record with these integer squares keep the bound? */
VF_INLINE int inside(const lattice *l, uint64_t linear, uint64_t quadratic) {
    uint64_t q;
    if (l->shift >= 0)
        q = (quadratic >> l->shift) + ((quadratic & ((1ull << l->shift) - 1)) != 0);
    else
        q = quadratic << -l->shift;
    return q <= l->limit && linear <= l->limit * l->limit - q * q;
}

/* Do the units own all rows, in their order? */
static int32_t check_starts(int64_t n_units, const int64_t *starts, int64_t n_rows) {
    if (n_units < 0) return VF_ERR_SIZE;
    if (starts[0] != 0 || starts[n_units] != n_rows) return VF_ERR_INDPTR;
    for (int64_t u = 0; u < n_units; ++u)
        if (starts[u + 1] < starts[u] || starts[u + 1] > n_rows) return VF_ERR_INDPTR;
    return VF_OK;
}

/* Numbers of the records of one group. */
typedef struct {
    double square[GROUP], shift[GROUP], spread[GROUP], trials[GROUP]; /* x.x, x.center, c before the clip, b */
    double xi[GROUP], weight[GROUP], factor[GROUP], norm[GROUP];
    double most[GROUP]; /* bound of the squared norm of the integers, in units of g^2 */
} group;

/* From the row's numbers to its Polya-Gamma mean, factors and norm before the joint clip. If m is known, s2 is the
 * likelihood's own. */
static void weigh(const lattice *l, int64_t d, int64_t n, int label_free, int known, const double *y, group *g) {
    double norm[GROUP], clipped[GROUP], c[GROUP] = {0}, s2[GROUP];
    for (int64_t r = 0; r < n; ++r) {
        norm[r] = sqrt(g->square[r]);
        clipped[r] = norm[r] > l->row_norm ? l->row_norm / norm[r] : 1.0;
        c[r] = g->spread[r] * clipped[r];
    }
    VF_FN(vf_pg_mean_f64)(n, 1.0, c, g->xi);
    memcpy(s2, g->xi, (size_t)n * sizeof(double));
    for (int64_t r = 0; known && r < n; ++r) {
        const double h = 2.0 * c[r] * s2[r], slope = (1.0 - h) * (1.0 + h) * 0.25; /* h = tanh(c/2), to rounding */
        /* The bound below has <xi>, which slope is below; its rounding is not, for huge c. */
        s2[r] = slope > 0.0 ? slope < s2[r] ? slope : s2[r] : 0.0;
    }
    const double half_free = label_free ? 0.5 : 0.0, slack = 1.0 + (double)(d + 16) * 0x1p-52;
    for (int64_t r = 0; r < n; ++r) {
        const double b = g->trials[r], e = g->xi[r] * b, length = norm[r] * clipped[r];
        const double pull = e * clipped[r] * g->shift[r], residual = y[r] - 0.5 * b - pull;
        /* With label_free the larger residual: the record's own or the one of the worst y. */
        const double own = fabs(residual), worst = half_free > 0.0 ? half_free * b + fabs(pull) : 0.0;
        const double v1 = (worst > own ? worst : own) * length * l->inv_linear;
        const double v2 = e * length * length * l->inv_quadratic, v = sqrt(v1 * v1 + v2 * v2);
        /* A record that is not finite is the zero contribution. */
        const int good = (v - v == 0.0) & (b >= 0.0) & (g->square[r] >= MIN_SQUARE) & (g->square[r] <= MAX_SQUARE);
        const double t = v > l->target ? l->target / v : 1.0;
        const double w = t * residual * clipped[r] * l->inv_linear * l->inv_spacing;
        const double f = sqrt(t * (b * s2[r]) * l->inv_quadratic) * clipped[r] * l->inv_factor;
        g->weight[r] = good ? w : 0.0;
        g->factor[r] = good ? f : 0.0;
        g->norm[r] = good ? v : 0.0;
        g->xi[r] = e;
        const double q = w * norm[r], a = f * norm[r], s = a * a * l->factor_unit + 1.0;
        g->most[r] = (q * q + s * s) * slack;
    }
}

/* trunc(x) where |x| < limit <= 2^31; elsewhere 0, and *outside is set. */
VF_INLINE int32_t truncated(double x, double limit, int *outside) {
    const int in = fabs(x) < limit;
    *outside |= !in;
    return (int32_t)(in ? x : 0.0);
}

/* The body, once for each type of the stored values. */
#define VF_BODY "logistic/estep_body.h"
#include "simd/both.h"
#define VF_BODY "logistic/units_body.h"
#include "simd/both.h"
#define VF_BODY "logistic/classes_body.h"
#include "simd/both.h"
