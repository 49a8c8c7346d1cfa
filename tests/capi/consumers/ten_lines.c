#include <stdio.h>
#include <vips_fast/vips_fast.h>

int main(void) {
    const vf_api *api = vf_dispatch();
    double c[3] = {0.0, 1.0, -20.0}, mean[3];
    const int32_t status = api ? api->pg_mean_f64(3, 1.0, c, mean) : VF_ERR_NULL;
    if (status != VF_OK) return fprintf(stderr, "%s\n", vf_status_message(status)), 1;
    printf("%.17g %.17g %.17g\n", mean[0], mean[1], mean[2]);
}
