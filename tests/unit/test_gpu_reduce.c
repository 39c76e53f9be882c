/* SPDX-License-Identifier: MIT
 *
 * Random reductions through the GPU body of reduce (gpu_shim.h, as on AMD, with the moves and joins of NVIDIA): 2 to 4 ranks, all kinds, in place and not, inputs and outputs in windows that are
 * known, that are mapped while the blocks run, or in none, so flat, by rings, and undecided until some block has looked. Proves that every element is joined once,
 * whatever a block finds mapped, and that nothing else changes. */
/* CTEST: labels quick; timeout 120 */
/* CTEST: labels long; timeout 900; args 6000 */
#define CCL_FLAT_UNITS 0
#define CCL_MOVE_UNITS 4 /* as on NVIDIA */
#define REDUCE_WIDE
#include "gpu_shim.h"

#define CCL_KERNEL_REDUCE(name, type) CCL_KERNEL(name, type)
#include "ll.hip"
#include "push.hip"

#include "reduce.hip"

#include "gpu_world.h"

#define MOST 6000u /* elements an owner has, at most */
#define AREA (200u << 10) /* bytes of a rank's memory that are looked at */
#define SEND_WINDOW 2u
#define RECV_WINDOW 3u

enum kind { ALL_REDUCE, REDUCE_SCATTER, REDUCE, NUM_KINDS };
enum place { KNOWN, IN_TABLE, MAPPED_LATE, PLAIN, NUM_PLACES };

static struct ccl_k_parts_args args[RANKS];
static uint64_t tables[RANKS][(2 * RANKS + 1) * CCL_WINDOWS];
static enum place sends[RANKS], recvs[RANKS];
static uint32_t late_block, late_pauses;
static uint32_t want[RANKS][AREA / 4], inputs[RANKS][RANKS * MOST];

/* Block late_block of a rank finds the windows mapped behind some turns of the others. */
static void run_reduce(const struct ccl_k_coll_args *a)
{
    if (ccl_tid() == 0 && ccl_bid() == late_block % ccl_grid()) {
        for (uint32_t i = 0; i < late_pauses; i++) {
            ccl_pause();
        }
        for (uint32_t q = 0; q < world; q++) {
            uint64_t *row = &tables[a->rank][q * CCL_WINDOWS];
            row[SEND_WINDOW] = sends[q] == MAPPED_LATE ? (uint64_t)ranks[q].src : row[SEND_WINDOW];
            row[RECV_WINDOW] = recvs[q] == MAPPED_LATE ? (uint64_t)ranks[q].dst : row[RECV_WINDOW];
        }
    }
    ccl_k_reduce(&args[a->rank]);
}

struct job {
    enum kind kind;
    uint32_t n, count, root, grid, slots, in_place, shift;
};

/* As choose_reducing of src/coll/parts.c. */
static void cut(const struct job *j, struct ccl_k_parts_args *p, uint32_t sub)
{
    const uint32_t scatter = j->kind == REDUCE_SCATTER, of_owner = scatter ? j->count : (j->count + j->n - 1) / j->n, most = sub / 4;
    uint32_t chunks = (of_owner + most - 1) / most;
    chunks = chunks > 1 ? (chunks + j->grid - 1) / j->grid * j->grid : 1;
    const uint32_t piece = ((of_owner + chunks - 1) / chunks + 15) / 16 * 16;
    p->piece = piece < most ? piece : most;
    p->chunks = (of_owner + p->piece - 1) / p->piece;
    p->count = j->count;
    p->owner_stride = scatter ? j->count : p->piece;
    p->chunk_stride = scatter ? p->piece : p->piece * j->n;
    p->shard = scatter ? j->count : (of_owner + 15) / 16 * 16;
}

static uint64_t where_of(enum place place, uint32_t id, uint64_t off)
{
    return place == PLAIN ? 0 : (uint64_t)(place == KNOWN ? 1u : id) << 48 | off;
}

