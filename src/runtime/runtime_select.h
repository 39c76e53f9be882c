/* SPDX-License-Identifier: MIT
 *
 * Selection of the backend, apart from the process-wide choice of ccl_runtime_get(), so that every value of CCL_BACKEND
 * can be tried in one process. */
#ifndef CCL_RUNTIME_SELECT_H
#define CCL_RUNTIME_SELECT_H

#include "runtime/runtime.h"

/* The table that a value of CCL_BACKEND names; not initialised. cclInvalidUsage: a backend that cannot run here. cclInvalidArgument: no backend has this name. Both name the value. */
cclResult_t ccl_runtime_select(const char *backend, const struct ccl_runtime_ops **ops);
/* NULL: the gpu backend can run here, i.e. a device answers and this build has code for it. Else why not. thorough: look for
 * GPU libraries even where the kernel shows no device. */
const char *ccl_gpu_unusable(bool thorough);
/* backend is "emu:ARCH": the table of the gpu backend under this name, over the interpreter of AMD code objects (tests/emu, libccl_emu.so). cclInvalidArgument:
 * no architecture that it knows. cclInvalidUsage: this build has no code object for it, or the library is not there. */
cclResult_t ccl_gpu_emulate(const char *backend, const struct ccl_runtime_ops **ops);
/* cclInternalError naming the first member that is not set. */
cclResult_t ccl_runtime_check(const struct ccl_runtime_ops *ops);

#endif
