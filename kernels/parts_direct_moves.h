/* SPDX-License-Identifier: MIT
 *
 * Direct stores of parts.hip on NVIDIA: piece by piece, the destinations of a piece one after the other. */

CCL_DEVICE void parts_store_direct(CCL_PARTS p, const struct parts_block *b)
{
    CCL_ARGS a = &p->c;
    uint32_t chunks = 0;
    for (uint32_t d = 1; d < a->n; d++) {
        chunks = b->end[d].base != 0 && b->end[d].out > chunks ? b->end[d].out : chunks;
    }
    for (uint32_t c = 0; c < chunks; c++) {
        const uint64_t off = parts_off(p, b, c);
        for (uint32_t d = 1; d < a->n; d++) {
            if (b->end[d].base != 0 && c < b->end[d].out) {
                const struct ccl_k_pair *pair = parts_pair(p, ccl_rotate(a, d));
                const uint64_t left = pair->send_bytes - off;
                parts_move(b->end[d].base + off, a->src + pair->send_off + off, left < a->piece_bytes ? left : a->piece_bytes, 0);
            }
        }
    }
}
