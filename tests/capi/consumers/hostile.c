/* Inputs that no honest caller gives. Each call must come back with a status: it
 * may not loop for ever (the alarm ends the program) and may not read before the
 * start of an array (the arrays begin where an unreadable page ends). Exit status 1
 * where a call returns another code than expected. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vips_fast/vips_fast.h>

static int failures;
static void expect(const vf_api *api, const char *what, int32_t expected, int32_t got) {
    if (got == expected) return;
    printf("%s, %s: status %d, expected %d\n", api->isa, what, (int)got, (int)expected);
    ++failures;
}
static void require(const vf_api *api, const char *what, int holds) {
    if (holds) return;
    printf("%s: %s\n", api->isa, what);
    ++failures;
}

/* A copy of an array that begins right after an unreadable page. Never freed. */
static void *guarded(const void *data, size_t n) {
    const size_t page = 1 << 16;
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || n > page || mprotect(p, page, PROT_NONE) != 0) _exit(2);
    return memcpy(p + page, data, n);
}
#define GUARDED(array) guarded(array, sizeof array)

enum { TOPICS = 3, WORDS = 4, BYTES = 1 << 16 };
static double room[BYTES / 8];

static double norm_of(int64_t n, const int64_t *sums, double spacing) {
    double square = 0;
    for (int64_t i = 0; i < n; ++i) square += (double)sums[i] * (double)sums[i];
    return sqrt(square) * spacing;
}

static void lda(const vf_api *api) {
    static const int64_t plain[] = {0, 2}, before[] = {-4096, 2}, far[] = {INT64_MIN, INT64_MAX};
    static const int32_t word[] = {0, 3}, item[] = {2, 5};
    static const double count[] = {2, 5}, alpha[] = {.1, .1, .1}, tiny_alpha[] = {.1, 5e-324, .1};
    const int32_t *words = GUARDED(word), *items = GUARDED(item);
    const double *counts = GUARDED(count);
    enum { STRIDE = VF_LDA_STRIDE(TOPICS) };
    double table[WORDS * STRIDE], gamma[TOPICS], norms[1], values[8];
    float table32[WORDS * STRIDE];
    int64_t sums[WORDS * TOPICS], starts[2], rows[1] = {0};
    int32_t n_iter[1], places[8];
    uint64_t seeds[1] = {1};
    static uint32_t scratch[VF_LDA_RESAMPLE_TOKENS];
    for (int i = 0; i < WORDS * STRIDE; ++i)
        table32[i] = (float)(table[i] = i % STRIDE < TOPICS ? 1.0 / (1 + i % STRIDE) : 0);
#define ESTEP(bits, tab, p, starts, index, values, a)                                                                \
    (memset(sums, 0, sizeof sums), api->lda_estep_##bits(&(p), &(vf_rows_f64){1, WORDS, starts, index, values}, tab, \
                                                         a, room, BYTES, gamma, sums, n_iter, norms))
    const vf_lda_params good = {1e-3, 50, 1.0, 0x1p-20, TOPICS};
    expect(api, "lda_estep, good", VF_OK, ESTEP(f64, table, good, plain, words, counts, alpha));
    expect(api, "lda_estep, first row pointer below 0", VF_ERR_INDPTR,
           ESTEP(f64, table, good, before, words, counts, alpha));
    expect(api, "lda_estep, row pointers at the ends", VF_ERR_INDPTR,
           ESTEP(f64, table, good, far, words, counts, alpha));
    expect(api, "lda_estep, prior underflows", VF_ERR_PARAMETER,
           ESTEP(f64, table, good, plain, words, counts, tiny_alpha));
    const double spacings[] = {5e-324, 0x1p-1030, 0x1p-1000, 0x1p-61, 0x1p61, 0x1p1000, 0.3, INFINITY, NAN};
    for (size_t i = 0; i < sizeof spacings / sizeof *spacings; ++i)
        for (int clip = -1; clip < 31; clip += 8) {
            const double C = clip < 0 ? 0.0 : spacings[i] * ldexp(1.0, clip);
            const vf_lda_params p = {1e-3, 50, C, spacings[i], TOPICS};
            expect(api, "lda_estep_f64, spacing", VF_ERR_PARAMETER, ESTEP(f64, table, p, plain, words, counts, alpha));
            expect(api, "lda_estep_f32, spacing", VF_ERR_PARAMETER,
                   ESTEP(f32, table32, p, plain, words, counts, alpha));
        }
    /* From the least spacing to the largest, counts of every size: the contribution stays within the clip norm. */
    for (int e = -60; e <= 60; e += 4)
        for (int units = 0; units < 31; units += 6)
            for (int size = -40; size <= 20; size += 3) {
                const double C = ldexp(1.0, e + units), values[] = {pow(10, size), pow(10, size) / 3};
                const vf_lda_params p = {1e-3, 20, C, ldexp(1.0, e), TOPICS};
                expect(api, "lda_estep_f64, extremes", VF_OK, ESTEP(f64, table, p, plain, words, values, alpha));
                require(api, "lda_estep_f64 adds more than the clip norm",
                        norm_of(WORDS * TOPICS, sums, p.spacing) <= C);
                expect(api, "lda_estep_f32, extremes", VF_OK, ESTEP(f32, table32, p, plain, words, values, alpha));
                require(api, "lda_estep_f32 adds more than the clip norm",
                        norm_of(WORDS * TOPICS, sums, p.spacing) <= C);
            }
    const vf_lda_params unclipped = {1e-3, 50, 0.0, 0x1p-60, TOPICS};
    expect(api, "lda_estep, sums leave int64", VF_ERR_RANGE, ESTEP(f64, table, unclipped, plain, words, counts, alpha));
