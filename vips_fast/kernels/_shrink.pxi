# Bindings of csrc/shrink.h.

SHRINK_GRID = VF_SHRINK_GRID


def shrink_means(const double[:, ::1] average, double sd, const double[::1] word_mass, const double[::1] topic_weight,
                 const float[::1] grid, const float[:, ::1] prior, const int32_t[::1] band, float[::1] workspace,
                 float[:, ::1] means, double[:, ::1] responsibility, isa=None):
    """Posterior means and EM weights of a chunk of words; either output may be None."""
    cdef const vf_api *api = _table(isa)
    cdef float *pm = NULL
    cdef double *pr = NULL
    cdef int32_t status
    if average.shape[0] == 0:
        return
    _room(workspace.shape[0], 2 * average.shape[1] + 32)
    _same(word_mass.shape[0], average.shape[0])
    _same(topic_weight.shape[0], average.shape[1])
    _same(band.shape[0], average.shape[0])
    _same(prior.shape[1], grid.shape[0])
    if means is not None:
        _same(means.shape[0], average.shape[0])
        _same(means.shape[1], average.shape[1])
        pm = &means[0, 0]
    if responsibility is not None:
        _same(responsibility.shape[0], prior.shape[0])
        _same(responsibility.shape[1], prior.shape[1])
        pr = &responsibility[0, 0]
    with nogil:
        status = api.shrink_means(average.shape[0], average.shape[1], grid.shape[0], prior.shape[0], sd,
                                  &average[0, 0], &word_mass[0], &topic_weight[0], &grid[0], &prior[0, 0], &band[0],
                                  &workspace[0], pm, pr)
    _check(status)
