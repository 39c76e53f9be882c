/* SPDX-License-Identifier: MIT
 *
 * Where adverts, flags, LL lines and rings lie in the control memory of a rank: from what all ranks have agreed on, so equal on all. */
#include "comm/comm.h"

#include <string.h>

#define RING_TOTAL_BYTES (32u << 20)
#define RING_TOTAL_APART (64u << 20) /* NVIDIA, ranks on several devices: each peer has a ring of its own, and the way to it is long */
#define P2P_TOTAL_BYTES (8u << 20)
#define P2P_SLOTS 8u
#define P2P_TOTAL_GPU (32u << 20)
#define P2P_SLOTS_GPU 4u
#define P2P_LANES_A_BLOCK 4u
#define P2P_EAGER_SLOTS 8u /* so that a sender looks at an advert, which the receiver is writing, once in seven messages */
#define P2P_EAGER_MAX 512u /* a host's caches: rings of larger slots take more of them than an advert costs (1 KiB, 2 ranks: 0.95 us in a row, with adverts 0.33) */
#define P2P_EAGER_MAX_GPU 2048u
#define P2P_SLOT_MAX (16u << 10)
#if defined(CCL_RING_SLOTS)
#define RING_SLOTS CCL_RING_SLOTS /* tests */
#else
#define RING_SLOTS 2u
#endif
#define RING_SLOTS_AHEAD 4u /* NVIDIA: words are awaited and released while data move (kernels/push_gpu_ring.h) */
#define RING_SLOT_MAX (64u << 10) /* GPU: what a block of 512 threads moves in one go */
#define RING_SLOT_MIN (4u << 10)
#define ADVERT_LINE 64u
#define FLAG_ROW 64u /* the flag words of a block start on a line of their own */

static uint64_t carve(struct ccl_k_layout *lay, uint64_t bytes)
{
    uint64_t off = lay->bytes;
    lay->bytes = ccl_round_up(off + bytes, 4096);
    return off;
}

uint64_t ccl_comm_ll_src(cclComm_t comm)
{
    return ccl_comm_on_nvidia(comm) && comm->n <= CCL_LL_FEW ? CCL_LL_FEW_BYTES : CCL_LL_SRC_BYTES;
}

uint64_t ccl_comm_ll_cap(cclComm_t comm)
{
    return comm->props.is_host ? CCL_LL_SRC_BYTES - 64 : ccl_comm_ll_src(comm) / 2;
}

/* A GPU: as many stripes as give each block of a full grid a few, when all send to all and receive of all at once. */
static void layout_p2p(cclComm_t comm, struct ccl_k_layout *lay, uint64_t most)
{
    struct ccl_k_p2p_layout *p2p = &comm->p2p;
    const bool host = comm->props.is_host;
    const uint64_t n = (uint64_t)comm->n, blocks = (uint64_t)comm->agreed.blocks, lanes = 2 * (n > 1 ? n - 1 : 1);
    const uint64_t stripes = host || n == 1 ? 1 : P2P_LANES_A_BLOCK * blocks / lanes, total = host ? P2P_TOTAL_BYTES : P2P_TOTAL_GPU, largest = host ? P2P_SLOT_MAX : RING_SLOT_MAX;
    p2p->stripes = stripes < 1 ? 1 : stripes < CCL_P2P_STRIPES_MAX ? (uint32_t)stripes : CCL_P2P_STRIPES_MAX;
    p2p->slots = lay->slots > 1 ? (host ? P2P_SLOTS : P2P_SLOTS_GPU) : 1;
    p2p->slots = comm->agreed.ring_slots != CCL_UNSET && lay->slots < p2p->slots ? lay->slots : p2p->slots;
    const uint64_t channels = n * p2p->stripes;
    uint64_t slot = total / (channels * p2p->slots) / RING_SLOT_MIN * RING_SLOT_MIN;
    most = (most < largest ? most : largest) / RING_SLOT_MIN * RING_SLOT_MIN;
    slot = slot > most ? most : slot;
    p2p->slot_bytes = (uint32_t)(slot < RING_SLOT_MIN ? RING_SLOT_MIN : slot);
    p2p->adv = carve(lay, channels * ADVERT_LINE);
    p2p->full = carve(lay, channels * lay->flag_stride);
    p2p->credit = carve(lay, channels * lay->flag_stride);
    p2p->ring = carve(lay, channels * p2p->slots * p2p->slot_bytes);
    p2p->eager_slots = P2P_EAGER_SLOTS;
    p2p->eager_max = host ? P2P_EAGER_MAX : P2P_EAGER_MAX_GPU;
    p2p->eager = carve(lay, n * p2p->eager_slots * CCL_P2P_EAGER_PITCH(p2p->eager_max));
}

void ccl_comm_layout(cclComm_t comm, struct ccl_k_layout *lay)
{
    uint64_t n = (uint64_t)comm->n, blocks = (uint64_t)comm->agreed.blocks;
    memset(lay, 0, sizeof(*lay));
    const bool host = comm->props.is_host, nvidia = ccl_comm_on_nvidia(comm);
    uint64_t most = RING_SLOT_MAX, total = RING_TOTAL_BYTES;
    lay->flag_stride = comm->props.flag_stride;
    lay->flag_row = (uint32_t)ccl_round_up(n * lay->flag_stride, FLAG_ROW);
    lay->blocks = (uint32_t)blocks;
    lay->slots = nvidia && RING_SLOTS > 1 ? RING_SLOTS_AHEAD : RING_SLOTS;
    lay->slots = comm->agreed.ring_slots != CCL_UNSET ? (uint32_t)comm->agreed.ring_slots : lay->slots;
    lay->slots = !host && lay->slots < 2 ? 2 : lay->slots; /* a step pushes one chunk and drains an older one */
    most = comm->agreed.ring_slot_bytes != CCL_UNSET ? (uint64_t)comm->agreed.ring_slot_bytes : most;
    lay->shared_ring = comm->agreed.shared_ring;
    total = nvidia && !lay->shared_ring ? RING_TOTAL_APART : total;
    uint64_t rings = blocks * lay->slots * (lay->shared_ring ? 1 : n);
    uint64_t slot = total / rings;
    slot = (slot > most ? most : slot) / RING_SLOT_MIN * RING_SLOT_MIN;
    lay->slot_bytes = (uint32_t)(slot < RING_SLOT_MIN ? RING_SLOT_MIN : slot);
    lay->adv = carve(lay, 2 * n * ADVERT_LINE);
    lay->full = carve(lay, blocks * lay->flag_row);
    lay->credit = carve(lay, blocks * lay->flag_row);
    lay->ll = carve(lay, 2 * n * ccl_comm_ll_src(comm) + (host ? CCL_AHEAD_SLOTS * n * sizeof(struct ccl_k_ahead_line) : 0));
    lay->ring = carve(lay, rings * lay->slot_bytes);
    layout_p2p(comm, lay, most);
    lay->user = carve(lay, (CCL_SIGNALS + CCL_BARRIERS * n) * lay->flag_stride);
}