#define COLLAPSED(bits, tab, n)                                                                                   \
    (memset(sums, 0, sizeof sums),                                                                                \
     api->lda_collapsed_##bits(TOPICS, 2, 0x1p-20, &(vf_rows_f64){1, WORDS, plain, words, counts}, tab, alpha, n, \
                               (void *)room, sums, norms))
    expect(api, "lda_collapsed_f64, good", VF_OK, COLLAPSED(f64, table, 5 * STRIDE));
    expect(api, "lda_collapsed_f32, work is short", VF_ERR_WORKSPACE, COLLAPSED(f32, table32, 5 * STRIDE - 1));
    const double not_finite[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof not_finite / sizeof *not_finite; ++i) {
        table32[0] = (float)(table[0] = not_finite[i]);
        expect(api, "lda_collapsed_f64, table is not finite", VF_OK, COLLAPSED(f64, table, 5 * STRIDE));
        require(api, "lda_collapsed_f64 adds numbers that are not finite",
                norm_of(WORDS * TOPICS, sums, 1.0) == 0.0 && norms[0] == 0.0);
        expect(api, "lda_collapsed_f32, table is not finite", VF_OK, COLLAPSED(f32, table32, 5 * STRIDE));
        require(api, "lda_collapsed_f32 adds numbers that are not finite",
                norm_of(WORDS * TOPICS, sums, 1.0) == 0.0 && norms[0] == 0.0);
    }
    table32[0] = (float)(table[0] = 1.0);
#define GATHER(starts_in) api->lda_gather(&p, rows, starts_in, words, items, seeds, scratch, starts, places, values)
    for (int mode = VF_LDA_AS_IS; mode <= VF_LDA_SCALE; ++mode) {
        const vf_gather_params p = {1, 1, 8, 10, VF_LDA_RESAMPLE_TOKENS, mode};
        expect(api, "lda_gather, good", VF_OK, GATHER(plain));
        expect(api, "lda_gather, first row pointer below 0", VF_ERR_INDPTR, GATHER(before));
        expect(api, "lda_gather, row pointers at the ends", VF_ERR_INDPTR, GATHER(far));
    }
    const int64_t scratch_items = WORDS + WORDS / 64 + 1;
    int64_t *scratch_of_words = (int64_t *)(void *)room, ends[2];
#define UNIT_WORDS(starts_in)                                                                                     \
    api->unit_words(1, rows, 1, one, 1, starts_in, words, items, WORDS, scratch_items, scratch_of_words, 8, ends, \
                    places, values)
    static const int64_t one[] = {0, 1}, beyond[] = {0, 2};
    expect(api, "unit_words, good", VF_OK, UNIT_WORDS(plain));
    expect(api, "unit_words, first row pointer below 0", VF_ERR_INDPTR, UNIT_WORDS(before));
    expect(api, "unit_words, row pointers at the ends", VF_ERR_INDPTR, UNIT_WORDS(far));
    expect(api, "unit_words, a unit of more documents than there are", VF_ERR_INDPTR,
           api->unit_words(1, rows, 1, beyond, 1, plain, words, items, WORDS, scratch_items, scratch_of_words, 8, ends,
                           places, values));
}

/* Units' words with counts of any size, whole or not: a status, or the histogram and the halves that they have. */
static void words_of_units(const vf_api *api) {
    static const int64_t ends[] = {0, 1, 2};
    static const int32_t columns[] = {1, 1}, beyond[] = {1, 2}, below[] = {-1, 1};
    static const uint64_t seeds[] = {UINT64_MAX, 1};
    const double sizes[] = {0,      5e-324, 1e-300, 1e-160, 1e-20, .25, .5,   .999,    1,    1.5,
                            63,     63.5,   64,     64.5,   65,    1e6, 1e15, 2e15,    1e18, 1e19,
                            0x1p62, 1e154,  1e200,  1e308,  -1e-9, -1,  NAN,  INFINITY};
    const int n = sizeof sizes / sizeof *sizes;
    const float shares[] = {.5f, .5f, 1, 0}, ratios[] = {1, 2, 3, 4};
    int64_t sums[2], known_ends[3], told_ends[3];
    int32_t known[2], told[2];
    double first[2], second[2], out[2];
#define HISTOGRAM(columns, values, scale, clip, least, factor) \
    (sums[0] = sums[1] = 0, api->word_histogram(2, ends, 2, columns, values, 2, scale, clip, least, factor, sums))
#define SPLIT(counts) \
    api->split_words(2, ends, 2, columns, counts, seeds, NULL, known_ends, known, first, told_ends, told, second)
    for (int i = 0; i < n; ++i) {
        const double count[] = {sizes[i], sizes[i]};
        const int whole = sizes[i] >= 0 && sizes[i] <= VF_LDA_MAX_WORDS && sizes[i] == floor(sizes[i]);
        expect(api, "split_words, a count", whole ? VF_OK : VF_ERR_PARAMETER, SPLIT(count));
        double all = 0;
        for (int64_t j = 0; whole && j < known_ends[2]; ++j) {
            require(api, "split_words: a first half", first[j] >= 1 && first[j] == floor(first[j]));
            all += first[j];
        }
        for (int64_t j = 0; whole && j < told_ends[2]; ++j) {
            require(api, "split_words: a second half", second[j] >= 1 && second[j] == floor(second[j]));
            all += second[j];
        }
        require(api, "split_words: the halves are not the whole", !whole || all == 2 * sizes[i]);
        for (int j = 0; j < n; ++j)
            for (int k = 0; k < n; ++k) {
                const double scale[] = {1, sizes[j]};
                for (int what = 0; what < 3; ++what) {
                    const double clip = what == 0 ? sizes[k] : 3, least = what == 1 ? sizes[k] : 2;
                    const int32_t status = HISTOGRAM(columns, count, scale, clip, least, what == 2 ? sizes[k] : 0x1p30);
                    require(api, "word_histogram: status",
                            status == VF_OK || status == VF_ERR_RANGE || status == VF_ERR_PARAMETER);
                    require(api, "word_histogram: a sum that is none",
                            status != VF_OK || (sums[0] == 0 && sums[1] >= 0 && sums[1] % 2 == 0));
                }
            }
    }
    const double one[] = {1, 1};
    expect(api, "word_histogram, the largest sum", VF_OK, HISTOGRAM(columns, one, one, 1., 1., 0x1.fffffp60));
    expect(api, "word_histogram, a sum too large", VF_ERR_RANGE, HISTOGRAM(columns, one, one, 1., 1., 0x1p61));
    expect(api, "word_histogram, beyond the words", VF_ERR_INDEX, HISTOGRAM(beyond, one, one, 1., 1., 1.));
    expect(api, "word_histogram, before the words", VF_ERR_INDEX, HISTOGRAM(below, one, one, 1., 1., 1.));
    expect(api, "word_ratios", VF_OK, api->word_ratios(2, ends, 2, columns, 2, 2, shares, ratios, out));
    require(api, "word_ratios: sums", out[0] == 3.5 && out[1] == 3);
    expect(api, "word_ratios, beyond the words", VF_ERR_INDEX,
           api->word_ratios(2, ends, 2, beyond, 2, 2, shares, ratios, out));
    expect(api, "word_ratios, ends", VF_ERR_INDPTR, api->word_ratios(2, ends, 1, columns, 2, 2, shares, ratios, out));
}

