/* SPDX-License-Identifier: MIT
 *
 * The name of a trace file from its pattern. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace/trace.h"
#include "util/log.h"

cclResult_t ccl_trace_path(const char *pattern, int rank, uint64_t world, char *path, size_t bytes)
{
    size_t used = 0;
    for (const char *p = pattern; *p != '\0'; p++) {
        char text[24] = {*p, '\0'};
        if (*p == '%') {
            switch (*++p) {
            case 'r': snprintf(text, sizeof(text), "%d", rank); break;
            case 'p': snprintf(text, sizeof(text), "%d", (int)getpid()); break;
            case 'w': snprintf(text, sizeof(text), "%016llx", (unsigned long long)world); break;
            case '%': break;
            default:
                return ccl_error_set(cclInvalidArgument, CCL_INIT,
                                     "trace file %s: %% is not followed by r (rank), p (process), w (world) or %%", pattern);
            }
        }
        size_t length = strlen(text);
        CCL_CHECK(used + length < bytes, cclInvalidArgument, CCL_INIT, "trace file %.40s...: the name has more than %zu bytes",
                  pattern, bytes - 1);
        memcpy(path + used, text, length);
        used += length;
    }
    CCL_CHECK(used > 0, cclInvalidArgument, CCL_INIT, "trace file: the name is empty");
    path[used] = '\0';
    return cclSuccess;
}
