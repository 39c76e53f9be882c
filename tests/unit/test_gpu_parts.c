/* SPDX-License-Identifier: MIT
 *
 * Random collectives beside all-gather through the GPU body of parts_ll (gpu_shim.h): every kind, type and operator, 1 to 8 ranks, every root, inputs and
 * outputs aligned to anything, in place and not, multiplied first, one block and several. Proves that every byte is as the CPU joins it, no other changes,
 * no access is misaligned, and that a mismatch or a rank that leaves ends the kernels of all. */
/* CTEST: labels quick; timeout 120 */
/* CTEST: labels long; timeout 900; args 6000 */
#define RANKS 8
#include "gpu_shim.h"

#include "ll.hip"
#include "parts_ll.hip"
#include "push.hip"

#include "gpu_world.h"
#include "host_reduce.h"

enum kind { ALL_REDUCE, REDUCE_SCATTER, REDUCE, BROADCAST, ALL_TO_ALL, GATHER, SCATTER, NUM_KINDS };
static const struct {
    const char *name;
    uint8_t joins, from_root, to_root;
    uint8_t cuts_input, cuts_output; /* a part a rank */
} kinds[NUM_KINDS] = {
    {"all_reduce", 1, 0, 0, 0, 0}, {"reduce_scatter", 1, 0, 0, 1, 0}, {"reduce", 1, 0, 1, 0, 0}, {"broadcast", 0, 1, 0, 0, 0},
    {"all_to_all", 0, 0, 0, 1, 1}, {"gather", 0, 0, 1, 0, 1},         {"scatter", 0, 1, 0, 1, 0},
};
static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
#define NUM_TYPES 12u
#define MOST_BYTES 3000u /* of a part */
#define AREA (32u << 10) /* of the memory of a rank that is filled and looked at */

struct job {
    enum kind kind;
    uint32_t n, type, redop, root, count, scaled, in_place, threads, grid, shift[RANKS][2]; /* shift: of input and output */
    uint32_t words; /* bit a rank: where its buffers allow, it runs sum_words_W */
};

static struct ccl_k_parts_args args[RANKS];
static uint64_t scalars[RANKS];
static uint8_t want[RANKS][AREA], inputs[RANKS][RANKS * MOST_BYTES + 64], sources[RANKS][RANKS * MOST_BYTES + 64];

static void run_parts(const struct ccl_k_coll_args *a) { ccl_k_parts_ll(&args[a->rank]); }

static void sums_2(const struct ccl_k_coll_args *a) { ccl_k_sum_words_2(&ranks[a->rank].words); }
static void sums_3(const struct ccl_k_coll_args *a) { ccl_k_sum_words_3(&ranks[a->rank].words); }
static void sums_4(const struct ccl_k_coll_args *a) { ccl_k_sum_words_4(&ranks[a->rank].words); }
static void sums_5(const struct ccl_k_coll_args *a) { ccl_k_sum_words_5(&ranks[a->rank].words); }
static void sums_6(const struct ccl_k_coll_args *a) { ccl_k_sum_words_6(&ranks[a->rank].words); }
static void sums_7(const struct ccl_k_coll_args *a) { ccl_k_sum_words_7(&ranks[a->rank].words); }
static void sums_8(const struct ccl_k_coll_args *a) { ccl_k_sum_words_8(&ranks[a->rank].words); }
static const kernel_fn sums_of[] = {sums_2, sums_3, sums_4, sums_5, sums_6, sums_7, sums_8};
static uint64_t sums_calls;

static uint32_t part_of(const struct job *j) { return j->count * sizes[j->type]; }
static int gives(const struct job *j, uint32_t r) { return !kinds[j->kind].from_root || r == j->root; }
static int takes(const struct job *j, uint32_t r) { return !kinds[j->kind].to_root || r == j->root; }

/* Finite floats whose sums depend on the order. */
static uint64_t element(uint32_t type)
{
    const uint64_t x = (uint64_t)dice(0xffffffffu) << 32 | dice(0xffffffffu), e = dice(12);
    switch (type) {
    case 6: return (x & 0x83ff) | (8 + e) << 10;
    case 7: return (x & 0x807fffff) | (120 + e) << 23;
    case 8: return (x & 0x800fffffffffffff) | (1016 + e) << 52;
    case 9: return (x & 0x807f) | (120 + e) << 7;
    case 10: return (x & 0x87) | (2 + e % 8) << 3;
    case 11: return (x & 0x83) | (8 + e) << 2;
    default: return x;
    }
}

/* Where input and output of a rank begin in its memory. In place both lie in dst, the smaller one inside the other. */
static void place(const struct job *j, uint32_t r, char **src, char **dst)
{
    const uint32_t part = part_of(j), in = kinds[j->kind].cuts_input, out = kinds[j->kind].cuts_output;
    *dst = ranks[r].dst + PAD + j->shift[r][1];
    *src = ranks[r].src + PAD + j->shift[r][0];
    if (j->in_place && gives(j, r) && takes(j, r) && j->kind != ALL_TO_ALL) {
        *src = *dst + (out ? r * part : 0);
        *dst += in ? r * part : 0;
    }
}

