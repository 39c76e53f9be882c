/* SPDX-License-Identifier: MIT
 *
 * Modules and kernels of the fake runtime. The image must be one for this architecture and contain the kernel's name; what runs is the kernel
 * of that name from kernels/host.c, compiled into this library. */
#include "fake.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "bundle.h"
#include "host.h"

#define FAKE_KERNELS CCL_FIRST_MATMUL_KERNEL /* no matrix cores: products are refused by name */

struct fake_function {
    const char *name;
    int kernel, device;
};

struct fake_module {
    const unsigned char *image;
    int device;
    struct fake_function functions[FAKE_KERNELS];
};

static const char *const kernel_names[FAKE_KERNELS] = {
#define CCL_K(name, args) "ccl_k_" #name,
    CCL_KERNEL_LIST(CCL_K)
    CCL_CUDA_KERNEL_LIST(CCL_K)
#undef CCL_K
};
static const uint32_t kernel_bytes[FAKE_KERNELS] = {
#define CCL_K(name, args) sizeof(args),
    CCL_KERNEL_LIST(CCL_K)
    CCL_CUDA_KERNEL_LIST(CCL_K)
#undef CCL_K
};

/* ll_words_W as the kernel ll_W, sum_words_W as parts_ll, from its arguments alone and what stands in device memory. */
static void widen(const struct ccl_k_words_args *w, struct ccl_k_coll_args *a)
{
    memcpy(a, (const void *)w->full, sizeof(*a));
    if (a->rank != w->rank || a->priv != w->priv || a->lay.adv != w->adv || a->lay.ll != w->ll || a->peer[(w->rank + 1) % a->n].ctl != w->peer[1]) {
        fprintf(stderr, "FAILED: the arguments of the kernel for words of %u ranks of rank %u differ from those in device memory\n", a->n, w->rank);
        abort();
    }
    a->src = w->src;
    a->dst = w->dst;
    a->rows = a->desc.rows = w->rows;
    a->part_bytes = a->dst_part = w->part_bytes;
    a->row_bytes = a->ld_src = a->ld_dst = w->part_bytes / w->rows;
    a->sig = w->sig;
    a->flags = CCL_F_FLAT_SRC | CCL_F_FLAT_DST | CCL_F_FENCE | CCL_F_YIELD;
    a->desc.word1 = w->word1;
    a->desc.variant = w->variant;
    a->desc.tile_m = w->tile_m;
    a->desc.tile_n = w->tile_n;
    a->desc.count = a->desc.ld = w->count;
}

static void widen_sum(const struct ccl_k_words_args *w, struct ccl_k_parts_args *p)
{
    widen(w, &p->c);
    p->type = w->word1 >> 6 & 31;
    p->esize = p->type == CCL_SUM_F32 ? 4 : 2;
    p->redop = w->word1 >> 11 & 31;
    p->parts = CCL_PARTS_REDUCE;
    for (uint32_t r = 0; r < p->c.n; r++) {
        p->pair[r] = (struct ccl_k_pair){0, w->part_bytes, 0, w->part_bytes};
    }
}

#ifdef FAKE_CUDA

/* A fatbin: magic, version, size of the header, size of what follows. */
static size_t image_bytes(const unsigned char *image)
{
    uint64_t body;
    uint16_t header;
    memcpy(&header, image + 6, sizeof(header));
    memcpy(&body, image + 8, sizeof(body));
    return header + (size_t)body;
}

static int find_image(const unsigned char **found)
{
    const unsigned char *image = *found;
    static const unsigned char magic[4] = {0x50, 0xed, 0x55, 0xba};
    if (memcmp(image, magic, sizeof(magic)) != 0) {
        return CCL_GPU_E_INVALID_IMAGE;
    }
    return atoi(fake_arch() + 3) >= 80 ? 0 : CCL_GPU_E_NO_BINARY;
}

static bool image_has(const unsigned char *image, const char *name)
{
    return memmem(image, image_bytes(image), name, strlen(name) + 1) != NULL;
}

#else

