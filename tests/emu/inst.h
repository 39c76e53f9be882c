/* SPDX-License-Identifier: MIT
 *
 * A decoded instruction. decode.c fills it from the text that LLVM's disassembler gives; salu.c, valu.c, mfma.c, smem.c, vmem.c and ds.c hold what
 * the instructions do and the tables of their names. */
#ifndef EMU_INST_H
#define EMU_INST_H

#include <stdbool.h>
#include <stdint.h>

struct emu_wave;
struct emu_inst;

/* Executes one instruction of one wave. pc already points behind it. false: emu_wave_fail() has said why. */
typedef bool emu_exec_fn(struct emu_wave *wave, const struct emu_inst *inst);

enum emu_unit { EMU_SALU, EMU_VALU, EMU_MFMA, EMU_SMEM, EMU_VMEM, EMU_DS, EMU_CONTROL };

/* Scalar registers by their number in the machine code, so that the special ones are ordinary: s0..s105, vcc, ttmp, m0, exec. */
#define EMU_VCC 106
#define EMU_M0 124
#define EMU_EXEC 126
#define EMU_NUM_SGPRS 128

enum emu_operand_kind {
    EMU_NONE, /* "off", "null" */
    EMU_SGPR, /* index; count consecutive dwords */
    EMU_VGPR,
    EMU_AGPR,
    EMU_IMM,  /* value: an integer, or the bits of a float constant as the instruction's type wants it; high: its extension to 64 bits */
    EMU_SPECIAL /* index: EMU_SRC_* */
};
enum { EMU_SRC_SCC, EMU_SRC_VCCZ, EMU_SRC_EXECZ, EMU_SRC_SHARED_BASE, EMU_SRC_PRIVATE_BASE };

struct emu_operand {
    uint8_t kind, count;
    bool neg, abs;
    uint16_t index;
    uint32_t value, high; /* EMU_IMM: high is the upper dword where 64 bits are read */
};

#define EMU_MAX_OPERANDS 6

/* What stands behind the operands of a memory instruction. */
enum {
    EMU_SC0 = 1, /* gfx90a: glc */
    EMU_SC1 = 2, /* gfx90a: scc */
    EMU_NT = 4,  /* gfx90a: slc */
    EMU_LDS_FLAG = 8,
    EMU_OFFEN = 16,
    EMU_IDXEN = 32,
    EMU_GDS = 64
};

/* Forms of a vector instruction that take parts of registers (SDWA) or other lanes (DPP): valu_lanes.c executes them through the plain one. */
enum { EMU_LANES_PLAIN, EMU_LANES_SDWA, EMU_LANES_DPP };

struct emu_inst {
    emu_exec_fn *exec;   /* NULL: unknown; executing it is an error that names it */
    uint32_t pc, bytes;  /* offset in .text, length */
    uint8_t unit, num_operands;
    uint8_t sub;         /* free for exec: a comparison, a width, ... from its table row */
    uint8_t width;       /* bytes a lane of a memory access, from its table row */
    uint16_t mods;       /* EMU_SC0 ... */
    bool clamp;
    uint8_t omod;        /* output modifier of floats: 0 none, 1 *2, 2 *4, 3 /2 */
    uint8_t op_sel, op_sel_hi, neg_lo, neg_hi; /* bit i: operand i (packed and half instructions) */
    int32_t offset, offset1; /* offset:, offset0:/offset1: of memory instructions; simm16 of control instructions; bitop3: */
    int16_t vmcnt, lgkmcnt, expcnt; /* s_waitcnt; -1: not waited for */
    uint8_t cbsz, abid, blgp;       /* MFMA */
    uint8_t lane_mode;              /* EMU_LANES_* */
    uint32_t target;     /* branches: offset in .text */
    struct emu_operand ops[EMU_MAX_OPERANDS]; /* destination(s) first, in the order of the text */
    const char *text;    /* the disassembler's, for reports */
    void *priv;          /* of the unit that executes it, made at decode */
};

/* One mnemonic. decode.c searches the tables with the encoding suffix (_e32, _e64, _sdwa, _dpp) removed. */
struct emu_op {
    const char *name;
    emu_exec_fn *exec;
    uint8_t unit, sub, width; /* width of EMU_MFMA: cycles of the matrix pipe */
    uint8_t allow;            /* EMU_ALLOW_*; those of memory instructions need no permission */
};

/* Modifiers that the row's function implements; an instruction with another one is unknown. */
enum {
    EMU_ALLOW_NEG = 1,    /* -v1, |v1| */
    EMU_ALLOW_CLAMP = 2,
    EMU_ALLOW_OMOD = 4,
    EMU_ALLOW_OPSEL = 8,
    EMU_ALLOW_PACKED = 16, /* op_sel, op_sel_hi, neg_lo, neg_hi */
    EMU_ALLOW_BITOP3 = 32,
    EMU_WANTS_TEXT = 64    /* decode.c appends a constant operand: the address of the text */
};

/* Where flat addresses of LDS and scratch memory begin; no address of a process is that high. */
#define EMU_SHARED_BASE 0x0001000000000000ull
#define EMU_PRIVATE_BASE 0x0002000000000000ull
extern const struct emu_op emu_ops_salu[], emu_ops_control[], emu_ops_mfma[]; /* all end with a NULL name */
extern const struct emu_op emu_ops_valu[], emu_ops_valu_wide[], emu_ops_valu_float[], emu_ops_valu_divide[], emu_ops_valu_half[];
extern const struct emu_op emu_ops_valu_packed[], emu_ops_valu_convert[], emu_ops_valu_compare[];
extern const struct emu_op emu_ops_smem[], emu_ops_vmem[], emu_ops_ds[], emu_ops_sched[];

/* Makes a decoded plain instruction the SDWA or DPP form that code says. false: out of memory or a form that is not known. valu_lanes.c. */
bool emu_lane_mode(struct emu_inst *inst, const uint32_t *code);

const struct emu_op *emu_find_op(const char *name); /* NULL: none; after the first program was loaded */

/* The instruction at offset pc of the program's text; decoded once, then kept. NULL: outside the text or not an instruction. */
struct emu_program;
const struct emu_inst *emu_decode(struct emu_program *program, uint32_t pc);

#endif
