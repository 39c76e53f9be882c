/* SPDX-License-Identifier: MIT
 *
 * From the bootstrap to the first operation: exchange what each rank is and wants, agree, lay out and share the control memory and the host
 * pages, start heap and monitor. A rank that fails in a step still enters the step's agreement, so its peers leave with the same error. */
#include "comm/comm_agree.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/config.h"
#include "util/log.h"
#include "util/shm.h"

/* To device memory, before anything else uses it. On a stream of its own: the default stream would wait for other streams' kernels, and must not be
 * used while one is being captured. */
static cclResult_t upload(cclComm_t comm, void *dst, const void *src, size_t bytes)
{
    struct cclStream *stream;
    if (comm->props.is_host) {
        memcpy(dst, src, bytes);
        return cclSuccess;
    }
    CCL_TRY(comm->rt->stream_create(&stream));
    cclResult_t rc = comm->rt->copy(dst, src, bytes, stream);
    rc = rc == cclSuccess ? comm->rt->stream_sync(stream) : rc;
    comm->rt->stream_destroy(stream);
    return rc;
}

/* Numbers of messages: each direction, stripe and peer; adverts seen. */
static size_t num_p2p_seqs(cclComm_t comm) { return (2 * (size_t)comm->p2p.stripes + 1) * (size_t)comm->n; }

static cclResult_t alloc_own(cclComm_t comm, int *page_fd)
{
    struct ccl_k_priv priv = {.op = 1ull << 32};
    _Static_assert(CCL_USER_BARRIERS == CCL_BARRIERS, "equal in kernels/args.h and ccl/device_types.h");
    size_t n = (size_t)comm->n;
    ccl_comm_layout(comm, &comm->args.lay);
    const size_t seqs = num_p2p_seqs(comm);
    comm->page_bytes = sizeof(struct ccl_k_page) + 2 * n * sizeof(struct ccl_k_err);
    comm->peer_page = calloc(n, sizeof(void *));
    comm->peer_ctl = calloc(n, sizeof(uint64_t));
    CCL_CHECK(comm->peer_page != NULL && comm->peer_ctl != NULL, cclSystemError, CCL_INIT, "out of memory for %d peers",
              comm->n);
    CCL_TRY(ccl_shm_create("ccl-page", comm->page_bytes, page_fd, (void **)&comm->page));
    comm->peer_page[comm->rank] = comm->page;
    CCL_TRY(comm->rt->mem_alloc(CCL_MEM_DATA, sizeof(priv), &comm->priv));
    CCL_TRY(ccl_comm_trace_alloc(comm, &priv));
    CCL_TRY(upload(comm, comm->priv, &priv, sizeof(priv)));
    CCL_TRY(comm->rt->mem_alloc(CCL_MEM_DATA, sizeof(struct ccl_k_comm) + (2 * n + seqs) * sizeof(uint64_t) + sizeof(comm->args),
                               &comm->tables));
    return comm->rt->chain_create(&comm->chain);
}

static void fill_template(cclComm_t comm)
{
    struct ccl_k_coll_args *a = &comm->args;
    a->rank = (uint32_t)comm->rank;
    a->n = (uint32_t)comm->n;
    a->priv = (uint64_t)comm->priv;
    a->comm = (uint64_t)comm->tables;
    a->spin = comm->agreed.spin;
    uint32_t by_value = comm->n <= CCL_VALUE_PEERS ? (uint32_t)comm->n : 0;
    for (uint32_t r = 0; r < by_value; r++) {
        a->peer[r].ctl = comm->peer_ctl[r];
    }
    comm->args_bytes = comm->props.is_host ? (uint32_t)(offsetof(struct ccl_k_coll_args, peer) +
                                                        by_value * sizeof(struct ccl_k_peer))
                                           : (uint32_t)sizeof(*a);
}

