/* SPDX-License-Identifier: MIT
 *
 * The monitor thread: start and stop with the first and last port, the epoll loop, timers, watched processes, and fork.
 * The thread takes no signals. In a forked child the handler closes what was inherited and forgets it, so that a peer
 * still sees the end of the parent's connections when the parent dies, and the child can build communicators of its
 * own. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "bootstrap/monitor_internal.h"

#define EVENTS_A_ROUND 32
#define PACKETS_A_ROUND 16
/* After this long callbacks pause, so that slow ones do not hide a death. */
#define DELIVER_NS 5000000u
/* An inbox with more than this takes nothing from sockets, which then hold the senders back. */
#define INBOX_LIMIT 1024

pthread_mutex_t ccl_mon_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t ccl_mon_callback_done = PTHREAD_COND_INITIALIZER;

static struct ccl_monitor *current;
static _Thread_local struct ccl_monitor *thread_monitor;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_handlers_rc;

bool ccl_mon_on_thread(const struct ccl_monitor *mon)
{
    return thread_monitor == mon;
}

bool ccl_mon_is_inherited(const struct ccl_monitor *mon)
{
    return mon->owner != getpid();
}

void ccl_mon_wake(struct ccl_monitor *mon)
{
    uint64_t one = 1;
    /* On its own thread it looks at everything again before it sleeps. */
    if (!ccl_mon_on_thread(mon) && !mon->woken) {
        mon->woken = true;
        ssize_t ignored = write(mon->wake_fd, &one, sizeof(one));
        (void)ignored;
    }
}

void ccl_mon_retry_later(struct ccl_monitor *mon)
{
    if (mon->retry_ns == 0) {
        mon->retry_ns = ccl_now_ns() + CCL_MON_RETRY_NS;
        ccl_mon_wake(mon);
    }
}

static void handle_event(struct ccl_monitor *mon, uint64_t key, uint32_t events)
{
    enum ccl_mon_kind kind = (enum ccl_mon_kind)(key >> (CCL_MON_KEY_ID_BITS + CCL_MON_KEY_RANK_BITS));
    uint64_t id = key >> CCL_MON_KEY_RANK_BITS & ((UINT64_C(1) << CCL_MON_KEY_ID_BITS) - 1);
    int rank = (int)(key & ((1u << CCL_MON_KEY_RANK_BITS) - 1));
    struct ccl_monitor_port *port = kind == CCL_MON_IN || kind == CCL_MON_OUT ? ccl_mon_port_find(mon, id) : NULL;
    uint64_t count;
    ssize_t ignored;
    switch (kind) {
    case CCL_MON_WAKE:
        ignored = read(mon->wake_fd, &count, sizeof(count));
        (void)ignored;
        mon->woken = false;
        break;
    case CCL_MON_LISTEN:
    case CCL_MON_PENDING:
        ccl_mon_accept(mon);
        break;
    case CCL_MON_IN:
        /* Not read, the event comes again; that does not spin, since there is an inbox to work off. Before the port is
         * active it would, but then peers have little to say. */
        if (port != NULL && (port->inbox.count < INBOX_LIMIT || !port->active)) {
            ccl_mon_in_read(&port->peers[rank], PACKETS_A_ROUND);
        }
        break;
    case CCL_MON_OUT:
        if (port != NULL) {
            ccl_mon_out_ready(&port->peers[rank], events);
        }
        break;
    case CCL_MON_PROCESS:
        ccl_mon_process_died(mon, id);
        break;
    }
}

static void run_timers(struct ccl_monitor *mon)
{
    uint64_t now = ccl_now_ns();
    ccl_mon_pending_expire(mon, now);
    if (mon->retry_ns != 0 && now >= mon->retry_ns) {
        mon->retry_ns = 0;
        if (mon->accept_paused) {
            mon->accept_paused = false;
            ccl_mon_rewatch(mon, mon->listen_fd, EPOLLIN, CCL_MON_LISTEN, 0, 0);
        }
        for (struct ccl_monitor_port *port = mon->ports; port != NULL; port = port->next) {
            ccl_mon_out_retry(port);
        }
    }
    if (mon->tick_ports > 0 && now >= mon->tick_ns) {
        /* Late ticks are not made up for. */
        mon->tick_ns += CCL_MON_TICK_NS;
        mon->tick_ns = now >= mon->tick_ns ? now + CCL_MON_TICK_NS : mon->tick_ns;
        for (struct ccl_monitor_port *port = mon->ports; port != NULL; port = port->next) {
            port->tick_due = port->want_tick;
            ccl_mon_port_ready(port);
        }
    }
}

