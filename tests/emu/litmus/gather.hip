/* SPDX-License-Identifier: MIT
 *
 * A push all-gather with flags: each workgroup stores its share of the source to all ranks, releases, raises its flag at each rank, and waits for the
 * flags of the same workgroup of the others. bench_gather runs it. */
#define AS1 __attribute__((address_space(1)))
typedef unsigned u32;
typedef unsigned long long u64;
typedef u32 v4u __attribute__((ext_vector_type(4)));

struct args {
    u64 bases[8];
    u64 source, flags;
    u32 rank, ranks, words;
};

extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, 256))) void gather(struct args a)
{
    u32 thread = __builtin_amdgcn_workitem_id_x(), block = __builtin_amdgcn_workgroup_id_x();

    for (u32 i = block * 256 + thread; i < a.words; i += 8 * 256) {
        v4u x = ((AS1 v4u *)a.source)[i];
#pragma clang loop unroll(disable)
        for (u32 p = 0; p < a.ranks; p++) {
            ((AS1 v4u *)a.bases[(a.rank + p) % a.ranks])[a.rank * (u64)a.words + i] = x;
        }
    }
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    __builtin_amdgcn_s_waitcnt(0x0f70);
    __builtin_amdgcn_s_barrier();
    if (thread < a.ranks) {
        AS1 u64 *out = (AS1 u64 *)(a.bases[thread] + a.flags) + a.rank * 8 + block;
        AS1 u64 *in = (AS1 u64 *)(a.bases[a.rank] + a.flags) + thread * 8 + block;

        __hip_atomic_store(out, 1ull, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        while (__hip_atomic_load(in, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) != 1) {
            __builtin_amdgcn_s_sleep(1);
        }
    }
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
}
