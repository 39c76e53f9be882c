/* SPDX-License-Identifier: MIT
 *
 * Runs the GPU bodies of the kernels on the CPU (gpu_shim.h) for 2 to 4 ranks: LL, direct, staged with both ring forms and 2, 4 or 8 slots, mixed,
 * partitioned, groups of peers, odd shapes and alignments, in random interleavings; then calls that do not fit
 * each other, and a rank that leaves. Proves that every byte arrives, nothing beside it is touched, all threads leave, and a mismatch is reported to
 * every rank before a byte is stored. */
/* CTEST: labels quick; timeout 120 */
#include "gpu_shim.h"

#include "ll.hip"
#include "push.hip"

#include "gpu_world.h"

#define LL(rows, bytes, pad, shift, grid, threads) \
    {"ll", ccl_k_ll_n, rows, bytes, pad, 2 * pad, 1, bytes, shift, shift, 0, 0, 0, 0, grid, threads, 0, 0}
#define LL_THREADS 96
#define PUSH(name, rows, bytes, pad, prows, pbytes, shift, staged, group, grid) \
    {name, ccl_k_push_n, rows, bytes, pad, 2 * pad, prows, pbytes, shift, shift, 0, 0, staged, group, grid, 64, 0, 0}
#define PART(name, rows, bytes, pad, prows, pbytes, shift, staged, grid) \
    {name, ccl_k_push_part, rows, bytes, pad, 2 * pad, prows, pbytes, shift, shift, 0, 0, staged, 0, grid, 64, 0, 0}

static const struct call calls[] = {
    LL(1, 8, 0, 0, 1, LL_THREADS),
    LL(1, 4096, 0, 0, 2, LL_THREADS),
    LL(1, 4100, 0, 4, 2, LL_THREADS),
    LL(3, 40, 8, 1, 1, LL_THREADS),
    PUSH("direct", 1, 16384, 0, 1, 1024, 0, 0, 0, 3),
    PUSH("direct, pieces of 4 units", 1, 40960, 0, 1, 4096, 0, 0, 0, 2),
    PUSH("direct, tail", 1, 16400, 0, 1, 2048, 0, 0, 0, 3),
    PUSH("direct, one piece a block", 1, 3056, 0, 1, 1024, 0, 0, 0, 3),
    PUSH("direct, idle blocks", 1, 64, 0, 1, 64, 0, 0, 0, 3),
    PUSH("direct, groups of 1", 1, 16384, 0, 1, 1024, 0, 0, 1, 3),
    PUSH("direct, groups of 2", 1, 16384, 0, 1, 1024, 0, 0, 2, 2),
    PUSH("direct, odd bytes", 1, 5001, 0, 1, 512, 3, 0, 0, 2),
    PUSH("direct, rectangles", 24, 96, 32, 8, 48, 0, 0, 0, 3),
    PUSH("direct, odd rectangles", 7, 35, 5, 3, 20, 1, 0, 0, 2),
    PUSH("direct, whole rows", 32, 64, 0, 4, 64, 0, 0, 0, 3),
    PUSH("staged", 1, 16384, 0, 1, 1024, 0, 15, 0, 3),
    PUSH("staged, one chunk", 1, 1024, 0, 1, 512, 0, 15, 0, 2),
    PUSH("staged, tail", 1, 16400, 0, 1, 4096, 0, 15, 0, 2),
    PUSH("staged, odd bytes", 1, 5001, 0, 1, 512, 3, 15, 0, 2),
    PUSH("staged, rectangles", 24, 96, 32, 8, 48, 0, 15, 0, 3),
    PUSH("mixed 1", 1, 16384, 0, 1, 1024, 0, 1, 0, 3),
    PUSH("mixed 2", 1, 16384, 0, 1, 1024, 0, 2, 0, 3),
    PUSH("mixed 5, groups of 1", 1, 16384, 0, 1, 1024, 0, 5, 1, 3),
    PUSH("mixed 6, odd", 1, 9001, 0, 1, 1000, 1, 6, 1, 3),
    PART("partitioned", 1, 16384, 0, 1, 1024, 0, 0, 5),
    PART("partitioned, staged", 1, 16384, 0, 1, 1024, 0, 15, 5),
    PART("partitioned, mixed, rectangles", 24, 96, 32, 8, 48, 0, 3, 4),
};
static const struct call barrier_call = {.name = "barrier", .fn = ccl_k_barrier, .piece_rows = 1, .piece_bytes = 1, .grid = 1, .threads = 64};

static void run_calls(uint32_t n)
{
    /* Worlds of an even number take the first of each pair, the others the second: AMD has two slots, NVIDIA four; test_gpu_random.c mixes them all. */
#if CCL_FLAT_UNITS == 0
    static const struct { uint32_t slots, shared; } rings[] = {{2, 1}, {2, 0}, {2, 0}, {2, 1}};
#else
    static const struct { uint32_t slots, shared; } rings[] = {{4, 1}, {4, 0}, {8, 0}, {2, 1}};
#endif
    for (size_t i = n % 2; i < sizeof(rings) / sizeof(rings[0]); i += 2) {
        make_world(n, rings[i].slots, 4096, rings[i].shared);
        for (uint32_t round = 0; round < 2; round++) {
            for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++) {
                struct call c = calls[(j * 7 + round) % (sizeof(calls) / sizeof(calls[0]))];
                if (c.fn == ccl_k_push_part && c.grid < n) {
                    continue;
                }
                c.fn = round == 0 ? c.fn : of_world(c.fn, n);
                gather(&c, round);
                for (c.words = 1; c.threads == LL_THREADS && round == 1 && c.words < 1u << n; c.words++) {
                    gather(&c, round); /* these ranks run the kernel for words, the others the general one */
                }
                if (j % 5 == 0) {
                    for (uint32_t r = 0; r < n; r++) {
                        set_call(r, &barrier_call);
                    }
                    run_all("barrier");
                }
            }
        }
    }
}

