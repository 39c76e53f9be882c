/* SPDX-License-Identifier: MIT
 *
 * How a rank of the host backend waits for a word another rank will store: poll for a moment, then sleep on the futex `bell` of its own host
 * page. No wake-up is lost: the sleeper raises `waiting` before its last look at the word, the publisher looks at `waiting` after it has stored
 * the word, and between the two accesses of either side stands a full fence: its own, or on the publisher's fast path the one the sleeper
 * forces with membarrier (tests/model/bell.pml checks both forms). */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

#define LOOK_EVERY 8             /* polls between two looks at abort, death and the other protocol's word */
#define SLEEP_NS 100000000       /* a sleeper looks again this often whatever happens */
#define STALL_NS 1000000000u     /* a wait this long is shown in the host page */

void ccl_host_membarrier(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

int ccl_host_membarrier_init(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void ccl_host_wake(uint64_t page_addr)
{
    struct ccl_k_page *page = (struct ccl_k_page *)page_addr;
    /* seq_cst: after the store of the word, before the sleeper's futex compares the bell */
    __atomic_fetch_add(&page->bell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &page->bell, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0);
}

static int arrived(uint64_t addr, uint32_t tag, uint32_t want)
{
    uint64_t w = ccl_load_acquire_system_u64(addr);
    return CCL_TAG(w) == tag && CCL_VALUE(w) >= want;
}

/* Another word than the one waited for says that its writer is in the operation. */
static int shows(uint64_t addr, uint32_t tag, uint64_t other)
{
    return other != addr && CCL_TAG(ccl_load_acquire_system_u64(other)) == tag;
}

static int shows_ahead(const struct ccl_k_coll_args *a, uint64_t addr, uint32_t tag, uint32_t peer)
{
    return (a->flags & CCL_F_AHEAD) && shows(addr, tag, (uint64_t)&ccl_ahead_line(a, ccl_peer_ctl(a, a->rank), tag, peer)->word);
}

/* Reasons to stop waiting. Death counts only if the word has not come: the peer may have stored it and ended. */
static uint32_t look(const struct ccl_k_coll_args *a, uint64_t addr, uint32_t tag, uint32_t want, uint32_t peer,
                     uint64_t alt)
{
    const struct ccl_k_page *page = (const struct ccl_k_page *)a->page;
    if (ccl_load_acquire_system_u64((uint64_t)&page->abort) != 0) {
        return arrived(addr, tag, want) ? CCL_BAD_NONE : CCL_BAD_STOP;
    }
    if (ccl_load_acquire_system_u64((uint64_t)&page->dead[peer / 64]) >> (peer % 64) & 1) {
        return arrived(addr, tag, want) ? CCL_BAD_NONE : CCL_BAD_DEAD;
    }
    const struct ccl_k_page *theirs = (const struct ccl_k_page *)ccl_peer_page(a, peer);
    if (__atomic_load_n(&theirs->state, __ATOMIC_ACQUIRE) == CCL_PAGE_CLOSED) {
        return arrived(addr, tag, want) ? CCL_BAD_NONE : CCL_BAD_LEFT; /* it has destroyed its communicator */
    }
    uint64_t other = alt != 0 ? ccl_load_acquire_system_u64(alt) : 0;
    if (alt != 0 && CCL_TAG(other) == tag) {
        uint32_t bad = CCL_VALUE(other) == CCL_SIG_REVOKED ? CCL_BAD_LEFT : CCL_BAD_MISMATCH;
        return arrived(addr, tag, want) ? CCL_BAD_NONE : bad;
    }
    if (alt != 0 && (shows(addr, tag, ccl_ll_addr(a, ccl_peer_ctl(a, a->rank), tag, peer) + 56) || shows_ahead(a, addr, tag, peer))) {
        return arrived(addr, tag, want) ? CCL_BAD_NONE : CCL_BAD_MISMATCH;
    }
    return CCL_BAD_NONE;
}

uint32_t ccl_host_sleep_begin(const struct ccl_k_coll_args *a)
{
    struct ccl_k_page *page = (struct ccl_k_page *)a->page;
    uint32_t bell = __atomic_load_n(&page->bell, __ATOMIC_ACQUIRE);
    __atomic_fetch_add(&page->waiting, 1, __ATOMIC_SEQ_CST); /* pairs with ccl_notify */
    if (!(a->flags & CCL_F_FENCE)) {
        ccl_host_membarrier();
    }
    ccl_fence_sc_system();
    return bell;
}

void ccl_host_sleep_end(const struct ccl_k_coll_args *a, uint32_t bell, int sleeps)
{
    struct ccl_k_page *page = (struct ccl_k_page *)a->page;
    const struct timespec limit = {0, SLEEP_NS};
    if (sleeps) {
        syscall(SYS_futex, &page->bell, FUTEX_WAIT, bell, &limit, NULL, 0);
    }
    __atomic_fetch_sub(&page->waiting, 1, __ATOMIC_SEQ_CST);
}

static void sleep_once(const struct ccl_k_coll_args *a, uint64_t addr, uint32_t tag, uint32_t want, uint32_t peer,
                       uint64_t alt)
{
    uint32_t bell = ccl_host_sleep_begin(a);
    ccl_host_sleep_end(a, bell, !arrived(addr, tag, want) && look(a, addr, tag, want, peer, alt) == CCL_BAD_NONE);
}

uint32_t ccl_host_wait(const struct ccl_k_coll_args *a, uint64_t addr, uint32_t tag, uint32_t want, uint32_t peer,
                       uint64_t alt)
{
    struct ccl_k_page *page = (struct ccl_k_page *)a->page;
    uint32_t bad = CCL_BAD_NONE;
    for (uint32_t polls = 1; polls <= a->spin; polls++) {
        ccl_spin(a->flags);
        if (arrived(addr, tag, want)) {
            return CCL_BAD_NONE;
        }
        if (polls % LOOK_EVERY == 0 && (bad = look(a, addr, tag, want, peer, alt)) != CCL_BAD_NONE) {
            return bad;
        }
    }
    const struct ccl_host_block *block = ccl_block;
    uint64_t start = ccl_clock_ns();
    uint64_t shown = (uint64_t)tag << 32 | (peer + 1);
    if (block->idle != NULL) {
        block->idle(); /* other ranks of this process may need a thread to get anywhere */
    }
    while (!arrived(addr, tag, want) && (bad = look(a, addr, tag, want, peer, alt)) == CCL_BAD_NONE) {
        sleep_once(a, addr, tag, want, peer, alt);
        if (ccl_clock_ns() - start > STALL_NS) {
            __atomic_store_n(&page->stalled, shown, __ATOMIC_RELAXED); /* again and again: other blocks may wait too */
        }
    }
    ccl_replace_relaxed_system_u64((uint64_t)&page->stalled, shown, 0);
    return bad;
}
