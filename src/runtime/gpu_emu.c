/* SPDX-License-Identifier: MIT
 *
 * CCL_BACKEND=emu:ARCH: the gpu backend over libccl_emu.so, a HIP runtime whose kernels are the embedded AMD code objects, interpreted on the CPU. It is
 * for tests: the library is not installed. No GPU and no runtime of a vendor is looked for then. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime/gpu_api.h"
#include "runtime/gpu_internal.h"
#include "runtime/runtime_select.h"
#include "util/log.h"

#define LIBRARY "libccl_emu.so"

/* The folder of the file that this code was loaded from, with the / at its end; empty: unknown. */
static void own_folder(char *folder, size_t bytes)
{
    Dl_info info;
    const char *file = dladdr(&ccl_gpu, &info) != 0 ? info.dli_fname : NULL, *slash = file != NULL ? strrchr(file, '/') : NULL;
    snprintf(folder, bytes, "%.*s", slash != NULL ? (int)(slash + 1 - file) : 0, file != NULL ? file : "");
}

static cclResult_t open_library(const char *backend, void **library)
{
    char path[1024];
    *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (*library != NULL) {
        return cclSuccess;
    }
    own_folder(path, sizeof(path) - sizeof(LIBRARY));
    strcat(path, LIBRARY);
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CCL_CHECK(*library != NULL, cclInvalidUsage, CCL_RT, "CCL_BACKEND is %s, but there is no " LIBRARY " in the library path nor as %s: %s", backend, path,
              dlerror());
    return cclSuccess;
}

cclResult_t ccl_gpu_emulate(const char *backend, const struct ccl_runtime_ops **ops)
{
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx950"};
    static struct ccl_runtime_ops emulated; /* of the first architecture asked for, the only one of the process */
    static char name[16];
    const char *arch = strchr(backend, ':') + 1, *call = NULL;
    bool known = false;
    void *library = NULL;
    int error = 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(archs); i++) {
        known = known || strcmp(arch, archs[i]) == 0;
    }
    CCL_CHECK(known, cclInvalidArgument, CCL_RT, "CCL_BACKEND is %s, but the interpreter knows gfx90a, gfx942 and gfx950 only", backend);
    CCL_CHECK(ccl_gpu_has_code(CCL_GPU_AMD, arch), cclInvalidUsage, CCL_RT, "CCL_BACKEND is %s, but this build of libccl has no code object for %s", backend,
              arch);
    if (ccl_gpu.vendor == CCL_GPU_NONE) {
        CCL_TRY(open_library(backend, &library));
        int (*set_arch)(const char *arch);
        void *symbol = dlsym(library, "ccl_emu_set_arch");
        memcpy(&set_arch, &symbol, sizeof(set_arch));
        CCL_CHECK(symbol != NULL && set_arch(arch) == 0, cclInvalidUsage, CCL_RT, "CCL_BACKEND is %s, but " LIBRARY " is not of this build", backend);
        call = ccl_gpu_api_adopt(library, LIBRARY, &error);
        CCL_CHECK(call == NULL, cclInvalidUsage, CCL_RT, "CCL_BACKEND is %s, but %s of " LIBRARY " %s (%d)", backend, call,
                  error != 0 ? "fails" : "is not there", error);
        emulated = ccl_runtime_gpu;
        snprintf(name, sizeof(name), "%s", backend);
        emulated.name = name;
    }
    CCL_CHECK(strcmp(name, backend) == 0, cclInvalidUsage, CCL_RT, "CCL_BACKEND is %s, but %s is in use in this process", backend,
              name[0] != '\0' ? name : ccl_gpu.library);
    CCL_TRY(ccl_runtime_check(&emulated));
    *ops = &emulated;
    return cclSuccess;
}