static void regression(const vf_api *api) {
    static const int64_t plain[] = {0, 2}, empty[] = {0, 0}, before[] = {-4096, 2}, far[] = {INT64_MIN, INT64_MAX};
    static const int32_t column[] = {0, 1};
    const int32_t *columns = GUARDED(column);
    const double ordinary[] = {1, 2};
    double linear[1], quadratic[1], xi[1], norms[1];
    int64_t sums[2], triangle[3];
    const vf_logistic_params good = {1.0, 1.0, 1.0, 1.0, 1.0, 0x1p-20, 0x1p-10, 0, NULL, NULL};
#define WEIGHTS(p, starts, index, values, y)                                                                   \
    api->logistic_weights_f64(&(p), &(vf_rows_f64){1, 2, starts, index, values}, y, NULL, room, BYTES, linear, \
                              quadratic, xi, norms)
#define ADD(starts, index, values)                                                                                   \
    (memset(sums, 0, sizeof sums), memset(triangle, 0, sizeof triangle),                                             \
     api->logistic_accumulate_f64(&(vf_rows_f64){1, 2, starts, index, values}, 0, 2, linear, quadratic, room, BYTES, \
                                  sums, triangle))
    const double one = 1;
    expect(api, "logistic_weights, good", VF_OK, WEIGHTS(good, plain, columns, ordinary, &one));
    expect(api, "logistic_weights, first row pointer below 0", VF_ERR_INDPTR,
           WEIGHTS(good, before, columns, ordinary, &one));
    expect(api, "logistic_weights, row pointers at the ends", VF_ERR_INDPTR,
           WEIGHTS(good, far, columns, ordinary, &one));
    expect(api, "logistic_accumulate, first row pointer below 0", VF_ERR_INDPTR, ADD(before, columns, ordinary));
    linear[0] = 0x1p31;
    expect(api, "logistic_accumulate, a linear factor too large", VF_ERR_RANGE, ADD(plain, columns, ordinary));
    linear[0] = 0, quadratic[0] = 0x1p21;
    expect(api, "logistic_accumulate, a quadratic factor too large", VF_ERR_RANGE, ADD(plain, columns, ordinary));
    quadratic[0] = NAN;
    expect(api, "logistic_accumulate, a quadratic factor that is no number", VF_ERR_RANGE,
           ADD(plain, columns, ordinary));

    const double sizes[] = {0,     5e-324, 1e-310, 1e-200, 1e-162, 1e-154, 1e-100,
                            1e-20, 1,      1e20,   1e100,  1e154,  1e200,  1e308};
    const int n = sizeof sizes / sizeof *sizes;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            for (int form = 0; form < 4; ++form) { /* dense, sparse, sparse and empty, sparse entries of one */
                const double x[] = {sizes[i], -sizes[i] / 3}, y = sizes[j];
                const int64_t *starts = form == 0 ? NULL : form == 2 ? empty : plain;
                const double *values = form == 3 ? NULL : x;
                expect(api, "logistic_weights, extremes", VF_OK, WEIGHTS(good, starts, columns, values, &y));
                expect(api, "logistic_accumulate, extremes", VF_OK, ADD(starts, columns, values));
                const double s1 = norm_of(2, sums, good.spacing), h2 = good.factor_spacing * good.factor_spacing;
                const double a = h2 * (double)triangle[0], b = h2 * (double)triangle[1], c = h2 * (double)triangle[2];
                require(api, "logistic adds more than the clip norm", s1 * s1 + a * a + 2 * b * b + c * c <= 1 + 1e-15);
                /* Two classes around centers of any size: the stack of both gradients and the one matrix. */
                const double centers[] = {y, -y, -y / 3, y}, label = j % 3;
                double factors[2], length = 0;
                vf_logistic_params p = good;
                p.center = centers;
                expect(api, "logistic_classes, extremes", VF_OK,
                       api->logistic_classes_f64(&p, &(vf_rows_f64){1, 2, starts, columns, values}, 2, &label, 0, NULL,
                                                 room, BYTES, factors, quadratic, norms));
                for (int k = 0; k < 2; ++k) {
                    linear[0] = factors[k];
                    expect(api, "logistic_accumulate, a class", VF_OK, ADD(starts, columns, values));
                    const double part = norm_of(2, sums, good.spacing);
                    length += part * part;
                }
                const double d = h2 * (double)triangle[0], e = h2 * (double)triangle[1], f = h2 * (double)triangle[2];
                require(api, "classes add more than the clip norm", length + d * d + 2 * e * e + f * f <= 1);
            }
    /* Sums that could leave int64 are refused by the number of rows, before one is read. */
    const vf_rows_f64 many = {(1 << 20) + 1, 1, NULL, NULL, ordinary};
    expect(api, "logistic_accumulate, too many rows", VF_ERR_SIZE,
           api->logistic_accumulate_f64(&many, 0, 1, linear, quadratic, room, BYTES, sums, triangle));

    for (int field = 0; field < 7; ++field) {
        const double bad[] = {0, 5e-324, 1e-300, 1e308, -1, NAN, 0.3};
        for (int i = 0; i < 6 + (field >= 5); ++i) {
            vf_logistic_params p = good;
            memcpy((char *)&p + field * sizeof(double), &bad[i], sizeof(double));
            if (field == 1 && (i == 1 || i == 2)) continue;     /* few trials are trials */
            if ((field == 2 || field == 3) && i == 3) continue; /* a large scale leaves a statistic out */
            expect(api, "logistic_weights, parameter", VF_ERR_PARAMETER, WEIGHTS(p, plain, columns, ordinary, &one));
        }
    }
}

