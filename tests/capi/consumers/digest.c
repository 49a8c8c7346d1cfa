/* Digests of results that must have the same bits on every machine, compiler and optimization
 * level: for each instruction set, first the noise and the integer sums, which are also the
 * same on every set, and then, after a line with the word "esteps", the results of E-steps, clipping and
 * shrinkage compute in floating point, in the set's own order. One line for each kernel; they
 * are compared with other builds.
 *
 * SHA-256 of the lines of noise and integer sums:
 * c56058c0dccb20746775b5c40622fbb117f76a4aba237647c17b66bbed049557 */
#include <stdio.h>
#include <string.h>
#include <vips_fast/vips_fast.h>

static uint64_t state = 1;
static uint64_t random_bits(void) { /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
/* An integer in [low, high]. */
static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(random_bits() % (uint64_t)(high - low + 1));
}

static int failed;
static uint64_t fnv(size_t n, const void *data) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; ++i) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
    return hash;
}
static void show(const char *kernel, int32_t status, size_t n, const void *data) {
    printf("%s %d %016llx\n", kernel, (int)status, (unsigned long long)fnv(n, data));
    failed |= status != VF_OK;
}

enum { N = 3000, D = 67, J = 37, K = 19, TRIANGLE = J * (J + 1) / 2, ROWS = 150 };
static int64_t area[1 << 20], sums[D * K], triangle[TRIANGLE];
static double work[1 << 18];

static void noise(const vf_api *api, const uint8_t *key) {
    static const double scales[] = {0.3, 50, 0x1.8p22, 0x1p33, 0x1p45};
    show("chacha20_words", api->chacha20_words(N, 77, key, (uint64_t *)area), N * 8, area);
    show("chacha20_fill", api->chacha20_fill(N, key, key, 5, (uint8_t *)area), N, area);
    for (int i = 0; i < 5; ++i) {
        show("rounded_gaussian", api->rounded_gaussian(N, 1000, scales[i], key, area), N * 8, area);
        show("add_rounded_gaussian", api->add_rounded_gaussian(N, 0, scales[i], key, area), N * 8, area);
        memset(area, 0, D * D * 8);
        show("symmetric_gaussian", api->symmetric_gaussian(D, 0, D, scales[i], scales[i] / 2, key, D, area), D * D * 8,
             area);
    }
    for (int i = 0; i < 40; ++i) {
        const uint64_t u = random_bits(), v = random_bits();
        failed |= api->gaussian_exact(u, v, i, 0x1p50, 3 + i % 5, key, area + i) != VF_OK;
    }
    show("gaussian_exact", VF_OK, 40 * 8, area);
    memset(area, 0, D * D * 8);
    failed |= api->symmetric_gaussian(D, 0, D, scales[2], scales[2], key, D, area) != VF_OK;
    show("symmetric_check", api->symmetric_check(D, 0, D, INT64_MAX, D, area), 0, area);
    show("int64_check", api->int64_check(D * D, INT64_MAX, area), 0, area);
}

/* Which draws the fast path hands on follows its roundings, and so the instruction set. */
static void handed_on(const vf_api *api, const uint8_t *key) {
    int64_t n = 0;
    const int32_t status = api->gaussian_flagged(N, 0, 0x1p38, key, N, area, &n);
    show("gaussian_flagged", status, (size_t)n * 8, area);
}

static void text(const vf_api *api) {
    enum { BYTES = 4000, SLOTS = 1 << 13, TEXTS = 8 };
    static uint8_t bytes[BYTES], known[2 * BYTES];
    static uint64_t slots[SLOTS];
    static int64_t ends[BYTES], text_ends[TEXTS], lines[BYTES], summary[4];
    static int32_t numbers[BYTES];
    memset(slots, 0, sizeof slots);
    int64_t n = 0;
    for (int i = 0; i < BYTES; ++i) bytes[i] = (uint8_t)(between(0, 4) ? between('a', 'f') : 0xff);
    for (int i = 0; i < TEXTS; ++i) bytes[(i + 1) * (BYTES / TEXTS) - 1] = 0xfe;
    int32_t status = api->token_numbers(bytes, BYTES, 5, slots, SLOTS, known, sizeof known, ends, BYTES, 0, numbers,
                                        BYTES, text_ends, TEXTS, &n);
    show("token_numbers, words", status, (size_t)n * 4, numbers);
    show("token_numbers, texts", status, sizeof text_ends, text_ends);
    for (int i = 0; i < BYTES; ++i) bytes[i] = (uint8_t) "ab,\"c\"\n"[i % 7];
    status = api->csv_cells(bytes, BYTES, ',', 2, ends, lines, BYTES, summary);
    show("csv_cells", status, (size_t)summary[0] * 16, ends);
}

