/* SPDX-License-Identifier: MIT
 *
 * Making and reading unique ids: the listener's address, a secret, and a hash over all of it. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/fds.h"
#include "bootstrap/net.h"
#include "bootstrap/rendezvous.h"
#include "util/config.h"
#include "util/log.h"

#define EARLY_POLL_MS 5

static const char id_magic[8] = "cclboot";

static_assert(sizeof(struct ccl_wire_id) <= sizeof(cclUniqueId), "the id must fit into its public type");

static void id_check(const struct ccl_wire_id *id, uint8_t mac[CCL_MAC_BYTES])
{
    ccl_siphash(id->secret, id, offsetof(struct ccl_wire_id, check), mac);
}

cclResult_t ccl_id_decode(const cclUniqueId *id, struct ccl_wire_id *out)
{
    struct ccl_wire_id wire;
    uint8_t mac[CCL_MAC_BYTES];
    memcpy(&wire, id->internal, sizeof(wire));
    CCL_CHECK(memcmp(wire.magic, id_magic, sizeof(id_magic)) == 0, cclInvalidArgument, CCL_BOOT,
              "the unique id was not made by libccl");
    CCL_CHECK(wire.wire == CCL_WIRE_VERSION, cclInvalidUsage, CCL_BOOT,
              "the unique id has wire version %u (library %u), this library has %u (library %u)", wire.wire,
              wire.version, CCL_WIRE_VERSION, (unsigned)CCL_VERSION);
    id_check(&wire, mac);
    CCL_CHECK(ccl_mac_equal(mac, wire.check), cclInvalidArgument, CCL_BOOT, "the unique id is damaged");
    *out = wire;
    return cclSuccess;
}

void ccl_id_describe(const struct ccl_wire_id *id, char *text, size_t bytes)
{
    char name[INET6_ADDRSTRLEN] = "?";
    inet_ntop(id->family, id->addr, name, sizeof(name));
    snprintf(text, bytes, "rendezvous %s port %u", name, id->port);
}

void ccl_id_seal(struct ccl_wire_id *id)
{
    memcpy(id->magic, id_magic, sizeof(id_magic));
    id->wire = CCL_WIRE_VERSION;
    id->version = CCL_VERSION;
    ccl_net_host(id->host);
    id_check(id, id->check);
}

/* The first IPv4 address of an interface in the list, else its first IPv6 address that needs no scope. */
static cclResult_t find_address(const char *list_of_names, const char *variable, struct ccl_wire_id *id)
{
    struct ifaddrs *list;
    CCL_CHECK(getifaddrs(&list) == 0, cclSystemError, CCL_BOOT, "getifaddrs: %s", strerror(errno));
    id->family = AF_UNSPEC;
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr == NULL || (i->ifa_flags & IFF_UP) == 0 || !ccl_net_name_listed(list_of_names, i->ifa_name)) {
            continue;
        }
        if (i->ifa_addr->sa_family == AF_INET) {
            id->family = AF_INET;
            memset(id->addr, 0, sizeof(id->addr));
            memcpy(id->addr, &((const struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
            break;
        }
        if (i->ifa_addr->sa_family == AF_INET6 && id->family == AF_UNSPEC) {
            const struct in6_addr *a = &((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
            if (!IN6_IS_ADDR_LINKLOCAL(a)) {
                id->family = AF_INET6;
                memcpy(id->addr, a, 16);
            }
        }
    }
    freeifaddrs(list);
    CCL_CHECK(id->family != AF_UNSPEC, cclSystemError, CCL_BOOT,
              "no interface that %s names, %s, is up and has an address", variable, list_of_names);
    return cclSuccess;
}

static socklen_t id_to_sockaddr(const struct ccl_wire_id *id, struct sockaddr_storage *addr)
{
    memset(addr, 0, sizeof(*addr));
    if (id->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)addr;
        in->sin_family = AF_INET;
        in->sin_port = htons(id->port);
        memcpy(&in->sin_addr, id->addr, 4);
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(id->port);
    memcpy(&in6->sin6_addr, id->addr, 16);
    return sizeof(*in6);
}

cclResult_t ccl_id_listen(struct ccl_wire_id *id, int *out)
{
    struct sockaddr_storage addr;
    socklen_t len = id_to_sockaddr(id, &addr);
    char where[96];
    ccl_id_describe(id, where, sizeof(where));
    int fd = ccl_fds_socket(id->family);
    CCL_CHECK(fd >= 0, cclSystemError, CCL_BOOT, "socket for %s: %s", where, strerror(errno));
    socklen_t got = sizeof(addr);
    if (bind(fd, (struct sockaddr *)&addr, len) != 0 || listen(fd, CCL_WIRE_MAX_RANKS) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &got) != 0) {
        cclResult_t rc = ccl_error_set(cclSystemError, CCL_BOOT, "listen at %s: %s", where, strerror(errno));
        ccl_fds_close(fd);
        return rc;
    }
    /* The port lies at the same place in both address types. */
    id->port = ntohs(((struct sockaddr_in *)&addr)->sin_port);
    *out = fd;
    return cclSuccess;
}

/* NCCL's variable speaks of the network between machines; of this one, any interface will do. */
static cclResult_t choose_address(struct ccl_wire_id *id)
{
    const struct ccl_env *env = ccl_env_get();
    if (env->ifname == NULL && env->nccl_ifname != NULL) {
        if (find_address(env->nccl_ifname, "NCCL_SOCKET_IFNAME", id) == cclSuccess) {
            return cclSuccess;
        }
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "taking lo instead");
    }
    return find_address(env->ifname != NULL ? env->ifname : "lo", "CCL_SOCKET_IFNAME", id);
}

cclResult_t ccl_bootstrap_get_id(cclUniqueId *out)
{
    CCL_CHECK(out != NULL, cclInvalidArgument, CCL_BOOT, "the unique id to fill is NULL");
    const struct ccl_env *env = ccl_env_get();
    struct ccl_wire_id id;
    int fd = -1;
    memset(&id, 0, sizeof(id));
    CCL_TRY(ccl_net_random(id.secret, sizeof(id.secret)));
    CCL_TRY(choose_address(&id));
    CCL_TRY(ccl_id_listen(&id, &fd));
    ccl_id_seal(&id);
    CCL_TRY(ccl_rendezvous_start(fd, &id, (uint64_t)env->init_timeout_s * 1000000000u));
    memset(out, 0, sizeof(*out));
    memcpy(out->internal, &id, sizeof(id));
    return cclSuccess;
}

static bool is_own_address(int fd)
{
    struct sockaddr_storage own, peer;
    socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
    memset(&own, 0, sizeof(own));
    memset(&peer, 0, sizeof(peer));
    return getsockname(fd, (struct sockaddr *)&own, &own_len) == 0 && getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 &&
           own_len == peer_len && memcmp(&own, &peer, own_len) == 0;
}

/* *again: nobody listens there, and the id says that this may be. */
static cclResult_t connect_tcp(const struct ccl_wire_id *id, const char *where, uint64_t deadline_ns, bool *again, int *out)
{
    struct sockaddr_storage addr;
    socklen_t len = id_to_sockaddr(id, &addr);
    int err = 0;
    socklen_t err_len = sizeof(err);
    int fd = ccl_fds_socket(id->family);
    CCL_CHECK(fd >= 0, cclSystemError, CCL_BOOT, "socket for %s: %s", where, strerror(errno));
    if (connect(fd, (struct sockaddr *)&addr, len) != 0) {
        err = errno;
        if (err == EINPROGRESS || err == EINTR) {
            err = ETIMEDOUT;
            if (ccl_net_wait(fd, POLLOUT, deadline_ns) && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len) != 0) {
                err = errno;
            }
        }
    }
    if (err == 0 && is_own_address(fd)) {
        err = ECONNREFUSED; /* a local port that nobody listens at was given to this very socket: it is connected to itself */
    }
    if (err != 0) {
        ccl_fds_close(fd);
        *again = id->early != 0 && err == ECONNREFUSED && !ccl_net_expired(deadline_ns);
        if (*again) {
            return cclSystemError;
        }
        return ccl_error_set(cclSystemError, CCL_BOOT, "connect to %s: %s%s", where, strerror(err),
                             err != ECONNREFUSED ? ""
                             : id->early != 0    ? ": rank 0 has not opened it"
                                                 : ": the unique id was used already, or its process is gone");
    }
    *out = fd;
    return cclSuccess;
}