static void belief_network(const vf_api *api) {
    enum { J = 2, K = 3 };
    const double x[J] = {5, 7}, z[K] = {.1, .5, 1}, nan_[K] = {NAN, 0, 0}, big[K] = {0x1p31, 0, 0},
                 half[K] = {.5, 0, 0};
    const uint8_t y[J] = {0, 1};
    int64_t sums[J * K] = {0};
    static double area[1 << 18];
    expect(api, "sbn_gram, too many records", VF_ERR_SIZE, api->sbn_gram((1 << 22) + 1, K, z, area, sizeof area, sums));
    expect(api, "sbn_cross, too many records", VF_ERR_SIZE, api->sbn_cross(((int64_t)1 << 31) + 1, J, K, y, z, sums));
    const double *wrong[] = {nan_, big, half};
    for (int i = 0; i < 3; ++i) {
        expect(api, "sbn_cross, v", VF_ERR_RANGE, api->sbn_cross(1, J, K, y, wrong[i], sums));
        expect(api, "sbn_gram, v", VF_ERR_RANGE, api->sbn_gram(1, K, wrong[i], area, sizeof area, sums));
    }
    const double sizes[] = {0,    5e-324, 1e-310, 1e-162, 1e-154, 1e-20,    1,
                            1e20, 1e100,  1e149,  1e154,  1e308,  INFINITY, NAN};
    const int n = sizeof sizes / sizeof *sizes;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            for (int e = -100; e <= 100; e += 20) {
                const double row[] = {sizes[i], -sizes[i] / 3}, factor = sizes[j], g = ldexp(1.0, e), C = g * 1000;
                double units[2];
                int64_t q[2];
                expect(api, "sbn_clip, extremes", VF_OK, api->sbn_clip(1, 2, C, g, row, NULL, &factor, units, NULL));
                q[0] = (int64_t)units[0], q[1] = (int64_t)units[1];
                require(api, "sbn_clip leaves more than the clip norm", norm_of(2, q, 1.0) <= 1000);
                expect(api, "sbn_clip, no clipping", VF_OK,
                       api->sbn_clip(1, 2, 0.0, g, row, NULL, &factor, units, NULL));
            }
    const double spacings[] = {5e-324, 0x1p-1030, 0x1p-101, 0x1p101, 0.3, INFINITY, NAN, -1};
    for (int i = 0; i < 8; ++i) {
        double units[2];
        expect(api, "sbn_clip, spacing", VF_ERR_PARAMETER,
               api->sbn_clip(1, 2, spacings[i] * 1000, spacings[i], x, NULL, NULL, units, NULL));
        expect(api, "sbn_clip, spacing", VF_ERR_PARAMETER,
               api->sbn_clip(1, 2, 0.0, spacings[i], x, NULL, NULL, units, NULL));
    }
}

static void shrink(const vf_api *api) {
    const float sizes[] = {0, 1e-45f, 1e-30f, 1, 1e12f, 1e13f, 1e30f, INFINITY, NAN};
    const int n = sizeof sizes / sizeof *sizes;
    const float grid[] = {0, .5f, 2}, prior[] = {.2f, .3f, .5f, .2f, .3f, .5f};
    const double edge = 1, twice[] = {1, 1}, nan = NAN;
    float work[4 + 32], means[1];
    double responsibility[6];
#define SHRINK(bands, edges, x, b, grid, prior) \
    api->shrink_means(&(vf_shrink_params){1, 1, 3, bands}, x, b, grid, prior, edges, work, means, responsibility)
    for (int i = 0; i < 2 * n; ++i)
        for (int j = 0; j < n; ++j) {
            const float x = i < n ? sizes[i] : -sizes[i - n];
            memset(responsibility, 0, sizeof responsibility);
            const int32_t status = SHRINK(2, &edge, &x, &sizes[j], grid, prior);
            require(api, "shrink_means: status", status == VF_OK || status == VF_ERR_RANGE);
            require(api, "shrink_means: a result that is no number",
                    status != VF_OK || (means[0] >= 0 && means[0] <= 1e20f && responsibility[1] <= 1));
        }
    const float unit = 1, far = 1e30f, no_number = NAN;
    expect(api, "shrink_means, x", VF_ERR_RANGE, SHRINK(1, NULL, &far, &unit, grid, prior));
    expect(api, "shrink_means, expected", VF_ERR_RANGE, SHRINK(1, NULL, &unit, &far, grid, prior));
    expect(api, "shrink_means, expected is no number", VF_ERR_RANGE, SHRINK(2, &edge, &unit, &no_number, grid, prior));
    expect(api, "shrink_means, x is missing", VF_ERR_NULL, SHRINK(1, NULL, NULL, &unit, grid, prior));
    expect(api, "shrink_means, no edges", VF_ERR_NULL, SHRINK(2, NULL, &unit, &unit, grid, prior));
    expect(api, "shrink_means, an edge twice", VF_ERR_PARAMETER, SHRINK(3, twice, &unit, &unit, grid, prior));
    expect(api, "shrink_means, edge is no number", VF_ERR_PARAMETER, SHRINK(2, &nan, &unit, &unit, grid, prior));
    expect(api, "shrink_means, bands", VF_ERR_SIZE, SHRINK(VF_SHRINK_BANDS + 1, &edge, &unit, &unit, grid, prior));
    const float falls[] = {0, 2, .5f}, endless[] = {0, 1, INFINITY}, no_prior[] = {0, 0, 0},
                nan_prior[] = {.2f, NAN, 1};
    expect(api, "shrink_means, grid falls", VF_ERR_PARAMETER, SHRINK(1, NULL, &unit, &unit, falls, prior));
    expect(api, "shrink_means, grid is infinite", VF_ERR_PARAMETER, SHRINK(1, NULL, &unit, &unit, endless, prior));
    expect(api, "shrink_means, prior of nothing", VF_ERR_PARAMETER, SHRINK(1, NULL, &unit, &unit, grid, no_prior));
    expect(api, "shrink_means, prior is no number", VF_ERR_PARAMETER, SHRINK(1, NULL, &unit, &unit, grid, nan_prior));
}

