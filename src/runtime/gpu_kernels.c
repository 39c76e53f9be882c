/* SPDX-License-Identifier: MIT
 *
 * The kernels of a device: which embedded images fit, loading them, looking their functions up, launching. Everything is loaded when the device is
 * opened, since loading later would wait for kernels that wait for this one. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/code_objects.h"
#include "runtime/gpu_internal.h"

#define MAX_MODULES 32
#define PLAN_THREADS 512

static const char *const kernel_names[CCL_NUM_KERNELS] = {
#define CCL_K(name, args) "ccl_k_" #name,
    CCL_KERNEL_LIST(CCL_K)
    CCL_CUDA_KERNEL_LIST(CCL_K)
    CCL_MATMUL_KERNEL_LIST(CCL_K)
#undef CCL_K
};

static pthread_mutex_t traced_lock = PTHREAD_MUTEX_INITIALIZER;
static bool traced_ready[CCL_GPU_MAX_DEVICES]; /* stored with release */

/* ---- which images fit ---- */

/* One word of a fatbin's arch text: machine code runs on its own major version from its minor version on ("sm_90a": on that one only), PTX
 * ("compute_80") on all later ones. */
static bool cuda_part_fits(const char *part, int device)
{
    char *end;
    bool ptx = strncmp(part, "compute_", 8) == 0;
    if (!ptx && strncmp(part, "sm_", 3) != 0) {
        return false;
    }
    int number = (int)strtol(part + (ptx ? 8 : 3), &end, 10);
    if (*end != '\0' && *end != ' ') {
        return !ptx && *end == 'a' && number == device;
    }
    return number <= device && (ptx || number / 10 == device / 10);
}

/* One word of an AMD arch text: our code objects leave xnack and sramecc open, so they run with any setting of the device. */
static bool amd_part_fits(const char *part, const char *arch)
{
    size_t length = strcspn(part, " ");
    return strlen(arch) == length && strncmp(part, arch, length) == 0;
}

static bool fits(const struct ccl_code_object *o, enum ccl_gpu_vendor vendor, const char *arch)
{
    bool cuda = o->kind == CCL_CODE_CUDA_FATBIN;
    if (cuda != (vendor == CCL_GPU_NVIDIA) || (cuda && strncmp(arch, "sm_", 3) != 0)) {
        return false;
    }
    for (const char *part = o->arch; part != NULL; part = strchr(part, ' ')) {
        part += *part == ' ';
        if (cuda ? cuda_part_fits(part, atoi(arch + 3)) : amd_part_fits(part, arch)) {
            return true;
        }
    }
    return false;
}

bool ccl_gpu_has_code(enum ccl_gpu_vendor vendor, const char *arch)
{
    for (const struct ccl_code_object *o = ccl_code_objects; o->arch != NULL; o++) {
        if (fits(o, vendor, arch)) {
            return true;
        }
    }
    return false;
}

static bool is_traced(const struct ccl_code_object *o)
{
    size_t length = strlen(o->file);
    return length >= 7 && strcmp(o->file + length - 7, "_traced") == 0;
}

void ccl_gpu_list_code(char *text, size_t bytes)
{
    size_t used = 0;
    snprintf(text, bytes, "none");
    for (const struct ccl_code_object *o = ccl_code_objects; o->arch != NULL; o++) {
        bool seen = is_traced(o); /* the same or fewer */
        for (const struct ccl_code_object *before = ccl_code_objects; before != o; before++) {
            seen = seen || strcmp(before->arch, o->arch) == 0;
        }
        if (!seen) {
            int n = snprintf(text + used, bytes - used, "%s%s", used > 0 ? " " : "", o->arch);
            used = n > 0 && used + (size_t)n < bytes ? used + (size_t)n : used;
        }
    }
}

/* ---- loading ---- */

static cclResult_t no_code(const char *arch)
{
    char archs[256];
    ccl_gpu_list_code(archs, sizeof(archs));
    return ccl_error_set(cclInvalidUsage, CCL_RT, "no code object for %s in this build of libccl, which has: %s", arch, archs);
}

static cclResult_t load_module(const struct ccl_code_object *o, const char *arch, void **module)
{
    int error = ccl_gpu.module_load(module, o->begin), version = 0;
    if (error == CCL_GPU_E_NO_BINARY) {
        return no_code(arch);
    }
    if (error == CCL_GPU_E_INVALID_KERNEL || error == CCL_CUDA_E_UNSUPPORTED_PTX || error == CCL_GPU_E_INVALID_IMAGE) {
        ccl_gpu.driver_version(&version);
        ccl_gpu_failed(error, "module_load");
        return ccl_error_set(cclInvalidUsage, CCL_RT,
                             "driver version %d is too old for the code object %s of %s, error %d", version, o->file, arch, error);
    }
    return error == 0 ? cclSuccess : ccl_gpu_failed(error, "module_load");
}

