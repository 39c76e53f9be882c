/* SPDX-License-Identifier: MIT
 *
 * Waiting inside one process: private futexes, a pause for spin loops, and a lock that is one exchange when nobody else
 * wants it. */
#ifndef CCL_HOST_FUTEX_H
#define CCL_HOST_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/base.h"

static inline void ccl_host_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* Sleep while *word is value, at most timeout_ns (UINT64_MAX: no limit). May return early for no reason. */
static inline void ccl_host_futex_wait(const uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
    struct timespec ts = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns == UINT64_MAX ? NULL : &ts, NULL, 0);
}

static inline void ccl_host_futex_wake(const uint32_t *word, int sleepers)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}

/* For critical sections of some tens of nanoseconds. A waiter yields and then naps, so a holder that lost its core (at
 * any scheduling priority) gets it back. */
static inline void ccl_host_spin_lock(uint32_t *lock)
{
    for (unsigned tries = 0; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0; tries++) { /* pairs with the unlock */
        for (unsigned i = 0; i < 100 && __atomic_load_n(lock, __ATOMIC_RELAXED) != 0; i++) {
            ccl_host_pause();
        }
        if (tries > 100) {
            nanosleep(&(struct timespec){0, 50000}, NULL);
        } else if (tries > 1) {
            sched_yield();
        }
    }
}

static inline void ccl_host_spin_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE); /* pairs with the exchange in the lock */
}

#endif
