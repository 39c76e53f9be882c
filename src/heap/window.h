/* SPDX-License-Identifier: MIT
 *
 * What the files of the heap share. The heaps of one rank that descend from one root communicator by split are a
 * family: one space of window ids, one list of own windows (chunks, registrations), one list of imports (peers'
 * registrations mapped here), one lock. A heap sees the windows made for it and for its ancestors; ranks are kept as
 * ranks of the root ("family ranks"), so that every heap of the family can translate them.
 *
 * Who does what. The API thread of a communicator makes and takes away its chunks and own registrations; the monitor
 * thread makes and takes away imports. Both change the lists and the device tables of all heaps that see the window,
 * under the lock. Changes of own windows also bump family->version; each heap's own API thread notices that in
 * ccl_heap_find and rebuilds its sorted array of views under the lock. So nobody but the own API thread touches a
 * heap's views, and find takes no lock as long as nothing has changed. A window leaves the lists before its memory
 * is unmapped. No lock is held during bootstrap calls, imports, exports, unmapping and sends. */
#ifndef CCL_HEAP_WINDOW_H
#define CCL_HEAP_WINDOW_H

#include <pthread.h>

#include "args.h"
#include "heap/alloc.h"
#include "heap/heap.h"
#include "util/log.h"

/* What a peer has made of a registration of mine. */
enum ccl_peer_state {
    CCL_PEER_NONE, /* was not told: gone before, or the message could not be sent */
    CCL_PEER_SENT, /* told, no answer yet */
    CCL_PEER_MAPPED,
    CCL_PEER_FAILED,  /* could not map it */
    CCL_PEER_CLOSING, /* told to unmap, no answer yet */
    CCL_PEER_CLOSED,  /* has unmapped it, or is dead */
    CCL_PEER_GONE     /* left without an answer: may hold it in a child's table until that child ends */
};

enum ccl_window_state {
    CCL_WINDOW_NEW,     /* in the tables, not yet agreed */
    CCL_WINDOW_VISIBLE, /* in the tables, and found by ccl_heap_find */
    CCL_WINDOW_HIDDEN   /* in no table and not found: being taken away */
};

/* One call of ccl_heap_register. */
struct ccl_range {
    struct ccl_range *next;
    uint64_t cookie; /* the handle: a number that is never given twice, so a stale handle is always noticed */
    char *buff;
    size_t bytes;
};

struct ccl_window {
    struct ccl_window *next; /* in the family, by id */
    uint64_t home;           /* serial of the heap it was made for */
    uint32_t id;
    enum ccl_window_state state;
    bool counted; /* chunk: peers' mappings keep the memory alive */
    bool pinned; /* peers may still store into it after an unclean destroy: own memory is never freed */
    char *base;
    size_t bytes;
    /* Chunk, else NULL: */
    struct ccl_alloc *blocks;
    uint64_t *bases; /* by family rank, as mapped here; 0 = not a rank of home */
    /* Registration: */
    struct ccl_range *ranges;
    uint8_t *peers; /* enum ccl_peer_state by family rank */
    bool waited;    /* the API thread waits for its acknowledgements and will free it */
};

/* A registration of a peer, mapped here. */
struct ccl_import {
    struct ccl_import *next;
    uint64_t home;
    int owner; /* family rank */
    uint32_t id;
    void *base;
};

struct ccl_family {
    pthread_mutex_t lock;
    pthread_cond_t answered; /* a peer acknowledged, left or died */
    uint64_t version;        /* atomic; bumped under the lock when the set of visible own windows changes */
    const struct ccl_runtime_ops *rt;
    int refs; /* heaps, half-built ones included */
    int rank, size;
    uint64_t used[CCL_WINDOWS / 64]; /* ids of this rank; bit 0 is always set */
    struct ccl_heap *heaps;
    struct ccl_window *windows;
    struct ccl_import *imports;
    bool was_split;
};

/* One entry of a heap's sorted array: a copy, so that it stays readable whatever happens to the window. */
struct ccl_view {
    uintptr_t base;
    size_t bytes;
    uint32_t id;
    const uint64_t *bases; /* by rank of the heap; chunks only */
};

struct ccl_heap {
    struct ccl_heap *next; /* in the family */
    struct ccl_family *family;
    const struct ccl_runtime_ops *rt;
    struct ccl_bootstrap *boot;
    struct ccl_monitor_port *port;
    int rank, n;
    int device;
    bool is_host;
    bool left; /* ccl_heap_leave was called: messages are dropped */
    bool shared_host; /* chunks are shared host memory */
    struct ccl_mem_list *kept; /* may be NULL */
    size_t chunk_bytes;
    uint64_t serial;     /* unlike that of any other heap of this process */
    uint64_t *ancestors; /* serials */
    int num_ancestors;
    int *family_rank; /* [n] */
    int *rank_of;     /* [family->size], -1 = no rank of this heap */
    bool *gone;       /* [n] peers that are dead or have left */
    bool *lagging;    /* [n] peers that did not answer a deregistration in time; not waited for until they answer */
    uint64_t last_cookie;
    /* Device table. shadow is what it holds (or will, after a flush) as host memory: on a host device the table
     * itself. */
    uint64_t *table, *shadow;
    struct cclStream *stream; /* NULL on a host device */
    /* Scratch of the collective calls, so that these need no memory between two exchanges. */
    void *cards; /* [n][CCL_CARD_BYTES] */
    int *fds;    /* [n] */
    /* Own API thread only: */
    uint64_t seen; /* family->version that the views show */
    struct ccl_view *views;
    size_t num_views;
    uint64_t *view_bases;
    const struct ccl_view *last;
};

