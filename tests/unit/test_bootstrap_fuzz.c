/* SPDX-License-Identifier: MIT
 *
 * Proves that garbage, floods, half-open and slow clients at the bootstrap sockets neither stop nor delay the real
 * ranks, and that damaged messages from a rank that knows the secret end in an error, never in a crash or a hang. */
#include "test_bootstrap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bootstrap/boot.h"
#include "bootstrap/fds.h"
#include "bootstrap/net.h"
#include "bootstrap/rendezvous.h"

static uint64_t rng_state;

static uint32_t rng(void)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33);
}

static void rng_fill(void *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)p)[i] = (uint8_t)rng();
    }
}

static int connect_to(const struct ccl_wire_id *id)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(id->port)};
    memcpy(&addr.sin_addr, id->addr, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TEST_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
    return fd;
}

/* Until the other side hangs up; false: it did not within the time. */
static bool closed_within(int fd, int ms)
{
    char buf[256];
    uint64_t deadline = ccl_net_deadline((uint64_t)ms * MS);
    while (ccl_net_wait(fd, POLLIN, deadline)) {
        if (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) <= 0) {
            return true;
        }
    }
    return false;
}

static void send_ignoring(int fd, const void *data, size_t bytes)
{
    ssize_t ignored = send(fd, data, bytes, MSG_NOSIGNAL);
    (void)ignored;
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

/* A gate's own time limit, apart from any rendezvous. */
static bool admit_none(void *ctx, int fd, const struct ccl_wire_claim *claim, const uint8_t *nonce)
{
    (void)fd;
    (void)claim;
    (void)nonce;
    ++*(int *)ctx;
    return false;
}

static void test_slow_client(void)
{
    uint8_t token[16], secret[CCL_SECRET_BYTES];
    struct ccl_gate *gate;
    int fd, admitted = 0, client;
    rng_fill(token, sizeof(token));
    rng_fill(secret, sizeof(secret));
    TEST_EQ(ccl_net_listen(token, &fd), cclSuccess);
    TEST_EQ(ccl_gate_create(fd, secret, CCL_WIRE_STAR, 100 * MS, &gate), cclSuccess);
    TEST_EQ(ccl_net_connect_unix(token, ccl_net_deadline(1000 * MS), &client), cclSuccess);
    send_ignoring(client, token, 5);
    uint64_t t = ccl_now_ns();
    bool closed = false;
    while (!closed && ms_since(t) < 2000) {
        struct pollfd p = {.fd = ccl_gate_fd(gate), .events = POLLIN};
        poll(&p, 1, ccl_net_poll_ms(ccl_gate_deadline(gate)) % 1000);
        ccl_gate_service(gate, admit_none, &admitted);
        closed = closed_within(client, 0);
    }
    TEST_CHECK(closed && ms_since(t) > 80);
    TEST_EQ(admitted, 0);
    ccl_fds_close(client);
    ccl_gate_destroy(gate);
}

/* Claims at a gate for stars, from a process of its own. */
struct knocker {
    uint8_t token[16], secret[CCL_SECRET_BYTES];
    enum ccl_wire_purpose purpose;
    uid_t uid;
    int want_admitted;
};

static void test_gate_claim(const struct knocker *k)
{
    struct ccl_gate *gate;
    int admitted = 0, status = 0;
    pid_t done = 0;
    TEST_EQ(ccl_gate_open_star(k->token, k->secret, &gate), cclSuccess);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct ccl_wire_claim_body body = {.rank = 1, .nranks = 2};
        struct ccl_wire_answer_body answer;
        int fd = -1, bad = k->uid != geteuid() && setresuid(k->uid, k->uid, k->uid) != 0;
        bad |= ccl_net_connect_unix(k->token, ccl_net_deadline(2000 * MS), &fd) != cclSuccess;
        /* Admitted or not, this gate answers nobody. */
        bad |= ccl_net_knock(fd, "gate", k->secret, k->purpose, &body, ccl_net_deadline(2000 * MS), &answer) !=
               cclRemoteError;
        _exit(bad);
    }
    for (int i = 0; i < 300 && done == 0; i++) {
        struct pollfd p = {.fd = ccl_gate_fd(gate), .events = POLLIN};
        poll(&p, 1, 10);
        ccl_gate_service(gate, admit_none, &admitted);
        done = waitpid(pid, &status, WNOHANG);
    }
    TEST_EQ(done, pid);
    TEST_EQ(status, 0);
    TEST_EQ(admitted, k->want_admitted);
    ccl_gate_destroy(gate);
}

