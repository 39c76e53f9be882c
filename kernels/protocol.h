/* SPDX-License-Identifier: MIT
 *
 * The pieces every collective kernel is made of: operation number, adverts, waits, scrub. Names and invariants (S, A, E, R, Q, D) are
 * those of docs/kernels.md. Tags are compared for equality, only steps by order. */
#ifndef CCL_PROTOCOL_H
#define CCL_PROTOCOL_H

#include "kernel.h"

/* Tests narrow the tag (CCL_TAG_BITS), so that it wraps in seconds. All numbers a kernel handles are reduced; op itself counts on. */
#if defined(CCL_TAG_BITS)
#define CCL_TAG_MASK ((1u << CCL_TAG_BITS) - 1)
#define CCL_SCRUB_EVERY 1u
#else
#define CCL_SCRUB_EVERY 64u /* an operation that scrubs takes some round trips longer */
#define CCL_TAG_MASK 0xffffffffu
#endif
#define CCL_TAGGED(n, value) ((uint64_t)(n) << 32 | (uint32_t)(value))
#define CCL_TAG(word) ((uint32_t)((word) >> 32))
#define CCL_VALUE(word) ((uint32_t)(word))

/* Why a wait ended early; 0 = it did not. */
enum ccl_bad { CCL_BAD_NONE, CCL_BAD_STOP, CCL_BAD_DEAD, CCL_BAD_LEFT, CCL_BAD_MISMATCH, CCL_BAD_NO_WINDOW, CCL_BAD_PLACE };

/* All lanes that have stopped waiting, known: what is written down already. Does this one's reason count? CCL_BAD_STOP must not hide another one, also not of a lane
 * that writes in the same instruction. */
CCL_DEVICE uint32_t ccl_reports(uint32_t bad, uint32_t known)
{
    const uint32_t better = ccl_wave_any(bad != CCL_BAD_STOP); /* asked by all of them, not behind a || */
    return bad != CCL_BAD_STOP || (known == CCL_BAD_NONE && !better);
}

CCL_DEVICE uint64_t ccl_peer_ctl(CCL_ARGS a, uint32_t rank)
{
    return a->n <= CCL_VALUE_PEERS ? a->peer[rank].ctl
                                   : CCL_PTR(const uint64_t, CCL_PTR(const struct ccl_k_comm, a->comm)->ctl)[rank];
}

CCL_DEVICE uint64_t ccl_peer_page(CCL_ARGS a, uint32_t rank)
{
    return CCL_PTR(const uint64_t, CCL_PTR(const struct ccl_k_comm, a->comm)->page)[rank];
}

CCL_DEVICE uint32_t ccl_rotate(CCL_ARGS a, uint32_t d)
{
    uint32_t r = a->rank + d;
    return r >= a->n ? r - a->n : r;
}

/* The same where the number of ranks may be compiled in (world, at most 8; 0: it is not): no table, no loop. */
CCL_DEVICE uint32_t ccl_ranks(CCL_ARGS a, uint32_t world) { return world ? world : a->n; }
CCL_DEVICE uint64_t ccl_ctl_in(CCL_ARGS a, uint32_t world, uint32_t rank) { return world ? a->peer[rank].ctl : ccl_peer_ctl(a, rank); }
CCL_DEVICE uint32_t ccl_rotate_in(CCL_ARGS a, uint32_t world, uint32_t d)
{
    uint32_t r = a->rank + d, n = ccl_ranks(a, world);
    return r >= n ? r - n : r;
}

/* Line of 8 words that src's advert for operation n takes at the rank whose control memory starts at ctl. */
CCL_DEVICE uint64_t ccl_advert_addr(CCL_ARGS a, uint64_t ctl, uint32_t n, uint32_t src)
{
    return ctl + a->lay.adv + ((uint64_t)(n & 1) * a->n + src) * 64;
}

CCL_DEVICE uint64_t ccl_full_addr(CCL_ARGS a, uint64_t ctl, uint32_t block, uint32_t src)
{
    return ctl + a->lay.full + (uint64_t)block * a->lay.flag_row + src * a->lay.flag_stride;
}

