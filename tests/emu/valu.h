/* SPDX-License-Identifier: MIT
 *
 * Vector instructions: rows of 64 lanes are read whole, computed whole, and written where EXEC is set. */
#ifndef EMU_VALU_H
#define EMU_VALU_H

#include <string.h>

#include "float16.h"
#include "salu.h"

/* Bits 4 and 5 of MODE: f32 denormals of sources and of results are kept; bits 6 and 7: those of f16 and f64. */
#define EMU_MODE_F32_IN 0x10u
#define EMU_MODE_F32_OUT 0x20u
#define EMU_MODE_F64_IN 0x40u
#define EMU_MODE_F64_OUT 0x80u
#define EMU_MODE_DX10_CLAMP 0x100u

#define EMU_FOR_LANES(lane) for (unsigned lane = 0; lane < EMU_LANES; lane++)

extern const uint32_t emu_lane_masks[256][8]; /* all ones where the bit of the byte is set */

/* Lanes of dword k of a source; the register's row itself, or tmp filled. */
static inline const uint32_t *emu_row(struct emu_wave *w, const struct emu_operand *o, unsigned k, uint32_t tmp[EMU_LANES])
{
    uint32_t value;

    if (o->kind == EMU_VGPR || o->kind == EMU_AGPR) {
        return emu_v(w, o, k);
    }
    value = k == 0 ? emu_src32(w, o) : (uint32_t)(emu_src64(w, o) >> 32);
    EMU_FOR_LANES(lane) {
        tmp[lane] = value;
    }
    return tmp;
}

void emu_put_partly(uint32_t *row, const uint32_t *values, uint64_t exec);

/* Writes dword k of a vector destination. */
static inline void emu_put(struct emu_wave *w, const struct emu_operand *d, unsigned k, const uint32_t values[EMU_LANES])
{
    uint64_t exec = emu_exec_mask(w);
    unsigned index = (d->kind == EMU_AGPR ? 256u : 0u) + d->index + k;

    if (exec == ~0ull) {
        memcpy(w->v[index], values, sizeof(emu_lanes));
    } else if (exec != 0) {
        emu_put_partly(w->v[index], values, exec);
    } else {
        return;
    }
    w->v_known[index / 64] |= 1ull << index % 64;
}

/* Lanes as 64-bit numbers. */
static inline void emu_row64(struct emu_wave *w, const struct emu_operand *o, uint64_t values[EMU_LANES])
{
    if (o->kind == EMU_VGPR || o->kind == EMU_AGPR) {
        const uint32_t *low = emu_v(w, o, 0), *high = emu_v(w, o, 1);

        EMU_FOR_LANES(lane) {
            values[lane] = (uint64_t)high[lane] << 32 | low[lane];
        }
    } else {
        uint64_t value = emu_src64(w, o);

        EMU_FOR_LANES(lane) {
            values[lane] = value;
        }
    }
}

static inline void emu_put64(struct emu_wave *w, const struct emu_operand *d, const uint64_t values[EMU_LANES])
{
    uint32_t half[EMU_LANES];

    for (unsigned k = 0; k < 2; k++) {
        EMU_FOR_LANES(lane) {
            half[lane] = (uint32_t)(values[lane] >> 32 * k);
        }
        emu_put(w, d, k, half);
    }
}

/* ---- floats: sources with their sign modifiers and denormals, results with clamp, output modifier and denormals ---- */

/* n: number of the operand; 0: the destination, of instructions that accumulate. */
void emu_row_f32(struct emu_wave *w, const struct emu_inst *i, unsigned n, float values[EMU_LANES]);
void emu_put_f32(struct emu_wave *w, const struct emu_inst *i, float values[EMU_LANES]);
void emu_row_f64(struct emu_wave *w, const struct emu_inst *i, unsigned n, double values[EMU_LANES]);
void emu_put_f64(struct emu_wave *w, const struct emu_inst *i, double values[EMU_LANES]);
/* The half of the register that op_sel chooses. */
void emu_row_f16(struct emu_wave *w, const struct emu_inst *i, unsigned n, float values[EMU_LANES]);
void emu_put_f16(struct emu_wave *w, const struct emu_inst *i, float values[EMU_LANES]);
uint32_t emu_finish_f16(const struct emu_wave *w, float value, bool clamp); /* rounds once, flushes, clamps */
float emu_finish_f32(const struct emu_wave *w, float value, bool clamp);    /* flushes, clamps */

/* ---- one function an instruction ---- */

