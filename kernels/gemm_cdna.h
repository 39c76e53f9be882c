/* SPDX-License-Identifier: MIT
 *
 * What the matrix-core GEMM of CDNA (gfx90a, gfx942, gfx950) is made of: vector types, waits, buffer descriptors, the places of rows and chunks in LDS.
 * Included once, before any gemm_cdna_*_body.h. docs/kernels.md, section 12. */
#ifndef CCL_GEMM_CDNA_H
#define CCL_GEMM_CDNA_H

#include "kernel.h"

#include "gemm.h"

#if !defined(CCL_ON_CDNA)
#error "gemm_cdna.h is for gfx90a, gfx942 and gfx950"
#endif

/* 1: loads go from memory to LDS without registers, and LDS has 160 KiB. */
#if defined(__gfx950__)
#define GEMM_DIRECT 1
#else
#define GEMM_DIRECT 0
#endif

#define CCL_GEMM_ARGS CCL_CONST const struct ccl_k_gemm *
#define GEMM_LDS __attribute__((address_space(3)))
#define GEMM_THREADS 512
#define GEMM_COLUMNS 256  /* of a tile */
#define GEMM_BLOCK_K 64   /* a step of the K loop; each of its halves, of A and B together, is a stage in LDS */
#define GEMM_STAGES (GEMM_DIRECT ? 5 : 2)
#define GEMM_STAGE_BYTES(rows) (((rows) + GEMM_COLUMNS) * GEMM_BLOCK_K) /* 32 elements of 2 bytes a row */
#define GEMM_LDS_BYTES(rows) (GEMM_STAGE_BYTES(rows) * GEMM_STAGES)

typedef uint32_t gemm_u32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t gemm_u32x4 __attribute__((ext_vector_type(4)));
typedef float gemm_f32x4 __attribute__((ext_vector_type(4)));
typedef short gemm_s16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 gemm_f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 gemm_f16x8 __attribute__((ext_vector_type(8)));
typedef __bf16 gemm_bf16x8 __attribute__((ext_vector_type(8)));

/* The operands of one tile. 256 rows (of an operand with k outside: 64) span less than 2 GiB; the matrices may be larger. */
struct gemm_in {
    uint64_t a;        /* of the tile's first row, at its first k; [m][k] or [k][m] */
    uint64_t b;        /* of the tile's first column, at its first k; [n][k] or [k][n] */
    uint32_t lda, ldb; /* elements */
    uint32_t m, n, k;  /* rows, columns from here on: what lies beyond is neither read nor stored */
};

/* Wait until at most n vector memory, or LDS, accesses of this wave are outstanding. */
#define GEMM_WAIT_VM(n) __builtin_amdgcn_s_waitcnt(((n) & 15) | ((n) >> 4 << 14) | 0x0f70)
#define GEMM_WAIT_LDS(n) __builtin_amdgcn_s_waitcnt(0xc07f | (n) << 8)

/* The compiler moves no memory access across; no instruction. The address is an operand, else it proves that nobody else can
 * reach the LDS array and moves LDS reads all the same. */
#define GEMM_FENCE(lds) asm volatile("" ::"s"(lds) : "memory")

/* All waves are here and their LDS accesses are done. */
#define GEMM_BARRIER(lds)               \
    do {                                \
        GEMM_FENCE(lds);                \
        GEMM_WAIT_LDS(0);               \
        __builtin_amdgcn_s_barrier();   \
        GEMM_FENCE(lds);                \
    } while (0)

/* Buffers: loads beyond them give zeros, stores beyond them do nothing. NOWHERE lies beyond each of them. */
#define GEMM_NOWHERE 0x80000000u
#define GEMM_ALL 0x7ffffff0u
#define GEMM_BUFFER(addr, bytes) __builtin_amdgcn_make_buffer_rsrc((void *)(addr), 0, bytes, 0x27000)