CCL_DEVICE uint64_t ccl_credit_addr(CCL_ARGS a, uint64_t ctl, uint32_t block, uint32_t src)
{
    return ctl + a->lay.credit + (uint64_t)block * a->lay.flag_row + src * a->lay.flag_stride;
}

/* LL scratch of one source and parity, bytes. */
#if defined(CCL_ON_NVIDIA) || defined(FAKE_CUDA) /* the latter: host kernels in tests/fake_gpu */
#define CCL_LL_SRC(ranks) ((ranks) <= CCL_LL_FEW ? (uint32_t)CCL_LL_FEW_BYTES : (uint32_t)CCL_LL_SRC_BYTES)
#else
#define CCL_LL_SRC(ranks) ((void)(ranks), (uint32_t)CCL_LL_SRC_BYTES)
#endif

CCL_DEVICE uint64_t ccl_ll_addr(CCL_ARGS a, uint64_t ctl, uint32_t n, uint32_t src)
{
    return ctl + a->lay.ll + ((uint64_t)(n & 1) * a->n + src) * CCL_LL_SRC(a->n);
}

#if defined(CCL_ON_HOST)
CCL_DEVICE struct ccl_k_ahead_line *ccl_ahead_line(CCL_ARGS a, uint64_t ctl, uint32_t n, uint32_t src)
{
    struct ccl_k_ahead_line *first = (struct ccl_k_ahead_line *)(ctl + a->lay.ll + 2 * (uint64_t)a->n * CCL_LL_SRC(a->n));
    return first + (uint64_t)(n % CCL_AHEAD_SLOTS) * a->n + src;
}
#endif

/* ---- waiting ---- */

#if defined(CCL_ON_HOST)

/* kernels/host_wait.c: sleeps until the word may have changed; returns enum ccl_bad. */
uint32_t ccl_host_wait(const struct ccl_k_coll_args *a, uint64_t addr, uint32_t tag, uint32_t want, uint32_t peer,
                       uint64_t alt);
/* Full memory fence on every running thread of every process that uses the library. */
void ccl_host_membarrier(void);

/* Sleeping for any of several words: begin, one more look at all of them, end; end sleeps (100 ms at most) if the look found nothing. */
uint32_t ccl_host_sleep_begin(const struct ccl_k_coll_args *a);
void ccl_host_sleep_end(const struct ccl_k_coll_args *a, uint32_t bell, int sleeps);

/* Wait until the word has tag and at least the step want, with acquire. alt: a second word of the same peer that shows, by carrying
 * tag, that the peer called something else (so do, on the host, the words of the other kinds of operations); 0 = none. Returns the word; *bad as above. */
CCL_DEVICE uint64_t ccl_wait_word(CCL_ARGS a, uint64_t addr, uint32_t tag, uint32_t want, uint32_t peer, uint64_t alt,
                                  uint32_t *bad)
{
    uint64_t w = ccl_load_acquire_system_u64(addr);
    if (__builtin_expect(CCL_TAG(w) != tag || CCL_VALUE(w) < want, 0)) {
        *bad = ccl_host_wait(a, addr, tag, want, peer, alt);
        w = ccl_load_acquire_system_u64(addr);
    }
    return w;
}

/* After all words of a step have been stored: wake those peers that sleep. Dekker with the sleeper's `waiting`, then its look at the
 * word: either both sides fence (CCL_F_FENCE), or the sleeper forces the fence upon us with membarrier. */
CCL_DEVICE void ccl_notify_fence(CCL_ARGS a)
{
    if (a->flags & CCL_F_FENCE) {
        ccl_fence_sc_system();
    } else {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }
}

CCL_DEVICE void ccl_notify(CCL_ARGS a, uint32_t rank)
{
    struct ccl_k_page *page = (struct ccl_k_page *)ccl_peer_page(a, rank);
    if (__builtin_expect(__atomic_load_n(&page->waiting, __ATOMIC_RELAXED) != 0, 0)) {
        ccl_host_wake((uint64_t)page);
    }
}

