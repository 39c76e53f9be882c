/* SPDX-License-Identifier: MIT
 *
 * From the bootstrap to the first operation: exchange what each rank is and wants, agree, lay out and share the control memory and the host
 * pages, start heap and monitor. A rank that fails in a step still enters the step's agreement, so its peers leave with the same error. */
#include "comm/comm.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "util/config.h"
#include "util/log.h"
#include "util/shm.h"

#define CPU_WORDS 16u
#define STREAMS_A_RANK 4 /* a program's and ours; the runtime deals out its queues in turn */

/* What a rank tells the others about itself. */
struct hello {
    uint64_t device_uid, world_id;
    uint64_t process_id; /* random; equal for the ranks of one process */
    uint64_t cpus[CPU_WORDS]; /* processors its threads may use */
    int64_t ll_max, host_spin, chunk_mb;
    int32_t ring_slots, ring_slot_bytes;
    int32_t capacity, shared_host; /* blocks that its device runs at once; it wants shared host memory */
    int32_t matrix_core, matrix_capacity; /* enum ccl_matrix_core, blocks of its kernels that the device runs at once */
    int32_t whole;                 /* the limit of its blocks was named, so it may take the whole device */
    int32_t version, is_host, forced_fence, max_blocks, variant, comm_sms, host_threads, traced, queues, lone;
    char backend[24];
};

const char *const ccl_variant_names[CCL_NUM_VARIANTS] = {"auto", "ll", "direct", "staged", "partitioned", "copy"};

static cclResult_t parse_variant(const char *text, int32_t *variant)
{
    for (int i = 0; text != NULL && i < CCL_NUM_VARIANTS; i++) {
        if (strcmp(text, ccl_variant_names[i]) == 0) {
            *variant = i;
            return cclSuccess;
        }
    }
    CCL_CHECK(text == NULL, cclInvalidArgument, CCL_INIT,
              "CCL_VARIANT is %s, not auto, ll, direct, staged, partitioned or copy", text);
    *variant = cclVariantAuto;
    return cclSuccess;
}

static uint64_t process_id;
static pthread_once_t process_once = PTHREAD_ONCE_INIT;

static void draw_process_id(void)
{
    if (getrandom(&process_id, sizeof(process_id), 0) != sizeof(process_id)) {
        process_id = (uint64_t)getpid();
    }
}

static bool is_amd(const struct ccl_device_props *props)
{
    return strncmp(props->arch, "gfx", 3) == 0;
}

static cclResult_t say_hello(cclComm_t comm, const cclConfig_t *config, cclComm_t parent, struct hello *h)
{
    const struct ccl_env *env = ccl_env_get();
    cpu_set_t set;
    CCL_TRY(ccl_runtime_get(&comm->rt));
    CCL_TRY(comm->rt->device_get(&comm->device));
    CCL_TRY(comm->rt->device_props(comm->device, &comm->props));
    CCL_TRY(parse_variant(env->variant, &h->variant));
    CCL_CHECK(getrandom(&h->world_id, sizeof(h->world_id), 0) == sizeof(h->world_id), cclSystemError, CCL_INIT,
              "getrandom failed");
    pthread_once(&process_once, draw_process_id);
    h->process_id = process_id;
    h->queues = (int32_t)(is_amd(&comm->props) ? env->hip_queues : env->cuda_queues);
    h->lone = env->nccl_multi_rank == 0;
    h->version = CCL_VERSION;
    h->device_uid = comm->props.uid;
    h->is_host = comm->props.is_host;
    h->forced_fence = comm->props.forced_fence;
    h->capacity = comm->props.max_blocks;
    h->matrix_core = (int32_t)comm->props.matrix_core;
    h->matrix_capacity = comm->props.matrix_blocks;
    h->max_blocks = comm->props.is_host ? comm->props.max_blocks : CCL_MAX_BLOCKS;
    if (env->max_blocks != CCL_UNSET) {
        h->max_blocks = (int32_t)env->max_blocks;
        h->whole = true;
    }
    h->shared_host = parent != NULL ? parent->agreed.shared_host : !comm->props.is_host && strcmp(env->heap_mem, "host") == 0;
    h->comm_sms = (int32_t)env->comm_sms;
    h->ll_max = env->ll_max;
    h->ring_slots = (int32_t)env->ring_slots;
    h->ring_slot_bytes = (int32_t)env->ring_slot_bytes;
    h->host_spin = env->host_spin;
    h->host_threads = (int32_t)env->host_threads;
    h->chunk_mb = env->heap_chunk_mb;
    CCL_TRY(ccl_comm_trace_create(comm, config, parent != NULL && parent->trace != NULL));
    h->traced = comm->trace != NULL;
    strncpy(h->backend, comm->rt->name, sizeof(h->backend) - 1);
    if (parent != NULL) {
        h->variant = parent->agreed.variant;
        h->chunk_mb = (int64_t)(parent->agreed.chunk_bytes >> 20);
        h->max_blocks = parent->agreed.blocks;
    }
    if (config != NULL) {
        h->variant = config->variant != CCL_UNSET ? config->variant : h->variant;
        h->chunk_mb = config->heap_chunk_mb != CCL_UNSET ? config->heap_chunk_mb : h->chunk_mb;
        h->whole = h->whole || config->max_blocks != CCL_UNSET;
        h->max_blocks = config->max_blocks != CCL_UNSET ? config->max_blocks : h->max_blocks;
    }
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        for (unsigned i = 0; i < CPU_WORDS * 64; i++) {
            if (CPU_ISSET(i, &set)) {
                h->cpus[i / 64] |= 1ull << (i % 64);
            }
        }
    }
    return cclSuccess;
}

