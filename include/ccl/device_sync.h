/* SPDX-License-Identifier: MIT
 *
 * How users' own kernels agree with their peers (included by ccl/device.h): signals, waits, barriers over all ranks. A function with `block` or `grid` in its
 * name is called by all threads of a block (of all blocks), with equal arguments; others by any thread. A wait or barrier that fails
 * returns not 0; then nothing may be assumed of the peers, and the kernel should end. */
#ifndef CCL_DEVICE_SYNC_H
#define CCL_DEVICE_SYNC_H

#include "device_comm.h"

#if defined(CCL_ON_HOST)
#include <sched.h>
#endif

/* ---- signals ---- */

/* Signal word index (below CCL_SIGNALS) of a rank, as mapped here. Any aligned 64-bit word of heap memory will do as a signal as well. */
CCL_DEVICE uint64_t *ccl_signal(const cclDeviceComm_t *dev, uint32_t rank, uint32_t index)
{
    return (uint64_t *)(ccl_load_relaxed_system_u64(dev->ctl + (uint64_t)rank * 8) + dev->signals +
                        (uint64_t)index * dev->word_stride);
}

/* By one thread: what this thread has stored and seen before can be seen by who waits for the word. */
CCL_DEVICE void ccl_signal_set_release_system(uint64_t *word, uint64_t value)
{
    ccl_atomic_store_release_system_u64(word, value);
}

CCL_DEVICE void ccl_signal_add_release_system(uint64_t *word, uint64_t value)
{
    ccl_atomic_add_release_system_u64(word, value);
}

/* By all threads of a block: what the block has stored before can be seen by who waits for the word. */
CCL_DEVICE void ccl_signal_set_block_system(cclBlock_t b, uint64_t *word, uint64_t value)
{
    ccl_settle_block_system();
    if (b.thread == 0) {
        ccl_tell_system(word, value);
    }
}

CCL_DEVICE void ccl_signal_add_block_system(cclBlock_t b, uint64_t *word, uint64_t value)
{
    ccl_settle_block_system();
    if (b.thread == 0) {
#if defined(CCL_ON_AMD)
        ccl_atomic_add_relaxed_system_u64(word, value);
#else
        ccl_atomic_add_release_system_u64(word, value);
#endif
    }
}

/* ---- waits ---- */

enum { CCL_WAIT_DONE = 0, CCL_WAIT_FAILED = 1 /* the communicator has failed or was aborted */, CCL_WAIT_PEER_GONE = 2 };

CCL_DEVICE uint32_t ccl_is_gone(const cclDeviceComm_t *dev, uint32_t peer, uint32_t left_counts)
{
    uint64_t dead = ccl_load_acquire_system_u64(dev->page + dev->dead + peer / 64 * 8) >> (peer % 64) & 1;
    if (!dead && !left_counts) {
        return 0;
    }
    uint64_t theirs = ccl_load_relaxed_system_u64(dev->pages + (uint64_t)peer * 8);
    uint32_t left = ccl_atomic_load_acquire_system_u32((const uint32_t *)(theirs + dev->state)) != 0;
    return left_counts ? dead || left : dead && !left;
}

/* Why a wait for peer would never end; CCL_WAIT_DONE: no reason. With CCL_ANY_PEER a rank that has died counts, one that has
 * destroyed its communicator in good order does not. Reads host memory: seldom. */
CCL_DEVICE uint32_t ccl_trouble(const cclDeviceComm_t *dev, uint32_t peer)
{
    if (ccl_load_acquire_system_u64(dev->page) != 0) {
        return CCL_WAIT_FAILED;
    }
    for (uint32_t r = peer != CCL_ANY_PEER ? peer : 0; r < (peer != CCL_ANY_PEER ? peer + 1 : dev->n); r++) {
        if (ccl_is_gone(dev, r, peer != CCL_ANY_PEER)) {
            return CCL_WAIT_PEER_GONE;
        }
    }
    return CCL_WAIT_DONE;
}

CCL_DEVICE void ccl_relax(uint32_t polls)
{
#if defined(CCL_ON_AMD)
    (void)polls;
    __builtin_amdgcn_s_sleep(1);
#elif defined(CCL_ON_HOST)
    if (polls > 100) {
        sched_yield(); /* the peer may need this core */
    }
#else
    (void)polls;
#endif
}

CCL_DEVICE uint32_t ccl_is_there(uint64_t word, uint64_t value, uint32_t equal)
{
    return equal ? word == value : (int64_t)(word - value) >= 0;
}

CCL_DEVICE uint32_t ccl_wait_word_acquire_system(const cclDeviceComm_t *dev, const uint64_t *word, uint64_t value, uint32_t equal,
                                                 uint32_t peer)
{
    for (uint32_t polls = 1; !ccl_is_there(ccl_atomic_load_acquire_system_u64(word), value, equal); polls++) {
        ccl_relax(polls);
        if ((polls & 1023) == 0) {
            uint32_t why = ccl_trouble(dev, peer);
            if (why != CCL_WAIT_DONE) { /* it may have stored the word and ended */
                return ccl_is_there(ccl_atomic_load_acquire_system_u64(word), value, equal) ? (uint32_t)CCL_WAIT_DONE : why;
            }
        }
    }
    return CCL_WAIT_DONE;
}

/* By one thread, with acquire: until the word equals value, or is not behind it (a difference of less than 2^63 either way). peer: the rank that
 * will store it, or CCL_ANY_PEER. Returns enum CCL_WAIT_*: not 0 when it will never come. */
