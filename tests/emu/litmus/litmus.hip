/* SPDX-License-Identifier: MIT
 *
 * Small kernels, each right in one form and wrong in others (-DBROKEN=...): the interpreter must pass the right one under every seed and catch the
 * broken ones. Built for each architecture by tests/emu. */
#define GLOBAL __attribute__((global))
#define LDS __attribute__((shared))
#define AS1 __attribute__((address_space(1)))
#define WAIT_VM __builtin_amdgcn_s_waitcnt(0x0f70)

typedef unsigned u32;
typedef unsigned long long u64;
typedef u32 v4u __attribute__((ext_vector_type(4)));

static __attribute__((device)) inline u32 thread(void)
{
    return __builtin_amdgcn_workitem_id_x();
}

static __attribute__((device)) inline u32 block(void)
{
    return __builtin_amdgcn_workgroup_id_x();
}

static __attribute__((device)) inline void release_system(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    WAIT_VM; /* clang leaves this wait out where no store of the wave is outstanding */
}

#define ARGS AS1 u32 *data, AS1 u32 *flag, AS1 u32 *out, u32 role, u32 count

/* Message passing between devices: role 0 writes count words a thread and raises the flag, role 1 waits and copies. The waiter has read the words
 * before. */
#define MESSAGE(name, release, store_scope, load_scope, acquire)                                                   \
    extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void name(ARGS)                         \
    {                                                                                                              \
        if (role == 0) {                                                                                           \
            for (u32 i = 0; i < count; i++) {                                                                      \
                data[i * 128 + thread()] = i * 1000 + thread() + 7;                                                \
            }                                                                                                      \
            release;                                                                                               \
            __builtin_amdgcn_s_barrier();                                                                          \
            if (thread() == 0) {                                                                                   \
                __hip_atomic_store(flag, 1u, __ATOMIC_RELAXED, store_scope);                                       \
            }                                                                                                      \
        } else {                                                                                                   \
            u32 before = 0;                                                                                        \
            for (u32 i = 0; i < count; i++) {                                                                      \
                before += data[i * 128 + thread()];                                                                \
            }                                                                                                      \
            out[4096 + thread()] = before;                                                                         \
            while (__hip_atomic_load(flag, __ATOMIC_RELAXED, load_scope) != 1) {                                   \
                __builtin_amdgcn_s_sleep(1);                                                                       \
            }                                                                                                      \
            acquire;                                                                                               \
            for (u32 i = 0; i < count; i++) {                                                                      \
                out[i * 128 + thread()] = data[i * 128 + thread()];                                                \
            }                                                                                                      \
        }                                                                                                          \
    }