static cclResult_t prepare(const struct ccl_gpu_device *d, void *handle, struct ccl_gpu_function *f)
{
    int fixed = 0, most = 0;
    bool cuda = ccl_gpu.vendor == CCL_GPU_NVIDIA;
    if (ccl_gpu.function_load != NULL) {
        CCL_GPU_TRY(function_load, handle);
    }
    CCL_GPU_TRY(function_attribute, &fixed, CCL_GPU_FUNC_SHARED_STATIC, handle);
    CCL_GPU_TRY(device_attribute, &most, cuda ? CCL_CUDA_ATTR_SHARED_BYTES : CCL_HIP_ATTR_SHARED_BYTES, d->handle);
    if (cuda) {
        CCL_GPU_TRY(function_set_attribute, handle, CCL_CUDA_FUNC_MAX_SHARED, most - fixed);
    }
    f->handle = handle;
    f->max_shared = (uint32_t)(most - fixed);
    return cclSuccess;
}

static cclResult_t find_functions(const struct ccl_gpu_device *d, void *const *modules, int count,
                                  struct ccl_gpu_function *functions)
{
    for (int k = 0; k < CCL_NUM_KERNELS; k++) {
        void *handle = NULL;
        for (int m = 0; m < count && handle == NULL; m++) {
            int error = ccl_gpu.module_function(&handle, modules[m], kernel_names[k]);
            if (error != 0 && error != CCL_GPU_E_NOT_FOUND) {
                return ccl_gpu_failed(error, "module_function");
            }
            handle = error == 0 ? handle : NULL;
        }
        CCL_CHECK(handle != NULL || k >= CCL_NUM_COMMON_KERNELS, cclInternalError, CCL_RT, "no code object of %s contains %s",
                  d->props.arch, kernel_names[k]);
        if (handle != NULL) {
            CCL_TRY(prepare(d, handle, &functions[k]));
        }
    }
    return cclSuccess;
}

static cclResult_t load_set(const struct ccl_gpu_device *d, bool traced, struct ccl_gpu_function *functions)
{
    void *modules[MAX_MODULES];
    int count = 0;
    for (const struct ccl_code_object *o = ccl_code_objects; o->arch != NULL; o++) {
        if (fits(o, ccl_gpu.vendor, d->props.arch) && is_traced(o) == traced && count < MAX_MODULES) {
            CCL_TRY(load_module(o, d->props.arch, &modules[count]));
            count++;
        }
    }
    CCL_CHECK(count > 0 || !traced, cclInvalidUsage, CCL_RT,
              "tracing: this build of libccl has no traced kernels for %s", d->props.arch);
    return count > 0 ? find_functions(d, modules, count, functions) : no_code(d->props.arch);
}

/* Dynamic shared memory that a block of a kernel may be launched with, where its grid is as large as it gets (src/coll/parts.c; push by bulk copies takes fewer blocks). */
static uint32_t dynamic_shared(const struct ccl_gpu_device *d, int kernel)
{
    return !d->props.bulk_copy ? 0 : kernel == CCL_KERNEL_reduce ? CCL_REDUCE_BULK_SHARED : kernel == CCL_KERNEL_parts ? CCL_PARTS_BULK_SHARED : 0;
}

/* Blocks of a kernel that the device runs at once: the least over all kernels that wait for blocks of peers and take as many as they get. */
static cclResult_t capacity(const struct ccl_gpu_device *d, int *blocks)
{
    int least = 0;
    for (int k = CCL_KERNEL_push_2; k <= CCL_KERNEL_p2p; k++) {
        int n = 0;
        const int threads = k == CCL_KERNEL_reduce && ccl_gpu.vendor != CCL_GPU_AMD ? CCL_REDUCE_THREADS : PLAN_THREADS;
        CCL_GPU_TRY(occupancy, &n, d->kernels[k].handle, threads, dynamic_shared(d, k));
        least = k == CCL_KERNEL_push_2 || n < least ? n : least;
    }
    CCL_CHECK(least > 0, cclInternalError, CCL_RT, "%s cannot run a block of %d threads of every kernel", d->props.name,
              PLAN_THREADS);
    *blocks = least * d->props.units;
    return cclSuccess;
}

/* Fused matrix products run on this core: its kernels first .. last are all there, and so many blocks of any of them run at once. */
static cclResult_t try_matrix_core(struct ccl_gpu_device *d, enum ccl_matrix_core core, int first, int last)
{
    static const struct {
        int threads;
        uint32_t shared;
    } cores[CCL_NUM_MATRIX_CORES] = {
#define CCL_M(name, m, n, threads, shared, block, places, pitch) [CCL_MATRIX_CORE_##name] = {threads, shared},
        CCL_MATRIX_CORE_LIST(CCL_M)
#undef CCL_M
    };
    int least = INT_MAX;
    for (int k = first; k <= last; k++) {
        int n = 0;
        if (d->kernels[k].handle == NULL || d->kernels[k].max_shared < cores[core].shared) {
            return cclSuccess;
        }
        CCL_GPU_TRY(occupancy, &n, d->kernels[k].handle, cores[core].threads, cores[core].shared);
        least = n < least ? n : least;
    }
    if (least > 0) {
        d->props.matrix_core = core;
        d->props.matrix_blocks = least * d->props.units;
    }
    return cclSuccess;
}

