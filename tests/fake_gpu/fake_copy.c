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
    op->dst = dst, op->src = src, op->bytes = bytes, op->rows = 1;
    return fake_enqueue(stream, op);
}

static int copy_2d(void *dst, size_t ld_dst, const void *src, size_t ld_src, size_t row_bytes, size_t rows, void *stream)
{
    struct fake_op *op = fake_op_new(OP_COPY, 0);
    op->dst = dst, op->ld_dst = ld_dst, op->src = src, op->ld_src = ld_src, op->bytes = row_bytes, op->rows = rows;
    return fake_enqueue(stream, op);
}

#ifdef FAKE_CUDA
int fake_copy_2d(const void *desc, void *stream)
{
    FAKE_ENTER(copy_2d);
    const struct ccl_cuda_copy_2d *d = desc;
    if (d->src.type != 4 || d->dst.type != 4 || d->src.pitch < d->row_bytes || d->dst.pitch < d->row_bytes) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    return copy_2d((void *)d->dst.device, d->dst.pitch, (const void *)d->src.device, d->src.pitch, d->row_bytes, d->rows, stream);
}
#else
int fake_copy_2d_kind(void *dst, size_t ld_dst, const void *src, size_t ld_src, size_t row_bytes, size_t rows, int kind, void *stream)
{
    FAKE_ENTER(copy_2d_kind);
    if (kind != CCL_HIP_COPY_DEFAULT || ld_dst < row_bytes || ld_src < row_bytes) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    return copy_2d(dst, ld_dst, src, ld_src, row_bytes, rows, stream);
}
#endif

int fake_fill(void *dst, int byte, size_t bytes, void *stream)
{
    FAKE_ENTER(fill);
    struct fake_op *op = fake_op_new(OP_FILL, 0);
    op->dst = dst, op->byte = byte, op->bytes = bytes;
    return fake_enqueue(stream, op);
}