static void test_gate_claims(void)
{
    struct knocker k = {.purpose = CCL_WIRE_STAR, .uid = geteuid(), .want_admitted = 1};
    rng_fill(k.token, sizeof(k.token));
    rng_fill(k.secret, sizeof(k.secret));
    test_gate_claim(&k);
    k.want_admitted = 0;
    k.purpose = CCL_WIRE_RENDEZVOUS; /* a claim made for the other kind of connection */
    test_gate_claim(&k);
    k.purpose = CCL_WIRE_STAR;
    if (geteuid() == 0) {
        k.uid = 65534; /* another user, who even knows the secret */
        test_gate_claim(&k);
    } else {
        printf("not root: a client of another user was not tried\n");
    }
}

/* Somebody else listens at the address of the id: it cannot prove the secret, so what it says is not believed. */
static void *impostor(void *arg)
{
    int fd = *(int *)arg;
    struct ccl_wire_hello hello = {.magic = CCL_WIRE_MAGIC, .wire = CCL_WIRE_VERSION};
    struct ccl_wire_claim claim;
    struct ccl_wire_answer answer;
    size_t done = 0;
    memset(&answer, 0, sizeof(answer));
    send_ignoring(fd, &hello, sizeof(hello));
    TEST_EQ(ccl_net_read(fd, &claim, sizeof(claim), &done, ccl_net_deadline(2000 * MS)), 0);
    memcpy(answer.mac, claim.mac, sizeof(answer.mac)); /* the one proof it has seen, thrown back */
    send_ignoring(fd, &answer, sizeof(answer));
    return NULL;
}

static void test_impostor(void)
{
    int fds[2];
    pthread_t thread;
    uint8_t secret[CCL_SECRET_BYTES];
    struct ccl_wire_claim_body body = {.rank = 1, .nranks = 2};
    struct ccl_wire_answer_body answer;
    rng_fill(secret, sizeof(secret));
    TEST_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pthread_create(&thread, NULL, impostor, &fds[1]);
    TEST_EQ(ccl_net_knock(fds[0], "x", secret, CCL_WIRE_RENDEZVOUS, &body, ccl_net_deadline(2000 * MS), &answer),
            cclSystemError);
    TEST_CHECK(strstr(ccl_error_last(), "does not know the secret") != NULL);
    pthread_join(thread, NULL);
    close(fds[0]);
    close(fds[1]);
}

/* ---- damaged frames inside the star ---- */

struct pair {
    struct ccl_bootstrap *boot[2];
    uint8_t token[16], secret[CCL_SECRET_BYTES];
    struct ccl_gate *gate;
};

static void *pair_other(void *arg)
{
    struct pair *p = arg;
    uint64_t deadline = ccl_net_deadline(2000 * MS);
    cclResult_t rc = ccl_star_create(1, 2, 200 * MS, deadline, p->secret, p->token, NULL, &p->boot[1]);
    return rc == cclSuccess ? NULL : p;
}

static bool pair_init(struct pair *p)
{
    pthread_t other;
    void *bad;
    memset(p, 0, sizeof(*p));
    rng_fill(p->token, sizeof(p->token));
    rng_fill(p->secret, sizeof(p->secret));
    TEST_EQ(ccl_gate_open_star(p->token, p->secret, &p->gate), cclSuccess);
    pthread_create(&other, NULL, pair_other, p);
    /* Garbage at the star's socket as well. */
    int fds[3];
    for (int i = 0; i < 3; i++) {
        uint8_t junk[300];
        rng_fill(junk, sizeof(junk));
        TEST_EQ(ccl_net_connect_unix(p->token, ccl_net_deadline(2000 * MS), &fds[i]), cclSuccess);
        send_ignoring(fds[i], junk, rng() % sizeof(junk));
    }
    cclResult_t rc =
        ccl_star_create(0, 2, 200 * MS, ccl_net_deadline(2000 * MS), p->secret, p->token, p->gate, &p->boot[0]);
    pthread_join(other, &bad);
    for (int i = 0; i < 3; i++) {
        ccl_fds_close(fds[i]);
    }
    TEST_EQ(rc, cclSuccess);
    TEST_CHECK(bad == NULL);
    return rc == cclSuccess && bad == NULL;
}

