/* Digests of what must have the same bits on every machine, compiler, optimisation
 * level and instruction set: the noise and the integer sums. One line for each
 * kernel; they are compared with those of other builds. */
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

enum { N = 3000, D = 67, J = 37, K = 19, PAIRS = K * (K + 1) / 2, TRIANGLE = J * (J + 1) / 2, ROWS = 150 };
static int64_t area[1 << 20], sums[J * PAIRS], triangle[TRIANGLE];
static double work[1 << 18];

static void noise(const vf_api *api, const uint8_t *key) {
    static const double scales[] = {0.3, 50, 0x1.8p22, 0x1p33, 0x1p45};
    show("chacha20_words", api->chacha20_words(N, 77, key, (uint64_t *)area), N * 8, area);
    show("chacha20_fill", api->chacha20_fill(N, key, key, 5, (uint8_t *)area), N, area);
    for (int i = 0; i < 5; ++i) {
        show("rounded_gaussian", api->rounded_gaussian(N, 1000, scales[i], key, area), N * 8, area);
        show("add_rounded_gaussian", api->add_rounded_gaussian(N, 0, scales[i], key, area), N * 8, area);
    }
    for (int i = 0; i < 40; ++i) {
        const uint64_t u = random_bits(), v = random_bits();
        failed |= api->gaussian_exact(u, v, i, 0x1p50, 3 + i % 5, key, area + i) != VF_OK;
    }
    show("gaussian_exact", VF_OK, 40 * 8, area);
}

static void integers(const vf_api *api) {
    static double v[ROWS * J], z[ROWS * K], x[ROWS * J], linear[ROWS], quadratic[ROWS];
    static uint8_t y[ROWS * J];
    static int32_t indices[ROWS * J], counts[ROWS * J], places[1 << 14];
    static uint32_t scratch[VF_LDA_RESAMPLE_TOKENS];
    static int64_t indptr[ROWS + 1], out_indptr[ROWS + 1], rows[ROWS];
    static uint64_t seeds[ROWS];
    for (int i = 0; i < ROWS * K; ++i) {
        v[i] = (double)between(-(1 << 20), 1 << 20);
        z[i] = (double)between(0, 1 << 30) / (1 << 30);
    }
    for (int i = 0; i < ROWS * J; ++i) {
        x[i] = (double)between(0, 1 << 21);
        y[i] = (uint8_t)between(0, 1);
        counts[i] = (int32_t)between(0, 9);
    }
    memset(sums, 0, sizeof sums);
    show("sbn_cross", api->sbn_cross(ROWS, J, K, y, v, sums), J * K * 8, sums);
    memset(sums, 0, sizeof sums);
    show("sbn_gram", api->sbn_gram(ROWS, K, v, work, sizeof work, sums), K * (K - 1) / 2 * 8, sums);
    memset(sums, 0, sizeof sums);
    show("sbn_moments", api->sbn_moments(ROWS, J, K, 0, PAIRS, 0x1p22, x, z, work, sizeof work, sums), sizeof sums,
         sums);

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
            api->blr_accumulate_f64(&rows, 0, J, linear, quadratic, work, sizeof work, sums, triangle);
        show("blr_accumulate, linear", status, J * 8, sums);
        show("blr_accumulate, quadratic", status, sizeof triangle, triangle);
    }
    for (int mode = VF_LDA_AS_IS; mode <= VF_LDA_SCALE; ++mode) {
        const vf_gather_params p = {ROWS, ROWS, 1 << 14, 100, VF_LDA_RESAMPLE_TOKENS, mode};
        const int32_t status =
            api->lda_gather(&p, rows, indptr, indices, counts, seeds, scratch, out_indptr, places, (double *)area);
        show("lda_gather, rows", status, sizeof out_indptr, out_indptr);
        show("lda_gather, words", status, (size_t)out_indptr[ROWS] * 4, places);
        show("lda_gather, counts", status, (size_t)out_indptr[ROWS] * 8, area);
    }
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
    }
    return failed;
}
