/* SPDX-License-Identifier: MIT
 *
 * Chains of the host backend: a communicator that moves to another stream makes it wait for the last one. */
#ifndef CCL_HOST_CHAIN_H
#define CCL_HOST_CHAIN_H

#include "runtime/runtime.h"

cclResult_t ccl_host_chain_create(struct ccl_chain **out);
void ccl_host_chain_destroy(struct ccl_chain *chain);
cclResult_t ccl_host_chain_before(struct ccl_chain *chain, struct cclStream *stream);
cclResult_t ccl_host_chain_after(struct ccl_chain *chain, struct cclStream *stream);
/* The stream of the last operation, which ends last. False: none, or it was destroyed and so has drained. */
bool ccl_host_chain_last(const struct ccl_chain *chain, struct cclStream **stream);
void ccl_host_chain_forget(struct ccl_chain *chain, struct cclStream *stream);

#endif
