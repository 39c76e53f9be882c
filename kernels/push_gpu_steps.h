/* SPDX-License-Identifier: MIT
 *
 * The words of a channel on a GPU, and staging: chunks through rings in lockstep with the peers' blocks (included by push_gpu_body.h). */
#ifndef CCL_PUSH_GPU_STEPS_H
#define CCL_PUSH_GPU_STEPS_H

/* ---- channels: rotation of item i of a block; destinations first, then sources ---- */

struct push_ends {
    uint32_t to, from, num_to, num; /* first rotations; destinations; both together */
};

CCL_DEVICE struct push_ends push_ends_of(const struct push_job *job, uint32_t to_first)
{
    struct push_ends e;
    e.to = to_first > 1 ? to_first : 1;
    e.from = job->ch.from_first > 1 ? job->ch.from_first : 1;
    e.num_to = job->ch.to_last > e.to ? job->ch.to_last - e.to : 0;
    e.num = e.num_to + (job->ch.from_last > e.from ? job->ch.from_last - e.from : 0);
    return e;
}

/* First warp, behind a release of the block: `full` {n, step} to the direct destinations from to_first on. */
CCL_DEVICE void push_post(CCL_ARGS a, const struct push_block *b, uint32_t to_first, uint32_t to_last, uint32_t step)
{
    ccl_flag_release_system();
    for (uint32_t d = (to_first > 1 ? to_first : 1) + ccl_tid(); d < to_last; d += CCL_WARP) {
        if (b->end[d].base) {
            ccl_store_relaxed_system_u64(ccl_full_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), b->job.block, a->rank),
                                         CCL_TAGGED(b->job.n, step));
        }
    }
}

/* What the first word of a source says: that it stages, or that it stores directly and DONE will follow, or that something is wrong. */
CCL_DEVICE_SLOW void push_see(CCL_ARGS a, struct push_shared *sh, uint32_t bad, uint32_t value, uint32_t src)
{
    if (bad || value == CCL_STEP_LEFT) {
        push_set_bad(a, sh, bad ? bad : CCL_BAD_LEFT, src);
    } else if (value < CCL_STEP_DIRECT) {
        sh->drain = 1;
    } else if (value != CCL_STEP_DONE) {
        sh->late = 1;
    }
}

/* First warp: wait until every source has reached `want`. */
CCL_DEVICE void push_await(CCL_ARGS a, struct push_block *b, uint32_t want)
{
    const uint32_t first = b->job.ch.from_first > 1 ? b->job.ch.from_first : 1;
    for (uint32_t d = first + ccl_tid(); d < b->job.ch.from_last; d += CCL_WARP) {
        uint32_t src = ccl_rotate(a, d), bad = CCL_BAD_NONE;
        if ((b->end[d].at != 0 && b->end[d].at < CCL_STEP_DIRECT) || b->end[d].at == CCL_STEP_DONE) {
            continue; /* it stages, and all its chunks are in; or it is done */
        }
        uint64_t addr = ccl_full_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, src);
        uint32_t value = CCL_VALUE(ccl_wait_word(a, addr, b->job.n, want, src, 0, &bad));
        b->end[d].at = value;
        push_see(a, b->sh, bad, value, src);
        if (ccl_wave_any(b->sh->bad)) {
            break;
        }
    }
}

/* ---- staged ---- */

/* First warp: all waits of step s at once. Free slots for chunk s, if it is pushed; chunk s - lag of every source, if it stages. */
CCL_DEVICE void push_step_wait(CCL_ARGS a, struct push_block *b, struct push_ends e, uint32_t pushes, uint32_t s, uint32_t lag)
{
    const uint32_t slots = a->lay.slots;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    for (uint32_t i = ccl_tid(); i < e.num; i += CCL_WARP) {
        const uint32_t to = i < e.num_to, d = to ? e.to + i : e.from + i - e.num_to, peer = ccl_rotate(a, d);
        const uint32_t want = to ? s - slots + 1 : s - lag + 1;
        uint32_t bad = CCL_BAD_NONE;
        if (to ? pushes && s >= slots && b->end[d].base == 0 : s >= lag && b->end[d].at < want) {
            uint64_t addr = to ? ccl_credit_addr(a, me, b->job.block, peer) : ccl_full_addr(a, me, b->job.block, peer);
            uint32_t value = CCL_VALUE(ccl_wait_word(a, addr, b->job.n, want, peer, 0, &bad));
            if (!to) {
                b->end[d].at = value;
            }
            bad = bad == CCL_BAD_NONE && value == CCL_STEP_LEFT ? (uint32_t)CCL_BAD_LEFT : bad;
            if (bad) {
                push_set_bad(a, b->sh, bad, peer);
            }
        }
        if (ccl_wave_any(bad)) {
            break;
        }
    }
}