/* Between two tasks of a block: somebody has failed, or the communicator is aborted. */
CCL_DEVICE uint32_t ccl_told_to_stop(CCL_ARGS a)
{
    return (uint32_t)ccl_load_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->priv)->stop) != 0 ||
           ccl_load_relaxed_system_u64((uint64_t) & ((const struct ccl_k_page *)a->page)->abort) != 0;
}

#else

/* Every 64 polls a device word, every 1024 one lane a warp looks at host pages: reads of them cost 0.5 to 1 us and serialise. Death, and a peer that has
 * destroyed its communicator, count only if the word is not there on a second look: it may have stored it before. */
CCL_DEVICE_SLOW uint32_t ccl_slow_poll(CCL_ARGS a, uint64_t addr, uint32_t tag, uint32_t want, uint32_t peer, uint32_t polls)
{
    CCL_AFRESH(a);
    peer = ccl_afresh(peer);
    uint64_t stop = (uint64_t)&((struct ccl_k_priv *)a->priv)->stop;
    uint32_t bad = CCL_BAD_NONE;
    if ((uint32_t)ccl_load_relaxed_agent_u64(stop)) {
        return CCL_BAD_STOP;
    }
    if ((polls & 1023) != 0) {
        return CCL_BAD_NONE;
    }
    const struct ccl_k_page *p = (const struct ccl_k_page *)a->page;
    if (ccl_load_relaxed_system_u64((uint64_t)&p->abort)) {
        ccl_or_relaxed_agent_u64(stop, 1);
        return CCL_BAD_STOP;
    }
    if (ccl_load_acquire_system_u64((uint64_t)&p->dead[peer / 64]) >> (peer % 64) & 1) { /* acquire: the second look comes behind it */
        bad = CCL_BAD_DEAD;
    } else if (peer != a->rank) {
        /* acquire: pairs with the release of ccl_comm_release, behind all words of that rank. Low half of the two words: state. */
        const struct ccl_k_page *theirs = (const struct ccl_k_page *)ccl_peer_page(a, peer);
        bad = (uint32_t)ccl_load_acquire_system_u64((uint64_t)&theirs->state) == CCL_PAGE_CLOSED ? CCL_BAD_LEFT : CCL_BAD_NONE;
    }
    if (bad != CCL_BAD_NONE) {
        uint64_t w = ccl_load_acquire_system_u64(addr);
        bad = CCL_TAG(w) == tag && CCL_VALUE(w) >= want ? CCL_BAD_NONE : bad;
    }
    return bad;
}

/* Lanes of a wave leave together; with the error of one the others have CCL_BAD_STOP, if their words are not there. */
CCL_DEVICE uint64_t ccl_wait_word(CCL_ARGS a, uint64_t addr, uint32_t tag, uint32_t want, uint32_t peer, uint64_t alt,
                                  uint32_t *bad)
{
    uint64_t w = ccl_load_acquire_system_u64(addr);
    uint32_t waits = CCL_TAG(w) != tag || CCL_VALUE(w) < want;
    (void)alt;
    for (uint32_t polls = 1; ccl_wave_any(waits); polls++) {
        if (waits) {
            ccl_pause();
            *bad = (polls & 63) == 0 ? ccl_slow_poll(a, addr, tag, want, peer, polls) : (uint32_t)CCL_BAD_NONE;
            w = ccl_load_acquire_system_u64(addr);
            waits = CCL_TAG(w) != tag || CCL_VALUE(w) < want;
            *bad = waits ? *bad : (uint32_t)CCL_BAD_NONE;
        }
        if (ccl_wave_any(*bad)) {
            *bad = waits && *bad == CCL_BAD_NONE ? (uint32_t)CCL_BAD_STOP : *bad;
            break;
        }
    }
    return w;
}

CCL_DEVICE void ccl_notify_fence(CCL_ARGS a) { (void)a; }
CCL_DEVICE void ccl_notify(CCL_ARGS a, uint32_t rank) { (void)a, (void)rank; }
/* The waits of other blocks look at the host page. */
CCL_DEVICE uint32_t ccl_told_to_stop(CCL_ARGS a)
{
    return (uint32_t)ccl_load_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->priv)->stop) != 0;
}

