/* SPDX-License-Identifier: MIT
 *
 * Ids that need no messenger: a rendezvous at an address which all ranks know (NCCL_COMM_ID); and the lists that name network interfaces. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/net.h"
#include "bootstrap/rendezvous.h"
#include "util/config.h"
#include "util/log.h"

#define LISTEN_TRIES 200 /* the rendezvous of the communicator before may still be closing */
#define LISTEN_PAUSE_MS 10

bool ccl_net_name_listed(const char *list, const char *name)
{
    bool invert = list[0] == '^', listed = false;
    list += invert;
    bool whole = list[0] == '=';
    list += whole;
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        bool same = strncmp(name, list, len) == 0 && (!whole || name[len] == '\0');
        listed = listed || (len > 0 && same);
        list += len;
        list += *list == ',';
    }
    return listed != invert;
}

/* "host:port" or "[v6]:port". */
static cclResult_t parse_address(const char *where, struct ccl_wire_id *id)
{
    char host[256];
    const char *start = where, *colon = strrchr(where, ':');
    size_t len = colon != NULL ? (size_t)(colon - where) : 0;
    if (len >= 2 && where[0] == '[' && where[len - 1] == ']') {
        start++;
        len -= 2;
    }
    CCL_CHECK(len > 0 && len < sizeof(host), cclInvalidArgument, CCL_BOOT, "%s is no address of the form host:port", where);
    memcpy(host, start, len);
    host[len] = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int err = getaddrinfo(host, colon + 1, &hints, &found);
    CCL_CHECK(err == 0, cclInvalidArgument, CCL_BOOT, "%s: %s", where, gai_strerror(err));
    for (const struct addrinfo *a = found; a != NULL && id->port == 0; a = a->ai_next) {
        if (a->ai_family == AF_INET) {
            const struct sockaddr_in *in = (const struct sockaddr_in *)a->ai_addr;
            id->family = AF_INET;
            id->port = ntohs(in->sin_port);
            memcpy(id->addr, &in->sin_addr, sizeof(in->sin_addr));
        } else if (a->ai_family == AF_INET6) {
            const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a->ai_addr;
            id->family = AF_INET6;
            id->port = ntohs(in6->sin6_port);
            memcpy(id->addr, &in6->sin6_addr, sizeof(in6->sin6_addr));
        }
    }
    freeaddrinfo(found);
    CCL_CHECK(id->port != 0, cclInvalidArgument, CCL_BOOT, "%s names no port", where);
    return cclSuccess;
}

cclResult_t ccl_bootstrap_id_at(const char *where, bool serve, cclUniqueId *out)
{
    static const uint8_t no_key[CCL_SECRET_BYTES];
    struct ccl_wire_id id;
    int fd = -1;
    memset(&id, 0, sizeof(id));
    CCL_TRY(parse_address(where, &id));
    id.early = 1;
    ccl_siphash(no_key, where, strlen(where), id.secret);
    ccl_id_seal(&id);
    if (serve) {
        cclResult_t rc = ccl_id_listen(&id, &fd);
        for (int i = 0; i < LISTEN_TRIES && rc != cclSuccess && errno == EADDRINUSE; i++) {
            poll(NULL, 0, LISTEN_PAUSE_MS);
            rc = ccl_id_listen(&id, &fd);
        }
        CCL_TRY(rc);
        CCL_TRY(ccl_rendezvous_start(fd, &id, (uint64_t)ccl_env_get()->init_timeout_s * 1000000000u));
    }
    memset(out, 0, sizeof(*out));
    memcpy(out->internal, &id, sizeof(id));
    return cclSuccess;
}
