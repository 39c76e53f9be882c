/* SPDX-License-Identifier: MIT
 *
 * What the host hands to the kernels: the argument structs and the layouts of the memory that ranks share. Plain data, equal on
 * host, AMD and NVIDIA (64-bit little endian); addresses are uint64_t. Protocol: docs/kernels.md. */
#ifndef CCL_ARGS_H
#define CCL_ARGS_H

#ifndef __HIP__
#include <stddef.h>
#include <stdint.h>
#endif

#define CCL_MAX_RANKS 1024      /* of a communicator */
#define CCL_VALUE_PEERS 16      /* worlds up to this size get their bases by value */
#define CCL_MAX_BLOCKS 128      /* upper limit of the agreed number of blocks */
#define CCL_WINDOWS 1024        /* window ids of one owner that can be stored into directly: 1..CCL_WINDOWS-1 */
#define CCL_LL_SRC_BYTES 262144 /* LL scratch of one source and parity */
#define CCL_LL_FEW 4            /* on NVIDIA, worlds up to this size have more of it: */
#define CCL_LL_FEW_BYTES 2097152
/* Host: tiny operations of one root, which wait for nothing they do not need (parts_ahead.h), have lines of their own. Of CCL_AHEAD_RUN in a row the last one hears from
 * all; so a line is used again when its reader has long left: CCL_AHEAD_SLOTS > CCL_AHEAD_RUN. */
#define CCL_AHEAD_SLOTS 64
#define CCL_AHEAD_RUN 62
#define CCL_AHEAD_BYTES 512
#define CCL_AHEAD_MOST (CCL_AHEAD_HEAD + CCL_AHEAD_REST) /* of a part */
#define CCL_AHEAD_HEAD 40
#define CCL_AHEAD_REST 440
#define CCL_USER_BARRIERS 16     /* CCL_BARRIERS of include/ccl/device_types.h */
#define CCL_STEP_DIRECT 0x80000000u /* channel: stored directly, nothing to drain; DONE follows */
#define CCL_STEP_DONE 0xFFFFFFFEu /* channel: all data delivered, directly */
#define CCL_STEP_LEFT 0xFFFFFFFFu /* channel: the sender gave up, nothing more will come */
#define CCL_SIG_REVOKED 0xFFFFFFFFu /* advert word 0: the rank has failed in this operation */
#define CCL_OP_STOPPED 0x80000000u  /* bit 31 of the low half of op */

/* Operation codes, advert word 1 bits 0..5. */
enum ccl_op {
    CCL_OP_NONE,
    CCL_OP_BARRIER,
    CCL_OP_ALL_GATHER,
    CCL_OP_ALL_GATHER_2D,
    CCL_OP_ALL_REDUCE,
    CCL_OP_REDUCE_SCATTER,
    CCL_OP_REDUCE,
    CCL_OP_BROADCAST,
    CCL_OP_ALL_TO_ALL,
    CCL_OP_ALL_TO_ALL_V,
    CCL_OP_GATHER,
    CCL_OP_SCATTER,
    CCL_OP_SEND,
    CCL_OP_RECV,
    CCL_OP_ALL_GATHER_MATMUL,
    CCL_OP_MATMUL_ALL_GATHER,
    CCL_NUM_OPS
};
#define CCL_WORD1(op, type, redop, root) \
    ((uint32_t)(op) | (uint32_t)(type) << 6 | (uint32_t)(redop) << 11 | (uint32_t)(root) << 16)

/* What a rank called, for error texts. */
struct ccl_k_desc {
    uint32_t word1; /* CCL_WORD1 */
    uint32_t variant, blocks, tile_m, tile_n; /* effective */
    uint32_t pad;
    uint64_t rows, count; /* 1-D: rows 1, count elements per rank */
    uint64_t ld;          /* of the receive buffer, elements */
    uint64_t ld_send;     /* of the send buffer, elements; where it must agree (variant copy), else 0 */
    /* Matrix products: variant is the cclAlgorithm_t, tiles those of C, rows x count is C, ld is K, ld_send the pitch that must agree. */
};

