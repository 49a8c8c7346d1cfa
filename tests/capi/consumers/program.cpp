// A C++ program that links the static library and runs the LDA E-step in its own threads.
//     program INPUT OUTPUT
// INPUT: int64 D, K, V, nnz, n_threads, max_iter; double tol, clip_norm, spacing; then indptr, counts, beta (K x V),
// alpha, indices. OUTPUT: gamma, sums.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include <vips_fast/vips_fast.h>

template <class T>
static bool get(std::FILE *file, std::vector<T> &out) {
    return std::fread(out.data(), sizeof(T), out.size(), file) == out.size();
}

int main(int argc, char **argv) {
    const vf_api *api = vf_dispatch();
    if (argc != 3 || vf_check_api(api) != VF_OK) return 2;
    std::FILE *in = std::fopen(argv[1], "rb"), *out = std::fopen(argv[2], "wb");
    if (!in || !out) return 2;
    std::vector<int64_t> n(6);
    std::vector<double> x(3);
    if (!get(in, n) || !get(in, x)) return 2;
    const int64_t docs = n[0], topics = n[1], words = n[2], n_threads = n[4];
    std::vector<int64_t> indptr(docs + 1);
    std::vector<double> counts(n[3]), beta(topics * words), alpha(topics), gamma(docs * topics);
    std::vector<int32_t> indices(n[3]);
    if (!get(in, indptr) || !get(in, counts) || !get(in, beta) || !get(in, alpha) || !get(in, indices)) return 2;

    vf_lda_params params{x[0], static_cast<int32_t>(n[5]), x[1], x[2], topics};
    std::vector<float> table(words * VF_LDA_STRIDE(topics));
    int32_t status = api->lda_table_f32(topics, words, beta.data(), words, 1, table.data());
    int64_t longest = 0;
    for (int64_t d = 0; d < docs; ++d) longest = std::max(longest, indptr[d + 1] - indptr[d]);
    const int64_t bytes = api->lda_workspace_f32(topics, longest);
    std::vector<std::vector<int64_t>> sums(n_threads, std::vector<int64_t>(words * topics));
    std::vector<int32_t> codes(n_threads);
    std::vector<std::thread> threads;
    for (int64_t t = 0; t < n_threads && status == VF_OK; ++t)
        threads.emplace_back([&, t] {
            const int64_t first = docs * t / n_threads, last = docs * (t + 1) / n_threads;
            std::vector<double> workspace(bytes / 8 + 1);
            const vf_rows_f64 rows{last - first, words, indptr.data() + first, indices.data(), counts.data()};
            codes[t] = api->lda_estep_f32(&params, &rows, table.data(), alpha.data(), workspace.data(), bytes,
                                          gamma.data() + first * topics, sums[t].data(), nullptr, nullptr);
        });
    for (auto &thread : threads) thread.join();
    for (int32_t code : codes) status = std::max(status, code);
    for (int64_t t = 1; t < n_threads; ++t)
        for (size_t i = 0; i < sums[0].size(); ++i) sums[0][i] += sums[t][i];
    std::fwrite(gamma.data(), sizeof(double), gamma.size(), out);
    std::fwrite(sums[0].data(), sizeof(int64_t), sums[0].size(), out);
    std::fclose(in);
    std::fclose(out);
    if (status != VF_OK) std::fprintf(stderr, "%s\n", vf_status_message(status));
    return status;
}