static cclResult_t map_pages(cclComm_t comm, const int *fds)
{
    size_t n = (size_t)comm->n;
    const size_t seqs = num_p2p_seqs(comm), most = seqs > 2 * n ? seqs : 2 * n;
    uint64_t *table = calloc(most, sizeof(uint64_t));
    cclResult_t rc = table != NULL ? cclSuccess : ccl_error_set(cclSystemError, CCL_INIT, "out of memory for tables");
    for (size_t r = 0; r < n && rc == cclSuccess; r++) {
        void *dev = NULL;
        if ((int)r != comm->rank) {
            CCL_TRY_GOTO(ccl_shm_map(fds[r], comm->page_bytes, &comm->peer_page[r]), done);
        }
        CCL_TRY_GOTO(comm->rt->host_register(comm->peer_page[r], comm->page_bytes, &dev), done);
        comm->pages_registered = (int)r + 1;
        table[r] = comm->peer_ctl[r];
        table[n + r] = (uint64_t)dev;
    }
    if (rc == cclSuccess) {
        uint64_t arrays = (uint64_t)comm->tables + sizeof(struct ccl_k_comm);
        struct ccl_k_comm k = {arrays, arrays + n * sizeof(uint64_t), ccl_heap_table(comm->heap)};
        comm->args.page = table[n + (size_t)comm->rank];
        CCL_TRY_GOTO(upload(comm, comm->tables, &k, sizeof(k)), done);
        CCL_TRY_GOTO(upload(comm, (void *)arrays, table, 2 * n * sizeof(uint64_t)), done);
        fill_template(comm);
        comm->p2p_seq = arrays + 2 * n * sizeof(uint64_t);
        memset(table, 0, most * sizeof(uint64_t));
        CCL_TRY_GOTO(upload(comm, (void *)comm->p2p_seq, table, seqs * sizeof(uint64_t)), done);
        comm->words.full = comm->p2p_seq + seqs * sizeof(uint64_t);
        CCL_TRY_GOTO(upload(comm, (void *)comm->words.full, &comm->args, sizeof(comm->args)), done);
    }
done:
    free(table);
    return rc;
}

static cclResult_t share_memory(cclComm_t comm)
{
    size_t n = (size_t)comm->n;
    int page_fd = -1;
    int *peer_fds = malloc(n * sizeof(int));
    cclResult_t rc = peer_fds != NULL ? alloc_own(comm, &page_fd)
                                      : ccl_error_set(cclSystemError, CCL_INIT, "out of memory for %d peers", comm->n);
    bool received = false;
    CCL_TRY_GOTO(ccl_bootstrap_agree(comm->boot, rc), done);
    CCL_TRY_GOTO(ccl_comm_share_ctl(comm), done);
    CCL_TRY_GOTO(ccl_bootstrap_exchange_fds(comm->boot, &page_fd, 1, peer_fds), done);
    received = true;
    rc = map_pages(comm, peer_fds);
    rc = ccl_bootstrap_agree(comm->boot, rc);
done:
    for (size_t i = 0; received && i < n; i++) {
        if (peer_fds[i] >= 0) {
            close(peer_fds[i]);
        }
    }
    if (page_fd >= 0) {
        close(page_fd);
    }
    free(peer_fds);
    return rc;
}

/* Ranks of one device take the offset that the first of them measured, so that their tracks differ by nothing. */
static cclResult_t share_clock(cclComm_t comm, const struct ccl_comm_hello *all)
{
    bool any = false;
    for (int r = 0; r < comm->n; r++) {
        any = any || all[r].traced;
    }
    if (!any) {
        return cclSuccess;
    }
    struct ccl_comm_clock *clocks = calloc((size_t)comm->n, sizeof(*clocks));
    cclResult_t rc = clocks != NULL ? cclSuccess : ccl_error_set(cclSystemError, CCL_INIT, "out of memory for %d clocks", comm->n);
    if (rc == cclSuccess && comm->trace != NULL) {
        rc = ccl_comm_trace_measure(comm, &clocks[comm->rank]);
    }
    CCL_TRY_GOTO(ccl_bootstrap_agree(comm->boot, rc), done);
    CCL_TRY_GOTO(ccl_bootstrap_allgather(comm->boot, clocks, sizeof(*clocks)), done);
    for (int r = comm->n - 1; r >= 0 && comm->trace != NULL; r--) {
        if (all[r].traced && all[r].device_uid == comm->props.uid) {
            ccl_comm_trace_set_clock(comm, &clocks[r]);
        }
    }
done:
    free(clocks);
    return rc;
}

