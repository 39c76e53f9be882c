/* SPDX-License-Identifier: MIT
 *
 * The GEMM core of Hopper (sm_90a, gemm.h): matrix instructions of a warpgroup (wgmma) on operands that the tensor memory accelerator brings to shared memory. One
 * output tile of 128 x 256 or 128 x 224, one block of 3 warpgroups: two threads of the first one load, the other two multiply 64 rows each. matmul_wgmma.h has the roles.
 *
 * A K block of 64 of A and B is a stage in shared memory, 4 of them in flight, in the layout of the 128-byte swizzle: rows of 64 elements, chunk c of 16 bytes of row r
 * at c ^ r % 8. With k inside a row is one m or n; with k outside a box has 64 rows of k and 64 columns of m or n. What lies behind the end of a matrix becomes zeros on
 * the way; what lies behind the end of a tile is multiplied and not stored. The sums of an element run over K 16 by 16 in order, whatever the tile. docs/kernels.md,
 * section 13. */
#ifndef CCL_GEMM_WGMMA_H
#define CCL_GEMM_WGMMA_H

#include "gemm_nvidia.h"
#include "matrix_cores.h"
#include "wgmma_pair.h"

#define WGMMA_THREADS 384
#define WGMMA_ROWS 128
#define WGMMA_COLUMNS 256
#define WGMMA_NARROW CCL_WGMMA_NARROW /* tiles of at most so many columns take the narrower instruction */
#define WGMMA_BLOCK_K 64
#define WGMMA_STAGES 4
#define WGMMA_BOX_BYTES 8192 /* 64 x 64 elements */
#define WGMMA_A_BYTES (2 * WGMMA_BOX_BYTES)
#define WGMMA_STAGE_BYTES (WGMMA_A_BYTES + 4 * WGMMA_BOX_BYTES)
#define WGMMA_ALIGN 1024
/* Stages, a box of C on its way to memory for each of two warpgroups, a part of A on its way to the workspace. */
#define WGMMA_C_AT (WGMMA_STAGES * WGMMA_STAGE_BYTES)
#define WGMMA_FETCH_AT (WGMMA_C_AT + 2 * WGMMA_BOX_BYTES)
#define WGMMA_SHARED_BYTES (WGMMA_ALIGN + WGMMA_FETCH_AT + WGMMA_A_BYTES)
/* Registers of a thread that loads, and of one that multiplies: 128 of the former and 256 of the latter fit. */
#define WGMMA_LOAD_REGISTERS 72
#define WGMMA_SUM_REGISTERS 216

/* ---- barriers in shared memory ---- */

CCL_DEVICE void wgmma_barrier_init(uint32_t bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

/* One arrival, and so many bytes that loads bring. */
CCL_DEVICE void wgmma_barrier_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

CCL_DEVICE void wgmma_barrier_arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }

WGMMA_DEFINE_WAIT(wgmma_barrier_wait, "")

/* ---- loads ---- */

/* A box whose first element is (x, y) of the matrix that `map` describes, x inside. */
CCL_DEVICE void wgmma_load_box(uint32_t to, uint64_t map, uint32_t bar, uint32_t x, uint32_t y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(bar),
                 "r"(x), "r"(y)
                 : "memory");
}

