/* SPDX-License-Identifier: MIT
 *
 * The GEMM core with hooks, as a fused kernel has it: A is written while the product runs, a ready word for each `step` K blocks and each tile row says
 * what is there; C goes to two places. gemm_feed is who writes A. Budgets: tests/isa/check_isa.py --hooked. */
#include "gemm_cdna.h"

struct hook_args {
    struct ccl_k_gemm g;
    uint64_t second; /* C once more */
    uint64_t ready;  /* word [tile row][K block / step] holds `tag` when these columns of A are there */
    uint64_t stop;   /* a word: not 0 ends all waits */
    uint64_t source; /* gemm_feed: A is copied from here */
    uint64_t tag;
    uint32_t step, words;
};

typedef CCL_CONST const struct hook_args *hook_pointer;

/* Fails the whole launch, for the test of the way out. */
CCL_DEVICE uint32_t hook_wait(hook_pointer h, const struct ccl_k_gemm_tile *tile, uint32_t kb)
{
    if (kb % h->step == 0 || kb == h->g.k / GEMM_BLOCK_K) { /* the last one, if it is short, is asked for first */
        const uint64_t word = h->ready + (tile->unit * h->words + kb / h->step) * 8;
        uint32_t stop = 0;
        while (stop == 0 && ccl_uniform_u64(ccl_load_relaxed_agent_u64(word)) != h->tag) {
            stop = ccl_uniform((uint32_t)ccl_load_relaxed_agent_u64(h->stop));
            ccl_pause();
        }
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        return stop;
    }
    return 0;
}

#define GEMM_HOOKS(name, tile_rows)                                                                                                                  \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(GEMM_THREADS, GEMM_THREADS), amdgpu_waves_per_eu(2, 2))) void                     \
        ccl_k_gemm_hook_##name(struct hook_args by_value)                                                                                           \
    {                                                                                                                                              \
        hook_pointer h = (hook_pointer)__builtin_amdgcn_kernarg_segment_ptr();                                                                      \
        CCL_GEMM_ARGS g = &h->g;                                                                                                                    \
        CCL_SHARED char memory[GEMM_LDS_BYTES(tile_rows)] __attribute__((aligned(1024)));                                                          \
        (void)by_value;                                                                                                                            \
        for (uint32_t number = ccl_bid(); number < g->tiles_m * g->tiles_n; number += ccl_grid()) {                                                 \
            const uint32_t m = number / g->tiles_n, row = m * (tile_rows), col = number % g->tiles_n * GEMM_COLUMNS;                                     \
            struct ccl_k_gemm_tile tile = {};                                                                                                      \
            tile.a = g->a + row * g->lda * 2;                                                                                                      \
            tile.lda = g->lda;                                                                                                                     \
            tile.c = g->c + (row * g->ldc + col) * 2;                                                                                              \
            tile.row = row;                                                                                                                        \
            tile.rows = g->m - row < (tile_rows) ? g->m - row : (tile_rows);                                                                                  \
            tile.col = col;                                                                                                                        \
            tile.cols = g->n - col < GEMM_COLUMNS ? g->n - col : GEMM_COLUMNS;                                                                      \
            tile.k1 = g->k;                                                                                                                        \
            tile.unit = m;                                                                                                                         \
            tile.more = 1;                                                                                                                         \
            uint64_t others[7] = {h->second + (tile.c - g->c)};                                                                                     \
            tile.others = others;                                                                                                                  \
            if (gemm_core_##name(g, &tile, (GEMM_LDS char *)memory, h) != 0) {                                                                      \
                return;                                                                                                                            \
            }                                                                                                                                      \
        }                                                                                                                                          \
    }

#define GEMM_HOOK hook_pointer

/* ISA gemm_hook_*_256: vgpr 256, sgpr 106, lds 65536, waves 2, mfma 128, age 64, busy 95
 * ISA gemm_hook_*_128: vgpr 256, sgpr 106, lds 49152, waves 2, mfma 64, age 34, busy 93
 * ISA gemm_hook_*_256@gfx950: vgpr 256, sgpr 106, lds 163840, waves 2, mfma 64, age 72, flight 8, busy 94
 * ISA gemm_hook_*_128@gfx950: vgpr 256, sgpr 106, lds 122880, waves 2, mfma 32, age 36, flight 6, busy 79
 * ISA gemm_feed: vgpr 64, sgpr 106, waves 8 */
#define GEMM_NAME nk_bf16_256
#define GEMM_ROWS 256
#define GEMM_BF16 1
#define GEMM_KN 0
#define CCL_GEMM_WAIT_A(tile, kb) hook_wait(hook, tile, kb)
#define GEMM_PLACES 7
#include "gemm_cdna_body.h"
GEMM_HOOKS(nk_bf16_256, 256)

#define GEMM_NAME kn_f16_256
#define GEMM_ROWS 256
#define GEMM_BF16 0
#define GEMM_KN 1
#define CCL_GEMM_WAIT_A(tile, kb) hook_wait(hook, tile, kb)
#define GEMM_PLACES 7
#include "gemm_cdna_body.h"
GEMM_HOOKS(kn_f16_256, 256)

#define GEMM_NAME kn_bf16_128
#define GEMM_ROWS 128
#define GEMM_BF16 1
#define GEMM_KN 1
#define CCL_GEMM_WAIT_A(tile, kb) hook_wait(hook, tile, kb)
#define GEMM_PLACES 7
#include "gemm_cdna_body.h"
GEMM_HOOKS(kn_bf16_128, 128)

/* One block copies A, `step` K blocks of a tile row at a time, and says so. */
extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256))) void ccl_k_gemm_feed(struct hook_args by_value)
{
    hook_pointer h = (hook_pointer)__builtin_amdgcn_kernarg_segment_ptr();
    const uint64_t lda = h->g.lda;
    (void)by_value;
    for (uint32_t unit = ccl_bid(); unit < h->g.tiles_m * h->words; unit += ccl_grid()) {
        const uint32_t m = unit / h->words, word = unit % h->words, first = m * h->g.tile_m;
        const uint32_t rows = h->g.m - first < h->g.tile_m ? h->g.m - first : h->g.tile_m, columns = h->step * GEMM_BLOCK_K;
        for (uint32_t i = ccl_tid(); i < rows * columns / 8; i += ccl_threads()) {
            const uint64_t row = first + i / (columns / 8), column = (uint64_t)word * columns + i % (columns / 8) * 8;
            if (column < lda) {
                *CCL_PTR(ccl_vec16, h->g.a + (row * lda + column) * 2) = *CCL_PTR(const ccl_vec16, h->source + (row * lda + column) * 2);
            }
        }
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
        __builtin_amdgcn_s_waitcnt(0x0f70);
        __builtin_amdgcn_s_barrier();
        if (ccl_tid() == 0) {
            ccl_store_relaxed_agent_u64(h->ready + (m * h->words + word) * 8, h->tag);
        }
    }
}
