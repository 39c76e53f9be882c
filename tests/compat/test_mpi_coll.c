/* SPDX-License-Identifier: MIT
 *
 * Proves that a program written for NCCL gets NCCL's results: every collective, in place and not, with NULL where NCCL allows it, sends and receives in
 * groups, operators of its own, splits, registrations; ranks are processes and the stream is the default one. The numbers are small integers, exact
 * in every type used. */
/* CTEST: ranks 1 2 3; labels quick */
/* CTEST: ranks 3; env NCCL_COMM_BLOCKING=0; name background */
#include <mpi.h>

#include "world.h"

static int rank, n;
static ncclComm_t comm;

/* Element i of rank r's input. */
static int value(int r, size_t i)
{
    return r * 7 + (int)(i % 13) + 1;
}

struct buffer {
    float *dev, *host;
    size_t count;
};

static struct buffer make(size_t count)
{
    struct buffer b = {world_alloc((count + 1) * sizeof(float)), malloc((count + 1) * sizeof(float)), count};
    for (size_t i = 0; i <= count; i++) {
        b.host[i] = -1;
    }
    return b;
}

static void release(struct buffer *b)
{
    TEST_EQ(ncclMemFree(b->dev), ncclSuccess);
    free(b->host);
}

static void push(struct buffer *b)
{
    world_put(b->dev, b->host, (b->count + 1) * sizeof(float), NULL);
}

static void pull(struct buffer *b)
{
    TEST_EQ(cclStreamSynchronize(NULL), cclSuccess);
    world_put(b->host, b->dev, (b->count + 1) * sizeof(float), NULL);
}

static void expect(const char *what, const struct buffer *b, size_t i, double want)
{
    if ((double)b->host[i] != want) {
        TEST_FAIL("%s of %zu: element %zu is %g, want %g", what, b->count, i, (double)b->host[i], want);
    }
}

static void ok(const char *what, ncclResult_t rc)
{
    if (rc != ncclSuccess) {
        TEST_FAIL("%s: %d, %s", what, (int)rc, ncclGetLastError(comm));
    }
}

/* Contributions of all ranks joined. */
static double joined(ncclRedOp_t op, size_t i)
{
    double v = value(0, i);
    for (int r = 1; r < n; r++) {
        double w = value(r, i);
        v = op == ncclMax ? (w > v ? w : v) : op == ncclMin ? (w < v ? w : v) : op == ncclProd ? v * w : v + w;
    }
    return v;
}

/* send at the beginning of a buffer, recv in one of its own or in place; both with one guard element behind. */
static void test_gathering(size_t count, bool in_place)
{
    struct buffer send = make(count * (size_t)n), recv = make(count * (size_t)n);
    float *part = recv.dev + (size_t)rank * count;
    int root = n - 1;
    for (size_t i = 0; i < count; i++) {
        (in_place ? recv.host + (size_t)rank * count : send.host)[i] = (float)value(rank, i);
    }
    push(&send);
    push(&recv);
    ok("all_gather", ncclAllGather(in_place ? part : send.dev, recv.dev, count, ncclFloat32, comm, NULL));
    pull(&recv);
    for (size_t i = 0; i < recv.count; i++) {
        expect("all_gather", &recv, i, value((int)(i / count), i % count));
    }
    expect("all_gather guard", &recv, recv.count, -1);

    for (size_t i = 0; i < recv.count; i++) {
        recv.host[i] = i / count == (size_t)rank && in_place ? (float)value(rank, i % count) : -1;
    }
    push(&recv);
    bool at_root = rank == root;
    ok("gather", ncclGather(in_place && at_root ? part : in_place ? part : send.dev, at_root ? recv.dev : NULL, count, ncclFloat32, root, comm, NULL));
    pull(&recv);
    for (size_t i = 0; at_root && i < recv.count; i++) {
        expect("gather", &recv, i, value((int)(i / count), i % count));
    }

    for (size_t i = 0; i < send.count; i++) {
        send.host[i] = (float)value((int)(i / count), i % count);
    }
    push(&send);
    float *into = in_place && at_root ? send.dev + (size_t)root * count : recv.dev;
    ok("scatter", ncclScatter(at_root ? send.dev : NULL, into, count, ncclFloat32, root, comm, NULL));
    pull(&recv);
    for (size_t i = 0; i < count && into == recv.dev; i++) {
        expect("scatter", &recv, i, value(rank, i));
    }

    for (size_t i = 0; i < send.count; i++) {
        send.host[i] = (float)(value(rank, i % count) * 100 + (int)(i / count));
    }
    push(&send);
    ok("alltoall", ncclAlltoAll(send.dev, recv.dev, count, ncclFloat32, comm, NULL));
    pull(&recv);
    for (size_t i = 0; i < recv.count; i++) {
        expect("alltoall", &recv, i, value((int)(i / count), i % count) * 100 + rank);
    }
    release(&send);
    release(&recv);
}