#define GEMM_LOW(x) __builtin_shufflevector(x, x, 0, 1)
#define GEMM_HIGH(x) __builtin_shufflevector(x, x, 2, 3)

/* LDS image of an operand whose rows hold k: of each row 32 elements, 4 chunks of 16 bytes. Row p (as matrix instructions count it) lies at slot
 * swap01(p), its chunk c at c ^ chunk_xor(p): reads of 16 rows x 4 chunks, linear writes and the transposing writes of a [k][n] operand then touch
 * each bank once. */
CCL_DEVICE uint32_t gemm_swap01(uint32_t x) { return (x & ~3u) | (x & 1) << 1 | (x >> 1 & 1); }
CCL_DEVICE uint32_t gemm_chunk_xor(uint32_t p) { return ((p ^ p >> 4) & 1) | (p >> 1 & 2); }

/* The output column for which instruction row p of a pair of B fragments (32 rows) stands, and back: bits 2 to 4 rotated. So a lane has 8 neighbouring
 * columns and stores 16 bytes. */
CCL_DEVICE uint32_t gemm_column_of(uint32_t p) { return (p & ~0x1cu) | (p >> 4 & 1) << 2 | (p >> 2 & 3) << 3; }
CCL_DEVICE uint32_t gemm_row_of(uint32_t n) { return (n & ~0x1cu) | (n >> 2 & 1) << 4 | (n >> 3 & 3) << 2; }

/* LDS image of a [k][n] operand as it lies in memory (direct loads): row k has 32 chunks of 8 columns, chunk c lies at c ^ row_xor(k). The transposing
 * read takes from 4 rows of k mod 8 and of two groups of lanes (bit 3) a half of each of 4 neighbouring chunks, even and odd halves in turn. */
CCL_DEVICE uint32_t gemm_row_xor(uint32_t k) { return (k & 1) | (k >> 1 & 1) << 2 | (k >> 3 & 1) << 3; }

/* LDS image of A as [k][m] as it lies in memory (direct loads): regions of 1 KiB are 8 rows of k and 64 of m, in each 4 fragments of 16 m and in these the rows of
 * k; in every other region of k the upper and lower 4 rows change places (8 slots), so that two groups of lanes touch different banks. */
#define GEMM_OCTET_XOR(group) (((group) & 1) * 8)

/* Byte of the stage that is `far` bytes behind one of a ring: the smaller one of the sum and of what is left of it behind the end. The compiler is not shown that it is
 * one: it would find the borrow by a vector instruction. */
CCL_DEVICE uint32_t gemm_stage_behind(uint32_t at, uint32_t far, uint32_t end)
{
    const uint32_t sum = at + far;
    uint32_t round = sum - end;
    asm("" : "+s"(round));
    return round < sum ? round : sum;
}

/* 8 rows of k of two columns become 8 k of each: low and high halves of pairs of rows. */
CCL_DEVICE void gemm_put_pairs(GEMM_LDS char *lds, const uint32_t rows[8], uint32_t at0, uint32_t at1)
{
    gemm_u32x4 low, high;
    for (int j = 0; j < 4; j++) {
        low[j] = __builtin_amdgcn_perm(rows[2 * j + 1], rows[2 * j], 0x05040100);
        high[j] = __builtin_amdgcn_perm(rows[2 * j + 1], rows[2 * j], 0x07060302);
    }
    *(GEMM_LDS gemm_u32x4 *)(lds + at0) = low;
    *(GEMM_LDS gemm_u32x4 *)(lds + at1) = high;
}

/* The first `valid` elements of a chunk; the others become zero. */
CCL_DEVICE gemm_u32x4 gemm_keep_first(gemm_u32x4 x, int valid)
{
    for (int d = 0; d < 4; d++) {
        uint32_t mask = (valid > 2 * d ? 0xffffu : 0) | (valid > 2 * d + 1 ? 0xffff0000u : 0);
        x[d] &= mask;
    }
    return x;
}

#endif
