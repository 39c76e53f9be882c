/* SPDX-License-Identifier: MIT
 *
 * Copies and fills of the fake runtime, in stream order. */
#include "fake.h"

#ifdef FAKE_CUDA
int fake_copy(void *dst, const void *src, size_t bytes, void *stream)
{
    FAKE_ENTER(copy);
#else
int fake_copy_kind(void *dst, const void *src, size_t bytes, int kind, void *stream)
{
    FAKE_ENTER(copy_kind);
    if (kind != CCL_HIP_COPY_DEFAULT) {
        return CCL_GPU_E_INVALID_VALUE;
    }
#endif
    struct fake_op *op = fake_op_new(OP_COPY, 0);
    op->dst = dst, op->src = src, op->bytes = bytes;
    return fake_enqueue(stream, op);
}

int fake_fill(void *dst, int byte, size_t bytes, void *stream)
{
    FAKE_ENTER(fill);
    struct fake_op *op = fake_op_new(OP_FILL, 0);
    op->dst = dst, op->byte = byte, op->bytes = bytes;
    return fake_enqueue(stream, op);
}