/* First warp, behind a release of the block: the words of step s. The last chunk is also the end of what was stored directly. Credits nobody
 * waits for are not sent (Q). */
CCL_DEVICE void push_step_post(CCL_ARGS a, const struct push_block *b, struct push_ends e, uint32_t pushes, uint32_t s,
                               uint32_t lag)
{
    const uint32_t chunks = b->job.chunks;
    ccl_flag_release_system();
    for (uint32_t i = ccl_tid(); i < e.num; i += CCL_WARP) {
        const uint32_t to = i < e.num_to, d = to ? e.to + i : e.from + i - e.num_to;
        const uint64_t ctl = ccl_peer_ctl(a, ccl_rotate(a, d));
        if (to && pushes && (b->end[d].base == 0 || s + 1 == chunks)) {
            ccl_store_relaxed_system_u64(ccl_full_addr(a, ctl, b->job.block, a->rank),
                                         CCL_TAGGED(b->job.n, b->end[d].base == 0 ? s + 1 : CCL_STEP_DONE));
        } else if (!to && s >= lag && s - lag + a->lay.slots < chunks && b->end[d].at < CCL_STEP_DIRECT) {
            ccl_store_relaxed_system_u64(ccl_credit_addr(a, ctl, b->job.block, a->rank), CCL_TAGGED(b->job.n, s - lag + 1));
        }
    }
}

CCL_DEVICE uint64_t push_slot_for(CCL_ARGS a, const struct push_block *b, uint32_t d, uint32_t c)
{
    uint64_t ctl = ccl_peer_ctl(a, a->lay.shared_ring ? a->rank : ccl_rotate(a, d));
    return push_slot(a, ctl, a->rank, b->job.block, c);
}

/* Chunk c to every destination from to_first on; a shared ring is written once. flat: v holds it. */
CCL_DEVICE void push_chunk(CCL_ARGS a, const struct push_block *b, const uint32_t flat, struct push_flat f, uint32_t to_first,
                           uint32_t c, const ccl_vec16 *v)
{
    const uint64_t index = b->job.first + (uint64_t)c * b->job.stride, at = index * a->flat_piece;
    const uint32_t reach = flat ? push_chunk_reach(a, f, at) : 0;
    const struct ccl_piece p = ccl_piece_at(a, flat ? 0 : index);
    uint32_t shared_written = 0;
#pragma unroll 1
    for (uint32_t d = ccl_uniform(to_first); d < b->job.ch.to_last; d++) {
        const uint64_t to = ccl_uniform_u64(b->end[d].base);
        const uint32_t ring = to == 0;
        if (ring && (d == 0 || shared_written)) {
            continue;
        }
        const uint64_t slot = ring ? push_slot_for(a, b, d, c) : 0;
        if (flat) {
            push_chunk_store(f, reach, ring ? slot : to + at, ring, v);
        } else {
            ccl_move_rows(ring ? slot : to + ccl_piece_dst(a, p), ring ? p.bytes : a->ld_dst, ccl_piece_src(a, p), a->ld_src,
                          p.rows, p.bytes, 0);
        }
        shared_written = ring && a->lay.shared_ring;
    }
}

