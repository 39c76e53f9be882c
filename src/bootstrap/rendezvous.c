/* SPDX-License-Identifier: MIT
 *
 * The root thread. It is in one of three states: collecting; failed, where it gives the same error to those that come
 * late for a while; done, where it waits shortly for the clients to hang up. It is alone in touching its object, and
 * holds ccl_fds_lock except in poll. All objects hang in a list, so that they are not lost memory in a forked child, where the
 * thread does not exist. */
#include "bootstrap/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/fds.h"
#include "bootstrap/gate.h"
#include "bootstrap/net.h"
#include "util/log.h"

#define LATE_NS 10000000000u   /* after a failure */
#define HANG_UP_NS 1000000000u /* after the last answer */

struct guest {
    int fd; /* -1: hung up */
    bool answered;
    int rank;
    int pid;
    uint64_t deadline_ns;
    uint8_t server_nonce[CCL_NONCE_BYTES], client_nonce[CCL_NONCE_BYTES];
};

struct root {
    struct root *next, **link;
    struct ccl_wire_id id;
    struct ccl_gate *gate; /* NULL: nobody else may come */
    uint64_t deadline_ns;
    int nranks;     /* 0: nobody has come */
    int first_rank; /* who said so */
    struct guest *guests;
    struct pollfd *polls; /* guests and the gate */
    int num_guests, max_guests, answered;
    bool decided;
    struct ccl_wire_answer_body answer;
};

static struct root *roots; /* under ccl_fds_lock */

static void decide(struct root *root, cclResult_t code, const char *fmt, ...) CCL_PRINTF(3, 4);

/* The first verdict holds. */
static void decide(struct root *root, cclResult_t code, const char *fmt, ...)
{
    if (root->decided) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(root->answer.text, sizeof(root->answer.text), fmt, ap);
    va_end(ap);
    root->answer.code = code;
    root->decided = true;
    if (code != cclSuccess) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "rendezvous failed: %s", root->answer.text);
    }
}

static void check_guest(struct root *root, const struct ccl_wire_claim_body *claim)
{
    bool exists =
        claim->nranks >= 1 && claim->nranks <= CCL_WIRE_MAX_RANKS && claim->rank >= 0 && claim->rank < claim->nranks;
    if (root->nranks == 0) {
        root->nranks = exists ? claim->nranks : CCL_WIRE_MAX_RANKS;
        root->first_rank = claim->rank;
    }
    if (claim->version != root->id.version) {
        decide(root, cclInvalidUsage, "rank %d has libccl version %u, the unique id was made by version %u",
               claim->rank, claim->version, root->id.version);
    } else if (memcmp(claim->host, root->id.host, sizeof(claim->host)) != 0) {
        decide(root, cclInvalidUsage, "rank %d runs on another machine than the process that made the unique id",
               claim->rank);
    } else if (!exists) {
        decide(root, cclInvalidUsage, "rank %d of %d does not exist", claim->rank, claim->nranks);
    } else if (claim->nranks != root->nranks) {
        decide(root, cclInvalidUsage, "rank %d was given %d ranks, rank %d was given %d", claim->rank, claim->nranks,
               root->first_rank, root->nranks);
    }
    for (int i = 0; i < root->num_guests && !root->decided; i++) {
        if (root->guests[i].rank == claim->rank) {
            decide(root, cclInvalidUsage, "rank %d of %d came twice, from process %d and from process %d", claim->rank,
                   root->nranks, root->guests[i].pid, claim->pid);
        }
    }
}

static void answer_guest(struct root *root, struct guest *g)
{
    struct ccl_wire_answer answer;
    memset(&answer, 0, sizeof(answer));
    memcpy(&answer.body, &root->answer, sizeof(answer.body));
    ccl_net_answer_mac(root->id.secret, CCL_WIRE_RENDEZVOUS, g->server_nonce, g->client_nonce, &answer.body,
                       answer.mac);
    /* The send buffer is empty, so this does not block; a guest that is gone needs no answer. */
    if (send(g->fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(answer)) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "rank %d takes no answer: %s", g->rank, strerror(errno));
    }
    g->answered = true;
    root->answered++;
}

