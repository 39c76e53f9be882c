/* SPDX-License-Identifier: MIT
 *
 * Offset allocator: hands out ranges of one chunk. Deterministic, so that equal calls on all ranks give equal
 * offsets; knows no addresses; its records live in ordinary memory. Best fit by size, then lowest offset; freed
 * neighbours merge at once. */
#ifndef CCL_HEAP_ALLOC_H
#define CCL_HEAP_ALLOC_H

#include "util/base.h"

#define CCL_ALLOC_ALIGN 256 /* every offset and every reserved size is a multiple */

struct ccl_alloc;

cclResult_t ccl_alloc_create(size_t chunk_bytes, struct ccl_alloc **out);
void ccl_alloc_destroy(struct ccl_alloc *a); /* NULL is fine */
/* bytes > 0; cclSystemError without a log entry when no free range is large enough (a chunk being full is no fault). */
cclResult_t ccl_alloc_take(struct ccl_alloc *a, size_t bytes, size_t *off);
/* off from take. cclInvalidArgument: not the start of a taken range. */
cclResult_t ccl_alloc_release(struct ccl_alloc *a, size_t off);
/* Reserved bytes of the range that contains off and its start; false when off is free. */
bool ccl_alloc_find(const struct ccl_alloc *a, size_t off, size_t *start, size_t *bytes);
bool ccl_alloc_empty(const struct ccl_alloc *a);
size_t ccl_alloc_largest(const struct ccl_alloc *a); /* largest free range, bytes */
/* Full coverage, order, no two free neighbours, indexes agree: cclInternalError naming the first violation. */
cclResult_t ccl_alloc_check(const struct ccl_alloc *a);
/* Hash of the whole state, equal on all ranks after equal calls. */
uint64_t ccl_alloc_hash(const struct ccl_alloc *a);

#endif
