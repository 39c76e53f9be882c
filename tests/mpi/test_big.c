/* SPDX-License-Identifier: MIT
 *
 * Proves that more than 2^31 elements and more than 4 GiB are gathered right: every byte is compared, in place,
 * 1-D and 2-D. Skipped with the number when memory is short. */
/* CTEST: ranks 2 3 4; gpu 2 4; labels mpi host long; timeout 300 */
/* CTEST: ranks 2; gpu 2; labels mpi host long; timeout 300; args staged */
#include <string.h>

#include "common.h"

#define SLACK ((size_t)4 << 30) /* bytes that must stay free for everybody else */

static size_t available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    unsigned long kib = 0;
    char line[128];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %lu", &kib) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return (size_t)kib * 1024;
}

/* part bytes of this rank lie at recv + rank * part; rows of row_bytes, so that 2-D sees the same bytes. */
static void gather(cclComm_t comm, cclStream_t stream, uint8_t *recv, size_t rows, size_t row_bytes, int variant,
                   uint64_t seed)
{
    size_t part = rows * row_bytes, block = (size_t)16 << 20;
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    uint8_t *host = malloc(block);
    double start;

    tm_at("gather of %zu x %zu bytes a rank", rows, row_bytes);
    for (size_t off = 0; off < part; off += block) {
        size_t bytes = part - off < block ? part - off : block;

        tm_gen(host, off, bytes, seed, tm_rank);
        tm_put(recv + (size_t)tm_rank * part + off, host, bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = tm_now();
    config.variant = variant;
    if (rows == 1 && variant == CCL_UNSET) {
        TM_OK(cclAllGather(recv + (size_t)tm_rank * part, recv, part, cclUint8, comm, stream));
    } else {
        TM_OK(cclAllGather2D(recv + (size_t)tm_rank * part, row_bytes, recv, row_bytes, rows, row_bytes, cclUint8,
                             &config, comm, stream));
    }
    TM_OK(cclStreamSynchronize(stream));
    if (tm_rank == 0) {
        printf("%zu bytes a rank on %d ranks: %.2f s\n", part, tm_size, tm_now() - start);
        fflush(stdout);
    }
    for (int r = 0; r < tm_size; r++) {
        for (size_t off = 0; off < part; off += block) {
            size_t bytes = part - off < block ? part - off : block;

            tm_get(host, recv + (size_t)r * part + off, bytes);
            if (!tm_check_data(host, off, bytes, 1, seed, r, "big")) {
                tm_fail(__FILE__, __LINE__, "  in the block at byte %zu of rank %d", off, r);
                break;
            }
        }
    }
    tm_gathers++;
    free(host);
}

int main(int argc, char **argv)
{
    bool staged;
    size_t part, all, needed, have;
    cclComm_t comm;
    cclStream_t stream;
    void *recv = NULL;

    TM_INIT(argc, argv);
    staged = tm_has_arg("staged");
    tm_watchdog(280);
    /* two ranks: more than 2^31 elements each; more ranks: more than 4 GiB together, an odd number each */
    part = tm_size == 2 ? ((size_t)1 << 31) + 13 : (((size_t)1 << 32) + 8 * 1024) / (size_t)tm_size + 5;
    all = part * (size_t)tm_size;
    needed = all * (size_t)tm_size + SLACK;
    have = available_bytes();
    MPI_Bcast(&have, sizeof(have), MPI_BYTE, 0, MPI_COMM_WORLD); /* all ranks decide alike */
    if (have < needed) {
        if (tm_rank == 0) {
            printf("SKIPPED: %zu MiB available, %zu MiB needed\n", have >> 20, needed >> 20);
        }
        MPI_Finalize();
        return TEST_SKIP;
    }
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    if (staged) {
        TM_MUST(cclDeviceMalloc(&recv, all));
        gather(comm, stream, recv, 1, part, cclVariantStaged, 1);
        TM_OK(cclDeviceFree(recv));
    } else {
        TM_MUST(cclMemAlloc(comm, &recv, all));
        gather(comm, stream, recv, 1, part, CCL_UNSET, 1);
        gather(comm, stream, recv, part / 70001, 70001, CCL_UNSET, 2); /* many rows, the last elements beyond 2^31 */
        TM_OK(cclMemFree(comm, recv));
    }
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    return tm_finish();
}
