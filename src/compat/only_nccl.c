/* SPDX-License-Identifier: MIT
 *
 * What makes the shim libnccl.so.2: the version that PyTorch 2.11 is built for. Clients switch features on by this number, so it may not be above
 * what docs/compat.md says is there. */
#include "compat.h"

const int ccl_compat_version = 22809;
const char *const ccl_compat_name = "libnccl.so.2";