/* One record of a failure, written by one rank into its slot of every rank's host page; one block of its kernels, or its host. 128 bytes. */
struct ccl_k_err {
    uint32_t code;          /* cclResult_t; stored last with release, 0 = empty */
    uint32_t op;            /* low 32 bits of the operation number */
    int32_t rank, peer;     /* who wrote it, whom it is about; -1: nobody */
    uint32_t reason;        /* enum ccl_reason */
    uint32_t pad0;
    struct ccl_k_desc mine; /* the writer's call; the other side's is in the other rank's record */
    uint64_t where;         /* the writer's advert words 6, 7 */
    uint32_t theirs_word1, pad1; /* mismatch, if not 0: what the peer called, which may be far ahead by now */
    uint64_t theirs_count;
    uint32_t pad[6];
};

enum ccl_reason {
    CCL_REASON_NONE,
    CCL_REASON_MISMATCH,  /* peer called something else */
    CCL_REASON_DEAD,      /* peer died while it was waited for */
    CCL_REASON_LEFT,      /* peer gave up inside the operation */
    CCL_REASON_ABORT,     /* cclCommAbort */
    CCL_REASON_TIMEOUT,   /* CCL_TIMEOUT passed while waiting for peer */
    CCL_REASON_NO_WINDOW, /* variant direct, receive buffer of rank lies in no window; variant copy: send buffer in no heap chunk */
    CCL_REASON_PLACE,     /* variant copy: the send buffer of peer does not lie where mine does */
    CCL_REASON_REFUSED,   /* rank's host could not enqueue its call, and knows why */
    CCL_NUM_REASONS
};

/* The host page: memory of the host, one a rank, mapped by every rank and every device. Off the fast path, except that publishers
 * of the host backend read `waiting`. Each group of fields has its own cache line. */
struct ccl_k_page {
    uint64_t abort; /* {op:32, origin:24, code:8}; 0 = healthy, any other value stops. origin: index into err */
    uint64_t pad0[7];
    uint64_t unclean; /* bit a rank of the low 64: left while that peer might still store; own kernels */
    uint64_t pad4[7];
    uint64_t dead[CCL_MAX_RANKS / 64]; /* bit a rank; own monitor thread only */
    uint32_t waiting;                  /* threads of this rank that sleep or are about to */
    uint32_t pad1[15];
    uint32_t bell; /* futex: bumped by publishers who saw `waiting` */
    uint32_t pad2[15];
    uint64_t stalled; /* {op:32, peer + 1:32} while a kernel has waited long for that peer, else 0; own kernels */
    uint64_t pad5[7];
    uint32_t state; /* enum ccl_page_state, written by the owner */
    uint32_t unmapped; /* the owner has closed its mappings of all peers' memory */
    uint32_t pad3[14];
    struct ccl_k_err err[]; /* [2][n]: one a rank for its kernels, then one a rank for its host */
};
enum ccl_page_state { CCL_PAGE_OPEN, CCL_PAGE_CLOSED };
#define CCL_ABORT_WORD(code, origin, op) ((uint64_t)(op) << 32 | (uint64_t)(origin) << 8 | (uint64_t)(code))

/* Device memory of one rank that no other rank touches. */
struct ccl_k_priv {
    uint64_t op; /* {n:32, stopped:1, drawn:31}; initial n is 1 */
    uint32_t stop;
    uint32_t outs;
    uint32_t err_claimed; /* compare-and-swap: one block writes the error record */
    uint32_t trace_ops;   /* operations that the trace keeps, a power of two; traced kernels only, as is the next */
    uint64_t trace;       /* struct ccl_k_trace_op[trace_ops], then struct ccl_k_trace_event[trace_ops][lay.blocks], then struct ccl_k_trace_ring[lay.blocks] */
    uint32_t pad[8];
    uint64_t user[2][CCL_USER_BARRIERS]; /* barriers of users' own kernels: epochs, arrivals */
};

