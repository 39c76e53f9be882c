/* SPDX-License-Identifier: MIT
 *
 * Socket helpers without knowledge of ranks or exchanges. */
#include "bootstrap/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "bootstrap/fds.h"
#include "util/log.h"

#define CANCEL_POLL_MS 20
#define ABSENT_POLL_MS 2

uint64_t ccl_net_add(uint64_t deadline_ns, uint64_t more_ns)
{
    return deadline_ns > UINT64_MAX - more_ns ? UINT64_MAX : deadline_ns + more_ns;
}

uint64_t ccl_net_deadline(uint64_t timeout_ns)
{
    return ccl_net_add(ccl_now_ns(), timeout_ns);
}

/* Of the calling thread. */
static _Thread_local const bool *cancel;

void ccl_net_set_cancel(const bool *flag)
{
    cancel = flag;
}

bool ccl_net_expired(uint64_t deadline_ns)
{
    return ccl_now_ns() >= deadline_ns || (cancel != NULL && __atomic_load_n(cancel, __ATOMIC_ACQUIRE));
}

int ccl_net_poll_ms(uint64_t deadline_ns)
{
    uint64_t now = ccl_now_ns(), longest = cancel != NULL ? CANCEL_POLL_MS : 3600000;
    if (ccl_net_expired(deadline_ns)) {
        return 0;
    }
    uint64_t ms = deadline_ns > now ? (deadline_ns - now - 1) / 1000000 + 1 : 0;
    return ms > longest ? (int)longest : (int)ms;
}

bool ccl_net_wait(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int ms = ccl_net_poll_ms(deadline_ns);
        if (poll(&p, 1, ms) > 0) {
            return true;
        }
        if (ms == 0) {
            return false;
        }
    }
}