CCL_DEVICE uint32_t ccl_wait_eq_acquire_system(const cclDeviceComm_t *dev, const uint64_t *word, uint64_t value, uint32_t peer)
{
    return ccl_wait_word_acquire_system(dev, word, value, 1, peer);
}

CCL_DEVICE uint32_t ccl_wait_ge_acquire_system(const cclDeviceComm_t *dev, const uint64_t *word, uint64_t value, uint32_t peer)
{
    return ccl_wait_word_acquire_system(dev, word, value, 0, peer);
}

/* By all threads of a block, all of which then see what was released before the word. Not 0, in all threads: it will never come. */
CCL_DEVICE uint32_t ccl_wait_eq_block_system(const cclDeviceComm_t *dev, cclBlock_t b, const uint64_t *word, uint64_t value,
                                             uint32_t peer)
{
    uint32_t why = ccl_any_block(b.thread == 0 ? ccl_wait_word_acquire_system(dev, word, value, 1, peer) : 0);
    ccl_acquire_block_system();
    return why;
}

CCL_DEVICE uint32_t ccl_wait_ge_block_system(const cclDeviceComm_t *dev, cclBlock_t b, const uint64_t *word, uint64_t value,
                                             uint32_t peer)
{
    uint32_t why = ccl_any_block(b.thread == 0 ? ccl_wait_word_acquire_system(dev, word, value, 0, peer) : 0);
    ccl_acquire_block_system();
    return why;
}

/* ---- barriers over all ranks ---- */

/* Word of barrier index at rank, written by src. */
CCL_DEVICE uint64_t *ccl_barrier_word(const cclDeviceComm_t *dev, uint32_t index, uint32_t rank, uint32_t src)
{
    return (uint64_t *)(ccl_load_relaxed_system_u64(dev->ctl + (uint64_t)rank * 8) + dev->barriers +
                        ((uint64_t)index * dev->n + src) * dev->word_stride);
}

/* Tell all ranks that this one has come to epoch, and wait for them; by one block of this rank, which has settled. */
CCL_DEVICE uint32_t ccl_meet_block_system(const cclDeviceComm_t *dev, cclBlock_t b, uint32_t index, uint64_t epoch)
{
    uint32_t why = CCL_WAIT_DONE;
    for (uint32_t d = 1 + b.thread; d < dev->n; d += b.threads) {
        uint32_t peer = (dev->rank + d) % dev->n;
        ccl_tell_system(ccl_barrier_word(dev, index, peer, dev->rank), epoch);
    }
    for (uint32_t d = 1 + b.thread; d < dev->n && why == CCL_WAIT_DONE; d += b.threads) {
        uint32_t peer = (dev->rank + d) % dev->n;
        why = ccl_wait_word_acquire_system(dev, ccl_barrier_word(dev, index, dev->rank, peer), epoch, 0, peer);
    }
    why = ccl_any_block(why);
    ccl_acquire_block_system();
    return why;
}

/* One block of each rank: every rank has come, and what its block stored before can be seen by the blocks that leave. index below CCL_BARRIERS:
 * barriers that may run at the same time need different ones, and each index is used by all ranks or none. Not 0, in all threads: some rank will never
 * come. */
CCL_DEVICE uint32_t ccl_barrier_block_system(const cclDeviceComm_t *dev, cclBlock_t b, uint32_t index)
{
    uint64_t *epoch = (uint64_t *)dev->priv + index;
    const uint64_t next = ccl_atomic_load_relaxed_agent_u64(epoch) + 1;
    ccl_settle_block_system(); /* and every thread has read the epoch */
    uint32_t why = ccl_meet_block_system(dev, b, index, next);
    if (b.thread == 0 && why == CCL_WAIT_DONE) {
        ccl_atomic_store_relaxed_agent_u64(epoch, next);
    }
    ccl_wait_block();
    return why;
}

#define CCL_EPOCH_FAILED (1ull << 62)

/* The same for all blocks of the grid on each rank. They must all be able to run at the same time (on the CPU: a thread each), else those that run
 * wait for ever. Grids of different ranks may differ in size. The last block in meets the other ranks and then lets the others go. */
CCL_DEVICE uint32_t ccl_barrier_grid_system(const cclDeviceComm_t *dev, cclBlock_t b, uint32_t index)
{
    uint64_t *epoch = (uint64_t *)dev->priv + index, *arrived = epoch + CCL_BARRIERS;
    const uint64_t next = ccl_atomic_load_relaxed_agent_u64(epoch) + 1;
    uint32_t last = 0, why = CCL_WAIT_DONE;
    ccl_settle_block_system();
    if (b.thread == 0) {
        last = ccl_atomic_add_acq_rel_system_u64(arrived, 1) == b.blocks - 1;
    }
    if (!ccl_any_block(last)) {
        why = ccl_wait_ge_block_system(dev, b, epoch, next, CCL_ANY_PEER);
        return why != CCL_WAIT_DONE ? why : (ccl_atomic_load_relaxed_agent_u64(epoch) & CCL_EPOCH_FAILED) != 0;
    }
    ccl_acquire_block_system();
    ccl_settle_block_system(); /* what the other blocks stored goes out with this block's words */
    why = ccl_meet_block_system(dev, b, index, next);
    ccl_settle_block_system();
    if (b.thread == 0) {
        ccl_atomic_store_relaxed_system_u64(arrived, 0);
        ccl_atomic_store_release_system_u64(epoch, why == CCL_WAIT_DONE ? next : next + CCL_EPOCH_FAILED);
    }
    ccl_wait_block();
    return why;
}

#endif
