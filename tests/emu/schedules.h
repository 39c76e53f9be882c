/* SPDX-License-Identifier: MIT
 *
 * Shared by schedules.c (cases, options, the runs) and schedule_shapes.c (what one operation is, its buffers, what must be in them). */
#ifndef EMU_SCHEDULES_H
#define EMU_SCHEDULES_H

#include <ccl/ccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_RANKS 9
#define MAX_OPS 3          /* of a rank in one gang */
#define MAX_PART 3072      /* bytes from the first to the last byte of a part, pitches included */
#define SLACK 96           /* guard bytes and misalignment, before and behind */
#define RECV_BYTES (MAX_RANKS * MAX_PART + 2 * SLACK)
#define SEND_BYTES RECV_BYTES /* all-to-all */

/* Which operations a case makes; a bit each. */
enum { DO_LL = 1, DO_DIRECT = 2, DO_STAGED = 4, DO_AUTO = 8, DO_PARTITIONED = 16, DO_COPY = 32, DO_BARRIER = 64, DO_MISMATCH = 128, DO_PARTS = 256, DO_REDUCE = 512, DO_P2P = 1024 };
#define DO_COLLS (DO_PARTS | DO_REDUCE | DO_P2P)
enum coll { COLL_NONE, COLL_ALL_REDUCE, COLL_REDUCE_SCATTER, COLL_REDUCE, COLL_ALL_TO_ALL, COLL_BROADCAST, COLL_GATHER, COLL_SCATTER, COLL_P2P };

/* The memory of one rank, an area for each operation of a gang. Heap memory can be stored into by peers, plain memory cannot. */
struct rank_memory {
    uint8_t *send[2], *recv[2]; /* [heap, plain], MAX_OPS areas one behind the other */
};

struct shape {
    int kind; /* DO_... */
    size_t rows, cols, ld_send, ld_recv;
    cclCallConfig_t config;
    bool in_place;
    struct {
        bool plain; /* both buffers */
        size_t send, recv; /* offsets in the areas */
    } of[MAX_RANKS];
    uint64_t key; /* of the data */
    /* The rest: DO_COLLS only. */
    enum coll coll;
    cclDataType_t type;
    int root;
    size_t count;   /* elements of a part */
    unsigned peers; /* COLL_P2P: to whom; two messages each? */
    bool twice;
};

uint64_t next_random(uint64_t *state);
/* A shape of one of the kinds for n ranks; max_blocks: of the communicator. */
void draw_shape(uint64_t *state, unsigned kinds, int n, int max_blocks, struct shape *s);
uint8_t *send_of(const struct rank_memory *m, const struct shape *s, int rank, int op); /* what the call is given */
uint8_t *recv_of(const struct rank_memory *m, const struct shape *s, int rank, int op);
/* Inputs, and noise everywhere else. */
void fill_areas(const struct rank_memory *m, const struct shape *s, int n, int rank, int op);
/* The operation of this rank has just ended: the output and all around it are as they must be (failed: the call failed, so the bytes of the parts may be
 * anything). Then the areas are given other noise, as a user may who has his buffers back. false: what is wrong is in text. */
bool check_areas(const struct rank_memory *m, const struct shape *s, int n, int rank, int op, bool failed, char *text, size_t bytes);
/* Nobody has touched the areas since. */
bool check_untouched(const struct rank_memory *m, const struct shape *s, int rank, int op, char *text, size_t bytes);
/* The input or output of a rank in COLL_..., from its first byte on; other bytes are left alone. */
size_t coll_put_input(uint8_t *to, const struct shape *s, int n, int rank, int op);
void coll_put_output(uint8_t *to, const struct shape *s, int n, int rank, int op);
void draw_coll(uint64_t *state, unsigned kinds, int n, struct shape *s);
cclResult_t coll_enqueue(uint8_t *send, uint8_t *recv, const struct shape *s, int n, int rank, cclComm_t comm, cclStream_t stream);
/* The bytes of a rank's input in an operation. */
void make_data(uint8_t *to, size_t bytes, const struct shape *s, int rank, int op);
void describe_shape(const struct shape *s, int n, char *text, size_t bytes);

#endif
