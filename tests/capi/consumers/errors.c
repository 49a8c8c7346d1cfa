/* Every status code, provoked. Prints one line a code; exit status 1 where a
 * call returns another code than expected or writes to an output. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <vips_fast/vips_fast.h>

/* In the place of the system's, so that it can refuse. */
static int refuse;
int getentropy(void *out, size_t n) {
    memset(out, 7, n);
    return refuse ? -1 : 0;
}

static int failures;
static void expect(const vf_api *api, const char *what, int32_t expected, int32_t got) {
    printf("%d %s: %s\n", (int)got, what, api->status_message(got));
    if (got != expected || strcmp(api->status_message(got), vf_status_message(got)) != 0) {
        printf("    expected %d\n", (int)expected);
        ++failures;
    }
}

enum { DOCS = 2, TOPICS = 3, WORDS = 4 };

static void estep(const vf_api *api) {
    const int64_t indptr[] = {0, 2, 4}, falling[] = {1, 0, 2};
    const int32_t indices[] = {0, 2, 1, 3}, outside[] = {0, 4, 1, 3}, twice[] = {2, 2, 1, 3}, negative[] = {-1, 2, 1, 3};
    const double counts[] = {1, 2, 3, 4}, alpha[] = {.1, .1, .1}, bad_alpha[] = {.1, 0, .1}, nan_alpha[] = {NAN, 1, 1};
    double beta[TOPICS * WORDS], gamma[DOCS * TOPICS], norms[DOCS], workspace[4096];
    float table[WORDS * VF_LDA_STRIDE(TOPICS)];
    int64_t sums[WORDS * TOPICS] = {0};
    int32_t n_iter[DOCS];
    vf_lda_params good = {1e-3, 50, 1.0, 0x1p-20, TOPICS}, p = good;
    for (int i = 0; i < TOPICS * WORDS; ++i) beta[i] = 1.0 + i % 5;
    for (int i = 0; i < DOCS * TOPICS; ++i) gamma[i] = -1.0;
#define TABLE(topics, words, b, t) api->lda_table_f32(topics, words, b, WORDS, 1, t)
    expect(api, "lda_table", VF_OK, TABLE(TOPICS, WORDS, beta, table));
    expect(api, "lda_table, no input", VF_ERR_NULL, TABLE(TOPICS, WORDS, NULL, table));
    expect(api, "lda_table, no topics", VF_ERR_SIZE, TABLE(0, WORDS, beta, table));
    expect(api, "lda_table, misaligned", VF_ERR_ALIGNMENT, TABLE(TOPICS, 1, beta, (float *)((char *)table + 1)));
    beta[5] = -1.0;
    expect(api, "lda_table, negative entry", VF_ERR_PARAMETER, TABLE(TOPICS, WORDS, beta, table));
    beta[5] = 1.0;
    expect(api, "lda_table", VF_OK, TABLE(TOPICS, WORDS, beta, table));
    if (api->lda_workspace_f32(INT64_MAX, INT64_MAX) >= 0) {
        printf("    lda_workspace does not say that it overflows\n");
        ++failures;
    }
#define ESTEP(docs, topics, words, params, starts, index, values, tab, a, work, bytes, g, s)                      \
    (good.n_topics = p.n_topics = (topics),                                                                       \
     api->lda_estep_f32(params, &(vf_rows_f64){docs, words, starts, index, values}, tab, a, work, bytes, g, s,    \
                        n_iter, norms))
#define USUAL(what, code, docs, topics, words, params, starts, index, values, tab, a, work, bytes)                  \
    expect(api, "lda_estep, " what, code,                                                                           \
           ESTEP(docs, topics, words, params, starts, index, values, tab, a, work, bytes, gamma, sums))
    const int64_t bytes = sizeof workspace;
    USUAL("negative size", VF_ERR_SIZE, -1, TOPICS, WORDS, &good, indptr, indices, counts, table, alpha, workspace, bytes);
    USUAL("no words", VF_ERR_SIZE, DOCS, TOPICS, 0, &good, indptr, indices, counts, table, alpha, workspace, bytes);
    USUAL("topics overflow", VF_ERR_SIZE, DOCS, INT64_MAX, WORDS, &good, indptr, indices, counts, table, alpha, workspace, bytes);
    USUAL("no parameters", VF_ERR_NULL, DOCS, TOPICS, WORDS, NULL, indptr, indices, counts, table, alpha, workspace, bytes);
    expect(api, "lda_estep, no documents", VF_ERR_NULL,
           api->lda_estep_f32(&good, NULL, table, alpha, workspace, bytes, gamma, sums, n_iter, norms));
    USUAL("no row pointers", VF_ERR_NULL, DOCS, TOPICS, WORDS, &good, NULL, indices, counts, table, alpha, workspace, bytes);
    USUAL("no indices", VF_ERR_NULL, DOCS, TOPICS, WORDS, &good, indptr, NULL, counts, table, alpha, workspace, bytes);
    USUAL("no counts", VF_ERR_NULL, DOCS, TOPICS, WORDS, &good, indptr, indices, NULL, table, alpha, workspace, bytes);
    USUAL("no table", VF_ERR_NULL, DOCS, TOPICS, WORDS, &good, indptr, indices, counts, NULL, alpha, workspace, bytes);
    USUAL("no prior", VF_ERR_NULL, DOCS, TOPICS, WORDS, &good, indptr, indices, counts, table, NULL, workspace, bytes);
    USUAL("no workspace", VF_ERR_NULL, DOCS, TOPICS, WORDS, &good, indptr, indices, counts, table, alpha, NULL, bytes);
    USUAL("index outside", VF_ERR_INDEX, DOCS, TOPICS, WORDS, &good, indptr, outside, counts, table, alpha, workspace, bytes);
    USUAL("index twice", VF_ERR_INDEX, DOCS, TOPICS, WORDS, &good, indptr, twice, counts, table, alpha, workspace, bytes);
    USUAL("negative index", VF_ERR_INDEX, DOCS, TOPICS, WORDS, &good, indptr, negative, counts, table, alpha, workspace, bytes);
    USUAL("falling rows", VF_ERR_INDPTR, DOCS, TOPICS, WORDS, &good, falling, indices, counts, table, alpha, workspace, bytes);
    USUAL("prior 0", VF_ERR_PARAMETER, DOCS, TOPICS, WORDS, &good, indptr, indices, counts, table, bad_alpha, workspace, bytes);
    USUAL("prior NaN", VF_ERR_PARAMETER, DOCS, TOPICS, WORDS, &good, indptr, indices, counts, table, nan_alpha, workspace, bytes);
    USUAL("workspace of 8 bytes", VF_ERR_WORKSPACE, DOCS, TOPICS, WORDS, &good, indptr, indices, counts, table, alpha, workspace, 8);
    USUAL("misaligned workspace", VF_ERR_ALIGNMENT, DOCS, TOPICS, WORDS, &good, indptr, indices, counts, table, alpha,
          (char *)workspace + 1, bytes - 8);
    USUAL("misaligned counts", VF_ERR_ALIGNMENT, DOCS, TOPICS, WORDS, &good, indptr, indices,
          (const double *)((const char *)counts + 4), table, alpha, workspace, bytes);
    USUAL("misaligned rows", VF_ERR_ALIGNMENT, DOCS, TOPICS, WORDS, &good, (const int64_t *)((const char *)indptr + 1),
          indices, counts, table, alpha, workspace, bytes);
    USUAL("misaligned parameters", VF_ERR_ALIGNMENT, DOCS, TOPICS, WORDS,
          (const vf_lda_params *)((const char *)&good + 2), indptr, indices, counts, table, alpha, workspace, bytes);
    expect(api, "lda_estep, misaligned sums", VF_ERR_ALIGNMENT,
           ESTEP(DOCS, TOPICS, WORDS, &good, indptr, indices, counts, table, alpha, workspace, bytes, gamma,
                 (int64_t *)((char *)sums + 4)));
    p = good, p.tol = NAN;
    USUAL("tol NaN", VF_ERR_PARAMETER, DOCS, TOPICS, WORDS, &p, indptr, indices, counts, table, alpha, workspace, bytes);
    p = good, p.word_tol = -1;
    USUAL("word_tol -1", VF_ERR_PARAMETER, DOCS, TOPICS, WORDS, &p, indptr, indices, counts, table, alpha, workspace, bytes);
    p = good, p.max_iter = -1;
    USUAL("max_iter -1", VF_ERR_PARAMETER, DOCS, TOPICS, WORDS, &p, indptr, indices, counts, table, alpha, workspace, bytes);
    p = good, p.spacing = 0;
    USUAL("spacing 0", VF_ERR_PARAMETER, DOCS, TOPICS, WORDS, &p, indptr, indices, counts, table, alpha, workspace, bytes);
    p = good, p.spacing = 0x1p-40;
    USUAL("spacing too fine", VF_ERR_PARAMETER, DOCS, TOPICS, WORDS, &p, indptr, indices, counts, table, alpha, workspace, bytes);
    for (int i = 0; i < DOCS * TOPICS; ++i) failures += gamma[i] != -1.0;
    for (int i = 0; i < WORDS * TOPICS; ++i) failures += sums[i] != 0;
    if (failures) printf("    a failed call wrote to an output\n");
    USUAL("as it should be", VF_OK, DOCS, TOPICS, WORDS, &good, indptr, indices, counts, table, alpha, workspace, bytes);
}