static void integers(const vf_api *api) {
    static double v[ROWS * J], linear[ROWS], quadratic[ROWS];
    static uint8_t y[ROWS * J];
    static int32_t indices[ROWS * J], counts[ROWS * J], places[1 << 14];
    static uint32_t scratch[VF_LDA_RESAMPLE_TOKENS];
    static int64_t indptr[ROWS + 1], out_indptr[ROWS + 1], rows[ROWS];
    static uint64_t seeds[ROWS];
    for (int i = 0; i < ROWS * K; ++i) v[i] = (double)between(-(1 << 20), 1 << 20);
    for (int i = 0; i < ROWS * J; ++i) {
        y[i] = (uint8_t)between(0, 1);
        counts[i] = (int32_t)between(0, 9);
    }
    memset(sums, 0, sizeof sums);
    show("sbn_cross", api->sbn_cross(ROWS, J, K, y, v, sums), J * K * 8, sums);
    memset(sums, 0, sizeof sums);
    show("sbn_gram", api->sbn_gram(ROWS, K, v, work, sizeof work, sums), K * (K - 1) / 2 * 8, sums);

    int64_t n = 0;
    for (int r = 0; r < ROWS; ++r) {
        indptr[r] = n;
        for (int j = 0; j < J; ++j)
            if (between(0, 2) == 0) indices[n++] = j;
        linear[r] = (double)between(-1000, 1000);
        quadratic[r] = (double)between(0, 1000) / 64;
        rows[r] = between(0, ROWS - 1);
        seeds[r] = random_bits();
    }
    indptr[ROWS] = n;
    for (int64_t i = 0; i < ROWS * J; ++i) v[i] = (double)between(-(1 << 16), 1 << 16) / 1024;
    for (int sparse = 0; sparse < 2; ++sparse) {
        memset(sums, 0, J * 8);
        memset(triangle, 0, sizeof triangle);
        const vf_rows_f64 rows = {ROWS, J, sparse ? indptr : NULL, indices, v};
        const int32_t status =
            api->logistic_accumulate_f64(&rows, 0, J, linear, quadratic, work, sizeof work, sums, triangle);
        show("logistic_accumulate, linear", status, J * 8, sums);
        show("logistic_accumulate, quadratic", status, sizeof triangle, triangle);
    }
    for (int mode = VF_LDA_AS_IS; mode <= VF_LDA_SCALE; ++mode) {
        const vf_gather_params p = {ROWS, ROWS, 1 << 14, 100, VF_LDA_RESAMPLE_TOKENS, mode};
        const int32_t status =
            api->lda_gather(&p, rows, indptr, indices, counts, seeds, scratch, out_indptr, places, (double *)area);
        show("lda_gather, rows", status, sizeof out_indptr, out_indptr);
        show("lda_gather, words", status, (size_t)out_indptr[ROWS] * 4, places);
        show("lda_gather, counts", status, (size_t)out_indptr[ROWS] * 8, area);
    }
    enum { UNITS = ROWS / 2 };
    static int32_t columns[1 << 14], columns_of_half[2][1 << 14];
    static int64_t starts[UNITS + 1], ends[UNITS + 1], ends_of_half[2][UNITS + 1];
    static double words[1 << 14], words_of_half[2][1 << 14];
    for (int u = 0; u <= UNITS; ++u) starts[u] = 2 * u;
    int32_t status = api->unit_words(ROWS, rows, UNITS, starts, ROWS, indptr, indices, counts, J, 2 * J, sums, 1 << 14,
                                     ends, columns, words);
    show("unit_words, columns", status, (size_t)ends[UNITS] * 4, columns);
    show("unit_words, counts", status, (size_t)ends[UNITS] * 8, words);
    status = api->split_words(UNITS, ends, 1 << 14, columns, words, seeds, NULL, ends_of_half[0], columns_of_half[0],
                              words_of_half[0], ends_of_half[1], columns_of_half[1], words_of_half[1]);
    show("split_words, columns", status, (size_t)ends_of_half[0][UNITS] * 4, columns_of_half[0]);
    show("split_words, counts", status, (size_t)ends_of_half[1][UNITS] * 8, words_of_half[1]);
}