static void test_broadcasts(size_t count)
{
    struct buffer send = make(count), recv = make(count);
    for (int root = 0; root < n; root++) {
        for (size_t i = 0; i < count; i++) {
            send.host[i] = (float)value(rank, i);
        }
        push(&send);
        ok("broadcast", ncclBroadcast(rank == root ? send.dev : NULL, recv.dev, count, ncclFloat32, root, comm, NULL));
        pull(&recv);
        ok("bcast", ncclBcast(send.dev, count, ncclFloat32, root, comm, NULL));
        pull(&send);
        for (size_t i = 0; i < count; i++) {
            expect("broadcast", &recv, i, value(root, i));
            expect("bcast", &send, i, value(root, i));
        }
        expect("bcast guard", &send, count, -1);
    }
    release(&send);
    release(&recv);
}

static void test_reductions(size_t count, bool in_place)
{
    static const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
        struct buffer send = make(count * (size_t)n), recv = make(count * (size_t)n);
        ncclRedOp_t op = ops[o];
        int root = (int)o % n;
        double scale = op == ncclAvg ? 1.0 / n : 1;
        bool exact = op != ncclAvg || n == 1 || n == 2 || n == 4;
        for (size_t i = 0; i < send.count; i++) {
            send.host[i] = (float)value(rank, i);
        }
        push(&send);
        ok("all_reduce", ncclAllReduce(send.dev, in_place ? send.dev : recv.dev, send.count, ncclFloat32, op, comm, NULL));
        struct buffer *got = in_place ? &send : &recv;
        pull(got);
        for (size_t i = 0; exact && i < send.count; i++) {
            expect("all_reduce", got, i, joined(op, i) * scale);
        }
        for (size_t i = 0; i < send.count; i++) {
            send.host[i] = (float)value(rank, i);
        }
        push(&send);
        ok("reduce", ncclReduce(send.dev, rank != root ? NULL : in_place ? send.dev : recv.dev, send.count, ncclFloat32, op, root, comm, NULL));
        pull(got);
        for (size_t i = 0; exact && rank == root && i < send.count; i++) {
            expect("reduce", got, i, joined(op, i) * scale);
        }
        for (size_t i = 0; i < send.count; i++) {
            send.host[i] = (float)value(rank, i);
        }
        push(&send);
        size_t first = (size_t)rank * count;
        ok("reduce_scatter", ncclReduceScatter(send.dev, in_place ? send.dev + first : recv.dev, count, ncclFloat32, op, comm, NULL));
        pull(got);
        for (size_t i = 0; exact && i < count; i++) {
            expect("reduce_scatter", got, i + (in_place ? first : 0), joined(op, first + i) * scale);
        }
        release(&send);
        release(&recv);
    }
}

static void test_operator(bool on_device)
{
    struct buffer send = make(33), scalar = make(1);
    ncclRedOp_t op;
    for (size_t i = 0; i < send.count; i++) {
        send.host[i] = (float)value(rank, i);
    }
    scalar.host[0] = (float)(rank + 2);
    push(&send);
    push(&scalar);
    ok("create", ncclRedOpCreatePreMulSum(&op, on_device ? scalar.dev : scalar.host, ncclFloat32, on_device ? ncclScalarDevice : ncclScalarHostImmediate, comm));
    ok("premulsum", ncclAllReduce(send.dev, send.dev, send.count, ncclFloat32, op, comm, NULL));
    ok("destroy", ncclRedOpDestroy(op, comm)); /* as PyTorch does, right behind the call */
    pull(&send);
    for (size_t i = 0; i < send.count; i++) {
        double want = 0;
        for (int r = 0; r < n; r++) {
            want += (double)value(r, i) * (r + 2);
        }
        expect("premulsum", &send, i, want);
    }
    release(&send);
    release(&scalar);
}