static void answer_all(struct root *root)
{
    for (int i = 0; i < root->num_guests; i++) {
        if (root->guests[i].fd >= 0 && !root->guests[i].answered) {
            answer_guest(root, &root->guests[i]);
        }
    }
}

static bool admit(void *ctx, int fd, const struct ccl_wire_claim *claim, const uint8_t *server_nonce)
{
    struct root *root = ctx;
    if (root->decided && root->answer.code == cclSuccess) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "rank %d of process %d dropped: all %d ranks have come", claim->body.rank,
                claim->body.pid, root->nranks);
        return false;
    }
    if (root->num_guests == root->max_guests) {
        int max = root->max_guests == 0 ? 16 : 2 * root->max_guests;
        struct guest *guests = realloc(root->guests, (size_t)max * sizeof(*guests));
        root->guests = guests != NULL ? guests : root->guests;
        struct pollfd *polls = realloc(root->polls, ((size_t)max + 1) * sizeof(*polls));
        root->polls = polls != NULL ? polls : root->polls;
        if (guests == NULL || polls == NULL) {
            decide(root, cclSystemError, "out of memory for %d ranks in the process that made the unique id", max);
            return false;
        }
        root->max_guests = max;
    }
    check_guest(root, &claim->body);
    struct guest *g = &root->guests[root->num_guests++];
    g->fd = fd;
    g->answered = false;
    g->rank = claim->body.rank;
    g->pid = claim->body.pid;
    g->deadline_ns = ccl_net_deadline(claim->body.timeout_ns);
    memcpy(g->server_nonce, server_nonce, sizeof(g->server_nonce));
    memcpy(g->client_nonce, claim->nonce, sizeof(g->client_nonce));
    if (claim->body.rank == 0) {
        memcpy(root->answer.token, claim->body.token, sizeof(root->answer.token));
    }
    if (!root->decided && root->num_guests == root->nranks) {
        decide(root, cclSuccess, "%s", "");
    }
    return true;
}