cclResult_t ccl_comm_setup(cclComm_t comm, const cclConfig_t *config, cclComm_t parent, const int *ranks)
{
    cclResult_t rc;
    struct ccl_comm_hello *all = calloc((size_t)comm->n, sizeof(*all));
    ccl_comm_free_kept();
    rc = all != NULL ? ccl_comm_say_hello(comm, config, parent, &all[comm->rank])
                     : ccl_error_set(cclSystemError, CCL_INIT, "out of memory for %d ranks", comm->n);
    CCL_TRY_GOTO(ccl_bootstrap_agree(comm->boot, rc), done);
    CCL_TRY_GOTO(ccl_bootstrap_allgather(comm->boot, all, sizeof(*all)), done);
    CCL_TRY_GOTO(ccl_comm_agree(comm, all), done); /* same data, same verdict on all ranks */
    if (parent == NULL) {
        CCL_TRY_GOTO(ccl_heap_create(comm->rt, comm->boot, comm->agreed.chunk_bytes, &comm->heap), done);
    } else {
        CCL_TRY_GOTO(ccl_heap_split(parent->heap, comm->boot, ranks, comm->agreed.chunk_bytes, &comm->heap), done);
    }
    CCL_TRY_GOTO(share_memory(comm), done);
    if (comm->agreed.shared_host) {
        ccl_heap_set_shared_host(comm->heap);
    }
    CCL_TRY_GOTO(share_clock(comm, all), done);
    CCL_TRY_GOTO(ccl_monitor_attach(comm->boot, &ccl_comm_monitor_callbacks, comm, &comm->port), done);
    ccl_heap_set_port(comm->heap, comm->port);
    if (ccl_env_get()->stall_warn_s != 0 || ccl_env_get()->timeout_s != 0) {
        ccl_monitor_want_tick(comm->port, true);
    }
    rc = ccl_bootstrap_barrier(comm->boot);
done:
    free(all);
    return rc;
}

/* Peers that still wait for this rank learn that nothing more will come. */
static void close_page(cclComm_t comm)
{
    uint64_t late = __atomic_load_n(&comm->page->unclean, __ATOMIC_ACQUIRE);
    if (late != 0) {
        CCL_LOG(CCL_LOG_WARN, CCL_COLL,
                "rank %d left a failed operation while ranks of mask %#llx (modulo 64) could still store into its receive buffer or read its send buffer",
                comm->rank, (unsigned long long)late);
    }
    /* Pairs with the acquire in look() of host_wait.c: all words of this rank are out. Who still waits for one learns that none will come. */
    __atomic_store_n(&comm->page->state, CCL_PAGE_CLOSED, __ATOMIC_RELEASE);
    for (int r = 0; r < comm->n && comm->peer_page != NULL; r++) {
        if (r != comm->rank && comm->peer_page[r] != NULL) {
            comm->rt->host_wake(comm->peer_page[r]);
        }
    }
}

void ccl_comm_release(cclComm_t comm, bool unclean)
{
    struct ccl_mem_list kept = {NULL, 0};
    ccl_heap_leave(comm->heap); /* peers need not wait for our acknowledgements any more */
    ccl_monitor_detach(comm->port); /* no callback after this */
    if (comm->page != NULL) {
        close_page(comm); /* before anything is freed: freeing may wait for kernels of this process that wait for this rank */
    }
    if (comm->free_workspaces != NULL) {
        comm->free_workspaces(comm);
    }
    if (comm->heap != NULL) {
        ccl_heap_keep(comm->heap, &kept);
    }
    ccl_heap_destroy(comm->heap, unclean);
    if (comm->rt == NULL) {
        return;
    }
    /* By Q no peer stores to us after a clean end; after an unclean one late stores hit the peers' own mappings of the same memory, which the
     * system keeps as long as anybody maps it. Where it does not count them, peers say in their pages when they have closed theirs. */
    for (int r = 0; r < comm->n && !comm->keep_words; r++) {
        if (comm->peer_ctl != NULL && comm->peer_ctl[r] != 0 && r != comm->rank) {
            comm->rt->mem_close((void *)comm->peer_ctl[r]);
        }
        if (comm->peer_page != NULL && comm->peer_page[r] != NULL && comm->pages_registered > r) {
            comm->rt->host_unregister(comm->peer_page[r]);
        }
    }
    if (comm->page != NULL && !comm->keep_words) {
        __atomic_store_n(&comm->page->unmapped, 1, __ATOMIC_RELEASE); /* pairs with the acquire in all_unmapped() of comm_share.c */
    }
    if (!comm->keep_words) {
        comm->rt->mem_free(comm->priv);
        comm->rt->mem_free(comm->tables);
    }
    ccl_comm_trace_destroy(comm);
    comm->rt->chain_destroy(comm->chain);
    if (comm->own_stream != NULL) {
        comm->rt->stream_destroy(comm->own_stream);
    }
    if (comm->keep_words) {
        free(kept.ptr); /* what it names stays allocated, as do the words and pages */
    } else {
        ccl_comm_keep(comm, &kept);
    }
    ccl_comm_free_kept();
    free(comm->matmul_table);
    free(comm->peer_ctl);
    free(comm->peer_page);
}
