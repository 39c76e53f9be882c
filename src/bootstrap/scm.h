/* SPDX-License-Identifier: MIT
 *
 * Bytes and file descriptors over unix stream sockets, non-blocking. */
#ifndef CCL_BOOTSTRAP_SCM_H
#define CCL_BOOTSTRAP_SCM_H

#include <sys/types.h>
#include <sys/uio.h>

#include "util/base.h"

#define CCL_SCM_MAX 253 /* the kernel's limit for one message */

struct ccl_scm {
    int *fds; /* received so far, close-on-exec */
    int num, max;
    bool lost; /* more came than max, or the process is out of descriptors */
};

/* As sendmsg and recvmsg; the descriptors go with the first byte. */
ssize_t ccl_scm_send(int sock, const struct iovec *iov, int iovcnt, const int *fds, int num_fds);
ssize_t ccl_scm_recv(int sock, void *data, size_t bytes, struct ccl_scm *scm);
/* Close those that are not -1. */
void ccl_scm_close(const int *fds, int num_fds);

#endif