static cclResult_t some_exchange(struct ccl_bootstrap *boot, int kind)
{
    uint8_t data[2 * 64] = {0};
    int fds[2] = {0, -1}, out[4];
    switch (kind) {
    case 0: return ccl_bootstrap_barrier(boot);
    case 1: return ccl_bootstrap_allgather(boot, data, 64);
    case 2: return ccl_bootstrap_agree(boot, cclSuccess);
    default: return ccl_bootstrap_exchange_fds(boot, fds, 2, out);
    }
}

/* The frame that belongs there with some fields replaced, then junk. */
static void send_damaged(int fd, struct ccl_wire_frame frame)
{
    static const uint32_t odd[] = {0, 1, 2, 7, 8, 64, 511, 512, 4096, 0x7fffffff, 0x80000000u, 0xffffffffu};
    uint8_t junk[2048];
    for (uint32_t fields = 1 + rng() % 3; fields > 0; fields--) {
        uint32_t value = odd[rng() % CCL_ARRAY_LEN(odd)];
        switch (rng() % 7) {
        case 0: frame.magic = value; break;
        case 1: frame.type = (uint16_t)value; break;
        case 2: frame.op = (uint16_t)value; break;
        case 3: frame.seq = value; break;
        case 4:
            frame.code = (int32_t)value;
            frame.bytes = odd[rng() % CCL_ARRAY_LEN(odd)]; /* of the text */
            break;
        case 5: frame.bytes = value; break;
        default: frame.nfds = value; break;
        }
    }
    rng_fill(junk, sizeof(junk));
    send_ignoring(fd, &frame, sizeof(frame));
    send_ignoring(fd, junk, rng() % sizeof(junk));
    shutdown(fd, SHUT_WR); /* nothing more comes: no exchange may wait for its deadline */
}

static void test_damaged_frames(void)
{
    static const enum ccl_wire_op ops[] = {CCL_OP_BARRIER, CCL_OP_ALLGATHER, CCL_OP_AGREE, CCL_OP_FDS};
    static const uint32_t sizes[] = {0, 64, 0, 2};
    uint64_t t = ccl_now_ns();
    int failures = 0, before = count_fds(), rounds = 600;
    for (int i = 0; i < rounds; i++) {
        struct pair p;
        int kind = (int)(rng() % 4), victim = i % 2;
        if (!pair_init(&p)) {
            return;
        }
        struct ccl_wire_frame f =
            ccl_boot_frame(p.boot[1 - victim], victim == 0 ? CCL_WIRE_PUT : CCL_WIRE_RESULT, ops[kind]);
        f.bytes = victim == 0 ? sizes[kind] : 2 * sizes[kind];
        send_damaged(victim == 0 ? p.boot[1]->root_fd : p.boot[0]->peers[1].fd, f);
        cclResult_t rc = some_exchange(p.boot[victim], kind);
        failures += rc != cclSuccess;
        /* One error, which stays; an exchange that the damage did not touch may succeed, the next one sees the end. */
        TEST_CHECK(ccl_bootstrap_barrier(p.boot[victim]) != cclSuccess);
        ccl_bootstrap_destroy(p.boot[0]);
        ccl_bootstrap_destroy(p.boot[1]);
    }
    printf("%d damaged frames: %d failures, %.0f ms\n", rounds, failures, ms_since(t));
    TEST_CHECK(failures > rounds / 2);
    TEST_EQ(count_fds(), before);
}

static int count_lines(int fd, const char *part)
{
    int n = 0;
    char line[2048];
    FILE *f = fdopen(dup(fd), "r");
    rewind(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        n += strstr(line, part) != NULL && strstr(line, " warn boot: ") != NULL;
    }
    fclose(f);
    return n;
}

int main(int argc, char **argv)
{
    uint64_t t = ccl_now_ns();
    char path[64];
    int log = memfd_create("log", MFD_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", log);
    setenv("CCL_DEBUG", "warn", 1);
    setenv("CCL_DEBUG_FILE", path, 1);
    rng_state = argc > 1 ? strtoull(argv[1], NULL, 0) : t;
    printf("seed %llu\n", (unsigned long long)rng_state);
    test_gate_claims(); /* forks before this process has threads */
    test_impostor();
    test_slow_client();
    test_damaged_frames();
    test_garbage();
    test_flood();
    test_mad_claims();
    TEST_CHECK(count_lines(log, "too slow after 5 of") == 1);
    TEST_CHECK(count_lines(log, "it does not know the secret after") > 50);
    TEST_CHECK(count_lines(log, "too many clients after 0 of") > 100);
    printf("in all: %.0f ms\n", ms_since(t));
    return test_result();
}