static const struct {
    const char *arch;
    unsigned mach;
} machines[] = {{"gfx90a", 0x3f}, {"gfx942", 0x4c}, {"gfx950", 0x4f}, {"gfx1100", 0x41}, {"gfx1201", 0x4e}, {"gfx1250", 0x49}};

/* The code object for this device: the image itself, or the one in an offload bundle. */
static int find_image(const unsigned char **found)
{
    const unsigned char *image = *found;
    struct bundle_entry entry;
    const char *why;
    if (is_bundle(image, BUNDLE_ANY_SIZE)) {
        if (!bundle_find(image, BUNDLE_ANY_SIZE, fake_arch(), &entry, &why)) {
            return CCL_GPU_E_NO_BINARY;
        }
        image += entry.offset;
    }
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)image;
    *found = image;
    if (memcmp(image, ELFMAG, SELFMAG) != 0 || elf->e_machine != 224 /* EM_AMDGPU */) {
        return CCL_GPU_E_INVALID_IMAGE;
    }
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        size_t length = strcspn(fake_arch(), ":");
        if (strlen(machines[i].arch) == length && strncmp(machines[i].arch, fake_arch(), length) == 0) {
            return (elf->e_flags & 0xff) == machines[i].mach ? 0 : CCL_GPU_E_NO_BINARY;
        }
    }
    return CCL_GPU_E_NO_BINARY;
}

/* A kernel is the descriptor NAME.kd in the dynamic symbols. */
static bool image_has(const unsigned char *image, const char *name)
{
    char descriptor[96];
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + elf->e_shoff);
    snprintf(descriptor, sizeof(descriptor), "%s.kd", name);
    for (unsigned s = 0; s < elf->e_shnum; s++) {
        if (sections[s].sh_type != SHT_DYNSYM) {
            continue;
        }
        const Elf64_Sym *symbols = (const Elf64_Sym *)(image + sections[s].sh_offset);
        const char *strings = (const char *)image + sections[sections[s].sh_link].sh_offset;
        for (size_t i = 0; i < sections[s].sh_size / sizeof(*symbols); i++) {
            if (strcmp(strings + symbols[i].st_name, descriptor) == 0) {
                return true;
            }
        }
    }
    return false;
}

#endif

int fake_module_load(void **module, const void *image)
{
    FAKE_SETUP(module_load);
    FAKE_CURRENT(device);
    const unsigned char *found = image;
    int code = find_image(&found);
    struct fake_module *m = code == 0 ? calloc(1, sizeof(*m)) : NULL;
    if (m == NULL) {
        return code != 0 ? code : CCL_GPU_E_OUT_OF_MEMORY;
    }
    m->image = found;
    m->device = device;
    pthread_mutex_lock(&fake_lock);
    fake_live.modules++;
    pthread_mutex_unlock(&fake_lock);
    *module = m;
    return 0;
}

int fake_module_function(void **function, void *module, const char *name)
{
    FAKE_ENTER(module_function);
    struct fake_module *m = module;
    for (int k = 0; k < FAKE_KERNELS; k++) {
        if (strcmp(kernel_names[k], name) == 0 && image_has(m->image, name)) {
            m->functions[k] = (struct fake_function){kernel_names[k], k, m->device};
            *function = &m->functions[k];
            return 0;
        }
    }
    return CCL_GPU_E_NOT_FOUND;
}

/* Of a block, as kernels/kernel.h bounds them; LL has a helper warp beside its data. */
static int most_threads(const struct fake_function *f)
{
#ifdef FAKE_CUDA
    if (f->kernel == CCL_KERNEL_reduce) {
        return CCL_REDUCE_THREADS;
    }
#endif
    if (f->kernel > CCL_KERNEL_sum_words_2 + CCL_LL_FEW - 2) {
        return CCL_SUM_FEW_THREADS + 32;
    }
    return strstr(f->name, "ll_") != NULL || f->kernel == CCL_KERNEL_parts_ll || f->kernel >= CCL_KERNEL_sum_words_2 ? 544 : 512;
}

