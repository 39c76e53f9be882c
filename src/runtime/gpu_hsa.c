/* SPDX-License-Identifier: MIT
 *
 * libhsa-runtime64.so.1, opened at the first need. HIP has initialised it already; hsa_init counts. */
#include "runtime/gpu_hsa.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/gpu_api.h"
#include "runtime/gpu_constants.h"
#include "util/log.h"

#define LIBRARY "libhsa-runtime64.so.1"
#define NAME_BYTES 64

struct hsa_agent { /* hsa_agent_t */
    uint64_t handle;
};

static struct {
    int (*init)(void);
    int (*iterate_agents)(int (*callback)(struct hsa_agent agent, void *data), void *data);
    int (*agent_info)(struct hsa_agent agent, int attribute, void *value);
    int (*export_dmabuf)(const void *ptr, size_t bytes, int *fd, uint64_t *offset); /* may be NULL */
} hsa;

static pthread_once_t hsa_once = PTHREAD_ONCE_INIT;
static char hsa_why[128]; /* empty: usable */

static bool look_up(void *library, const char *name, void *slot)
{
    void *symbol = dlsym(library, name);
    memcpy(slot, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static void hsa_open(void)
{
    void *library = ccl_gpu.emulator != NULL ? ccl_gpu.emulator : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(hsa_why, sizeof(hsa_why), "no " LIBRARY);
        return;
    }
    if (!look_up(library, "hsa_init", &hsa.init) || !look_up(library, "hsa_iterate_agents", &hsa.iterate_agents) ||
        !look_up(library, "hsa_agent_get_info", &hsa.agent_info)) {
        snprintf(hsa_why, sizeof(hsa_why), LIBRARY " lacks hsa_init, hsa_iterate_agents or hsa_agent_get_info");
        return;
    }
    int error = hsa.init();
    if (error != 0) {
        snprintf(hsa_why, sizeof(hsa_why), "hsa_init failed with %#x", (unsigned)error);
        return;
    }
    look_up(library, "hsa_amd_portable_export_dmabuf", &hsa.export_dmabuf);
}

struct search {
    uint32_t domain, bus, slot;
    bool found;
    char name[NAME_BYTES];
};

static int visit(struct hsa_agent agent, void *data)
{
    struct search *s = data;
    uint32_t type = 0, bdf = 0, domain = 0;
    if (hsa.agent_info(agent, CCL_HSA_INFO_DEVICE, &type) != 0 || type != CCL_HSA_DEVICE_GPU ||
        hsa.agent_info(agent, CCL_HSA_INFO_BDF, &bdf) != 0) {
        return 0;
    }
    (void)hsa.agent_info(agent, CCL_HSA_INFO_DOMAIN, &domain); /* old runtimes know one domain only */
    if (domain != s->domain || (bdf >> 8 & 0xff) != s->bus || (bdf >> 3 & 0x1f) != s->slot) {
        return 0;
    }
    s->found = hsa.agent_info(agent, CCL_HSA_INFO_NAME, s->name) == 0;
    return s->found ? CCL_HSA_STATUS_BREAK : 0;
}

cclResult_t ccl_gpu_hsa_arch(int domain, int bus, int slot, char *arch, size_t bytes)
{
    struct search s = {.domain = (uint32_t)domain, .bus = (uint32_t)bus, .slot = (uint32_t)slot};
    pthread_once(&hsa_once, hsa_open);
    CCL_CHECK(hsa_why[0] == '\0', cclSystemError, CCL_RT, "architecture of the GPU at PCI %04x:%02x:%02x: %s",
              (unsigned)domain, (unsigned)bus, (unsigned)slot, hsa_why);
    int error = hsa.iterate_agents(visit, &s);
    CCL_CHECK(s.found, cclSystemError, CCL_RT,
              "architecture of the GPU at PCI %04x:%02x:%02x: HSA knows no such GPU (hsa_iterate_agents returned %#x)",
              (unsigned)domain, (unsigned)bus, (unsigned)slot, (unsigned)error);
    s.name[NAME_BYTES - 1] = '\0';
    snprintf(arch, bytes, "%.*s", (int)strcspn(s.name, ":"), s.name);
    return cclSuccess;
}

bool ccl_gpu_hsa_can_export(void)
{
    pthread_once(&hsa_once, hsa_open);
    return hsa_why[0] == '\0' && hsa.export_dmabuf != NULL;
}

cclResult_t ccl_gpu_hsa_export(const void *ptr, size_t bytes, int *fd, uint64_t *offset)
{
    int out = -1;
    uint64_t at = 0;
    CCL_CHECK(ccl_gpu_hsa_can_export(), cclSystemError, CCL_RT, "DMA-BUF export: %s",
              hsa_why[0] != '\0' ? hsa_why : LIBRARY " lacks hsa_amd_portable_export_dmabuf");
    int error = hsa.export_dmabuf(ptr, bytes, &out, &at);
    CCL_CHECK(error == 0, cclUnhandledDeviceError, CCL_RT,
              "hsa_amd_portable_export_dmabuf of %zu bytes at %p failed with %#x", bytes, ptr, (unsigned)error);
    *fd = out;
    *offset = at;
    return cclSuccess;
}