/* What the errors of one launch say: every record names the call of the rank that wrote it. */
static void check_records(const char *what)
{
    uint32_t records = 0;
    for (uint32_t r = 0; r < world; r++) {
        for (uint32_t q = 0; q < world; q++) {
            const struct ccl_k_err *e = &ranks[r].page->err[q];
            const struct ccl_k_desc *mine = &ranks[q].args.desc;
            if (e->code == 0) {
                continue;
            }
            records++;
            if (e->rank != (int32_t)q || e->mine.word1 != mine->word1 || e->mine.blocks != mine->blocks || e->mine.rows != mine->rows ||
                e->mine.count != mine->count || e->mine.ld != mine->ld) {
                printf("FAILED %s: the record of rank %u at rank %u is not about its call\n", what, q, r);
                failures++;
            }
        }
    }
    if (records == 0) {
        printf("FAILED %s: no record\n", what);
        failures++;
    }
}

/* Rank `odd` calls something else: everybody learns of it, nobody's buffer changes. */
static void mismatch(uint32_t n, uint32_t odd, const struct call *common, const struct call *other)
{
    make_world(n, 2, 4096, dice(2));
    gather(&calls[4], 0);
    for (uint32_t r = 0; r < n; r++) {
        prepare(r, r == odd ? other : common, 1);
    }
    run_all("mismatch");
    check_records("mismatch");
    for (uint32_t r = 0; r < n; r++) {
        uint32_t own = (uint32_t)(PAD + (r == odd ? other : common)->shift_dst + r * ranks[r].args.dst_part);
        for (uint32_t i = 0; i < DST_BYTES && common->fn == ccl_k_push_n; i++) {
            if (ranks[r].dst[i] != 0x5a && (i < own || i >= own + ranks[r].args.part_bytes) && r == odd) {
                printf("FAILED mismatch of %s and %s: byte %u of rank %u was stored\n", common->name, other->name, i, r);
                failures++;
                break;
            }
        }
        if (ranks[r].page->abort == 0 || !(ranks[r].priv->op & CCL_OP_STOPPED)) {
            printf("FAILED mismatch of %s and %s: rank %u has not heard\n", common->name, other->name, r);
            failures++;
        }
    }
}

/* Rank `gone` destroys its communicator after one operation; the others call another, wait for it, and end. */
static void leave(uint32_t n, uint32_t gone, const struct call *c)
{
    make_world(n, 2, 4096, dice(2));
    ranks[gone].leaves = 1;
    gather(&calls[4], 0); /* the others find its words although its page says it has left */
    for (uint32_t r = 0; r < n; r++) {
        prepare(r, c, 1);
        ranks[r].grid = r == gone ? 0 : c->grid;
    }
    run_all("leave");
    for (uint32_t r = 0; r < n; r++) {
        uint32_t reasons = 0;
        for (uint32_t q = 0; q < n; q++) {
            reasons |= 1u << ranks[r].page->err[q].reason;
        }
        if (r != gone && (ranks[r].page->abort == 0 || !(reasons >> CCL_REASON_LEFT & 1))) {
            printf("FAILED leave, %s: rank %u of %u has not noticed that rank %u is gone\n", c->name, r, n, gone);
            failures++;
        }
    }
}

/* The kernels for words, on all ranks or some: another size, push, a rank that is gone. */
static void words_errors(uint32_t n, uint32_t odd)
{
    struct call one = calls[0], many = calls[1], push = calls[4];
    for (uint32_t i = 0; i < 2; i++) {
        one.words = many.words = i == 0 ? (1u << n) - 1 : 1 + dice((1u << n) - 2);
        mismatch(n, odd, &one, &many);
        mismatch(n, odd, &many, &push);
        mismatch(n, odd, &push, &one);
        leave(n, odd, &one);
        leave(n, odd, &many);
    }
}

int main(void)
{
    for (uint32_t n = 2; n <= RANKS; n++) {
        run_calls(n);
        for (uint32_t odd = 0; odd < n; odd++) {
            mismatch(n, odd, &calls[4], &calls[5]);   /* direct, another size */
            mismatch(n, odd, &calls[15], &calls[16]); /* staged, another size */
            mismatch(n, odd, &calls[0], &calls[4]);   /* LL and push */
            mismatch(n, odd, &calls[4], &calls[1]);   /* push and LL */
            mismatch(n, odd, &calls[9], &calls[5]);   /* groups */
            leave(n, odd, &calls[0]);
            leave(n, odd, &calls[9]);
            leave(n, odd, &calls[15]);
            leave(n, odd, &barrier_call);
            words_errors(n, odd);
        }
    }
    if (words_calls == 0) {
        printf("FAILED: no kernel for words ran\n");
        failures++;
    }
    if (failures == 0) {
        printf("ok\n");
    }
    return failures != 0;
}
