/* SPDX-License-Identifier: MIT
 *
 * Devices of the fake runtime, the thread's current one, and on CUDA the primary contexts. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEVICES 16
/* Compute units of an interpreted device: half of the blocks that fit (2 blocks of 512 threads a unit, by the registers of parts) are 16, what the
 * tests ask for and what 8 ranks need for two blocks a peer. No more, since every block costs time to interpret. */
#define EMU_UNITS 16

#ifdef FAKE_CUDA
static _Thread_local int current = -1;
static char contexts[MAX_DEVICES]; /* their addresses are the handles */
#else
static _Thread_local int current = 0;
#endif
static bool peer_enabled[MAX_DEVICES][MAX_DEVICES];

int fake_num_devices(void)
{
    int count = atoi(fake_setting("FAKE_GPU_DEVICES", "1"));
    bool mine = FAKE_IS_EMU || strcmp(fake_setting("FAKE_GPU", "hip"), FAKE_NAME("hip", "cuda")) == 0;
    return !mine ? 0 : count > MAX_DEVICES ? MAX_DEVICES : count;
}

int fake_current(void)
{
    return current;
}

void fake_make_current(int device)
{
    current = device;
}

const char *fake_arch(void)
{
    return fake_setting("FAKE_GPU_ARCH", FAKE_NAME("gfx942", "sm_90"));
}

static bool is_device(int device)
{
    return device >= 0 && device < fake_num_devices();
}

int fake_init(unsigned flags)
{
    FAKE_ENTER(init);
    return fake_num_devices() == 0 ? CCL_GPU_E_NO_DEVICE : flags != 0 ? CCL_GPU_E_INVALID_VALUE : 0;
}

static int version_number(void)
{
    return atoi(fake_setting("FAKE_GPU_VERSION", FAKE_NAME("60300000", "13000")));
}

bool fake_before_hip6(void)
{
    return strcmp(FAKE_NAME("hip", "cuda"), "hip") == 0 && version_number() < CCL_HIP_VERSION_6;
}

int fake_driver_version(int *version)
{
    FAKE_ENTER(driver_version);
    *version = version_number();
    return 0;
}

int fake_device_count(int *count)
{
    FAKE_ENTER(device_count);
    *count = fake_num_devices();
    return *count == 0 ? CCL_GPU_E_NO_DEVICE : 0;
}

int fake_device_handle(int *device, int ordinal)
{
    FAKE_ENTER(device_handle);
    if (!is_device(ordinal)) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    *device = ordinal;
    return 0;
}

int fake_device_name(char *name, int bytes, int device)
{
    FAKE_ENTER(device_name);
    if (!is_device(device) || bytes < 1) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    snprintf(name, (size_t)bytes, FAKE_IS_EMU ? "interpreted %s %d" : "fake %s %d", fake_arch(), device);
    return 0;
}

int fake_device_attribute(int *value, int attribute, int device)
{
    FAKE_ENTER(device_attribute);
    if (!is_device(device)) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    switch (attribute) {
#ifdef FAKE_CUDA
    case CCL_CUDA_ATTR_UNITS:
        *value = 64;
        return 0;
    case CCL_CUDA_ATTR_MAJOR:
        *value = atoi(fake_arch() + 3) / 10;
        return 0;
    case CCL_CUDA_ATTR_MINOR:
        *value = atoi(fake_arch() + 3) % 10;
        return 0;
    case CCL_CUDA_ATTR_SHARED_BYTES:
        *value = 227 << 10;
        return 0;
#else
    case CCL_HIP_ATTR_UNITS:
        *value = FAKE_IS_EMU ? EMU_UNITS : 64;
        return 0;
    case CCL_HIP_ATTR_SHARED_BYTES:
        *value = 64 << 10;
        return 0;
#endif
    case FAKE_NAME(67, 33): /* PCI bus */
        *value = 0x10 + device;
        return 0;
    case FAKE_NAME(68, 34): /* PCI slot */
        *value = 0;
        return 0;
    case FAKE_NAME(69, 50): /* PCI domain */
        *value = 0;
        return 0;
    case FAKE_NAME(89, 102): /* virtual memory management */
    case FAKE_NAME(-1, 103): /* file descriptors as handles */
        *value = strcmp(fake_setting("FAKE_GPU_VMM", "1"), "0") != 0;
        return 0;
    default:
        return CCL_GPU_E_INVALID_VALUE; /* an attribute no test has thought of */
    }
}

