/* SPDX-License-Identifier: MIT
 *
 * More ranks than the first warp of a block has lanes, so that some lanes wait for several peers one after the other: when one lane sees an error, the
 * others must not go on waiting for a peer that never comes, since on AMD the lane with the error waits for them. One rank runs; what the others would
 * have stored is put where it belongs. And: a peer that died while it stored is noticed, whichever of its words are missing; a rank that leaves while a
 * peer may still store tells its host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "args.h"
#include "emu.h"
#include "test.h"

#define RANKS 36
#define ODD 5     /* lane 4, which has this peer only */
#define ABSENT 33 /* lane 0, behind rank 1 */
#define OP 7u
#define SIG 0x1234u
#define PART 16u
#define SEEDS 8
#define MOST_STEPS 2000000

#define ADV 0u
#define FULL 8192u
#define ROW 4096u
#define RING 16384u
#define SLOT 4096u
#define LL (RING + RANKS * 2 * SLOT)
#define CTL_BYTES (LL + 2ull * RANKS * CCL_LL_SRC_BYTES)
#define PAGE_BYTES (sizeof(struct ccl_k_page) + 2 * RANKS * sizeof(struct ccl_k_err))
#define DEVICE_BYTES (1u << 20) /* private words, tables, buffers */

enum wait {
    FOR_ADVERTS, FOR_DONE, FOR_CHUNKS,
    FOR_PACKETS, /* of a peer that died behind its advert, and of one that never comes */
    FOR_REST_OF_ADVERT, FOR_REST_OF_PACKET /* of a dead peer; all others have come */
};

static const struct test_case {
    const char *stem, *kernel;
    uint32_t threads;
    enum wait wait;
} cases[] = {
    {"push", "ccl_k_barrier", 64, FOR_ADVERTS},   {"push", "ccl_k_push_n", 64, FOR_ADVERTS},   {"push", "ccl_k_push_n", 128, FOR_DONE},
    {"push", "ccl_k_push_n", 128, FOR_CHUNKS},    {"ll", "ccl_k_ll_n", 64 + 32, FOR_ADVERTS},  {"copy", "ccl_k_copy_open", 64, FOR_ADVERTS},
    {"copy", "ccl_k_copy_close", 64, FOR_DONE},   {"push", "ccl_k_push_n", 64, FOR_REST_OF_ADVERT}, {"ll", "ccl_k_ll_n", 64 + 32, FOR_REST_OF_PACKET},
    {"copy", "ccl_k_copy_open", 64, FOR_REST_OF_ADVERT}, {"ll", "ccl_k_ll_n", 64 + 32, FOR_PACKETS},
};

/* Of the rank that runs, and one of each for all peers. */
static char *ctl[2], *device;
static struct ccl_k_page *page[2];
static struct tables {
    struct ccl_k_priv priv;
    struct ccl_k_comm comm;
    uint64_t ctl[RANKS], page[RANKS], win[(2 * RANKS + 1) * CCL_WINDOWS];
    uint8_t src[4096], dst[RANKS * PART], sink[4096];
} *tables;

static bool find(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host)
{
    const struct {
        void *base;
        size_t bytes;
        bool host;
    } all[] = {{ctl[0], CTL_BYTES, false}, {ctl[1], CTL_BYTES, false}, {page[0], PAGE_BYTES, true}, {page[1], PAGE_BYTES, true}, {device, DEVICE_BYTES, false}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        *base = (uint64_t)(uintptr_t)all[i].base;
        *bytes = all[i].bytes;
        *host = all[i].host;
        if (addr - *base < *bytes) {
            return true;
        }
    }
    return false;
}

static void put(uint64_t at, uint32_t value)
{
    const uint64_t word = (uint64_t)OP << 32 | value;
    memcpy(ctl[0] + at, &word, 8);
}

static void put_advert(uint32_t rank, uint32_t sig, uint64_t where, bool half)
{
    const uint32_t words[8] = {sig, CCL_OP_ALL_GATHER, PART, 0, PART, 0, (uint32_t)where, (uint32_t)(where >> 32)};
    for (uint32_t i = 0; i < 8; i += half ? 2 : 1) {
        put(ADV + ((OP & 1) * RANKS + rank) * 64 + 8 * i, words[i]);
    }
}

static void put_scene(const struct test_case *c)
{
    const bool copy = strcmp(c->stem, "copy") == 0;
    memset(ctl[0], 0, LL);
    memset(page[0], 0, PAGE_BYTES);
    memset(page[1], 0, PAGE_BYTES);
    memset(tables, 0, sizeof(*tables));
    tables->priv.op = (uint64_t)(OP + (strcmp(c->kernel, "ccl_k_copy_close") == 0)) << 32;
    tables->comm = (struct ccl_k_comm){(uint64_t)(uintptr_t)tables->ctl, (uint64_t)(uintptr_t)tables->page, (uint64_t)(uintptr_t)tables->win};
    if (c->wait >= FOR_PACKETS) {
        page[0]->dead[0] = 1ull << ODD;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        const uint64_t packets = LL + ((OP & 1) * RANKS + r) * (uint64_t)CCL_LL_SRC_BYTES;
        memset(ctl[0] + packets, 0, 64);
        const bool sends = c->wait == FOR_REST_OF_PACKET || (c->wait == FOR_PACKETS && r != ODD && r != ABSENT);
        for (uint32_t i = 0; i < 4 && sends; i += r == ODD ? 2 : 1) {
            put(packets + 8 * i, r);
        }
        tables->ctl[r] = (uint64_t)(uintptr_t)ctl[r != 0];
        tables->page[r] = (uint64_t)(uintptr_t)page[r != 0];
        tables->win[r * CCL_WINDOWS + 1] = (uint64_t)(uintptr_t)tables->sink;
        if (r != 0 && (r != ABSENT || (c->wait != FOR_ADVERTS && c->wait != FOR_PACKETS))) {
            put_advert(r, r == ODD && c->wait == FOR_ADVERTS ? SIG + 1 : SIG, c->wait == FOR_DONE || copy ? 1ull << 48 : 0,
                       r == ODD && c->wait == FOR_REST_OF_ADVERT);
        }
        if (r != 0 && r != ABSENT && (c->wait == FOR_DONE || c->wait == FOR_CHUNKS)) {
            put(FULL + r * 64, r == ODD ? CCL_STEP_LEFT : c->wait == FOR_DONE ? CCL_STEP_DONE : 1);
        }
    }
}

