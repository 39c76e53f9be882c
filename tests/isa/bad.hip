/* SPDX-License-Identifier: MIT
 *
 * Kernels that the gates must reject, one a gate: check_isa.py compiles them for each architecture and wants a complaint with the word
 * behind `expect`. `cdna`: there is nothing to reject elsewhere. */
#include "kernel.h"

typedef CCL_AS1 ccl_vec16 vec;
typedef CCL_AS1 uint64_t word;

#define BAD(name, ...) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 512))) void ccl_k_##name(__VA_ARGS__)

/* The form before the bases were hoisted: each store waits for a load that stands behind the stores before it.
 * ISA bad_inside: vgpr 64, sgpr 106, tile 8, expect table */
BAD(bad_inside, vec *src, CCL_AS1 word *volatile *bases, uint64_t n)
{
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        ccl_vec16 v = src[i];
#pragma unroll
        for (int d = 0; d < 8; d++) {
            ((vec *)(uint64_t)bases[d])[i] = v;
        }
    }
}

/* Bases hoisted, but this step's load behind the last step's stores: all of them drain.
 * ISA bad_drain: vgpr 64, sgpr 106, tile 8, expect flight, cdna */
BAD(bad_drain, vec *src, vec *a, vec *b, vec *c, vec *d, vec *e, vec *f, vec *g, vec *h, uint64_t n)
{
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        ccl_vec16 v = src[i];
        a[i] = v, b[i] = v, c[i] = v, d[i] = v, e[i] = v, f[i] = v, g[i] = v, h[i] = v;
    }
}

/* A wait in front of each store.
 * ISA bad_waits: vgpr 64, sgpr 106, tile 2, expect front, cdna */
BAD(bad_waits, vec *src, vec *a, vec *b, uint64_t n)
{
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        ccl_vec16 v = src[i];
        a[i] = v;
        ccl_wait_loads();
        b[i] = v;
        ccl_wait_loads();
    }
}

/* The bases in vector registers.
 * ISA bad_live: vgpr 96, sgpr 106, tile 8, live 24, expect live, cdna */
BAD(bad_live, vec *src, word *bases, uint64_t n)
{
    uint64_t to[8];
#pragma unroll
    for (int d = 0; d < 8; d++) {
        to[d] = bases[ccl_tid() * 8 + d];
    }
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        ccl_vec16 v = src[i];
#pragma unroll
        for (int d = 0; d < 8; d++) {
            CCL_PTR(ccl_vec16, to[d])[i] = v;
        }
    }
}

/* A vector of its own for each destination: places looked up in every step.
 * ISA bad_pair_inside: vgpr 96, sgpr 106, pairs 4, expect pair loop of 4 stores: base or table */
BAD(bad_pair_inside, CCL_AS1 word *volatile *from, CCL_AS1 word *volatile *to, uint64_t n)
{
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        ccl_vec16 v[4];
#pragma unroll
        for (int d = 0; d < 4; d++) {
            v[d] = ((vec *)(uint64_t)from[d])[i];
        }
#pragma unroll
        for (int d = 0; d < 4; d++) {
            ((vec *)(uint64_t)to[d])[i] = v[d];
        }
    }
}

/* The same, places hoisted, but the loads of a step behind the stores of the one before.
 * ISA bad_pair_drain: vgpr 96, sgpr 106, pairs 2, expect pair loop of 2 stores: 0 in flight, cdna */
BAD(bad_pair_drain, vec *a, vec *b, vec *c, vec *d, uint64_t n)
{
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        ccl_vec16 v = a[i], w = b[i];
        c[i] = v, d[i] = w;
    }
}

/* The same with a wait in front of each store.
 * ISA bad_pair_waits: vgpr 96, sgpr 106, pairs 2, expect front, cdna */
BAD(bad_pair_waits, vec *a, vec *b, vec *c, vec *d, uint64_t n)
{
    ccl_vec16 v = a[ccl_tid()], w = b[ccl_tid()];
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        ccl_vec16 next_v = a[i + 512], next_w = b[i + 512];
        ccl_wait_loads();
        c[i] = v;
        ccl_wait_loads();
        d[i] = w;
        v = next_v, w = next_w;
    }
}

/* The vectors of one destination after those of the other.
 * ISA bad_no_pair: vgpr 64, sgpr 106, pairs 2, expect no pair loop */
BAD(bad_no_pair, vec *a, vec *b, vec *c, vec *d, uint64_t n)
{
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        c[i] = a[i];
    }
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        d[i] = b[i];
    }
}

/* ISA bad_no_tile: vgpr 64, sgpr 106, tile 8, expect no tile loop */
BAD(bad_no_tile, word *p) { p[ccl_tid()] = 1; }

