/* SPDX-License-Identifier: MIT
 *
 * Chooses the backend of the process by CCL_BACKEND, checks that its table is complete and initialises it, once. */
#include "runtime/runtime.h"

#include <pthread.h>
#include <string.h>

#include "runtime/runtime_select.h"
#include "util/config.h"
#include "util/log.h"

static pthread_mutex_t runtime_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct ccl_runtime_ops *runtime_ops; /* written once under the lock, with release */

/* Every member behind the name is a pointer to a function, so the table can be looked at as an array of them. */
#define FIRST_MEMBER offsetof(struct ccl_runtime_ops, init)
#define NUM_MEMBERS ((sizeof(struct ccl_runtime_ops) - FIRST_MEMBER) / sizeof(void (*)(void)))

cclResult_t ccl_runtime_check(const struct ccl_runtime_ops *ops)
{
    CCL_CHECK(ops->name != NULL, cclInternalError, CCL_RT, "a backend has no name");
    for (size_t i = 0; i < NUM_MEMBERS; i++) {
        void (*member)(void);
        memcpy(&member, (const char *)ops + FIRST_MEMBER + i * sizeof(member), sizeof(member));
        CCL_CHECK(member != NULL, cclInternalError, CCL_RT, "backend %s lacks member %zu of %zu of the runtime table",
                  ops->name, i, NUM_MEMBERS);
    }
    return cclSuccess;
}

cclResult_t ccl_runtime_select(const char *backend, const struct ccl_runtime_ops **ops)
{
    bool is_auto = strcmp(backend, "auto") == 0, is_gpu = strcmp(backend, "gpu") == 0;
    if (strncmp(backend, "emu:", 4) == 0) {
        CCL_TRY(ccl_gpu_emulate(backend, ops));
        CCL_LOG(CCL_LOG_INFO, CCL_RT, "backend %s, named by CCL_BACKEND", backend);
        return cclSuccess;
    }
    CCL_CHECK(is_auto || is_gpu || strcmp(backend, "host") == 0, cclInvalidArgument, CCL_RT, "CCL_BACKEND is %s, not host, gpu, emu:ARCH or auto",
              backend);
    const char *why = is_auto || is_gpu ? ccl_gpu_unusable(is_gpu) : NULL;
    CCL_CHECK(!is_gpu || why == NULL, cclInvalidUsage, CCL_RT, "CCL_BACKEND is gpu, but %s", why);
    const struct ccl_runtime_ops *chosen = is_gpu || (is_auto && why == NULL) ? &ccl_runtime_gpu : &ccl_runtime_host;
    CCL_TRY(ccl_runtime_check(chosen));
    if (!is_auto) {
        CCL_LOG(CCL_LOG_INFO, CCL_RT, "backend %s, named by CCL_BACKEND", backend);
    } else if (why == NULL) {
        CCL_LOG(CCL_LOG_INFO, CCL_RT, "backend gpu, chosen by CCL_BACKEND auto because a device answers");
    } else {
        CCL_LOG(CCL_LOG_INFO, CCL_RT, "backend host, chosen by CCL_BACKEND auto because there is no usable GPU: %s", why);
    }
    *ops = chosen;
    return cclSuccess;
}

cclResult_t ccl_runtime_get(const struct ccl_runtime_ops **ops)
{
    /* Pairs with the release below: whoever sees the table sees it initialised. */
    const struct ccl_runtime_ops *found = __atomic_load_n(&runtime_ops, __ATOMIC_ACQUIRE);
    if (CCL_UNLIKELY(found == NULL)) {
        /* The environment is constant, so a failed choice fails alike each time, with its text for each thread that
         * asks. */
        pthread_mutex_lock(&runtime_lock);
        cclResult_t rc = cclSuccess;
        found = runtime_ops;
        if (found == NULL) {
            CCL_TRY_GOTO(ccl_runtime_select(ccl_env_get()->backend, &found), err_unlock);
            CCL_TRY_GOTO(found->init(), err_unlock);
            __atomic_store_n(&runtime_ops, found, __ATOMIC_RELEASE);
        }
    err_unlock:
        pthread_mutex_unlock(&runtime_lock);
        if (rc != cclSuccess) {
            return rc;
        }
    }
    *ops = found;
    return cclSuccess;
}
