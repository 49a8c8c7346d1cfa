/* The Polya-Gamma mean in one precision. Included twice by pg_mean.c, which states the mathematics. */

VF_INLINE VEC LOCAL(pg_mean_vector)(VEC c) {
    const VEC one = OP(set1)(1), half = OP(set1)((REAL)0.5), cap = OP(set1)(LOCAL(cap)), border = OP(set1)((REAL)1.25);
    c = OP(abs)(c);

    const VEC s = OP(min)(c, border), y = OP(mul)(s, s);
    const VEC inner = OP(fma)(VF_HORNER(VEC, y, LOCAL(inner)), y, OP(set1)((REAL)0.25));

    const VEC x = OP(min)(c, cap);
    const VEC n = OP(rint)(OP(mul)(x, OP(set1)((REAL)-1.4426950408889634)));
    VEC r = OP(sub)(OP(sub)(OP(set1)(0), x), OP(mul)(n, OP(set1)(LOCAL(ln2_head))));
    r = OP(sub)(r, OP(mul)(n, OP(set1)(LOCAL(ln2_tail))));
    const VEC q = OP(fma)(OP(mul)(r, r), VF_HORNER(VEC, r, LOCAL(exp)), r);
    const VEC e = OP(mul)(OP(add)(one, q), OP(pow2)(n));

    const VEC num = OP(sub)(one, e);
    const VEC num_low = OP(mul)(half, OP(sub)(OP(sub)(one, num), e));
    const VEC ce = OP(mul)(c, e), den = OP(add)(c, ce);
    const VEC den_low = OP(sub)(ce, OP(sub)(den, c));
    const VEC quotient = OP(div)(OP(mul)(half, num), den);
    const VEC reciprocal = OP(mul)(OP(add)(quotient, quotient), OP(fma)(OP(add)(e, one), e, one));
    const VEC low = OP(mul)(OP(sub)(num_low, OP(mul)(quotient, den_low)), reciprocal);
    const VEC outer = OP(add)(quotient, OP(pick_less)(c, cap, low, OP(set1)(0)));
    return OP(pick_less)(c, border, inner, outer);
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
