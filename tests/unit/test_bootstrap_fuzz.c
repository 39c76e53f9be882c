/* SPDX-License-Identifier: MIT
 *
 * Proves that garbage, floods, half-open and slow clients at the bootstrap sockets neither stop nor delay the real
 * ranks, and that damaged messages from a rank that knows the secret end in an error, never in a crash or a hang. */
#include "test_bootstrap_hostile.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "bootstrap/net.h"
#include "bootstrap/rendezvous.h"

static int connect_to(const struct ccl_wire_id *id)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(id->port)};
    memcpy(&addr.sin_addr, id->addr, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TEST_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
    return fd;
}

/* One hostile connection of a random kind; returns it still open. */
static int attack(const struct ccl_wire_id *id)
{
    static uint8_t junk[1 << 16];
    struct ccl_wire_claim claim;
    struct ccl_wire_hello hello;
    struct linger hard = {.l_onoff = 1};
    uint8_t wrong[CCL_SECRET_BYTES];
    size_t done = 0;
    int fd = connect_to(id);
    rng_fill(junk, 512);
    switch (rng() % 7) {
    case 0: /* idle */ break;
    case 1: /* half a claim */ send_ignoring(fd, junk, rng() % sizeof(claim)); break;
    case 2: /* a lot */ send_ignoring(fd, junk, sizeof(junk)); break;
    case 3: /* gone at once */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        close(fd);
        return -1;
    case 4: /* half closed */ shutdown(fd, SHUT_WR); break;
    default: /* a claim that is right but for the secret, or for the nonce */
        memset(&claim, 0, sizeof(claim));
        claim.body.nranks = 4;
        claim.body.version = CCL_VERSION;
        memcpy(claim.body.host, id->host, sizeof(claim.body.host));
        memcpy(wrong, id->secret, sizeof(wrong));
        wrong[rng() % sizeof(wrong)] ^= 1;
        TEST_EQ(ccl_net_read(fd, &hello, sizeof(hello), &done, ccl_net_deadline(2000 * MS)), 0);
        if (rng() % 2 != 0) {
            hello.nonce[rng() % sizeof(hello.nonce)] ^= 1;
            memcpy(wrong, id->secret, sizeof(wrong));
        }
        ccl_net_claim_mac(wrong, CCL_WIRE_RENDEZVOUS, hello.nonce, &claim, claim.mac);
        send_ignoring(fd, &claim, sizeof(claim));
        TEST_CHECK(closed_within(fd, 2000));
    }
    return fd;
}

static void body_ok(struct member *m, struct ccl_bootstrap *boot)
{
    M_EQ(m, m->rc, cclSuccess);
    if (boot != NULL) {
        M_EQ(m, ccl_bootstrap_barrier(boot), cclSuccess);
    }
}

static void test_garbage(void)
{
    static struct world w;
    int fds[300];
    double worst = 0;
    for (int round = 0; round < 20; round++) {
        struct ccl_wire_id id;
        world_init(&w, 4, body_ok, NULL, NULL);
        world_new_id(&w);
        TEST_EQ(ccl_id_decode(&w.members[0].id, &id), cclSuccess);
        int n = 0;
        for (int i = 0; i < 40; i++) {
            fds[n++] = attack(&id);
            if (i == 10 || i == 20) {
                threads_start(&w, i == 10 ? 0 : 1, i == 10 ? 1 : 3); /* ranks come amid the attack */
            }
        }
        uint64_t t = ccl_now_ns();
        threads_start(&w, 3, 4);
        threads_join(&w, 0, 4);
        worst = ms_since(t) > worst ? ms_since(t) : worst;
        for (int i = 0; i < n; i++) {
            /* The listener goes with everyone who hangs on to it. */
            TEST_CHECK(fds[i] < 0 || closed_within(fds[i], 2000));
            if (fds[i] >= 0) {
                close(fds[i]);
            }
        }
    }
    printf("last rank under attack to end: at most %.2f ms\n", worst);
    TEST_CHECK(worst < 1000);
}

static void test_flood(void)
{
    static struct world w;
    static int fds[700];
    static const int sizes[] = {200, 700};
    for (int s = 0; s < 2; s++) {
        struct ccl_wire_id id;
        world_init(&w, 8, body_ok, NULL, NULL);
        world_new_id(&w);
        TEST_EQ(ccl_id_decode(&w.members[0].id, &id), cclSuccess);
        for (int i = 0; i < sizes[s]; i++) {
            fds[i] = connect_to(&id);
        }
        /* One too many pushes out the oldest. */
        TEST_EQ(closed_within(fds[0], s == 0 ? 0 : 2000), s == 1);
        uint64_t t = ccl_now_ns();
        world_threads(&w);
        printf("8 ranks among %d idle connections: %.2f ms\n", sizes[s], ms_since(t));
        TEST_CHECK(ms_since(t) < 1000);
        for (int i = 0; i < sizes[s]; i++) {
            TEST_CHECK(closed_within(fds[i], 2000));
            close(fds[i]);
        }
    }
}

/* A client that knows the secret but talks nonsense: every real rank gets an error, soon. */
static void test_mad_claims(void)
{
    static struct world w;
    static const struct {
        int32_t rank, nranks;
        uint32_t version;
        int same_host;
        const char *text;
    } cases[] = {
        {-1, 4, CCL_VERSION, 1, "rank -1 of 4 does not exist"},
        {4, 4, CCL_VERSION, 1, "rank 4 of 4 does not exist"},
        {-2147483647 - 1, 2147483647, CCL_VERSION, 1, "of 2147483647 does not exist"},
        {0, 0, CCL_VERSION, 1, "rank 0 of 0 does not exist"},
        {3, 4, CCL_VERSION + 1, 1, "rank 3 has libccl version"},
        {3, 4, CCL_VERSION, 0, "rank 3 runs on another machine"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(cases); i++) {
        struct ccl_wire_id id;
        struct ccl_wire_claim_body body = {
            .rank = cases[i].rank, .nranks = cases[i].nranks, .version = cases[i].version};
        struct ccl_wire_answer_body answer;
        world_init(&w, 4, NULL, NULL, NULL);
        world_new_id(&w);
        TEST_EQ(ccl_id_decode(&w.members[0].id, &id), cclSuccess);
        memcpy(body.host, id.host, sizeof(body.host));
        body.host[0] ^= !cases[i].same_host;
        int fd = connect_to(&id);
        TEST_EQ(ccl_net_knock(fd, "root", id.secret, CCL_WIRE_RENDEZVOUS, &body, ccl_net_deadline(3000 * MS), &answer),
                cclSuccess);
        TEST_EQ(answer.code, cclInvalidUsage);
        TEST_CHECK(strstr(answer.text, cases[i].text) != NULL);
        close(fd);
        struct ccl_bootstrap *boot;
        TEST_EQ(ccl_bootstrap_create(&w.members[0].id, 0, 4, 3000 * MS, &boot), cclInvalidUsage);
    }
}

int main(int argc, char **argv)
{
    uint64_t t = ccl_now_ns();
    int log = log_to_memory();
    rng_seed(argc > 1 ? argv[1] : NULL);
    test_garbage();
    test_flood();
    test_mad_claims();
    TEST_CHECK(count_lines(log, "it does not know the secret after") > 50);
    TEST_CHECK(count_lines(log, "too many clients after 0 of") > 100);
    printf("in all: %.0f ms\n", ms_since(t));
    return test_result();
}
