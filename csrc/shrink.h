/* Empirical-Bayes means of noised topic statistics, one copy per instruction set. */
#ifndef VF_SHRINK_H
#define VF_SHRINK_H

#include "vf_isa.h"
#include "vips_fast/vips_fast.h"

/* Posterior means of a matrix seen through Gaussian noise of known size.
 *
 * average[v * K + k] = m + N(0, sd^2) with m = word_mass[v] topic_weight[k] r and
 * r drawn from a mixture: with probability prior[band[v] * n_grid + g] from
 * N(grid[g], h_g^2), where h_g is half the mean distance of grid[g] (ascending) from
 * its neighbours, so that the components overlap, and h_0 = 0: grid[0] is a point.
 * Outputs, each of which may be NULL:
 *   means[v * K + k]                   E[m | average], at least 0
 *   responsibility[band * n_grid + g]  ADDED to: posterior weight of component g, summed
 *                                      over the band's entries (the EM update of the
 *                                      prior, up to normalisation)
 * Sizes: 1 <= n_grid <= VF_SHRINK_GRID; band values in [0, n_bands). The workspace
 * holds 2 K + 32 floats. Limits: sd in [1e-20, 1e20], |grid| <= 10^6, prior in [0, 1e10]
 * with an entry of at least 1e-10 in each row that is used (VF_ERR_PARAMETER);
 * |average| and |word_mass topic_weight| of at most 1e12 sd (VF_ERR_RANGE). */
int32_t VF_FN(vf_shrink_means)(int64_t n_words, int64_t n_topics, int64_t n_grid, int64_t n_bands, double sd,
                               const double *average, const double *word_mass, const double *topic_weight,
                               const float *grid, const float *prior, const int32_t *band, float *workspace,
                               float *means, double *responsibility);

#endif