/* One thread of a block notes these, in this order, once an operation each. */
enum ccl_trace_point {
    CCL_TRACE_START, /* the block has its operation number */
    CCL_TRACE_MET,   /* it has heard from the peers it waits for before its first store (LL: its packets are out) */
    CCL_TRACE_SENT,  /* its data are out */
    CCL_TRACE_END,   /* everything it waits for is in */
    CCL_TRACE_POINTS
};

/* Trace records. Operation n takes place n modulo trace_ops; a record is of the operation it names. */
struct ccl_k_trace_op {
    uint32_t op;       /* number of the operation; 0: none yet */
    uint32_t windowed; /* peers could store into the receive buffer */
    uint32_t word1, variant, blocks, tile_m, tile_n, pad; /* of struct ccl_k_desc */
    uint64_t rows, count;
};
struct ccl_k_trace_event {
    uint64_t at_ns[CCL_TRACE_POINTS]; /* on the device's clock */
    uint32_t op[CCL_TRACE_POINTS];    /* operation that noted this point last */
};

/* What a block of a matrix product did, one after the other; the last CCL_TRACE_SPANS of each block are kept. */
enum ccl_trace_task { CCL_TRACE_FETCH, CCL_TRACE_GEMM, CCL_TRACE_WAIT, CCL_TRACE_TASKS };
struct ccl_k_trace_span {
    uint64_t from_ns, to_ns; /* on the device's clock */
    uint32_t op;             /* number of the operation */
    uint32_t task;           /* enum ccl_trace_task */
    uint32_t unit, part;     /* row of tiles; group of K that was fetched or waited for, or column of tiles */
};
#define CCL_TRACE_SPANS 1024u
struct ccl_k_trace_ring {
    uint64_t count; /* so far; number i takes place i modulo CCL_TRACE_SPANS */
    struct ccl_k_trace_span span[CCL_TRACE_SPANS];
};

/* Tables of one communicator in device memory; constant after init except win. Followed by nothing; arrays are separate. */
struct ccl_k_comm {
    uint64_t ctl;  /* address of uint64_t[n]: control + scratch allocation of each rank, as mapped here */
    uint64_t page; /* address of uint64_t[n]: host page of each rank, as mapped here */
    uint64_t win;  /* address of uint64_t[n + 1][CCL_WINDOWS]: base of window id of an owner, 0 = not mapped; release-stored. Row n: bytes of heap chunk id, [n][0]: highest id of a chunk so far + 1.
                     On a GPU behind it, uint64_t[n][CCL_WINDOWS], own kernels: {op:32, mapped:32}, what all blocks of op go by */
};

/* Bytes from the start of a rank's control allocation. Computed by ccl_comm_layout(), equal on all ranks. */
struct ccl_k_layout {
    uint64_t ring;   /* pair rings: [n][blocks][slots][slot_bytes]; shared ring: [blocks][slots][slot_bytes] */
    uint64_t user;   /* words of users' own kernels, flag_stride bytes apart: [CCL_SIGNALS], then [CCL_BARRIERS][n]; include/ccl/device_types.h */
    uint64_t bytes;  /* of the whole allocation */
    uint32_t blocks, slots, slot_bytes;
    uint32_t shared_ring; /* 1: all ranks share a device: a chunk is written once, to the sender's own ring */
    uint32_t flag_stride;
    uint32_t flag_row; /* bytes between the rows of two blocks: lanes that poll one row touch as few lines as possible */
    uint64_t credit;   /* as full */
    uint64_t full;     /* [blocks] rows of n words {op:32, step:32}, flag_stride bytes apart */
    uint64_t adv;      /* [2][n] lines of 64 B */
    uint64_t ll;       /* [2][n][scratch of a source]; host: behind it struct ccl_k_ahead_line [CCL_AHEAD_SLOTS][n] */
};