CCL_DEVICE void push_drain(CCL_ARGS a, const struct push_block *b, const uint32_t flat, struct push_flat f, struct push_ends e,
                           uint32_t c)
{
    const uint64_t index = b->job.first + (uint64_t)c * b->job.stride, at = index * a->flat_piece;
    const uint32_t reach = flat ? push_chunk_reach(a, f, at) : 0;
    const struct ccl_piece p = ccl_piece_at(a, flat ? 0 : index);
#pragma unroll 1
    for (uint32_t d = ccl_uniform(e.from); d < b->job.ch.from_last; d++) {
        if (ccl_uniform(b->end[d].at) >= CCL_STEP_DIRECT) {
            continue;
        }
        const uint32_t src = ccl_rotate(a, d);
        const uint64_t part = a->dst + src * a->dst_part;
        const uint64_t slot = push_slot(a, ccl_peer_ctl(a, a->lay.shared_ring ? src : a->rank), src, b->job.block, c);
        if (flat) {
            push_chunk_drain(f, reach, part + at, slot);
        } else {
            ccl_move_rows(part + ccl_piece_dst(a, p), a->ld_dst, slot, p.bytes, p.rows, p.bytes, 0);
        }
    }
}

/* Steps of push and drain in lockstep with the peers' blocks: push chunk s, drain chunk s - lag, publish both. A step waits for words of
 * earlier steps only (lag < slots, lag >= 1). pushes: this block has destinations left, from rotation to_first on. flat: by push_flat.h, the next
 * chunk on its way from memory while the peers are waited for. Returns words_out. */
CCL_DEVICE uint32_t push_steps(CCL_ARGS a, struct push_block *b, const uint32_t flat, uint32_t to_first, uint32_t pushes)
{
    const uint32_t chunks = b->job.chunks, lag = a->lay.slots >= 4 ? 2 : 1;
    const struct push_flat f = push_flat_of(a, &b->job);
    struct push_ends e = push_ends_of(&b->job, to_first);
    ccl_vec16 v[CCL_CHUNK_UNITS];
    if (!pushes) {
        e.num -= e.num_to;
        e.num_to = 0;
    } else if (flat) {
        push_chunk_load(a, f, (uint64_t)b->job.first * a->flat_piece, v);
    }
    for (uint32_t s = pushes ? 0 : lag; s < chunks + lag; s++) {
        const uint32_t push_now = pushes && s < chunks;
        CCL_AFRESH(a);
        if (ccl_afresh(ccl_tid()) < CCL_WARP) {
            push_step_wait(a, b, e, push_now, s, lag);
        }
        ccl_block_sync();
        if (ccl_uniform(b->sh->bad) != CCL_BAD_NONE) {
            return !pushes || s >= chunks;
        }
        CCL_AFRESH(a);
        if (push_now) {
            push_chunk(a, b, flat, f, to_first, s, v);
        }
        if (s >= lag) {
            push_drain(a, b, flat, f, e, s - lag);
        }
        if (flat && pushes && s + 1 < chunks) {
            push_chunk_load(a, f, (b->job.first + (s + 1ull) * b->job.stride) * a->flat_piece, v);
        }
        ccl_block_release_system();
        CCL_AFRESH(a);
        if (ccl_afresh(ccl_tid()) < CCL_WARP) {
            push_step_post(a, b, e, push_now, s, lag);
        }
        if (push_now && s + 1 == chunks) {
            push_note(a, b->job.n, CCL_TRACE_SENT);
        }
    }
    return 1;
}

/* Out of line: they need registers of their own. */
CCL_DEVICE_SLOW uint32_t push_steps_flat(CCL_ARGS a, struct push_block b, uint32_t to_first, uint32_t pushes)
{
    return push_steps(a, &b, 1, to_first, pushes);
}

CCL_DEVICE_SLOW uint32_t push_steps_any(CCL_ARGS a, struct push_block b, uint32_t to_first, uint32_t pushes)
{
    return push_steps(a, &b, 0, to_first, pushes);
}

CCL_DEVICE uint32_t push_staged(CCL_ARGS a, struct push_block *b, uint32_t to_first, uint32_t pushes)
{
    const uint32_t flat = ccl_uniform(push_is_flat(a) && !(pushes && b->sh->odd));
    CCL_AFRESH(a);
    return flat ? push_steps_flat(a, *b, to_first, pushes) : push_steps_any(a, *b, to_first, pushes);
}

#endif
