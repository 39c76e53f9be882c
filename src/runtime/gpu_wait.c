/* SPDX-License-Identifier: MIT
 *
 * When memory may be given back. */
#include <time.h>

#include "runtime/gpu_internal.h"

int ccl_gpu_outlast(int (*wait)(void *object), int (*query)(void *object), void *object)
{
    const struct timespec pause = {0, 20000};
    int error = wait(object);
    while (CCL_UNLIKELY(error != 0) && query(object) == CCL_GPU_E_NOT_READY) {
        nanosleep(&pause, NULL);
    }
    return error;
}
