/* SPDX-License-Identifier: MIT
 *
 * Proves that a minute of everything at random (sizes, types, variants, grids, memory, streams, splits,
 * registrations, skew, new communicators) gives exact results. The seed is printed; `seed N` among the arguments
 * repeats a run, `seconds N` sets its length. */
/* CTEST: ranks 2 3 8; gpu 2 8; labels mpi host long; timeout 120; args soak */
/* CTEST: ranks 4; labels mpi host; timeout 60; args seconds 3 */
#include <string.h>
#include <time.h>

#include "common.h"

#define MOST ((size_t)400000) /* bytes of a part */
#define STREAMS 3
#define COMMS 3

static uint64_t state; /* equal on all ranks: every choice is made alike */
static uint64_t own;   /* this rank's own dice: pointers and sleeps */
static cclComm_t comms[COMMS];
static cclStream_t streams[STREAMS];
static struct tm_buf send_buf[TM_NUM_KINDS], recv_buf[TM_NUM_KINDS];

static unsigned dice(unsigned sides)
{
    return (unsigned)(tm_random(&state) % sides);
}

static unsigned own_dice(unsigned sides)
{
    return (unsigned)(tm_random(&own) % sides);
}

/* The buffers belong to comms[0]; the others are splits of it that share its windows. */
static void new_world(void)
{
    size_t slack = 2 * TM_GUARD + 64;

    for (int k = 0; k < TM_NUM_KINDS && comms[0] != NULL; k++) {
        tm_buf_destroy(&send_buf[k]);
        tm_buf_destroy(&recv_buf[k]);
    }
    for (int c = 0; c < COMMS; c++) {
        TM_OK(cclCommDestroy(comms[c])); /* the parent first */
    }
    tm_at("soak: new world");
    comms[0] = tm_comm_create(MPI_COMM_WORLD, NULL);
    for (int c = 1; c < COMMS; c++) {
        TM_MUST(cclCommSplit(comms[0], 0, tm_rank, &comms[c], NULL));
    }
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_create(&send_buf[k], comms[0], (enum tm_kind)k, MOST + slack);
        tm_buf_create(&recv_buf[k], comms[0], (enum tm_kind)k, MOST * (size_t)tm_size + slack);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void one_gather(uint64_t seed)
{
    static const int grids[] = {CCL_UNSET, 1, 4, 16};
    struct tm_gather g;
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    int c = (int)dice(COMMS), s = (int)dice(STREAMS);
    unsigned size_class = dice(8), variant = dice(5);
    bool configured = dice(2) == 0, sleeps = dice(10) == 0, in_place = dice(4) == 0;
    enum tm_kind kind;

    memset(&g, 0, sizeof(g));
    g.comm = comms[c];
    g.stream = streams[s];
    g.rank = tm_rank;
    g.n = tm_size;
    g.type = &tm_types[dice(TM_NUM_TYPES)];
    g.count = 1 + dice(size_class < 4 ? 64 : size_class < 7 ? 5000 : (unsigned)(MOST / g.type->size));
    g.seed = seed;
    g.in_place = in_place;
    g.what = "soak";
    kind = (enum tm_kind)own_dice(TM_NUM_KINDS);
    if (configured) {
        config.comm_sms = grids[dice(4)];
        config.variant = (int)variant;
        if ((config.variant == cclVariantLL && g.count * g.type->size > 65536) ||
            (config.variant == cclVariantPartitioned && config.comm_sms != CCL_UNSET && config.comm_sms < tm_size)) {
            config.variant = cclVariantAuto;
        }
        if (config.variant == cclVariantDirect) {
            kind = c == 0 && own_dice(2) == 0 ? TM_REG : TM_HEAP; /* registrations are known to comms[0] only */
        }
        if (config.variant != cclVariantLL && dice(3) == 0) {
            config.tile_n = 1 << dice(14);
            if (tm_is_interpreted() && g.count / 64 > (size_t)config.tile_n) { /* a staged tile takes 2 ms there */
                config.tile_n = (int)(g.count / 64);
            }
        }
        g.config = &config;
        g.variant = config.variant;
    }
    g.send = send_buf[own_dice(TM_NUM_KINDS)].base + TM_GUARD + own_dice(16);
    g.recv = recv_buf[kind].base + TM_GUARD + own_dice(16);
    if (sleeps && own_dice(2) == 0) {
        tm_sleep_ms(own_dice(5));
    }
    if (!tm_gather(&g)) {
        fprintf(stderr, "[%d] soak: failed with call seed %llu\n", tm_rank, (unsigned long long)seed);
        tm_die();
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)time(NULL);
    unsigned seconds = 60, rounds = 0;
    double start;
    int go_on = 1;

    TM_INIT(argc, argv);
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "seconds") == 0) {
            seconds = (unsigned)atoi(argv[i + 1]);
        }
    }
    tm_watchdog(seconds + 40);
    MPI_Bcast(&seed, sizeof(seed), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (tm_rank == 0) {
        printf("soak: seed %llu, %u s\n", (unsigned long long)seed, seconds);
        fflush(stdout);
    }
    state = seed;
    own = seed + 1000003 * (uint64_t)(tm_rank + 1);
    for (int s = 0; s < STREAMS; s++) {
        streams[s] = tm_stream_create();
    }
    start = tm_now();
    while (go_on) {
        if (rounds++ % 10 == 0) {
            new_world();
        }
        for (unsigned i = 0; i < 60; i++) {
            one_gather(rounds * 1000 + i);
        }
        go_on = tm_now() - start < seconds;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_destroy(&send_buf[k]);
        tm_buf_destroy(&recv_buf[k]);
    }
    for (int c = COMMS - 1; c >= 0; c--) {
        TM_OK(cclCommDestroy(comms[c]));
    }
    for (int s = 0; s < STREAMS; s++) {
        TM_OK(cclStreamDestroy(streams[s]));
    }
    return tm_finish();
}
