/* SPDX-License-Identifier: MIT
 *
 * The control memory of the ranks: how it is shared, what happens where devices cannot share, and when it may be freed. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/comm.h"
#include "util/log.h"
#include "util/shm.h"

/* ---- sharing ---- */

/* What a rank tells the others about its control memory. */
struct ctl_card {
    struct ccl_mem_handle handle;
    int32_t refused; /* it could not be exported, or in the second exchange: a peer's could not be mapped */
};

static void drop_ctl(cclComm_t comm)
{
    for (int r = 0; r < comm->n; r++) {
        if (r != comm->rank && comm->peer_ctl[r] != 0) {
            comm->rt->mem_close((void *)comm->peer_ctl[r]);
        }
        comm->peer_ctl[r] = 0;
    }
}

static void map_ctl(cclComm_t comm, struct ctl_card *cards, const int *fds)
{
    struct ctl_card *own = &cards[comm->rank];
    for (int r = 0; r < comm->n; r++) {
        own->refused = own->refused || cards[r].refused;
    }
    for (int r = 0; r < comm->n && !own->refused; r++) {
        void *ctl = NULL;
        if (r != comm->rank) {
            cards[r].handle.fd = fds[r];
            own->refused = comm->rt->mem_import(&cards[r].handle, &ctl) != cclSuccess;
            comm->peer_ctl[r] = (uint64_t)ctl;
        }
    }
}

/* Allocate, export, map. *refused, agreed: some rank could not share; *ctl is allocated all the same. An error is agreed too. */
static cclResult_t try_share(cclComm_t comm, enum ccl_mem_type type, struct ctl_card *cards, int *fds, bool *refused)
{
    struct ctl_card *own = &cards[comm->rank];
    int fd = -1;
    CCL_TRY(ccl_bootstrap_agree(comm->boot, comm->rt->mem_alloc(type, comm->args.lay.bytes, &comm->ctl)));
    *own = (struct ctl_card){.handle = {.fd = -1}};
    own->refused = comm->rt->mem_export(comm->ctl, &own->handle) != cclSuccess;
    fd = own->handle.fd;
    comm->ctl_counted = !own->refused && own->handle.counted;
    cclResult_t rc = ccl_bootstrap_allgather(comm->boot, cards, sizeof(*cards));
    if (rc == cclSuccess) {
        rc = ccl_bootstrap_exchange_fds(comm->boot, &fd, 1, fds);
    }
    if (rc == cclSuccess) {
        map_ctl(comm, cards, fds);
        for (int r = 0; r < comm->n; r++) {
            if (fds[r] >= 0) {
                close(fds[r]);
            }
        }
        rc = ccl_bootstrap_allgather(comm->boot, cards, sizeof(*cards));
    }
    if (fd >= 0) {
        close(fd);
    }
    CCL_TRY(rc);
    *refused = false;
    for (int r = 0; r < comm->n; r++) {
        *refused = *refused || cards[r].refused;
    }
    return cclSuccess;
}

static cclResult_t share(cclComm_t comm, struct ctl_card *cards, int *fds)
{
    bool refused;
    enum ccl_mem_type type = comm->agreed.shared_host ? CCL_MEM_HOST : CCL_MEM_FLAG;
    CCL_TRY(try_share(comm, type, cards, fds, &refused));
    if (refused && type == CCL_MEM_FLAG && !comm->props.is_host) {
        drop_ctl(comm);
        /* All have closed what they could map: it may be freed, counted or not. */
        CCL_TRY(ccl_bootstrap_barrier(comm->boot));
        void *ctl = comm->ctl;
        comm->ctl = NULL;
        comm->rt->mem_free(ctl);
        comm->agreed.shared_host = true;
        CCL_LOG(CCL_LOG_INFO, CCL_INIT, "devices of these %d ranks cannot share memory (peer access or IPC refused): using shared host memory",
                comm->n);
        CCL_TRY(try_share(comm, CCL_MEM_HOST, cards, fds, &refused));
    }
    if (refused) {
        CCL_TRY(ccl_bootstrap_agree(comm->boot, cards[comm->rank].refused ? cclSystemError : cclSuccess));
        return ccl_error_set(cclSystemError, CCL_INIT, "a peer could not map the control memory of rank %d", comm->rank);
    }
    comm->peer_ctl[comm->rank] = (uint64_t)comm->ctl;
    return cclSuccess;
}

