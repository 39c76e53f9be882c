/* SPDX-License-Identifier: MIT
 *
 * The offset allocator. Blocks cover the chunk without gaps and hang in an address-ordered list (neighbours in one
 * step) and in two treaps: all blocks by offset, free blocks by (size, offset). A treap keeps its shape by a
 * priority that is a hash of the offset, so it needs no balance bookkeeping and no random numbers; take, release and
 * find cost O(log blocks) on average. release never needs memory, so an undo cannot fail. */
#include "heap/alloc.h"

#include <stdlib.h>

#include "util/log.h"

enum tree { BY_OFFSET, BY_SIZE, NUM_TREES };

struct block {
    size_t off, bytes;
    uint64_t priority;
    struct block *prev, *next;
    struct block *left[NUM_TREES], *right[NUM_TREES];
    bool taken;
};

struct ccl_alloc {
    size_t chunk_bytes;
    size_t num_blocks, num_taken;
    struct block *first;
    struct block *root[NUM_TREES];
};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static bool before(enum tree t, const struct block *a, const struct block *b)
{
    if (t == BY_SIZE && a->bytes != b->bytes) {
        return a->bytes < b->bytes;
    }
    return a->off < b->off;
}

/* Cut the tree in two: what lies before key, and the rest. */
static void split(enum tree t, struct block *node, const struct block *key, struct block **low, struct block **high)
{
    while (node != NULL) {
        if (before(t, node, key)) {
            *low = node;
            low = &node->right[t];
            node = *low;
        } else {
            *high = node;
            high = &node->left[t];
            node = *high;
        }
    }
    *low = NULL;
    *high = NULL;
}

static void insert(struct ccl_alloc *a, enum tree t, struct block *b)
{
    struct block **link = &a->root[t];
    while (*link != NULL && (*link)->priority >= b->priority) {
        link = before(t, b, *link) ? &(*link)->left[t] : &(*link)->right[t];
    }
    split(t, *link, b, &b->left[t], &b->right[t]);
    *link = b;
}

static void erase(struct ccl_alloc *a, enum tree t, struct block *b)
{
    struct block **link = &a->root[t];
    while (*link != b) {
        link = before(t, b, *link) ? &(*link)->left[t] : &(*link)->right[t];
    }
    struct block *low = b->left[t], *high = b->right[t];
    while (low != NULL && high != NULL) {
        if (low->priority >= high->priority) {
            *link = low;
            link = &low->right[t];
            low = *link;
        } else {
            *link = high;
            link = &high->left[t];
            high = *link;
        }
    }
    *link = low != NULL ? low : high;
    b->left[t] = NULL;
    b->right[t] = NULL;
}

static struct block *new_block(size_t off, size_t bytes)
{
    struct block *b = calloc(1, sizeof(*b));
    if (b != NULL) {
        b->off = off;
        b->bytes = bytes;
        b->priority = mix(off);
    }
    return b;
}

cclResult_t ccl_alloc_create(size_t chunk_bytes, struct ccl_alloc **out)
{
    CCL_CHECK(chunk_bytes > 0 && chunk_bytes % CCL_ALLOC_ALIGN == 0, cclInvalidArgument, CCL_HEAP,
              "chunk of %zu bytes, not a positive multiple of %d", chunk_bytes, CCL_ALLOC_ALIGN);
    struct ccl_alloc *a = calloc(1, sizeof(*a));
    struct block *b = new_block(0, chunk_bytes);
    if (a == NULL || b == NULL) {
        free(a);
        free(b);
        return ccl_error_set(cclSystemError, CCL_HEAP, "no memory for the records of a chunk of %zu bytes",
                             chunk_bytes);
    }
    a->chunk_bytes = chunk_bytes;
    a->num_blocks = 1;
    a->first = b;
    insert(a, BY_OFFSET, b);
    insert(a, BY_SIZE, b);
    *out = a;
    return cclSuccess;
}

