/* Units of rows whose statistics a function of the user's has written: added up, clipped to an L2 norm and truncated.
 *
 *   s = sum of the unit's finite rows,   q = trunc(f s / g),   f = min(1, C / ||s||),   |q| <= C / g
 *
 * Cost: three passes over the statistics of a block, columns being contiguous; a fourth where a row is near the clip.
 *
 * Privacy. Claim: let C be in [1e-100, 1e100], let there be at most 2^31 statistics, and limit = floor(C/g). The integer
 * vector q that is added for a unit has a norm of at most C/g. That holds however many rows it has and whatever the
 * function wrote. It is a function of the statistics of the unit's rows, in their order.
 *
 * Proof. The norm is computed, and clipped, in one fixed order of operations that no other row takes part in. (a) A row
 * whose statistics hold a number that is not finite adds nothing to its unit's vector. The vector is the sum of the
 * others as doubles, or the result itself for a unit of one row. Each is at most 1e150 or was brought to 1e120, and a
 * unit has at most 2^31 rows, so the sum is finite. If its squares overflow it is brought to 1e120 in turn. The rest
 * holds for any finite vector, so for a sum that was rounded. (b) Let s be the vector's true norm and s' the computed
 * one. An entry below 1e-150 may lose its square to underflow; 2^31 such entries have a norm below 1e-145, less than
 * 2^-100 C. All other roundings of the sum of squares and of its root make up less than 2^-21. For a chain of additions
 * is at most 2^31 long and errors of 2^-53 add up. So s' <= (1 - 2^-20) C gives s <= C. Truncation toward zero of s/g is
 * exact, as g is a power of two, and shortens: ||q|| <= s/g. (c) In all other cases q is taken only when its squares,
 * summed exactly, are at most limit^2. Before that, f s / g has a norm of at most about limit < 2^31, so no square or sum
 * leaves int64. As the factor shrinks, the loop ends. A norm whose square would overflow is first brought to at least
 * 1e120, above C, in its own direction. QED */
#include "declarations.h"

#include "simd/math.h"

#define ROWS VF_CLIP_ROWS
/* The chains of a sum of squares. Their number decides the bits. */
#define CHAINS 4

/* Brings a row whose squares overflow to norm 1e120, or one that is not finite to zeros; returns its square, or -1. */
static double shorten(int64_t n_statistics, int64_t stride, double *row) {
    double top = 0.0, square = 0.0;
    for (int64_t j = 0; j < n_statistics; ++j) {
        const double size = fabs(row[j * stride]);
        if (!(size <= 1.7976931348623157e308)) {
            for (int64_t k = 0; k < n_statistics; ++k) row[k * stride] = 0.0;
            return -1.0;
        }
        top = size > top ? size : top;
    }
    for (int64_t j = 0; j < n_statistics; ++j) {
        const double v = row[j * stride] / top * 1e120;
        row[j * stride] = v;
        square += v * v;
    }
    return square;
}

/* The squared norms of n rows; -1 for a row that is not finite, which becomes zeros. */
static void measure(const vf_clip_params *params, int64_t n, double *values, double *squares) {
    const int64_t size = params->n_statistics, stride = params->n_padded, whole = size / CHAINS * CHAINS;
    double chains[CHAINS][ROWS] = {{0.0}};
    for (int64_t j = 0; j < size; ++j) {
        double *chain = chains[j < whole ? j % CHAINS : 0], *column = values + j * stride;
        if (params->nonnegative)
            for (int64_t i = 0; i < n; ++i) column[i] = column[i] < 0.0 ? 0.0 : column[i];
        for (int64_t i = 0; i < n; ++i) chain[i] += column[i] * column[i];
    }
    for (int64_t i = 0; i < n; ++i) {
        squares[i] = (chains[0][i] + chains[2][i]) + (chains[1][i] + chains[3][i]);
        if (!(squares[i] <= 1e300)) squares[i] = shorten(size, stride, values + i);
    }
}

/* Adds up the rows of each unit in place, from the carried ones on: `slots` has the place of each row's unit. Returns how
 * many units are complete; one that goes on is carried. */
static int64_t join(const vf_clip_params *params, int64_t n, const int64_t *slots, int complete, double *values,
                    double *carry) {
    for (int64_t j = 0; j < params->n_statistics; ++j) {
        double *column = values + j * params->n_padded, total = carry[j];
        int64_t at = 0;
        for (int64_t i = 0; i < n; ++i) {
            if (slots[i] > at) {
                total = 0.0;
                at = slots[i];
            }
            total += column[i];
            column[at] = total; /* at <= i: nothing is overwritten that is still to be read */
        }
        carry[j] = complete ? 0.0 : total;
    }
    return slots[n - 1] + complete;
}

