/* SPDX-License-Identifier: MIT
 *
 * Windows and the symmetric heap of a communicator. A window is memory for which this rank knows one base address
 * per peer: a heap chunk (symmetric: same id, same size, same offsets on all ranks) or a user's registered
 * allocation (known by owner and id). Ranks are those of the communicator the heap was made for. Collective calls
 * end agreed: a failure on one rank is an error on all, and the heap is as before. Windows are reference counted: a
 * child made by split keeps the parent's. */
#ifndef CCL_HEAP_H
#define CCL_HEAP_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/monitor.h"
#include "runtime/runtime.h"
#include "util/base.h"

struct ccl_heap;

/* Collective. chunk_bytes: smallest growth. boot and port are borrowed until destroy. */
cclResult_t ccl_heap_create(const struct ccl_runtime_ops *rt, struct ccl_bootstrap *boot, size_t chunk_bytes,
                            struct ccl_heap **out);
/* Collective over boot, the child's bootstrap; ranks[i] is the parent rank of child rank i. Sees all windows of
 * parent that its ranks share (heap blocks of the parent are found, not freed, through the child); its own
 * allocations go to chunks of its own. */
cclResult_t ccl_heap_split(struct ccl_heap *parent, struct ccl_bootstrap *boot, const int *ranks, size_t chunk_bytes,
                           struct ccl_heap **out);
/* Local, after the port was detached and the own kernels have ended. NULL and half-built are fine. unclean: peers
 * may still store into our memory (abort), so nothing is unmapped that they may hit: chunks whose handles are not
 * counted stay allocated; else peers' mappings are references of their own and everything is released. */
void ccl_heap_destroy(struct ccl_heap *heap, bool unclean);

/* Local, before the first allocation, alike on all ranks: chunks are shared host memory, since devices cannot share theirs, and registrations
 * stay staged. Children follow their parent. */
void ccl_heap_set_shared_host(struct ccl_heap *heap);
/* Local: what ccl_heap_destroy may not free since peers may still map it uncounted is put here instead, for the caller to mem_free when all
 * have left. Without it, such memory stays until the process ends. */
struct ccl_mem_list {
    void **ptr; /* malloc */
    size_t count;
};
void ccl_heap_keep(struct ccl_heap *heap, struct ccl_mem_list *kept);

/* Collective. bytes > 0. On success the window offset of *ptr is equal on all ranks. cclInvalidArgument: ranks gave
 * different sizes (both named). cclSystemError: out of memory on any rank, the heap is unchanged. */
cclResult_t ccl_heap_alloc(struct ccl_heap *heap, size_t bytes, void **ptr);
/* Collective. cclInvalidArgument on all ranks: ptr is not the start of a block of this heap on some rank, or ranks
 * free different blocks. */
cclResult_t ccl_heap_free(struct ccl_heap *heap, void *ptr);
/* Local. Invariants of all chunks. */
cclResult_t ccl_heap_check(const struct ccl_heap *heap);

/* Registration messages of peers travel through the port: the communicator forwards its message and tick callbacks
 * here. Must be called once, after create/split and before register. */
void ccl_heap_set_port(struct ccl_heap *heap, struct ccl_monitor_port *port);
void ccl_heap_on_message(struct ccl_heap *heap, int peer, const void *msg, size_t bytes, int fd); /* monitor thread */
void ccl_heap_on_peer_died(struct ccl_heap *heap, int peer);                                      /* monitor thread */
/* Local, before ccl_monitor_detach: tells the peers that this rank answers no more, so that their deregistrations do
 * not wait for it. Nothing can be registered afterwards. NULL and a heap without port are fine. */
void ccl_heap_leave(struct ccl_heap *heap);

/* Local. The whole underlying allocation is exported once (cached by allocation, reference counted), peers map it in
 * their monitor threads. *handle NULL: this memory cannot be exported, one INFO line says why. */
cclResult_t ccl_heap_register(struct ccl_heap *heap, void *buff, size_t bytes, void **handle);
/* Local. Peers are asked to unmap; waits for their acknowledgement at most 2 s, then warns. The id is not used again
 * before. */
cclResult_t ccl_heap_deregister(struct ccl_heap *heap, void *handle);
void ccl_heap_pointer_info(const struct ccl_heap *heap, const void *ptr, cclPointerInfo_t *info);

/* What a launch needs to know about a receive buffer. */
struct ccl_window_hit {
    uint32_t id;           /* 1..CCL_WINDOWS-1 */
    uint64_t off;          /* bytes from the window's base to the pointer */
    const uint64_t *bases; /* by rank: base as mapped here; only when symmetric, else NULL; until the next call */
};
/* The same as a word of the kernels' arguments, ccl_k_coll_args.where. */
static inline uint64_t ccl_window_where(const struct ccl_window_hit *hit)
{
    return (uint64_t)hit->id << 48 | hit->off;
}

/* Fast path, no lock: the window that holds all of [ptr, ptr+bytes). False: none. API thread of this communicator
 * only. The first call after a change of the windows takes the lock to see it. */
bool ccl_heap_find(struct ccl_heap *heap, const void *ptr, size_t bytes, struct ccl_window_hit *hit);
/* Kernel-side address of uint64_t[n + 1][CCL_WINDOWS], see struct ccl_k_comm. */
uint64_t ccl_heap_table(const struct ccl_heap *heap);

#endif