void ccl_alloc_destroy(struct ccl_alloc *a)
{
    if (a == NULL) {
        return;
    }
    for (struct block *b = a->first; b != NULL;) {
        struct block *next = b->next;
        free(b);
        b = next;
    }
    free(a);
}

/* The smallest free block of at least bytes, of equal ones the lowest. */
static struct block *best_fit(const struct ccl_alloc *a, size_t bytes)
{
    struct block *best = NULL;
    for (struct block *b = a->root[BY_SIZE]; b != NULL;) {
        if (b->bytes >= bytes) {
            best = b;
            b = b->left[BY_SIZE];
        } else {
            b = b->right[BY_SIZE];
        }
    }
    return best;
}

/* The block that contains off; NULL beyond the chunk. */
static struct block *block_at(const struct ccl_alloc *a, size_t off)
{
    struct block *b = a->root[BY_OFFSET];
    while (b != NULL && (off < b->off || off - b->off >= b->bytes)) {
        b = off < b->off ? b->left[BY_OFFSET] : b->right[BY_OFFSET];
    }
    return b;
}

cclResult_t ccl_alloc_take(struct ccl_alloc *a, size_t bytes, size_t *off)
{
    CCL_CHECK(bytes > 0, cclInvalidArgument, CCL_HEAP, "allocation of 0 bytes");
    if (bytes > a->chunk_bytes) {
        return cclSystemError; /* also keeps the rounding below from wrapping */
    }
    bytes = ccl_round_up(bytes, CCL_ALLOC_ALIGN);
    struct block *b = best_fit(a, bytes);
    if (b == NULL) {
        return cclSystemError;
    }
    struct block *rest = NULL;
    if (b->bytes > bytes) {
        rest = new_block(b->off + bytes, b->bytes - bytes);
        CCL_CHECK(rest != NULL, cclSystemError, CCL_HEAP, "no memory for the record of an allocation of %zu bytes",
                  bytes);
    }
    erase(a, BY_SIZE, b);
    b->taken = true;
    a->num_taken++;
    if (rest != NULL) {
        b->bytes = bytes;
        rest->prev = b;
        rest->next = b->next;
        if (rest->next != NULL) {
            rest->next->prev = rest;
        }
        b->next = rest;
        insert(a, BY_OFFSET, rest);
        insert(a, BY_SIZE, rest);
        a->num_blocks++;
    }
    *off = b->off;
    return cclSuccess;
}

/* Append the free block b->next to b; neither is in the size tree. */
static void swallow_next(struct ccl_alloc *a, struct block *b)
{
    struct block *gone = b->next;
    erase(a, BY_OFFSET, gone);
    b->bytes += gone->bytes;
    b->next = gone->next;
    if (b->next != NULL) {
        b->next->prev = b;
    }
    a->num_blocks--;
    free(gone);
}

cclResult_t ccl_alloc_release(struct ccl_alloc *a, size_t off)
{
    struct block *b = block_at(a, off);
    CCL_CHECK(b != NULL && b->taken && b->off == off, cclInvalidArgument, CCL_HEAP,
              "offset %zu is not the start of an allocation", off);
    b->taken = false;
    a->num_taken--;
    if (b->next != NULL && !b->next->taken) {
        erase(a, BY_SIZE, b->next);
        swallow_next(a, b);
    }
    if (b->prev != NULL && !b->prev->taken) {
        b = b->prev;
        erase(a, BY_SIZE, b);
        swallow_next(a, b);
    }
    insert(a, BY_SIZE, b);
    return cclSuccess;
}

bool ccl_alloc_find(const struct ccl_alloc *a, size_t off, size_t *start, size_t *bytes)
{
    const struct block *b = block_at(a, off);
    if (b == NULL || !b->taken) {
        return false;
    }
    *start = b->off;
    *bytes = b->bytes;
    return true;
}

bool ccl_alloc_empty(const struct ccl_alloc *a)
{
    return a->num_taken == 0;
}