static void prepare_job(const struct job *j, uint32_t r)
{
    const uint32_t part = part_of(j), whole = kinds[j->kind].cuts_input ? j->n * part : part, esize = sizes[j->type];
    struct ccl_k_parts_args *p = &args[r];
    char *src, *dst;
    memset(ranks[r].dst, 0x5a, AREA);
    memset(ranks[r].src, 0x5a, AREA);
    place(j, r, &src, &dst);
    for (uint32_t i = 0; i < whole; i += esize) {
        const uint64_t x = element(j->type);
        memcpy(inputs[r] + i, &x, esize);
    }
    if (gives(j, r)) {
        memcpy(src, inputs[r], whole);
    }
    memcpy(sources[r], inputs[r], whole); /* what is joined */
    scalars[r] = element(j->type);
    if (j->scaled) {
        ccl_host_reduce_scale(j->type, (uint64_t)sources[r], (uint64_t)inputs[r], whole / esize, &scalars[r]);
    }
    memcpy(want[r], ranks[r].dst, AREA);
    *p = (struct ccl_k_parts_args){.c = ranks[r].args};
    p->c.src = gives(j, r) ? (uint64_t)src : 0;
    p->c.dst = takes(j, r) ? (uint64_t)dst : 0;
    p->c.part_bytes = part;
    p->c.dst_part = kinds[j->kind].cuts_output ? part : 0;
    p->src_part = kinds[j->kind].cuts_input ? part : 0;
    p->c.sig = 77 + j->count * 7 + j->kind * 100003 + j->type * 1009;
    p->c.desc = (struct ccl_k_desc){.word1 = CCL_WORD1(CCL_OP_ALL_REDUCE + j->kind, j->type, j->redop, j->root), .blocks = j->grid, .count = j->count};
    p->type = j->type;
    p->esize = esize;
    p->redop = j->redop;
    p->root = j->root;
    p->scalar = j->scaled == 2 ? (uint64_t)&scalars[r] : scalars[r];
    p->parts = (kinds[j->kind].joins ? (uint32_t)CCL_PARTS_REDUCE : 0) | (j->scaled ? (uint32_t)CCL_PARTS_SCALED : 0) | (j->scaled == 2 ? (uint32_t)CCL_PARTS_SCALAR_AT : 0);
    for (uint32_t q = 0; q < j->n; q++) {
        p->to_ranks |= (uint64_t)(gives(j, r) && takes(j, q)) << q;
        p->from_ranks |= (uint64_t)(takes(j, r) && gives(j, q)) << q;
    }
    while (1u << p->unit_lanes < j->n) {
        p->unit_lanes++;
    }
    ranks[r].fn = run_parts;
    if (j->kind == ALL_REDUCE && j->n > 1 && (j->words >> r & 1) && j->redop == 0 && j->scaled == 0 && ((p->c.src | p->c.dst | part) & 7) == 0 &&
        (j->type == CCL_SUM_F16 || j->type == CCL_SUM_F32 || j->type == CCL_SUM_BF16)) {
        ranks[r].words = words_args(&p->c, &ranks[r].full);
        ranks[r].fn = sums_of[j->n - 2];
        sums_calls++;
    }
    ranks[r].grid = j->grid;
    ranks[r].threads = j->threads + 32;
}

/* All inputs must be known. */
static void expect(const struct job *j, uint32_t r)
{
    const uint32_t part = part_of(j), cut = kinds[j->kind].cuts_input ? r * part : 0;
    uint64_t in[RANKS];
    char *src, *dst;
    if (!takes(j, r)) {
        return;
    }
    place(j, r, &src, &dst);
    uint8_t *to = want[r] + (dst - ranks[r].dst);
    if (kinds[j->kind].joins) {
        for (uint32_t q = 0; q < j->n; q++) {
            in[q] = (uint64_t)(sources[q] + cut);
        }
        ccl_host_reduce_join(j->type, j->redop, (uint64_t)to, in, j->n, j->count);
        return;
    }
    for (uint32_t q = 0; q < j->n; q++) {
        if (gives(j, q)) {
            memcpy(to + (kinds[j->kind].cuts_output ? q * part : 0), inputs[q] + cut, part);
        }
    }
}

static void describe(const struct job *j, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s, %u ranks, type %u, redop %u, root %u, count %u, scaled %u, in place %u, grid %u x %u", kinds[j->kind].name, j->n,
             j->type, j->redop, j->root, j->count, j->scaled, j->in_place, j->grid, j->threads);
}

