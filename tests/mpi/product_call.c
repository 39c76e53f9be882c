/* SPDX-License-Identifier: MIT
 *
 * See product_call.h. */
#include "product_call.h"

const int tp_ways[TP_WAYS][3] = {{cclAlgoAuto, CCL_UNSET, CCL_UNSET},
                                    {cclAlgoBaseline, CCL_UNSET, CCL_UNSET},
                                    {cclAlgoSequential, CCL_UNSET, CCL_UNSET},
                                    {cclAlgoHbmBuffer, cclKContiguous, cclFetchPull},
                                    {cclAlgoHbmBuffer, cclMContiguous, cclFetchPull},
                                    {cclAlgoHbmBuffer, cclKContiguous, cclFetchPush}};

cclComm_t tp_comm;
cclStream_t tp_stream;
struct tm_buf tp_a[TM_NUM_KINDS], tp_c[TM_NUM_KINDS], tp_b, tp_bias;
uint16_t *tp_host;
uint64_t tp_seed = 1;
unsigned long tp_products;

bool tp_has_way(int gather, const int *way) { return tm_backend_is_host() || gather != cclGatherColumns || way[0] != cclAlgoBaseline; }

void tp_open(void)
{
    tp_comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    tp_stream = tm_stream_create();
    tp_host = malloc(LARGEST + TM_GUARD);
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_create(&tp_a[k], tp_comm, (enum tm_kind)k, LARGEST);
        tm_buf_create(&tp_c[k], tp_comm, (enum tm_kind)k, LARGEST + TM_GUARD);
    }
    tm_buf_create(&tp_b, tp_comm, TM_PLAIN, LARGEST);
    tm_buf_create(&tp_bias, tp_comm, TM_PLAIN, LARGEST);
}

void tp_close(void)
{
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_destroy(&tp_a[k]);
        tm_buf_destroy(&tp_c[k]);
    }
    tm_buf_destroy(&tp_b);
    tm_buf_destroy(&tp_bias);
    free(tp_host);
    if (tm_rank == 0) {
        printf("%lu products a rank, largest error %.3f of the bound\n", tp_products, tp_worst);
    }
    TM_OK(cclStreamDestroy(tp_stream));
    TM_OK(cclCommDestroy(tp_comm));
}

static size_t pitch(size_t cols, size_t pad) { return (cols + 7) / 8 * 8 + 8 * pad; }

struct tp_case tp_make_case(const struct shape *s, int gather, unsigned turn)
{
    struct tp_case t = {.desc = CCL_MATMUL_DESC_INITIALIZER, .seed = ++tp_seed};
    cclMatmulDesc_t *d = &t.desc;
    d->gather = gather;
    d->m = gather == cclGatherColumns ? s->rows : s->rows * (size_t)tm_size;
    d->k = gather == cclGatherColumns ? s->cols * (size_t)tm_size : s->cols;
    d->n = s->n;
    d->shard = gather == cclGatherColumns ? s->cols : s->rows;
    d->type = turn % 2 ? cclBfloat16 : cclFloat16;
    d->b_transposed = turn / 2 % 2;
    d->bias = (int)(turn % 3);
    d->lda = pitch(s->cols, s->pad);
    d->ldb = pitch(d->b_transposed ? d->k : d->n, s->pad);
    d->ldc = pitch(d->n, s->pad);
    t.b_differs = turn / 4 % 2;
    return t;
}

void tp_upload(const struct tp_case *t, struct tm_buf *a, struct tm_buf *c)
{
    tp_fill_a(t, tm_rank, tp_host);
    tm_put(a->base, tp_host, 2 * tp_a_elements(t));
    tp_fill_b(t, tm_rank, tp_host);
    tm_put(tp_b.base, tp_host, 2 * tp_b_elements(t));
    tp_fill_bias(t, tm_rank, tp_host);
    tm_put(tp_bias.base, tp_host, 2 * tp_bias_elements(t) + 2);
    tm_set(c->base, TM_POISON, 2 * tp_c_elements(t) + TM_GUARD);
}

cclResult_t tp_call(const struct tp_case *t, struct tm_buf *a, struct tm_buf *c, cclMatmulWorkspace_t ws, const cclCallConfig_t *config)
{
    const void *bias = t->desc.bias == cclBiasNone ? NULL : tp_bias.base;
    return t->desc.gather == cclGatherOutput ? cclMatmulAllGather(&t->desc, a->base, tp_b.base, bias, c->base, ws, config, tp_comm, tp_stream)
                                             : cclAllGatherMatmul(&t->desc, a->base, tp_b.base, bias, c->base, ws, config, tp_comm, tp_stream);
}

bool tp_fetch_and_verify(const struct tp_case *t, struct tm_buf *c, const char *what)
{
    const size_t bytes = 2 * tp_c_elements(t);
    tm_get(tp_host, c->base, bytes + TM_GUARD);
    tp_products++;
    return tm_check_bytes((char *)tp_host + bytes, TM_GUARD, TM_POISON, "guard behind c") && tp_verify(t, tm_size, tm_rank, tp_host, what);
}