static void read_out(const vf_api *api) {
    const double sizes[] = {0, 5e-324, 1e-100, 1e-30, 1, 1e12, 1e30, 1e99, 1e200, INFINITY, NAN};
    const int n = sizeof sizes / sizeof *sizes;
    const double points[] = {0, 1}, loading[] = {1, -1e50, 1e50, 1e-50}, no_loading[] = {1, NAN, 1, 1};
    double sums[2], means[1], workspace[17 * 23];
    float likelihood[16], expected[2];
#define MASSES(n_grid, known, sd, total, grid, width, weight) \
    api->word_masses(&(vf_mass_params){1, n_grid, known, sd}, total, grid, width, weight, likelihood, sums, means)
#define RATIOS(n_factors, x, base, sd, mass, loadings, own) \
    api->topic_ratios(1, 2, n_factors, x, base, sd, mass, loadings, own, workspace, expected)
    for (int i = 0; i < 2 * n; ++i)
        for (int j = 0; j < n; ++j)
            for (int k = 0; k < n; ++k) {
                const double first = i < n ? sizes[i] : -sizes[i - n], width[] = {0, sizes[j]};
                memset(sums, 0, sizeof sums);
                int32_t status = MASSES(2, 0, sizes[k], &first, points, width, points);
                require(api, "word_masses: status",
                        status == VF_OK || status == VF_ERR_RANGE || status == VF_ERR_PARAMETER);
                require(api, "word_masses: a result that is no number",
                        status != VF_OK || (means[0] > 0 && sums[1] >= 0));
                const float x[] = {(float)first, 1}, base[] = {(float)sizes[j], 1};
                const double own[] = {sizes[k], 1}, sd[] = {sizes[(i + j) % n], 1};
                status = RATIOS(2, x, base, sd, points + 1, loading, own);
                require(api, "topic_ratios: status",
                        status == VF_OK || status == VF_ERR_RANGE || status == VF_ERR_PARAMETER);
                require(api, "topic_ratios: a result that is no number",
                        status != VF_OK || (expected[0] >= 0 && expected[1] >= 0));
            }
    const double one[] = {1, 1};
    const float unit[] = {1, 1}, zero[] = {0, 1}, endless[] = {INFINITY, 1};
    expect(api, "word_masses", VF_OK, MASSES(2, 0, 1.0, one, points, one, one));
    expect(api, "word_masses, no points", VF_ERR_SIZE, MASSES(0, 0, 1.0, one, points, one, one));
    expect(api, "word_masses, points", VF_ERR_SIZE, MASSES(VF_MASS_GRID + 1, 0, 1.0, one, points, one, one));
    expect(api, "word_masses, total", VF_ERR_RANGE, MASSES(2, 0, 1.0, &sizes[8], points, one, one));
    expect(api, "word_masses, width", VF_ERR_PARAMETER, MASSES(1, 0, 1.0, one, points, &sizes[10], one));
    expect(api, "word_masses, grid", VF_ERR_NULL, MASSES(1, 0, 1.0, one, NULL, one, one));
    for (int i = 0; i < 16; ++i) likelihood[i] = i % 2 ? NAN : 0;
    expect(api, "word_masses, likelihoods of nothing", VF_OK, MASSES(2, 1, 1.0, one, points, one, one));
    expect(api, "topic_ratios", VF_OK, RATIOS(2, unit, unit, one, one, loading, one));
    expect(api, "topic_ratios, no factor", VF_OK, RATIOS(0, unit, unit, one, one, NULL, one));
    expect(api, "topic_ratios, factors", VF_ERR_SIZE, RATIOS(VF_MOST_FACTORS + 1, unit, unit, one, one, loading, one));
    expect(api, "topic_ratios, loadings", VF_ERR_PARAMETER, RATIOS(2, unit, unit, one, one, no_loading, one));
    expect(api, "topic_ratios, own", VF_ERR_PARAMETER, RATIOS(2, unit, unit, one, one, loading, &sizes[9]));
    expect(api, "topic_ratios, base", VF_ERR_RANGE, RATIOS(2, unit, zero, one, one, loading, one));
    expect(api, "topic_ratios, sd", VF_ERR_RANGE, RATIOS(2, unit, unit, sizes, one, loading, one));
    expect(api, "topic_ratios, mass", VF_ERR_RANGE, RATIOS(2, unit, unit, one, &sizes[10], loading, one));
    expect(api, "topic_ratios, base is missing", VF_ERR_NULL, RATIOS(2, unit, NULL, one, one, loading, one));
}