#define CCL_CARD_BYTES 192

/* --- window.c --- */

cclResult_t ccl_family_create(const struct ccl_runtime_ops *rt, int rank, int size, struct ccl_family **out);
void ccl_family_unref(struct ccl_family *family); /* the last one frees it; its lists are empty by then */
bool ccl_heap_sees(const struct ccl_heap *heap, uint64_t home);
/* Below: with the lock held. */
bool ccl_family_id_reserve(struct ccl_family *family, uint32_t id); /* false: in use */
void ccl_family_id_release(struct ccl_family *family, uint32_t id);
void ccl_window_insert(struct ccl_family *family, struct ccl_window *w);
void ccl_window_unlink(struct ccl_family *family, struct ccl_window *w);
/* Show it to ccl_heap_find, or hide it, in all heaps that see it. */
void ccl_window_set_state(struct ccl_family *family, struct ccl_window *w, enum ccl_window_state state);
/* Rebuild the views if anything changed. Own API thread, without the lock. */
void ccl_heap_refresh(struct ccl_heap *heap);

/* --- table.c: with the lock held, except init and finish --- */

cclResult_t ccl_table_init(struct ccl_heap *heap);
void ccl_table_finish(struct ccl_heap *heap);
/* Store the base of window id of an owner (0: not mapped) into the tables of all heaps that see home and have that
 * owner. */
cclResult_t ccl_table_set(struct ccl_family *family, uint64_t home, int owner, uint32_t id, uint64_t base);
/* The same for all ranks of a chunk. */
cclResult_t ccl_table_set_chunk(struct ccl_family *family, const struct ccl_window *w, bool on);
/* A new heap's table: everything it sees already. */
cclResult_t ccl_table_fill(struct ccl_heap *heap);

/* --- chunk.c --- */

/* Collective. A new chunk of at least bytes, with a block of bytes taken from it. */
cclResult_t ccl_chunk_create(struct ccl_heap *heap, size_t bytes, struct ccl_window **out, size_t *off);
/* Collective, for an empty chunk: hidden on all ranks before the first one unmaps it. */
cclResult_t ccl_chunk_drop(struct ccl_heap *heap, struct ccl_window *w);
/* Local: unmap the peers' memory. */
void ccl_chunk_close_peers(const struct ccl_family *family, struct ccl_window *w);
/* Local: the same, free the own (unless pinned) and the records of a chunk that is in no list. */
void ccl_chunk_destroy(const struct ccl_family *family, struct ccl_window *w);

/* --- registry.c: with the lock held --- */

/* The window of an allocation registered with this heap; NULL: none. */
struct ccl_window *ccl_registry_find(const struct ccl_heap *heap, const void *base, size_t bytes);
/* Reserve the lowest id; 0: none is left for registrations. */
uint32_t ccl_registry_take_id(struct ccl_family *family);
/* Gives the range its handle. */
void ccl_registry_add_range(struct ccl_heap *heap, struct ccl_window *w, struct ccl_range *range);
/* Take the range of a handle out of its window and free it; NULL: not a live handle. */
struct ccl_window *ccl_registry_remove_range(struct ccl_heap *heap, uint64_t cookie);
bool ccl_registry_any_peer(const struct ccl_heap *heap, const struct ccl_window *w, enum ccl_peer_state state);
bool ccl_registry_may_have_it(uint8_t state); /* the peer, given its state */
/* Take a hidden window out of the list and free it; its id too, unless a peer may still hold a mapping under it. */
void ccl_registry_remove(struct ccl_heap *heap, struct ccl_window *w);
void ccl_registry_destroy(struct ccl_window *w); /* in no list; no lock needed */
/* All registrations of the heap end without a word to the peers; their ids stay out of use unless no peer can
 * hold them. */
void ccl_registry_finish(struct ccl_heap *heap);

/* --- import.c --- */

enum ccl_heap_msg_type {
    CCL_MSG_REGISTER = 0x48500001,
    CCL_MSG_DEREGISTER,
    CCL_MSG_MAPPED, /* answer to REGISTER, rc says how it went */
    CCL_MSG_CLOSED, /* answer to DEREGISTER */
    CCL_MSG_LEAVE   /* this rank answers no more */
};
struct ccl_heap_msg {
    uint32_t type;
    uint32_t id;
    uint64_t size_bytes; /* these three: of the memory handle; its fd travels beside the message */
    uint32_t kind;
    int32_t rc;
    uint8_t blob[CCL_HANDLE_BLOB_BYTES];
};
/* Monitor thread: what REGISTER and DEREGISTER of a peer ask for. */
void ccl_import_open(struct ccl_heap *heap, int peer, const struct ccl_heap_msg *msg, int fd);
void ccl_import_close(struct ccl_heap *heap, int peer, uint32_t id);
/* Monitor thread, registry.c: a peer answered; a peer died or left. */
void ccl_registry_answered(struct ccl_heap *heap, int peer, const struct ccl_heap_msg *msg);
void ccl_registry_peer_gone(struct ccl_heap *heap, int peer, bool dead);

/* Calls of the runtime act on the thread's current device: make it the heap's, and put it back. */
static inline int ccl_heap_device_enter(const struct ccl_heap *heap)
{
    int before;
    (void)ccl_device_enter(heap->rt, heap->is_host, heap->device, &before); /* what fails next says so */
    return before;
}

static inline void ccl_heap_device_leave(const struct ccl_heap *heap, int before)
{
    (void)ccl_device_leave(heap->rt, before, cclSuccess);
}

#endif