/* A number in [0, 1] with 20 bits. */
static double fraction(void) { return (double)between(0, 1 << 20) / (1 << 20); }

static void topics(const vf_api *api) {
    enum { WORDS = D, DOCS = 40, STRIDE = VF_LDA_STRIDE(K) };
    static double beta[K * WORDS], wide[WORDS * STRIDE], alpha[K], values[DOCS * WORDS], gamma[DOCS * K], norms[DOCS];
    static double weight[WORDS];
    static float narrow[WORDS * STRIDE];
    static int32_t indices[DOCS * WORDS], n_iter[DOCS];
    static int64_t indptr[DOCS + 1], starts[] = {0, 1, 1, 8, DOCS};
    for (int i = 0; i < K * WORDS; ++i) beta[i] = fraction() * fraction();
    for (int k = 0; k < K; ++k) alpha[k] = 0.01 + fraction();
    for (int v = 0; v < WORDS; ++v) weight[v] = 0.5 + fraction();
    int64_t n = 0;
    for (int d = 0; d < DOCS; ++d) {
        for (int v = 0; v < WORDS; ++v)
            if (between(0, 3) == 0) {
                indices[n] = v;
                values[n++] = (double)between(1, 60) / 4;
            }
        indptr[d + 1] = n;
    }
    const vf_lda_params p = {.tol = 1e-4, .max_iter = 60, .clip_norm = 40, .spacing = 0x1p-20, .n_topics = K};
    const vf_rows_f64 docs = {DOCS, WORDS, indptr, indices, values};
    show("lda_table, f64", api->lda_table_f64(K, WORDS, beta, WORDS, 1, wide), sizeof wide, wide);
    show("lda_table, f32", api->lda_table_f32(K, WORDS, beta, WORDS, 1, narrow), sizeof narrow, narrow);
    for (int real = 0; real < 2; ++real) {
        memset(sums, 0, WORDS * K * 8);
        int32_t status =
            real ? api->lda_estep_f64(&p, &docs, wide, alpha, work, sizeof work, gamma, sums, n_iter, norms)
                 : api->lda_estep_f32(&p, &docs, narrow, alpha, work, sizeof work, gamma, sums, n_iter, norms);
        show("lda_estep, sums", status, WORDS * K * 8, sums);
        show("lda_estep, gamma", status, sizeof gamma, gamma);
        show("lda_estep, rounds", status, sizeof n_iter, n_iter);
        show("lda_estep, norms", status, sizeof norms, norms);
        memset(sums, 0, WORDS * K * 8);
        status = real ? api->lda_units_f64(&p, 5, weight, 0.25, 4, starts, &docs, wide, alpha, work, sizeof work, sums,
                                           norms)
                      : api->lda_units_f32(&p, 5, weight, 0.25, 4, starts, &docs, narrow, alpha, work, sizeof work,
                                           sums, norms);
        show("lda_units, sums", status, WORDS * K * 8, sums);
        memset(sums, 0, WORDS * K * 8);
        status = real ? api->lda_collapsed_f64(K, 2, 0x1p-20, &docs, wide, alpha, sizeof work / 8, (double *)work, sums,
                                               norms)
                      : api->lda_collapsed_f32(K, 2, 0x1p-20, &docs, narrow, alpha, sizeof work / 4, (float *)work,
                                               sums, norms);
        show("lda_collapsed, sums", status, WORDS * K * 8, sums);
    }
    memset(sums, 0, WORDS * 8);
    show("word_histogram",
         api->word_histogram(DOCS, indptr, DOCS * WORDS, indices, values, WORDS, weight, 3, 2, 0x1p30, sums), WORDS * 8,
         sums);
    show("word_ratios",
         api->word_ratios(DOCS, indptr, DOCS * WORDS, indices, WORDS, STRIDE, narrow, narrow, (double *)area),
         (size_t)n * 8, area);

    static float grid[] = {0, 0.5F, 1, 4}, prior[] = {0.25F, 0.25F, 0.25F, 0.25F, 0.7F, 0.1F, 0.1F, 0.1F};
    static const double edge[] = {1}, ends[] = {0, 0.5, 1, 4};
    static float expected[WORDS * K], scratch[4 * WORDS * K + 32], x[WORDS * K], means[WORDS * K];
    static double average[WORDS * K], sd[WORDS * K], base[WORDS * K], responsibility[8];
    static double totals[WORDS], mass[WORDS], loadings[K * 3], room[(K + 15) * (2 * K + 19)], topic_sums[2 * K];
    static float likelihood[WORDS * 16];
    for (int i = 0; i < WORDS * K; ++i) {
        average[i] = 20 * fraction() - 5, sd[i] = 0.5 + fraction(), base[i] = 0.25 + 2 * fraction();
        expected[i] = (float)base[i], x[i] = (float)average[i];
    }
    const vf_shrink_params q = {WORDS, K, 4, 2};
    memset(responsibility, 0, sizeof responsibility);
    int32_t status = api->shrink_means(&q, x, expected, grid, prior, edge, scratch, means, responsibility);
    show("shrink_means, means", status, sizeof means, means);
    show("shrink_means, responsibility", status, sizeof responsibility, responsibility);
    memset(responsibility, 0, sizeof responsibility);
    const vf_mass_params m = {WORDS, 4, 0, 1.5};
    status = api->word_masses(&m, average, ends, ends, ends, likelihood, responsibility, mass);
    show("word_masses, sums", status, sizeof responsibility, responsibility);
    show("word_masses, means", status, sizeof mass, mass);
    for (int i = 0; i < K * 3; ++i) loadings[i] = 2 * fraction() - 1;
    show("topic_ratios", api->topic_ratios(WORDS, K, 3, x, expected, sd, mass, loadings, alpha, room, means),
         sizeof means, means);
    show("noise_units", api->noise_units(WORDS, K, average, sd, mass, alpha, x, means), sizeof x, x);
    show("noise_sums", api->noise_sums(WORDS, K, average, sd, mass, totals, topic_sums), sizeof topic_sums, topic_sums);
    const vf_blend_params blend = {WORDS, K, K, 0.3, 0.01, 2, 0.02};
    status = api->blend_release_f64(&blend, sums, mass, base, average, sd);
    show("blend_release", status, sizeof average, average);
    show("blend_release, noise", status, sizeof sd, sd);
    status = api->table_parameters_f64(WORDS, K, K, 100, 0.02, x, sd, base, topic_sums);
    show("table_parameters", status, sizeof base, base);
    show("table_parameters, sums", status, sizeof topic_sums, topic_sums);
    const vf_table_params rows = {WORDS, K, K, 1e-6};
    show("table_spread", api->table_spread_f32(&rows, alpha, expected, mass), sizeof mass, mass);
    show("table_shares", api->table_shares_f32(&rows, alpha, expected), sizeof expected, expected);
}