int fake_device_uuid(void *uuid16, int device)
{
    FAKE_ENTER(device_uuid);
    if (!is_device(device)) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    memset(uuid16, 0xc0 + device, 16);
    if (strcmp(fake_setting("FAKE_GPU_SHARED", FAKE_IS_EMU ? "0" : "1"), "0") == 0) {
        uint32_t pid = (uint32_t)getpid();
        memcpy(uuid16, &pid, sizeof(pid));
    }
    return 0;
}

int fake_device_pci(char *id, int bytes, int device)
{
    FAKE_ENTER(device_pci);
    if (!is_device(device) || bytes < 13) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    snprintf(id, (size_t)bytes, "0000:%02x:00.0", 0x10 + device);
    return 0;
}

static bool peers_allowed(void)
{
    return strcmp(fake_setting("FAKE_GPU_PEERS", "all"), "none") != 0;
}

int fake_can_access_peer(int *can, int device, int peer)
{
    FAKE_ENTER(can_access_peer);
    if (!is_device(device) || !is_device(peer)) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    *can = device != peer && peers_allowed();
    return 0;
}

static int enable(int peer)
{
    if (!is_device(peer) || peer == current) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    if (!peers_allowed()) {
        return CCL_GPU_E_PEER_UNSUPPORTED;
    }
    pthread_mutex_lock(&fake_lock);
    bool before = peer_enabled[current][peer];
    peer_enabled[current][peer] = true;
    pthread_mutex_unlock(&fake_lock);
    return before ? CCL_GPU_E_PEER_ENABLED : 0;
}

#ifdef FAKE_CUDA

static int context_device(const void *ctx)
{
    const char *at = ctx;
    return at >= contexts && at < contexts + MAX_DEVICES ? (int)(at - contexts) : -1;
}

int fake_primary_retain(void **ctx, int device)
{
    FAKE_ENTER(primary_retain);
    if (!is_device(device)) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    *ctx = &contexts[device];
    return 0;
}

int fake_ctx_set(void *ctx)
{
    FAKE_ENTER(ctx_set);
    if (ctx != NULL && context_device(ctx) < 0) {
        return CCL_GPU_E_INVALID_CONTEXT;
    }
    current = ctx != NULL ? context_device(ctx) : -1;
    return 0;
}

int fake_ctx_get(void **ctx)
{
    FAKE_ENTER(ctx_get);
    *ctx = current >= 0 ? &contexts[current] : NULL;
    return 0;
}

int fake_ctx_device(int *device)
{
    FAKE_ENTER(ctx_device);
    FAKE_CURRENT(now);
    *device = now;
    return 0;
}

int fake_ctx_enable_peer(void *ctx, unsigned flags)
{
    FAKE_ENTER(ctx_enable_peer);
    FAKE_CURRENT(now);
    (void)now;
    return flags != 0 ? CCL_GPU_E_INVALID_VALUE : enable(context_device(ctx));
}

int fake_error_text(int error, const char **text)
{
    FAKE_ENTER(error_text);
    (void)error;
    *text = "made up by a test";
    return 0;
}

int fake_error_symbol(int error, const char **text)
{
    FAKE_ENTER(error_symbol);
    (void)error;
    *text = "CUDA_ERROR_FAKE";
    return 0;
}

#else

FAKE_EXPORT const char *hipGetErrorString(int error);
FAKE_EXPORT const char *hipGetErrorName(int error);

const char *hipGetErrorString(int error)
{
    (void)error;
    return "made up by a test";
}

const char *hipGetErrorName(int error)
{
    (void)error;
    return "hipErrorFake";
}

int fake_set_device(int device)
{
    FAKE_ENTER(set_device);
    if (!is_device(device)) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    current = device;
    return 0;
}

int fake_get_device(int *device)
{
    FAKE_ENTER(get_device);
    *device = current;
    return 0;
}

int fake_enable_peer(int peer, unsigned flags)
{
    FAKE_ENTER(enable_peer);
    return flags != 0 ? CCL_GPU_E_INVALID_VALUE : enable(peer);
}

int fake_link_type(int device, int peer, uint32_t *type, uint32_t *hops)
{
    FAKE_ENTER(link_type);
    if (!is_device(device) || !is_device(peer)) {
        return CCL_GPU_E_INVALID_DEVICE;
    }
    *type = 4; /* xGMI */
    *hops = 1;
    return 0;
}

#endif
