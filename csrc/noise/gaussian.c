/* Exactly rounded Gaussian noise: the fast path.
 *
 * gaussian.h defines the real number x_i. Here scale * x_i is computed in double precision, VF_ND pairs at a time, as
 *
 *     (scale sqrt(-ln U)) (cos a -+ sin a),   a = (pi/2) t,
 *
 * (cos(pi/4 + a) = (cos a - sin a) / sqrt 2), and rounded by adding and subtracting 3 2^51. The result stands if it is
 * further than scale * GUARD from a half-integer and 64 bits of U say enough. They do unless U is below 2^-20 or within
 * 2^-36 of 1. Otherwise the element goes to gaussian_exact.c.
 *
 * GUARD against the error. tests/helpers/noise_error_bound.py reads the polynomials below from this file. By interval
 * evaluation over the whole domain it bounds the approximation, every rounding and the undrawn bits of U and t, with and
 * without FMA. It finds |computed x - x| < BOUND; the test suite asserts this, and GUARD = 4 BOUND. At scale
 * 2^23 one draw in 200,000 is handed on. */
#include "noise/gaussian.h"

#include <float.h>

#include "noise/chacha20.h"
#include "noise/gaussian_exact.h"
#include "simd/simd_int.h"

#if FLT_EVAL_METHOD != 0
#error "the error bound needs double arithmetic in double precision"
#endif

#define BOUND 0x1p-44
#define GUARD 0x1p-42
/* Above every rounding in the comparison itself. */
#define SLACK 0x1p-50
/* U below 2^-20, or 1 - U below 2^-36, as an interval of u read as signed. */
#define TAIL_LOW -0x1p28
#define TAIL_HIGH 0x1p44

#define GROUP VF_CHACHA20_GROUP

/* -ln(1 - g) / g on [0, 1/2]. */
static const double LOG_POLY[16] = {
    0x1.fffffffffd211p-1,  0x1.00000003ee28dp-1, 0x1.555552215e30bp-2,  0x1.00009c8f06655p-2,
    0x1.9977938ef46a1p-3,  0x1.57ac252ecc976p-3, 0x1.08cc2537c27bcp-3,  0x1.e7ac3656af62ap-3,
    -0x1.230b5b29ae19ap-1, 0x1.8a0f6289d6722p+1, -0x1.2eacec7b45567p+3, 0x1.6479d542e4e26p+4,
    -0x1.238b9c93a7315p+5, 0x1.44b33c6d6ba15p+5, -0x1.b58214c9153acp+4, 0x1.18a770509bfbfp+3,
};
/* sin((pi/2) t) / t and cos((pi/2) t) in t^2, |t| <= 1/2. */
static const double SIN_POLY[6] = {
    0x1.921fb54442c54p+0,  -0x1.4abbce625124ep-1, 0x1.466bc66c98e29p-4,
    -0x1.32d2c3ac1f5b9p-8, 0x1.5070820aebe0cp-13, -0x1.dcdbb0cbee8eap-19,
};
static const double COS_POLY[7] = {
    0x1.0000000000000p+0,  -0x1.3bd3cc9be458bp+0,  0x1.03c1f081b078ep-2,  -0x1.55d3c7dbfe0bap-6,
    0x1.e1f4fb6117d56p-11, -0x1.a6c9c22955fabp-16, 0x1.f3dbf2450d383p-22,
};
#define LN2 0x1.62e42fefa39efp-1

/* What a run over a range of elements needs and finds. */
typedef struct {
    const uint32_t *key;
    double scale;         /* of every element, where scales is NULL */
    const double *scales; /* of each element of the current group */
    int64_t first, end;   /* elements that count */
    int32_t status;
    /* only vf_gaussian_flagged: */
    int list;
    int64_t capacity, *indices, n_flagged;
} run;

/* radius = sqrt(-ln U); c, s = +-(cos a -+ sin a); unsure: U in a tail. */
VF_INLINE void box_muller(vfq u, vfq v, vfd *radius, vfd *c, vfd *s, vfm *unsure) {
    const vfd su = vfq_to_f64(u); /* 2^64 U, or 2^64 (U - 1) where U >= 1/2: either way to 53 bits */
    *unsure = vfd_abs_lt(vfd_sub(su, vfd_set1(0.5 * (TAIL_HIGH + TAIL_LOW))), vfd_set1(0.5 * (TAIL_HIGH - TAIL_LOW)));
    vfd e = vfd_set1(0.0), g = e; /* U = (1 - g) 2^-e */
    vfd_split_unit(su, &e, &g);
    /* Four chains in g^4 instead of one in g: the processor looks ahead less than one chain is long. */
    const vfd g2 = vfd_mul(g, g), g4 = vfd_mul(g2, g2);
    vfd q[4];
    for (int j = 0; j < 4; ++j) q[j] = vfd_set1(LOG_POLY[12 + j]);
    for (int k = 8; k >= 0; k -= 4)
        for (int j = 0; j < 4; ++j) q[j] = vfd_fma(q[j], g4, vfd_set1(LOG_POLY[k + j]));
    const vfd p = vfd_fma(vfd_fma(q[3], g, q[2]), g2, vfd_fma(q[1], g, q[0]));
    *radius = vfd_sqrt(vfd_fma(e, vfd_set1(LN2), vfd_mul(p, g)));

    const vfd t = vfd_mul(vfq_to_f64(vfq_shl(v, 2)), vfd_set1(0x1p-64)), z = vfd_mul(t, t);
    vfd a = vfd_set1(SIN_POLY[5]), b = vfd_set1(COS_POLY[6]);
    for (int k = 4; k >= 0; --k) a = vfd_fma(a, z, vfd_set1(SIN_POLY[k]));
    for (int k = 5; k >= 0; --k) b = vfd_fma(b, z, vfd_set1(COS_POLY[k]));
    a = vfd_mul(a, t);
    *c = vfd_flip_sign(vfd_sub(b, a), v);
    *s = vfd_flip_sign(vfd_add(b, a), vfq_shl(v, 1));
}

