/* Random bytes from the operating system. */
#define _DEFAULT_SOURCE /* getentropy, which plain C11 hides */
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

#include "vips_fast/vips_fast.h"

int32_t vf_os_random(int64_t n_bytes, uint8_t *out);

int32_t vf_os_random(int64_t n_bytes, uint8_t *out) {
    if (n_bytes < 0) return VF_ERR_SIZE;
    if (n_bytes > 0 && !out) return VF_ERR_NULL;
    for (int64_t done = 0; done < n_bytes;) { /* 256 bytes a call is the interface's limit */
        const int64_t take = n_bytes - done < 256 ? n_bytes - done : 256;
        if (getentropy(out + done, (size_t)take) != 0) return VF_ERR_ENTROPY;
        done += take;
    }
    return VF_OK;
}