/* Everybody to everybody, itself included, also with nothing to say; two messages a pair, matched in order. */
static void test_messages(size_t count)
{
    struct buffer send = make(2 * count), recv = make(2 * count * (size_t)n);
    for (size_t i = 0; i < send.count; i++) {
        send.host[i] = (float)value(rank, i);
    }
    push(&send);
    ok("start", ncclGroupStart());
    for (int peer = 0; peer < n; peer++) {
        ok("send", ncclSend(send.dev, count, ncclFloat32, peer, comm, NULL));
        ok("recv", ncclRecv(recv.dev + 2 * count * (size_t)peer, count, ncclFloat32, peer, comm, NULL));
        ok("send", ncclSend(send.dev + count, count, ncclFloat32, peer, comm, NULL));
        ok("recv", ncclRecv(recv.dev + 2 * count * (size_t)peer + count, count, ncclFloat32, peer, comm, NULL));
    }
    ok("end", ncclGroupEnd());
    pull(&recv);
    for (size_t i = 0; i < recv.count; i++) {
        expect("messages", &recv, i, value((int)(i / (2 * count)), i % (2 * count)));
    }
    release(&send);
    release(&recv);
}

/* What torch does for an all-gather of unequal parts: a group of broadcasts, a root each. */
static void test_uneven(void)
{
    size_t total = 0, first[WORLD_MAX];
    for (int r = 0; r < n; r++) {
        first[r] = total;
        total += (size_t)(10 + 3 * r);
    }
    struct buffer all = make(total);
    for (size_t i = 0; i < (size_t)(10 + 3 * rank); i++) {
        all.host[first[rank] + i] = (float)value(rank, i);
    }
    push(&all);
    ok("start", ncclGroupStart());
    for (int r = 0; r < n; r++) {
        ok("broadcast", ncclBroadcast(all.dev + first[r], all.dev + first[r], (size_t)(10 + 3 * r), ncclFloat32, r, comm, NULL));
    }
    ok("end", ncclGroupEnd());
    pull(&all);
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < (size_t)(10 + 3 * r); i++) {
            expect("uneven", &all, first[r] + i, value(r, i));
        }
    }
    release(&all);
}

/* Registered buffers, then windows, give the same results. */
static void test_registered(void)
{
    for (int kind = 0; kind < 2; kind++) {
        struct buffer all = make(5000 * (size_t)n);
        void *handle = NULL;
        ncclWindow_t win = NULL;
        size_t bytes = all.count * sizeof(float), first = 5000 * (size_t)rank;
        if (kind == 0) {
            ok("register", ncclCommRegister(comm, all.dev, bytes, &handle));
        } else {
            ok("window", ncclCommWindowRegister(comm, all.dev, bytes, &win, NCCL_WIN_COLL_SYMMETRIC));
        }
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < all.count; i++) {
                all.host[i] = i / 5000 == (size_t)rank ? (float)(value(rank, i - first) + round) : -1;
            }
            push(&all);
            ok("all_gather", ncclAllGather(all.dev + first, all.dev, 5000, ncclFloat32, comm, NULL));
            pull(&all);
            for (size_t i = 0; i < all.count; i += 7) {
                expect("registered", &all, i, value((int)(i / 5000), i % 5000) + round);
            }
        }
        ok("deregister", kind == 0 ? ncclCommDeregister(comm, handle) : ncclCommWindowDeregister(comm, win));
        release(&all);
    }
}

static void wait_ready(ncclComm_t c, ncclResult_t rc)
{
    if (rc == ncclInProgress) {
        rc = world_poll(c);
    }
    ok("wait", rc);
}

int main(int argc, char **argv)
{
    ncclUniqueId id;
    static const size_t counts[] = {1, 3, 1000, 70001};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    test_rank = rank;
    if (rank == 0) {
        ok("id", ncclGetUniqueId(&id));
    }
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    wait_ready(comm, ncclCommInitRank(&comm, n, id, rank));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            test_gathering(counts[i], in_place != 0);
            test_reductions(counts[i], in_place != 0);
        }
        test_broadcasts(counts[i]);
        test_messages(counts[i]);
    }
    test_messages(0);
    test_operator(false);
    test_operator(true);
    test_uneven();
    test_registered();
    ncclComm_t child = NULL, whole = comm;
    wait_ready(comm, ncclCommSplit(comm, 0, -rank, &child, NULL));
    comm = child;
    rank = n - 1 - rank; /* the order of the keys */
    test_gathering(1000, false);
    test_broadcasts(1000);
    wait_ready(child, ncclCommFinalize(child));
    ok("destroy", ncclCommDestroy(child));
    ok("destroy", ncclCommDestroy(whole));
    MPI_Finalize();
    return test_result();
}
