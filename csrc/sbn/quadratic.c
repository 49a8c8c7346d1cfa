/* Mean-field E-step of sigmoid belief networks under a bound whose curvature all records share.
 *
 * pg.c states the model. log(1 + e^psi) is at most a parabola with second derivative kappa_j: 1/4, or xi at one t_j for
 * all records. The sum over j
 * moves into a K x K matrix,
 *
 *     d_k = linear_k + sum_j w_jk y_j - sum_{l != k} gram_kl z_l.
 *
 * A sweep costs K^2 in place of JK.
 *
 * Records are handled in lanes of their own, so a record's result has the same bits wherever it stands. */
#include "sbn/shared.h"

/* Records in lanes: Q_VECS vectors of them share the loads of gram. */
#define Q_VECS 4
#define Q_BLOCK (Q_VECS * VF_ND)

int64_t VF_FN(vf_sbn_quadratic_workspace)(int64_t n_visible, int64_t n_hidden) {
    if (sizes_bad(0, n_visible, n_hidden)) return -1;
    const int64_t kp = VF_ROUND_UP(n_hidden, VF_ND);
    return VF_LINE + (int64_t)sizeof(double) * (2 * n_hidden * Q_BLOCK + kp) + (int64_t)sizeof(int32_t) * n_visible;
}

/* sum = linear + the rows of w where y is not 0, in their order. on has space for n_visible numbers. */
static void input(int64_t n_visible, int64_t n_hidden, const uint8_t *y, const double *w, const double *linear,
                  int32_t *on, double *sum) {
    int64_t n_on = 0, k = 0;
    for (int64_t j = 0; j < n_visible; ++j) {
        on[n_on] = (int32_t)j;
        n_on += y[j] != 0;
    }
    for (; k + 4 * VF_ND <= n_hidden; k += 4 * VF_ND) {
        vfd s0 = vfd_load(linear + k), s1 = vfd_load(linear + k + VF_ND);
        vfd s2 = vfd_load(linear + k + 2 * VF_ND), s3 = vfd_load(linear + k + 3 * VF_ND);
        for (int64_t i = 0; i < n_on; ++i) {
            const double *p = w + on[i] * n_hidden + k;
            s0 = vfd_add(s0, vfd_load(p));
            s1 = vfd_add(s1, vfd_load(p + VF_ND));
            s2 = vfd_add(s2, vfd_load(p + 2 * VF_ND));
            s3 = vfd_add(s3, vfd_load(p + 3 * VF_ND));
        }
        vfd_store(sum + k, s0), vfd_store(sum + k + VF_ND, s1);
        vfd_store(sum + k + 2 * VF_ND, s2), vfd_store(sum + k + 3 * VF_ND, s3);
    }
    for (; k < n_hidden; ++k) {
        double s = linear[k];
        for (int64_t i = 0; i < n_on; ++i) s += w[on[i] * n_hidden + k];
        sum[k] = s;
    }
}

/* z of unit k, from the input a of its records and the other units; g is row k of gram, z all units. */
VF_INLINE void update(int64_t n_hidden, int64_t k, const double *g, const double *a, double *z) {
    /* Two sets of sums, so that eight chains of additions run at once; unit k itself is passed over. */
    vfd s[2][Q_VECS];
    for (int v = 0; v < Q_VECS; ++v) s[0][v] = s[1][v] = vfd_set1(0.0);
    const int64_t part[3] = {0, k, n_hidden};
    for (int side = 0; side < 2; ++side) {
        int64_t l = part[side] + side;
        const int64_t end = part[side + 1];
        for (; l + 2 <= end; l += 2) {
            const vfd g0 = vfd_set1(g[l]), g1 = vfd_set1(g[l + 1]);
            for (int v = 0; v < Q_VECS; ++v) {
                s[0][v] = vfd_fma(g0, vfd_load(z + l * Q_BLOCK + v * VF_ND), s[0][v]);
                s[1][v] = vfd_fma(g1, vfd_load(z + (l + 1) * Q_BLOCK + v * VF_ND), s[1][v]);
            }
        }
        if (l < end) {
            const vfd g0 = vfd_set1(g[l]);
            for (int v = 0; v < Q_VECS; ++v) s[0][v] = vfd_fma(g0, vfd_load(z + l * Q_BLOCK + v * VF_ND), s[0][v]);
        }
    }
    for (int v = 0; v < Q_VECS; ++v) {
        const vfd d = vfd_sub(vfd_load(a + v * VF_ND), vfd_add(s[0][v], s[1][v]));
        vfd_store(z + k * Q_BLOCK + v * VF_ND, sbn_sigmoid_f64(d));
    }
}

int32_t VF_FN(vf_sbn_quadratic)(const vf_sbn_params *params, const uint8_t *y, const double *w, const double *gram,
                                const double *linear, const double *start, void *workspace, int64_t workspace_bytes,
                                double *z_out) {
    const int32_t status = check_params(params);
    if (status != VF_OK) return status;
    const int64_t n_records = params->n_records, n_visible = params->n_visible, n_hidden = params->n_hidden;
    if (!w || !gram || !linear || !start || !workspace || !z_out) return VF_ERR_NULL;
    if (n_records > 0 && !y) return VF_ERR_NULL;
    if (VF_OFF(w) | VF_OFF(gram) | VF_OFF(linear) | VF_OFF(start) | VF_OFF(z_out)) return VF_ERR_ALIGNMENT;
    if (workspace_bytes < VF_FN(vf_sbn_quadratic_workspace)(n_visible, n_hidden)) return VF_ERR_WORKSPACE;
    /* a, z: [unit][record] */
    double *a = VF_ALIGN_UP(workspace), *z = a + n_hidden * Q_BLOCK, *sum = z + n_hidden * Q_BLOCK;
    int32_t *on = (int32_t *)(sum + VF_ROUND_UP(n_hidden, VF_ND));

    for (int64_t first = 0; first < n_records; first += Q_BLOCK) {
        const int64_t here = n_records - first < Q_BLOCK ? n_records - first : Q_BLOCK;
        for (int64_t r = 0; r < here; ++r) {
            input(n_visible, n_hidden, y + (first + r) * n_visible, w, linear, on, sum);
            for (int64_t k = 0; k < n_hidden; ++k) a[k * Q_BLOCK + r] = sum[k];
        }
        for (int64_t k = 0; k < n_hidden; ++k) {
            for (int64_t r = here; r < Q_BLOCK; ++r) a[k * Q_BLOCK + r] = 0.0;
            for (int64_t r = 0; r < Q_BLOCK; ++r) z[k * Q_BLOCK + r] = start[k];
        }
        for (int32_t sweep = 0; sweep < params->n_sweeps; ++sweep)
            for (int64_t k = 0; k < n_hidden; ++k) update(n_hidden, k, gram + k * n_hidden, a + k * Q_BLOCK, z);
        for (int64_t r = 0; r < here; ++r)
            for (int64_t k = 0; k < n_hidden; ++k) z_out[(first + r) * n_hidden + k] = z[k * Q_BLOCK + r];
    }
    return VF_OK;
}
