/* Factors of records of several classes, for one type of the stored values. Included
 * twice by estep.c, which states the mathematics. */

/* Numbers of a group that all classes share. */
typedef struct {
    double clipped[GROUP], length[GROUP];             /* the row's factor to its bound, and its norm after it */
    double squares[GROUP], largest[GROUP], xi[GROUP]; /* sum r_k^2, max r_k and max xi_k of the classes so far */
} LOCAL(class_group);

/* One class: residuals of records that are not of it. The first class also sets the numbers that all classes share. */
static void LOCAL(add_class)(const lattice *l, int64_t n, int first, const group *g, LOCAL(class_group) * all,
                             double *VF_RESTRICT residual) {
    double c[GROUP] = {0}, xi[GROUP];
    for (int64_t r = 0; r < n; ++r) {
        if (first) {
            const double norm = sqrt(g->square[r]);
            all->clipped[r] = norm > l->row_norm ? l->row_norm / norm : 1.0;
            all->length[r] = norm * all->clipped[r];
            all->squares[r] = all->xi[r] = 0.0;
            all->largest[r] = -INFINITY;
        }
        c[r] = g->spread[r] * all->clipped[r];
    }
    VF_FN(vf_pg_mean_f64)(n, 1.0, c, xi);
    for (int64_t r = 0; r < n; ++r) {
        residual[r] = -0.5 - xi[r] * all->clipped[r] * g->shift[r];
        all->squares[r] += residual[r] * residual[r]; /* NaN stays, and ends in the norm */
        all->largest[r] = residual[r] > all->largest[r] ? residual[r] : all->largest[r];
        all->xi[r] = xi[r] > all->xi[r] ? xi[r] : all->xi[r];
    }
}

/* From the residuals to the factors: the joint clip with the worst label, the same for all parts of a record. */
static void LOCAL(weigh_classes)(const vf_logistic_params *p, int64_t n, int64_t n_rows, int64_t n_classes,
                                 const group *g, const LOCAL(class_group) * all, const double *labels,
                                 double *VF_RESTRICT linear, double *VF_RESTRICT quadratic, double *VF_RESTRICT norms) {
    const double target = p->clip_norm * CLASS_MARGIN;
    double weight[GROUP];
    for (int64_t r = 0; r < n; ++r) {
        const double worst = all->squares[r] + 1.0 + 2.0 * all->largest[r];
        const double v1 = sqrt(worst < 0.0 ? 0.0 : worst) * all->length[r] / p->scale_linear;
        const double v2 = all->xi[r] * all->length[r] * all->length[r] / p->scale_quadratic;
        const double v = sqrt(v1 * v1 + v2 * v2), t = v > target ? target / v : 1.0;
        const int good = (v - v == 0.0) & (g->square[r] >= MIN_SQUARE) & (g->square[r] <= MAX_SQUARE);
        weight[r] = good ? t : 0.0;
        norms[r] = good ? v : 0.0;
        quadratic[r] = good ? sqrt(t * all->xi[r] / p->scale_quadratic) * all->clipped[r] / p->factor_spacing : 0.0;
    }
    for (int64_t k = 0; k < n_classes; ++k)
        for (int64_t r = 0; r < n; ++r) {
            double *to = linear + k * n_rows + r;
            const double residual = labels[r] == (double)k ? *to + 1.0 : *to;
            *to = weight[r] == 0.0 ? 0.0 : weight[r] * residual * all->clipped[r] / p->scale_linear / p->spacing;
        }
}

/* Scale the rows of every unit so that the sum of their bounds is at most the target. */
static void LOCAL(join_classes)(const vf_logistic_params *p, int64_t n_rows, int64_t n_classes, int64_t n_units,
                                const int64_t *starts, double *linear, double *quadratic, const double *norms) {
    const double target = p->clip_norm * CLASS_MARGIN;
    for (int64_t u = 0; u < n_units; ++u) {
        double total = 0.0;
        if (starts[u + 1] - starts[u] < 2) continue;
        for (int64_t r = starts[u]; r < starts[u + 1]; ++r) total += norms[r] < target ? norms[r] : target;
        if (!(total > target)) continue;
        const double factor = target / total, root = sqrt(factor);
        for (int64_t r = starts[u]; r < starts[u + 1]; ++r) {
            quadratic[r] *= root;
            for (int64_t k = 0; k < n_classes; ++k) linear[k * n_rows + r] *= factor;
        }
    }
}

int32_t KERNEL(vf_logistic_classes)(const vf_logistic_params *params, const LOCAL(vf_rows) * rows, int64_t n_classes,
                                    const double *labels, int64_t n_units, const int64_t *starts, void *workspace,
                                    int64_t workspace_bytes, double *linear, double *quadratic, double *norms) {
    int32_t status = LOCAL(check_rows)(rows);
    if (status != VF_OK) return status;
    lattice l;
    if (!params) return VF_ERR_NULL;
    if (((uintptr_t)params & 7u) | VF_OFF(starts)) return VF_ERR_ALIGNMENT;
    if ((status = prepare(params, &l)) != VF_OK) return status;
    if (n_classes < 1 || n_classes > VF_LOGISTIC_MAX_CLASSES) return VF_ERR_SIZE;
    const int64_t n = rows->n_rows, d = rows->n_columns, *indptr = rows->indptr;
    if (starts && (status = check_starts(n_units, starts, n)) != VF_OK) return status;
    const double *second_moment = params->second_moment, *center = params->center;
    if (n == 0) return VF_OK;
    if (!labels || !linear || !quadratic || !norms || !workspace) return VF_ERR_NULL;
    if (VF_OFF(labels) | VF_OFF(second_moment) | VF_OFF(center) | VF_OFF(linear) | VF_OFF(quadratic) | VF_OFF(norms) |
        ((uintptr_t)workspace & 7u))
        return VF_ERR_ALIGNMENT;
    if (workspace_bytes < rows_workspace(d, indptr == NULL)) return VF_ERR_WORKSPACE;

    double *area = VF_ALIGN_UP(workspace);
    if (indptr && !rows->values)
        for (int64_t i = 0; i < d; ++i) area[i] = 1.0;
    for (int64_t first = 0; first < n; first += GROUP) {
        const int64_t size = n - first < GROUP ? n - first : GROUP;
        group g;
        LOCAL(class_group) all;
        for (int64_t k = 0; k < n_classes; ++k) {
            /* Without a posterior all classes have the numbers of the first. */
            if (k == 0 || second_moment || center) LOCAL(row_group)
            (rows, first, size, second_moment ? second_moment + k * d * d : NULL, center ? center + k * d : NULL, area,
             &g);
            LOCAL(add_class)(&l, size, k == 0, &g, &all, linear + k * n + first);
        }
        LOCAL(weigh_classes)
        (params, size, n, n_classes, &g, &all, labels + first, linear + first, quadratic + first, norms + first);
    }
    if (starts) LOCAL(join_classes)(params, n, n_classes, n_units, starts, linear, quadratic, norms);
    return VF_OK;
}