static cclResult_t find_matrix_core(struct ccl_gpu_device *d)
{
    if (ccl_gpu.vendor == CCL_GPU_AMD) {
        return try_matrix_core(d, CCL_MATRIX_CORE_cdna, CCL_FIRST_MATMUL_KERNEL, CCL_KERNEL_matmul_mma - 1);
    }
    CCL_TRY(try_matrix_core(d, CCL_MATRIX_CORE_mma, CCL_KERNEL_matmul_mma, CCL_KERNEL_matmul_mma));
    return ccl_gpu.tensor_map == NULL ? cclSuccess : try_matrix_core(d, CCL_MATRIX_CORE_wgmma, CCL_KERNEL_matmul_wgmma, CCL_KERNEL_matmul_wgmma_pairs);
}

cclResult_t ccl_gpu_load_kernels(struct ccl_gpu_device *d)
{
    CCL_TRY(load_set(d, false, d->kernels));
    CCL_TRY(find_matrix_core(d));
    d->props.ll_words = true;
    for (int k = CCL_KERNEL_ll_words_2; k <= CCL_KERNEL_ll_words_8; k++) {
        d->props.ll_words = d->props.ll_words && d->kernels[k].handle != NULL;
    }
    return capacity(d, &d->props.max_blocks);
}

static cclResult_t load_traced(int device, struct ccl_gpu_function *functions)
{
    const struct ccl_gpu_device *d;
    struct ccl_gpu_guard guard;
    CCL_TRY(ccl_gpu_device(device, &d));
    CCL_TRY(ccl_gpu_enter_setup_on(device, &guard));
    cclResult_t rc = load_set(d, true, functions);
    ccl_gpu_leave(&guard);
    return rc;
}

static struct ccl_gpu_function traced_functions[CCL_GPU_MAX_DEVICES][CCL_NUM_KERNELS];

cclResult_t ccl_gpu_find_kernel(int device, enum ccl_kernel kernel, bool traced, struct ccl_gpu_function *out)
{
    const struct ccl_gpu_device *d;
    CCL_CHECK((unsigned)kernel < CCL_NUM_KERNELS, cclInvalidArgument, CCL_RT, "kernel %d of %d", (int)kernel,
              CCL_NUM_KERNELS);
    CCL_TRY(ccl_gpu_device(device, &d));
    if (CCL_LIKELY(!traced)) {
        *out = d->kernels[kernel];
        return cclSuccess;
    }
    if (!__atomic_load_n(&traced_ready[device], __ATOMIC_ACQUIRE)) {
        cclResult_t rc = cclSuccess;
        pthread_mutex_lock(&traced_lock);
        if (!traced_ready[device]) {
            rc = load_traced(device, traced_functions[device]);
            __atomic_store_n(&traced_ready[device], rc == cclSuccess, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&traced_lock);
        CCL_TRY(rc);
    }
    *out = traced_functions[device][kernel];
    return cclSuccess;
}

/* ---- use ---- */

cclResult_t ccl_gpu_launch(struct cclStream *stream, const struct ccl_launch *l)
{
    struct ccl_gpu_function f;
    struct ccl_gpu_guard guard;
    CCL_CHECK(l->grid > 0 && l->threads > 0, cclInvalidArgument, CCL_RT, "launch of %u blocks of %u threads", l->grid,
              l->threads);
    CCL_TRY(ccl_gpu_find_kernel(l->device, l->kernel, l->traced, &f));
    CCL_CHECK(l->shared_bytes <= f.max_shared, cclInvalidArgument, CCL_RT,
              "launch of %s with %u bytes of shared memory, at most %u are left", kernel_names[l->kernel], l->shared_bytes,
              f.max_shared);
    void *params[1];
    memcpy(&params[0], &l->args, sizeof(params[0])); /* the call takes no pointers to const, and changes nothing */
    CCL_TRY(ccl_gpu_enter(l->device, &guard));
    int error = ccl_gpu.launch(f.handle, l->grid, 1, 1, l->threads, 1, 1, l->shared_bytes, stream, params, NULL);
    ccl_gpu_leave(&guard);
    return CCL_LIKELY(error == 0) ? cclSuccess : ccl_gpu_failed(error, "launch");
}

cclResult_t ccl_gpu_max_resident(enum ccl_kernel kernel, uint32_t threads, uint32_t shared_bytes, int *blocks)
{
    const struct ccl_gpu_device *d;
    struct ccl_gpu_function f;
    struct ccl_gpu_guard guard;
    int device, n = 0;
    CCL_CHECK(threads > 0 && threads <= 1024, cclInvalidArgument, CCL_RT, "%u threads a block, not 1 to 1024", threads);
    CCL_TRY(ccl_gpu_device_get(&device));
    CCL_TRY(ccl_gpu_find_kernel(device, kernel, false, &f));
    CCL_TRY(ccl_gpu_device(device, &d));
    CCL_TRY(ccl_gpu_enter(device, &guard));
    int error = ccl_gpu.occupancy(&n, f.handle, (int)threads, shared_bytes);
    ccl_gpu_leave(&guard);
    if (error != 0) {
        return ccl_gpu_failed(error, "occupancy");
    }
    *blocks = n * d->props.units;
    return cclSuccess;
}
