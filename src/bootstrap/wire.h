/* SPDX-License-Identifier: MIT
 *
 * What travels on bootstrap connections. All ranks are on one machine, so integers are in its byte order; a foreign
 * order shows as a wrong magic. Until a claim's keyed hash has been checked none of its bytes is interpreted.
 *
 * Handshake, both at the rendezvous and in the star:  server: hello.  client: claim.  server: answer.
 * The hash of a claim covers both nonces and the body, that of an answer both nonces and its content; purpose and
 * direction are hashed too, so no message can be replayed, reflected or used for the other kind of connection. All
 * three have a fixed size: no length to check. */
#ifndef CCL_BOOTSTRAP_WIRE_H
#define CCL_BOOTSTRAP_WIRE_H

#include "bootstrap/siphash.h"

#define CCL_WIRE_MAGIC 0x62c1ccc1u
#define CCL_WIRE_VERSION 2u /* of the id and of everything in this file */
#define CCL_WIRE_MAX_RANKS 4096
#define CCL_WIRE_MAX_BLOB ((size_t)1 << 20)
#define CCL_WIRE_MAX_FDS 8
#define CCL_WIRE_TEXT 512
#define CCL_NONCE_BYTES 16

enum ccl_wire_purpose { CCL_WIRE_RENDEZVOUS = 1, CCL_WIRE_STAR = 2 };

/* The content of a cclUniqueId. */
struct ccl_wire_id {
    char magic[8];
    uint32_t wire, version;
    uint16_t family, port; /* AF_INET or AF_INET6; host order */
    uint8_t addr[16];
    uint8_t host[16]; /* boot id of the machine */
    uint32_t early;   /* not 0: nobody may serve it yet when the ranks come */
    uint8_t secret[CCL_SECRET_BYTES];
    uint8_t check[CCL_MAC_BYTES]; /* keyed hash of all the above: finds damaged ids */
};

struct ccl_wire_hello {
    uint32_t magic, wire;
    uint8_t nonce[CCL_NONCE_BYTES];
};

struct ccl_wire_claim_body {
    uint32_t version;
    int32_t rank, nranks;
    int32_t pid;         /* as the client sees itself, for messages only */
    uint64_t timeout_ns; /* what is left of the client's deadline */
    uint8_t host[16];
    uint8_t token[16]; /* name of the star's socket; rank 0 only */
};

struct ccl_wire_claim {
    uint8_t nonce[CCL_NONCE_BYTES];
    struct ccl_wire_claim_body body;
    uint8_t mac[CCL_MAC_BYTES];
};

struct ccl_wire_answer_body {
    int32_t code;             /* cclResult_t */
    uint8_t token[16];        /* success at the rendezvous: name of rank 0's socket */
    char text[CCL_WIRE_TEXT]; /* failure: the same on all ranks */
};

struct ccl_wire_answer {
    struct ccl_wire_answer_body body;
    uint8_t mac[CCL_MAC_BYTES];
};

/* Everything behind the handshake of a star connection is frames: this header and bytes of payload. */
enum ccl_wire_type {
    CCL_WIRE_PUT = 1,     /* to rank 0: a contribution; code != 0: the rank failed and the payload is its text */
    CCL_WIRE_TIMEOUT = 2, /* to rank 0: my deadline has passed, tell us who is missing */
    CCL_WIRE_ACK = 3,     /* to rank 0: batch of descriptors received; code as in PUT */
    CCL_WIRE_RESULT = 4,  /* from rank 0; code != 0: the payload is the text */
    CCL_WIRE_FDS = 5,     /* from rank 0: nfds descriptors come with this header */
    CCL_WIRE_ERROR = 6    /* from rank 0: the object is broken, the payload is the text */
};

enum ccl_wire_op {
    CCL_OP_CONNECT = 1,
    CCL_OP_BARRIER,
    CCL_OP_ALLGATHER,
    CCL_OP_AGREE,
    CCL_OP_FDS,
    CCL_OP_FDS_DONE,
    CCL_NUM_OPS
};

struct ccl_wire_frame {
    uint32_t magic;
    uint16_t type, op;
    uint32_t seq;
    int32_t code, rank; /* rank: whom code is about */
    uint32_t bytes, nfds;
};

#endif