#endif

/* The two fences of the drain argument (D): a rank's adverts, then its look at a peer's advert; a failing rank's revocation, then its look at
 * that peer's advert. One of the two must see the other. On the CPU the fast side can do without, because the failing side forces a full
 * fence on every running thread (membarrier). */
CCL_DEVICE void ccl_fence_advert_system(CCL_ARGS a)
{
#if defined(CCL_ON_HOST)
    ccl_notify_fence(a);
#else
    (void)a;
    ccl_fence_sc_system();
#endif
}

CCL_DEVICE void ccl_fence_revoke_system(CCL_ARGS a)
{
#if defined(CCL_ON_HOST)
    if (!(a->flags & CCL_F_FENCE)) {
        ccl_host_membarrier();
    }
#endif
    (void)a;
    ccl_fence_sc_system();
}

/* ---- operation number ---- */

/* One thread a block: draw this block's place in the launch. Returns {n:32, stopped:1, position:31}; the last block in bumps the number, so
 * that all blocks of a launch hold the same n and nothing is left to do at exit (S). */
CCL_DEVICE uint64_t ccl_enter_at(uint64_t priv)
{
    uint64_t op_addr = (uint64_t) & ((struct ccl_k_priv *)priv)->op;
    uint32_t grid = ccl_grid();
    uint64_t old;
    if (grid == 1) {
        old = ccl_load_relaxed_agent_u64(op_addr);
        if (!(old & CCL_OP_STOPPED)) {
            ccl_store_relaxed_agent_u64(op_addr, old + (1ull << 32));
        }
    } else {
        old = ccl_add_relaxed_agent_u64(op_addr, 1);
        if (((uint32_t)old & ~CCL_OP_STOPPED) == grid - 1) {
            ccl_add_relaxed_agent_u64(op_addr, (1ull << 32) - grid);
        }
    }
    return old & ((uint64_t)CCL_TAG_MASK << 32 | 0xffffffffu);
}

CCL_DEVICE uint64_t ccl_enter(CCL_ARGS a) { return ccl_enter_at(a->priv); }

/* ---- adverts ---- */

CCL_DEVICE uint32_t ccl_advert_value(CCL_ARGS a, uint32_t w)
{
    switch (w) {
    case 0: return a->sig;
    case 1: return a->desc.word1;
    case 2:
    case 4: return (uint32_t)a->part_bytes;
    case 3:
    case 5: return (uint32_t)(a->part_bytes >> 32);
    case 6: return (uint32_t)a->where;
    default: return (uint32_t)(a->where >> 32);
    }
}

#include CCL_ADVERT_BODY

/* The same where every rank sends the same to all. */
CCL_DEVICE uint32_t ccl_advert_wait(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t peer, uint32_t words, uint64_t *where)
{
    return ccl_advert_wait_for(a, world, n, peer, words, a->part_bytes, a->part_bytes, 0, where);
}

/* ---- scrub ---- */

/* A word that a peer may be storing for operation n: tag n-2 unless it carries n already. Tag n in an LL word or an advert means "this peer is in
 * n, running that protocol" to whoever waits for the other one, so it must neither be made up nor be lost. */
CCL_DEVICE void ccl_scrub_word(uint64_t addr, uint32_t n)
{
    uint64_t w = ccl_load_relaxed_system_u64(addr);
    if (CCL_TAG(w) != n) {
        ccl_replace_relaxed_system_u64(addr, w, CCL_TAGGED((n - 2) & CCL_TAG_MASK, 0));
    }
}

/* A flag word that operation n does not use: tag n, unless its writer has put something there meanwhile. LEFT of n+1 may come at any time, since who
 * fails tells all that he leaves without having heard from them. */
CCL_DEVICE void ccl_scrub_flag(uint64_t addr, uint32_t n)
{
    uint64_t w = ccl_load_relaxed_system_u64(addr);
    if (CCL_TAG(w) != n && CCL_TAG(w) != ((n + 1) & CCL_TAG_MASK)) {
        ccl_replace_relaxed_system_u64(addr, w, CCL_TAGGED(n, 0));
    }
}