int fake_function_attribute(int *value, int attribute, void *function)
{
    FAKE_ENTER(function_attribute);
    *value = attribute == 0 ? most_threads(function) : attribute == 1 ? 256 : 0; /* threads of a block, static shared memory */
    return attribute <= 9 ? 0 : CCL_GPU_E_INVALID_VALUE;
}

#ifdef FAKE_CUDA
int fake_function_set_attribute(void *function, int attribute, int value)
{
    FAKE_ENTER(function_set_attribute);
    (void)function;
    return attribute == CCL_CUDA_FUNC_MAX_SHARED && value <= (227 << 10) ? 0 : CCL_GPU_E_INVALID_VALUE;
}

int fake_function_load(void *function)
{
    FAKE_SETUP(function_load);
    return function != NULL ? 0 : CCL_GPU_E_INVALID_HANDLE;
}

/* The fake has no kernels that load by such maps: what is asked for stands in it, for tests. */
int fake_tensor_map(void *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                    int interleave, int swizzle, int promotion, int fill)
{
    const uint64_t words[8] = {(uint64_t)(uintptr_t)address, dims[0], dims[1], strides[0], box[0], box[1], (uint64_t)type, rank};
    FAKE_ENTER(tensor_map);
    FAKE_CURRENT(device);
    (void)device, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    if ((uintptr_t)address % 16 != 0 || strides[0] % 16 != 0 || box[1] > 256 || steps[0] != 1 || steps[1] != 1 || dims[0] == 0 || dims[1] == 0) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    memset(map, 0, CCL_TENSOR_MAP_BYTES);
    memcpy(map, words, sizeof(words));
    return 0;
}
#endif

int fake_occupancy(int *blocks, void *function, int threads, size_t shared_bytes)
{
    FAKE_ENTER(occupancy);
    if (function == NULL || threads < 1 || threads > most_threads(function) || shared_bytes > (227u << 10)) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    *blocks = 2048 / threads;
    return 0;
}

void fake_run_kernel(const struct fake_op *op)
{
    ccl_host_kernel_fn function;
    memcpy(&function, &op->function, sizeof(function));
    for (uint32_t i = 0; i < op->grid; i++) {
        struct ccl_host_block block = {.index = i, .grid = op->grid};
        function(op->args, &block);
    }
}

void fake_memory_gone(void) {}

int fake_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned tx, unsigned ty, unsigned tz,
                unsigned shared_bytes, void *stream_handle, void **params, void **extra)
{
    FAKE_ENTER(launch);
    const struct fake_function *f = function;
    int code = 0;
    if (gx < 1 || gy != 1 || gz != 1 || tx < 1 || (int)tx > most_threads(f) || ty != 1 || tz != 1 || extra != NULL ||
        shared_bytes > (227u << 10)) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(stream_handle, &code);
    bool same = stream != NULL && fake_stream_device(stream) == f->device && fake_current() == f->device;
    pthread_mutex_unlock(&fake_lock);
    if (!same) {
        return stream == NULL ? code : CCL_GPU_E_INVALID_HANDLE; /* loaded for another device than the stream's or the current one */
    }
    const bool words = f->kernel >= CCL_NUM_COMMON_KERNELS;
    const bool sums = f->kernel >= CCL_KERNEL_sum_words_2;
    const int kernel = sums ? CCL_KERNEL_parts_ll : words ? CCL_KERNEL_ll_2 + f->kernel - CCL_KERNEL_ll_words_2 : f->kernel;
    struct fake_op *op = fake_op_new(OP_KERNEL, kernel_bytes[kernel]);
    ccl_host_kernel_fn run = ccl_host_kernels[kernel];
    memcpy(&op->function, &run, sizeof(run));
    op->grid = gx;
    if (words) {
        memset(op->args, 0, op->args_bytes);
        if (sums) {
            widen_sum(params[0], (struct ccl_k_parts_args *)op->args);
        } else {
            widen(params[0], (struct ccl_k_coll_args *)op->args);
        }
        ((struct ccl_k_coll_args *)op->args)->desc.blocks = gx;
    } else {
        memcpy(op->args, params[0], op->args_bytes);
    }
    return fake_enqueue(stream_handle, op);
}
