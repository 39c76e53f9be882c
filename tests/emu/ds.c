/* SPDX-License-Identifier: MIT
 *
 * ds_*: performed when issued (lds.h says why); registers are written when a wait covers them. */
#include <string.h>

#include "atomic.h"
#include "banks.h"
#include "lds.h"
#include "vmem.h"

enum { READ2 = 1, STRIDE64 = 2 }; /* emu_inst.sub of the two-address forms */

static struct emu_access *begin(struct emu_wave *w, const struct emu_inst *i, const struct emu_operand *reg, uint32_t places)
{
    struct emu_access *a = emu_access_new(w, i, EMU_ACCESS_DS);

    if (a != NULL) {
        a->done = true;
        a->size = i->width;
        a->width = (uint8_t)(i->width * (places > 0 ? places : 1));
        a->places = (uint8_t)places;
        a->lds_lanes = places > 0 ? a->exec : 0;
        if (reg != NULL) {
            a->reg = (uint16_t)((reg->kind == EMU_AGPR ? 256u : 0u) + reg->index);
            a->num_regs = reg->count;
        }
    }
    return a;
}

static bool issue(struct emu_wave *w, struct emu_access *a, bool good)
{
    if (good) {
        emu_access_issue(w, a);
    } else {
        emu_access_free(emu_gang_of(w), a);
    }
    return good;
}

static void count(struct emu_wave *w, const uint32_t addr[EMU_LANES], uint64_t lanes, uint32_t bytes, bool read)
{
    EMU_COUNT(w, lds_accesses, 1);
    EMU_COUNT(w, lds_conflict_cycles, emu_bank_conflicts(addr, lanes, bytes, read, w->arch));
    emu_gang_of(w)->progress += !read;
}

/* LDS addresses of one place of all lanes. The offset is added without wrapping: reaching out of LDS is an error anyway. */
static void places(struct emu_wave *w, const struct emu_operand *v, uint32_t offset, uint32_t addr[EMU_LANES])
{
    const uint32_t *row = emu_v(w, v, 0);

    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        addr[lane] = row[lane] + offset;
    }
}

/* Natural alignment; 12 and 16 bytes need 16, or 8 in two passes, which no mode forbids. */
static uint32_t alignment_of(uint32_t bytes)
{
    return bytes == 12 ? 4 : bytes > 8 ? 8 : bytes;
}

/* The bytes of one place of all lanes, between LDS and the access's data at at. */
static bool move(struct emu_wave *w, struct emu_access *a, uint32_t offset, const struct emu_operand *v, uint32_t at, unsigned place, bool write)
{
    uint32_t addr[EMU_LANES], bytes = a->inst->width;

    places(w, v, offset, addr);
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        uint8_t *data = a->data + (size_t)lane * a->width + at, *lds;

        if ((a->exec >> lane & 1) == 0) {
            continue;
        }
        lds = emu_lds_touch(w, lane, addr[lane], bytes, alignment_of(bytes), write ? EMU_LDS_WRITE : EMU_LDS_READ);
        if (lds == NULL) {
            return false;
        }
        memcpy(write ? lds : data, write ? data : lds, bytes);
        if (!write) {
            emu_lds_note_unwritten(w, a, addr[lane], bytes, at);
        }
    }
    memcpy(a->lds[place], addr, sizeof(addr));
    count(w, addr, a->exec, bytes, !write);
    return true;
}

static void capture(struct emu_wave *w, struct emu_access *a, const struct emu_operand *o, uint32_t bytes, uint32_t at, unsigned shift)
{
    for (unsigned k = 0; k < (bytes + 3) / 4; k++) {
        const uint32_t *row = emu_v(w, o, k);
        uint32_t part = bytes < 4 ? bytes : 4;

        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            uint32_t value = row[lane] >> shift;

            memcpy(a->data + (size_t)lane * a->width + at + 4 * k, &value, part);
        }
    }
}

static uint32_t step(const struct emu_inst *i)
{
    return i->width * (i->sub & STRIDE64 ? 64u : 1u);
}

