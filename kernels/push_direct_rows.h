/* SPDX-License-Identifier: MIT
 *
 * Direct push on a CPU (included by push.hip): a piece is small enough to stay in the core's own cache, so it is read once from memory and
 * stored to every destination in rotated order. base[d] is where this rank's part starts at the rank d steps on; 0 = skip (own part in
 * place). False: the communicator was aborted on the way; a part may take seconds, and peers that failed wait for our end. */
CCL_DEVICE uint32_t ccl_push_direct(CCL_ARGS a, uint32_t world, const uint64_t *base, uint32_t d_first, uint32_t d_last,
                                uint64_t first, uint64_t stride, uint64_t pieces)
{
    const uint32_t stream = a->flags & CCL_F_STREAM;
    (void)world;
    for (uint64_t i = first; i < pieces; i += stride) {
        if (__builtin_expect(ccl_load_relaxed_system_u64((uint64_t) & ((const struct ccl_k_page *)a->page)->abort) != 0, 0)) {
            return 0;
        }
        struct ccl_piece p = ccl_piece_at(a, i);
        uint64_t src = ccl_piece_src(a, p), off = ccl_piece_dst(a, p);
        for (uint32_t d = d_first; d < d_last; d++) {
            if (base[d]) {
                ccl_move_rows(base[d] + off, a->ld_dst, src, a->ld_src, p.rows, p.bytes, stream);
            }
        }
    }
    return 1;
}