/* Largest part that auto gives to LL. Between two H200, 128 KiB take 3.5 us by LL and 6.2 us directly. On CPUs where ranks outnumber cores a handshake costs
 * task switches, so LL is worth its second copy for longer. */
static int64_t default_ll_max(const struct cclComm *comm, bool is_host, bool crowded)
{
    if (!is_host) {
        return comm->n <= 4 && !comm->agreed.shared_ring && ccl_comm_on_nvidia(comm) ? 128 << 10 : 64 << 10;
    }
    return crowded ? 4 << 10 : 256;
}

static int sharing_ranks(const struct hello *all, int n, int rank)
{
    int sharing = 0;
    for (int r = 0; r < n; r++) {
        sharing += all[r].device_uid == all[rank].device_uid;
    }
    return sharing;
}

/* Blocks of one rank that run at the same time as those of all ranks on its device: a block that waits for a block that cannot start would wait for ever.
 * With as much room left for a second communicator of the same ranks, unless the caller has named a limit. */
static int resident_blocks(const struct hello *all, int n, int rank)
{
    const int sharing = sharing_ranks(all, n, rank);
    int blocks = all[rank].capacity / (all[0].whole ? sharing : 2 * sharing);
    return blocks > 1 ? blocks : 1;
}

/* The same for fused matrix products, which need the whole device to be fast: none is left for a second communicator. */
static int matrix_blocks(const struct hello *all, int n, int rank)
{
    int blocks = all[rank].matrix_capacity / sharing_ranks(all, n, rank);
    blocks = all[0].whole && all[rank].max_blocks < blocks ? all[rank].max_blocks : blocks;
    return blocks > 1 ? blocks : 1;
}

/* A kernel that waits for a peer holds its hardware queue. Ranks of one process on one device that share a queue would wait for ever. */
static cclResult_t check_queues(cclComm_t comm, const struct hello *all)
{
    for (int r = 0; r < comm->n && !all[r].is_host; r++) {
        int ranks = 0;
        for (int j = 0; j < comm->n; j++) {
            ranks += all[j].process_id == all[r].process_id && all[j].device_uid == all[r].device_uid;
        }
        CCL_CHECK(ranks <= all[r].queues, cclInvalidUsage, CCL_INIT,
                  "%d ranks share a process and a device with rank %d, but a process has %d hardware queues there: set %s to %d or more",
                  ranks, r, all[r].queues, is_amd(&comm->props) ? "GPU_MAX_HW_QUEUES" : "CUDA_DEVICE_MAX_CONNECTIONS", ranks);
        if (r == comm->rank && ranks > 1 && ranks * STREAMS_A_RANK > all[r].queues) {
            CCL_LOG(CCL_LOG_WARN, CCL_INIT,
                    "%d ranks share a process and a device that has %d hardware queues: streams of two ranks may get the same one and wait for each other; "
                    "set %s to %d",
                    ranks, all[r].queues, is_amd(&comm->props) ? "GPU_MAX_HW_QUEUES" : "CUDA_DEVICE_MAX_CONNECTIONS",
                    ranks * STREAMS_A_RANK < 32 ? 32 : ranks * STREAMS_A_RANK);
        }
    }
    return cclSuccess;
}

/* What NCCL refuses unless told otherwise is refused here where any rank was told so. */
static cclResult_t check_sharing(cclComm_t comm, const struct hello *all)
{
    bool lone = false;
    for (int r = 0; r < comm->n; r++) {
        lone = lone || all[r].lone;
    }
    for (int r = 0; lone && r < comm->n; r++) {
        for (int j = 0; j < r; j++) {
            CCL_CHECK(all[j].device_uid != all[r].device_uid, cclInvalidUsage, CCL_INIT,
                      "ranks %d and %d are on one device, which NCCL_MULTI_RANK_GPU_ENABLE=0 forbids", j, r);
        }
    }
    return cclSuccess;
}