struct ccl_k_peer {
    uint64_t ctl; /* control allocation of the peer, as mapped here */
    uint64_t win; /* base of the expected window of the peer, 0: not expected or not mapped */
};

enum {
    CCL_F_FORCE_STAGED = 1, /* never direct */
    CCL_F_FORCE_DIRECT = 2, /* a peer that cannot be stored into directly is an error */
    CCL_F_FENCE = 4,        /* host: publishers fence before they look for sleepers (else sleepers use membarrier) */
    CCL_F_FLAT_SRC = 8,     /* the rows of the input are contiguous */
    CCL_F_FLAT_DST = 16,    /* the rows of each part of the output are contiguous */
    CCL_F_YIELD = 32,       /* host: give the core away between two polls (ranks outnumber cores) */
    CCL_F_BULK = 128,       /* NVIDIA: store flat parts by bulk copies, if the launch has shared memory for pieces */
    CCL_F_STREAM = 64,      /* host: the data do not fit the caches, store around them */
    CCL_F_AHEAD = 256,      /* host: there are lines of operations that run ahead */
    CCL_F_PACE_AT = 16      /* NVIDIA, 2 ranks: the flags from this bit on are 0 or a CCL_PACE */
};
/* Flat parts are stored a piece a step, by so many warps of each block, 1 << shift vectors a thread. These pieces are cut otherwise than the others, so all blocks must go
 * this way: only where each has two of the others or more. */
#define CCL_PACE(warps, shift) ((uint32_t)(warps) | (uint32_t)(shift) << 8)

/* All-gather and barrier: every kernel of the LL and push families. A "part" is what one rank contributes: rows x row_bytes. It is cut
 * into tiles of tile_rows x tile_bytes, these (where a ring slot is smaller) into pieces; pieces are numbered row-major over
 * the grid of pieces_down x pieces_across; block b takes pieces b, b + stride, ... */
struct ccl_k_coll_args {
    uint64_t rows, row_bytes;
    uint64_t ld_src, ld_dst;              /* bytes between rows */
    uint64_t piece_rows, piece_bytes;     /* piece_rows * piece_bytes <= slot_bytes */
    uint64_t pieces_down, pieces_across;  /* over the whole part */
    uint64_t where;                       /* advert words 6, 7: window id:16 high, byte offset:48; 0 = stage it. Copy: of the input */
    uint64_t comm;                        /* struct ccl_k_comm */
    uint64_t page;                        /* own host page */
    struct ccl_k_desc desc;
    uint32_t expect_id;  /* window id that peer[].win belongs to, 0 = none */
    uint32_t spin;       /* host: polls before sleeping */
    uint32_t group;      /* GPU direct: as many adverts a block waits for before it stores to these peers */
    uint32_t flat_piece; /* GPU push: bytes of a piece when all pieces are runs of 16-byte vectors, else 0 */
    /* What every kernel reads at once stands together: each line of the arguments costs a trip to memory. */
    struct ccl_k_layout lay; /* LL reads its end */
    uint64_t priv;       /* struct ccl_k_priv */
    uint64_t src;        /* own input */
    uint64_t dst;        /* own output: part r starts at dst + r * dst_part */
    uint64_t dst_part;   /* bytes between the parts of two ranks in the output */
    uint64_t part_bytes; /* rows * row_bytes: sent to and expected from each peer */
    uint32_t rank, n;
    uint32_t sig;     /* advert word 0 */
    uint32_t flags;   /* CCL_F_* */
    uint32_t div_mul; /* GPU LL: ceil(2^32 / packet pairs of a part), 0 when there is one pair */
    uint32_t unit_shift; /* GPU push: log2 of the vectors a thread moves of a flat piece, rounded up */
    struct ccl_k_peer peer[CCL_VALUE_PEERS]; /* by rank; the host backend copies only the first n */
};

