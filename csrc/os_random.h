/* Random bytes from the operating system. */
#ifndef VF_OS_RANDOM_H
#define VF_OS_RANDOM_H

#include "vips_fast/vips_fast.h"

/* getentropy(), which blocks until the system's generator is seeded and cannot
 * return less than asked for. VF_ERR_ENTROPY if the system refuses. */
int32_t vf_os_random(int64_t n_bytes, uint8_t *out);

#endif
