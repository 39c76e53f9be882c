/* SPDX-License-Identifier: MIT */
#include "runtime/host_chain.h"

#include <stdlib.h>

#include "runtime/host_event.h"
#include "util/log.h"

/* cclCommAbort asks from a thread of its own: last is published by used. */
struct ccl_chain {
    struct cclStream *last; /* alive, or forgotten */
    bool used;
    struct cclEvent *event;
};

cclResult_t ccl_host_chain_create(struct ccl_chain **out)
{
    struct ccl_chain *chain = calloc(1, sizeof(*chain));
    CCL_CHECK(chain != NULL, cclSystemError, CCL_RT, "out of memory for a chain, %zu bytes", sizeof(*chain));
    cclResult_t rc = ccl_host_event_create(&chain->event);
    if (rc != cclSuccess) {
        free(chain);
        return rc;
    }
    *out = chain;
    return cclSuccess;
}

void ccl_host_chain_destroy(struct ccl_chain *chain)
{
    if (chain != NULL) {
        ccl_host_event_destroy(chain->event);
        free(chain);
    }
}

cclResult_t ccl_host_chain_before(struct ccl_chain *chain, struct cclStream *stream)
{
    if (CCL_LIKELY(!chain->used || chain->last == stream)) {
        return cclSuccess;
    }
    CCL_TRY(ccl_host_event_record(chain->event, chain->last));
    return ccl_host_event_wait(stream, chain->event);
}

cclResult_t ccl_host_chain_after(struct ccl_chain *chain, struct cclStream *stream)
{
    __atomic_store_n(&chain->last, stream, __ATOMIC_RELAXED);
    __atomic_store_n(&chain->used, true, __ATOMIC_RELEASE);
    return cclSuccess;
}

bool ccl_host_chain_last(const struct ccl_chain *chain, struct cclStream **stream)
{
    bool used = __atomic_load_n(&chain->used, __ATOMIC_ACQUIRE);
    *stream = __atomic_load_n(&chain->last, __ATOMIC_RELAXED);
    return used;
}

void ccl_host_chain_forget(struct ccl_chain *chain, struct cclStream *stream)
{
    if (chain->last == stream) {
        __atomic_store_n(&chain->used, false, __ATOMIC_RELAXED); /* its destruction drains it */
    }
}