/* What goes between this rank and one peer. */
struct ccl_k_pair {
    uint64_t send_off, send_bytes; /* from src of ccl_k_coll_args */
    uint64_t recv_off, recv_bytes; /* from dst */
};

enum {
    CCL_PARTS_SAME = 1,     /* all destinations get the same bytes: where all share a ring, a chunk is written once */
    CCL_PARTS_REDUCE = 2,   /* what arrives is joined element by element, in the order of ranks */
    CCL_PARTS_SCATTER = 4,  /* reduce: each owner keeps its result; the input is a part an owner */
    CCL_PARTS_SCALED = 8,   /* reduce: multiply the own elements by scalar first */
    CCL_PARTS_SCALAR_AT = 16, /* scalar is the address of it in device memory */
    CCL_PARTS_TO_ROOT = 32, /* reduce: only root gets the results */
    CCL_PARTS_AHEAD = 64,   /* host: wait for those only that send something, */
    CCL_PARTS_MEET = 128    /* but in this one for all */
};

/* Host: what rank src stores at each other rank in an operation that runs ahead. Its line at itself keeps what it called. */
struct ccl_k_ahead_line {
    uint8_t head[CCL_AHEAD_HEAD]; /* of the part */
    uint32_t word1;               /* of struct ccl_k_desc, as count */
    uint32_t meets;               /* own line: CCL_PARTS_MEET */
    uint64_t count;
    uint64_t word;                /* {n, signature}; with CCL_PARTS_MEET {n, history}, of all operations since all last met */
    uint8_t rest[CCL_AHEAD_REST]; /* of the part */
    uint32_t history, first;      /* own line; first: operation that the history begins with */
};

#define CCL_PARTS_LL_JOINS 32 /* parts_ll on a GPU: ranks whose elements it joins, at most */
#define CCL_GPU_PAIRS 64 /* ranks of a communicator whose pairs fit the arguments of a kernel; on the host as many as there are */

/* The kernels parts, parts_ll and reduce: all collectives but all-gather. reduce cuts the input into chunks, each into one piece for every rank, its
 * owner: piece (chunk, owner) starts at element owner * owner_stride + chunk * chunk_stride and has at most piece elements. Every rank stores its
 * piece into a ring for the owner, which joins them. parts cuts what a pair moves into pieces of c.piece_bytes. Ring slots are cut out of the
 * communicator's rings anew for every operation. */
struct ccl_k_parts_args {
    struct ccl_k_coll_args c;
    uint64_t scalar;   /* its bits or its address */
    /* parts_ll on a GPU. Bytes between the parts for two ranks in the input, as c.dst_part in the output; bit a rank: who gets something of this rank, of whom this
     * rank gets something (itself among them). Lanes of a unit: 2^unit_lanes, at least as many as ranks. */
    uint64_t src_part, to_ranks, from_ranks;
    uint32_t unit_lanes, pad;
    uint32_t type, esize; /* cclDataType_t, its bytes */
    uint32_t redop;  /* cclRedOp_t, built in */
    uint32_t root;
    uint32_t parts; /* CCL_PARTS_* */
    uint32_t slots; /* of a ring */
    uint64_t ring_bytes; /* of one source's rings; parts_ll on a GPU is not given what stands from here on */
    uint64_t slot_bytes, sub_bytes; /* of a slot, and of what it holds for one destination */
    uint64_t count;                 /* reduce: elements of the whole input; SCATTER: of a part */
    uint64_t owner_stride, chunk_stride, piece;
    uint64_t chunks;
    uint64_t from_where;            /* reduce on a GPU: where the input is, as c.where; 0: in no window, or owners may not read it there */
    uint64_t shard;                 /* reduce on a GPU without rings: elements of an owner, which has those from rank * shard on; SCATTER: count */
    struct ccl_k_pair pair[CCL_GPU_PAIRS]; /* by rank; the host backend copies only the first n */
};

