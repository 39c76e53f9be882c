/* SPDX-License-Identifier: MIT
 *
 * What the host backend asks the operating system about the machine. */
#ifndef CCL_HOST_MACHINE_H
#define CCL_HOST_MACHINE_H

#include "util/base.h"

/* Cores that the calling thread may run on; at least 1. */
int ccl_host_machine_cores(void);
/* Model of the processor, for people; name is always terminated. */
void ccl_host_machine_cpu_name(char *name, size_t bytes);
/* Equal in all processes of a booted machine, containers included. */
uint64_t ccl_host_machine_uid(void);
/* Bytes of memory that can still be touched: the machine's, and those of the memory cgroups that this process is in.
 * UINT64_MAX: unknown. */
uint64_t ccl_host_machine_free_bytes(void);

#endif
