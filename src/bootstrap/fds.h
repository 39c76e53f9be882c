/* SPDX-License-Identifier: MIT
 *
 * Sockets of the bootstrap, opened and closed through here so that a forked child drops its copies at once. Without
 * that the copy would keep a dead rank's connections open and its peers would never see the end of file. Descriptors
 * from 65536 on are not tracked: only the death of their process goes unseen while a fork of it lives. */
#ifndef CCL_BOOTSTRAP_FDS_H
#define CCL_BOOTSTRAP_FDS_H

#include "util/base.h"

/* A lock that is never held by another thread when a process forks, not even while the calls below are made under it. A thread of
 * ours holds it whenever it does not sleep: an allocator that does not look after its own locks in fork (that of older address
 * sanitizers) would otherwise leave the child with one that nobody ever unlocks. */
void ccl_fds_lock(void);
void ccl_fds_unlock(void);
/* All are non-blocking and close-on-exec and return -1 with errno on failure. */
int ccl_fds_socket(int domain);
int ccl_fds_accept(int listen_fd);
int ccl_fds_epoll(void);
/* -1 is fine. errno is kept. */
void ccl_fds_close(int fd);
/* Differs in a forked child, where no descriptor opened before the fork may be used any more. */
unsigned ccl_fds_generation(void);

#endif
