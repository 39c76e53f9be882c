/* SPDX-License-Identifier: MIT
 *
 * Proves that a program which uses one kind of operation only, for longer than a tag is wide, stays right: what that kind never writes must not
 * be taken for new when the tag comes round. Run with a library of 10-bit tags (mpi.narrow_wrap); with the normal one it is a short run. */

/* CTEST: ranks 2 3; labels mpi host; timeout 60 */
#include <string.h>

#include "common.h"

#define CALLS 2600 /* two and a half times round a 10-bit tag */

static cclComm_t comm;
static cclStream_t stream;

/* count elements of 8 bytes; one rank is late now and then, so that the others look around while they wait. */
static void gathers(const char *what, size_t count, int variant)
{
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    bool groups = variant == cclVariantPartitioned;
    size_t all = count * (size_t)tm_size;
    uint64_t *mine = malloc(count * 8), *got = malloc(all * 8);
    void *send = NULL, *recv = NULL;
    int wrong = 0;

    tm_at("%s", what);
    TM_MUST(cclMemAlloc(comm, &send, count * 8));
    if (groups) { /* plain memory, so staged; groups of unequal numbers of blocks, several chunks a block */
        TM_MUST(cclDeviceMalloc(&recv, all * 8));
        config.comm_sms = tm_size + 1;
        config.tile_n = (int)(count / 8);
    } else {
        TM_MUST(cclMemAlloc(comm, &recv, all * 8));
    }
    config.variant = variant;
    for (uint64_t call = 0; call < CALLS; call++) {
        for (size_t i = 0; i < count; i++) {
            mine[i] = call << 32 | (uint64_t)tm_rank << 24 | i;
        }
        tm_put(send, mine, count * 8);
        if (call % 64 == 63 && tm_rank == (int)(call / 64 % (uint64_t)tm_size)) {
            tm_sleep_ms(2);
        }
        if (!TM_OK(cclAllGather2D(send, count, recv, count, 1, count, cclUint64, &config, comm, stream)) ||
            !TM_OK(cclStreamSynchronize(stream))) {
            MPI_Abort(MPI_COMM_WORLD, 1); /* the other ranks may wait for this one in a call of their own */
        }
        tm_get(got, recv, all * 8);
        for (size_t i = 0; i < all; i++) {
            wrong += got[i] != (call << 32 | (uint64_t)(i / count) << 24 | i % count);
        }
    }
    TEST_EQ(wrong, 0);
    TM_OK(groups ? cclDeviceFree(recv) : cclMemFree(comm, recv));
    TM_OK(cclMemFree(comm, send));
    free(mine);
    free(got);
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    tm_watchdog(50);
    stream = tm_stream_create();
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    gathers("LL alone", 1, cclVariantLL);
    gathers("direct alone", 200, cclVariantDirect);
    gathers("LL after direct", 1, cclVariantLL);
    gathers("staged alone", 200, cclVariantStaged);
    gathers("partitioned alone", 2000, cclVariantPartitioned);
    tm_at("barriers alone");
    for (int call = 0; call < CALLS; call++) {
        TM_OK(cclBarrier(comm, stream));
        TM_OK(cclStreamSynchronize(stream));
    }
    gathers("direct after barriers", 200, cclVariantDirect);
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
    return tm_finish();
}