static bool read(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_access *a;

    if (!emu_vmem_known(w, &i->ops[1], "the LDS address") || (a = begin(w, i, &i->ops[0], 1)) == NULL) {
        return false;
    }
    return issue(w, a, move(w, a, (uint32_t)i->offset, &i->ops[1], 0, 0, false));
}

static bool read2(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_access *a;

    if (!emu_vmem_known(w, &i->ops[1], "the LDS address") || (a = begin(w, i, &i->ops[0], 2)) == NULL) {
        return false;
    }
    return issue(w, a, move(w, a, (uint32_t)i->offset * step(i), &i->ops[1], 0, 0, false) &&
                       move(w, a, (uint32_t)i->offset1 * step(i), &i->ops[1], i->width, 1, false));
}

static bool write(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_access *a;

    if (!emu_vmem_known(w, &i->ops[0], "the LDS address") || !emu_vmem_known(w, &i->ops[1], "the data") || (a = begin(w, i, NULL, 1)) == NULL) {
        return false;
    }
    capture(w, a, &i->ops[1], i->width, 0, (i->sub & EMU_SUB_FORM) == EMU_SUB_D16_HIGH ? 16 : 0);
    return issue(w, a, move(w, a, (uint32_t)i->offset, &i->ops[0], 0, 0, true));
}

static bool write2(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_access *a;

    if (!emu_vmem_known(w, &i->ops[0], "the LDS address") || !emu_vmem_known(w, &i->ops[1], "the data") ||
        !emu_vmem_known(w, &i->ops[2], "the data") || (a = begin(w, i, NULL, 2)) == NULL) {
        return false;
    }
    capture(w, a, &i->ops[1], i->width, 0, 0);
    capture(w, a, &i->ops[2], i->width, i->width, 0);
    return issue(w, a, move(w, a, (uint32_t)i->offset * step(i), &i->ops[0], 0, 0, true) &&
                       move(w, a, (uint32_t)i->offset1 * step(i), &i->ops[0], i->width, 1, true));
}

/* [destination,] address, data [, second data]: cmpst compares with the first and stores the second, mskor clears the bits of the first. */
static bool atomic(struct emu_wave *w, const struct emu_inst *i)
{
    bool returns = strstr(i->text, "_rtn") != NULL && i->num_operands > 2;
    unsigned first = returns ? 1 : 0;
    const struct emu_operand *second = i->num_operands > first + 2 ? &i->ops[first + 2] : NULL;
    struct emu_access *a;
    uint32_t addr[EMU_LANES];

    if (!emu_vmem_known(w, &i->ops[first], "the LDS address") || !emu_vmem_known(w, &i->ops[first + 1], "the data") ||
        (second != NULL && !emu_vmem_known(w, second, "the data")) || (a = begin(w, i, returns ? &i->ops[0] : NULL, 1)) == NULL) {
        return false;
    }
    places(w, &i->ops[first], (uint32_t)i->offset, addr);
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        struct emu_atomic_args args = {.op = (enum emu_atomic)i->sub, .bytes = i->width};
        uint64_t old = 0, value;
        uint8_t *lds;

        if ((a->exec >> lane & 1) == 0) {
            continue;
        }
        lds = emu_lds_touch(w, lane, addr[lane], i->width, i->width, EMU_LDS_ATOMIC);
        if (lds == NULL) {
            return issue(w, a, false);
        }
        args.data = emu_v(w, &i->ops[first + 1], 0)[lane] | (i->width == 8 ? (uint64_t)emu_v(w, &i->ops[first + 1], 1)[lane] << 32 : 0);
        if (second != NULL) {
            uint64_t x = emu_v(w, second, 0)[lane] | (i->width == 8 ? (uint64_t)emu_v(w, second, 1)[lane] << 32 : 0);

            args.compare = args.op == EMU_ATOMIC_CMPSWAP ? args.data : x;
            args.data = args.op == EMU_ATOMIC_CMPSWAP ? x : args.data;
        }
        memcpy(&old, lds, i->width);
        value = emu_atomic_next(old, &args);
        memcpy(lds, &value, i->width);
        memcpy(a->data + (size_t)lane * a->width, &old, i->width);
    }
    memcpy(a->lds[0], addr, sizeof(addr));
    count(w, addr, a->exec, i->width, false);
    return issue(w, a, true);
}