static void noised(const vf_api *api) {
    const double sizes[] = {0, 5e-324, 1e-30, 1, 1e12, 1e30, 1e200, INFINITY, NAN}, one[] = {1, 1};
    const int n = sizeof sizes / sizeof *sizes;
    const int64_t units[] = {INT64_MAX, INT64_MIN};
    double values[2], noise[2], word_sd[1], totals[1], sums[4];
    float x[2], base[2], table[4];
    double wide[4];
#define BLEND(rate, scale, noise_sd, floor, units) \
    api->blend_release_f32(&(vf_blend_params){1, 2, 4, rate, scale, noise_sd, floor}, units, one, table, values, noise)
#define UNITS(average, sd, mass) api->noise_units(1, 2, average, sd, mass, one, x, base)
#define SHARES(padded, least, weight, table) \
    api->table_shares_f64(&(vf_table_params){1, 2, padded, least}, weight, table)
#define SPREAD(padded, least, weight) \
    api->table_spread_f64(&(vf_table_params){1, 2, padded, least}, weight, wide, values)
#define PARAMETERS(padded, factor, eta, sd) api->table_parameters_f32(1, 2, padded, factor, eta, x, sd, table, sums)
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            const double average[] = {-sizes[i], 1}, sd[] = {sizes[j], 1};
            for (int k = 0; k < 4; ++k) wide[k] = sizes[i], table[k] = (float)sizes[i];
            memset(sums, 0, sizeof sums);
            values[0] = values[1] = noise[0] = noise[1] = 1;
            int32_t status = BLEND(sizes[j], sizes[i], sizes[j], sizes[i], units);
            require(api, "blend_release: status", status == VF_OK || status == VF_ERR_PARAMETER);
            status = api->noise_sums(1, 2, average, sd, word_sd, totals, sums);
            require(api, "noise_sums: status", status == VF_OK || status == VF_ERR_PARAMETER);
            require(api, "noise_sums: noise that is no number", status != VF_OK || word_sd[0] > 0);
            status = UNITS(average, sd, sd);
            require(api, "noise_units: status",
                    status == VF_OK || status == VF_ERR_RANGE || status == VF_ERR_PARAMETER);
            require(api, "noise_units: a result that is no number",
                    status != VF_OK || (x[0] >= -1e12f && x[0] <= 0 && base[0] <= 1e12f));
            x[0] = (float)sizes[i], x[1] = 1;
            status = PARAMETERS(4, sizes[j], sizes[i], sd);
            require(api, "table_parameters: status", status == VF_OK || status == VF_ERR_PARAMETER);
            status = SHARES(4, 1e-30, sd, wide);
            require(api, "table_shares: status",
                    status == VF_OK || status == VF_ERR_RANGE || status == VF_ERR_PARAMETER);
            require(api, "table_shares: a share that is no share",
                    status != VF_OK || (wide[0] >= 0 && wide[0] <= 1.1 && wide[3] == 0));
            wide[0] = wide[1] = sizes[i] <= 1 ? sizes[i] : 1;
            status = SPREAD(4, sizes[j], sd);
            require(api, "table_spread: status", status == VF_OK || status == VF_ERR_PARAMETER);
            require(api, "table_spread: a result that is no number", status != VF_OK || values[0] > 0);
        }
    expect(api, "blend_release", VF_OK, BLEND(.5, 1., 1., 1., units));
    expect(api, "blend_release, rate", VF_ERR_PARAMETER, BLEND(1.5, 1., 1., 1., units));
    expect(api, "blend_release, floor", VF_ERR_PARAMETER, BLEND(.5, 1., 1., -1., units));
    expect(api, "blend_release, units are missing", VF_ERR_NULL, BLEND(.5, 1., 1., 1., NULL));
    expect(api, "blend_release, a short row", VF_ERR_SIZE,
           api->blend_release_f64(&(vf_blend_params){1, 2, 1, .5, 1., 1., 1.}, units, one, wide, values, noise));
    expect(api, "noise_sums", VF_OK, api->noise_sums(1, 2, one, one, word_sd, totals, sums));
    expect(api, "noise_sums, topics", VF_ERR_SIZE, api->noise_sums(1, 0, one, one, word_sd, totals, sums));
    expect(api, "noise_sums, noise is missing", VF_ERR_NULL, api->noise_sums(1, 2, one, NULL, word_sd, totals, sums));
    expect(api, "noise_units", VF_OK, UNITS(one, one, one));
    expect(api, "noise_units, sd", VF_ERR_PARAMETER, UNITS(one, sizes, one));
    expect(api, "noise_units, average", VF_ERR_RANGE, UNITS(&sizes[5], one, one));
    expect(api, "noise_units, mass is missing", VF_ERR_NULL, UNITS(one, one, NULL));
    expect(api, "table_parameters", VF_OK, PARAMETERS(4, 1., 1., one));
    expect(api, "table_parameters, a short row", VF_ERR_SIZE, PARAMETERS(1, 1., 1., one));
    expect(api, "table_parameters, factor", VF_ERR_PARAMETER, PARAMETERS(4, -1., 1., one));
    expect(api, "table_parameters, noise is missing", VF_ERR_NULL, PARAMETERS(4, 1., 1., NULL));
    expect(api, "table_shares, a short row", VF_ERR_SIZE, SHARES(1, 0., one, wide));
    expect(api, "table_shares, weight", VF_ERR_PARAMETER, SHARES(4, 0., &sizes[7], wide));
    expect(api, "table_shares, table is missing", VF_ERR_NULL, SHARES(4, 0., one, NULL));
    expect(api, "table_spread, floor", VF_ERR_PARAMETER, SPREAD(4, 0., one));
    expect(api, "table_spread, weight is missing", VF_ERR_NULL, SPREAD(4, .5, NULL));
}

static void tokens(const vf_api *api) {
    const uint8_t text[] = {'a', 0xff, 'b', 'a', 0xfe, 'a'};
    uint64_t slots[16];
    uint8_t known[32];
    int64_t ends[8], text_ends[2], n;
    int32_t numbers[8];
#define TOKENS(n_slots, n_ends, n_known, n_texts)                                                                    \
    api->token_numbers(text, sizeof text, 7, slots, n_slots, known, sizeof known, ends, n_ends, n_known, numbers, 8, \
                       text_ends, n_texts, &n)
    memset(slots, 0, sizeof slots);
    expect(api, "token_numbers", VF_OK, TOKENS(16, 8, 0, 1));
    require(api, "token_numbers: numbers", n == 3 && numbers[1] == 1 && numbers[2] == 0 && text_ends[0] == 2);
    expect(api, "token_numbers, slots", VF_ERR_SIZE, TOKENS(15, 8, 0, 1));
    expect(api, "token_numbers, few slots", VF_ERR_WORKSPACE, (memset(slots, 0, sizeof slots), TOKENS(2, 8, 0, 1)));
    expect(api, "token_numbers, few ends", VF_ERR_WORKSPACE, (memset(slots, 0, sizeof slots), TOKENS(16, 1, 0, 1)));
    expect(api, "token_numbers, again", VF_OK, (memset(slots, 0, sizeof slots), TOKENS(16, 8, 0, 1)));
    expect(api, "token_numbers, few texts", VF_ERR_WORKSPACE, TOKENS(16, 8, 2, 0));
    expect(api, "token_numbers, words that are forgotten", VF_ERR_INDEX, TOKENS(16, 8, 0, 1));
    ends[0] = 1 << 20;
    expect(api, "token_numbers, ends", VF_ERR_INDPTR, TOKENS(16, 8, 2, 1));
    ends[1] = INT64_MAX;
    expect(api, "token_numbers, the last end", VF_ERR_INDPTR, TOKENS(16, 8, 2, 1));
    for (int i = 0; i < 16; ++i) slots[i] = 1; /* all taken, by words with other hashes */
    expect(api, "token_numbers, full slots", VF_ERR_INDEX, (ends[0] = 2, TOKENS(16, 8, 1, 1)));
}