static bool is_loopback(const struct ccl_wire_id *id)
{
    return id->family == AF_INET ? id->addr[0] == 127 : IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)id->addr);
}

static cclResult_t join(const struct ccl_wire_id *id, const char *where, const struct ccl_wire_claim_body *body, uint64_t deadline_ns, bool *again,
                        struct ccl_wire_answer_body *answer)
{
    int fd = -1, one = 1;
    *again = false;
    CCL_TRY(connect_tcp(id, where, deadline_ns, again, &fd));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    cclResult_t rc = ccl_net_knock(fd, where, id->secret, CCL_WIRE_RENDEZVOUS, body, deadline_ns, answer);
    /* The client hangs up first, with a reset: so neither side is left in TIME_WAIT and many inits do not use up the
     * ports. */
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    ccl_fds_close(fd);
    /* Closed at once: this was the end of the rendezvous before, at the same address. */
    *again = id->early != 0 && rc == cclRemoteError && !ccl_net_expired(deadline_ns);
    return rc;
}

cclResult_t ccl_rendezvous_join(const struct ccl_wire_id *id, const struct ccl_wire_claim_body *body,
                                uint64_t deadline_ns, uint8_t token[16])
{
    struct ccl_wire_answer_body answer;
    char where[96];
    bool again;
    ccl_id_describe(id, where, sizeof(where));
    CCL_CHECK(!is_loopback(id) || memcmp(id->host, body->host, sizeof(id->host)) == 0, cclInvalidUsage, CCL_BOOT,
              "rank %d runs on another machine than the process that made the unique id", body->rank);
    cclResult_t rc = join(id, where, body, deadline_ns, &again, &answer);
    while (again) {
        poll(NULL, 0, EARLY_POLL_MS);
        rc = join(id, where, body, deadline_ns, &again, &answer);
    }
    CCL_TRY(rc);
    if (answer.code != cclSuccess) {
        bool known = answer.code > 0 && answer.code < cclNumResults;
        return ccl_error_set(known ? (cclResult_t)answer.code : cclInternalError, CCL_BOOT, "%s", answer.text);
    }
    memcpy(token, answer.token, 16);
    return cclSuccess;
}