static void run_job(const struct job *j)
{
    char text[200];
    describe(j, text, sizeof(text));
    for (uint32_t r = 0; r < j->n; r++) {
        prepare_job(j, r);
    }
    for (uint32_t r = 0; r < j->n; r++) {
        expect(j, r);
    }
    run_all(text);
    for (uint32_t r = 0; r < j->n; r++) {
        uint32_t i = 0;
        if (ranks[r].page->abort != 0 || (uint32_t)ranks[r].priv->op != 0) {
            printf("FAILED %s: rank %u has abort %llx\n", text, r, (unsigned long long)ranks[r].page->abort);
            failures++;
            return;
        }
        while (i < AREA && want[r][i] == (uint8_t)ranks[r].dst[i]) {
            i++;
        }
        if (i < AREA) {
            printf("FAILED %s: rank %u, byte %d of its memory is %02x, not %02x\n", text, r, (int)i, (uint8_t)ranks[r].dst[i], want[r][i]);
            failures++;
            return;
        }
    }
}

static void draw_job(struct job *j, uint32_t n)
{
    static const uint32_t unaligned[] = {0, 0, 4, 8, 1, 2, 3, 16};
    memset(j, 0, sizeof(*j));
    j->n = n;
    j->kind = (enum kind)dice(NUM_KINDS);
    j->type = dice(NUM_TYPES);
    j->root = dice(n);
    const uint32_t most = MOST_BYTES / sizes[j->type];
    j->count = 1 + dice(dice(3) ? 20 : most);
    j->count = dice(2) && j->count > 8 ? j->count / 8 * 8 : j->count;
    if (kinds[j->kind].joins) {
        j->redop = dice(5);
        j->scaled = j->redop == 0 ? dice(3) : 0;
    }
    if (j->kind == ALL_REDUCE && dice(2)) {
        j->type = (const uint32_t[]){CCL_SUM_F16, CCL_SUM_F32, CCL_SUM_BF16}[dice(3)];
        j->count = (1 + dice(dice(3) ? 4 : MOST_BYTES / 16)) * 8 / sizes[j->type];
        j->redop = j->scaled = 0;
        j->words = dice(3) ? ~0u : dice(1u << n);
    }
    j->in_place = dice(2);
    j->threads = dice(2) ? 64 : 96;
    j->grid = 1 + dice(GRID); /* threads may have several units, or none */
    const uint32_t aligned = dice(3);
    for (uint32_t r = 0; r < n; r++) {
        j->shift[r][0] = aligned ? dice(2) * 8 : unaligned[dice(8)];
        j->shift[r][1] = aligned ? dice(2) * 8 : unaligned[dice(8)];
    }
}

/* Rank odd calls another count or kind, or does not call and leaves. */
static void fail_job(uint32_t n, uint32_t odd, uint32_t leaves)
{
    struct job j, other;
    char text[200];
    make_world(n, 2, 4096, dice(2));
    draw_job(&j, n);
    other = j;
    other.count += other.count < 8 ? 1 : -1;
    other.kind = dice(2) ? j.kind : (enum kind)((j.kind + 1) % NUM_KINDS);
    other.scaled = 0;
    other.redop = 0;
    describe(&j, text, sizeof(text));
    for (uint32_t r = 0; r < n; r++) {
        prepare_job(r == odd ? &other : &j, r);
    }
    if (leaves) {
        ranks[odd].grid = 0;
        ranks[odd].page->state = CCL_PAGE_CLOSED;
    }
    run_all(text);
    for (uint32_t r = 0; r < n; r++) {
        const struct ccl_k_err *own = &ranks[r].page->err[r];
        if (leaves && r == odd) {
            continue;
        }
        if (ranks[r].page->abort == 0 || !(ranks[r].priv->op & CCL_OP_STOPPED) || own->code == 0 || own->mine.word1 != args[r].c.desc.word1 ||
            own->mine.count != args[r].c.desc.count) {
            printf("FAILED %s of %s: rank %u of %u has not ended as it must\n", leaves ? "leave" : "mismatch", text, r, n);
            failures++;
        }
    }
}

int main(int argc, char **argv)
{
    const uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 200;
    for (uint32_t i = 0; i < count && failures < 10; i++) {
        struct job j;
        const uint32_t n = i < 16 ? 1 + i % 8 : 1 + dice(RANKS);
        if (i % 10 == 0 || n != world) {
            make_world(n, 2, 4096, dice(2));
        }
        draw_job(&j, n);
        run_job(&j);
    }
    for (uint32_t n = 2; n <= RANKS; n++) {
        for (uint32_t i = 0; i < 3; i++) {
            fail_job(n, dice(n), 0);
            fail_job(n, dice(n), 1);
        }
    }
    if (sums_calls == 0) {
        printf("FAILED: sum_words_W never ran\n");
        failures++;
    }
    if (failures == 0) {
        printf("ok\n");
    }
    return failures != 0;
}