/* Lanes of `flags` in n[] are replaced by the exact path's results. */
static void resolve(run *r, unsigned flags, int64_t element, const uint64_t *u, const uint64_t *v, uint64_t *n) {
    for (int lane = 0; lane < VF_ND; ++lane) {
        const int64_t i = element + lane;
        if (!(flags >> lane & 1) || i < r->first || i >= r->end) continue;
        if (r->list) {
            if (r->n_flagged < r->capacity) r->indices[r->n_flagged] = i;
            ++r->n_flagged;
            continue;
        }
        int64_t exact;
        const double scale = r->scales ? r->scales[i % GROUP] : r->scale;
        const int32_t status =
            vf_gaussian_exact_unchecked(u[lane], v[lane], i, scale, VF_EXACT_FIRST_LIMBS, r->key, &exact);
        if (status != VF_OK) r->status = status;
        n[lane] = (uint64_t)exact;
    }
}

/* The 128 elements of a group: out = noise, or out += noise. */
VF_INLINE void group_noise(run *r, int64_t group, const uint64_t *words, int scaled, int add, uint64_t *out) {
    const vfd magic = vfd_set1(0x1.8p52);
    vfd scale = vfd_set1(r->scale);
    const vfd limit = vfd_set1(0.5 - r->scale * GUARD - SLACK);
    for (int w = 0; w < 16; w += 2)
        for (int k = 0; k < 8; k += VF_ND) {
            const int at_c = 8 * w + k, at_s = at_c + 8;
            vfd radius, c, s;
            vfm unsure;
            box_muller(vfq_load(words + at_c), vfq_load(words + at_s), &radius, &c, &s, &unsure);
            vfd rc, rs;
            if (scaled) {
                rc = vfd_mul(radius, vfd_load(r->scales + at_c));
                rs = vfd_mul(radius, vfd_load(r->scales + at_s));
            } else {
                rc = rs = vfd_mul(radius, scale);
            }
            const vfd mc = vfd_fma(c, rc, magic), ms = vfd_fma(s, rs, magic);
            const vfd dc = vfd_fma(c, rc, vfd_sub(magic, mc)), ds = vfd_fma(s, rs, vfd_sub(magic, ms));
            vfq nc = vfq_sub(vfq_bits(mc), vfq_bits(magic)), ns = vfq_sub(vfq_bits(ms), vfq_bits(magic));
            const vfm flag_c = vfm_or(unsure, vfd_abs_gt(dc, limit)), flag_s = vfm_or(unsure, vfd_abs_gt(ds, limit));
            if (VF_UNLIKELY(vfm_bits(vfm_or(flag_c, flag_s)))) {
                uint64_t n[VF_ND];
                vfq_store(n, nc);
                resolve(r, vfm_bits(flag_c), group * GROUP + at_c, words + at_c, words + at_s, n);
                nc = vfq_load(n);
                vfq_store(n, ns);
                resolve(r, vfm_bits(flag_s), group * GROUP + at_s, words + at_c, words + at_s, n);
                ns = vfq_load(n);
            }
            if (add) {
                nc = vfq_add(nc, vfq_load(out + at_c));
                ns = vfq_add(ns, vfq_load(out + at_s));
            }
            vfq_store(out + at_c, nc);
            vfq_store(out + at_s, ns);
        }
}