/* Statistics, bounds and starts of every kind: a status, or a vector of at most the bound. */
static void units(const vf_api *api) {
    const double sizes[] = {0,     -0.0,  5e-324, 1e-300, 1e-160, 1e-100,  .5,     1,   1.5,      1e9,
                            1e100, 1e120, 1e150,  1e154,  1e200,  1.7e308, -1e308, NAN, INFINITY, -INFINITY};
    const int n = sizeof sizes / sizeof *sizes;
    static const int64_t plain[] = {0, 1, 2}, falling[] = {0, 2, 1}, few[] = {0, 1, 1},
                         far[] = {0, INT64_MIN, INT64_MAX};
    double values[8], carry[2];
    int64_t unit, counts[2], sums[2];
#define CLIP_UNITS(params, first, last, starts)                                        \
    (unit = 0, carry[0] = carry[1] = 0, counts[0] = counts[1] = sums[0] = sums[1] = 0, \
     api->clip_units(params, first, last, starts, values, &unit, carry, counts, sums))
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            for (int k = 0; k < n; ++k) {
                values[0] = sizes[i], values[4] = sizes[j], values[1] = sizes[j], values[5] = sizes[i];
                const vf_clip_params p = {2, 4, 2, sizes[k], 1, sizes[k] < 1 ? 0x1p-380 : 0x1p-20, k % 2};
                const int32_t status = CLIP_UNITS(&p, 0, 1, plain);
                require(api, "clip_units: status", status == VF_OK || status == VF_ERR_PARAMETER);
                require(api, "clip_units: a unit that is too long",
                        status != VF_OK || hypot((double)sums[0], (double)sums[1]) * p.spacing <= p.clip);
            }
    const vf_clip_params good = {2, 4, 2, 1, 1, 0x1p-20, 0}, none = {2, 4, 0, 1, 1, 0x1p-20, 0},
                         narrow = {2, 1, 2, 1, 1, 0x1p-20, 0}, fine = {2, 4, 2, 1, 1, 0x1p-31, 0},
                         huge = {INT64_MAX, 4, 2, 1, 1, 0x1p-20, 0}, odd = {2, 4, 2, 1, 1, 0.3, 0};
    values[0] = values[4] = values[1] = values[5] = 1;
    expect(api, "clip_units", VF_OK, CLIP_UNITS(&good, 0, 2, plain));
    expect(api, "clip_units, no rows", VF_OK, CLIP_UNITS(&good, 0, 0, plain));
    expect(api, "clip_units, no units", VF_ERR_INDPTR, CLIP_UNITS(&none, 0, 2, plain));
    expect(api, "clip_units, starts that fall", VF_ERR_INDPTR, CLIP_UNITS(&good, 2, 3, falling));
    expect(api, "clip_units, starts that end early", VF_ERR_INDPTR, CLIP_UNITS(&good, 0, 2, few));
    expect(api, "clip_units, starts anywhere", VF_OK, CLIP_UNITS(&good, 0, 2, far));
    expect(api, "clip_units, a unit that is none", VF_ERR_INDPTR,
           (unit = INT64_MIN, api->clip_units(&good, 0, 2, plain, values, &unit, carry, counts, sums)));
    expect(api, "clip_units, narrow columns", VF_ERR_SIZE, CLIP_UNITS(&narrow, 0, 2, plain));
    expect(api, "clip_units, too many statistics", VF_ERR_SIZE, CLIP_UNITS(&huge, 0, 2, plain));
    expect(api, "clip_units, rows at the ends", VF_ERR_SIZE, CLIP_UNITS(&good, -1, 2, plain));
    expect(api, "clip_units, rows that fall", VF_ERR_SIZE, CLIP_UNITS(&good, 2, 1, plain));
    expect(api, "clip_units, a lattice too fine", VF_ERR_PARAMETER, CLIP_UNITS(&fine, 0, 2, plain));
    expect(api, "clip_units, a spacing that is none", VF_ERR_PARAMETER, CLIP_UNITS(&odd, 0, 2, plain));
    expect(api, "clip_units, no sums", VF_ERR_NULL,
           api->clip_units(&good, 0, 2, plain, values, &unit, carry, counts, NULL));
}

