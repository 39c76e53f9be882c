/* SPDX-License-Identifier: MIT
 *
 * Proves that every collective kernel's machine code delivers exactly the data, leaves all other memory alone, and neither hangs nor breaks a rule of the
 * memory model, whatever the order of its waves and the fate of its stores: all ranks of a communicator in one process, a device each, up to three
 * operations deep under one scheduler with a seed. A rank's memory is checked at the moment its kernel ends.
 *
 *   schedules [--arch gfx942] [--kernel NAME] [--schedules N] [--seed S] [--slots K] [--replace FILE] [--only KINDS] [--colls | --small] [--repeat] [--list]
 *
 * --colls: the collectives beside all-gather, and sends and receives, none by LL. --small: those collectives, by LL where they are small. --repeat: every kernel's schedules a second time, which must take as many steps. A failure prints the words that repeat it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gangs.h"
#include "schedules.h"

#define MOST_STEPS 16000000u /* of a gang; good ones take up to eight million */
#define MOST_STEPS_LL 1000000000u /* a thousand waves of LL that all poll for a slow one */

#define SMALL 0x80000000u /* beside DO_...: collectives beside all-gather go by LL where they are small */

/* The kernel that a case is about, how many ranks, which operations lead to it, most operations of a gang. */
static const struct kernel_case {
    const char *kernel;
    int n;
    unsigned kinds;
    int depth;
} cases[] = {
    {"ll_2", 2, DO_LL, 3},
    {"ll_3", 3, DO_LL, 3},
    {"ll_4", 4, DO_LL, 3},
    {"ll_5", 5, DO_LL, 2},
    {"ll_6", 6, DO_LL, 2},
    {"ll_7", 7, DO_LL, 2},
    {"ll_8", 8, DO_LL, 2},
    {"ll_n", 9, DO_LL, 2},
    {"push_2", 2, DO_DIRECT | DO_STAGED | DO_AUTO, 3},
    {"push_3", 3, DO_DIRECT | DO_STAGED | DO_AUTO, 3},
    {"push_4", 4, DO_DIRECT | DO_STAGED | DO_AUTO, 3},
    {"push_5", 5, DO_DIRECT | DO_STAGED | DO_AUTO, 2},
    {"push_6", 6, DO_DIRECT | DO_STAGED | DO_AUTO, 2},
    {"push_7", 7, DO_DIRECT | DO_STAGED | DO_AUTO, 2},
    {"push_8", 8, DO_DIRECT | DO_STAGED | DO_AUTO, 2},
    {"push_n", 9, DO_DIRECT | DO_STAGED | DO_AUTO, 2},
    {"push_part", 3, DO_PARTITIONED, 3},
    {"barrier", 4, DO_BARRIER | DO_LL | DO_DIRECT, 3},
    {"copy_open", 3, DO_COPY, 1},
    {"copy_close", 4, DO_COPY, 1},
    {"mix", 3, DO_LL | DO_DIRECT | DO_STAGED | DO_AUTO | DO_PARTITIONED | DO_BARRIER, 3},
    {"mismatch", 3, DO_MISMATCH, 1},
    {"parts", 3, DO_PARTS, 3},
    {"parts_9", 9, DO_PARTS, 1}, /* eight destinations side by side */
    {"reduce", 3, DO_REDUCE, 3},
    {"p2p", 3, DO_P2P, 3},
    {"colls", 4, DO_COLLS | DO_DIRECT, 3},
    {"parts_ll", 3, DO_PARTS | DO_REDUCE | SMALL, 3},
    {"parts_ll_8", 8, DO_PARTS | DO_REDUCE | SMALL, 1},
    {"parts_ll_9", 9, DO_PARTS | DO_REDUCE | SMALL, 1}, /* more lanes than ranks */
};
#define NUM_CASES (sizeof(cases) / sizeof(cases[0]))

static struct options {
    const char *arch, *kernel, *replace;
    int schedules;
    unsigned only;
    uint64_t seed;
    bool repeat, colls, small;
} opt = {.arch = "gfx942", .schedules = 12, .seed = 1, .only = ~0u};

static const struct ccl_emu_gangs *emu;
static uint64_t longest_gang; /* steps */

