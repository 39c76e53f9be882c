/* SPDX-License-Identifier: MIT
 *
 * How ranks find each other and agree before any kernel runs: unique id, authenticated rendezvous, and collective exchanges of
 * small blobs and file descriptors over unix sockets in a star around rank 0. All calls except get_id, rank, size, peer_pid are
 * collective and blocking with the deadline given at creation; when a rank is missing or died, every waiting rank gets
 * cclSystemError (deadline) or cclRemoteError (died) whose text names the missing ranks. After a failed exchange the object is broken:
 * every later call fails at once. Works with only lo. Nothing is left on disk (abstract sockets). All fds are close-on-exec. */
#ifndef CCL_BOOTSTRAP_H
#define CCL_BOOTSTRAP_H

#include <sys/types.h>

#include "util/base.h"

struct ccl_bootstrap;

/* Open a listener (a detached thread serves it until nranks have come, the deadline passes or the process ends) and fill *id with its address and
 * a 128-bit secret. An unauthenticated, malformed or slow client is dropped and logged and cannot stop the real ranks. */
cclResult_t ccl_bootstrap_get_id(cclUniqueId *id);

/* The id of the rendezvous at where ("host:port", "[v6]:port"), the same for everybody who asks on this machine; serve: open it, as above. Joining it
 * waits until somebody serves. Its secret follows from where: whoever can reach the address may join. cclInvalidArgument: where is no address. */
cclResult_t ccl_bootstrap_id_at(const char *where, bool serve, cclUniqueId *id);

/* Join. cclInvalidArgument: the id is no libccl id; cclInvalidUsage: another rank gave a different nranks, the same rank came twice, or
 * a rank runs on another machine or with another library version (named). */
cclResult_t ccl_bootstrap_create(const cclUniqueId *id, int rank, int nranks, uint64_t timeout_ns,
                                 struct ccl_bootstrap **out);
/* Form children of parent: color -1 takes part and gets *out = NULL. Order by key, ties by parent rank. ranks: caller's array of parent
 * size; on success ranks[i] is the parent rank of the child's rank i (child size entries). */
cclResult_t ccl_bootstrap_split(struct ccl_bootstrap *parent, int color, int key, uint64_t timeout_ns, int *ranks,
                                struct ccl_bootstrap **out);
/* ranks: [count], ascending ranks of parent, this one among them, that form *out in this order. Collective over them; parent's other ranks are not asked,
 * and parent may be broken. */
cclResult_t ccl_bootstrap_shrink(const struct ccl_bootstrap *parent, const int *ranks, int count, uint64_t timeout_ns, struct ccl_bootstrap **out);
/* While *flag is true, waits of the calling thread end as if their deadline had passed. NULL: no such flag. */
void ccl_bootstrap_set_cancel(const bool *flag);
/* Local; NULL is fine. Peers that are still inside an exchange see this rank as gone. */
void ccl_bootstrap_destroy(struct ccl_bootstrap *boot);

int ccl_bootstrap_rank(const struct ccl_bootstrap *boot);
int ccl_bootstrap_size(const struct ccl_bootstrap *boot);
/* Process id of a rank as seen from here; 0 when it cannot be seen (another pid namespace). */
pid_t ccl_bootstrap_peer_pid(const struct ccl_bootstrap *boot, int rank);
/* The socket to rank 0 (at rank 0: -1), for watching only: readable with end-of-file when that process is gone. */
int ccl_bootstrap_watch_fd(const struct ccl_bootstrap *boot);

/* data: [size][bytes], own entry filled; all entries filled on return. bytes equal on all ranks, at most 1 MiB. */
cclResult_t ccl_bootstrap_allgather(struct ccl_bootstrap *boot, void *data, size_t bytes);
/* Pass nfds (equal on all ranks, 1..8) open descriptors to everybody: out is [size][nfds], the own entries are set to -1, the others are
 * new descriptors owned by the caller. The sent ones stay the caller's. On failure no descriptor leaks. An entry of fds may be -1: its
 * receivers get -1. */
cclResult_t ccl_bootstrap_exchange_fds(struct ccl_bootstrap *boot, const int *fds, int nfds, int *out);
/* Every rank gives its own result so far and gets the agreed one: cclSuccess only if all succeeded, else the code of the lowest failing
 * rank. The error text on the other ranks names that rank and carries its text (ccl_error_last). */
cclResult_t ccl_bootstrap_agree(struct ccl_bootstrap *boot, cclResult_t mine);
cclResult_t ccl_bootstrap_barrier(struct ccl_bootstrap *boot);

#endif