static void prepare_rank(const struct job *j, uint32_t r, uint32_t sub)
{
    struct ccl_k_parts_args *p = &args[r];
    const struct ccl_k_layout *lay = &ranks[r].args.lay;
    const uint32_t scatter = j->kind == REDUCE_SCATTER, whole = scatter ? j->n * j->count : j->count;
    const uint32_t gets = j->kind != REDUCE || r == j->root;
    char *src = ranks[r].src + PAD + j->shift, *dst = ranks[r].dst + PAD + j->shift;
    *p = (struct ccl_k_parts_args){.c = ranks[r].args};
    memset(ranks[r].src, 0x5a, AREA);
    memset(ranks[r].dst, 0x5a, AREA);
    if (j->in_place && gets) {
        src = dst;
        dst = scatter ? src + 4ull * r * j->count : dst;
    }
    for (uint32_t i = 0; i < whole; i++) {
        inputs[r][i] = dice(0xffffffffu);
    }
    memcpy(src, inputs[r], 4ull * whole);
    memcpy(want[r], ranks[r].dst, AREA);
    /* In place input and output lie in the same memory, so in the same window. */
    const enum place from = j->in_place && gets ? recvs[r] : sends[r];
    const uint32_t id = j->in_place && gets ? RECV_WINDOW : SEND_WINDOW;
    p->c.src = (uint64_t)src;
    p->c.dst = gets ? (uint64_t)dst : 0;
    p->c.sig = 99;
    p->c.expect_id = 1;
    p->c.where = gets && !scatter ? where_of(recvs[r], RECV_WINDOW, (uint64_t)(dst - ranks[r].dst)) : 0;
    /* What is known by value is the output's memory. */
    p->from_where = from == KNOWN && id == SEND_WINDOW ? (uint64_t)SEND_WINDOW << 48 | (uint64_t)(src - ranks[r].src)
                                                       : where_of(from, id, (uint64_t)(src - (id == SEND_WINDOW ? ranks[r].src : ranks[r].dst)));
    p->c.desc = (struct ccl_k_desc){.word1 = CCL_WORD1(CCL_OP_ALL_REDUCE + j->kind, 3, 0, j->root), .blocks = j->grid};
    p->esize = 4;
    p->type = 3;
    p->root = j->root;
    p->parts = CCL_PARTS_REDUCE | (scatter ? (uint32_t)CCL_PARTS_SCATTER : j->kind == REDUCE ? (uint32_t)CCL_PARTS_TO_ROOT : 0);
    p->slots = j->slots;
    p->ring_bytes = (uint64_t)lay->blocks * lay->slots * lay->slot_bytes;
    p->sub_bytes = sub;
    p->slot_bytes = sub * (lay->shared_ring ? world : 2);
    cut(j, p, sub);
    p->c.piece_bytes = p->piece * 4;
    memset(tables[r], 0, sizeof(tables[r]));
    for (uint32_t q = 0; q < world; q++) {
        p->c.peer[q].win = (uint64_t)ranks[q].dst;
        p->pair[q] = (struct ccl_k_pair){0, 4ull * j->count, 0, 4ull * j->count};
        tables[r][q * CCL_WINDOWS + SEND_WINDOW] = sends[q] == KNOWN || sends[q] == IN_TABLE ? (uint64_t)ranks[q].src : 0;
        tables[r][q * CCL_WINDOWS + RECV_WINDOW] = recvs[q] == IN_TABLE ? (uint64_t)ranks[q].dst : 0;
    }
    ranks[r].comm.win = (uint64_t)tables[r];
    ranks[r].fn = run_reduce;
    ranks[r].grid = p->chunks < j->grid ? (uint32_t)p->chunks : j->grid;
    ranks[r].threads = 64;
}

static void expect(const struct job *j, uint32_t r)
{
    const uint32_t scatter = j->kind == REDUCE_SCATTER;
    if (args[r].c.dst == 0) {
        return;
    }
    if (j->in_place) {
        memcpy((char *)want[r] + (args[r].c.src - (uint64_t)ranks[r].dst), inputs[r], 4ull * (scatter ? j->n * j->count : j->count));
    }
    for (uint32_t i = 0; i < j->count; i++) {
        uint32_t sum = 0;
        for (uint32_t q = 0; q < j->n; q++) {
            sum += inputs[q][(scatter ? r * j->count : 0) + i];
        }
        memcpy((char *)want[r] + (args[r].c.dst - (uint64_t)ranks[r].dst) + 4ull * i, &sum, 4);
    }
}

static void run_one(uint32_t n, uint32_t number)
{
    const struct job j = {(enum kind)dice(NUM_KINDS), n, 1 + dice(dice(2) ? MOST : 300), dice(n), 1 + dice(GRID), dice(3) ? 4 : 2, dice(2), dice(2) ? 0 : 4 * dice(4)};
    const uint32_t sub = 128u << dice(3), few = dice(3);
    char text[120];
    make_world(n, 4, 4096, dice(2));
    late_block = dice(GRID);
    late_pauses = dice(60);
    for (uint32_t r = 0; r < n; r++) {
        sends[r] = (enum place)dice(few ? PLAIN : NUM_PLACES);
        recvs[r] = (enum place)dice(few ? PLAIN : NUM_PLACES);
    }
    for (uint32_t r = 0; r < n; r++) {
        prepare_rank(&j, r, sub);
    }
    for (uint32_t r = 0; r < n; r++) {
        expect(&j, r);
    }
    snprintf(text, sizeof(text), "call %u, kind %u, %u ranks, count %u, grid %u, slots %u, in place %u", number, j.kind, n, j.count, ranks[0].grid, j.slots, j.in_place);
    run_all(text);
    for (uint32_t r = 0; r < n; r++) {
        look_at_rank(text, r, (const uint8_t *)want[r], AREA);
    }
}

int main(int argc, char **argv) { return run_random(argc, argv, 150, run_one); }