/* ISA bad_flat: vgpr 64, sgpr 106, expect flat */
BAD(bad_flat, uint64_t *volatile *table) { table[0][ccl_tid()] = 1; }

/* ISA bad_scratch: vgpr 64, sgpr 106, expect scratch memory */
BAD(bad_scratch, word *p)
{
    volatile uint64_t local[16];
    for (int i = 0; i < 16; i++) {
        local[i] = p[i];
    }
    p[ccl_tid()] = local[p[ccl_tid()] & 15];
}

/* ISA bad_spill: vgpr 64, sgpr 106, expect VGPR spills */
extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 1024), amdgpu_num_vgpr(16))) void ccl_k_bad_spill(vec *p)
{
    ccl_vec16 v[16];
#pragma unroll
    for (int i = 0; i < 16; i++) {
        v[i] = p[i * 1024 + ccl_tid()];
    }
    asm volatile("" ::: "memory");
#pragma unroll
    for (int i = 0; i < 16; i++) {
        p[i * 1024 + 512 + ccl_tid()] = v[i] * v[15 - i];
    }
}

/* ISA bad_sgpr_spill: vgpr 64, sgpr 106, expect SGPR spills */
BAD(bad_sgpr_spill, CCL_CONST const ccl_vec16 *p, word *out)
{
    uint32_t s[120];
#pragma unroll
    for (int i = 0; i < 120; i++) {
        s[i] = ((CCL_CONST const uint32_t *)p)[i];
        asm volatile("" : "+s"(s[i]));
    }
    out[0] = 1;
    asm volatile("" ::: "memory");
#pragma unroll
    for (int i = 0; i < 120; i++) {
        asm volatile("" ::"s"(s[i]));
    }
}

/* ISA bad_vgpr: vgpr 8, sgpr 106, expect vgpr */
BAD(bad_vgpr, vec *p)
{
    ccl_vec16 a = p[ccl_tid()], b = p[ccl_tid() + 512], c = p[ccl_tid() + 1024];
    p[ccl_tid()] = a * b + c;
}

/* ISA bad_sgpr: vgpr 64, sgpr 8, expect sgpr, cdna */
BAD(bad_sgpr, word *a, word *b, word *c, word *d) { a[0] = b[1] + c[2] + d[3]; }

/* ISA bad_lds: vgpr 64, sgpr 106, lds 1024, expect lds */
BAD(bad_lds, word *p)
{
    CCL_SHARED uint64_t all[512];
    all[ccl_tid()] = p[ccl_tid()];
    ccl_block_sync();
    p[ccl_tid()] = all[511 - ccl_tid()];
}

/* ISA bad_waves: vgpr 64, sgpr 106, lds 65536, waves 8, expect waves, cdna */
BAD(bad_waves, word *p)
{
    CCL_SHARED uint64_t all[8192];
    all[ccl_tid()] = p[ccl_tid()];
    ccl_block_sync();
    p[ccl_tid()] = all[p[ccl_tid()] % 8192];
}

static __attribute__((device, noinline)) void out_of_line(word *p) { p[ccl_tid()] += 1; }

/* ISA bad_call: vgpr 64, sgpr 112, expect call */
BAD(bad_call, word *p) { out_of_line(p); }

#if defined(__gfx90a__)
#define WRITE_BACK "buffer_wbl2"
#elif defined(CCL_ON_CDNA)
#define WRITE_BACK "buffer_wbl2 sc0 sc1"
#elif defined(__GFX12__)
#define WRITE_BACK "global_wb scope:SCOPE_SYS"
#endif

#if defined(WRITE_BACK)
/* The flag can be seen before the lines that are written back. Assembly: compilers that wait where they should would spoil the test.
 * ISA bad_write_back: vgpr 64, sgpr 106, expect write-back */
BAD(bad_write_back, word *p)
{
    p[ccl_tid()] = 1;
    asm volatile(WRITE_BACK ::: "memory");
    ccl_store_relaxed_system_u64((uint64_t)&p[1000], 1);
}
#endif

/* Payload behind a relaxed poll.
 * ISA bad_poll: vgpr 64, sgpr 106, expect no invalidate */
BAD(bad_poll, word *flag, vec *src, vec *dst)
{
    while (ccl_load_relaxed_system_u64((uint64_t)flag) != 1) {
        ccl_pause();
    }
    dst[ccl_tid()] = src[ccl_tid()];
}

/* ISA bad_release: vgpr 64, sgpr 106, expect inside a loop that copies */
BAD(bad_release, vec *src, vec *dst, word *flag, uint64_t n)
{
    for (uint64_t i = ccl_tid(); i < n; i += 512) {
        dst[i] = src[i];
        (void)ccl_load_acquire_system_u64((uint64_t)flag);
    }
}