int ccl_net_read(int fd, void *data, size_t bytes, size_t *done, uint64_t deadline_ns)
{
    while (*done < bytes) {
        ssize_t n = recv(fd, (char *)data + *done, bytes - *done, MSG_DONTWAIT);
        if (n > 0) {
            *done += (size_t)n;
        } else if (n == 0) {
            return ECONNRESET;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!ccl_net_wait(fd, POLLIN, deadline_ns)) {
                return ETIMEDOUT;
            }
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int ccl_net_write(int fd, const void *data, size_t bytes, uint64_t deadline_ns)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = send(fd, (const char *)data + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!ccl_net_wait(fd, POLLOUT, deadline_ns)) {
                return ETIMEDOUT;
            }
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

cclResult_t ccl_net_random(void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = getrandom((char *)data + done, bytes - done, 0);
        CCL_CHECK(n > 0 || errno == EINTR, cclSystemError, CCL_BOOT, "getrandom of %zu bytes: %s", bytes,
                  strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
    return cclSuccess;
}

static socklen_t unix_name(const uint8_t token[16], struct sockaddr_un *addr)
{
    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    /* A leading NUL: the abstract name space, which leaves nothing on disk. */
    int n = snprintf(addr->sun_path + 1, sizeof(addr->sun_path) - 1, "ccl-");
    for (int i = 0; i < 16; i++) {
        n += snprintf(addr->sun_path + 1 + n, sizeof(addr->sun_path) - 1 - (size_t)n, "%02x", token[i]);
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

cclResult_t ccl_net_listen(const uint8_t token[16], int *fd)
{
    struct sockaddr_un addr;
    socklen_t len = unix_name(token, &addr);
    int f = ccl_fds_socket(AF_UNIX);
    CCL_CHECK(f >= 0, cclSystemError, CCL_BOOT, "unix socket: %s", strerror(errno));
    if (bind(f, (struct sockaddr *)&addr, len) != 0 || listen(f, CCL_WIRE_MAX_RANKS) != 0) {
        cclResult_t rc = ccl_error_set(cclSystemError, CCL_BOOT, "listen on abstract socket %s: %s", addr.sun_path + 1,
                                       strerror(errno));
        ccl_fds_close(f);
        return rc;
    }
    *fd = f;
    return cclSuccess;
}

/* A non-blocking connect fails at once when the server's queue is full, and nothing tells when it has room: so this one
 * blocks, with a time limit. */
static cclResult_t connect_unix(const uint8_t token[16], uint64_t deadline_ns, bool patient, int *fd)
{
    struct sockaddr_un addr;
    socklen_t len = unix_name(token, &addr);
    int f = ccl_fds_socket(AF_UNIX);
    CCL_CHECK(f >= 0, cclSystemError, CCL_BOOT, "unix socket: %s", strerror(errno));
    int flags = fcntl(f, F_GETFL);
    int err = 0;
    fcntl(f, F_SETFL, flags & ~O_NONBLOCK);
    for (;;) {
        int ms = ccl_net_poll_ms(deadline_ns);
        struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
        setsockopt(f, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)); /* zero means no limit, so the clock is asked before */
        if (ms == 0) {
            err = ETIMEDOUT;
            break;
        }
        err = connect(f, (struct sockaddr *)&addr, len) == 0 ? 0 : errno;
        if (patient && err == ECONNREFUSED) {
            poll(NULL, 0, ABSENT_POLL_MS);
        } else if (err != EINTR && err != EAGAIN) {
            break;
        }
    }
    fcntl(f, F_SETFL, flags);
    if (err != 0) {
        ccl_fds_close(f);
        return ccl_error_set(err == ECONNREFUSED ? cclRemoteError : cclSystemError, CCL_BOOT,
                             "connect to rank 0 at abstract socket %s: %s", addr.sun_path + 1, strerror(err));
    }
    *fd = f;
    return cclSuccess;
}

cclResult_t ccl_net_connect_unix(const uint8_t token[16], uint64_t deadline_ns, int *fd)
{
    return connect_unix(token, deadline_ns, false, fd);
}

cclResult_t ccl_net_connect_unix_early(const uint8_t token[16], uint64_t deadline_ns, int *fd)
{
    return connect_unix(token, deadline_ns, true, fd);
}

bool ccl_net_peer_ok(int fd, pid_t *pid)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || cred.uid != geteuid()) {
        return false;
    }
    *pid = cred.pid;
    return true;
}

void ccl_net_host(uint8_t host[16])
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    if (n < 32) {
        n = gethostname(text, sizeof(text) - 1) == 0 ? (ssize_t)strlen(text) : 0;
    }
    static const uint8_t no_key[CCL_SECRET_BYTES];
    ccl_siphash(no_key, text, (size_t)n, host);
}

void ccl_net_pidns(uint64_t pidns[2])
{
    struct stat st;
    bool known = stat("/proc/self/ns/pid", &st) == 0;
    pidns[0] = known ? (uint64_t)st.st_dev : 0;
    pidns[1] = known ? (uint64_t)st.st_ino : 0;
}

void ccl_net_rank_list(char *text, size_t bytes, const bool *in, int n)
{
    int members = 0;
    for (int r = 0; r < n; r++) {
        members += in[r];
    }
    size_t len = (size_t)snprintf(text, bytes, members == 1 ? "rank " : "ranks ");
    const char *separator = "";
    for (int r = 0; r < n; r++) {
        int last = r;
        while (in[r] && last + 1 < n && in[last + 1]) {
            last++;
        }
        if (!in[r]) {
            continue;
        }
        if (len + 32 > bytes) {
            snprintf(text + len, bytes - len, ", ...");
            return;
        }
        /* Two neighbours are listed, three are a range. */
        if (last - r >= 2) {
            len += (size_t)snprintf(text + len, bytes - len, "%s%d-%d", separator, r, last);
            r = last;
        } else {
            len += (size_t)snprintf(text + len, bytes - len, "%s%d", separator, r);
        }
        separator = ", ";
    }
}
