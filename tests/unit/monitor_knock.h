/* SPDX-License-Identifier: MIT
 *
 * Connections to a monitor that are no monitor's, for its tests. */
#ifndef CCL_TEST_MONITOR_KNOCK_H
#define CCL_TEST_MONITOR_KNOCK_H

#include "bootstrap/monitor_internal.h"
#include "monitor_world.h"

static inline int knock(struct box *box, int rank)
{
    struct sockaddr_un addr;
    socklen_t len = ccl_mon_address(box->port->peers[rank].card.name, &addr);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    TEST_EQ(connect(fd, (const struct sockaddr *)&addr, len), 0);
    return fd;
}

/* True when the other side closes within limit_s. */
static inline bool is_closed(int fd, int limit_s)
{
    char byte;
    struct timeval limit = {limit_s, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ssize_t n = recv(fd, &byte, sizeof(byte), 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* True when a goodbye comes; flags as in recv. */
static inline bool gets_goodbye(int fd, int flags)
{
    struct ccl_mon_packet packet = {0};
    return recv(fd, &packet, sizeof(packet), flags) == (ssize_t)sizeof(packet) &&
           packet.magic == CCL_MON_PACKET_MAGIC && packet.kind == CCL_MON_GOODBYE;
}

#endif