/* Elements first .. first + n - 1 into out, or added to it. */
VF_INLINE int32_t range_noise(int64_t n, int64_t first, double scale, const uint8_t *key, int add, uint64_t *out) {
    uint32_t k[8];
    uint64_t words[GROUP], noise[GROUP];
    vf_load_key(key, k);
    run r = {.key = k, .scale = scale, .first = first, .end = first + n, .status = VF_OK};
    for (int64_t i = first; i < r.end;) {
        const int64_t group = i / GROUP, skip = i % GROUP;
        const int64_t take = r.end - i < GROUP - skip ? r.end - i : GROUP - skip;
        uint64_t *to = out + (i - first);
        VF_FN(vf_chacha20_group)(k, (uint64_t)group, words);
        if (take == GROUP) {
            group_noise(&r, group, words, 0, add, to);
        } else {
            group_noise(&r, group, words, 0, 0, noise);
            for (int64_t j = 0; j < take; ++j) to[j] = noise[skip + j] + (add ? to[j] : 0);
        }
        i += take;
    }
    vf_wipe(k, sizeof k);
    vf_wipe(words, sizeof words);
    vf_wipe(noise, sizeof noise);
    return r.status;
}

int32_t VF_FN(vf_gaussian_group)(const uint32_t *key, int64_t group, double scale, const double *scales, int add,
                                 uint64_t *words, uint64_t *out) {
    run r = {.key = key,
             .scale = scale,
             .scales = scales,
             .first = group * GROUP,
             .end = group * GROUP + GROUP,
             .status = VF_OK};
    VF_FN(vf_chacha20_group)(key, (uint64_t)group, words);
    if (add)
        group_noise(&r, group, words, 0, 1, out);
    else if (scales)
        group_noise(&r, group, words, 1, 0, out);
    else
        group_noise(&r, group, words, 0, 0, out);
    return r.status;
}

static int32_t check_scale(double scale) {
    return scale > 0.0 && scale <= VF_GAUSSIAN_MAX_SCALE ? VF_OK : VF_ERR_PARAMETER;
}

static int32_t check_range(int64_t n, int64_t first) {
    return n < 0 || first < 0 || n > INT64_MAX - GROUP - first ? VF_ERR_SIZE : VF_OK;
}

int32_t VF_FN(vf_rounded_gaussian)(int64_t n, int64_t first, double scale, const uint8_t *key, int64_t *out) {
    if (check_range(n, first)) return VF_ERR_SIZE;
    if (check_scale(scale)) return VF_ERR_PARAMETER;
    if (n == 0) return VF_OK;
    if (!key || !out) return VF_ERR_NULL;
    if (VF_OFF(out)) return VF_ERR_ALIGNMENT;
    return range_noise(n, first, scale, key, 0, (uint64_t *)out);
}

int32_t VF_FN(vf_int64_check)(int64_t n, int64_t limit, const int64_t *x) {
    if (n < 0) return VF_ERR_SIZE;
    if (limit < 0) return VF_ERR_PARAMETER;
    if (n == 0) return VF_OK;
    if (!x) return VF_ERR_NULL;
    if (VF_OFF(x)) return VF_ERR_ALIGNMENT;
    int64_t low = 0, high = 0;
    for (int64_t i = 0; i < n; ++i) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    return low < -limit || high > limit ? VF_ERR_RANGE : VF_OK;
}

int32_t VF_FN(vf_add_rounded_gaussian)(int64_t n, int64_t first, double scale, const uint8_t *key, int64_t *sums) {
    if (check_range(n, first)) return VF_ERR_SIZE;
    if (check_scale(scale)) return VF_ERR_PARAMETER;
    if (n == 0) return VF_OK;
    if (!key || !sums) return VF_ERR_NULL;
    if (VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    /* At most 2^56 is taken off: the conversion is exact enough, and + 1 rounds up. */
    const int64_t limit = INT64_MAX - (int64_t)(VF_GAUSSIAN_REACH * scale) - 1;
    if (VF_FN(vf_int64_check)(n, limit, sums)) return VF_ERR_RANGE;
    return range_noise(n, first, scale, key, 1, (uint64_t *)sums);
}

int32_t VF_FN(vf_gaussian_flagged)(int64_t n, int64_t first, double scale, const uint8_t *key, int64_t capacity,
                                   int64_t *indices, int64_t *n_flagged) {
    if (check_range(n, first) || capacity < 0) return VF_ERR_SIZE;
    if (check_scale(scale)) return VF_ERR_PARAMETER;
    if (!key || !n_flagged || (capacity && !indices)) return VF_ERR_NULL;
    if (VF_OFF(n_flagged) | VF_OFF(indices)) return VF_ERR_ALIGNMENT;
    uint32_t k[8];
    uint64_t words[GROUP], noise[GROUP];
    vf_load_key(key, k);
    run r = {.key = k,
             .scale = scale,
             .first = first,
             .end = first + n,
             .list = 1,
             .capacity = capacity,
             .indices = indices};
    for (int64_t group = first / GROUP; n > 0 && group <= (r.end - 1) / GROUP; ++group) {
        VF_FN(vf_chacha20_group)(k, (uint64_t)group, words);
        group_noise(&r, group, words, 0, 0, noise);
    }
    *n_flagged = r.n_flagged;
    vf_wipe(k, sizeof k);
    vf_wipe(words, sizeof words);
    vf_wipe(noise, sizeof noise);
    return VF_OK;
}
