/* SPDX-License-Identifier: MIT
 *
 * ccl_bench: measures libccl's operations against MPI in the same run. Started by mpirun; ccl_bench --help explains. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

const struct bench_op *const bench_operations[] = {&bench_op_all_gather,    &bench_op_all_reduce, &bench_op_reduce_scatter, &bench_op_reduce,
                                                   &bench_op_broadcast,     &bench_op_all_to_all, &bench_op_all_to_all_v,   &bench_op_gather,
                                                   &bench_op_scatter,       &bench_op_sendrecv,   &bench_op_all_gather_matmul,
                                                   &bench_op_matmul_all_gather, &bench_op_tune,   &bench_op_init,           NULL};

static const struct bench_op *find_operation(const char *name)
{
    for (const struct bench_op *const *op = bench_operations; *op != NULL; op++) {
        if (strcmp((*op)->name, name) == 0) {
            return *op;
        }
    }
    return NULL;
}

/* The same answer on every rank, because all see the same arguments. */
static bool arguments_fit(const struct bench_options *options, int rank, int world)
{
    if (find_operation(options->operation) == NULL) {
        if (rank == 0) {
            fprintf(stderr, "ccl_bench: unknown operation '%s' (ccl_bench --help lists them)\n", options->operation);
        }
        return false;
    }
    for (int i = 0; i < options->ranks.count; i++) {
        if (options->ranks.values[i] > world) {
            if (rank == 0) {
                fprintf(stderr, "ccl_bench: --ranks %lld: mpirun started %d\n", options->ranks.values[i], world);
            }
            return false;
        }
    }
    return true;
}

static int run(struct bench_options *options, int rank, int world)
{
    const struct bench_op *op = find_operation(options->operation);
    int good = 1;

    if (options->seed < 0) {
        options->seed = (long long)(bench_mix((uint64_t)(bench_now_us() * 1e3)) >> 24);
    }
    MPI_Bcast(&options->seed, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        good = bench_report_open(options, world);
    }
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!good) {
        return 2;
    }
    int status = op->run != NULL ? op->run(options) : bench_sweep(op, options);
    if (rank == 0 && !bench_report_close()) {
        status = 1;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct bench_options options;
    int rank, world, status, provided;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        fputs("ccl_bench: MPI does not start\n", stderr);
        return 2;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (!bench_options_parse(&options, argc, argv, rank == 0)) {
        status = 2;
    } else if (options.help) {
        if (rank == 0) {
            bench_help(stdout);
        }
        status = 0;
    } else if (!arguments_fit(&options, rank, world)) {
        status = 2;
    } else {
        status = run(&options, rank, world);
    }
    bench_options_free(&options);
    MPI_Finalize();
    return status;
}