static void guest_readable(struct root *root, struct guest *g)
{
    char byte;
    if (recv(g->fd, &byte, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    /* It says nothing more, so this is the end of the connection. */
    ccl_fds_close(g->fd);
    g->fd = -1;
    if (!root->decided) {
        decide(root, cclRemoteError, "rank %d of %d is gone before all ranks had come", g->rank, root->nranks);
    }
}

/* Deadline of the collecting state: that of the most impatient guest, who waits for an answer that names the missing
 * ranks. */
static void check_deadline(struct root *root)
{
    uint64_t now = ccl_now_ns();
    uint64_t deadline = root->num_guests > 0 ? UINT64_MAX : root->deadline_ns;
    const struct guest *first = NULL;
    for (int i = 0; i < root->num_guests; i++) {
        if (root->guests[i].deadline_ns < deadline) {
            first = &root->guests[i];
            deadline = first->deadline_ns;
        }
    }
    root->deadline_ns = deadline;
    if (now < deadline) {
        return;
    }
    if (first == NULL) {
        decide(root, cclSystemError, "no rank came before the deadline");
        return;
    }
    bool *missing = calloc((size_t)root->nranks, sizeof(*missing));
    char list[CCL_WIRE_TEXT - 128] = "some ranks";
    if (missing != NULL) {
        memset(missing, 1, (size_t)root->nranks);
        for (int i = 0; i < root->num_guests; i++) {
            missing[root->guests[i].rank] = false;
        }
        ccl_net_rank_list(list, sizeof(list), missing, root->nranks);
        free(missing);
    }
    decide(root, cclSystemError, "%s of %d did not come before the deadline of rank %d", list, root->nranks,
           first->rank);
}

static void poll_once(struct root *root)
{
    uint64_t deadline = root->deadline_ns;
    struct pollfd *p = root->polls;
    int guests = root->num_guests;
    for (int i = 0; i < guests; i++) {
        p[i] = (struct pollfd){.fd = root->guests[i].fd, .events = POLLIN};
    }
    p[guests] = (struct pollfd){.fd = -1};
    if (root->gate != NULL) {
        uint64_t gate_deadline = ccl_gate_deadline(root->gate);
        p[guests] = (struct pollfd){.fd = ccl_gate_fd(root->gate), .events = POLLIN};
        deadline = gate_deadline < deadline ? gate_deadline : deadline;
    }
    ccl_fds_unlock();
    int ready = poll(p, (nfds_t)guests + 1, ccl_net_poll_ms(deadline));
    ccl_fds_lock();
    if (ready < 0) {
        return;
    }
    for (int i = 0; i < guests; i++) {
        if (p[i].revents != 0) {
            guest_readable(root, &root->guests[i]);
        }
    }
    if (root->gate != NULL) {
        ccl_gate_service(root->gate, admit, root); /* may move root->polls */
    }
}

static bool all_hung_up(const struct root *root)
{
    for (int i = 0; i < root->num_guests; i++) {
        if (root->guests[i].fd >= 0) {
            return false;
        }
    }
    return true;
}

/* Under ccl_fds_lock. */
static void root_free(struct root *root)
{
    if (root->link != NULL) {
        *root->link = root->next;
        if (root->next != NULL) {
            root->next->link = root->link;
        }
    }
    for (int i = 0; i < root->num_guests; i++) {
        ccl_fds_close(root->guests[i].fd);
    }
    ccl_gate_destroy(root->gate);
    free(root->guests);
    free(root->polls);
    free(root);
}

static void *root_main(void *arg)
{
    struct root *root = arg;
    ccl_fds_lock();
    while (!root->decided) {
        poll_once(root);
        if (!root->decided) {
            check_deadline(root);
        }
    }
    bool failed = root->answer.code != cclSuccess;
    if (!failed || root->num_guests == 0) {
        ccl_gate_destroy(root->gate);
        root->gate = NULL;
    }
    answer_all(root);
    root->deadline_ns = ccl_net_deadline(failed ? LATE_NS : HANG_UP_NS);
    while (ccl_now_ns() < root->deadline_ns && !(root->answered >= root->nranks && all_hung_up(root))) {
        poll_once(root);
        answer_all(root); /* those that came late */
    }
    root_free(root);
    ccl_fds_unlock();
    return NULL;
}

static cclResult_t start_thread(struct root *root)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the application */
    int err = pthread_create(&thread, NULL, root_main, root);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CCL_CHECK(err == 0, cclSystemError, CCL_BOOT, "thread for the rendezvous: %s", strerror(err));
    pthread_detach(thread);
    return cclSuccess;
}

cclResult_t ccl_rendezvous_start(int listen_fd, const struct ccl_wire_id *id, uint64_t timeout_ns)
{
    struct root *root = calloc(1, sizeof(*root));
    if (root == NULL || (root->polls = calloc(1, sizeof(*root->polls))) == NULL) {
        free(root);
        ccl_fds_close(listen_fd);
        return ccl_error_set(cclSystemError, CCL_BOOT, "out of memory for the rendezvous");
    }
    root->id = *id;
    root->deadline_ns = ccl_net_deadline(timeout_ns);
    cclResult_t rc = ccl_gate_create(listen_fd, id->secret, CCL_WIRE_RENDEZVOUS, CCL_GATE_CLAIM_NS, &root->gate);
    if (rc == cclSuccess) {
        ccl_fds_lock();
        root->next = roots;
        root->link = &roots;
        if (roots != NULL) {
            roots->link = &root->next;
        }
        roots = root;
        ccl_fds_unlock();
        rc = start_thread(root);
    }
    if (rc != cclSuccess) {
        ccl_fds_lock();
        root_free(root);
        ccl_fds_unlock();
    }
    return rc;
}