cclResult_t ccl_comm_share_ctl(cclComm_t comm)
{
    size_t n = (size_t)comm->n;
    struct ctl_card *cards = calloc(n, sizeof(*cards));
    int *fds = malloc(n * sizeof(*fds));
    cclResult_t rc = cards != NULL && fds != NULL ? cclSuccess
                                                  : ccl_error_set(cclSystemError, CCL_INIT, "out of memory for %d handles", comm->n);
    rc = ccl_bootstrap_agree(comm->boot, rc);
    if (rc == cclSuccess) {
        rc = share(comm, cards, fds);
    }
    free(cards);
    free(fds);
    return rc;
}

/* ---- memory that outlives its communicator ---- */

struct kept {
    struct kept *next;
    const struct ccl_runtime_ops *rt;
    struct ccl_mem_list memory;
    int n, rank;
    uint64_t dead[CCL_MAX_RANKS / 64];
    struct ccl_k_page **page; /* by rank; NULL: never mapped here */
    size_t page_bytes;
};

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept_list;

static bool all_unmapped(const struct kept *k)
{
    for (int r = 0; r < k->n; r++) {
        bool dead = (k->dead[r / 64] >> (r % 64) & 1) != 0;
        if (r != k->rank && !dead && (k->page[r] == NULL || __atomic_load_n(&k->page[r]->unmapped, __ATOMIC_ACQUIRE) == 0)) {
            return false;
        }
    }
    return true;
}

static void free_kept(struct kept *k)
{
    for (size_t i = 0; i < k->memory.count; i++) {
        k->rt->mem_free(k->memory.ptr[i]);
    }
    for (int r = 0; r < k->n; r++) {
        ccl_shm_unmap(k->page[r], k->page_bytes);
    }
    free(k->memory.ptr);
    free(k->page);
    free(k);
}

/* The control memory joins the list, or is freed at once. False: no memory for the list, so it stays until the process ends. */
static bool add_ctl(cclComm_t comm, struct ccl_mem_list *memory)
{
    if (comm->ctl_counted || comm->n == 1 || comm->ctl == NULL) {
        comm->rt->mem_free(comm->ctl);
        return true;
    }
    void **ptr = realloc(memory->ptr, (memory->count + 1) * sizeof(*ptr));
    if (ptr == NULL) {
        return false;
    }
    memory->ptr = ptr;
    memory->ptr[memory->count++] = comm->ctl;
    return true;
}

void ccl_comm_keep(cclComm_t comm, struct ccl_mem_list *memory)
{
    struct kept *k = NULL;
    if (add_ctl(comm, memory) && memory->count > 0 && comm->peer_page != NULL && comm->page != NULL) {
        k = calloc(1, sizeof(*k));
    }
    if (k == NULL) {
        for (int r = 0; r < comm->n && comm->peer_page != NULL; r++) {
            ccl_shm_unmap(comm->peer_page[r], comm->page_bytes);
        }
        free(memory->ptr);
        return;
    }
    *k = (struct kept){.rt = comm->rt, .memory = *memory, .n = comm->n, .rank = comm->rank, .page_bytes = comm->page_bytes};
    for (int i = 0; i < CCL_MAX_RANKS / 64; i++) {
        k->dead[i] = __atomic_load_n(&comm->page->dead[i], __ATOMIC_ACQUIRE);
    }
    k->page = (struct ccl_k_page **)comm->peer_page;
    comm->peer_page = NULL;
    pthread_mutex_lock(&kept_lock);
    k->next = kept_list;
    kept_list = k;
    pthread_mutex_unlock(&kept_lock);
}

void ccl_comm_free_kept(void)
{
    struct kept *done = NULL;
    pthread_mutex_lock(&kept_lock);
    for (struct kept **link = &kept_list; *link != NULL;) {
        struct kept *k = *link;
        if (all_unmapped(k)) {
            *link = k->next;
            k->next = done;
            done = k;
        } else {
            link = &k->next;
        }
    }
    pthread_mutex_unlock(&kept_lock);
    while (done != NULL) {
        struct kept *next = done->next;
        free_kept(done);
        done = next;
    }
}