/* What is under way, for `ended`. */
static struct world {
    const struct kernel_case *c;
    int n, depth, schedule, odd, absent; /* odd: the rank that calls something else, absent: one that does not call; -1: none */
    int first_device;
    cclComm_t comms[MAX_RANKS];
    cclStream_t streams[MAX_RANKS];
    struct rank_memory memory[MAX_RANKS];
    struct shape shapes[MAX_OPS];
    bool checked[MAX_RANKS][MAX_OPS], bad;
    int seen[MAX_RANKS]; /* ends of kernels of a rank in this gang */
    char text[1024];
} world;

static void fail(const char *what)
{
    char shape[512];
    fprintf(stderr, "FAILED %s on %s: %s\n", world.c->kernel, opt.arch, what);
    for (int op = 0; op < world.depth; op++) {
        describe_shape(&world.shapes[op], world.n, shape, sizeof(shape));
        fprintf(stderr, "  operation %d: %s\n", op, shape);
    }
    fprintf(stderr, "  again: schedules --arch %s --kernel %s --seed %llu --schedules %d\n", opt.arch, world.c->kernel, (unsigned long long)opt.seed,
            world.schedule + 1);
    fflush(stderr);
    _exit(1); /* kernels that never end are still there */
}

#define MUST(call)                                                             \
    do {                                                                       \
        cclResult_t rc_ = (call);                                              \
        if (rc_ != cclSuccess) {                                               \
            char text_[600];                                                   \
            snprintf(text_, sizeof(text_), "%s: %s", #call, cclGetLastError(NULL)); \
            fail(text_);                                                       \
        }                                                                      \
    } while (0)

/* ---- one gang ---- */

/* Copy has two kernels an operation, each a gang: the operation has ended with the second. */
static void ended(int device, int index, void *arg)
{
    struct world *w = arg;
    const int rank = device, kernels = w->shapes[0].config.variant == cclVariantCopy ? 2 : 1;
    const int op = kernels == 2 ? 0 : index;
    if (w->bad || ++w->seen[rank] < kernels || w->shapes[op].kind == DO_BARRIER) {
        return;
    }
    w->checked[rank][op] = true;
    w->bad = !check_areas(&w->memory[rank], &w->shapes[op], w->n, rank, op, w->odd >= 0, w->text, sizeof(w->text));
}

static void enqueue(int rank, int op)
{
    struct shape s = world.shapes[op];
    const struct rank_memory *m = &world.memory[rank];
    if (s.kind == DO_BARRIER) {
        MUST(cclBarrier(world.comms[rank], world.streams[rank]));
        return;
    }
    if (s.coll != COLL_NONE) {
        MUST(coll_enqueue(send_of(m, &s, rank, op), recv_of(m, &s, rank, op), &s, world.n, rank, world.comms[rank], world.streams[rank]));
        return;
    }
    size_t cols = rank == world.odd ? s.cols - s.cols / 2 : s.cols;
    MUST(cclAllGather2D(send_of(m, &s, rank, op), s.ld_send, recv_of(m, &s, rank, op), s.ld_recv, s.rows, cols, cclUint8, &s.config, world.comms[rank],
                        world.streams[rank]));
}

/* Returns the steps it took. */
static uint64_t run_gang(void)
{
    struct emu_result result;
    char text[1024 + EMU_TEXT];
    memset(world.checked, 0, sizeof(world.checked));
    memset(world.seen, 0, sizeof(world.seen));
    for (int op = 0; op < world.depth; op++) {
        for (int r = 0; r < world.n; r++) {
            fill_areas(&world.memory[r], &world.shapes[op], world.n, r, op);
        }
    }
    for (int op = 0; op < world.depth; op++) {
        MUST(cclGroupStart());
        for (int r = 0; r < world.n; r++) {
            if (r != world.absent) {
                enqueue(r, op);
            }
        }
        MUST(cclGroupEnd());
    }
    cclResult_t rc[MAX_RANKS];
    for (int r = 0; r < world.n; r++) {
        rc[r] = cclStreamSynchronize(world.streams[r]);
    }
    bool ok = emu->result(&result);
    if (world.bad) {
        fail(world.text);
    }
    if (!ok) {
        fail(result.text);
    }
    for (int r = 0; r < world.n; r++) {
        if (r == world.absent) {
            continue;
        }
        if ((rc[r] == cclSuccess) != (world.odd < 0)) {
            snprintf(text, sizeof(text), "rank %d: %s%s", r, rc[r] == cclSuccess ? "a mismatch was not noticed" : "the operation failed: ",
                     rc[r] == cclSuccess ? "" : cclGetLastError(NULL));
            fail(text);
        }
        if (world.odd >= 0 && rc[r] != cclInvalidUsage) { /* whoever sees it first, all are told the reason */
            snprintf(text, sizeof(text), "rank %d: the mismatch is reported as %s: %s", r, cclGetErrorString(rc[r]), cclGetLastError(NULL));
            fail(text);
        }
        for (int op = 0; op < world.depth; op++) {
            if (world.shapes[op].kind != DO_BARRIER && !world.checked[r][op]) {
                fail("a kernel has not ended");
            }
            if (world.shapes[op].kind != DO_BARRIER && !check_untouched(&world.memory[r], &world.shapes[op], r, op, text, sizeof(text))) {
                fail(text);
            }
        }
    }
    return result.steps;
}

/* ---- a case ---- */

static void make_world(const struct kernel_case *c)
{
    memset(&world, 0, sizeof(world));
    world.c = c;
    world.n = c->n;
    world.odd = world.absent = -1;
    MUST(cclCommInitAll(world.comms, c->n, NULL)); /* rank i on device i */
    MUST(cclGroupStart());
    for (int r = 0; r < c->n; r++) {
        MUST(cclMemAlloc(world.comms[r], (void **)&world.memory[r].send[0], MAX_OPS * SEND_BYTES));
    }
    MUST(cclGroupEnd());
    MUST(cclGroupStart());
    for (int r = 0; r < c->n; r++) {
        MUST(cclMemAlloc(world.comms[r], (void **)&world.memory[r].recv[0], MAX_OPS * RECV_BYTES));
    }
    MUST(cclGroupEnd());
    for (int r = 0; r < c->n; r++) {
        MUST(cclSetDevice(r));
        MUST(cclStreamCreate(&world.streams[r]));
        MUST(cclDeviceMalloc((void **)&world.memory[r].send[1], MAX_OPS * SEND_BYTES));
        MUST(cclDeviceMalloc((void **)&world.memory[r].recv[1], MAX_OPS * RECV_BYTES));
    }
}

static void free_world(void)
{
    emu->start(0, 0, 0, 0, NULL, NULL);
    for (int r = 0; r < world.n; r++) {
        MUST(cclSetDevice(r));
        MUST(cclCommDestroy(world.comms[r]));
        MUST(cclStreamDestroy(world.streams[r]));
        MUST(cclDeviceFree(world.memory[r].send[1]));
        MUST(cclDeviceFree(world.memory[r].recv[1]));
    }
}

/* The sum of the steps. A mismatch is the end of its communicator. */
static uint64_t run_case(const struct kernel_case *c)
{
    const unsigned all = c->kinds & ~SMALL, kinds = (all & opt.only) != 0 ? all & opt.only : all;
    uint64_t state = opt.seed, sum = 0, most = 0;
    int made = 0;
    for (int i = 0; i < opt.schedules; i++) {
        if (made == 0) {
            make_world(c);
        }
        made++;
        world.schedule = i;
        world.depth = 1 + (int)(next_random(&state) % (uint64_t)c->depth);
        for (int op = 0; op < world.depth; op++) {
            if ((kinds & DO_COLLS) && (!(kinds & ~DO_COLLS) || next_random(&state) % 4 != 0)) {
                draw_coll(&state, kinds, c->n, &world.shapes[op]);
            } else {
                draw_shape(&state, kinds & ~DO_COLLS, c->n, kinds & DO_COLLS ? 1 : 8, &world.shapes[op]);
            }
        }
        world.odd = kinds == DO_MISMATCH ? (int)(next_random(&state) % (uint64_t)c->n) : -1;
        /* The two others disagree and must end, though one lane of a wave waits for a rank that does not come. */
        world.absent = world.odd >= 0 && c->n == 3 && next_random(&state) % 2 == 0 ? (world.odd + 1) % 3 : -1;
        emu->start(world.absent >= 0 ? c->n - 1 : c->n, world.depth, next_random(&state), (c->kinds & SMALL) && c->n >= 8 ? MOST_STEPS_LL : MOST_STEPS, ended, &world);
        uint64_t steps = run_gang();
        sum = sum * 31 + steps;
        most = steps > most ? steps : most;
        if (world.odd >= 0) {
            free_world();
            made = 0;
        }
    }
    if (made != 0) {
        free_world();
    }
    longest_gang = most > longest_gang ? most : longest_gang;
    return sum;
}

static void run_and_repeat(const struct kernel_case *c)
{
    uint64_t sum = run_case(c);
    if (opt.repeat && run_case(c) != sum) {
        make_world(c);
        fail("the same seed led to other steps");
    }
    printf("%-10s %s %d ranks: %d schedules from seed %llu passed, at most %llu steps\n", c->kernel, opt.arch, c->n, opt.schedules,
           (unsigned long long)opt.seed, (unsigned long long)longest_gang);
    fflush(stdout);
}

/* ---- start ---- */

static void usage(const char *word)
{
    fprintf(stderr, "schedules: %s: see the head of schedules.c\n", word);
    exit(2);
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(word, "--repeat") == 0) {
            opt.repeat = true;
            continue;
        }
        if (strcmp(word, "--colls") == 0) {
            opt.colls = true;
            continue;
        }
        if (strcmp(word, "--small") == 0) {
            opt.small = true;
            continue;
        }
        if (strcmp(word, "--list") == 0) {
            for (size_t k = 0; k < NUM_CASES; k++) {
                printf("%s\n", cases[k].kernel);
            }
            exit(0);
        }
        if (value == NULL) {
            usage(word);
        }
        i++;
        if (strcmp(word, "--arch") == 0) {
            opt.arch = value;
        } else if (strcmp(word, "--kernel") == 0) {
            opt.kernel = value;
        } else if (strcmp(word, "--replace") == 0) {
            opt.replace = value;
        } else if (strcmp(word, "--schedules") == 0) {
            opt.schedules = atoi(value);
        } else if (strcmp(word, "--seed") == 0) {
            opt.seed = strtoull(value, NULL, 0);
        } else if (strcmp(word, "--only") == 0) {
            opt.only = (unsigned)strtoul(value, NULL, 0);
        } else if (strcmp(word, "--slots") == 0) {
            setenv("CCL_RING_SLOTS", value, 1);
        } else {
            usage(word);
        }
    }
}