static cclResult_t agree(cclComm_t comm, const struct hello *all)
{
    struct ccl_agreed *ag = &comm->agreed;
    uint64_t cpus[CPU_WORDS] = {0};
    int cores = 0, blocks = CCL_MAX_BLOCKS, forced_fence = 1;
    bool same_core = true;
    ag->shared_ring = true;
    for (int r = 0; r < comm->n; r++) {
        CCL_CHECK(strcmp(all[r].backend, all[0].backend) == 0, cclInvalidUsage, CCL_INIT,
                  "rank %d runs on backend %s, rank 0 on %s", r, all[r].backend, all[0].backend);
        ag->shared_ring = ag->shared_ring && all[r].device_uid == all[0].device_uid;
        forced_fence = forced_fence && all[r].forced_fence;
        ag->shared_host = ag->shared_host || all[r].shared_host;
        int most = all[r].is_host ? all[r].max_blocks : resident_blocks(all, comm->n, r);
        most = most < all[r].max_blocks ? most : all[r].max_blocks;
        blocks = most < blocks ? most : blocks;
        most = matrix_blocks(all, comm->n, r);
        ag->matrix_blocks = r == 0 || most < ag->matrix_blocks ? most : ag->matrix_blocks;
        ag->matrix_core = all[r].matrix_core == all[0].matrix_core ? (enum ccl_matrix_core)all[r].matrix_core : CCL_MATRIX_CORE_NONE;
        same_core = same_core && ag->matrix_core != CCL_MATRIX_CORE_NONE;
        for (unsigned i = 0; i < CPU_WORDS; i++) {
            cpus[i] |= all[r].cpus[i];
        }
    }
    CCL_TRY(check_sharing(comm, all));
    CCL_TRY(check_queues(comm, all));
    for (unsigned i = 0; i < CPU_WORDS; i++) {
        cores += __builtin_popcountll(cpus[i]);
    }
    bool crowded = comm->n > cores;
    ag->matrix_core = same_core ? ag->matrix_core : CCL_MATRIX_CORE_NONE;
    ag->world_id = all[0].world_id;
    ag->variant = all[0].variant;
    ag->comm_sms = all[0].comm_sms;
    ag->ring_slots = all[0].ring_slots;
    ag->ring_slot_bytes = all[0].ring_slot_bytes;
    ag->chunk_bytes = (size_t)all[0].chunk_mb << 20;
    /* The partitioned variant needs a block a rank. */
    ag->blocks = all[0].is_host && blocks < comm->n && comm->n <= CCL_MAX_BLOCKS ? comm->n : blocks;
    ag->ll_max = all[0].ll_max != CCL_UNSET ? all[0].ll_max : default_ll_max(comm, all[0].is_host, crowded);
    int threads = all[0].host_threads != 0 ? all[0].host_threads : cores / comm->n;
    ag->host_blocks = threads < 1 ? 1 : threads > ag->blocks ? ag->blocks : threads;
    ag->spin = all[0].host_spin != CCL_UNSET ? (uint32_t)all[0].host_spin : crowded ? 200 : 20000;
    ag->host_flags = (crowded || !forced_fence ? CCL_F_FENCE : 0u) | (crowded ? CCL_F_YIELD : 0u);
    CCL_LOG(CCL_LOG_INFO, CCL_INIT, "world of %d ranks on %d cores, backend %s, device %s, LL up to %lld bytes, %d blocks",
            comm->n, cores, comm->rt->name, comm->props.name, (long long)ag->ll_max, ag->blocks);
    return cclSuccess;
}

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

static cclResult_t alloc_own(cclComm_t comm, int *page_fd)
{
    struct ccl_k_priv priv = {.op = 1ull << 32};
    _Static_assert(CCL_USER_BARRIERS == CCL_BARRIERS, "equal in kernels/args.h and ccl/device_types.h");
    size_t n = (size_t)comm->n;
    ccl_comm_layout(comm, &comm->args.lay);
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
    CCL_TRY(comm->rt->mem_alloc(CCL_MEM_DATA, sizeof(struct ccl_k_comm) + 4 * n * sizeof(uint64_t) + sizeof(comm->args),
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
    uint64_t *table = calloc(2 * n, sizeof(uint64_t));
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
        memset(table, 0, 2 * n * sizeof(uint64_t));
        CCL_TRY_GOTO(upload(comm, (void *)comm->p2p_seq, table, 2 * n * sizeof(uint64_t)), done);
        comm->words.full = arrays + 4 * n * sizeof(uint64_t);
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
static cclResult_t share_clock(cclComm_t comm, const struct hello *all)
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
    struct hello *all = calloc((size_t)comm->n, sizeof(*all));
    ccl_comm_free_kept();
    rc = all != NULL ? say_hello(comm, config, parent, &all[comm->rank])
                     : ccl_error_set(cclSystemError, CCL_INIT, "out of memory for %d ranks", comm->n);
    CCL_TRY_GOTO(ccl_bootstrap_agree(comm->boot, rc), done);
    CCL_TRY_GOTO(ccl_bootstrap_allgather(comm->boot, all, sizeof(*all)), done);
    CCL_TRY_GOTO(agree(comm, all), done); /* same data, same verdict on all ranks */
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
