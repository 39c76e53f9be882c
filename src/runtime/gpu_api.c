/* SPDX-License-Identifier: MIT
 *
 * Finds the GPU runtime of this machine and fills the table of its calls. A library that was opened stays open: its threads may run on. */
#include "runtime/gpu_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/gpu_constants.h"
#include "util/log.h"

#define AMD_DEVICE "/dev/kfd" /* there whenever the kernel drives an AMD GPU */

struct ccl_gpu_api ccl_gpu;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static char load_why[256]; /* why there is none */

/* One row of the table, with its symbol in each library; NULL: the library does not have it. */
struct row {
    size_t at; /* offset of the pointer in the table */
    const char *hip, *cuda;
    bool optional;
};

static const struct row rows[] = {
#define CCL_GPU(field, hip, cuda, params) {offsetof(struct ccl_gpu_api, field), hip, cuda, false},
#define CCL_HIP(field, hip, params) {offsetof(struct ccl_gpu_api, field), hip, NULL, false},
#define CCL_CUDA(field, cuda, params) {offsetof(struct ccl_gpu_api, field), NULL, cuda, false},
#define CCL_GPU_OPT(field, hip, cuda, params) {offsetof(struct ccl_gpu_api, field), hip, cuda, true},
#define CCL_HIP_OPT(field, hip, params) {offsetof(struct ccl_gpu_api, field), hip, NULL, true},
#define CCL_CUDA_OPT(field, cuda, params) {offsetof(struct ccl_gpu_api, field), NULL, cuda, true},
#include "runtime/gpu_api.def"
};

static const char *const cuda_names[] = {"libcuda.so.1", NULL};
static const char *const hip_names[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", NULL};

static void set_pointer(struct ccl_gpu_api *api, size_t at, void *symbol)
{
    memcpy((char *)api + at, &symbol, sizeof(symbol));
}

/* NULL when all that must be there is. */
static const char *fill(struct ccl_gpu_api *api, void *library)
{
    bool amd = api->vendor == CCL_GPU_AMD;
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        const char *name = amd ? rows[i].hip : rows[i].cuda;
        void *symbol = name != NULL ? dlsym(library, name) : NULL;
        if (name != NULL && symbol == NULL && !rows[i].optional) {
            return name;
        }
        set_pointer(api, rows[i].at, symbol);
    }
    if (amd) {
        set_pointer(api, offsetof(struct ccl_gpu_api, hip_error_text), dlsym(library, "hipGetErrorString"));
        set_pointer(api, offsetof(struct ccl_gpu_api, hip_error_symbol), dlsym(library, "hipGetErrorName"));
        return api->hip_error_text == NULL     ? "hipGetErrorString"
               : api->hip_error_symbol == NULL ? "hipGetErrorName"
                                               : NULL;
    }
    return NULL;
}

/* NULL: this is the runtime from now on. Else the call that is not there, or the one that failed with *error. */
static const char *take(struct ccl_gpu_api *api, void *library, int *error)
{
    bool amd = api->vendor == CCL_GPU_AMD;
    int count = 0;
    const char *call = fill(api, library);
    *error = 0;
    if (call != NULL) {
        return call;
    }
    *error = api->init(0);
    if (*error != 0) {
        return amd ? "hipInit" : "cuInit";
    }
    *error = api->device_count(&count);
    if (*error != 0 || count < 1) {
        *error = *error != 0 ? *error : CCL_GPU_E_NO_DEVICE;
        return amd ? "hipGetDeviceCount" : "cuDeviceGetCount";
    }
    ccl_gpu = *api;
    return NULL;
}

/* True: the library of this vendor is here and has a device. Else why says what is missing. */
static bool try_vendor(enum ccl_gpu_vendor vendor, const char *const *names, char *why, size_t why_bytes)
{
    struct ccl_gpu_api api = {.vendor = vendor};
    void *library = NULL;
    for (; *names != NULL && library == NULL; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        api.library = *names;
    }
    if (library == NULL) {
        snprintf(why, why_bytes, "no %s", vendor == CCL_GPU_AMD ? "libamdhip64.so" : "libcuda.so.1");
        return false;
    }
    int error = 0;
    const char *call = take(&api, library, &error);
    if (call != NULL && error == 0) {
        snprintf(why, why_bytes, "%s lacks %s, it is too old", api.library, call);
    } else if (call != NULL) {
        snprintf(why, why_bytes, "%s reports no device (%s: error %d)", api.library, call, error);
    }
    return call == NULL;
}

const char *ccl_gpu_api_adopt(void *library, const char *name, int *error)
{
    struct ccl_gpu_api api = {.vendor = CCL_GPU_AMD, .library = name, .emulator = library};
    pthread_mutex_lock(&load_lock);
    const char *call = take(&api, library, error);
    pthread_mutex_unlock(&load_lock);
    return call;
}

const char *ccl_gpu_api_try(bool thorough)
{
    static char cuda[112], hip[112];
    static bool cuda_done, hip_done;
    pthread_mutex_lock(&load_lock);
    bool found = ccl_gpu.vendor != CCL_GPU_NONE;
    if (!found && !cuda_done) {
        found = try_vendor(CCL_GPU_NVIDIA, cuda_names, cuda, sizeof(cuda));
        cuda_done = true;
    }
    if (!found && !hip_done) {
        hip_done = thorough || access(AMD_DEVICE, F_OK) == 0;
        if (hip_done) {
            found = try_vendor(CCL_GPU_AMD, hip_names, hip, sizeof(hip));
        } else {
            snprintf(hip, sizeof(hip), "no " AMD_DEVICE);
        }
    }
    if (!found) {
        snprintf(load_why, sizeof(load_why), "%s; %s", cuda, hip);
    }
    pthread_mutex_unlock(&load_lock);
    return found ? NULL : load_why;
}

cclResult_t ccl_gpu_before_hip6(bool *before)
{
    int version = 0;
    *before = false;
    if (ccl_gpu.vendor == CCL_GPU_AMD) {
        CCL_GPU_TRY(driver_version, &version);
        *before = version < CCL_HIP_VERSION_6;
    }
    return cclSuccess;
}

cclResult_t ccl_gpu_api_load(void)
{
    const char *why = ccl_gpu_api_try(true);
    CCL_CHECK(why == NULL, cclSystemError, CCL_RT, "no GPU runtime: %s", why);
    return cclSuccess;
}

cclResult_t ccl_gpu_failed(int error, const char *call)
{
    const char *symbol = NULL, *text = NULL, *name = call;
    bool amd = ccl_gpu.vendor == CCL_GPU_AMD;
    if (amd) {
        symbol = ccl_gpu.hip_error_symbol(error);
        text = ccl_gpu.hip_error_text(error);
    } else if (ccl_gpu.error_symbol != NULL) {
        ccl_gpu.error_symbol(error, &symbol);
        ccl_gpu.error_text(error, &text);
    }
    /* Rows have short names of ours; people know the vendors'. */
#define CCL_GPU(field, hip, cuda, params) name = strcmp(call, #field) == 0 ? (amd ? hip : cuda) : name;
#define CCL_HIP(field, hip, params) name = strcmp(call, #field) == 0 ? hip : name;
#define CCL_CUDA(field, cuda, params) name = strcmp(call, #field) == 0 ? cuda : name;
#include "runtime/gpu_api.def"
    return ccl_error_set(error == CCL_GPU_E_OUT_OF_MEMORY ? cclSystemError : cclUnhandledDeviceError, CCL_RT, "%s failed: error %d, %s, %s", name, error,
                         symbol != NULL ? symbol : "unknown symbol", text != NULL ? text : "no text");
}
