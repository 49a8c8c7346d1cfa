/* One exactly rounded Gaussian draw, by interval arithmetic on big integers.
 *
 * A number is a natural number of units in the last place (ulp) with a radius in ulps. An ulp is 2^-F, F =
 * 32 (limbs - 1). The true value lies in [x - radius, x + radius]. Every operation below rounds down and adds to the
 * radius that covers its rounding and its operands' radii; the bound is derived beside it. The
 * draw
 *
 *     y = scale * sqrt(-ln U) * (cos a -+ sin a),   a = (pi/2) |t|
 *
 * is then known to a radius. If y - radius and y + radius round alike, that is the answer. Otherwise all is done again
 * with twice the fraction. The element's own stretch of keystream yields the further bits of U and t. */
#include "noise/gaussian_exact.h"

#include <math.h>
#include <string.h>

#include "noise/chacha20_block.h"

#define MAX_LIMBS VF_EXACT_MAX_LIMBS
#define RADIUS_BITS 50 /* a root with a larger radius loses limbs */
#define MAX_ZEROS 1024 /* leading zero bits of U; beyond: 2^-1024 of all keystreams */

typedef struct {
    uint32_t w[MAX_LIMBS]; /* w[limbs - 1] is the integer part */
    uint64_t radius;
} ball;

/* floor(ln 2 * 2^768) and floor(pi/2 * 2^768), least significant limb first. */
static const uint32_t LN2[MAX_LIMBS] = {
    0x7657f74b, 0x256fa0ec, 0xb136603b, 0xb9ea9bc3, 0x317c387e, 0x1acbda11, 0x224ae8c5, 0x3e96ca16, 0x1169b825,
    0x27573b29, 0xc1382144, 0xed2eae35, 0x4afa1b10, 0x559552fb, 0x6debac98, 0xe7b87620, 0x8baafa2b, 0x8a0d175b,
    0x7298b62d, 0x40f34326, 0x03f2f6af, 0xc9e3b398, 0xd1cf79ab, 0xb17217f7, 0x00000000};
static const uint32_t HALF_PI[MAX_LIMBS] = {
    0xb5133f4b, 0xdc70d7f6, 0xe80d6fdb, 0x17feb96d, 0x4c6fdad6, 0xe89885d3, 0xc4bcfd8d, 0xc90b6aec, 0xdaa3848b,
    0x9fc26ada, 0xe4be286e, 0x605614db, 0x9a748636, 0xdf2a3367, 0x1c6809bb, 0xa29410f3, 0x76273644, 0x04177d4c,
    0x14cf98e8, 0x52049c11, 0x01b839a2, 0x898cc517, 0x42d18469, 0x921fb544, 0x00000001};

/* ---- natural numbers of n limbs, modulo 2^(32 n) ---- */