static void regression(const vf_api *api) {
    static double x[ROWS * J], y[ROWS], linear[ROWS], quadratic[ROWS], xi[ROWS], norms[ROWS], moment[J * J], m[J];
    enum { CLASSES = 3 };
    static double each[CLASSES * ROWS], moments[CLASSES * J * J], centers[CLASSES * J];
    static float narrow[ROWS * J], c[ROWS], means[ROWS];
    static int64_t starts[ROWS / 3 + 1];
    for (int i = 0; i < ROWS * J; ++i) narrow[i] = (float)(x[i] = 2 * fraction() - 1);
    for (int j = 0; j < J; ++j) m[j] = fraction() / 8;
    for (int i = 0; i < J; ++i)
        for (int j = 0; j < J; ++j) moment[i * J + j] = m[i] * m[j] + (i == j);
    for (int k = 0; k < CLASSES; ++k) {
        for (int i = 0; i < J * J; ++i) moments[k * J * J + i] = moment[i] * (k + 1);
        for (int j = 0; j < J; ++j) centers[k * J + j] = k % 2 ? -m[j] : m[j];
    }
    for (int r = 0; r < ROWS; ++r) c[r] = (float)(40 * fraction() * fraction() - 20), y[r] = r % 2;
    for (int u = 0; u <= ROWS / 3; ++u) starts[u] = 3 * u;
    show("pg_mean, f64", api->pg_mean_f64(ROWS * J, 1, x, (double *)area), sizeof x, area);
    show("pg_mean, f32", api->pg_mean_f32(ROWS, 1, c, means), sizeof means, means);
    for (int mode = 0; mode < 4; ++mode) { /* either type, with the records' own labels and with the worst */
        const vf_logistic_params p = {
            .row_norm = 2,
            .n_trials = 1,
            .scale_linear = 1,
            .scale_quadratic = 0.5,
            .clip_norm = 1,
            .spacing = 0x1p-22,
            .factor_spacing = 0x1p-18,
            .label_free = mode / 2,
            .second_moment = moment,
            .center = m,
        };
        const vf_rows_f64 wide_rows = {ROWS, J, NULL, NULL, x};
        const vf_rows_f32 narrow_rows = {ROWS, J, NULL, NULL, narrow};
        int32_t status =
            mode % 2
                ? api->logistic_weights_f64(&p, &wide_rows, y, NULL, work, sizeof work, linear, quadratic, xi, norms)
                : api->logistic_weights_f32(&p, &narrow_rows, y, NULL, work, sizeof work, linear, quadratic, xi, norms);
        show("logistic_weights, linear", status, sizeof linear, linear);
        show("logistic_weights, quadratic", status, sizeof quadratic, quadratic);
        show("logistic_weights, norms", status, sizeof norms, norms);
        status = mode % 2 ? api->logistic_units_f64(&p, &wide_rows, ROWS / 3, starts, work, sizeof work, linear,
                                                    quadratic, norms)
                          : api->logistic_units_f32(&p, &narrow_rows, ROWS / 3, starts, work, sizeof work, linear,
                                                    quadratic, norms);
        show("logistic_units, linear", status, sizeof linear, linear);
        show("logistic_units, quadratic", status, sizeof quadratic, quadratic);
        vf_logistic_params q = p;
        q.second_moment = moments, q.center = centers;
        status = mode % 2 ? api->logistic_classes_f64(&q, &wide_rows, CLASSES, y, ROWS / 3, mode < 2 ? starts : NULL,
                                                      work, sizeof work, each, quadratic, norms)
                          : api->logistic_classes_f32(&q, &narrow_rows, CLASSES, y, ROWS / 3, mode < 2 ? starts : NULL,
                                                      work, sizeof work, each, quadratic, norms);
        show("logistic_classes, linear", status, sizeof each, each);
        show("logistic_classes, quadratic", status, sizeof quadratic, quadratic);
        show("logistic_classes, norms", status, sizeof norms, norms);
    }
}