/* ---- crossing lanes without memory ---- */

static bool cross(struct emu_wave *w, const struct emu_inst *i, const uint32_t from[EMU_LANES], const struct emu_operand *data)
{
    struct emu_access *a = begin(w, i, &i->ops[0], 0);
    const uint32_t *row;

    if (a == NULL) {
        return false;
    }
    row = emu_v(w, data, 0);
    for (unsigned lane = 0; lane < EMU_LANES; lane++) { /* an inactive source lane gives zero */
        uint32_t value = from[lane] < EMU_LANES && (a->exec >> from[lane] & 1) ? row[from[lane]] : 0;

        memcpy(a->data + 4 * (size_t)lane, &value, 4);
    }
    return issue(w, a, true);
}

static bool bpermute(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t from[EMU_LANES];

    if (!emu_vmem_known(w, &i->ops[1], "the lane address") || !emu_vmem_known(w, &i->ops[2], "the data")) {
        return false;
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        from[lane] = (emu_v(w, &i->ops[1], 0)[lane] + (uint32_t)i->offset) / 4 % EMU_LANES;
    }
    return cross(w, i, from, &i->ops[2]);
}

static bool permute(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t from[EMU_LANES];

    if (!emu_vmem_known(w, &i->ops[1], "the lane address") || !emu_vmem_known(w, &i->ops[2], "the data")) {
        return false;
    }
    memset(from, 0xff, sizeof(from));
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        if (emu_exec_mask(w) >> lane & 1) { /* of two that send to one lane the higher wins */
            from[(emu_v(w, &i->ops[1], 0)[lane] + (uint32_t)i->offset) / 4 % EMU_LANES] = lane;
        }
    }
    return cross(w, i, from, &i->ops[2]);
}

static bool swizzle(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t from[EMU_LANES], control = (uint32_t)i->offset;

    if (!emu_vmem_known(w, &i->ops[1], "the data")) {
        return false;
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        if (control >= 0xc000) {
            return emu_wave_fail(w, "this mode of ds_swizzle_b32 is not implemented");
        }
        from[lane] = control & 0x8000 ? (lane & ~3u) + (control >> 2 * (lane % 4) & 3) : /* quads; else within 32 lanes: and, or, xor */
                     (lane & 32) | (((lane & (control & 31)) | (control >> 5 & 31)) ^ (control >> 10 & 31));
    }
    return cross(w, i, from, &i->ops[1]);
}

/* gfx950: 16 lanes bring 8 bytes each, which make 4 rows of 16 halves, 4 lanes a row; lane l gets column l. */
static bool read_transposed(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_access *a;
    uint16_t pieces[EMU_LANES][4];

    if (emu_exec_mask(w) != ~0ull) {
        return emu_wave_fail(w, "ds_read_b64_tr_b16 with inactive lanes is not implemented");
    }
    if (!emu_vmem_known(w, &i->ops[1], "the LDS address") || (a = begin(w, i, &i->ops[0], 1)) == NULL) {
        return false;
    }
    if (!move(w, a, (uint32_t)i->offset, &i->ops[1], 0, 0, false)) {
        return issue(w, a, false);
    }
    memcpy(pieces, a->data, sizeof(pieces));
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        for (unsigned k = 0; k < 4; k++) {
            memcpy(a->data + 8 * (size_t)lane + 2 * k, &pieces[(lane & ~15u) + 4 * k + lane % 16 / 4][lane % 4], 2);
        }
    }
    return issue(w, a, true);
}

