/* SPDX-License-Identifier: MIT
 *
 * Random all-gathers through the GPU bodies of the kernels (gpu_shim.h): shapes, pitches, tiles, grids, variants, buffers aligned to anything and on each
 * rank otherwise, in place, in and out of windows. Proves that every byte arrives, no other changes, and no access is misaligned. */
/* CTEST: labels quick; timeout 120 */
/* CTEST: labels long; timeout 900; args 4000 */
#include "gpu_shim.h"

#include "ll.hip"
#include "push.hip"

#include "gpu_world.h"

#define SLOT 4096u

static uint32_t of(const uint32_t *values, uint32_t count) { return values[dice(count)]; }

/* A tile as src/coll/plan.c cuts it, so that it fits a slot. */
static void draw_shape(struct call *c)
{
    static const uint32_t sizes[] = {1, 2, 4, 8}, alignments[] = {1, 2, 4, 8, 16}, widths[] = {1, 3, 7, 8, 16, 32, 48, 64, 200, 256, 1000};
    uint32_t esize = of(sizes, 4), unit = of(alignments, 5), wide = dice(2);
    unit = unit < esize ? esize : unit;
    c->rows = wide ? 1 : 1 + dice(40);
    c->row_bytes = wide ? (1 + dice(12000 / unit)) * unit : (1 + dice(600 / unit)) * unit;
    if (!wide && dice(2)) {
        c->pad_src = dice(9) * unit;
        c->pad_dst = dice(9) * unit;
    } else if (wide) {
        c->pad_src = dice(3) * unit;
        c->pad_dst = dice(2) ? dice(20) * esize : 0;
    }
    uint32_t tile = of(widths, 11) * esize * (wide ? 4 : 1), tile_rows = 1 + dice(16);
    tile = tile < c->row_bytes / 64 ? c->row_bytes / 64 / esize * esize + esize : tile; /* not too many pieces: each is a step of all threads */
    tile = tile < c->row_bytes ? tile : c->row_bytes;
    c->piece_bytes = tile < SLOT ? tile : SLOT / esize * esize;
    tile_rows = tile_rows < SLOT / c->piece_bytes ? tile_rows : SLOT / c->piece_bytes;
    c->piece_rows = tile_rows < c->rows ? tile_rows : c->rows;
    c->shift_src = dice(3) ? 0 : dice(32 / esize) * esize;
    c->shift_dst = dice(3) ? 0 : dice(32 / esize) * esize;
    c->skew = dice(3) ? 0 : esize;
    c->in_place = dice(4) == 0;
}

static void draw_variant(struct call *c, uint32_t n)
{
    static const uint32_t threads[] = {32, 64, 128};
    c->grid = 1 + dice(GRID);
    c->threads = of(threads, 3);
    c->staged = dice(3) == 0 ? 0 : dice(1u << n);
    switch (dice(4)) {
    case 0:
        c->fn = ccl_k_ll_n;
        c->threads = 64 + 32;
        if (dice(3)) { /* what the kernels for words take, on some ranks */
            c->words = 1 + dice((1u << n) - 1);
            c->row_bytes = (c->row_bytes + 7) / 8 * 8;
            c->pad_src = c->pad_dst = 0;
            c->shift_src &= ~7u;
            c->shift_dst &= ~7u;
            c->skew = dice(4) ? 0 : c->skew;
        }
        break;
    case 1:
        c->fn = ccl_k_push_part;
        c->grid = n + dice(GRID - n + 1);
        break;
    default:
        c->fn = ccl_k_push_n;
        c->group = dice(2) ? 0 : 1 + dice(n);
    }
    c->fn = dice(2) ? c->fn : of_world(c->fn, n);
}

/* Two ranks, flat, each block has two pieces or more: what may be paced. */
static void draw_many(struct call *c)
{
    c->rows = c->piece_rows = 1;
    c->pad_src = c->pad_dst = c->skew = c->words = c->group = 0;
    c->piece_bytes = 16 * (1 + dice(32));
    c->row_bytes = c->piece_bytes * (2 * c->grid + dice(3 * c->grid)) + 16 * dice(c->piece_bytes / 16);
    c->shift_src &= 16u;
    c->shift_dst &= 16u;
    c->staged = dice(2) ? 0 : c->staged;
    c->fn = of_world(ccl_k_push_n, 2);
}

int main(int argc, char **argv)
{
    const uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 300;
    char name[200];
    for (uint32_t i = 0; i < count && failures < 10; i++) {
        uint32_t n = 2 + dice(RANKS - 1);
        struct call c = {.name = name};
        if (i % 20 == 0 || n != world) {
            make_world(n, 2u << dice(3), SLOT, dice(2));
        }
        draw_shape(&c);
        draw_variant(&c, n);
        if (n == 2 && dice(6) == 0) {
            draw_many(&c);
        }
        snprintf(name, sizeof(name), "call %u: kernel %s, %u x %u bytes, pads %u %u, pieces %u x %u, shifts %u %u skew %u, in place %u, staged %x, group %u, grid %u x %u, words %x",
                 i, c.fn == ccl_k_push_part ? "part" : c.group ? "push" : "any", c.rows, c.row_bytes, c.pad_src, c.pad_dst, c.piece_rows, c.piece_bytes, c.shift_src, c.shift_dst,
                 c.skew, c.in_place, c.staged, c.group, c.grid, c.threads, c.words);
        if (argc > 2) {
            puts(name);
            fflush(stdout);
        }
        gather(&c, i);
    }
    if (words_calls == 0) {
        printf("FAILED: no kernel for words ran\n");
        failures++;
    }
    if (failures == 0) {
        printf("ok, %llu times a kernel for words\n", (unsigned long long)words_calls);
    }
    return failures != 0;
}