static void networks(const vf_api *api) {
    enum { STRIDE = VF_SBN_STRIDE(J) };
    static double w[K * STRIDE], w2[K * STRIDE], c[J], c_var[J], b[K], start[K], by_row[J * K], gram[K * K],
        z[ROWS * K];
    static double xi[ROWS * J], norms[ROWS], factor[ROWS];
    static float f_w[K * STRIDE], f_w2[K * STRIDE], f_c[J], f_c_var[J], f_b[K], f_start[K];
    static uint8_t y[ROWS * J];
    const vf_sbn_params p = {.n_records = ROWS, .n_visible = J, .n_hidden = K, .n_sweeps = 3};
    for (int i = 0; i < ROWS * J; ++i) y[i] = (uint8_t)between(0, 1);
    for (int j = 0; j < J; ++j) {
        f_c[j] = (float)(c[j] = fraction() - 0.5);
        f_c_var[j] = (float)(c_var[j] = fraction() / 64);
        for (int k = 0; k < K; ++k) {
            const double weight = w[k * STRIDE + j] = 2 * fraction() - 1;
            by_row[j * K + k] = weight;
            w2[k * STRIDE + j] = weight * weight + 0x1p-6;
            f_w[k * STRIDE + j] = (float)weight;
            f_w2[k * STRIDE + j] = (float)w2[k * STRIDE + j];
        }
    }
    for (int k = 0; k < K; ++k) f_b[k] = (float)(b[k] = fraction() - 0.5), f_start[k] = (float)(start[k] = 0.5);
    for (int k = 0; k < K; ++k)
        for (int l = 0; l < K; ++l) gram[k * K + l] = (double)((k + 1) * (l + 1) % 7) / 32;
    for (int r = 0; r < ROWS; ++r) factor[r] = 0.5 + fraction() / 2;
    int32_t status = api->sbn_pg_f64(&p, y, w, w2, c, c_var, b, start, work, sizeof work, z, xi);
    show("sbn_pg, f64, z", status, sizeof z, z);
    show("sbn_pg, f64, xi", status, sizeof xi, xi);
    status = api->sbn_pg_f32(&p, y, f_w, f_w2, f_c, f_c_var, f_b, f_start, work, sizeof work, z, xi);
    show("sbn_pg, f32, z", status, sizeof z, z);
    show("sbn_pg, f32, xi", status, sizeof xi, xi);
    status = api->sbn_quadratic(&p, y, by_row, gram, b, start, work, sizeof work, z);
    show("sbn_quadratic", status, sizeof z, z);
    status = api->sbn_clip(ROWS, K, 1.5, 0x1p-20, z, start, factor, (double *)area, norms);
    show("sbn_clip, units", status, sizeof z, area);
    show("sbn_clip, norms", status, sizeof norms, norms);
    show("sbn_visible_norms", api->sbn_visible_norms(ROWS, J, y, c, norms), sizeof norms, norms);
}

