/* SPDX-License-Identifier: MIT
 *
 * SCM_RIGHTS. */
#include "bootstrap/scm.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(CCL_SCM_MAX * sizeof(int))];
};

ssize_t ccl_scm_send(int sock, const struct iovec *iov, int iovcnt, const int *fds, int num_fds)
{
    union control control;
    struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iovcnt};
    if (num_fds > 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE((size_t)num_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)num_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)num_fds * sizeof(int));
    }
    return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t ccl_scm_recv(int sock, void *data, size_t bytes, struct ccl_scm *scm)
{
    union control control;
    struct iovec iov = {.iov_base = data, .iov_len = bytes};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) {
        return n;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t num = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < num; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (scm->num < scm->max) {
                scm->fds[scm->num++] = fd;
            } else {
                close(fd);
                scm->lost = true;
            }
        }
    }
    scm->lost = scm->lost || (msg.msg_flags & MSG_CTRUNC) != 0;
    return n;
}

void ccl_scm_close(const int *fds, int num_fds)
{
    for (int i = 0; i < num_fds; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}