/* Has no ISA line: expect no budget */
BAD(unknown, word *p) { p[0] = 1; }

#if defined(CCL_ON_CDNA)
typedef float matrix_sums __attribute__((ext_vector_type(4)));
typedef _Float16 matrix_input __attribute__((ext_vector_type(4)));

/* A loop of 4 matrix instructions with `before` in front of them. */
#define BAD_MATRIX(name, before)                                                                    \
    BAD(name, CCL_AS1 matrix_input *src, CCL_AS1 matrix_sums *dst, uint64_t n)                      \
    {                                                                                               \
        matrix_sums s[4] = {};                                                                      \
        matrix_input x = src[ccl_tid()], next = x;                                                  \
        _Pragma("clang loop unroll(disable)") for (uint64_t i = 1; i < n; i++)                      \
        {                                                                                           \
            before;                                                                                 \
            for (int j = 0; j < 4; j++) {                                                           \
                s[j] = __builtin_amdgcn_mfma_f32_16x16x16f16(x, x, s[j], 0, 0, 0);                  \
            }                                                                                       \
        }                                                                                           \
        dst[ccl_tid()] = s[0] + s[1] + s[2] + s[3];                                                 \
    }

/* ISA bad_matrix_count: vgpr 64, sgpr 106, mfma 5, expect matrix instructions in a trip, cdna */
BAD_MATRIX(bad_matrix_count, (void)next)

/* The load is waited for at once.
 * ISA bad_matrix_age: vgpr 64, sgpr 106, mfma 4, age 4, expect matrix instructions behind it, cdna */
BAD_MATRIX(bad_matrix_age, x = src[i * 512 + ccl_tid()])

/* Loaded a step ahead, but nothing stays in flight.
 * ISA bad_matrix_flight: vgpr 64, sgpr 106, mfma 4, age 3, flight 1, expect loads in flight, cdna */
BAD_MATRIX(bad_matrix_flight, x = next; next = src[i * 512 + ccl_tid()])

/* ISA bad_matrix_busy: vgpr 64, sgpr 106, mfma 4, busy 90, expect busy, cdna */
BAD_MATRIX(bad_matrix_busy, __builtin_amdgcn_s_barrier(); x = src[i * 512 + ccl_tid()])

/* A matrix loop, then `number` times two vectors to places whose addresses are in `to`, each time behind `before`. */
#define BAD_EPILOGUE(name, number, before)                                                                                           \
    BAD(name, CCL_AS1 matrix_input *src, CCL_AS1 uint64_t *to, uint64_t n)                                                           \
    {                                                                                                                                \
        matrix_sums s = {};                                                                                                          \
        uint64_t place[2] = {to[0], to[1]};                                                                                          \
        _Pragma("clang loop unroll(disable)") for (uint64_t i = 0; i < n; i++)                                                       \
        {                                                                                                                            \
            s = __builtin_amdgcn_mfma_f32_16x16x16f16(src[ccl_tid()], src[ccl_tid()], s, 0, 0, 0);                                   \
        }                                                                                                                            \
        typedef uint32_t words __attribute__((ext_vector_type(4)));                                                                  \
        _Pragma("unroll") for (int i = 0; i < number * 2; i++)                                                                       \
        {                                                                                                                            \
            before;                                                                                                                  \
            __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(words, s), __builtin_amdgcn_make_buffer_rsrc((void *)place[i % 2], 0, 1u << 20, 0x27000), \
                                                   (int)ccl_tid() * 16 + i * 8192, 0, 0);                                            \
        }                                                                                                                            \
    }

/* ISA bad_epilogue_inside: vgpr 64, sgpr 106, epilogue 8, expect loads behind the first store, cdna */
BAD_EPILOGUE(bad_epilogue_inside, 4, place[i % 2] = ccl_uniform_u64(*(volatile CCL_AS1 uint64_t *)&to[i % 2]))

/* ISA bad_epilogue_drain: vgpr 64, sgpr 106, epilogue 8, expect waits retire stores, cdna */
BAD_EPILOGUE(bad_epilogue_drain, 4, ccl_wait_loads())

/* ISA bad_epilogue_stores: vgpr 64, sgpr 106, epilogue 8, expect stores on the longest way, cdna */
BAD_EPILOGUE(bad_epilogue_stores, 3, (void)0)

/* The stores stand in the K loop.
 * ISA bad_epilogue_none: vgpr 64, sgpr 106, epilogue 8, expect no way from the K loop, cdna */
BAD_MATRIX(bad_epilogue_none, src[i] = x)

/* ISA bad_matrix_none: vgpr 64, sgpr 106, mfma 4, expect no loop with matrix instructions, cdna */
BAD(bad_matrix_none, word *p) { p[ccl_tid()] = 2; }
#endif