static uint32_t add_to(int n, uint32_t *a, const uint32_t *b) {
    uint64_t carry = 0;
    for (int i = 0; i < n; ++i) {
        carry += (uint64_t)a[i] + b[i];
        a[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return (uint32_t)carry;
}

static uint32_t sub_from(int n, uint32_t *a, const uint32_t *b) { /* returns the borrow */
    uint64_t borrow = 0;
    for (int i = 0; i < n; ++i) {
        const uint64_t d = (uint64_t)a[i] - b[i] - borrow;
        a[i] = (uint32_t)d;
        borrow = d >> 63;
    }
    return (uint32_t)borrow;
}

static int less(int n, const uint32_t *a, const uint32_t *b) {
    for (int i = n - 1; i >= 0; --i)
        if (a[i] != b[i]) return a[i] < b[i];
    return 0;
}

static int is_zero(int n, const uint32_t *a) {
    uint32_t any = 0;
    for (int i = 0; i < n; ++i) any |= a[i];
    return any == 0;
}

static int bit_length(int n, const uint32_t *a) {
    for (int i = n - 1; i >= 0; --i)
        if (a[i]) {
            int bits = 0;
            for (uint32_t x = a[i]; x; x >>= 1) ++bits;
            return 32 * i + bits;
        }
    return 0;
}

/* out[na + nb] = a * b. */
static void multiply(int na, const uint32_t *a, int nb, const uint32_t *b, uint32_t *out) {
    memset(out, 0, (size_t)(na + nb) * sizeof *out);
    for (int i = 0; i < na; ++i) {
        uint64_t carry = 0;
        for (int j = 0; j < nb; ++j) {
            carry += (uint64_t)a[i] * b[j] + out[i + j];
            out[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        out[i + nb] = (uint32_t)carry;
    }
}

/* out[n] = a[na] shifted down by `bits`, the rest dropped. */
static void shift_down(int na, const uint32_t *a, int bits, int n, uint32_t *out) {
    const int limbs = bits / 32, r = bits % 32;
    for (int i = 0; i < n; ++i) {
        const uint64_t low = i + limbs < na ? a[i + limbs] : 0, high = i + limbs + 1 < na ? a[i + limbs + 1] : 0;
        out[i] = (uint32_t)((high << 32 | low) >> r);
    }
}

static void double_and_add(int n, uint32_t *a, uint32_t bit) {
    for (int i = 0; i < n; ++i) {
        const uint32_t top = a[i] >> 31;
        a[i] = a[i] << 1 | bit;
        bit = top;
    }
}

/* ---- balls ---- */

/* |xy - x'y'| <= |x| ry + |y| rx + rx ry, and 1 for rounding down. In ulps the last product is rx ry / 2^F < 1. F is at
 * least 64, a root's radius is below 2^51 and every other one below 2^13. (That is a few per term of a series of at
 * most 200 terms, and 1025 for (zeros + 1) ln 2.) */
static void ball_mul(int n, const ball *a, const ball *b, ball *out) {
    uint32_t full[2 * MAX_LIMBS];
    const uint64_t top_a = a->w[n - 1] + (uint64_t)1, top_b = b->w[n - 1] + (uint64_t)1;
    const uint64_t radius = top_a * b->radius + top_b * a->radius + 2;
    multiply(n, a->w, n, b->w, full);
    memcpy(out->w, full + (n - 1), (size_t)n * sizeof(uint32_t));
    out->radius = radius;
}

/* a / d for a small integer d: the radius shrinks too, 1 for its rounding and 1 for the quotient's. */
static void ball_div_small(int n, ball *a, uint32_t d) {
    uint64_t r = 0;
    for (int i = n - 1; i >= 0; --i) {
        r = r << 32 | a->w[i];
        a->w[i] = (uint32_t)(r / d);
        r %= d;
    }
    a->radius = a->radius / d + 2;
}

static void ball_mul_small(int n, ball *a, uint32_t d) {
    uint64_t carry = 0;
    for (int i = 0; i < n; ++i) {
        carry += (uint64_t)a->w[i] * d;
        a->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    a->radius *= d;
}

static void ball_add(int n, ball *a, const ball *b) {
    add_to(n, a->w, b->w);
    a->radius += b->radius;
}

/* a - b for a true difference >= 0. A negative outcome is rounding, and 0 with the same radius still covers every
 * non-negative number that it covered. */
static void ball_sub(int n, ball *a, const ball *b) {
    if (sub_from(n, a->w, b->w)) memset(a->w, 0, (size_t)n * sizeof(uint32_t));
    a->radius += b->radius;
}

static void ball_constant(int n, const uint32_t *digits, ball *out) {
    memcpy(out->w, digits + (MAX_LIMBS - n), (size_t)n * sizeof(uint32_t));
    out->radius = 1;
}

/* a / b for 0 <= a <= b, 2 <= b < 4, radii <= 1: bit by bit.
 *
 * |a/b - a'/b'| <= (1 + a/b) / b <= 1, and 1 for rounding down. */
static void ball_div(int n, const ball *a, const ball *b, ball *out) {
    uint32_t rest[MAX_LIMBS];
    memcpy(rest, a->w, (size_t)n * sizeof(uint32_t));
    memset(out->w, 0, (size_t)n * sizeof(uint32_t));
    for (int bit = 32 * (n - 1); bit >= 0; --bit) { /* rest < 2 b < 8: the integer limb holds it */
        if (!less(n, rest, b->w)) {
            sub_from(n, rest, b->w);
            out->w[bit / 32] |= (uint32_t)1 << (bit % 32);
        }
        double_and_add(n, rest, 0);
    }
    out->radius = 3;
}

/* atanh(q) = q + q^3/3 + q^5/5 + ..., 0 <= q <= 1/5 (or a radius more). The sum stops when the power q^(2k+1) is below
 * 1 ulp + its radius; the rest is below that times (1/25) / (1 - 1/25). */
static void ball_atanh(int n, const ball *q, ball *sum) {
    ball power = *q, square, term;
    ball_mul(n, q, q, &square);
    *sum = *q;
    for (uint32_t d = 3;; d += 2) {
        ball_mul(n, &power, &square, &term);
        power = term;
        ball_div_small(n, &term, d);
        ball_add(n, sum, &term);
        if (is_zero(n, power.w)) break;
    }
    sum->radius += power.radius + 1;
}

/* cos a and sin a, 0 <= a <= pi/4. Sums alternate but stay positive; the rest of
 * either series is below the first term left out. */
static void ball_cos_sin(int n, const ball *a, ball *cosine, ball *sine) {
    ball term = *a, next;
    *sine = *a;
    memset(cosine, 0, sizeof *cosine);
    cosine->w[n - 1] = 1;
    for (uint32_t k = 2; !is_zero(n, term.w); ++k) {
        ball_mul(n, &term, a, &next);
        ball_div_small(n, &next, k);
        term = next;
        ball *to = k % 2 ? sine : cosine;
        if (k % 4 < 2)
            ball_add(n, to, &term);
        else
            ball_sub(n, to, &term);
    }
    cosine->radius += term.radius + 1;
    sine->radius += term.radius + 1;
}

/* Drop the d lowest limbs. */
static void ball_truncate(int n, ball *a, int d) {
    if (d == 0) return;
    memmove(a->w, a->w + d, (size_t)(n - d) * sizeof(uint32_t));
    a->radius = (d == 1 ? a->radius >> 32 : 0) + 2;
}

static int length64(uint64_t x) {
    const uint32_t w[2] = {(uint32_t)x, (uint32_t)(x >> 32)};
    return bit_length(2, w);
}

/* sqrt(a): with the natural number A = a 2^F, floor(sqrt(A 2^F)), two bits at a time.
 *
 * Let that root have b bits and r be the radius of a. Then |sqrt((A +- r) 2^F) - sqrt(A 2^F)| <= r 2^F / 2^(b-1), and
 * 1 for rounding down. Near U = 1 that is many ulps: the root is then cut to fewer limbs, so that its radius has at most
 * RADIUS_BITS. Returns how many limbs were cut, or -1 if too few would be left. */
static int ball_sqrt(int n, const ball *a, ball *out) {
    const int fraction = 32 * (n - 1);
    uint32_t rest[MAX_LIMBS + 1] = {0}, root[MAX_LIMBS + 1] = {0}, trial[MAX_LIMBS + 1];
    for (int i = 32 * n - 2; i >= -fraction; i -= 2) {
        /* rest <= 2 root throughout, so that one limb more than n is enough. */
        for (int j = 1; j >= 0; --j) {
            const int bit = i + j;
            double_and_add(n + 1, rest, bit < 0 ? 0 : a->w[bit / 32] >> (bit % 32) & 1);
        }
        memcpy(trial, root, sizeof trial);
        double_and_add(n + 1, trial, 0);
        double_and_add(n + 1, trial, 1); /* 4 root + 1 */
        double_and_add(n + 1, root, 0);
        if (!less(n + 1, rest, trial)) {
            sub_from(n + 1, rest, trial);
            root[0] |= 1;
        }
    }
    memcpy(out->w, root, (size_t)n * sizeof(uint32_t));
    const int grow = fraction + 1 - bit_length(n, out->w); /* the radius grows by 2^grow */
    const int excess = length64(a->radius) + grow - RADIUS_BITS;
    const int cut = excess > 0 ? (excess + 31) / 32 : 0;
    if (n - cut < 3) return -1;
    const int shift = grow - 32 * cut;
    ball_truncate(n, out, cut);
    out->radius = (shift >= 0 ? a->radius << shift : shift > -64 ? a->radius >> -shift : 0) + 3;
    return cut;
}

/* ---- the element's bits ---- */

typedef struct {
    const uint32_t *key;
    uint32_t pair[2];
    int64_t at; /* number of the block held, -1: none */
    uint32_t block[16];
} refinement;

/* 32 more bits, number i of U (side 0) or of t (side 1), most significant first. */
static uint32_t more_bits(refinement *r, int i, int side) {
    if (r->at != i / 8) {
        const uint32_t tail[4] = {(uint32_t)(i / 8), r->pair[0], r->pair[1], 1};
        vf_chacha20_block(r->key, tail, r->block);
        r->at = i / 8;
    }
    return r->block[8 * side + i % 8];
}

/* Bits from .. from + 31 of the infinite string that begins with the `head_bits` (at least 32) low bits of `head`. */
static uint32_t bits_at(uint64_t head, int head_bits, refinement *r, int side, int from) {
    const int left = head_bits - from;
    if (left >= 32) return (uint32_t)(head >> (left - 32));
    if (left > 0) return (uint32_t)(head << (32 - left)) | more_bits(r, 0, side) >> left;
    const int word = -left / 32, skip = -left % 32;
    if (skip == 0) return more_bits(r, word, side);
    return more_bits(r, word, side) << skip | more_bits(r, word + 1, side) >> (32 - skip);
}

/* -ln U for U = 2^-(zeros + 1) m, 1 <= m < 2, m = w ulps + less than 1. */
static void minus_log(int n, int zeros, const ball *m, ball *out) {
    ball one, numerator = *m, denominator = *m, q, part;
    memset(&one, 0, sizeof one);
    one.w[n - 1] = 1;
    ball_constant(n, LN2, out);
    if (m->w[n - 2] >> 31) { /* m >= 3/2: zeros ln 2 + 2 atanh((2 - m)/(2 + m)) */
        one.w[n - 1] = 2;
        numerator = one;
        sub_from(n, numerator.w, m->w);
        numerator.radius = 1;
    } else { /* (zeros + 1) ln 2 - 2 atanh((m - 1)/(m + 1)) */
        sub_from(n, numerator.w, one.w);
    }
    add_to(n, denominator.w, one.w);
    ball_div(n, &numerator, &denominator, &q);
    ball_atanh(n, &q, &part);
    ball_mul_small(n, &part, 2);
    if (m->w[n - 2] >> 31) {
        ball_mul_small(n, out, (uint32_t)zeros);
        ball_add(n, out, &part);
    } else {
        ball_mul_small(n, out, (uint32_t)zeros + 1);
        ball_sub(n, out, &part);
    }
}

/* round(scale * x) for x = w ulps +- radius >= 0, or -1 if that is not decided. */
static int64_t round_scaled(int n, double scale, const ball *x) {
    int exponent;
    const double unit = frexp(scale, &exponent); /* scale = mantissa 2^(exponent - 53) */
    const uint64_t mantissa = (uint64_t)(unit * 0x1p53), radius = x->radius;
    const uint32_t m[2] = {(uint32_t)mantissa, (uint32_t)(mantissa >> 32)};
    const uint32_t r[2] = {(uint32_t)radius, (uint32_t)(radius >> 32)};
    const int fraction = 32 * (n - 1) + 53 - exponent; /* bits after the point of mantissa * w */
    const int size = n + 6;                            /* 53 - exponent <= 59: more than enough */
    uint32_t low[MAX_LIMBS + 6] = {0}, high[MAX_LIMBS + 6], error[MAX_LIMBS + 6] = {0}, half[MAX_LIMBS + 6] = {0};
    multiply(n, x->w, 2, m, low);
    multiply(2, r, 2, m, error);
    half[(fraction - 1) / 32] = (uint32_t)1 << ((fraction - 1) % 32);
    add_to(size, low, half);
    memcpy(high, low, sizeof high);
    add_to(size, high, error);
    if (sub_from(size, low, error)) return -1;
    uint32_t a[2], b[2];
    shift_down(size, low, fraction, 2, a);
    shift_down(size, high, fraction, 2, b);
    if (a[0] != b[0] || a[1] != b[1]) return -1;
    return (int64_t)((uint64_t)a[1] << 32 | a[0]);
}

int32_t vf_gaussian_exact_unchecked(uint64_t u, uint64_t v, int64_t index, double scale, int32_t limbs,
                                    const uint32_t *key, int64_t *out) {
    *out = 0;
    /* |x| < sqrt(2 ln 2 (MAX_ZEROS + 1)) < VF_GAUSSIAN_REACH = 64 */
    if (scale < 0.5 / VF_GAUSSIAN_REACH) return VF_OK;
    const int is_sine = (int)(index >> 3 & 1);
    const uint64_t pair = (uint64_t)index & ~(uint64_t)8;
    refinement more = {key, {(uint32_t)pair, (uint32_t)(pair >> 32)}, -1, {0}};
    int64_t magnitude = -1;

    int zeros = 0;
    for (; zeros <= MAX_ZEROS; zeros += 32) {
        const uint32_t w = bits_at(u, 64, &more, 0, zeros);
        if (w) {
            zeros += 32 - bit_length(1, &w);
            break;
        }
    }
    /* t = (top bit of the 62 as sign, two's complement): |t| and its sign. The
     * complement of an infinite bit string is the complement of its bits. */
    const int t_negative = (int)(v >> 61 & 1);
    for (int n = limbs; magnitude < 0 && zeros <= MAX_ZEROS; n = 2 * n - 1 < MAX_LIMBS ? 2 * n - 1 : MAX_LIMBS) {
        ball m = {{0}, 1}, t = {{0}, 1}, half_pi, angle, cosine, sine, log_, root, x;
        m.w[n - 1] = 1;
        for (int i = 0; i < n - 1; ++i) m.w[n - 2 - i] = bits_at(u, 64, &more, 0, zeros + 1 + 32 * i);
        for (int i = 0; i < n - 1; ++i) {
            const uint32_t b = bits_at(v, 62, &more, 1, 32 * i);
            t.w[n - 2 - i] = t_negative ? ~b : b;
        }
        ball_constant(n, HALF_PI, &half_pi);
        ball_mul(n, &half_pi, &t, &angle);
        ball_cos_sin(n, &angle, &cosine, &sine);
        if (is_sine != t_negative)
            ball_add(n, &cosine, &sine);
        else
            ball_sub(n, &cosine, &sine);
        minus_log(n, zeros, &m, &log_);
        const int cut = ball_sqrt(n, &log_, &root);
        if (cut >= 0) {
            ball_truncate(n, &cosine, cut);
            ball_mul(n - cut, &root, &cosine, &x);
            magnitude = round_scaled(n - cut, scale, &x);
        }
        vf_wipe(&m, sizeof m);
        vf_wipe(&t, sizeof t);
        vf_wipe(&log_, sizeof log_);
        vf_wipe(&root, sizeof root);
        vf_wipe(&cosine, sizeof cosine);
        vf_wipe(&x, sizeof x);
        if (n == MAX_LIMBS) break;
    }
    vf_wipe(&more.block, sizeof more.block);
    if (magnitude < 0) return VF_ERR_ENTROPY;
    const int negative = (int)((is_sine ? v >> 62 : v >> 63) & 1);
    *out = negative ? -magnitude : magnitude;
    return VF_OK;
}

int32_t vf_gaussian_exact(uint64_t u, uint64_t v, int64_t index, double scale, int32_t limbs, const uint8_t *key,
                          int64_t *out) {
    if (index < 0 || limbs < 3 || limbs > MAX_LIMBS) return VF_ERR_SIZE;
    if (!(scale > 0.0) || scale > VF_GAUSSIAN_MAX_SCALE) return VF_ERR_PARAMETER;
    if (!key || !out) return VF_ERR_NULL;
    uint32_t k[8];
    vf_load_key(key, k);
    const int32_t status = vf_gaussian_exact_unchecked(u, v, index, scale, limbs, k, out);
    vf_wipe(k, sizeof k);
    return status;
}
