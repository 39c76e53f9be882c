/* SPDX-License-Identifier: MIT
 *
 * Pieces of the exchange engine that only the files implementing it use. */
#ifndef CCL_BOOTSTRAP_OPS_H
#define CCL_BOOTSTRAP_OPS_H

#include "bootstrap/boot.h"

/* "allgather"; for messages. */
const char *ccl_op_name(unsigned op);
/* Rank 0 does not answer (err: as of ccl_net_read): break the object. */
cclResult_t ccl_boot_lost_root(struct ccl_bootstrap *boot, const struct ccl_exchange *x, int err);
/* Header of the next frame of rank 0, done bytes of which the caller has already; its text or payload is not read. */
cclResult_t ccl_boot_await_head(struct ccl_bootstrap *boot, const struct ccl_exchange *x, struct ccl_wire_frame *head,
                                size_t done);
/* head is a CCL_WIRE_ERROR: read its text and break the object with it. */
cclResult_t ccl_boot_take_error(struct ccl_bootstrap *boot, const struct ccl_exchange *x,
                                const struct ccl_wire_frame *head);
/* Rank 0 during CCL_OP_CONNECT: serve the gate. */
void ccl_star_admit(struct ccl_bootstrap *boot, struct ccl_exchange *x);

#endif
