/* SPDX-License-Identifier: MIT
 *
 * What the monitor's epoll looks at, and the peers' processes: one pidfd for each, shared by all communicators with
 * that peer. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bootstrap/monitor_internal.h"

static uint64_t make_key(enum ccl_mon_kind kind, uint64_t id, int rank)
{
    return (uint64_t)kind << (CCL_MON_KEY_ID_BITS + CCL_MON_KEY_RANK_BITS) | id << CCL_MON_KEY_RANK_BITS |
           (uint64_t)rank;
}

bool ccl_mon_watch(struct ccl_monitor *mon, int fd, uint32_t events, enum ccl_mon_kind kind, uint64_t id, int rank)
{
    struct epoll_event ev = {.events = events, .data.u64 = make_key(kind, id, rank)};
    if (epoll_ctl(mon->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        (void)ccl_error_set(cclSystemError, CCL_BOOT, "monitor cannot watch descriptor %d: %s", fd, strerror(errno));
        return false;
    }
    return true;
}

void ccl_mon_rewatch(struct ccl_monitor *mon, int fd, uint32_t events, enum ccl_mon_kind kind, uint64_t id, int rank)
{
    struct epoll_event ev = {.events = events, .data.u64 = make_key(kind, id, rank)};
    /* Cannot fail for a descriptor that is registered: no memory is needed. */
    epoll_ctl(mon->epoll_fd, EPOLL_CTL_MOD, fd, &ev);
}

void ccl_mon_close(struct ccl_monitor *mon, int *fd)
{
    if (*fd < 0) {
        return;
    }
    /* Closing alone leaves the registration behind while a child that was just forked holds a copy; but from inside a
     * child it would take the registration from the parent, whose epoll it shares. */
    if (!ccl_mon_is_inherited(mon)) {
        epoll_ctl(mon->epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
    }
    close(*fd);
    *fd = -1;
}

cclResult_t ccl_mon_process_get(struct ccl_monitor *mon, pid_t pid, struct ccl_mon_process **out)
{
    for (struct ccl_mon_process *p = mon->processes; p != NULL; p = p->next) {
        /* One that died may have left its number to another process before the event has reached us. */
        struct pollfd died = {.fd = p->fd, .events = POLLIN};
        if (p->pid == pid && p->fd >= 0 && poll(&died, 1, 0) == 0) {
            p->refs++;
            *out = p;
            return cclSuccess;
        }
    }
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd < 0 && pid > 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
        return ccl_error_set(cclSystemError, CCL_BOOT, "pidfd of process %d: %s", (int)pid, strerror(errno));
    }
    if (fd < 0) {
        CCL_LOG(CCL_LOG_DEBUG, CCL_BOOT, "no pidfd for process %d: watching its connection instead", (int)pid);
        *out = NULL;
        return cclSuccess;
    }
    struct ccl_mon_process *process = malloc(sizeof(*process));
    if (process == NULL) {
        close(fd);
        return ccl_error_set(cclSystemError, CCL_BOOT, "out of memory for the watch of process %d", (int)pid);
    }
    *process = (struct ccl_mon_process){.next = mon->processes, .id = ++mon->last_id, .pid = pid, .fd = fd, .refs = 1};
    /* pidfd_open sets close-on-exec by itself. */
    if (!ccl_mon_watch(mon, fd, EPOLLIN, CCL_MON_PROCESS, process->id, 0)) {
        close(fd);
        free(process);
        return cclSystemError;
    }
    mon->processes = process;
    *out = process;
    return cclSuccess;
}

void ccl_mon_process_put(struct ccl_monitor *mon, struct ccl_mon_process *process)
{
    if (process == NULL || --process->refs > 0) {
        return;
    }
    struct ccl_mon_process **link = &mon->processes;
    while (*link != process) {
        link = &(*link)->next;
    }
    *link = process->next;
    ccl_mon_close(mon, &process->fd);
    free(process);
}

void ccl_mon_process_died(struct ccl_monitor *mon, uint64_t id)
{
    struct ccl_mon_process *process = mon->processes;
    while (process != NULL && process->id != id) {
        process = process->next;
    }
    if (process == NULL || process->fd < 0) {
        return;
    }
    ccl_mon_close(mon, &process->fd);
    for (struct ccl_monitor_port *port = mon->ports; port != NULL; port = port->next) {
        for (int i = 0; i < port->size; i++) {
            if (port->peers[i].process == process) {
                ccl_mon_peer_dead(&port->peers[i]);
            }
        }
    }
}
