/* A Python extension in C that runs the LDA E-step in threads of its own. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdlib.h>
#include <vips_fast/vips_fast.h>

static const vf_api *api;

typedef struct {
    int64_t first, last, n_topics, n_words, longest;
    const vf_lda_params *params;
    const int64_t *indptr;
    const int32_t *indices;
    const double *counts, *alpha;
    const float *table;
    double *gamma;
    int64_t *sums;
    int32_t status;
} job;

static void *work(void *p) {
    job *j = (job *)p;
    const int64_t bytes = api->lda_workspace_f32(j->n_topics, j->longest);
    const vf_rows_f64 docs = {j->last - j->first, j->n_words, j->indptr + j->first, j->indices, j->counts};
    void *workspace = malloc((size_t)bytes);
    j->status = !workspace ? VF_ERR_WORKSPACE
                           : api->lda_estep_f32(j->params, &docs, j->table, j->alpha, workspace, bytes,
                                                j->gamma + j->first * j->n_topics, j->sums, NULL, NULL);
    free(workspace);
    return NULL;
}

/* estep(indptr, indices, counts, beta, alpha, tol, max_iter, clip_norm, spacing, n_threads, gamma, sums) -> status;
 * contiguous buffers, the last two written. */
static PyObject *estep(PyObject *self, PyObject *args) {
    Py_buffer indptr, indices, counts, beta, alpha, gamma, sums;
    vf_lda_params params;
    int n_threads;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*didd" "iw*w*", &indptr, &indices, &counts, &beta, &alpha, &params.tol,
                          &params.max_iter, &params.clip_norm, &params.spacing, &n_threads, &gamma, &sums))
        return NULL;
    const int64_t n_docs = (int64_t)(indptr.len / 8) - 1, n_topics = alpha.len / 8, n_words = beta.len / alpha.len;
    params.n_topics = n_topics;
    const int64_t *starts = (const int64_t *)indptr.buf;
    int64_t longest = 0;
    for (int64_t d = 0; d < n_docs; ++d)
        if (starts[d + 1] - starts[d] > longest) longest = starts[d + 1] - starts[d];
    float *table = (float *)malloc((size_t)(n_words * VF_LDA_STRIDE(n_topics)) * sizeof(float));
    int64_t *extra = (int64_t *)calloc((size_t)(n_threads * n_words * n_topics), sizeof(int64_t));
    pthread_t *threads = (pthread_t *)calloc((size_t)n_threads, sizeof *threads);
    job *jobs = (job *)calloc((size_t)n_threads, sizeof *jobs);
    int32_t status;
    Py_BEGIN_ALLOW_THREADS
    status = api->lda_table_f32(n_topics, n_words, (const double *)beta.buf, n_words, 1, table);
    for (int t = 0; t < n_threads && status == VF_OK; ++t) {
        job j = {n_docs * t / n_threads, n_docs * (t + 1) / n_threads, n_topics, n_words, longest, &params, starts,
                 (const int32_t *)indices.buf, (const double *)counts.buf, (const double *)alpha.buf, table,
                 (double *)gamma.buf, extra + t * n_words * n_topics, VF_OK};
        jobs[t] = j;
        pthread_create(&threads[t], NULL, work, &jobs[t]);
    }
    for (int t = 0; t < n_threads && threads[t]; ++t) {
        pthread_join(threads[t], NULL);
        if (jobs[t].status != VF_OK) status = jobs[t].status;
        for (int64_t i = 0; i < n_words * n_topics; ++i) ((int64_t *)sums.buf)[i] += jobs[t].sums[i];
    }
    Py_END_ALLOW_THREADS
    free(table); free(extra); free(threads); free(jobs);
    PyBuffer_Release(&indptr); PyBuffer_Release(&indices); PyBuffer_Release(&counts); PyBuffer_Release(&beta);
    PyBuffer_Release(&alpha); PyBuffer_Release(&gamma); PyBuffer_Release(&sums);
    return PyLong_FromLong(status);
}

static PyMethodDef methods[] = {{"estep", estep, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "extension", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_extension(void) {
    api = vips_fast_import();
    return api ? PyModule_Create(&module) : NULL;
}
