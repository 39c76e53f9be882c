/* SPDX-License-Identifier: MIT
 *
 * The bootstrap object and the exchange engine. Every exchange is: all ranks put a contribution to rank 0 (gather),
 * rank 0 sends one result to all (scatter). Rank 0 serves the others inside its own call; there is no service thread.
 *
 * A failure in the gather breaks the object on every rank with one error, which rank 0 tells all. In the scatter the
 * exchange has already succeeded; a peer that cannot be reached then is marked gone and breaks the next one. */
#ifndef CCL_BOOTSTRAP_BOOT_H
#define CCL_BOOTSTRAP_BOOT_H

#include <poll.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/gate.h"
#include "bootstrap/wire.h"

/* One other rank, as rank 0 sees it. */
struct ccl_peer {
    int fd;    /* -1: has not connected yet */
    bool gone; /* died, or does not read */
    pid_t pid;
    struct ccl_wire_frame rx;  /* the frame being received, */
    size_t rx_done;            /* and how many bytes of it and its payload have come */
    bool put;                  /* its contribution to this gather is complete, */
    int32_t code;              /* with this result */
    size_t tx_done;            /* of the frame being scattered */
    int fds[CCL_WIRE_MAX_FDS]; /* received in this gather */
    int num_fds;
    bool fds_lost;            /* the process was out of descriptors */
    char text[CCL_WIRE_TEXT]; /* of a contribution that is a failure */
};

struct ccl_bootstrap {
    int rank, size;
    uint64_t timeout_ns;
    uint32_t seq;           /* number of the next exchange */
    unsigned generation;    /* ccl_fds_generation at creation */
    int root_fd;            /* not on rank 0 */
    struct ccl_peer *peers; /* rank 0 only; the entry of rank 0 itself is unused */
    struct pollfd *polls;   /* rank 0 only: [size], the entry of rank 0 is for the gate */
    pid_t *pids;
    uint8_t secret[CCL_SECRET_BYTES]; /* of the star */
    cclResult_t broken; /* cclSuccess: usable */
    char broken_text[CCL_WIRE_TEXT];
};

struct ccl_exchange {
    enum ccl_wire_op op;
    uint64_t deadline_ns;
    size_t bytes;                /* of one contribution */
    uint8_t *data;               /* gather on rank 0: [size][bytes] */
    enum ccl_wire_type put_type; /* CCL_WIRE_PUT, or CCL_WIRE_ACK */
    int max_fds;                 /* that may come with a contribution */
    struct ccl_gate *gate;       /* CCL_OP_CONNECT on rank 0: where the others arrive */
    const uint8_t *secret;       /* with gate */
    bool early;                  /* CCL_OP_CONNECT: rank 0 may not have opened its socket yet */
    int impatient;               /* gather: a rank whose deadline has passed; 0: none */
};

/* cclSuccess when the object may be used, else its error, again. */
cclResult_t ccl_boot_usable(const struct ccl_bootstrap *boot);
/* Break the object: remember code and text, tell the others. Returns code. */
cclResult_t ccl_boot_break(struct ccl_bootstrap *boot, cclResult_t code, int rank, const char *fmt, ...)
    CCL_PRINTF(4, 5);
struct ccl_wire_frame ccl_boot_frame(const struct ccl_bootstrap *boot, enum ccl_wire_type type, enum ccl_wire_op op);

/* Rank 0. Contributions with a code lie in peers[r].code and .text; only CCL_OP_AGREE lets them pass. */
cclResult_t ccl_boot_gather(struct ccl_bootstrap *boot, struct ccl_exchange *x);
void ccl_boot_scatter(struct ccl_bootstrap *boot, const struct ccl_exchange *x, const struct ccl_wire_frame *head,
                      const void *payload);
/* Clear the marks of the last gather. */
void ccl_boot_gather_begin(struct ccl_bootstrap *boot);
/* Read what peer r has sent; false: the object is broken now. */
bool ccl_boot_peer_read(struct ccl_bootstrap *boot, struct ccl_exchange *x, int r);

/* Other ranks. Send the contribution (text instead when code is an error) with num_fds descriptors. */
cclResult_t ccl_boot_put(struct ccl_bootstrap *boot, const struct ccl_exchange *x, cclResult_t code,
                         const void *payload, const int *fds, int num_fds);
/* Wait for a frame of rank 0. When its code is an error the text is in text[CCL_WIRE_TEXT], else payload gets exactly
 * bytes. */
cclResult_t ccl_boot_await(struct ccl_bootstrap *boot, const struct ccl_exchange *x, struct ccl_wire_frame *head,
                           void *payload, size_t bytes, char *text);

/* Join ranks 0..size-1 around rank 0. gate: rank 0's, taken also on failure; others: its token. */
cclResult_t ccl_star_create(int rank, int size, uint64_t timeout_ns, uint64_t deadline_ns,
                            const uint8_t secret[CCL_SECRET_BYTES], const uint8_t token[16], struct ccl_gate *gate,
                            struct ccl_bootstrap **out);
/* The same where nobody said that rank 0's socket is open: the others wait for it. */
cclResult_t ccl_star_create_early(int rank, int size, uint64_t timeout_ns, const uint8_t secret[CCL_SECRET_BYTES], const uint8_t token[16],
                                  struct ccl_gate *gate, struct ccl_bootstrap **out);
/* ccl_bootstrap_agree with its own deadline. */
cclResult_t ccl_boot_agree(struct ccl_bootstrap *boot, cclResult_t mine, uint64_t deadline_ns);

#endif