static void units(const vf_api *api) {
    static const vf_clip_params p = {J, VF_CLIP_ROWS, 40, 1.5, 2, 0x1p-20, 0};
    int64_t starts[41] = {0}, unit = 0, counts[2] = {0};
    double carry[J] = {0};
    for (int u = 1; u <= 40; ++u) starts[u] = u < 40 ? starts[u - 1] + between(0, 7) : 300;
    for (int i = 0; i < J * VF_CLIP_ROWS; ++i) work[i] = fraction() - 0.5;
    memset(sums, 0, sizeof sums);
    for (int64_t first = 0; first < 300; first += 100)
        show("clip_units", api->clip_units(&p, first, first + 100, starts, work, &unit, carry, counts, sums), J * 8,
             sums);
}

static void mixtures(const vf_api *api) {
    enum { COMPONENTS = 3, COLUMNS = 11, SIZE = COMPONENTS * (1 + COLUMNS) + 1 };
    static const vf_clip_params p = {SIZE, 64, 40, 0.9, 1.1, 0x1p-20, 0};
    static double records[300 * COLUMNS], constant[COMPONENTS], linear[COMPONENTS * COLUMNS], carry[SIZE];
    int64_t starts[41] = {0}, counts[2] = {0};
    for (int u = 1; u <= 40; ++u) starts[u] = u < 40 ? starts[u - 1] + between(0, 7) : 300;
    for (int i = 0; i < 300 * COLUMNS; ++i) records[i] = fraction() - 0.5;
    for (int i = 0; i < COMPONENTS * COLUMNS; ++i)
        linear[i] = 8 * fraction() - 4, constant[i % COMPONENTS] = fraction();
    show("mixture_rows", api->mixture_rows(296, COLUMNS, COMPONENTS, 296, records, constant, linear, 0.3, work),
         SIZE * 296 * 8, work);
    memset(sums, 0, sizeof sums);
    const int32_t status = api->mixture_units(&p, 300, COLUMNS, COMPONENTS, starts, records, constant, linear, 0.3,
                                              work, carry, counts, sums);
    show("mixture_units", status, SIZE * 8, sums);
}

int main(void) {
    static const char *const sets[] = {"portable", "baseline", "avx2", "avx512"};
    uint8_t key[32];
    for (int i = 0; i < 32; ++i) key[i] = (uint8_t)(7 * i + 1);
    for (int i = 0; i < 4; ++i) {
        const vf_api *api = vf_api_for(sets[i]);
        if (!api) continue;
        printf("# %s\n", api->isa);
        state = 1;
        noise(api, key);
        integers(api);
        text(api);
        printf("esteps\n");
        handed_on(api, key);
        topics(api);
        regression(api);
        networks(api);
        units(api);
        mixtures(api);
    }
    return failed;
}
