/* SPDX-License-Identifier: MIT
 *
 * The rendezvous: a detached thread at the address of a unique id that collects the ranks and tells all of them where
 * rank 0 is, or why there will be no communicator. */
#ifndef CCL_BOOTSTRAP_RENDEZVOUS_H
#define CCL_BOOTSTRAP_RENDEZVOUS_H

#include "bootstrap/wire.h"

/* cclInvalidArgument: not made by this library, or damaged. */
cclResult_t ccl_id_decode(const cclUniqueId *id, struct ccl_wire_id *out);
/* Fill in what is neither address nor secret, and the hash over all of it. */
void ccl_id_seal(struct ccl_wire_id *id);
/* Listen at its address; a port of 0 becomes the one that the system gives. */
cclResult_t ccl_id_listen(struct ccl_wire_id *id, int *fd);
/* "127.0.0.1 port 4711" */
void ccl_id_describe(const struct ccl_wire_id *id, char *text, size_t bytes);

/* Serve listen_fd (taken, also on failure) until all ranks have come or the deadline passes. */
cclResult_t ccl_rendezvous_start(int listen_fd, const struct ccl_wire_id *id, uint64_t timeout_ns);

/* Announce body->rank at the rendezvous and wait for all others. token: name of rank 0's socket. */
cclResult_t ccl_rendezvous_join(const struct ccl_wire_id *id, const struct ccl_wire_claim_body *body,
                                uint64_t deadline_ns, uint8_t token[16]);

#endif
