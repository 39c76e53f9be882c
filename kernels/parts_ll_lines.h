/* SPDX-License-Identifier: MIT
 *
 * parts_ll on a CPU (included by parts_ll.hip); lines as in ll_line_body.h. Every rank stores a line to every other, an empty one
 * where it has nothing to send: so a rank that leaves n has heard from all (E), also where one rank sends and the others only receive. */
#include "ll_line.h"
#include "parts_begin.h"
#include "reduce_elements.h"

/* What rank src has for me lies in its line and behind it; my own part lies in the input, or scaled in my own line. */
struct parts_ll_inputs {
    uint64_t head[CCL_MAX_RANKS], rest[CCL_MAX_RANKS];
};

/* most: bytes of the part that stand in the line. */
CCL_DEVICE void parts_ll_send(CCL_PARTS p, uint64_t line, uint32_t most, CCL_CONST const struct ccl_k_pair *pair)
{
    const uint64_t src = p->c.src + pair->send_off, bytes = pair->send_bytes, head = bytes < most ? bytes : most;
    if (__builtin_expect(p->parts & CCL_PARTS_SCALED, 0)) {
        reduce_scale(p, line, src, head / p->esize);
        reduce_scale(p, line + 64, src + head, (bytes - head) / p->esize);
    } else if (bytes != 0) { /* a rank that sends nothing may have no buffer */
        ll_put(line, most, 0, src, bytes);
    }
}

/* lines: rank 0's; the others' are stride bytes apart. */
CCL_DEVICE_SLOW void parts_ll_join(CCL_PARTS p, uint64_t lines, uint64_t stride, uint32_t most)
{
    CCL_ARGS a = &p->c;
    struct parts_ll_inputs in;
    const uint64_t bytes = parts_pair(p, a->rank)->recv_bytes, head = bytes < most ? bytes : most;
    for (uint32_t r = 0; r < a->n; r++) {
        in.head[r] = lines + r * stride;
        in.rest[r] = in.head[r] + 64;
    }
    if (!(p->parts & CCL_PARTS_SCALED)) {
        in.head[a->rank] = a->src + parts_pair(p, a->rank)->send_off;
        in.rest[a->rank] = in.head[a->rank] + head;
    }
    const uint64_t head_to = a->dst, rest_to = a->dst + head;
    reduce_join(p, &head_to, 1, in.head, head / p->esize);
    reduce_join(p, &rest_to, 1, in.rest, (bytes - head) / p->esize);
}

/* My own part: into its place, or scaled into my line. */
CCL_DEVICE void parts_ll_own(CCL_PARTS p, uint64_t line, uint32_t most)
{
    CCL_ARGS a = &p->c;
    CCL_CONST const struct ccl_k_pair *own = parts_pair(p, a->rank);
    const uint32_t join = p->parts & CCL_PARTS_REDUCE;
    if (!join && own->recv_bytes != 0 && a->src + own->send_off != a->dst + own->recv_off) {
        memcpy((void *)(a->dst + own->recv_off), (const void *)(a->src + own->send_off), own->recv_bytes);
    } else if (join && (p->parts & CCL_PARTS_SCALED)) {
        parts_ll_send(p, line, most, own);
    }
}

#include "parts_ahead.h"

CCL_DEVICE void parts_ll_run(CCL_PARTS p)
{
    CCL_ARGS a = &p->c;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    const uint64_t entry = ccl_enter(a);
    const uint32_t n = CCL_TAG(entry), join = p->parts & CCL_PARTS_REDUCE;
    const struct ccl_channels none = {0, 0, 0, 0};
    CCL_CONST const struct ccl_k_pair *own = parts_pair(p, a->rank);
    if (__builtin_expect((uint32_t)entry & CCL_OP_STOPPED, 0)) {
        return; /* a replay after an error: nothing leaves, peers have seen abort */
    }
    if (ccl_bid() != 0) {
        return; /* a grid made for a GPU, of which there is a stand-in on the CPU */
    }
    if (p->parts & CCL_PARTS_AHEAD) {
        parts_ahead_run(p, n);
        return;
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_START);
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t peer = ccl_rotate(a, d);
        const uint64_t line = ccl_ll_addr(a, ccl_peer_ctl(a, peer), n, a->rank);
        parts_ll_send(p, line, LL_HEAD, parts_pair(p, peer));
        ccl_publish_system(line + LL_HEAD, CCL_TAGGED(n, a->sig)); /* pairs with ccl_wait_word below */
    }
    ccl_notify_fence(a);
    for (uint32_t d = 1; d < a->n; d++) {
        ccl_notify(a, ccl_rotate(a, d));
    }
    parts_ll_own(p, ccl_ll_addr(a, me, n, a->rank), LL_HEAD);
    ccl_scrub(a, n, CCL_LL_SRC_BYTES, 0, 0);
    CCL_TRACE_NOTE(a, n, CCL_TRACE_MET);
    CCL_TRACE_NOTE(a, n, CCL_TRACE_SENT);
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t src = ccl_rotate(a, d);
        uint32_t bad = CCL_BAD_NONE;
        const uint64_t line = ccl_ll_addr(a, me, n, src);
        const uint64_t w = ccl_wait_word(a, line + LL_HEAD, n, 0, src, ccl_advert_addr(a, me, n, src), &bad);
        if (__builtin_expect(bad != 0 || CCL_VALUE(w) != a->sig, 0)) {
            /* Peers store into scratch only, so there is nothing to drain; the words are out. */
            ccl_fail(a, n, 0, bad != 0 ? bad : CCL_BAD_MISMATCH, src, none, 0, 1);
            return;
        }
        if (!join && parts_pair(p, src)->recv_bytes != 0) {
            ll_get(line, LL_HEAD, 0, a->dst + parts_pair(p, src)->recv_off, parts_pair(p, src)->recv_bytes);
        }
    }
    if (join && own->recv_bytes != 0) {
        parts_ll_join(p, ccl_ll_addr(a, me, n, 0), CCL_LL_SRC(a->n), LL_HEAD);
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_END);
}