int32_t VF_FN(vf_clip_units)(const vf_clip_params *params, int64_t first, int64_t last, const int64_t *starts,
                             double *values, int64_t *unit, double *carry, int64_t *counts, int64_t *sums) {
    if (!params) return VF_ERR_NULL;
    const int64_t size = params->n_statistics, stride = params->n_padded, n = last - first;
    const double clip = params->clip, spacing = params->spacing, limit = floor(clip / spacing);
    if (size < 1 || size > INT64_C(1) << 31 || stride < 0 || params->n_units < 0) return VF_ERR_SIZE;
    if (first < 0 || last < first || n > stride || n > ROWS) return VF_ERR_SIZE;
    if (!(clip >= 1e-100 && clip <= 1e100 && params->bound >= 0.0)) return VF_ERR_PARAMETER;
    if (!vf_is_spacing(spacing, 0x1p-400, 0x1p400) || !(limit < 0x1p31)) return VF_ERR_PARAMETER;
    if (n == 0) return VF_OK;
    if (!starts || !values || !unit || !carry || !counts || !sums) return VF_ERR_NULL;
    if (VF_OFF(starts) | VF_OFF(values) | VF_OFF(unit) | VF_OFF(carry) | VF_OFF(counts) | VF_OFF(sums))
        return VF_ERR_ALIGNMENT;

    int64_t u = *unit, slots[ROWS];
    int single = 1; /* whether each row is a unit */
    if (u < 0 || u >= params->n_units) return VF_ERR_INDPTR;
    for (int64_t i = 0; i < n; ++i) {
        while (starts[u + 1] <= first + i)
            if (++u >= params->n_units) return VF_ERR_INDPTR;
        const int begins = starts[u] == first + i;
        slots[i] = i == 0 ? 0 : slots[i - 1] + begins;
        single &= begins;
    }
    const int complete = starts[u + 1] == last;
    *unit = u;

    double squares[ROWS], factors[ROWS];
    int64_t units = n;
    measure(params, n, values, squares);
    for (int64_t i = 0; i < n; ++i) counts[1] += squares[i] < 0.0 || sqrt(squares[i]) > params->bound * (1.0 + 1e-9);
    if (!(single && complete)) {
        units = join(params, n, slots, complete, values, carry);
        measure(params, units, values, squares); /* sums of numbers >= 0 are >= 0 */
    }
    const double within = clip * (1.0 - 0x1p-20), target = clip * (1.0 - 0x1p-40), per_one = 1.0 / spacing;
    int clipping = 0;
    for (int64_t i = 0; i < units; ++i) {
        const double norm = squares[i] > 0.0 ? sqrt(squares[i]) : 0.0;
        factors[i] = norm > target ? per_one * (target / norm) : per_one;
        clipping |= norm > within;
        counts[0] += norm > clip * (1.0 + 1e-9); /* the margin is above the rounding of a norm */
    }
    while (clipping) {
        int64_t lengths[ROWS] = {0};
        clipping = 0;
        for (int64_t j = 0; j < size; ++j)
            for (int64_t i = 0; i < units; ++i) {
                const int64_t q = (int64_t)(values[j * stride + i] * factors[i]);
                lengths[i] += q * q;
            }
        for (int64_t i = 0; i < units; ++i)
            if (lengths[i] > (int64_t)limit * (int64_t)limit && sqrt(squares[i] > 0.0 ? squares[i] : 0.0) > within) {
                factors[i] *= 1.0 - 0x1p-20;
                clipping = 1;
            }
    }
    for (int64_t j = 0; j < size; ++j) {
        /* Integers of at most 2^31, of ROWS units: exact in doubles, in any order. */
        const double *column = values + j * stride;
        vfd total = vfd_set1(0.0);
        int64_t i = 0;
        for (; i + VF_ND <= units; i += VF_ND)
            total = vfd_add(total, vfd_trunc(vfd_mul(vfd_load(column + i), vfd_load(factors + i))));
        double sum = vfd_sum(total);
        for (; i < units; ++i) sum += trunc(column[i] * factors[i]);
        sums[j] += (int64_t)sum;
    }
    return VF_OK;
}
