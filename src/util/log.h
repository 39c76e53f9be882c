/* SPDX-License-Identifier: MIT
 *
 * Logging and the last error. The first function that detects a fault calls ccl_error_set() with the numbers; its callers
 * only pass the code on. Lower case, no full stop, no newline, no name=value. */
#ifndef CCL_UTIL_LOG_H
#define CCL_UTIL_LOG_H

#include "util/base.h"

enum ccl_log_level { CCL_LOG_ERROR, CCL_LOG_WARN, CCL_LOG_INFO, CCL_LOG_DEBUG, CCL_LOG_TRACE };
enum ccl_subsys { CCL_INIT, CCL_BOOT, CCL_HEAP, CCL_COLL, CCL_RT, CCL_KERN, CCL_NUM_SUBSYS };

/* Highest level that is printed, from CCL_DEBUG (default error only, so a clean run is silent). */
extern int ccl_log_level;
/* True when a message would be printed (CCL_DEBUG_SUBSYS). */
bool ccl_log_enabled(enum ccl_log_level level, enum ccl_subsys subsys);
void ccl_log_write(enum ccl_log_level level, enum ccl_subsys subsys, const char *fmt, ...) CCL_PRINTF(3, 4);
/* Rank shown in the prefix of the calling thread's messages; -1: none. */
void ccl_log_set_rank(int rank);

#define CCL_LOG(level, subsys, ...)                                                        \
    do {                                                                                   \
        if (CCL_UNLIKELY((int)(level) <= __atomic_load_n(&ccl_log_level, __ATOMIC_RELAXED)) && ccl_log_enabled(level, subsys)) { \
            ccl_log_write(level, subsys, __VA_ARGS__);                                     \
        }                                                                                  \
    } while (0)

/* Log at warn level, store the text as the thread's and the process's last error; the value is code. A macro, so that the compiler sees that a
 * constant code is no success. */
#define ccl_error_set(code, subsys, ...) (ccl_error_write(subsys, __VA_ARGS__), (code))
void ccl_error_write(enum ccl_subsys subsys, const char *fmt, ...) CCL_PRINTF(2, 3);
/* The last error text of any thread of the process, else "". Valid until the thread asks again. Never NULL. */
const char *ccl_error_last_of_process(void);
/* NCCL_DEBUG asks for the version, at least, and CCL_DEBUG does not forbid it. */
bool ccl_log_prints_version(void);
/* The calling thread's last error text, else the process's, else "". Never NULL. */
const char *ccl_error_last(void);

#endif
