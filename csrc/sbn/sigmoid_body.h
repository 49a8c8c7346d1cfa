/* The logistic function in one precision. Included twice by shared.h. */

VF_INLINE VEC LOCAL(expm1_small)(VEC r) { return OP(fma)(OP(mul)(OP(horner)(r, LOCAL(terms), OP(taylor)), r), r, r); }

/* x = n log 2 + r, |r| <= log(2)/2. */
VF_INLINE VEC LOCAL(sbn_reduce)(VEC x, VEC *n) {
    *n = OP(rint)(OP(mul)(x, OP(set1)((REAL)1.4426950408889634)));
    const VEC r = OP(fma)(*n, OP(set1)(OP(log2_high)), x);
    return OP(fma)(*n, OP(set1)(OP(log2_low)), r);
}

/* 1 / (1 + exp(-d)); beyond |d| = LOCAL(exp_cap) the value there. */
VF_INLINE VEC LOCAL(sbn_sigmoid)(VEC d) {
    VEC n;
    const VEC one = OP(set1)(1), cap = OP(set1)(LOCAL(exp_cap)), low = OP(set1)(-LOCAL(exp_cap));
    const VEC x = OP(min)(OP(max)(OP(sub)(OP(set1)(0), d), low), cap);
    const VEC e = LOCAL(expm1_small)(LOCAL(sbn_reduce)(x, &n));
    return OP(div)(one, OP(fma)(OP(add)(e, one), OP(pow2)(n), one));
}