size_t ccl_alloc_largest(const struct ccl_alloc *a)
{
    const struct block *b = a->root[BY_SIZE];
    while (b != NULL && b->right[BY_SIZE] != NULL) {
        b = b->right[BY_SIZE];
    }
    return b != NULL ? b->bytes : 0;
}

/* In-order walk: *last is the block before node's subtree. Counts what it sees. */
static cclResult_t check_tree(enum tree t, const struct block *node, const struct block **last, size_t *count)
{
    static const char *const names[NUM_TREES] = {"offset", "size"};
    if (node == NULL) {
        return cclSuccess;
    }
    CCL_TRY(check_tree(t, node->left[t], last, count));
    CCL_CHECK(*last == NULL || before(t, *last, node), cclInternalError, CCL_HEAP,
              "%s index: block %zu stands before block %zu", names[t], (*last)->off, node->off);
    CCL_CHECK((node->left[t] == NULL || node->left[t]->priority <= node->priority) &&
                  (node->right[t] == NULL || node->right[t]->priority <= node->priority),
              cclInternalError, CCL_HEAP, "%s index: block %zu is below a block of lower priority", names[t],
              node->off);
    CCL_CHECK(t != BY_SIZE || !node->taken, cclInternalError, CCL_HEAP, "size index: block %zu is taken", node->off);
    *last = node;
    ++*count;
    return check_tree(t, node->right[t], last, count);
}

cclResult_t ccl_alloc_check(const struct ccl_alloc *a)
{
    size_t end = 0, blocks = 0, taken = 0;
    const struct block *prev = NULL;
    for (const struct block *b = a->first; b != NULL; prev = b, b = b->next) {
        CCL_CHECK(b->off == end && b->prev == prev, cclInternalError, CCL_HEAP, "block %zu follows the end %zu", b->off,
                  end);
        CCL_CHECK(b->bytes > 0 && b->bytes % CCL_ALLOC_ALIGN == 0 && b->bytes <= a->chunk_bytes - end, cclInternalError,
                  CCL_HEAP, "block %zu has %zu bytes in a chunk of %zu", b->off, b->bytes, a->chunk_bytes);
        CCL_CHECK(prev == NULL || prev->taken || b->taken, cclInternalError, CCL_HEAP,
                  "free blocks %zu and %zu are neighbours", prev->off, b->off);
        CCL_CHECK(block_at(a, b->off) == b, cclInternalError, CCL_HEAP, "block %zu is not in the offset index", b->off);
        end += b->bytes;
        blocks++;
        taken += b->taken;
    }
    CCL_CHECK(end == a->chunk_bytes, cclInternalError, CCL_HEAP, "blocks cover %zu bytes of %zu", end, a->chunk_bytes);
    CCL_CHECK(blocks == a->num_blocks && taken == a->num_taken, cclInternalError, CCL_HEAP,
              "%zu blocks, %zu taken; counted %zu and %zu", a->num_blocks, a->num_taken, blocks, taken);
    size_t in_tree[NUM_TREES] = {0, 0};
    for (int t = 0; t < NUM_TREES; t++) {
        const struct block *last = NULL;
        CCL_TRY(check_tree((enum tree)t, a->root[t], &last, &in_tree[t]));
    }
    CCL_CHECK(in_tree[BY_OFFSET] == blocks && in_tree[BY_SIZE] == blocks - taken, cclInternalError, CCL_HEAP,
              "indexes hold %zu and %zu blocks of %zu and %zu", in_tree[BY_OFFSET], in_tree[BY_SIZE], blocks,
              blocks - taken);
    return cclSuccess;
}

uint64_t ccl_alloc_hash(const struct ccl_alloc *a)
{
    uint64_t hash = mix(a->chunk_bytes);
    for (const struct block *b = a->first; b != NULL; b = b->next) {
        hash = mix(hash ^ (b->bytes | (b->taken ? 1u : 0u))); /* sizes are multiples of 256: bit 0 is free */
    }
    return hash;
}
