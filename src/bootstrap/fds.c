/* SPDX-License-Identifier: MIT
 *
 * Tracked descriptors. Opening and marking happen under one lock that fork takes too, so no fork falls between them.
 * The lock for others (work) is the outer one of the two. */
#include "bootstrap/fds.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRACKED_FDS 65536

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t work = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t tracked[TRACKED_FDS / 64];
static unsigned generation;

static void fork_prepare(void)
{
    pthread_mutex_lock(&work);
    pthread_mutex_lock(&lock);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&work);
}

static void fork_child(void)
{
    for (int word = 0; word < TRACKED_FDS / 64; word++) {
        for (; tracked[word] != 0; tracked[word] &= tracked[word] - 1) {
            close(word * 64 + __builtin_ctzll(tracked[word]));
        }
    }
    /* Relaxed: the child has one thread. */
    __atomic_fetch_add(&generation, 1, __ATOMIC_RELAXED);
    fork_parent();
}

static void install_handlers(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void ccl_fds_lock(void)
{
    pthread_once(&once, install_handlers);
    pthread_mutex_lock(&work);
}

void ccl_fds_unlock(void)
{
    pthread_mutex_unlock(&work);
}

static void lock_tracked(void)
{
    pthread_once(&once, install_handlers);
    pthread_mutex_lock(&lock);
}

static int unlock_tracked(int fd)
{
    if (fd >= 0 && fd < TRACKED_FDS) {
        tracked[fd / 64] |= (uint64_t)1 << (fd % 64);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

int ccl_fds_socket(int domain)
{
    lock_tracked();
    return unlock_tracked(socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int ccl_fds_accept(int listen_fd)
{
    lock_tracked();
    return unlock_tracked(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

int ccl_fds_epoll(void)
{
    lock_tracked();
    return unlock_tracked(epoll_create1(EPOLL_CLOEXEC));
}

void ccl_fds_close(int fd)
{
    if (fd < 0) {
        return;
    }
    int saved = errno;
    lock_tracked();
    if (fd < TRACKED_FDS) {
        tracked[fd / 64] &= ~((uint64_t)1 << (fd % 64));
    }
    close(fd);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

unsigned ccl_fds_generation(void)
{
    /* Relaxed: changes only in fork, before the child runs anything else. */
    return __atomic_load_n(&generation, __ATOMIC_RELAXED);
}
