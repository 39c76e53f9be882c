/* SPDX-License-Identifier: MIT
 *
 * What a rank says of itself, and what all make of what they have heard: blocks, rings, limits, variants. */
#include "comm/comm_agree.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "util/config.h"
#include "util/log.h"

#define STREAMS_A_RANK 4 /* a program's and ours; the runtime deals out its queues in turn */

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

cclResult_t ccl_comm_say_hello(cclComm_t comm, const cclConfig_t *config, cclComm_t parent, struct ccl_comm_hello *h)
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
        for (unsigned i = 0; i < CCL_COMM_CPU_WORDS * 64; i++) {
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

/* Of an all-gather of 8-byte words: twice the bytes, but no handshake. One H200, us by LL and directly (staged): 2 ranks, 256 KiB 2.9 and 5.4 (8.0), 1 MiB 5.0 and 6.1 (8.7);
 * 4 ranks, 256 KiB 5.9 and 8.9 (12.7), 512 KiB 9.7 and 9.5 (13.6), 1 MiB 20 and 11.7. Two devices: 512 KiB 6.4 and 7.4 (9.7), 1 MiB 9.6 and 8.8 (11.3). */
static int64_t default_ll_words_max(const struct cclComm *comm, int64_t ll_max)
{
    if (!ccl_comm_on_nvidia(comm) || comm->n < 2 || comm->n > CCL_LL_FEW) {
        return ll_max;
    }
    if (!comm->agreed.shared_ring) {
        return comm->n == 2 ? 512 << 10 : ll_max;
    }
    return comm->n == 2 ? 1 << 20 : 512 << 10;
}

/* Of other collectives between few ranks, part by part (us, on one H200 and on two; by rings or directly in brackets): all-to-all of 2 ranks, 512 KiB 9.3 (12.3) and 10.6 (12.3);
 * 4 ranks of a device, 256 KiB: all-to-all 24.6 (27.8), reduce-scatter 19.0 (21.7), broadcast 10.3 (15.6). */
static int64_t default_ll_parts_max(const struct cclComm *comm, int64_t ll_max)
{
    if (!ccl_comm_on_nvidia(comm) || comm->n < 2 || comm->n > CCL_LL_FEW) {
        return ll_max;
    }
    return comm->n == 2 ? 512 << 10 : comm->agreed.shared_ring ? 256 << 10 : ll_max;
}

/* Of an all-reduce in one hop by a kernel of its own: 2 ranks, 1 MiB 4.7 (11.6) and 8.7 (14.6, two devices); 4 of a device, 512 KiB 8.6 (18.3), 1 MiB 18.7; 8, 128 KiB 11.6
 * (21.5). Three and more devices, not measured: what takes about 5 us on the way. */
static int64_t default_ll_sum_max(const struct cclComm *comm)
{
    if (!ccl_comm_on_nvidia(comm) || comm->n < 2 || comm->n > 8) {
        return 0;
    }
    if (comm->n == 2) {
        return 1 << 20;
    }
    return comm->n <= CCL_LL_FEW ? (comm->agreed.shared_ring ? 512 << 10 : 256 << 10) : comm->agreed.shared_ring ? 128 << 10 : 64 << 10;
}

static int sharing_ranks(const struct ccl_comm_hello *all, int n, int rank)
{
    int sharing = 0;
    for (int r = 0; r < n; r++) {
        sharing += all[r].device_uid == all[rank].device_uid;
    }
    return sharing;
}

/* Blocks of one rank that run at the same time as those of all ranks on its device: a block that waits for a block that cannot start would wait for ever.
 * With as much room left for a second communicator of the same ranks, unless the caller has named a limit. */
static int resident_blocks(const struct ccl_comm_hello *all, int n, int rank)
{
    const int sharing = sharing_ranks(all, n, rank);
    int blocks = all[rank].capacity / (all[0].whole ? sharing : 2 * sharing);
    return blocks > 1 ? blocks : 1;
}

/* The same for fused matrix products, which need the whole device to be fast: none is left for a second communicator. */
static int matrix_blocks(const struct ccl_comm_hello *all, int n, int rank)
{
    int blocks = all[rank].matrix_capacity / sharing_ranks(all, n, rank);
    blocks = all[0].whole && all[rank].max_blocks < blocks ? all[rank].max_blocks : blocks;
    return blocks > 1 ? blocks : 1;
}

/* A kernel that waits for a peer holds its hardware queue. Ranks of one process on one device that share a queue would wait for ever. */
static cclResult_t check_queues(cclComm_t comm, const struct ccl_comm_hello *all)
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
static cclResult_t check_sharing(cclComm_t comm, const struct ccl_comm_hello *all)
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

cclResult_t ccl_comm_agree(cclComm_t comm, const struct ccl_comm_hello *all)
{
    struct ccl_agreed *ag = &comm->agreed;
    uint64_t cpus[CCL_COMM_CPU_WORDS] = {0};
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
        for (unsigned i = 0; i < CCL_COMM_CPU_WORDS; i++) {
            cpus[i] |= all[r].cpus[i];
        }
    }
    CCL_TRY(check_sharing(comm, all));
    CCL_TRY(check_queues(comm, all));
    for (unsigned i = 0; i < CCL_COMM_CPU_WORDS; i++) {
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
    const bool asked = all[0].ll_max != CCL_UNSET;
    ag->ll_max = asked ? all[0].ll_max : default_ll_max(comm, all[0].is_host, crowded);
    ag->ll_words_max = asked ? ag->ll_max : default_ll_words_max(comm, ag->ll_max);
    ag->ll_parts_max = asked ? ag->ll_max : default_ll_parts_max(comm, ag->ll_max);
    /* Broadcast of 2 ranks, 1 MiB: 10.0 (11.9) and 9.5 (12.1, two devices). */
    ag->ll_one_way_max = !asked && comm->n == 2 && ccl_comm_on_nvidia(comm) ? 1 << 20 : ag->ll_parts_max;
    const int64_t sum_max = default_ll_sum_max(comm);
    ag->ll_sum_max = asked && sum_max != 0 ? ag->ll_max : sum_max;
    int threads = all[0].host_threads != 0 ? all[0].host_threads : cores / comm->n;
    ag->host_blocks = threads < 1 ? 1 : threads > ag->blocks ? ag->blocks : threads;
    ag->spin = all[0].host_spin != CCL_UNSET ? (uint32_t)all[0].host_spin : crowded ? 200 : 20000;
    ag->host_flags = (crowded || !forced_fence ? CCL_F_FENCE : 0u) | (crowded ? CCL_F_YIELD : 0u) | (all[0].is_host ? CCL_F_AHEAD : 0u);
    CCL_LOG(CCL_LOG_INFO, CCL_INIT, "world of %d ranks on %d cores, backend %s, device %s, LL up to %lld bytes, %d blocks",
            comm->n, cores, comm->rt->name, comm->props.name, (long long)ag->ll_max, ag->blocks);
    return cclSuccess;
}