/* Words of sends and receives, bytes from the start of a rank's control allocation. Tags are numbers of the messages of an ordered pair of ranks. */
struct ccl_k_p2p_layout {
    /* A message is cut into pieces, which go in turn through so many stripes at most; each has words and a ring of its own. */
    uint64_t adv;    /* [stripes][n] lines of 64 B as adverts: what a receiver expects of this rank */
    uint64_t full;   /* [stripes][n] words {tag, step} of senders to this rank, flag_stride bytes apart */
    uint64_t credit; /* [stripes][n] of receivers from this rank */
    uint64_t ring;   /* [stripes][n][slots][slot_bytes], by sender */
    uint64_t eager;  /* [n][eager_slots] of CCL_P2P_EAGER_PITCH, by sender: small messages, which wait for no advert */
    uint32_t slots, slot_bytes;
    uint32_t stripes;
    uint32_t eager_slots, eager_max; /* a power of two, at least 2; bytes of a message that goes there, at most */
    uint32_t pad;
};

/* A slot: a line with the header {tag, CCL_P2P_EAGER_HEAD} in word 7 and up to 56 bytes of data, more data behind the line. */
#define CCL_P2P_EAGER_LINE 56u
#define CCL_P2P_EAGER_PITCH(max) (64u + (max))
#define CCL_P2P_EAGER_HEAD(bytes, type) ((uint32_t)(type) << 24 | (uint32_t)(bytes))
/* Rows in the record of a message that differs: what the peer called; 0: only its own record says so. */
#define CCL_P2P_OTHER(bytes, type) (1ull << 63 | (uint64_t)(type) << 56 | (uint64_t)(bytes))
#define CCL_P2P_OTHER_BYTES(rows) ((rows) & 0xffffffffffffff)
#define CCL_P2P_OTHER_TYPE(rows) ((uint32_t)((rows) >> 56) & 31)

struct ccl_k_p2p_item {
    uint64_t addr, bytes;
    uint64_t where; /* receive: advert words 6, 7 */
    uint32_t word1; /* CCL_WORD1(CCL_OP_SEND or CCL_OP_RECV, type, 0, peer) */
    uint32_t cut;   /* CCL_P2P_CUT of both ends alike */
};

#define CCL_P2P_ITEMS 100 /* of a launch */
#define CCL_P2P_CUT(piece, stripes) ((uint32_t)(piece) << 8 | (uint32_t)(stripes)) /* bytes of a piece; stripes that have any */
#define CCL_P2P_STRIPES_MAX 64

/* Sends and receives of a group; those of one direction and peer stand together, in issue order. */
struct ccl_k_p2p_args {
    struct ccl_k_coll_args c;
    struct ccl_k_p2p_layout lay;
    /* uint64_t[2][stripes][n], device memory of this rank: messages sent to, received from each rank by each stripe so far. Behind it on the host uint64_t[n]:
     * the tag of each rank's advert last seen, not more than eager_slots - 1 messages old. */
    uint64_t seq;
    uint32_t count, pad;
    struct ccl_k_p2p_item item[CCL_P2P_ITEMS]; /* the host backend copies only count */
};

/* The kernels ll_words_W: as few bytes as they can do with. Part r of the output starts at dst + r * part_bytes. */
struct ccl_k_words_args {
    uint64_t full; /* struct ccl_k_coll_args in device memory, with what is the same in all operations; the kernel that fails adds its call */
    uint64_t priv; /* struct ccl_k_priv */
    uint64_t src, dst;
    uint32_t adv, ll;    /* of struct ccl_k_layout */
    uint32_t part_bytes; /* a multiple of 8, not 0 */
    uint32_t rank, sig, div_mul;
    uint32_t word1, variant, tile_m, tile_n, rows, count; /* of struct ccl_k_desc; pitches equal count */
    uint64_t peer[8]; /* control allocation of the rank so many rotations on, [0]: own */
};

#endif
