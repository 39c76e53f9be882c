/* SPDX-License-Identifier: MIT
 *
 * From memory to LDS and from LDS to registers: addresses of each thread, loads of half a K block, writes to a stage, reads of fragments. Part of
 * gemm_cdna_body.h.
 *
 * Thread t of a load of 16 bytes writes byte 16 t of the stage (direct loads can do no other), so the swizzle is in the addresses of memory. A [k][n]
 * operand B (A: [k][m]): on gfx950 it lies in LDS as in memory and is transposed by the reads of fragments; else a thread loads 8 rows of k of two
 * columns and transposes them in registers. */
#define GEMM_KN_DIRECT (GEMM_KN && GEMM_DIRECT)
#define GEMM_KN_PAIRS (GEMM_KN && !GEMM_DIRECT)
#define GEMM_KM_DIRECT (GEMM_KM && GEMM_DIRECT)
#define GEMM_KM_PAIRS (GEMM_KM && !GEMM_DIRECT)
#if GEMM_KM_PAIRS && GEMM_ROWS != 256
#error "A as [k][m] has tiles of 256 rows on gfx90a and gfx942"
#endif

struct GEMM_F(gemm_lane) {
    uint32_t a_off[GEMM_KM ? 1 : GEMM_A_LOADS]; /* byte offsets from the K block's first element of this thread's chunks of its first half */
    uint32_t b_off[GEMM_KN ? 1 : 2];
    uint32_t a_k, b_k;            /* first k of the chunk within the half; the row of a [k][n] operand */
    uint32_t put;                 /* LDS byte of a chunk */
    uint32_t put_a[2], put_b[2];  /* k outside, through registers: of this thread's two columns */
    uint32_t a_get[2];            /* LDS bytes of even and odd fragments (transposed: rows 0 to 3, 4 to 7 of k) in stage 0 */
    uint32_t b_get[GEMM_KN_DIRECT ? 4 : 2];
};

/* Half a K block of this thread, as loaded. */
struct GEMM_F(gemm_half) {
#if GEMM_KM_PAIRS
    uint32_t a[8];
#else
    gemm_u32x4 a[GEMM_A_LOADS];
#endif
#if GEMM_KN_PAIRS
    uint32_t b[8];
#else
    gemm_u32x4 b[2];
#endif
};

