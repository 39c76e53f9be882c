/* SPDX-License-Identifier: MIT
 *
 * The sides of a comparison of matrix products: the fused call, its halves, both one after the other, MPI's all-gather with our product, a vendor's product. */
#include "matmul_run.h"

static int unset_or(long long value) { return value == BENCH_AUTO ? CCL_UNSET : (int)value; }

static cclCallConfig_t call_config(const struct bench_run *r, bool alone, int algorithm)
{
    cclCallConfig_t c = CCL_CALL_CONFIG_INITIALIZER;
    const bool gathers_a = r->p.desc.gather != cclGatherOutput;
    c.gemm_tile_m = unset_or(r->choice.tile_m);
    c.gemm_tile_n = unset_or(r->choice.tile_n);
    if (alone) {
        c.comm_sms = r->used.comm_sms;
        c.gemm_tile_m = r->used.gemm_tile_m;
        c.gemm_tile_n = r->used.gemm_tile_n;
        return c;
    }
    c.algorithm = gathers_a ? algorithm : CCL_UNSET;
    if (gathers_a && (algorithm == cclAlgoHbmBuffer || algorithm == cclAlgoAuto)) {
        c.layout = r->choice.layout;
        c.fetch = r->choice.fetch;
        c.num_fetch_sms = unset_or(r->choice.num_fetch_sms);
        c.k_per_flag = unset_or(r->choice.k_per_flag);
    }
    return c;
}

static cclResult_t fused(struct bench_run *r, int algorithm)
{
    const struct bench_product *p = &r->p;
    const cclCallConfig_t c = call_config(r, false, algorithm);
    return p->desc.gather == cclGatherOutput ? cclMatmulAllGather(&p->desc, p->a, p->b, NULL, p->c, NULL, &c, r->s.comm, r->s.stream)
                                             : cclAllGatherMatmul(&p->desc, p->a, p->b, NULL, p->c, NULL, &c, r->s.comm, r->s.stream);
}

/* The product alone: of all of A, or of the own rows into their place in C. */
static cclResult_t gemm(struct bench_run *r, void *out)
{
    const struct bench_product *p = &r->p;
    const cclCallConfig_t c = call_config(r, true, 0);
    return cclAllGatherMatmul(&p->alone, p->gathered, p->b, NULL, out, NULL, &c, r->alone.comm, r->s.stream);
}

static cclResult_t communicate(struct bench_run *r)
{
    const struct bench_product *p = &r->p;
    const cclMatmulDesc_t *d = &p->desc;
    if (d->gather == cclGatherOutput) {
        char *own = (char *)p->c + 2 * (size_t)r->s.rank * d->shard * d->ldc;
        return cclAllGather2D(own, d->ldc, p->c, d->ldc, d->shard, d->n, d->type, NULL, r->s.comm, r->s.stream);
    }
    const bool columns = d->gather == cclGatherColumns;
    return cclAllGather2D(p->a, d->lda, p->landing, d->lda, columns ? d->m : d->shard, columns ? d->shard : d->k, d->type, NULL, r->s.comm, r->s.stream);
}

static cclResult_t with_mpi(struct bench_run *r)
{
    const struct bench_product *p = &r->p;
    const cclMatmulDesc_t *d = &p->desc;
    const int bytes = (int)(2 * d->shard * (d->gather == cclGatherOutput ? d->ldc : d->lda));
    if (d->gather == cclGatherOutput) {
        char *own = (char *)p->c + (size_t)r->s.rank * (size_t)bytes;
        cclResult_t rc = gemm(r, own);
        rc = rc == cclSuccess ? cclStreamSynchronize(r->s.stream) : rc;
        return rc != cclSuccess || MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, p->c, bytes, MPI_BYTE, r->s.mpi) == MPI_SUCCESS ? rc : cclSystemError;
    }
    if (MPI_Allgather(p->a, bytes, MPI_BYTE, p->landing, bytes, MPI_BYTE, r->s.mpi) != MPI_SUCCESS) {
        return cclSystemError;
    }
    return gemm(r, p->c);
}

/* Where the product alone goes. */
static void *own_rows(const struct bench_product *p, const struct bench_session *s)
{
    return p->desc.gather == cclGatherOutput ? (char *)p->c + 2 * (size_t)s->rank * p->desc.shard * p->desc.ldc : p->c;
}

cclResult_t bench_matmul_issue(struct bench_run *r, enum bench_matmul_side side)
{
    const struct bench_product *p = &r->p;
    switch (side) {
    case FUSED: return fused(r, r->choice.algorithm);
    case GEMM: return gemm(r, own_rows(p, &r->s));
    case COMM: return communicate(r);
    case SEQUENTIAL: {
        if (p->desc.gather != cclGatherOutput) {
            return fused(r, cclAlgoSequential);
        }
        cclResult_t rc = bench_matmul_issue(r, GEMM);
        return rc == cclSuccess ? communicate(r) : rc;
    }
    case WITH_MPI: return with_mpi(r);
    default: return bench_vendor_run(p, &r->s, r->used.comm_sms, own_rows(p, &r->s)) ? cclSuccess : cclSystemError;
    }
}