static struct ccl_k_coll_args args_of(const struct test_case *c)
{
    return (struct ccl_k_coll_args){
        .rows = 1, .row_bytes = PART, .ld_src = PART, .ld_dst = PART, .piece_rows = 1, .piece_bytes = PART, .pieces_down = 1, .pieces_across = 1,
        .where = strcmp(c->stem, "copy") == 0 ? 1ull << 48 : 0, .comm = (uint64_t)(uintptr_t)&tables->comm, .page = (uint64_t)(uintptr_t)page[0],
        .desc.word1 = CCL_OP_ALL_GATHER, .group = RANKS,
        .lay = {.ring = RING, .bytes = CTL_BYTES, .blocks = 1, .slots = 2, .slot_bytes = SLOT, .flag_stride = 64, .flag_row = ROW, .credit = FULL + ROW,
                .full = FULL, .adv = ADV, .ll = LL},
        .priv = (uint64_t)(uintptr_t)&tables->priv, .src = (uint64_t)(uintptr_t)tables->src, .dst = (uint64_t)(uintptr_t)tables->dst, .dst_part = PART,
        .part_bytes = PART, .n = RANKS, .sig = SIG, .flags = CCL_F_FLAT_SRC | CCL_F_FLAT_DST};
}

static bool run(const struct emu_program *program, const char *arch, const char *kernel, uint32_t threads, const struct ccl_k_coll_args *args, uint64_t seed)
{
    struct emu_device *gpu = emu_device_new(0, arch, seed);
    struct emu_launch launch = {.kernel = emu_program_kernel(program, kernel), .device = gpu, .grid = 1, .threads = threads, .args = args};
    struct emu_result result = {0};
    bool ok = launch.kernel != NULL && emu_run(&launch, 1, &(struct emu_options){.seed = seed, .max_steps = MOST_STEPS}, &result);
    if (!ok) {
        TEST_FAIL("%s on %s, seed %llu: %s", kernel, arch, (unsigned long long)seed, launch.kernel == NULL ? "no such kernel" : result.text);
    }
    emu_device_free(gpu);
    return ok;
}

/* Ends, and names the rank that is at fault; everybody has been told. */
static void check_case(const struct emu_program *program, const char *arch, const struct test_case *c)
{
    bool ok = true;
    for (uint64_t seed = 1; seed <= SEEDS && ok; seed++) {
        const struct ccl_k_coll_args args = args_of(c);
        put_scene(c);
        ok = run(program, arch, c->kernel, c->threads, &args, seed);
        const struct ccl_k_err *e = &page[0]->err[0];
        if (ok) {
            TEST_EQ(e->peer, ODD);
            TEST_EQ(e->reason, c->wait == FOR_ADVERTS ? CCL_REASON_MISMATCH : c->wait >= FOR_PACKETS ? CCL_REASON_DEAD : CCL_REASON_LEFT);
            TEST_CHECK(page[0]->abort != 0 && page[1]->abort == page[0]->abort);
        }
    }
}

static void check_unclean(const struct emu_program *program, const char *arch)
{
    const struct test_case c = {"push", "ccl_k_push_n", 64, FOR_CHUNKS};
    struct ccl_k_coll_args args = args_of(&c);
    put_scene(&c);
    if (run(program, arch, "ccl_k_unclean", 64, &args, 1)) {
        TEST_EQ(page[0]->unclean, 1ull << ABSENT); /* its advert is there, and no word says that it stages, or has ended */
    }
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return p;
}

/* STEM_ARCH.co */
static void check_file(const char *path)
{
    static char image[4u << 20], why[EMU_TEXT];
    FILE *f = fopen(path, "rb");
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path, *bar = strrchr(base, '_');
    char arch[16];
    const size_t bytes = f != NULL ? fread(image, 1, sizeof(image), f) : 0;
    if (bytes == 0 || bytes == sizeof(image) || bar == NULL) {
        TEST_FAIL("cannot read %s", path);
        return;
    }
    fclose(f);
    snprintf(arch, sizeof(arch), "%.*s", (int)strcspn(bar + 1, "."), bar + 1);
    struct emu_program *program = emu_program_load(image, bytes, arch, NULL, why);
    if (program == NULL) {
        TEST_FAIL("%s: %s", path, why);
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strlen(cases[i].stem) == (size_t)(bar - base) && strncmp(cases[i].stem, base, (size_t)(bar - base)) == 0) {
            check_case(program, arch, &cases[i]);
        }
    }
    if (strncmp(base, "unclean_", 8) == 0) {
        check_unclean(program, arch);
    }
    emu_program_free(program);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        TEST_SKIP_NOW("no code objects were built");
    }
    for (int i = 0; i < 2; i++) {
        ctl[i] = map(CTL_BYTES);
        page[i] = map(PAGE_BYTES);
    }
    device = map(DEVICE_BYTES);
    tables = (struct tables *)device;
    emu_set_regions(find);
    for (int i = 1; i < argc; i++) {
        check_file(argv[i]);
    }
    return test_result();
}
