/* SPDX-License-Identifier: MIT
 *
 * Reading and writing rows of lanes for vector instructions: EXEC, sign and output modifiers, denormals ("Instinct MI300 Instruction Set
 * Architecture", sections on VALU input and output modifiers). */
#include <math.h>

#include "valu.h"

#define MASK(b) {-(uint32_t)((b) & 1), -(uint32_t)((b) >> 1 & 1), -(uint32_t)((b) >> 2 & 1), -(uint32_t)((b) >> 3 & 1), \
                 -(uint32_t)((b) >> 4 & 1), -(uint32_t)((b) >> 5 & 1), -(uint32_t)((b) >> 6 & 1), -(uint32_t)((b) >> 7 & 1)}
#define MASK4(b) MASK(b), MASK((b) + 1), MASK((b) + 2), MASK((b) + 3)
#define MASK16(b) MASK4(b), MASK4((b) + 4), MASK4((b) + 8), MASK4((b) + 12)
#define MASK64(b) MASK16(b), MASK16((b) + 16), MASK16((b) + 32), MASK16((b) + 48)

const uint32_t emu_lane_masks[256][8] = {MASK64(0u), MASK64(64u), MASK64(128u), MASK64(192u)};

void emu_put_partly(uint32_t *row, const uint32_t *values, uint64_t exec)
{
    for (unsigned byte = 0; byte < 8; byte++) {
        const uint32_t *mask = emu_lane_masks[exec >> 8 * byte & 255];

        for (unsigned k = 0; k < 8; k++) {
            row[8 * byte + k] = (values[8 * byte + k] & mask[k]) | (row[8 * byte + k] & ~mask[k]);
        }
    }
}

static float flush32(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}

static double flush64(double f)
{
    return fabs(f) < 0x1p-1022 ? copysign(0, f) : f;
}

void emu_row_f32(struct emu_wave *w, const struct emu_inst *i, unsigned n, float values[EMU_LANES])
{
    const struct emu_operand *o = &i->ops[n];
    uint32_t tmp[EMU_LANES];
    const uint32_t *row = emu_row(w, o, 0, tmp);

    if (o->neg || o->abs) {
        uint32_t keep = o->abs ? 0x7fffffffu : UINT32_MAX, flip = o->neg ? 0x80000000u : 0;

        EMU_FOR_LANES(lane) {
            tmp[lane] = (row[lane] & keep) ^ flip;
        }
        row = tmp;
    }
    memcpy(values, row, sizeof(tmp));
    if ((w->mode & EMU_MODE_F32_IN) == 0) {
        EMU_FOR_LANES(lane) {
            values[lane] = flush32(values[lane]);
        }
    }
}

float emu_finish_f32(const struct emu_wave *w, float f, bool clamp)
{
    f = (w->mode & EMU_MODE_F32_OUT) == 0 ? flush32(f) : f;
    return !clamp ? f : f != f ? ((w->mode & EMU_MODE_DX10_CLAMP) != 0 ? 0.0f : f) : f < 0 ? 0.0f : f > 1 ? 1.0f : f;
}

/* Output modifiers are for flushed results only: where denormals are kept the hardware ignores them. */
static float output_factor(const struct emu_inst *i)
{
    return i->omod == 1 ? 2.0f : i->omod == 2 ? 4.0f : i->omod == 3 ? 0.5f : 1.0f;
}

void emu_put_f32(struct emu_wave *w, const struct emu_inst *i, float values[EMU_LANES])
{
    uint32_t bits[EMU_LANES];

    if (i->clamp || (w->mode & EMU_MODE_F32_OUT) == 0) {
        EMU_FOR_LANES(lane) {
            values[lane] = emu_finish_f32(w, (w->mode & EMU_MODE_F32_OUT) != 0 ? values[lane] : values[lane] * output_factor(i), i->clamp);
        }
    }
    memcpy(bits, values, sizeof(bits));
    emu_put(w, &i->ops[0], 0, bits);
}

