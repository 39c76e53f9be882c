/* SPDX-License-Identifier: MIT
 *
 * A vendor's matrix product, to compare ours with. Types and numbers of the libraries' interfaces are written here, since their headers need not be installed. */
#include <dlfcn.h>
#include <stdlib.h>

#include "product.h"

/* ---- OpenBLAS ---- */

#define CBLAS_ROW_MAJOR 101
#define CBLAS_NO_TRANS 111
#define CBLAS_TRANS 112

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                         float *c, int ldc);

static struct {
    bool looked;
    sgemm_fn sgemm;
    void (*set_threads)(int threads);
} openblas;

static bool find_openblas(void)
{
    if (!openblas.looked) {
        openblas.looked = true;
        void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) {
            *(void **)&openblas.sgemm = dlsym(library, "cblas_sgemm");
            *(void **)&openblas.set_threads = dlsym(library, "openblas_set_num_threads");
        }
    }
    return openblas.sgemm != NULL && openblas.set_threads != NULL;
}

static bool create_openblas(struct bench_product *p)
{
    const cclMatmulDesc_t *d = &p->alone;
    if (!find_openblas() || d->m > 1u << 30 || d->n > 1u << 30) {
        return false;
    }
    p->fa = malloc(d->m * d->k * sizeof(float));
    p->fb = malloc(d->k * d->n * sizeof(float));
    p->fc = malloc(d->m * d->n * sizeof(float));
    if (p->fa == NULL || p->fb == NULL || p->fc == NULL) {
        return false;
    }
    for (size_t i = 0; i < d->m * d->k; i++) {
        p->fa[i] = (float)bench_product_normal(p->seed, i);
    }
    for (size_t i = 0; i < d->k * d->n; i++) {
        p->fb[i] = (float)bench_product_normal(p->seed + 1, i);
    }
    return true;
}

static bool run_openblas(const struct bench_product *p, int threads)
{
    const cclMatmulDesc_t *d = &p->alone;
    openblas.set_threads(threads);
    openblas.sgemm(CBLAS_ROW_MAJOR, CBLAS_NO_TRANS, d->b_transposed ? CBLAS_TRANS : CBLAS_NO_TRANS, (int)d->m, (int)d->n, (int)d->k, 1, p->fa, (int)d->k,
                   p->fb, (int)(d->b_transposed ? d->k : d->n), 0, p->fc, (int)d->n);
    return true;
}

/* ---- cuBLAS ---- */

enum { CUBLAS_OP_N, CUBLAS_OP_T };
#define CUDA_R_16F 2
#define CUDA_R_16BF 14
#define CUBLAS_COMPUTE_32F 68
#define CUBLAS_GEMM_DEFAULT (-1)

static struct {
    bool looked;
    int (*create)(void **handle);
    int (*set_stream)(void *handle, void *stream);
    int (*gemm)(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda, const void *b, int type_b,
                int ldb, const void *beta, void *c, int type_c, int ldc, int compute, int algorithm);
    void *handle; /* kept until the process ends */
} cublas;

static bool find_cublas(struct bench_session *s)
{
    static const char *const files[] = {"libcublas.so.13", "libcublas.so.12"};
    if (!cublas.looked) {
        void *library = NULL;
        cublas.looked = true;
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && library == NULL; i++) {
            library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        }
        if (library == NULL) {
            bench_note(s, "no cuBLAS: %s", dlerror());
            return false;
        }
        *(void **)&cublas.create = dlsym(library, "cublasCreate_v2");
        *(void **)&cublas.set_stream = dlsym(library, "cublasSetStream_v2");
        *(void **)&cublas.gemm = dlsym(library, "cublasGemmEx");
        if (cublas.create == NULL || cublas.set_stream == NULL || cublas.gemm == NULL) {
            return false;
        }
        int status = cublas.create(&cublas.handle);
        if (status != 0) {
            bench_note(s, "no cuBLAS: cublasCreate gives %d", status);
            cublas.handle = NULL;
        }
    }
    return cublas.handle != NULL;
}

/* cuBLAS has columns where we have rows, so it computes C transposed. */
static bool run_cublas(const struct bench_product *p, struct bench_session *s, void *out)
{
    static const float one = 1, zero = 0;
    const cclMatmulDesc_t *d = &p->alone;
    const int type = d->type == cclFloat16 ? CUDA_R_16F : CUDA_R_16BF;
    return cublas.set_stream(cublas.handle, s->stream) == 0 &&
           cublas.gemm(cublas.handle, d->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, (int)d->n, (int)d->m, (int)d->k, &one, p->b, type, (int)d->ldb,
                       p->gathered, type, (int)d->lda, &zero, out, type, (int)d->ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == 0;
}

/* ---- either ---- */

bool bench_vendor_create(struct bench_product *p, struct bench_session *s)
{
    if (bench_on_host()) {
        return create_openblas(p);
    }
    p->vendor_writes_c = true;
    return find_cublas(s);
}

void bench_vendor_destroy(struct bench_product *p)
{
    free(p->fa), free(p->fb), free(p->fc);
    p->fa = p->fb = p->fc = NULL;
}

bool bench_vendor_run(const struct bench_product *p, struct bench_session *s, int threads, void *out)
{
    return bench_on_host() ? run_openblas(p, threads) : run_cublas(p, s, out);
}