#define SYS __HIP_MEMORY_SCOPE_SYSTEM
#define AGENT __HIP_MEMORY_SCOPE_AGENT
#define ACQUIRE_SYSTEM __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "")
#define NOTHING __asm__ volatile("" ::: "memory")
MESSAGE(message, release_system(), SYS, SYS, ACQUIRE_SYSTEM)
MESSAGE(message_no_release, WAIT_VM, SYS, SYS, ACQUIRE_SYSTEM)
MESSAGE(message_no_acquire, release_system(), SYS, SYS, NOTHING)
MESSAGE(message_agent_release, __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); WAIT_VM, SYS, SYS, ACQUIRE_SYSTEM)
MESSAGE(message_agent_acquire, release_system(), SYS, SYS, __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"))

/* The write-back is issued and nobody waits for it. */
extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void message_no_wait(ARGS)
{
    if (role == 0) {
        for (u32 i = 0; i < count; i++) {
            data[i * 128 + thread()] = i * 1000 + thread() + 7;
        }
        WAIT_VM;
#ifdef __gfx90a__
        __asm__ volatile("buffer_wbl2" ::: "memory");
#else
        __asm__ volatile("buffer_wbl2 sc0 sc1" ::: "memory");
#endif
        __builtin_amdgcn_s_barrier();
        if (thread() == 0) {
            __hip_atomic_store(flag, 1u, __ATOMIC_RELAXED, SYS);
        }
    } else {
        while (__hip_atomic_load(flag, __ATOMIC_RELAXED, SYS) != 1) {
            __builtin_amdgcn_s_sleep(1);
        }
        ACQUIRE_SYSTEM;
        for (u32 i = 0; i < count; i++) {
            out[i * 128 + thread()] = data[i * 128 + thread()];
        }
    }
}

/* The same between workgroups of one device, at agent scope: block 0 sends, block 1 receives. */
#define AGENT_MESSAGE(name, release, acquire)                                                                      \
    extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void name(ARGS)                         \
    {                                                                                                              \
        (void)role;                                                                                                \
        if (block() == 0) {                                                                                        \
            for (u32 i = 0; i < count; i++) {                                                                      \
                data[i * 128 + thread()] = i * 1000 + thread() + 7;                                                \
            }                                                                                                      \
            release;                                                                                               \
            __builtin_amdgcn_s_barrier();                                                                          \
            if (thread() == 0) {                                                                                   \
                __hip_atomic_store(flag, 1u, __ATOMIC_RELAXED, AGENT);                                             \
            }                                                                                                      \
        } else {                                                                                                   \
            u32 before = 0;                                                                                        \
            for (u32 i = 0; i < count; i++) {                                                                      \
                before += data[i * 128 + thread()];                                                                \
            }                                                                                                      \
            out[4096 + thread()] = before;                                                                         \
            while (__hip_atomic_load(flag, __ATOMIC_RELAXED, AGENT) != 1) {                                        \
                __builtin_amdgcn_s_sleep(1);                                                                       \
            }                                                                                                      \
            acquire;                                                                                               \
            for (u32 i = 0; i < count; i++) {                                                                      \
                out[i * 128 + thread()] = data[i * 128 + thread()];                                                \
            }                                                                                                      \
        }                                                                                                          \
    }
AGENT_MESSAGE(agent_message, __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); WAIT_VM, __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"))
AGENT_MESSAGE(agent_message_no_release, NOTHING, __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"))
AGENT_MESSAGE(agent_message_no_acquire, __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); WAIT_VM, NOTHING)

/* Packets of 4 bytes of data and 4 of tag need no fence: 8 aligned bytes arrive together. 16 bytes with one tag do not. */
extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void packets(ARGS)
{
    AS1 u64 *slots = (AS1 u64 *)data;

    (void)flag;
    for (u32 i = 0; i < count; i++) {
        if (role == 0) {
            __hip_atomic_store(&slots[i * 128 + thread()], (u64)(i + 1) << 32 | (i * 1000 + thread() + 7), __ATOMIC_RELAXED, SYS);
        } else {
            u64 x;
            while ((x = __hip_atomic_load(&slots[i * 128 + thread()], __ATOMIC_RELAXED, SYS)) >> 32 != i + 1) {
                __builtin_amdgcn_s_sleep(1);
            }
            out[i * 128 + thread()] = (u32)x;
        }
    }
}

extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void packets_torn(ARGS)
{
    (void)flag;
    for (u32 i = 0; i < count; i++) {
        AS1 v4u *slot = (AS1 v4u *)data + i * 128 + thread();
        v4u x = {i * 1000 + thread() + 7, 0, 0, i + 1};
        if (role == 0) {
#ifdef __gfx90a__
            __asm__ volatile("global_store_dwordx4 %0, %1, off glc scc" ::"v"(slot), "v"(x) : "memory");
#else
            __asm__ volatile("global_store_dwordx4 %0, %1, off sc0 sc1" ::"v"(slot), "v"(x) : "memory");
#endif
        } else {
            do {
#ifdef __gfx90a__
                __asm__ volatile("global_load_dwordx4 %0, %1, off glc scc\n s_waitcnt vmcnt(0)" : "=v"(x) : "v"(slot) : "memory");
#else
                __asm__ volatile("global_load_dwordx4 %0, %1, off sc0 sc1\n s_waitcnt vmcnt(0)" : "=v"(x) : "v"(slot) : "memory");
#endif
            } while (x.w != i + 1);
            out[i * 128 + thread()] = x.x;
        }
    }
}

/* Atomics of all lanes and workgroups on one word each: agent scope within a device, system scope across. */
extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void add_agent(ARGS)
{
    (void)data, (void)flag, (void)role;
    for (u32 i = 0; i < count; i++) {
        __hip_atomic_fetch_add(&out[thread() % 8], 1u, __ATOMIC_RELAXED, AGENT);
    }
}
extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void add_system(ARGS)
{
    (void)data, (void)flag, (void)role;
    for (u32 i = 0; i < count; i++) {
        __hip_atomic_fetch_add(&out[thread() % 8], 1u, __ATOMIC_RELAXED, SYS);
    }
}

/* ---- LDS: thread t reads what thread 255 - t wrote ---- */

#define REVERSE(name, between)                                                                                     \
    extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void name(ARGS)                         \
    {                                                                                                              \
        static LDS volatile u32 words[256];                                                                        \
        (void)data, (void)flag, (void)role, (void)count;                                                           \
        words[thread()] = thread() * 3;                                                                            \
        between;                                                                                                   \
        out[thread()] = words[255 - thread()];                                                                     \
    }
REVERSE(lds, __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
REVERSE(lds_no_barrier, __asm__ volatile("s_waitcnt lgkmcnt(0)" ::: "memory"))
/* The last 32 threads of the group do something else, with the same number of barriers. */
extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void lds_split_wave(ARGS)
{
    static LDS volatile u32 words[256];

    (void)data, (void)flag, (void)role, (void)count;
    if (thread() >= 224) {
        words[thread()] = 7;
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        out[thread()] = 1;
    } else {
        words[thread()] = thread();
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        out[thread()] = words[thread() ^ 1];
    }
}
REVERSE(lds_no_wait, __asm__ volatile("s_barrier" ::: "memory"))

extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void lds_unwritten(ARGS)
{
    static LDS volatile u32 words[256];

    (void)data, (void)flag, (void)role, (void)count;
    if (thread() < 255) {
        words[thread()] = thread();
    }
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    out[thread()] = words[255 - thread()];
}

extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void lds_out_of_bounds(ARGS)
{
    static LDS volatile u32 words[256];

    (void)data, (void)flag, (void)role;
    words[thread() + count] = thread();
    out[thread()] = words[thread() + count];
}

/* ---- registers and addresses ---- */

extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void use_before_wait(ARGS)
{
    u32 x;

    (void)flag, (void)role, (void)count;
    __asm__ volatile("global_load_dword %0, %1, off\n v_add_u32_e32 %0, 1, %0\n s_waitcnt vmcnt(0)" : "=&v"(x) : "v"(data + thread()) : "memory");
    out[thread()] = x;
}

extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void scalar_before_wait(ARGS)
{
    u32 x;

    (void)flag, (void)role, (void)count;
    __asm__ volatile("s_load_dword %0, %1, 0x0\n s_add_u32 %0, %0, 1\n s_waitcnt lgkmcnt(0)" : "=&s"(x) : "s"(data) : "memory", "scc");
    out[thread()] = x;
}

/* Two loads outstanding, the wait covers the older one only. */
extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void short_wait(ARGS)
{
    u32 x, y;

    (void)flag, (void)role, (void)count;
    __asm__ volatile("global_load_dword %0, %2, off\n global_load_dword %1, %2, off offset:1024\n s_waitcnt vmcnt(1)\n v_add_u32_e32 %0, %0, %1\n"
                     "s_waitcnt vmcnt(0)" : "=&v"(x), "=&v"(y) : "v"(data + thread()) : "memory");
    out[thread()] = x;
}

extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void unknown(ARGS)
{
    (void)data, (void)flag, (void)role, (void)count;
    __asm__ volatile("s_setvskip s0, s1");
    out[thread()] = 1;
}

extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void out_of_bounds(ARGS)
{
    (void)flag, (void)role;
    out[thread()] = data[thread() + count];
}

extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void hang(ARGS)
{
    (void)data, (void)role, (void)count, (void)out;
    while (__hip_atomic_load(flag, __ATOMIC_RELAXED, SYS) != 1) {
        __builtin_amdgcn_s_sleep(1);
    }
}

/* Loads from memory into LDS: where they put the bytes of a lane (M0, the offset of the instruction, the lane), zeros for a lane out of range. gfx950: 16 bytes a
 * lane, else 4 loads of 4 bytes. Each wave stores words, loads them back with lanes exchanged, and shows what another wave has got. */
#define AS3 __attribute__((address_space(3)))
#if defined(__gfx950__)
#define TO_LDS(buffer, at, lane_offset) __builtin_amdgcn_raw_ptr_buffer_load_lds(buffer, (AS3 void *)(at), 16, lane_offset, 0, 64, 0)
#define LOADED(words, lane, j) (words)[(lane) * 4 + (j)]
#else
#define TO_LDS(buffer, at, lane_offset)                                                                                        \
    _Pragma("unroll") for (u32 j_ = 0; j_ < 4; j_++)                                                                           \
    {                                                                                                                          \
        __builtin_amdgcn_raw_ptr_buffer_load_lds(buffer, (AS3 void *)((at) + j_ * 256), 4, (lane_offset), 4 * j_, 64, 0);      \
    }
#define LOADED(words, lane, j) (words)[(j) * 64 + (lane)]
#endif
#define LOAD_TO_LDS(name, wait)                                                                                                 \
    extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void name(ARGS)                                      \
    {                                                                                                                           \
        static LDS char memory[64 + 4096] __attribute__((aligned(16)));                                                         \
        u32 lane = thread() & 63, wave = __builtin_amdgcn_readfirstlane(thread() >> 6), next = (wave + 1) & 3;                  \
        (void)flag, (void)role, (void)count;                                                                                    \
        for (u32 j = 0; j < 4; j++) {                                                                                           \
            data[thread() * 4 + j] = (thread() * 4 + j) * 7 + 5;                                                                \
        }                                                                                                                       \
        __builtin_amdgcn_s_waitcnt(0x0f70);                                                                                     \
        TO_LDS(__builtin_amdgcn_make_buffer_rsrc((void *)((u64)data + wave * 1024 - 64), 0, 1024 + 64, 0x27000),                 \
               (AS3 char *)memory + wave * 1024, lane == 63 ? 0x7fffff00u : (lane ^ 5) * 16);                                   \
        wait;                                                                                                                   \
        __asm__ volatile("s_barrier" ::"s"((AS3 char *)memory) : "memory");                                                     \
        for (u32 j = 0; j < 4; j++) {                                                                                           \
            out[thread() * 4 + j] = LOADED((volatile AS3 u32 *)((AS3 char *)memory + 64 + next * 1024), lane, j);                \
        }                                                                                                                       \
    }

LOAD_TO_LDS(load_to_lds, __builtin_amdgcn_s_waitcnt(0x0f70))
LOAD_TO_LDS(load_to_lds_no_wait, (void)0)

/* The transposing read of gfx950: 16 lanes bring 4 halves each, 4 lanes make a row of 16, lane l gets column l of 4 rows. Elsewhere what is documented, by
 * ordinary reads. Lanes are exchanged, so that addresses matter. */
extern "C" GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256))) void transposed(ARGS)
{
    static LDS unsigned short memory[4 * 256] __attribute__((aligned(16)));
    u32 lane = thread() & 63, wave = thread() >> 6;
    union {
        u32 words[2];
        unsigned short halves[4];
        short __attribute__((ext_vector_type(4))) v;
    } r;
    (void)data, (void)flag, (void)role, (void)count;
    for (u32 j = 0; j < 4; j++) {
        memory[thread() * 4 + j] = (unsigned short)(thread() * 4 + j);
    }
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#if defined(__gfx950__)
    r.v = __builtin_amdgcn_ds_read_tr16_b64_v4i16((short __attribute__((ext_vector_type(4))) AS3 *)((AS3 unsigned short *)memory + wave * 256 + (lane ^ 3) * 4));
#else
    for (u32 k = 0; k < 4; k++) {
        u32 from = (lane & 48) + 4 * k + (lane & 15) / 4;
        r.halves[k] = memory[wave * 256 + (from ^ 3) * 4 + lane % 4];
    }
#endif
    out[thread() * 2] = r.words[0];
    out[thread() * 2 + 1] = r.words[1];
}
