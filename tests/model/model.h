/* SPDX-License-Identifier: MIT
 *
 * Shared by the models: numbered operations with narrow tags, and assertions with names.
 *
 * A word in memory holds the true operation number, counted modulo NUMS; readers compare only its low TAG_BITS bits, as the code
 * compares only 32 of them. So the wrap of the tag is part of every run, and a word that is taken for one of TAGS operations earlier
 * is seen by an assertion on the true number. */
#ifndef TAG_BITS
#define TAG_BITS 2
#endif
#define TAGS (1 << TAG_BITS)
#ifndef NUMS
#define NUMS (2 * TAGS)
#endif
#define NEXT(n) (((n) + 1) % NUMS)
#define PAR(n) ((n) & 1)
#define NONE 255 /* a word that no reader takes: never written, or {n, step 0} */
#define EQ(x, n) ((x) != NONE && ((x) & (TAGS - 1)) == ((n) & (TAGS - 1)))

/* What each rank calls in an operation is agreed through kind[]; this many operations are remembered. */
#define KINDS 4
#define KIND(n) kind[(n) % KINDS]

/* The name stands in pan's message, so that run_model.sh can tell the intended failure from any other. */
#define CHECK(name, cond) assert((cond) || name)
