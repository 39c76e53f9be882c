/* SPDX-License-Identifier: MIT
 *
 * The memory of the interpreter: the caches of a device and the memory behind them, as the LLVM "User Guide for AMDGPU Backend" describes them in its
 * sections "Memory Model GFX90A" and "Memory Model GFX942" (gfx950 has the same code sequences). Caches do what these sections allow and nothing more
 * friendly: docs/emulator.md has the rules. All random choices come from the generator that the caller hands in. */
#ifndef EMU_CACHE_H
#define EMU_CACHE_H

#include <pthread.h>

#include "rng.h"
#include "wave.h"

#define EMU_LINE 64 /* bytes; valid and dirty masks are 64 bits. Real lines have 128: two of ours, which only makes fewer bytes stale together */
#define EMU_MAX_XCDS 8

/* Who must see an access, in growing order: the bits sc0 and sc1 of gfx942, glc and scc of gfx90a. */
enum emu_scope { EMU_SCOPE_WAVE, EMU_SCOPE_GROUP, EMU_SCOPE_AGENT, EMU_SCOPE_SYSTEM };

struct emu_line {
    uint64_t tag;         /* address */
    uint64_t valid, dirty; /* a bit a byte; dirty bytes are valid */
    uint64_t stamp;       /* when the oldest dirty byte was written, by the device's clock of stores */
    uint32_t generation;  /* clean bytes of an older generation were invalidated */
    uint16_t next, dirty_at;
    _Alignas(8) uint8_t data[EMU_LINE];
};

/* What the run decides at random, and the strangers: other kernels on the same compute unit may have read any line just before it was overwritten, so an
 * old copy may stand in any cache that the writer does not use. A copy is taken when a line is overwritten and put into caches when the quantum ends. */
enum emu_level { EMU_LEVEL_L2, EMU_LEVEL_AGENT, EMU_LEVEL_MEMORY };
#define EMU_MAX_COPIES 16
struct emu_copy {
    uint64_t tag, valid;
    struct emu_device *device; /* of the writer */
    uint32_t xcd;
    enum emu_level level;      /* that was written: who reads through another cache above it may have the copy */
    _Alignas(8) uint8_t data[EMU_LINE];
};
struct emu_fate {
    struct emu_rng rng;
    uint32_t keep;      /* of 65536: chance that a missed line stays in a cache */
    uint32_t strangers; /* of 65536: chance that a copy is taken */
    uint32_t num_copies;
    struct emu_copy copies[EMU_MAX_COPIES];
};

/* Lines are found by a hash of their address, but every random choice is made by their number, which depends on the history only: one seed gives one
 * schedule wherever the memory lies. */
struct emu_cache {
    struct emu_line *lines;
    uint16_t *heads, *dirty; /* hash chains; numbers of the dirty lines */
    uint32_t capacity, used, num_dirty, generation, shift;
};

bool emu_cache_init(struct emu_cache *c, uint32_t capacity_log2);
void emu_cache_finish(struct emu_cache *c);
void emu_cache_reset(struct emu_cache *c);
/* Clean bytes are forgotten, dirty ones stay. */
static inline void emu_cache_invalidate(struct emu_cache *c)
{
    c->generation++;
}
struct emu_line *emu_cache_find(struct emu_cache *c, uint64_t tag);

struct emu_device {
    int number;
    enum emu_arch arch;
    pthread_mutex_t lock;     /* shared runs: held for a quantum; others: for the whole run */
    uint32_t num_running;     /* grids */
    uint32_t num_xcds;        /* gfx90a: 0, its one L2 is the point of coherence */
    uint64_t clock;           /* of stores into caches */
    struct emu_cache agent;   /* what accesses of agent scope reach; gfx90a: the L2 */
    struct emu_cache l2[EMU_MAX_XCDS];
    struct emu_cache scalar[EMU_MAX_XCDS]; /* constant caches; gfx90a: the first only */
};

/* From where an access goes. */
struct emu_path {
    struct emu_device *device;
    struct emu_cache *l1; /* of the workgroup's compute unit */
    uint32_t xcd;
    struct emu_fate *fate;
};

/* bytes of one line. */
void emu_mem_read(const struct emu_path *p, uint64_t addr, void *out, uint32_t bytes, enum emu_scope scope);
void emu_mem_write(const struct emu_path *p, uint64_t addr, const void *data, uint32_t bytes, enum emu_scope scope);
/* The constant cache: stale until the next kernel or s_dcache_inv. */
void emu_mem_read_scalar(const struct emu_path *p, uint64_t addr, void *out, uint32_t bytes);

/* A read-modify-write of 4 or 8 bytes, aligned: next() makes the new value from the old. Returns the old value. */
typedef uint64_t emu_modify_fn(uint64_t old, const void *context);
uint64_t emu_mem_modify(const struct emu_path *p, uint64_t addr, uint32_t bytes, enum emu_scope scope, emu_modify_fn *next, const void *context);

/* buffer_inv, buffer_invl2, buffer_wbinvl1_vol; the scope says how far. */
void emu_mem_invalidate(const struct emu_path *p, enum emu_scope scope);
/* One step of a write-back of what was dirty at stamp: up to n lines in random order. true: nothing is left. */
bool emu_mem_write_back(const struct emu_path *p, enum emu_scope scope, uint64_t stamp, uint32_t n);
/* The cache decides for itself: a dirty line is written back or a clean one forgotten. */
void emu_mem_evict(struct emu_device *d, struct emu_fate *fate);
/* A stranger of this path has read the line: its old copy goes into some of the caches, unless one has the line already. */
void emu_mem_plant(const struct emu_path *p, const struct emu_copy *copy);
/* Kernel start: acquire of system scope; kernel end: release of system scope (what the packet processor does). */
void emu_mem_kernel_start(struct emu_device *d);
void emu_mem_kernel_end(struct emu_device *d, struct emu_fate *fate);

#endif