static void noise(const vf_api *api) {
    uint8_t key[32] = {1}, nonce[12] = {2}, bytes[64];
    int64_t x[4] = {1, INT64_MAX - 5, 3, 4};
    double real[2] = {1, 2}, out[2];
    expect(api, "os_random", VF_OK, api->os_random(32, key));
    refuse = 1;
    expect(api, "os_random, refused", VF_ERR_ENTROPY, api->os_random(32, key));
    refuse = 0;
    expect(api, "os_random, negative size", VF_ERR_SIZE, api->os_random(-1, key));
    expect(api, "chacha20_fill, counter wraps", VF_ERR_SIZE, api->chacha20_fill(65, key, nonce, UINT32_MAX, bytes));
    expect(api, "chacha20_fill, no key", VF_ERR_NULL, api->chacha20_fill(64, NULL, nonce, 0, bytes));
    expect(api, "rounded_gaussian, range overflows", VF_ERR_SIZE, api->rounded_gaussian(4, INT64_MAX, 1.0, key, x));
    expect(api, "rounded_gaussian, misaligned", VF_ERR_ALIGNMENT,
           api->rounded_gaussian(3, 0, 1.0, key, (int64_t *)((char *)x + 4)));
    expect(api, "add_rounded_gaussian, sum too large", VF_ERR_RANGE, api->add_rounded_gaussian(4, 0, 8.0, key, x));
    failures += x[0] != 1 || x[1] != INT64_MAX - 5 || x[2] != 3 || x[3] != 4;
    const double scales[] = {0.0, -1.0, NAN, INFINITY, 0x1p51};
    for (int i = 0; i < 5; ++i) {
        expect(api, "rounded_gaussian, scale", VF_ERR_PARAMETER, api->rounded_gaussian(4, 0, scales[i], key, x));
        expect(api, "gaussian_exact, scale", VF_ERR_PARAMETER, api->gaussian_exact(1, 1, 0, scales[i], 3, key, x));
    }
    expect(api, "rounded_gaussian, first below 0", VF_ERR_SIZE, api->rounded_gaussian(3, -1, 1.0, key, x));
    expect(api, "gaussian_exact, few limbs", VF_ERR_SIZE, api->gaussian_exact(1, 1, 0, 1.0, 2, key, x));
    expect(api, "gaussian_exact, many limbs", VF_ERR_SIZE, api->gaussian_exact(1, 1, 0, 1.0, 26, key, x));
    expect(api, "symmetric_gaussian, sides", VF_ERR_SIZE, api->symmetric_gaussian(2, 0, 3, 1.0, 1.0, key, 2, x));
    expect(api, "symmetric_check, not symmetric", VF_ERR_PARAMETER, api->symmetric_check(2, 0, 2, INT64_MAX, 2, x));
    expect(api, "pg_mean, b 0", VF_ERR_PARAMETER, api->pg_mean_f64(2, 0.0, real, out));
    expect(api, "pg_mean, no output", VF_ERR_NULL, api->pg_mean_f64(2, 1.0, real, NULL));
    expect(api, "pg_mean, misaligned", VF_ERR_ALIGNMENT, api->pg_mean_f64(1, 1.0, (const double *)((const char *)real + 1), out));
}