/* Milliseconds for epoll_wait, -1: no limit. */
static int next_timeout(const struct ccl_monitor *mon)
{
    uint64_t when = UINT64_MAX;
    if (mon->ready_head != NULL) {
        return 0;
    }
    if (mon->tick_ports > 0) {
        when = mon->tick_ns;
    }
    if (mon->retry_ns != 0 && mon->retry_ns < when) {
        when = mon->retry_ns;
    }
    if (mon->pending != NULL && mon->pending->deadline_ns < when) {
        when = mon->pending->deadline_ns;
    }
    if (when == UINT64_MAX) {
        return -1;
    }
    uint64_t now = ccl_now_ns();
    return when <= now ? 0 : (int)((when - now + 999999) / 1000000);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void monitor_destroy(struct ccl_monitor *mon)
{
    ccl_mon_unlisten(mon);
    close_fd(&mon->wake_fd);
    close_fd(&mon->epoll_fd);
    free(mon);
}

static void *monitor_main(void *arg)
{
    struct ccl_monitor *mon = arg;
    struct epoll_event events[EVENTS_A_ROUND];
    thread_monitor = mon;
    prctl(PR_SET_NAME, "ccl-monitor");
    pthread_mutex_lock(&ccl_mon_lock);
    while (!mon->stop) {
        int timeout = next_timeout(mon);
        pthread_mutex_unlock(&ccl_mon_lock);
        int n = epoll_wait(mon->epoll_fd, events, EVENTS_A_ROUND, timeout);
        pthread_mutex_lock(&ccl_mon_lock);
        for (int i = 0; i < n; i++) {
            handle_event(mon, events[i].data.u64, events[i].events);
        }
        run_timers(mon);
        uint64_t end = ccl_now_ns() + DELIVER_NS;
        while (ccl_mon_deliver_one(mon) && ccl_now_ns() < end) {
        }
    }
    bool alone = mon->stop_alone;
    pthread_mutex_unlock(&ccl_mon_lock);
    if (alone) {
        monitor_destroy(mon);
    }
    return NULL;
}

static void fork_prepare(void)
{
    pthread_mutex_lock(&ccl_mon_lock);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&ccl_mon_lock);
}

/* Only closes: a goodbye from here would speak for the parent. */
static void fork_child(void)
{
    struct ccl_monitor *mon = current;
    current = NULL;
    thread_monitor = NULL;
    /* The parent's waiters are not here. */
    pthread_cond_init(&ccl_mon_callback_done, NULL);
    if (mon != NULL) {
        close_fd(&mon->epoll_fd);
        close_fd(&mon->wake_fd);
        close_fd(&mon->listen_fd);
        for (struct ccl_mon_process *p = mon->processes; p != NULL; p = p->next) {
            close_fd(&p->fd);
        }
        for (struct ccl_mon_pending *p = mon->pending; p != NULL; p = p->next) {
            close_fd(&p->fd);
        }
        for (struct ccl_monitor_port *port = mon->ports; port != NULL; port = port->next) {
            for (int i = 0; i < port->size; i++) {
                close_fd(&port->peers[i].out_fd);
                close_fd(&port->peers[i].in_fd);
            }
        }
    }
    pthread_mutex_unlock(&ccl_mon_lock);
}

static void install_fork_handlers(void)
{
    fork_handlers_rc = pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static cclResult_t start_thread(struct ccl_monitor *mon)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&mon->thread, NULL, monitor_main, mon);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CCL_CHECK(rc == 0, cclSystemError, CCL_BOOT, "monitor thread: %s", strerror(rc));
    return cclSuccess;
}

static cclResult_t monitor_create(struct ccl_monitor **out)
{
    struct ccl_monitor *mon = calloc(1, sizeof(*mon));
    cclResult_t rc;
    CCL_CHECK(mon != NULL, cclSystemError, CCL_BOOT, "out of memory for the monitor");
    mon->owner = getpid();
    mon->refs = 1;
    mon->listen_fd = -1;
    mon->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    mon->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mon->epoll_fd < 0 || mon->wake_fd < 0) {
        rc = ccl_error_set(cclSystemError, CCL_BOOT, "monitor descriptors: %s", strerror(errno));
        goto fail;
    }
    if (getrandom(mon->name, sizeof(mon->name), 0) != (ssize_t)sizeof(mon->name)) {
        rc = ccl_error_set(cclSystemError, CCL_BOOT, "monitor random name: %s", strerror(errno));
        goto fail;
    }
    rc = ccl_mon_watch(mon, mon->wake_fd, EPOLLIN, CCL_MON_WAKE, 0, 0) ? cclSuccess : cclSystemError;
    CCL_TRY_GOTO(rc, fail);
    CCL_TRY_GOTO(ccl_mon_listen(mon), fail);
    CCL_TRY_GOTO(start_thread(mon), fail);
    *out = mon;
    return cclSuccess;
fail:
    monitor_destroy(mon);
    return rc;
}

cclResult_t ccl_mon_get(struct ccl_monitor **out)
{
    cclResult_t rc = cclSuccess;
    pthread_once(&fork_once, install_fork_handlers);
    CCL_CHECK(fork_handlers_rc == 0, cclSystemError, CCL_BOOT, "fork handlers: %s", strerror(fork_handlers_rc));
    pthread_mutex_lock(&ccl_mon_lock);
    if (current != NULL) {
        current->refs++;
    } else {
        rc = monitor_create(&current);
    }
    if (rc == cclSuccess) {
        *out = current;
    }
    pthread_mutex_unlock(&ccl_mon_lock);
    return rc;
}

void ccl_mon_put(struct ccl_monitor *mon)
{
    pthread_mutex_lock(&ccl_mon_lock);
    bool last = --mon->refs == 0;
    bool inherited = ccl_mon_is_inherited(mon);
    bool alone = ccl_mon_on_thread(mon);
    if (last && !inherited) {
        current = NULL;
        mon->stop = true;
        mon->stop_alone = alone;
        ccl_mon_wake(mon);
    }
    pthread_mutex_unlock(&ccl_mon_lock);
    if (!last) {
        return;
    }
    if (inherited) {
        while (mon->pending != NULL) {
            struct ccl_mon_pending *pending = mon->pending;
            mon->pending = pending->next;
            free(pending);
        }
        free(mon);
    } else if (alone) {
        pthread_detach(pthread_self());
    } else {
        pthread_join(mon->thread, NULL);
        monitor_destroy(mon);
    }
}