/* Are the cases asked for about all-gather, or about the other collectives? Those want short rings, which a communicator of few blocks has, or LL. */
static bool is_asked(const struct kernel_case *c)
{
    const bool colls = (c->kinds & DO_COLLS) != 0, small = (c->kinds & SMALL) != 0;
    return opt.kernel != NULL ? strcmp(opt.kernel, c->kernel) == 0 : opt.small ? small : opt.colls == colls && !small;
}

static void start_backend(void)
{
    char backend[32], devices[16], why[EMU_TEXT] = "";
    snprintf(backend, sizeof(backend), "emu:%s", opt.arch);
    snprintf(devices, sizeof(devices), "%d", MAX_RANKS);
    setenv("CCL_BACKEND", backend, 1);
    setenv("FAKE_GPU_DEVICES", devices, 1);
    for (size_t i = 0; i < NUM_CASES; i++) {
        if (is_asked(&cases[i]) && (cases[i].kinds & SMALL)) {
            setenv("CCL_MAX_BLOCKS", "8", 0);
            setenv("CCL_LL_MAX", "131072", 0);
        } else if (is_asked(&cases[i]) && (cases[i].kinds & DO_COLLS)) {
            setenv("CCL_MAX_BLOCKS", "1", 0);
        }
    }
    setenv("CCL_RING_SLOTS", "2", 0); /* so that credits are needed soon */
    setenv("CCL_RING_SLOT_BYTES", "4096", 0);
    setenv("CCL_HEAP_CHUNK_MB", "1", 0);
    setenv("CCL_LL_MAX", "0", 0); /* auto is push, however small */
    if (strcmp(cclBackendName(), backend) != 0) {
        fprintf(stderr, "schedules: the backend is %s: %s\n", cclBackendName(), cclGetLastError(NULL));
        exit(1);
    }
    void *library = dlopen("libccl_emu.so", RTLD_NOW | RTLD_NOLOAD), *symbol = library != NULL ? dlsym(library, "ccl_emu") : NULL;
    if (symbol == NULL) {
        fprintf(stderr, "schedules: libccl_emu.so is not loaded or has no gangs\n");
        exit(1);
    }
    emu = symbol;
    if (opt.replace != NULL && !emu->replace(opt.replace, why)) {
        fprintf(stderr, "schedules: %s\n", why);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    int done = 0;
    read_options(argc, argv);
    start_backend();
    for (size_t i = 0; i < NUM_CASES; i++) {
        if (is_asked(&cases[i])) {
            run_and_repeat(&cases[i]);
            done++;
        }
    }
    if (done == 0) {
        usage(opt.kernel);
    }
    return 0;
}