/* Records, densities and weights of every kind: a status, or a vector of at most the bound. */
static void mixtures(const vf_api *api) {
    enum { SIZE = 7 }; /* two components of two columns */
    const double sizes[] = {0, 5e-324, 1e-160, .5, -1, 1e9, 1e154, 1e200, 1.7e308, -1.7e308, NAN, INFINITY, -INFINITY};
    const int n = sizeof sizes / sizeof *sizes;
    static const int64_t plain[] = {0, 1, 2}, falling[] = {0, 2, 1}, few[] = {0, 1, 1};
    double records[6], constant[2], linear[4], values[SIZE * 8], carry[SIZE];
    int64_t counts[2], sums[SIZE];
#define MIXTURE(params, rows, d, k, starts)                          \
    (memset(counts, 0, sizeof counts), memset(sums, 0, sizeof sums), \
     api->mixture_units(params, rows, d, k, starts, records, constant, linear, .5, values, carry, counts, sums))
    const vf_clip_params good = {SIZE, 8, 2, 1, 1, 0x1p-20, 0};
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            for (int k = 0; k < n; ++k) {
                for (int c = 0; c < 2; ++c)
                    constant[c] = sizes[c ? j : k], linear[c] = sizes[k], linear[2 + c] = sizes[j];
                records[0] = sizes[i], records[1] = sizes[j], records[2] = sizes[j], records[3] = sizes[k];
                require(api, "mixture_units: status", MIXTURE(&good, 1, 2, 2, plain) == VF_OK);
                double square = 0;
                for (int c = 0; c < SIZE; ++c) square += (double)sums[c] * (double)sums[c];
                require(api, "mixture_units: a unit that is too long", sqrt(square) * 0x1p-20 <= 1);
                require(api, "mixture_units: a record that is not finite",
                        (isfinite(sizes[i]) && isfinite(sizes[j])) || (square == 0 && counts[1] == 1));
            }
    const double logs[] = {INFINITY, NAN, -1}; /* the sanitizer sees a power of two out of range */
    double powers[7 * 8];
    const double origin = 0, flat[3] = {0};
    require(api, "mixture_rows: densities that are not finite",
            api->mixture_rows(1, 1, 3, 8, &origin, logs, flat, .5, powers) == VF_OK);
    for (int k = 0; k < 3; ++k) require(api, "mixture_rows: a share of infinity", isnan(powers[8 * k]));
    for (int c = 0; c < 6; ++c) records[c] = linear[c % 4] = constant[c % 2] = 1;
    const vf_clip_params none = {SIZE, 8, 0, 1, 1, 0x1p-20, 0}, other = {SIZE - 1, 8, 2, 1, 1, 0x1p-20, 0},
                         narrow = {SIZE, 0, 2, 1, 1, 0x1p-20, 0}, odd = {SIZE, 12, 2, 1, 1, 0x1p-20, 0},
                         wide = {SIZE, 136, 2, 1, 1, 0x1p-20, 0}, fine = {SIZE, 8, 2, 1, 1, 0x1p-31, 0};
    expect(api, "mixture_units", VF_OK, MIXTURE(&good, 2, 2, 2, plain));
    expect(api, "mixture_units, no rows", VF_OK, MIXTURE(&good, 0, 2, 2, plain));
    expect(api, "mixture_units, no bounds", VF_ERR_NULL, MIXTURE(NULL, 2, 2, 2, plain));
    expect(api, "mixture_units, no starts", VF_ERR_NULL, MIXTURE(&good, 2, 2, 2, NULL));
    expect(api, "mixture_units, no units", VF_ERR_INDPTR, MIXTURE(&none, 2, 2, 2, plain));
    expect(api, "mixture_units, starts that fall", VF_ERR_INDPTR, MIXTURE(&good, 3, 2, 2, falling));
    expect(api, "mixture_units, starts that end early", VF_ERR_INDPTR, MIXTURE(&good, 2, 2, 2, few));
    expect(api, "mixture_units, starts between numbers", VF_ERR_ALIGNMENT,
           MIXTURE(&good, 2, 2, 2, (const int64_t *)((const char *)plain + 1)));
    expect(api, "mixture_units, other statistics", VF_ERR_SIZE, MIXTURE(&other, 2, 2, 2, plain));
    expect(api, "mixture_units, no columns", VF_ERR_SIZE, MIXTURE(&good, 2, 0, 6, plain));
    expect(api, "mixture_units, no components", VF_ERR_SIZE, MIXTURE(&good, 2, 2, 0, plain));
    expect(api, "mixture_units, sizes that overflow", VF_ERR_SIZE, MIXTURE(&good, 2, INT64_MAX, INT64_MAX, plain));
    expect(api, "mixture_units, rows below 0", VF_ERR_SIZE, MIXTURE(&good, -1, 2, 2, plain));
    expect(api, "mixture_units, rows that overflow", VF_ERR_SIZE, MIXTURE(&good, INT64_MAX, 2, 2, plain));
    expect(api, "mixture_units, no room", VF_ERR_SIZE, MIXTURE(&narrow, 2, 2, 2, plain));
    expect(api, "mixture_units, a part of a vector", VF_ERR_SIZE, MIXTURE(&odd, 2, 2, 2, plain));
    expect(api, "mixture_units, more than clip_units takes", VF_ERR_SIZE, MIXTURE(&wide, 2, 2, 2, plain));
    expect(api, "mixture_units, a lattice too fine", VF_ERR_PARAMETER, MIXTURE(&fine, 0, 2, 2, plain));
#define OF_ROWS(rows, d, k, padded) api->mixture_rows(rows, d, k, padded, records, constant, linear, .5, values)
    expect(api, "mixture_rows", VF_OK, OF_ROWS(2, 2, 2, 8));
    expect(api, "mixture_rows, none", VF_OK, OF_ROWS(0, 2, 2, 0));
    expect(api, "mixture_rows, below 0", VF_ERR_SIZE, OF_ROWS(-1, 2, 2, 8));
    expect(api, "mixture_rows, no room", VF_ERR_SIZE, OF_ROWS(9, 2, 2, 8));
    expect(api, "mixture_rows, a part of a vector", VF_ERR_SIZE, OF_ROWS(2, 2, 2, 9));
    expect(api, "mixture_rows, columns that overflow", VF_ERR_SIZE, OF_ROWS(2, 2, 2, INT64_MAX - 7));
    expect(api, "mixture_rows, too many statistics", VF_ERR_SIZE, OF_ROWS(2, INT64_C(1) << 31, 1, 8));
    expect(api, "mixture_rows, no values", VF_ERR_NULL,
           api->mixture_rows(2, 2, 2, 8, records, constant, linear, .5, NULL));
    expect(api, "mixture_rows, records between numbers", VF_ERR_ALIGNMENT,
           api->mixture_rows(1, 2, 2, 8, (const double *)((const char *)records + 1), constant, linear, .5, values));
}

static void noise(const vf_api *api) {
    const uint8_t key[32] = {1};
    int64_t x[4] = {1, 2, 2, 1};
    const int64_t stride = INT64_MAX / 2;
    expect(api, "symmetric_gaussian, stride", VF_ERR_SIZE, api->symmetric_gaussian(2, 0, 2, 1.0, 1.0, key, stride, x));
    expect(api, "symmetric_check, stride", VF_ERR_SIZE, api->symmetric_check(2, 0, 2, 9, stride, x));
    expect(api, "rounded_gaussian, end of the range", VF_ERR_SIZE,
           api->rounded_gaussian(4, INT64_MAX - 4, 1.0, key, x));
    expect(api, "chacha20_words, end of the range", VF_ERR_SIZE,
           api->chacha20_words(4, INT64_MAX - 3, key, (uint64_t *)x));
    int64_t found;
    expect(api, "gaussian_flagged, end of the range", VF_ERR_SIZE,
           api->gaussian_flagged(4, INT64_MAX - 4, 1.0, key, 4, x, &found));
}

int main(void) {
    static const char *const sets[] = {"portable", "baseline", "avx2", "avx512"};
    alarm(120);
    for (int i = 0; i < 4; ++i) {
        const vf_api *api = vf_api_for(sets[i]);
        if (!api) continue;
        lda(api);
        words_of_units(api);
        regression(api);
        belief_network(api);
        shrink(api);
        read_out(api);
        noised(api);
        noise(api);
        tokens(api);
        units(api);
        mixtures(api);
    }
    return failures != 0;
}