#if defined(CCL_ON_HOST)
/* Peers may be ahead: only a tag that is far from n is old. It becomes one that no reader of this slot waits for. */
CCL_DEVICE void ccl_scrub_ahead(CCL_ARGS a, uint32_t n, uint32_t at)
{
    const uint32_t slot = at % CCL_AHEAD_SLOTS;
    const uint64_t addr = (uint64_t)&ccl_ahead_line(a, ccl_peer_ctl(a, a->rank), slot, at / CCL_AHEAD_SLOTS)->word, w = ccl_load_relaxed_system_u64(addr);
    const uint32_t from_n = (CCL_TAG(w) - n) & CCL_TAG_MASK;
    if (from_n > 2 * CCL_AHEAD_SLOTS && from_n < CCL_TAG_MASK - 2 * CCL_AHEAD_SLOTS) {
        ccl_replace_relaxed_system_u64(addr, w, CCL_TAGGED((n - n % CCL_AHEAD_SLOTS + slot + 1) & CCL_TAG_MASK, 0));
    }
}
#endif

/* Which turn of the scrub operation n is; turns of even and odd operations differ. False: n scrubs nothing. */
CCL_DEVICE int ccl_scrub_turn(uint32_t n, uint32_t *turn)
{
    *turn = 2 * (n / 2 / CCL_SCRUB_EVERY) + (n & 1);
#if defined(CCL_NO_SCRUB)
    return 0; /* a test that must fail */
#endif
    return n / 2 % CCL_SCRUB_EVERY == 0;
}

/* Every word that operation n does not use gets a recent tag now and then, so that none keeps an old one until the tag comes round again: in
 * two of 2 x CCL_SCRUB_EVERY operations one LL line, the advert words of one peer, and one flag word. ll_bytes: in use of the LL lines of each source.
 * advert_words: so many of an advert are in use. Rows below used_rows are in use. The longest period of a CPU, 64 x 2 x 128 blocks x 1024 ranks
 * operations, is far below 2^32; a GPU's LL lines take 2^29. */
CCL_DEVICE_SLOW void ccl_scrub_now(CCL_ARGS a, uint32_t n, uint32_t turn, uint32_t ll_bytes, uint32_t advert_words, uint32_t used_rows)
{
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    for (uint32_t w = advert_words; w < 8; w++) {
        ccl_scrub_word(ccl_advert_addr(a, me, n, turn / 2 % a->n) + 8 * w, n);
    }
#if defined(CCL_ON_HOST)
    if (ll_bytes == 0) { /* one tag word a source and parity: the data behind it never count as tags */
        ccl_scrub_word(ccl_ll_addr(a, me, n, turn / 2 % a->n) + 56, n);
    }
    if (a->flags & CCL_F_AHEAD) {
        ccl_scrub_ahead(a, n, turn / 2 % (CCL_AHEAD_SLOTS * a->n));
    }
#else
    const uint32_t lines = CCL_LL_SRC(a->n) / 64, at = turn / 2 % (a->n * lines);
    for (uint32_t i = 0; i < 8 && at % lines * 64 >= ll_bytes; i++) {
        ccl_store_relaxed_system_u64(ccl_ll_addr(a, me, n, 0) + (uint64_t)at * 64 + 8 * i, CCL_TAGGED(n, 0));
    }
#endif
    uint32_t words = a->lay.blocks * a->n, x = turn % (2 * words), block = x % words / a->n;
    if (block >= used_rows) {
        ccl_scrub_flag(x < words ? ccl_full_addr(a, me, block, x % a->n) : ccl_credit_addr(a, me, block, x % a->n), n);
    }
}

CCL_DEVICE void ccl_scrub(CCL_ARGS a, uint32_t n, uint32_t ll_bytes, uint32_t advert_words, uint32_t used_rows)
{
    uint32_t turn;
    if (__builtin_expect(ccl_scrub_turn(n, &turn), 0)) {
        ccl_scrub_now(a, n, turn, ll_bytes, advert_words, used_rows);
    }
}

#endif
