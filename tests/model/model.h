/* SPDX-License-Identifier: MIT
 *
 * Shared by the models: numbered operations with narrow tags, and assertions with names.
 *
 * Operation numbers are counted modulo TAGS, as words carry only low bits, and so the wrap of the tag is part of every
 * run. That a word which has the right tag belongs to this very operation, not to the one TAGS before, is checked
 * apart: each model marks or poisons what an operation has used when it is over. */
#ifndef TAG_BITS
#define TAG_BITS 2
#endif
#define TAGS (1 << TAG_BITS)
#define NEXT(n) (((n) + 1) % TAGS)
#define PAR(n) ((n) & 1)
#define NONE 255 /* a word that no reader takes: never written, or {n, step 0} */
#define EQ(x, n) ((x) != NONE && ((x) & (TAGS - 1)) == ((n) & (TAGS - 1)))

/* What each rank calls in an operation is agreed through kind[]; this many operations are remembered. */
#define KINDS 4
#define KIND(n) kind[(n) % KINDS]

/* The name stands in pan's message, so that run_model.sh can tell the intended failure from any other. */
#define CHECK(name, cond) assert((cond) || name)
