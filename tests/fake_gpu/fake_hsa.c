/* SPDX-License-Identifier: MIT
 *
 * A libhsa-runtime64.so.1 for tests, or with FAKE_EMU its calls in libccl_emu.so: agents with the names and PCI addresses of the fake HIP's devices, and the export of its memory, which
 * is a memfd and not a DMA-BUF. FAKE_HSA_FAIL=CALL:CODE makes one call fail. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef FAKE_EMU
#include "fake.h"
#endif

#define EXPORT __attribute__((visibility("default")))
#define NOT_INITIALIZED 0x100b
#define INVALID_ARGUMENT 0x1001
#define CPU_AGENT 1000

typedef struct {
    uint64_t handle;
} agent_t;

EXPORT int hsa_init(void);
EXPORT int hsa_shut_down(void);
EXPORT int hsa_iterate_agents(int (*callback)(agent_t agent, void *data), void *data);
EXPORT int hsa_agent_get_info(agent_t agent, int attribute, void *value);
EXPORT int hsa_amd_portable_export_dmabuf(const void *ptr, size_t bytes, int *fd, uint64_t *offset);
EXPORT int hsa_amd_portable_close_dmabuf(int fd);

static int users;

static const char *setting(const char *name, const char *otherwise)
{
#ifdef FAKE_EMU
    return fake_setting(name, otherwise);
#else
    return getenv(name) != NULL ? getenv(name) : otherwise;
#endif
}

static int planned(const char *call)
{
    char name[64];
    int code;
    return sscanf(setting("FAKE_HSA_FAIL", ""), "%63[^:]:%i", name, &code) == 2 && strcmp(name, call) == 0 ? code : 0;
}

int hsa_init(void)
{
    users++;
    return planned("hsa_init");
}

int hsa_shut_down(void)
{
    return users-- > 0 ? 0 : NOT_INITIALIZED;
}

int hsa_iterate_agents(int (*callback)(agent_t agent, void *data), void *data)
{
    int rc = users == 0 ? NOT_INITIALIZED : planned("hsa_iterate_agents");
    rc = rc == 0 ? callback((agent_t){CPU_AGENT}, data) : rc;
    for (int i = 0; i < atoi(setting("FAKE_GPU_DEVICES", "1")) && rc == 0; i++) {
        rc = callback((agent_t){(uint64_t)i}, data);
    }
    return rc;
}

int hsa_agent_get_info(agent_t agent, int attribute, void *value)
{
    int rc = planned("hsa_agent_get_info");
    bool cpu = agent.handle == CPU_AGENT;
    char name[64] = {0};
    if (rc != 0) {
        return rc;
    }
    switch (attribute) {
    case 0: /* HSA_AGENT_INFO_NAME, 64 bytes */
        snprintf(name, sizeof(name), "%s", cpu ? "a processor" : setting("FAKE_GPU_ARCH", "gfx942"));
        memcpy(value, name, sizeof(name));
        return 0;
    case 17: /* HSA_AGENT_INFO_DEVICE */
        *(uint32_t *)value = cpu ? 0 : 1;
        return 0;
    case 0xa006: /* HSA_AMD_AGENT_INFO_BDFID */
        *(uint32_t *)value = cpu ? 0 : (uint32_t)(0x10 + agent.handle) << 8;
        return 0;
    case 0xa00f: /* HSA_AMD_AGENT_INFO_DOMAIN */
        *(uint32_t *)value = 0;
        return 0;
    default:
        return INVALID_ARGUMENT;
    }
}

/* The memory is the fake HIP's, which is loaded without being visible to others. */
int hsa_amd_portable_export_dmabuf(const void *ptr, size_t bytes, int *fd, uint64_t *offset)
{
    void *base;
    bool (*find)(const void *ptr, void **base, size_t *bytes, int *device, int *fd) = NULL;
    size_t size;
    int device, owned, rc = planned("hsa_amd_portable_export_dmabuf");
#ifdef FAKE_EMU
    find = ccl_fake_find_memory;
#else
    void *library = dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library != NULL ? dlsym(library, "ccl_fake_find_memory") : NULL;
    memcpy(&find, &symbol, sizeof(find));
#endif
    if (rc != 0) {
        return rc;
    }
    if (find == NULL || !find(ptr, &base, &size, &device, &owned) ||
        (const char *)ptr + bytes > (const char *)base + (size + 4095) / 4096 * 4096) {
        return INVALID_ARGUMENT;
    }
    *fd = dup(owned);
    *offset = (uint64_t)((const char *)ptr - (const char *)base);
    return *fd >= 0 ? 0 : INVALID_ARGUMENT;
}

int hsa_amd_portable_close_dmabuf(int fd)
{
    return close(fd) == 0 ? 0 : INVALID_ARGUMENT;
}
