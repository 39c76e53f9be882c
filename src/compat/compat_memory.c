/* SPDX-License-Identifier: MIT
 *
 * Memory, registrations, windows. ncclMemAlloc knows no communicator, so it gives plain device memory, which a later registration can share. A window is
 * a registration with NCCL's stricter arguments: peers store into it directly. It cannot be used by kernels: there is no device communicator. */
#include "compat.h"

#include <stdlib.h>

#include "util/config.h"

ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
    CCL_COMPAT_CHECK(ptr != NULL, ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
    return ccl_compat_note(ccl_compat_result(cclDeviceMalloc(ptr, size)));
}
CCL_COMPAT_ALIAS(ncclMemAlloc);

ncclResult_t ncclMemFree(void *ptr)
{
    return ccl_compat_note(ccl_compat_result(cclDeviceFree(ptr)));
}
CCL_COMPAT_ALIAS(ncclMemFree);

static ncclResult_t do_register(ncclComm_t comm, void *buff, size_t size, void **handle)
{
    *handle = NULL;
    return ccl_env_get()->nccl_local_register != 0 ? ccl_compat_result(cclCommRegister(comm->ccl, buff, size, handle)) : ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
    CCL_COMPAT_TRY(ccl_compat_check(comm, "ncclCommRegister"));
    CCL_COMPAT_CHECK(handle != NULL && buff != NULL && size > 0, ncclInvalidArgument, "ncclCommRegister: %zu bytes at %p, handle %p", size, buff,
                     (void *)handle);
    return ccl_compat_note(do_register(comm, buff, size, handle));
}
CCL_COMPAT_ALIAS(ncclCommRegister);

/* Unlinks it. */
static struct ccl_compat_window *take_window(ncclComm_t comm, const void *win)
{
    for (struct ccl_compat_window **p = &comm->windows; *p != NULL; p = &(*p)->next) {
        if (*p == win) {
            struct ccl_compat_window *w = *p;
            *p = w->next;
            return w;
        }
    }
    return NULL;
}

static ncclResult_t close_window(ncclComm_t comm, struct ccl_compat_window *w)
{
    ncclResult_t rc = ccl_compat_result(cclCommDeregister(comm->ccl, w->handle));
    free(w);
    return rc;
}

/* Whether the communicator has failed or not: programs clean up. */
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclCommDeregister"));
    if (handle == NULL || comm->ccl == NULL) {
        return ncclSuccess;
    }
    /* PyTorch 2.11 brings windows here when it aborts. */
    struct ccl_compat_window *w = take_window(comm, handle);
    return ccl_compat_note(w != NULL ? close_window(comm, w) : ccl_compat_result(cclCommDeregister(comm->ccl, handle)));
}
CCL_COMPAT_ALIAS(ncclCommDeregister);

static ncclResult_t window_register(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int flags)
{
    CCL_COMPAT_TRY(ccl_compat_check(comm, "ncclCommWindowRegister"));
    CCL_COMPAT_CHECK(win != NULL, ncclInvalidArgument, "ncclCommWindowRegister: win is NULL");
    CCL_COMPAT_CHECK(buff != NULL && size > 0 && (uintptr_t)buff % NCCL_WIN_REQUIRED_ALIGNMENT == 0, ncclInvalidArgument,
                     "ncclCommWindowRegister: %zu bytes at %p, a window has some bytes, at a multiple of %d", size, buff, NCCL_WIN_REQUIRED_ALIGNMENT);
    (void)flags; /* all of them promise something, none asks for anything */
    struct ccl_compat_window *w = calloc(1, sizeof(*w));
    CCL_COMPAT_CHECK(w != NULL, ncclSystemError, "ncclCommWindowRegister: out of memory");
    ncclResult_t rc = do_register(comm, buff, size, &w->handle);
    *win = NULL;
    if (rc != ncclSuccess || w->handle == NULL) {
        free(w); /* NCCL's own answer where there are no windows: success, and none */
        return rc;
    }
    w->buff = buff;
    w->next = comm->windows;
    comm->windows = w;
    *win = (ncclWindow_t)w;
    return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags)
{
    return ccl_compat_note(window_register(comm, buff, size, win, winFlags));
}
CCL_COMPAT_ALIAS(ncclCommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclCommWindowDeregister"));
    if (win == NULL) {
        return ncclSuccess;
    }
    struct ccl_compat_window *w = take_window(comm, win);
    if (w == NULL) {
        return ccl_compat_note(ccl_error_set(ncclInvalidUsage, CCL_HEAP, "ncclCommWindowDeregister: %p is no window of the communicator", (void *)win));
    }
    return ccl_compat_note(close_window(comm, w));
}
CCL_COMPAT_ALIAS(ncclCommWindowDeregister);

/* From NCCL 2.29 on; for programs built with its header. */
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **ptr);
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **ptr)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclWinGetUserPtr"));
    CCL_COMPAT_CHECK(ptr != NULL, ncclInvalidArgument, "ncclWinGetUserPtr: the output is NULL");
    for (const struct ccl_compat_window *w = comm->windows; w != NULL; w = w->next) {
        if (w == (const void *)win) {
            *ptr = w->buff;
            return ncclSuccess;
        }
    }
    return ccl_error_set(ncclInvalidArgument, CCL_HEAP, "ncclWinGetUserPtr: %p is no window of the communicator", (void *)win);
}
CCL_COMPAT_ALIAS(ncclWinGetUserPtr);