CCL_DEVICE void GEMM_F(gemm_lane_init)(struct GEMM_F(gemm_lane) *t, const struct gemm_in *in)
{
    const uint32_t thread = ccl_afresh(ccl_tid()), lane = thread & 63, wave = thread >> 6;
    const uint32_t slot = thread >> 2, row = gemm_swap01(slot), chunk = (thread & 3) ^ gemm_chunk_xor(row);
    const uint32_t i = lane & 15, group = lane >> 4, wave_m = wave >> 2, wave_n = wave & 3;
    const uint32_t get = gemm_swap01(i) * 64 + (group ^ gemm_chunk_xor(i)) * 16;

    /* Rows of k outside, through registers: wave w has rows 8 (w / 2) on, of columns 128 (w % 2) on two a lane. */
    const uint32_t pair = (wave & 1) * 128 + lane * 2, pair_k = (wave >> 1) * 8;

    (void)row, (void)chunk, (void)get, (void)pair, (void)pair_k;
    t->put = thread * 16;
#if GEMM_KM_DIRECT
    const uint32_t octets = GEMM_ROWS / 64, part = wave / octets, in_part = (lane & 15) ^ GEMM_OCTET_XOR(part); /* the second load: 16 rows of k on */
    const uint32_t m = wave % octets * 64 + (lane >> 4) * 16 + (in_part & 1) * 8;
    t->a_k = part * 8 + in_part / 2;
    t->a_off[0] = m < in->m ? (t->a_k * in->lda + m) * 2 : GEMM_NOWHERE;
    t->a_get[0] = (group * octets + wave_m * (octets / 2)) * 1024 + ((i / 4 * 2 + i % 4 / 2) ^ GEMM_OCTET_XOR(group)) * 16 + (i & 1) * 8;
    t->a_get[1] = t->a_get[0] ^ 128;
#else
#if GEMM_KM
    t->a_k = pair_k;
    t->a_off[0] = pair < in->m ? pair * 2 : GEMM_NOWHERE;
    for (uint32_t e = 0; e < 2; e++) {
        uint32_t p = gemm_row_of(pair + e);
        t->put_a[e] = gemm_swap01(p) * 64 + (wave >> 1 ^ gemm_chunk_xor(p)) * 16;
    }
#else
    for (int l = 0; l < GEMM_A_LOADS; l++) { /* 128 rows on, neither slot nor XOR changes */
        uint32_t r = row + 128 * (uint32_t)l;
        t->a_off[l] = r < in->m ? (r * in->lda + chunk * 8) * 2 : GEMM_NOWHERE;
    }
    t->a_k = chunk * 8;
#endif
    t->a_get[0] = wave_m * (GEMM_ROWS / 2) * 64 + get;
    t->a_get[1] = t->a_get[0] ^ 16;
#endif
#if GEMM_KN_DIRECT
    const uint32_t k = thread >> 5, column = (thread & 31) ^ gemm_row_xor(k); /* rows k and k + 16; column: of chunks */
    t->b_k = k;
    t->b_off[0] = column * 8 < in->n ? (k * in->ldb + column * 8) * 2 : GEMM_NOWHERE;
    /* Lane i of a group brings a quarter of row group * 8 + i / 4: half `odd` of chunk i % 4 of a pair of fragments, the other half for the second fragment. */
    const uint32_t at = group * 8 + i / 4, odd = i & 1;
    for (uint32_t f = 0; f < 4; f++) {
        t->b_get[f] = GEMM_A_BYTES + at * 512 + (((wave_n * 8 + f / 2 * 4 + i % 4) ^ gemm_row_xor(at)) * 16 + ((odd ^ (f & 1)) * 8));
    }
#elif GEMM_KN
    t->b_k = pair_k;
    t->b_off[0] = pair < in->n ? pair * 2 : GEMM_NOWHERE;
    for (uint32_t e = 0; e < 2; e++) {
        uint32_t p = gemm_row_of(pair + e);
        t->put_b[e] = GEMM_A_BYTES + gemm_swap01(p) * 64 + (wave >> 1 ^ gemm_chunk_xor(p)) * 16;
    }
#else
    for (uint32_t l = 0; l < 2; l++) {
        uint32_t n = gemm_column_of(row + 128 * l);
        t->b_off[l] = n < in->n ? (n * in->ldb + chunk * 8) * 2 : GEMM_NOWHERE;
    }
    t->b_k = chunk * 8;
#endif
#if !GEMM_KN_DIRECT
    t->b_get[0] = GEMM_A_BYTES + wave_n * 64 * 64 + get;
    t->b_get[1] = t->b_get[0] ^ 16;
#endif
}

#define GEMM_LOAD16(addr, bytes, off, soff) __builtin_amdgcn_raw_buffer_load_b128(GEMM_BUFFER(addr, bytes), off, soff, 0)
#define GEMM_LOAD4(addr, bytes, off, soff) __builtin_amdgcn_raw_buffer_load_b32(GEMM_BUFFER(addr, bytes), off, soff, 0)

/* Row j of the eight of a thread, of half h. */
#define GEMM_LOAD_PAIR(addr, bytes, off, first, h, j, pitch) GEMM_LOAD4(addr, bytes, off, (ccl_uniform(first) + (h) * 32 + (uint32_t)(j)) * (pitch) * 2)

/* Half h of a K block of which the first k_left elements of k exist. */
CCL_DEVICE void GEMM_F(gemm_load_masked)(struct GEMM_F(gemm_half) *r, const struct GEMM_F(gemm_lane) *t, uint64_t a, uint64_t b, uint32_t h,
                                         const struct gemm_in *in, int k_left)
{
    const int a_valid = k_left - (int)(h * 32 + t->a_k), b_valid = k_left - (int)(h * 32 + t->b_k);

    (void)in;
#if GEMM_KM_PAIRS
    for (int j = 0; j < 8; j++) {
        r->a[j] = GEMM_LOAD_PAIR(a, GEMM_ALL, j < a_valid ? t->a_off[0] : GEMM_NOWHERE, t->a_k, h, j, in->lda);
    }
#else
    for (int i = 0; i < GEMM_A_LOADS; i++) {
#if GEMM_KM
        r->a[i] = GEMM_LOAD16(a, GEMM_ALL, 16 * i < a_valid ? t->a_off[0] : GEMM_NOWHERE, ((uint32_t)i * 16 + h * 32) * in->lda * 2);
#else
        r->a[i] = gemm_keep_first(GEMM_LOAD16(a, GEMM_ALL, a_valid > 0 ? t->a_off[i] + h * 64 : GEMM_NOWHERE, 0), a_valid);
#endif
    }
#endif
#if GEMM_KN_PAIRS
    for (int j = 0; j < 8; j++) {
        r->b[j] = GEMM_LOAD_PAIR(b, GEMM_ALL, j < b_valid ? t->b_off[0] : GEMM_NOWHERE, t->b_k, h, j, in->ldb);
    }
#else
    for (int i = 0; i < 2; i++) {
#if GEMM_KN
        r->b[i] = GEMM_LOAD16(b, GEMM_ALL, 16 * i < b_valid ? t->b_off[0] : GEMM_NOWHERE, ((uint32_t)i * 16 + h * 32) * in->ldb * 2);
#else
        r->b[i] = gemm_keep_first(GEMM_LOAD16(b, GEMM_ALL, b_valid > 0 ? t->b_off[i] + h * 64 : GEMM_NOWHERE, 0), b_valid);
#endif
    }
#endif
}

