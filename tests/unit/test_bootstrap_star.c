/* SPDX-License-Identifier: MIT
 *
 * Proves that only clients that know the secret, have the right user and are quick pass the gate of the star, that a
 * server must prove itself too, and that damaged messages from a rank that knows the secret end in an error, never in a
 * crash or a hang. */
#include "test_bootstrap_hostile.h"

#include "bootstrap/boot.h"
#include "bootstrap/fds.h"

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

int main(int argc, char **argv)
{
    int log = log_to_memory();
    rng_seed(argc > 1 ? argv[1] : NULL);
    test_gate_claims(); /* forks before this process has threads */
    test_impostor();
    test_slow_client();
    test_damaged_frames();
    TEST_CHECK(count_lines(log, "too slow after 5 of") == 1);
    TEST_CHECK(count_lines(log, "dropped at the bootstrap socket: ") > 100);
    return test_result();
}