/* The box of 128 x 64 at `from` to place (x, y) of matrix z; complete, for this thread, behind the wait. */
CCL_DEVICE void wgmma_store_box(uint64_t map, uint32_t from, uint32_t x, uint32_t y, uint32_t z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(z) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
CCL_DEVICE void wgmma_store_was_read(void) { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
CCL_DEVICE void wgmma_store_wait(void) { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/* Loads that this thread starts now come behind what it has acquired, what it releases behind its stores. */
CCL_DEVICE void wgmma_fence_loads(void) { asm volatile("fence.proxy.async;" ::: "memory"); }

/* ---- matrix instructions ---- */

/* A matrix in shared memory. Rows of 8 are 1024 bytes apart; with k outside the next 64 columns are a box further on. */
CCL_DEVICE uint64_t wgmma_matrix(uint32_t addr)
{
    return (uint64_t)(addr >> 4 & 0x3fff) | (uint64_t)(WGMMA_BOX_BYTES >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}
/* What is added for the next 16 k. */
CCL_DEVICE uint32_t wgmma_step(bool outer) { return (outer ? 16 * 128 : 32) >> 4; }

CCL_DEVICE void wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
CCL_DEVICE void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define WGMMA_WAIT_GROUPS(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

#define WGMMA_NAMES_112 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, " \
    "%25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, " \
    "%71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, " \
    "%94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_16 \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_SUMS_8(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_SUMS_112 \
    WGMMA_SUMS_8(0), WGMMA_SUMS_8(8), WGMMA_SUMS_8(16), WGMMA_SUMS_8(24), WGMMA_SUMS_8(32), WGMMA_SUMS_8(40), WGMMA_SUMS_8(48), \
    WGMMA_SUMS_8(56), WGMMA_SUMS_8(64), WGMMA_SUMS_8(72), WGMMA_SUMS_8(80), WGMMA_SUMS_8(88), WGMMA_SUMS_8(96), WGMMA_SUMS_8(104)
#define WGMMA_SUMS_128 WGMMA_SUMS_112, WGMMA_SUMS_8(112), WGMMA_SUMS_8(120)

/* d[64][columns] (+)= a[64][16] x b[16][columns]; add 0: the sums start. Lane l of warp w of the four has d[16 w + l / 4 + 8 i][8 c + 2 (l % 4) + j] in 4 c + 2 i + j. */
#define WGMMA_DEFINE(name, columns, type, km, kn, names, sums, at_a, at_b, at_add)                                                        \
    CCL_DEVICE void name(float *d, uint64_t a, uint64_t b, uint32_t add)                                                                 \
    {                                                                                                                                     \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %" at_add ", 0;\n"                                                                   \
                     "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" names "}, %" at_a ", %" at_b ", p, 1, 1, " \
                     km ", " kn "; }"                                                                                                      \
                     : sums                                                                                                               \
                     : "l"(a), "l"(b), "r"(add)                                                                                           \
                     : "memory");                                                                                                         \
    }
WGMMA_DEFINE(wgmma_224_f16_mk_nk, "224", "f16", "0", "0", WGMMA_NAMES_112, WGMMA_SUMS_112, "112", "113", "114")
WGMMA_DEFINE(wgmma_224_f16_mk_kn, "224", "f16", "0", "1", WGMMA_NAMES_112, WGMMA_SUMS_112, "112", "113", "114")
WGMMA_DEFINE(wgmma_224_f16_km_nk, "224", "f16", "1", "0", WGMMA_NAMES_112, WGMMA_SUMS_112, "112", "113", "114")
WGMMA_DEFINE(wgmma_224_f16_km_kn, "224", "f16", "1", "1", WGMMA_NAMES_112, WGMMA_SUMS_112, "112", "113", "114")
WGMMA_DEFINE(wgmma_224_bf16_mk_nk, "224", "bf16", "0", "0", WGMMA_NAMES_112, WGMMA_SUMS_112, "112", "113", "114")
WGMMA_DEFINE(wgmma_224_bf16_mk_kn, "224", "bf16", "0", "1", WGMMA_NAMES_112, WGMMA_SUMS_112, "112", "113", "114")
WGMMA_DEFINE(wgmma_224_bf16_km_nk, "224", "bf16", "1", "0", WGMMA_NAMES_112, WGMMA_SUMS_112, "112", "113", "114")
WGMMA_DEFINE(wgmma_224_bf16_km_kn, "224", "bf16", "1", "1", WGMMA_NAMES_112, WGMMA_SUMS_112, "112", "113", "114")
WGMMA_DEFINE(wgmma_256_f16_mk_nk, "256", "f16", "0", "0", WGMMA_NAMES_112 WGMMA_NAMES_16, WGMMA_SUMS_128, "128", "129", "130")
WGMMA_DEFINE(wgmma_256_f16_mk_kn, "256", "f16", "0", "1", WGMMA_NAMES_112 WGMMA_NAMES_16, WGMMA_SUMS_128, "128", "129", "130")
WGMMA_DEFINE(wgmma_256_f16_km_nk, "256", "f16", "1", "0", WGMMA_NAMES_112 WGMMA_NAMES_16, WGMMA_SUMS_128, "128", "129", "130")
WGMMA_DEFINE(wgmma_256_f16_km_kn, "256", "f16", "1", "1", WGMMA_NAMES_112 WGMMA_NAMES_16, WGMMA_SUMS_128, "128", "129", "130")
WGMMA_DEFINE(wgmma_256_bf16_mk_nk, "256", "bf16", "0", "0", WGMMA_NAMES_112 WGMMA_NAMES_16, WGMMA_SUMS_128, "128", "129", "130")
WGMMA_DEFINE(wgmma_256_bf16_mk_kn, "256", "bf16", "0", "1", WGMMA_NAMES_112 WGMMA_NAMES_16, WGMMA_SUMS_128, "128", "129", "130")
WGMMA_DEFINE(wgmma_256_bf16_km_nk, "256", "bf16", "1", "0", WGMMA_NAMES_112 WGMMA_NAMES_16, WGMMA_SUMS_128, "128", "129", "130")
WGMMA_DEFINE(wgmma_256_bf16_km_kn, "256", "bf16", "1", "1", WGMMA_NAMES_112 WGMMA_NAMES_16, WGMMA_SUMS_128, "128", "129", "130")

/* A K block, as one group. km, kn: A, B have k outside. A commit behind the switch would become a group of its own. */
#define WGMMA_MULTIPLY(instruction, km, kn)                              \
    wgmma_fence();                                                       \
    instruction(d, a, b, more);                                          \
    instruction(d, a + wgmma_step(km), b + wgmma_step(kn), 1);           \
    instruction(d, a + 2 * wgmma_step(km), b + 2 * wgmma_step(kn), 1);   \
    instruction(d, a + 3 * wgmma_step(km), b + 3 * wgmma_step(kn), 1);   \
    wgmma_commit();                                                      \
    break
CCL_DEVICE void wgmma_multiply(uint32_t form, float d[128], uint64_t a, uint64_t b, uint32_t more)
{
    switch (form) { /* while the block before is multiplied: it costs nothing */
    case 0: WGMMA_MULTIPLY(wgmma_224_f16_mk_nk, false, false);
    case 1: WGMMA_MULTIPLY(wgmma_224_f16_mk_kn, false, true);
    case 2: WGMMA_MULTIPLY(wgmma_224_f16_km_nk, true, false);
    case 3: WGMMA_MULTIPLY(wgmma_224_f16_km_kn, true, true);
    case 4: WGMMA_MULTIPLY(wgmma_224_bf16_mk_nk, false, false);
    case 5: WGMMA_MULTIPLY(wgmma_224_bf16_mk_kn, false, true);
    case 6: WGMMA_MULTIPLY(wgmma_224_bf16_km_nk, true, false);
    case 7: WGMMA_MULTIPLY(wgmma_224_bf16_km_kn, true, true);
    case 8: WGMMA_MULTIPLY(wgmma_256_f16_mk_nk, false, false);
    case 9: WGMMA_MULTIPLY(wgmma_256_f16_mk_kn, false, true);
    case 10: WGMMA_MULTIPLY(wgmma_256_f16_km_nk, true, false);
    case 11: WGMMA_MULTIPLY(wgmma_256_f16_km_kn, true, true);
    case 12: WGMMA_MULTIPLY(wgmma_256_bf16_mk_nk, false, false);
    case 13: WGMMA_MULTIPLY(wgmma_256_bf16_mk_kn, false, true);
    case 14: WGMMA_MULTIPLY(wgmma_256_bf16_km_nk, true, false);
    default: WGMMA_MULTIPLY(wgmma_256_bf16_km_kn, true, true);
    }
}

/* Where a warpgroup is in the ring of stages, from tile to tile. full, empty: barriers of stage 0; other: empty of the other block of a pair, 0: there is none. */
struct wgmma_ring {
    uint32_t full, empty, other, stage, parity;
};

/* One thread of a warpgroup: this stage may be loaded again, by either block of a pair. The own barrier first: who sees the other one has seen it. */
CCL_DEVICE void wgmma_release(const struct wgmma_ring *ring, uint32_t stage, bool pair)
{
    wgmma_barrier_arrive(ring->empty + 8 * stage);
    if (pair) {
        wgmma_pair_arrive(ring->other + 8 * stage);
    }
}

/* Sums of the tile: 64 rows of a warpgroup, one K block multiplied while the next one is issued. shared: the stages. */
CCL_DEVICE void wgmma_sums(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, uint32_t shared, struct wgmma_ring *ring, bool pair, float d[128])
{
    const bool km = g->a_layout == CCL_GEMM_K_OUTER, kn = g->b_layout == CCL_GEMM_K_OUTER;
    const uint32_t form = (tile->cols > WGMMA_NARROW ? 8 : 0) + (g->type == CCL_GEMM_BF16 ? 4 : 0) + (km ? 2 : 0) + (kn ? 1 : 0);
    const uint32_t blocks = gemm_blocks(tile, WGMMA_BLOCK_K), group = ccl_tid() / 128 - 1;
    const uint64_t a = wgmma_matrix(shared + group * WGMMA_BOX_BYTES), b = wgmma_matrix(shared + WGMMA_A_BYTES);
    uint32_t stage = ring->stage, parity = ring->parity, last = stage;
#pragma unroll
    for (uint32_t i = WGMMA_NARROW / 2; i < 128; i++) {
        d[i] = 0; /* the narrower instructions leave them out */
    }
    for (uint32_t kb = 0; kb < blocks; kb++) {
        wgmma_barrier_wait(ring->full + 8 * stage, parity);
        wgmma_multiply(form, d, a + stage * (WGMMA_STAGE_BYTES >> 4), b + stage * (WGMMA_STAGE_BYTES >> 4), kb);
        WGMMA_WAIT_GROUPS(1); /* the block before is multiplied */
        if (kb != 0 && ccl_tid() % 128 == 0) {
            wgmma_release(ring, last, pair);
        }
        last = stage;
        stage = stage + 1 == WGMMA_STAGES ? 0 : stage + 1;
        parity ^= stage == 0;
    }
    WGMMA_WAIT_GROUPS(0);
    if (ccl_tid() % 128 == 0) {
        wgmma_release(ring, last, pair);
    }
    ring->stage = stage;
    ring->parity = parity;
#pragma unroll
    for (uint32_t i = 0; i < 128; i++) {
        asm volatile("" : "+f"(d[i])::"memory"); /* nothing reads them before the wait */
    }
}

/* Sums 8 c .. of a thread are 8 columns further on, rows 8 further down for every second pair. */
CCL_DEVICE void wgmma_bias(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, float d[128])
{
    const uint32_t t = ccl_tid() % 128, row = ccl_tid() / 128 * 64 - 64 + t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    const bool bf16 = g->type == CCL_GEMM_BF16;
    if (g->bias_kind == CCL_GEMM_BIAS_BY_COLUMN) {
#pragma unroll
        for (uint32_t c = 0; c < 32; c++) {
            const float b0 = gemm_bias(g->bias, tile->col, 8 * c + column, tile->cols, bf16), b1 = gemm_bias(g->bias, tile->col, 8 * c + column + 1, tile->cols, bf16);
            d[4 * c] += b0;
            d[4 * c + 1] += b1;
            d[4 * c + 2] += b0;
            d[4 * c + 3] += b1;
        }
    } else {
        const float b0 = gemm_bias(g->bias, tile->row, row, tile->rows, bf16), b1 = gemm_bias(g->bias, tile->row, row + 8, tile->rows, bf16);
#pragma unroll
        for (uint32_t c = 0; c < 32; c++) {
            d[4 * c] += b0;
            d[4 * c + 1] += b0;
            d[4 * c + 2] += b1;
            d[4 * c + 3] += b1;
        }
    }
}

/* Bias and rounding; through shared memory, 64 columns at a time, so that stores have 16 bytes and rows of 128. box: of the warpgroup; each warp has its own 16 rows of it.
 * The tensor cores idle meanwhile: so nothing of the tile is looked up twice, and four vectors of a thread are on their way at once.
 * WGMMA_PLACE(tile, d): place d of tile->more further ones. */
CCL_DEVICE void wgmma_store(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, uint32_t box, float d[128], GEMM_HOOK hook)
{
    const uint32_t lane = ccl_tid() % 32, first = ccl_tid() % 128 / 32 * 16, group = ccl_tid() / 128 - 1;
    /* Lanes 0-7, 8-15, .. name rows of the four matrices: rows 0-7, 8-15 of one chunk, then of the next. */
    const uint32_t put = box + (first + lane % 16) * 128, chunk = lane / 16, turn = lane % 8;
    /* A lane's chunk of rows r + 4 i; those of odd i are 4 chunks off. */
    const uint32_t r = first + lane / 8, get = box + r * 128 + ((lane % 8 ^ lane / 8) << 4), odd = box + r * 128 + ((lane % 8 ^ lane / 8 ^ 4) << 4);
    const uint32_t cols = tile->cols, more = tile->more, rows = tile->rows > group * 64 ? tile->rows - group * 64 : 0;
    const uint64_t pitch = g->ldc * 2, c = tile->c;
    uint64_t at = (group * 64 + r) * pitch + lane % 8 * 16;
    const bool bf16 = g->type == CCL_GEMM_BF16;
    if (g->bias_kind != CCL_GEMM_NO_BIAS) {
        wgmma_bias(g, tile, d);
    }
#pragma unroll
    for (uint32_t q = 0; q < 4; q++, at += 128) {
        const uint32_t column = q * 64 + lane % 8 * 8;
        ccl_vec16 v[4];
        if (q * 64 >= cols) {
            break;
        }
#pragma unroll
        for (uint32_t j = 0; j < 8; j += 2) {
            const float *e = d + (q * 8 + j) * 4;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(put + (((j + chunk) ^ turn) << 4)),
                         "r"(gemm_pack(e[0], e[1], bf16)), "r"(gemm_pack(e[2], e[3], bf16)), "r"(gemm_pack(e[4], e[5], bf16)), "r"(gemm_pack(e[6], e[7], bf16))
                         : "memory");
        }
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(v[i].lane[0]), "=r"(v[i].lane[1]), "=r"(v[i].lane[2]), "=r"(v[i].lane[3])
                         : "r"((i % 2 ? odd : get) + i * 512)
                         : "memory");
        }
        __syncwarp(); /* the rows have been read */
#pragma unroll 1 /* short code: all of it is there four times */
        for (uint32_t place = 0; place <= more; place++) {
            const uint64_t to = (place == 0 ? c : WGMMA_PLACE(tile, place - 1)) + at;
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                if (r + 4 * i < rows && column < cols) {
                    gemm_put(to + 4 * i * pitch, v[i], cols - column);
                }
            }
        }
    }
}

#endif
