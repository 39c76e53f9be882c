/* SPDX-License-Identifier: MIT
 *
 * Joining elements: type and operator of the call are looked at outside the loops. On a CPU host_reduce.c does it, on a GPU reduce_vectors.h. */
#ifndef CCL_REDUCE_ELEMENTS_H
#define CCL_REDUCE_ELEMENTS_H

#include "move.h"

#if defined(CCL_ON_HOST)

#include "host_reduce.h"

CCL_DEVICE const void *reduce_scalar(const struct ccl_k_parts_args *p)
{
    return p->parts & CCL_PARTS_SCALAR_AT ? (const void *)p->scalar : (const void *)&p->scalar;
}

/* dst[i] = scalar * src[i], rounded to the type. */
CCL_DEVICE void reduce_scale(const struct ccl_k_parts_args *p, uint64_t dst, uint64_t src, uint64_t count)
{
    ccl_host_reduce_scale(p->type, dst, src, count, reduce_scalar(p));
}

/* All of to = the inputs, one a rank, joined in this order. to may be one of the inputs. */
CCL_DEVICE void reduce_join(const struct ccl_k_parts_args *p, const uint64_t *to, uint32_t num_to, const uint64_t *in, uint64_t count)
{
    const uint64_t bytes = count * p->esize;
    ccl_host_reduce_join(p->type, p->redop, to[0], in, p->c.n, count);
    for (uint32_t i = 1; i < num_to; i++) {
        ccl_move_rows(to[i], bytes, to[0], bytes, 1, bytes, p->c.flags & CCL_F_STREAM);
    }
}

CCL_DEVICE void reduce_join_share(const struct ccl_k_parts_args *p, const uint64_t *to, uint32_t num_to, const uint64_t *in, uint64_t count, uint32_t part,
                                  uint32_t parts, uint32_t bulk)
{
    (void)part, (void)parts, (void)bulk; /* shares: on GPUs only */
    reduce_join(p, to, num_to, in, count);
}

#else

#include "reduce_vectors.h"

#endif

#endif
