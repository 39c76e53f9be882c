/* SPDX-License-Identifier: MIT
 *
 * Modules and kernels of libccl_emu.so, the HIP runtime of tests/fake_gpu whose kernels are AMD machine code: a module is loaded from the real code
 * object, a launch runs it in the interpreter on the stream's thread. What the interpreter finds ends the process, as a memory fault of a GPU does.
 * Environment: CCL_EMU_SEED (of all schedules, else by time), CCL_EMU_DEBUG_DIR (where the unstripped code objects lie, else kernels/ beside this library),
 * CCL_EMU_COUNTS=1 (a table of what the kernels did, at the end of the process). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_gpu/fake.h"

#include "hip_module.h"

#define MAX_PROGRAMS 32
#define MAX_FUNCTIONS 64
#define REGISTERS 512 /* of a lane and SIMD, which hold at most 8 waves; a unit has 4 SIMDs */

struct fake_function {
    const struct emu_kernel *kernel;
    struct emu_kernel_info info;
    int device;
};

struct fake_module {
    struct emu_program *program;
    int device;
    size_t num_functions;
    struct fake_function functions[MAX_FUNCTIONS];
};

/* Loaded once for all devices; kept, since launches of any stream may still run. With the lock held. */
static struct {
    const void *image;
    struct emu_program *program;
} programs[MAX_PROGRAMS];
static int num_programs;

FAKE_EXPORT int ccl_emu_set_arch(const char *arch);

static void print_counts(void)
{
    emu_counts_print(stderr);
}

/* Called by the library before anything else. 0: well. */
int ccl_emu_set_arch(const char *arch)
{
    emu_set_regions(fake_find_region);
    ccl_fake_gpu.set("FAKE_GPU_ARCH", arch);
    if (strcmp(fake_setting("CCL_EMU_COUNTS", "0"), "0") != 0) {
        atexit(print_counts);
    }
    return 0;
}

void fake_memory_gone(void)
{
    emu_regions_changed();
}

uint64_t emu_hip_seed(void)
{
    static uint64_t made;
    const char *text = fake_setting("CCL_EMU_SEED", "");
    if (text[0] != '\0') {
        return strtoull(text, NULL, 0);
    }
    if (__atomic_load_n(&made, __ATOMIC_RELAXED) == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        __atomic_store_n(&made, ((uint64_t)now.tv_nsec << 20 ^ (uint64_t)getpid()) | 1, __ATOMIC_RELAXED);
    }
    return __atomic_load_n(&made, __ATOMIC_RELAXED);
}

/* With the lock held. */
static struct emu_program *load(const void *image, char *why)
{
    for (int i = 0; i < num_programs; i++) {
        if (programs[i].image == image) {
            return programs[i].program;
        }
    }
    size_t bytes = emu_image_bytes(image);
    struct emu_program *program = bytes != 0 ? emu_hip_load(image, bytes, fake_arch(), why) : NULL;
    if (program != NULL && num_programs < MAX_PROGRAMS) {
        programs[num_programs].image = image;
        programs[num_programs++].program = program;
    }
    return program;
}

int fake_module_load(void **module, const void *image)
{
    FAKE_SETUP(module_load);
    FAKE_CURRENT(device);
    char why[EMU_TEXT] = "neither an ELF file nor an offload bundle";
    struct fake_module *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return CCL_GPU_E_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&fake_lock);
    m->program = load(image, why);
    m->device = device;
    fake_live.modules += m->program != NULL;
    pthread_mutex_unlock(&fake_lock);
    if (m->program == NULL) {
        fprintf(stderr, "emu: a code object for %s cannot be loaded: %s\n", fake_arch(), why);
        free(m);
        return CCL_GPU_E_NO_BINARY;
    }
    *module = m;
    return 0;
}

int fake_module_function(void **function, void *module, const char *name)
{
    FAKE_ENTER(module_function);
    struct fake_module *m = module;
    const struct emu_kernel *kernel = emu_program_kernel(m->program, name);
    if (kernel == NULL || m->num_functions == MAX_FUNCTIONS) {
        return CCL_GPU_E_NOT_FOUND;
    }
    struct fake_function *f = &m->functions[m->num_functions++];
    *f = (struct fake_function){.kernel = kernel, .device = m->device};
    emu_kernel_info(kernel, &f->info);
    *function = f;
    return 0;
}

int fake_function_attribute(int *value, int attribute, void *function)
{
    FAKE_ENTER(function_attribute);
    const struct fake_function *f = function;
    *value = attribute == 0 ? (int)f->info.max_threads : attribute == CCL_GPU_FUNC_SHARED_STATIC ? (int)f->info.lds_bytes : 0;
    return attribute == 0 || attribute == CCL_GPU_FUNC_SHARED_STATIC ? 0 : CCL_GPU_E_INVALID_VALUE;
}

static uint32_t lds_of_unit(void)
{
    return strcmp(fake_arch(), "gfx950") == 0 ? 160u << 10 : 64u << 10;
}

int fake_occupancy(int *blocks, void *function, int threads, size_t shared_bytes)
{
    FAKE_ENTER(occupancy);
    const struct fake_function *f = function;
    if (f == NULL || threads < 1 || (uint32_t)threads > f->info.max_threads || shared_bytes > 64u << 10) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    uint32_t registers = (f->info.vgprs + f->info.agprs + 7) / 8 * 8, waves = ((uint32_t)threads + 63) / 64;
    uint32_t per_simd = registers <= REGISTERS / 8 ? 8 : REGISTERS / registers;
    uint32_t lds = f->info.lds_bytes + (uint32_t)shared_bytes, fit = per_simd * 4 / waves;
    *blocks = (int)(lds != 0 && lds_of_unit() / lds < fit ? lds_of_unit() / lds : fit);
    return 0;
}

int fake_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned tx, unsigned ty, unsigned tz,
                unsigned shared_bytes, void *stream_handle, void **params, void **extra)
{
    FAKE_ENTER(launch);
    const struct fake_function *f = function;
    int code = 0;
    if (gx < 1 || gy != 1 || gz != 1 || tx < 1 || tx > f->info.max_threads || ty != 1 || tz != 1 || extra != NULL || shared_bytes > 64u << 10) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(stream_handle, &code);
    bool same = stream != NULL && fake_stream_device(stream) == f->device && fake_current() == f->device;
    pthread_mutex_unlock(&fake_lock);
    if (!same) {
        return stream == NULL ? code : CCL_GPU_E_INVALID_HANDLE;
    }
    struct fake_op *op = fake_op_new(OP_KERNEL, f->info.explicit_bytes);
    op->function = f;
    op->grid = gx;
    op->threads = tx;
    op->shared_bytes = shared_bytes;
    memcpy(op->args, params[0], op->args_bytes); /* one argument, a struct by value */
    return fake_enqueue(stream_handle, op);
}

bool emu_hip_counts(const char *name, const struct emu_program *first, struct emu_counts *counts, uint64_t *launches)
{
    const struct emu_kernel *kernel = first != NULL ? emu_program_kernel(first, name) : NULL;
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < num_programs && kernel == NULL; i++) {
        kernel = emu_program_kernel(programs[i].program, name);
    }
    pthread_mutex_unlock(&fake_lock);
    if (kernel != NULL) {
        emu_counts_of(kernel, counts, launches);
    }
    return kernel != NULL && *launches != 0;
}

void fake_run_kernel(const struct fake_op *op)
{
    const struct fake_function *f = op->function;
    emu_hip_run(f->device, &(struct emu_launch){.kernel = f->kernel, .grid = op->grid, .threads = op->threads, .dynamic_lds = op->shared_bytes, .args = op->args});
}