static void regression(const vf_api *api) {
    const int64_t indptr[] = {0, 2, 3};
    const int32_t indices[] = {0, 1, 1};
    const double values[] = {1, 2, 3}, y[] = {0, 1}, moment[] = {1, 0, 0, 1};
    double workspace[4096], linear[2], quadratic[2], norms[2], xi[2];
    vf_logistic_params p = {1.0, 1.0, 1.0, 1.0, 1.0, 0x1p-20, 0x1p-10, 0, moment, NULL};
#define WEIGHTS(v, w, bytes)                                                                                   \
    api->logistic_weights_f64(&p, &(vf_rows_f64){2, 2, indptr, indices, v}, y, NULL, w, bytes, linear, quadratic, xi, norms)
    expect(api, "logistic_weights", VF_OK, WEIGHTS(values, workspace, sizeof workspace));
    expect(api, "logistic_weights, no rows", VF_ERR_NULL,
           api->logistic_weights_f64(&p, NULL, y, NULL, workspace, sizeof workspace, linear, quadratic, xi, norms));
    expect(api, "logistic_weights, small workspace", VF_ERR_WORKSPACE, WEIGHTS(values, workspace, 8));
    expect(api, "logistic_weights, misaligned values", VF_ERR_ALIGNMENT,
           WEIGHTS((const double *)((const char *)values + 4), workspace, sizeof workspace));
    const int32_t outside[] = {0, 2, 1}, twice[] = {1, 1, 1}, negative[] = {0, -1, 1};
    const int64_t falling[] = {0, 2, 1};
#define ROWS(starts, index)                                                                                         \
    api->logistic_weights_f64(&p, &(vf_rows_f64){2, 2, starts, index, values}, y, NULL, workspace, sizeof workspace, \
                              linear, quadratic, xi, norms)
    expect(api, "logistic_weights, column outside", VF_ERR_INDEX, ROWS(indptr, outside));
    expect(api, "logistic_weights, column twice", VF_ERR_INDEX, ROWS(indptr, twice));
    expect(api, "logistic_weights, column below 0", VF_ERR_INDEX, ROWS(indptr, negative));
    expect(api, "logistic_weights, rows fall", VF_ERR_INDPTR, ROWS(falling, indices));
    int64_t sums[2] = {0}, triangle[3] = {0};
#define ADD(last, bytes)                                                                                              \
    api->logistic_accumulate_f64(&(vf_rows_f64){2, 2, indptr, indices, values}, 0, last, linear, quadratic, workspace, \
                                 bytes, sums, triangle)
    expect(api, "logistic_accumulate", VF_OK, ADD(2, sizeof workspace));
    expect(api, "logistic_accumulate, a row too many", VF_ERR_SIZE, ADD(3, sizeof workspace));
    expect(api, "logistic_accumulate, small workspace", VF_ERR_WORKSPACE, ADD(2, 8));
    p.clip_norm = 0.0;
    expect(api, "logistic_weights, clip_norm 0", VF_ERR_PARAMETER, WEIGHTS(values, workspace, sizeof workspace));

    const int64_t units[] = {0, 2}, wrong[] = {0, 1};
    double each[3 * 2];
    p.clip_norm = 1.0;
    p.second_moment = NULL;
#define CLASSES(k, starts, w, bytes)                                                                              \
    api->logistic_classes_f64(&p, &(vf_rows_f64){2, 2, indptr, indices, values}, k, y, 1, starts, w, bytes, each, \
                              quadratic, norms)
    expect(api, "logistic_classes", VF_OK, CLASSES(3, units, workspace, sizeof workspace));
    expect(api, "logistic_classes, no units", VF_OK, CLASSES(3, NULL, workspace, sizeof workspace));
    expect(api, "logistic_classes, no classes", VF_ERR_SIZE, CLASSES(0, units, workspace, sizeof workspace));
    expect(api, "logistic_classes, many classes", VF_ERR_SIZE,
           CLASSES(VF_LOGISTIC_MAX_CLASSES + 1, units, workspace, sizeof workspace));
    expect(api, "logistic_classes, a row of no unit", VF_ERR_INDPTR, CLASSES(3, wrong, workspace, sizeof workspace));
    expect(api, "logistic_classes, no workspace", VF_ERR_NULL, CLASSES(3, units, NULL, sizeof workspace));
    expect(api, "logistic_classes, small workspace", VF_ERR_WORKSPACE, CLASSES(3, units, workspace, 8));
    expect(api, "logistic_classes, misaligned workspace", VF_ERR_ALIGNMENT,
           CLASSES(3, units, (char *)workspace + 4, sizeof workspace - 8));
}