CCL_DEVICE void GEMM_F(gemm_put_a)(GEMM_LDS char *lds, const struct GEMM_F(gemm_half) *r, const struct GEMM_F(gemm_lane) *t, uint32_t stage)
{
#if GEMM_KM_PAIRS
    gemm_put_pairs(lds, r->a, t->put_a[0] + stage, t->put_a[1] + stage);
#else
    for (int i = 0; i < GEMM_A_LOADS; i++) {
        *(GEMM_LDS gemm_u32x4 *)(lds + t->put + stage + 8192 * i) = r->a[i];
    }
#endif
}

CCL_DEVICE void GEMM_F(gemm_put_b)(GEMM_LDS char *lds, const struct GEMM_F(gemm_half) *r, const struct GEMM_F(gemm_lane) *t, uint32_t stage)
{
#if GEMM_KN_PAIRS
    gemm_put_pairs(lds, r->b, t->put_b[0] + stage, t->put_b[1] + stage);
#else
    for (int i = 0; i < 2; i++) {
        *(GEMM_LDS gemm_u32x4 *)(lds + t->put + GEMM_A_BYTES + stage + 8192 * i) = r->b[i];
    }
#endif
}

#define GEMM_GET(at) (*(GEMM_LDS gemm_u32x4 *)(lds + (at)))
#if GEMM_KN_DIRECT || GEMM_KM_DIRECT
/* restrict, though there is nothing else: only to accesses with knowledge of aliases the compiler attaches no wait for all loads into LDS. */
CCL_DEVICE gemm_u32x4 GEMM_F(gemm_get_transposed)(GEMM_LDS char *__restrict low_at, GEMM_LDS char *__restrict high_at)
{
    gemm_u32x2 low = __builtin_bit_cast(gemm_u32x2, __builtin_amdgcn_ds_read_tr16_b64_v4i16((GEMM_LDS gemm_s16x4 *)low_at));
    gemm_u32x2 high = __builtin_bit_cast(gemm_u32x2, __builtin_amdgcn_ds_read_tr16_b64_v4i16((GEMM_LDS gemm_s16x4 *)high_at));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3);
}
#endif
/* Fragments at LDS byte `at` behind those of stage 0. */
#if GEMM_KM_DIRECT
#define GEMM_GET_A_AT(base, i, at)                                                       \
    GEMM_F(gemm_get_transposed)(lds + (base)[0] + ((i) / 4 * 1024 + (i) % 4 * 256 + (at)), \
                                lds + (base)[1] + ((i) / 4 * 1024 + (i) % 4 * 256 + (at)))
#else
#define GEMM_GET_A_AT(base, i, at) GEMM_GET((base)[(i) & 1] + ((i) * 1024 + (at)))
#endif
#if GEMM_KN_DIRECT
#define GEMM_GET_B_AT(base, j, at) GEMM_F(gemm_get_transposed)(lds + (base)[j] + (at), lds + (base)[j] + (4 * 512 + (at)))
#else
#define GEMM_GET_B_AT(base, j, at) GEMM_GET((base)[(j) & 1] + ((j) * 1024 + (at)))
#endif
/* Fragments of stage n, 0 or 1: the offset in an LDS instruction reaches 64 KiB. */
#define GEMM_GET_A(i, n) GEMM_GET_A_AT(t.a_get, i, (n) * GEMM_STAGE)
#define GEMM_GET_B(j, n) GEMM_GET_B_AT(t.b_get, j, (n) * GEMM_STAGE)