void emu_row_f64(struct emu_wave *w, const struct emu_inst *i, unsigned n, double values[EMU_LANES])
{
    const struct emu_operand *o = &i->ops[n];
    uint64_t bits[EMU_LANES];

    emu_row64(w, o, bits);
    EMU_FOR_LANES(lane) {
        bits[lane] = (bits[lane] & (o->abs ? INT64_MAX : UINT64_MAX)) ^ (uint64_t)o->neg << 63;
    }
    memcpy(values, bits, sizeof(bits));
    if ((w->mode & EMU_MODE_F64_IN) == 0) {
        EMU_FOR_LANES(lane) {
            values[lane] = flush64(values[lane]);
        }
    }
}

void emu_put_f64(struct emu_wave *w, const struct emu_inst *i, double values[EMU_LANES])
{
    uint64_t bits[EMU_LANES];

    if (i->clamp || (w->mode & EMU_MODE_F64_OUT) == 0) {
        EMU_FOR_LANES(lane) {
            double f = values[lane];

            if ((w->mode & EMU_MODE_F64_OUT) == 0) {
                f = flush64(f * output_factor(i));
            }
            if (i->clamp) {
                f = f != f ? ((w->mode & EMU_MODE_DX10_CLAMP) != 0 ? 0.0 : f) : f < 0 ? 0.0 : f > 1 ? 1.0 : f;
            }
            values[lane] = f;
        }
    }
    memcpy(bits, values, sizeof(bits));
    emu_put64(w, &i->ops[0], bits);
}

void emu_row_f16(struct emu_wave *w, const struct emu_inst *i, unsigned n, float values[EMU_LANES])
{
    const struct emu_operand *o = &i->ops[n];
    /* Operand n of the text is source n - 1 of op_sel; an accumulated destination (n = 0) is read where it is written. */
    unsigned shift = n > 0 && (i->op_sel >> (n - 1) & 1) != 0 ? 16 : 0;
    uint32_t tmp[EMU_LANES], keep = o->abs ? 0x7fff : 0xffff, flip = o->neg ? 0x8000 : 0;
    const uint32_t *row = emu_row(w, o, 0, tmp);
    bool flush = (w->mode & EMU_MODE_F64_IN) == 0;

    EMU_FOR_LANES(lane) {
        uint32_t h = (row[lane] >> shift & keep) ^ flip;

        values[lane] = emu_f16_to_f32(flush && (h & 0x7c00) == 0 ? h & 0x8000 : h);
    }
}

uint32_t emu_finish_f16(const struct emu_wave *w, float value, bool clamp)
{
    uint32_t h = emu_f32_to_f16(value);

    if ((w->mode & EMU_MODE_F64_OUT) == 0 && (h & 0x7c00) == 0) {
        h &= 0x8000;
    }
    if (clamp) {
        h = (h & 0x7fff) > 0x7c00 ? ((w->mode & EMU_MODE_DX10_CLAMP) != 0 ? 0 : h) : (h & 0x8000) != 0 ? 0 : h > 0x3c00 ? 0x3c00 : h;
    }
    return h;
}

void emu_put_f16(struct emu_wave *w, const struct emu_inst *i, float values[EMU_LANES])
{
    const uint32_t *old = emu_v(w, &i->ops[0], 0);
    uint32_t bits[EMU_LANES];
    float factor = (w->mode & EMU_MODE_F64_OUT) != 0 ? 1.0f : output_factor(i);

    EMU_FOR_LANES(lane) {
        uint32_t h = emu_finish_f16(w, values[lane] * factor, i->clamp);

        /* sub is set where gfx9 keeps the other half of the destination; elsewhere the upper half becomes zero. */
        bits[lane] = !i->sub ? h : (i->op_sel & 8) != 0 ? (old[lane] & 0xffff) | h << 16 : (old[lane] & 0xffff0000) | h;
    }
    emu_put(w, &i->ops[0], 0, bits);
}
