/* The Polya-Gamma mean in one precision. Included twice by pg_mean.c, which states the mathematics. */

VF_INLINE VEC LOCAL(pg_mean_vector)(VEC c) {
    const VEC zero = OP(set1)(0), one = OP(set1)(1), cap = OP(set1)(LOCAL(cap));
    c = OP(max)(OP(set1)(LOCAL(least)), OP(abs)(c)); /* of a NaN, NaN */

    const VEC x = OP(min)(c, cap);
    const VEC n = OP(rint)(OP(mul)(x, OP(set1)((REAL)-1.4426950408889634)));
    const VEC head = OP(less)(OP(sub)(zero, x), n, OP(set1)(LOCAL(ln2_head)));
    const VEC r = OP(less)(head, n, OP(set1)(LOCAL(ln2_tail)));
    const VEC t = OP(mul)(OP(mul)(r, r), VF_HORNER(VEC, r, LOCAL(exp)));
    const VEC p = OP(pow2)(n), above = OP(sub)(one, p);

    const VEC most = OP(less)(above, p, r), num = OP(less)(most, p, t);
    const VEC num_low = OP(add)(OP(less)(OP(sub)(above, most), p, r), OP(less)(OP(sub)(most, num), p, t));
    const VEC e = OP(max)(OP(set1)(LOCAL(least)), OP(sub)(one, num)); /* above 0, for an infinite c */
    const VEC den = OP(fma)(c, e, c), den_over = OP(rest)(OP(sub)(den, c), c, e);

    const VEC reciprocal = OP(div)(OP(set1)((REAL)0.5), den), quotient = OP(mul)(num, reciprocal);
    const VEC twice = OP(add)(quotient, quotient);
    const VEC left = OP(add)(OP(rest)(num, twice, den), OP(fma)(twice, den_over, num_low));
    const VEC whole = OP(pick_less)(c, cap, OP(fma)(left, reciprocal, quotient), quotient);
    return OP(min)(OP(set1)((REAL)0.25), whole);
}

int32_t KERNEL(vf_pg_mean)(int64_t n, REAL b, const REAL *c, REAL *out) {
    if (n < 0) return VF_ERR_SIZE;
    if (n == 0) return VF_OK;
    if (!c || !out) return VF_ERR_NULL;
    if (VF_OFF(c) | VF_OFF(out)) return VF_ERR_ALIGNMENT;
    if (!(b > 0 && b - b == 0)) return VF_ERR_PARAMETER;
    const VEC scale = OP(set1)(b);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) OP(store)(out + i, OP(mul)(scale, LOCAL(pg_mean_vector)(OP(load)(c + i))));
    if (i < n) {
        REAL tail[LANES] = {0};
        memcpy(tail, c + i, (size_t)(n - i) * sizeof(REAL));
        OP(store)(tail, OP(mul)(scale, LOCAL(pg_mean_vector)(OP(load)(tail))));
        memcpy(out + i, tail, (size_t)(n - i) * sizeof(REAL));
    }
    return VF_OK;
}
