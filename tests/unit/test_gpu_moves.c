/* SPDX-License-Identifier: MIT
 *
 * Random all-to-all-v through the GPU body of parts (gpu_shim.h; NVIDIA: tiles through registers): 2 to 4 ranks, parts that are empty, short, long, that begin at one place
 * and end apart, aligned to anything; receive buffers in a window that is known, that is mapped while the blocks run, or in none. Proves that every byte arrives and
 * no other changes, whatever a block finds mapped. */
/* CTEST: labels quick; timeout 120 */
/* CTEST: labels long; timeout 900; args 6000 */
#include "gpu_shim.h"

#define CCL_KERNEL_LARGE(name, type) CCL_KERNEL(name, type)
#define CCL_OWN_FIRST_BYTES 2000u
#if CCL_FLAT_UNITS
#define CCL_ON_NVIDIA 1
#define CCL_PARTS_DIRECT_BODY "parts_direct_moves.h"
#else /* as on AMD */
#define CCL_PARTS_DIRECT_BODY "parts_direct_tiles.h"
#endif
#include "ll.hip"
#include "push.hip"

#include "parts.hip"

#include "gpu_world.h"

#define MOST_BYTES 30000u /* of a part: several tiles of a block */
#define SLOTS 4u
#define WINDOW 2u /* id of the one in the tables */

enum place { KNOWN, IN_TABLE, MAPPED_LATE, PLAIN, NUM_PLACES };

static struct ccl_k_parts_args args[RANKS];
static uint64_t tables[RANKS][(2 * RANKS + 1) * CCL_WINDOWS];
static enum place places[RANKS];
static uint32_t late_block, late_pauses;
static uint8_t want[RANKS][DST_BYTES];

/* Block late_block of a rank finds the windows mapped behind some turns of the others. */
static void run_parts(const struct ccl_k_coll_args *a)
{
    if (ccl_tid() == 0 && ccl_bid() == late_block % ccl_grid()) {
        for (uint32_t i = 0; i < late_pauses; i++) {
            ccl_pause();
        }
        for (uint32_t q = 0; q < world; q++) {
            if (places[q] == MAPPED_LATE) {
                tables[a->rank][q * CCL_WINDOWS + WINDOW] = (uint64_t)ranks[q].dst;
            }
        }
    }
    ccl_k_parts(&args[a->rank]);
}

static uint64_t draw_bytes(void)
{
    const uint32_t kind = dice(4), bytes = kind == 0 ? 0 : kind == 1 ? 1 + dice(40) : 1 + dice(MOST_BYTES);
    return dice(2) ? bytes / 16 * 16 : bytes;
}

/* What goes between the ranks, and where it lies. */
static void draw_pairs(uint32_t n)
{
    static uint64_t bytes[RANKS][RANKS];
    const uint32_t aligned = dice(2), together = dice(2);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t q = 0; q < n; q++) {
            bytes[r][q] = draw_bytes();
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        uint64_t at = 0, to = 0;
        for (uint32_t q = 0; q < n; q++) {
            at += aligned ? 16 : dice(20);
            to += aligned ? 16 : 1 + dice(20);
            args[r].pair[q] = (struct ccl_k_pair){together ? 0 : at, bytes[r][q], to, bytes[q][r]};
            at = aligned ? (at + bytes[r][q] + 15) / 16 * 16 : at + bytes[r][q];
            to = aligned ? (to + bytes[q][r] + 15) / 16 * 16 : to + bytes[q][r];
        }
    }
}

static void prepare_rank(uint32_t r, uint32_t grid, uint32_t piece)
{
    struct ccl_k_parts_args *p = &args[r];
    const struct ccl_k_layout *lay = &ranks[r].args.lay;
    p->c = ranks[r].args;
    p->c.src = (uint64_t)ranks[r].src;
    p->c.dst = (uint64_t)ranks[r].dst;
    p->c.sig = 99;
    p->c.where = places[r] == PLAIN ? 0 : (uint64_t)(places[r] == KNOWN ? 1u : WINDOW) << 48;
    p->c.expect_id = 1;
    p->c.desc = (struct ccl_k_desc){.word1 = CCL_WORD1(CCL_OP_ALL_TO_ALL_V, 1, 0, 0), .blocks = grid};
    p->esize = 1;
    p->parts = 0;
    p->slots = SLOTS;
    p->ring_bytes = (uint64_t)lay->blocks * lay->slots * lay->slot_bytes;
    p->c.piece_bytes = p->sub_bytes = piece;
    p->slot_bytes = lay->shared_ring ? piece * world : piece;
    memset(tables[r], 0, sizeof(tables[r]));
    for (uint32_t q = 0; q < world; q++) {
        p->c.peer[q].win = (uint64_t)ranks[q].dst;
        tables[r][q * CCL_WINDOWS + WINDOW] = places[q] == IN_TABLE ? (uint64_t)ranks[q].dst : 0;
    }
    ranks[r].comm.win = (uint64_t)tables[r];
    for (uint32_t i = 0; i < DST_BYTES; i++) {
        ranks[r].src[i] = (char)dice(256);
    }
    memset(ranks[r].dst, 0x5a, DST_BYTES);
    memset(want[r], 0x5a, DST_BYTES);
    ranks[r].fn = run_parts;
    ranks[r].grid = grid;
    ranks[r].threads = 64;
}

static void run_one(uint32_t n, uint32_t number)
{
    char text[100];
    const uint32_t grid = 1 + dice(GRID), piece = 64u << dice(5);
    make_world(n, SLOTS, 4096, dice(2));
    late_block = dice(GRID);
    late_pauses = dice(60);
    memset(args, 0, sizeof(args));
    draw_pairs(n);
    for (uint32_t r = 0; r < n; r++) {
        places[r] = (enum place)dice(NUM_PLACES);
    }
    for (uint32_t r = 0; r < n; r++) {
        prepare_rank(r, grid, piece);
    }
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t q = 0; q < n; q++) {
            memcpy(want[r] + args[r].pair[q].recv_off, ranks[q].src + args[q].pair[r].send_off, args[r].pair[q].recv_bytes);
        }
    }
    snprintf(text, sizeof(text), "call %u, %u ranks, grid %u, pieces of %u bytes", number, n, grid, piece);
    run_all(text);
    for (uint32_t r = 0; r < n; r++) {
        look_at_rank(text, r, want[r], DST_BYTES);
    }
}

int main(int argc, char **argv) { return run_random(argc, argv, 80, run_one); }