#define EMU_VOP1(name, expression)                                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        uint32_t ta[EMU_LANES], r[EMU_LANES];                                                                \
        const uint32_t *ra = emu_row(w, &i->ops[1], 0, ta);                                                  \
                                                                                                             \
        EMU_FOR_LANES(lane) {                                                                                \
            const uint32_t a = ra[lane];                                                                     \
                                                                                                             \
            r[lane] = (uint32_t)(expression);                                                                \
        }                                                                                                    \
        emu_put(w, &i->ops[0], 0, r);                                                                        \
        return true;                                                                                         \
    }

#define EMU_VOP2(name, expression)                                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        uint32_t ta[EMU_LANES], tb[EMU_LANES], r[EMU_LANES];                                                 \
        const uint32_t *ra = emu_row(w, &i->ops[1], 0, ta), *rb = emu_row(w, &i->ops[2], 0, tb);             \
                                                                                                             \
        EMU_FOR_LANES(lane) {                                                                                \
            const uint32_t a = ra[lane], b = rb[lane];                                                       \
                                                                                                             \
            r[lane] = (uint32_t)(expression);                                                                \
        }                                                                                                    \
        emu_put(w, &i->ops[0], 0, r);                                                                        \
        return true;                                                                                         \
    }

#define EMU_VOP3(name, expression)                                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        uint32_t ta[EMU_LANES], tb[EMU_LANES], tc[EMU_LANES], r[EMU_LANES];                                  \
        const uint32_t *ra = emu_row(w, &i->ops[1], 0, ta), *rb = emu_row(w, &i->ops[2], 0, tb),             \
                       *rc = emu_row(w, &i->ops[3], 0, tc);                                                  \
                                                                                                             \
        EMU_FOR_LANES(lane) {                                                                                \
            const uint32_t a = ra[lane], b = rb[lane], c = rc[lane];                                         \
                                                                                                             \
            r[lane] = (uint32_t)(expression);                                                                \
        }                                                                                                    \
        emu_put(w, &i->ops[0], 0, r);                                                                        \
        return true;                                                                                         \
    }

/* Floats of one type: row and put are emu_row_f32 ... */
#define EMU_FLOAT1(name, type, suffix, expression)                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        type ra[EMU_LANES];                                                                                  \
                                                                                                             \
        emu_row_##suffix(w, i, 1, ra);                                                                 \
        EMU_FOR_LANES(lane) {                                                                                \
            const type a = ra[lane];                                                                         \
                                                                                                             \
            ra[lane] = (type)(expression);                                                                   \
        }                                                                                                    \
        emu_put_##suffix(w, i, ra);                                                                          \
        return true;                                                                                         \
    }

#define EMU_FLOAT2(name, type, suffix, expression)                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        type ra[EMU_LANES], rb[EMU_LANES];                                                                   \
                                                                                                             \
        emu_row_##suffix(w, i, 1, ra);                                                                 \
        emu_row_##suffix(w, i, 2, rb);                                                                 \
        EMU_FOR_LANES(lane) {                                                                                \
            const type a = ra[lane], b = rb[lane];                                                           \
                                                                                                             \
            ra[lane] = (type)(expression);                                                                   \
        }                                                                                                    \
        emu_put_##suffix(w, i, ra);                                                                          \
        return true;                                                                                         \
    }

/* third: the operand that c is; 0 for instructions that accumulate into their destination. */
#define EMU_FLOAT3(name, type, suffix, third, expression)                                                     \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        type ra[EMU_LANES], rb[EMU_LANES], rc[EMU_LANES];                                                    \
                                                                                                             \
        emu_row_##suffix(w, i, 1, ra);                                                                 \
        emu_row_##suffix(w, i, 2, rb);                                                                 \
        emu_row_##suffix(w, i, third, rc);                                                             \
        EMU_FOR_LANES(lane) {                                                                                \
            const type a = ra[lane], b = rb[lane], c = rc[lane];                                             \
                                                                                                             \
            ra[lane] = (type)(expression);                                                                   \
        }                                                                                                    \
        emu_put_##suffix(w, i, ra);                                                                          \
        return true;                                                                                         \
    }

#define EMU_VROW(name, function) {"v_" name, function, EMU_VALU, 0, 0, 0}
#define EMU_FROW(name, function) {"v_" name, function, EMU_VALU, 0, 0, EMU_ALLOW_NEG | EMU_ALLOW_CLAMP | EMU_ALLOW_OMOD}

#endif