static void belief_network(const vf_api *api) {
    enum { J = 2, K = 3 };
    const uint8_t y[J] = {0, 1};
    const double one[VF_SBN_STRIDE(J) * K] = {1}, start[K] = {.5, .5, .5};
    double area[1 << 12], z[K];
    int64_t sums[K * (K - 1) / 2] = {0};
    const vf_sbn_params good = {1, J, K, 1}, backwards = {1, J, K, -1};
#define PG(p, bytes) api->sbn_pg_f64(&(p), y, one, one, one, one, one, start, area, bytes, z, NULL)
    expect(api, "sbn_pg", VF_OK, PG(good, sizeof area));
    expect(api, "sbn_pg, small workspace", VF_ERR_WORKSPACE, PG(good, 8));
    expect(api, "sbn_pg, sweeps", VF_ERR_PARAMETER, PG(backwards, sizeof area));
    expect(api, "sbn_quadratic, small workspace", VF_ERR_WORKSPACE,
           api->sbn_quadratic(&good, y, one, one, one, start, area, 8, z));
    expect(api, "sbn_gram, small workspace", VF_ERR_WORKSPACE, api->sbn_gram(1, K, one, area, 8, sums));
    failures += api->sbn_pg_workspace_f64((int64_t)1 << 40, K) != -1;
}

int main(void) {
    static const char *const sets[] = {"portable", "baseline", "avx2", "avx512"};
    for (int i = 0; i < 4; ++i) {
        const vf_api *api = vf_api_for(sets[i]);
        if (!api) continue;
        printf("# %s\n", api->isa);
        estep(api);
        noise(api);
        regression(api);
        belief_network(api);
    }
    if (vf_api_for("abacus") || vf_api_for(NULL)) ++failures;
    const vf_api *api = vf_api_for("portable");
    vf_api other = *api;
    expect(api, "vf_check_api", VF_OK, vf_check_api(&other));
    expect(api, "vf_check_api, nothing", VF_ERR_NULL, vf_check_api(NULL));
    other.struct_size -= 8;
    expect(api, "vf_check_api, too short", VF_ERR_ABI, vf_check_api(&other));
    other.struct_size += 64;
    expect(api, "vf_check_api, longer", VF_OK, vf_check_api(&other));
    ++other.abi_version;
    expect(api, "vf_check_api, another version", VF_ERR_ABI, vf_check_api(&other));
    return failures != 0;
}