#define READ(name, form, width) {"ds_read_" name, read, EMU_DS, form | EMU_SUB_LOAD, width, 0}
#define WRITE(name, form, width) {"ds_write_" name, write, EMU_DS, form, width, 0}
#define ATOMIC(name, op, type, width) {"ds_" name "_" type, atomic, EMU_DS, EMU_ATOMIC_##op, width, 0}, \
    {"ds_" name "_rtn_" type, atomic, EMU_DS, EMU_ATOMIC_##op, width, 0}
#define ATOMICS(name, op, type) ATOMIC(name, op, type "32", 4), ATOMIC(name, op, type "64", 8)

const struct emu_op emu_ops_ds[] = {
    READ("u8", EMU_SUB_PLAIN, 1), READ("i8", EMU_SUB_SIGNED, 1), READ("u16", EMU_SUB_PLAIN, 2), READ("i16", EMU_SUB_SIGNED, 2), READ("b32", 0, 4),
    READ("b64", 0, 8), READ("b96", 0, 12), READ("b128", 0, 16), READ("u8_d16", EMU_SUB_D16_LOW, 1), READ("u8_d16_hi", EMU_SUB_D16_HIGH, 1),
    READ("i8_d16", EMU_SUB_D16_LOW_SIGNED, 1), READ("i8_d16_hi", EMU_SUB_D16_HIGH_SIGNED, 1), READ("u16_d16", EMU_SUB_D16_LOW, 2),
    READ("u16_d16_hi", EMU_SUB_D16_HIGH, 2),
    WRITE("b8", 0, 1), WRITE("b16", 0, 2), WRITE("b32", 0, 4), WRITE("b64", 0, 8), WRITE("b96", 0, 12), WRITE("b128", 0, 16),
    WRITE("b8_d16_hi", EMU_SUB_D16_HIGH, 1), WRITE("b16_d16_hi", EMU_SUB_D16_HIGH, 2),
    {"ds_read2_b32", read2, EMU_DS, EMU_SUB_LOAD, 4, 0}, {"ds_read2_b64", read2, EMU_DS, EMU_SUB_LOAD, 8, 0},
    {"ds_read2st64_b32", read2, EMU_DS, STRIDE64 | EMU_SUB_LOAD, 4, 0}, {"ds_read2st64_b64", read2, EMU_DS, STRIDE64 | EMU_SUB_LOAD, 8, 0},
    {"ds_write2_b32", write2, EMU_DS, 0, 4, 0}, {"ds_write2_b64", write2, EMU_DS, 0, 8, 0},
    {"ds_write2st64_b32", write2, EMU_DS, STRIDE64, 4, 0}, {"ds_write2st64_b64", write2, EMU_DS, STRIDE64, 8, 0},
    ATOMICS("add", ADD, "u"), ATOMICS("sub", SUB, "u"), ATOMICS("rsub", RSUB, "u"), ATOMICS("inc", INC, "u"), ATOMICS("dec", DEC, "u"),
    ATOMICS("min", SMIN, "i"), ATOMICS("max", SMAX, "i"), ATOMICS("min", UMIN, "u"), ATOMICS("max", UMAX, "u"), ATOMICS("and", AND, "b"),
    ATOMICS("or", OR, "b"), ATOMICS("xor", XOR, "b"), ATOMICS("mskor", MSKOR, "b"), ATOMICS("cmpst", CMPSWAP, "b"), ATOMICS("add", FADD, "f"),
    ATOMICS("min", FMIN, "f"), ATOMICS("max", FMAX, "f"), ATOMIC("wrxchg", SWAP, "b32", 4), ATOMIC("wrxchg", SWAP, "b64", 8),
    ATOMIC("pk_add", PK_ADD_F16, "f16", 4), ATOMIC("pk_add", PK_ADD_BF16, "bf16", 4),
    {"ds_bpermute_b32", bpermute, EMU_DS, 0, 4, 0}, {"ds_permute_b32", permute, EMU_DS, 0, 4, 0}, {"ds_swizzle_b32", swizzle, EMU_DS, 0, 4, 0},
    {"ds_read_b64_tr_b16", read_transposed, EMU_DS, 0, 8, 0},
    {0},
};
