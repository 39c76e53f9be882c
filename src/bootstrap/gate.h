/* SPDX-License-Identifier: MIT
 *
 * The server half of the handshake: a listening socket and the clients that have not proved the secret yet. Never
 * blocks: the owner polls ccl_gate_fd and calls ccl_gate_service. A client that is slow, wrong or one too many is
 * dropped and logged. */
#ifndef CCL_BOOTSTRAP_GATE_H
#define CCL_BOOTSTRAP_GATE_H

#include "bootstrap/wire.h"

#define CCL_GATE_MAX_PENDING 512 /* the longest waiting one goes when another comes */
#define CCL_GATE_CLAIM_NS 10000000000u

struct ccl_gate;

/* A client that has proved the secret. True: the callee owns fd. False: it is not wanted, the gate closes it. */
typedef bool ccl_gate_admit_fn(void *ctx, int fd, const struct ccl_wire_claim *claim,
                               const uint8_t server_nonce[CCL_NONCE_BYTES]);

/* listen_fd belongs to the gate, also on failure. claim_ns: how long a client may take. On a unix socket other users
 * are dropped. */
cclResult_t ccl_gate_create(int listen_fd, const uint8_t secret[CCL_SECRET_BYTES], enum ccl_wire_purpose purpose,
                            uint64_t claim_ns, struct ccl_gate **out);
/* A gate of rank 0 at the abstract socket named by token. */
cclResult_t ccl_gate_open_star(const uint8_t token[16], const uint8_t secret[CCL_SECRET_BYTES], struct ccl_gate **out);
void ccl_gate_destroy(struct ccl_gate *gate); /* NULL is fine */
/* Readable when there is something to do; ccl_gate_deadline says when service must be called even so. */
int ccl_gate_fd(const struct ccl_gate *gate);
uint64_t ccl_gate_deadline(const struct ccl_gate *gate);
void ccl_gate_service(struct ccl_gate *gate, ccl_gate_admit_fn *admit, void *ctx);

#endif
