/* SPDX-License-Identifier: MIT
 *
 * Reads the text that LLVM's disassembler gives for one instruction. Fields that the text shows in several ways (branch distances, s_waitcnt,
 * hwreg, 16-bit constants of SOPK) come from the encoding instead, which is the same on gfx90a, gfx942 and gfx950. */
#include "parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* How a float constant or a literal extends, by the type in the mnemonic. */
enum type { TYPE_F16, TYPE_BF16, TYPE_32, TYPE_I64, TYPE_U64, TYPE_F64 };

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static bool token_is(const char *s, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(s, name, n) == 0;
}

/* The type of the sources is the last one in the name; of MFMA, whose only constant is the accumulator, the first one. */
static enum type source_type(const char *mnemonic)
{
    static const struct {
        const char *name;
        enum type type;
    } types[] = {{"_bf16", TYPE_BF16}, {"_f16", TYPE_F16}, {"_f64", TYPE_F64}, {"_b64", TYPE_U64}, {"_u64", TYPE_U64}, {"_i64", TYPE_I64},
                 {"_f32", TYPE_32}, {"_u32", TYPE_32}, {"_i32", TYPE_32}, {"_b32", TYPE_32}};
    const char *last = NULL;
    enum type type = TYPE_32;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        for (const char *at = strstr(mnemonic, types[i].name); at != NULL; at = strstr(at + 1, types[i].name)) {
            if (starts(mnemonic, "v_mfma") ? last == NULL || at < last : last == NULL || at > last) {
                last = at;
                type = types[i].type;
            }
        }
    }
    return type;
}

static uint32_t float_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static void float_constant(struct emu_operand *o, double value, enum type type)
{
    uint32_t single = float_bits((float)value);
    uint64_t bits;

    memcpy(&bits, &value, 8);
    o->high = (uint32_t)(bits >> 32);
    switch (type) {
    case TYPE_F16: /* the inline constants are normal numbers with short mantissas, but for 1/(2 pi) = 0x3118 */
        o->value = single == 0x3e22f983u ? 0x3118u : (single >> 16 & 0x8000u) | (((single & 0x7fffffffu) >> 13) - (112u << 10));
        o->high = 0;
        break;
    case TYPE_BF16:
        o->value = single >> 16;
        o->high = 0;
        break;
    case TYPE_32:
        o->value = single;
        o->high = 0;
        break;
    default:
        o->value = (uint32_t)bits;
        break;
    }
}

static bool constant(struct emu_operand *o, const char *s, size_t n, enum type type)
{
    char buffer[64], *end;
    bool hex;

    if (n > 5 && starts(s, "lit(") && s[n - 1] == ')') { /* a literal that would fit the short form */
        s += 4;
        n -= 5;
    }
    if (n >= sizeof(buffer)) {
        return false;
    }
    memcpy(buffer, s, n);
    buffer[n] = 0;
    o->kind = EMU_IMM;
    o->count = 1;
    if (strchr(buffer, '.') != NULL) {
        float_constant(o, strtod(buffer, &end), type);
        return *end == 0;
    }
    hex = strstr(buffer, "0x") != NULL;
    if (hex && buffer[0] != '-') { /* a literal */
        unsigned long long literal = strtoull(buffer, &end, 16);

        if (*end != 0 || literal > UINT32_MAX) {
            return false;
        }
        o->value = type == TYPE_F64 ? 0 : (uint32_t)literal;
        o->high = type == TYPE_F64 ? (uint32_t)literal : type == TYPE_I64 && literal >> 31 != 0 ? UINT32_MAX : 0;
        return true;
    }
    o->value = (uint32_t)strtol(buffer, &end, 0);
    o->high = buffer[0] == '-' ? UINT32_MAX : 0;
    return *end == 0;
}

/* "12", "[4:7]" behind the letter of a register file. */
static bool register_range(struct emu_operand *o, enum emu_operand_kind kind, unsigned base, unsigned limit, const char *s, const char *end)
{
    char *after;
    unsigned long first, last;

    if (*s == '[') {
        first = strtoul(s + 1, &after, 10);
        if (*after != ':') {
            return false;
        }
        last = strtoul(after + 1, &after, 10);
        if (*after++ != ']') {
            return false;
        }
    } else {
        first = last = strtoul(s, &after, 10);
    }
    if (after != end || last < first || last >= limit) {
        return false;
    }
    o->kind = (uint8_t)kind;
    o->index = (uint16_t)(base + first);
    o->count = (uint8_t)(last - first + 1);
    return true;
}

static bool parse_operand(struct emu_operand *o, const char *s, size_t n, enum type type)
{
    static const struct {
        const char *name;
        uint8_t kind, index, count;
    } names[] = {
        {"vcc", EMU_SGPR, EMU_VCC, 2}, {"exec", EMU_SGPR, EMU_EXEC, 2}, {"off", EMU_NONE, 0, 0}, {"m0", EMU_SGPR, EMU_M0, 1},
        {"vcc_lo", EMU_SGPR, EMU_VCC, 1}, {"vcc_hi", EMU_SGPR, EMU_VCC + 1, 1}, {"exec_lo", EMU_SGPR, EMU_EXEC, 1},
        {"exec_hi", EMU_SGPR, EMU_EXEC + 1, 1}, {"flat_scratch", EMU_SGPR, 102, 2}, {"flat_scratch_lo", EMU_SGPR, 102, 1},
        {"flat_scratch_hi", EMU_SGPR, 103, 1}, {"xnack_mask", EMU_SGPR, 104, 2}, {"src_scc", EMU_SPECIAL, EMU_SRC_SCC, 1},
        {"src_vccz", EMU_SPECIAL, EMU_SRC_VCCZ, 1}, {"src_execz", EMU_SPECIAL, EMU_SRC_EXECZ, 1},
        {"src_shared_base", EMU_SPECIAL, EMU_SRC_SHARED_BASE, 2}, {"src_private_base", EMU_SPECIAL, EMU_SRC_PRIVATE_BASE, 2},
    };
    const char *end = s + n;

    if (n > 1 && s[0] == '-' && !isdigit((unsigned char)s[1])) {
        o->neg = true;
        s++;
    }
    if (end - s > 6 && starts(s, "sext(") && end[-1] == ')') { /* SDWA: in the encoding, too */
        s += 5;
        end--;
    }
    if (end - s > 2 && s[0] == '|' && end[-1] == '|') {
        o->abs = true;
        s++;
        end--;
    }
    n = (size_t)(end - s);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (token_is(s, n, names[i].name)) {
            o->kind = names[i].kind;
            o->index = names[i].index;
            o->count = names[i].count;
            return true;
        }
    }
    if (n > 1 && (isdigit((unsigned char)s[1]) || s[1] == '[')) {
        if (s[0] == 'v') {
            return register_range(o, EMU_VGPR, 0, 256, s + 1, end);
        } else if (s[0] == 'a') {
            return register_range(o, EMU_AGPR, 0, 256, s + 1, end);
        } else if (s[0] == 's') {
            return register_range(o, EMU_SGPR, 0, 106, s + 1, end);
        }
    }
    if (n > 4 && starts(s, "ttmp")) {
        return register_range(o, EMU_SGPR, 108, 16, s + 4, end);
    }
    if (n > 6 && starts(s, "hwreg(")) { /* emu_parse() has its number */
        o->kind = EMU_IMM;
        o->count = 1;
        return true;
    }
    return constant(o, s, n, type);
}

/* [1,0,1] as bits, the first is bit 0. */
static bool bit_list(uint8_t *out, const char *s, size_t n)
{
    *out = 0;
    if (n < 3 || n / 2 > 8 || s[0] != '[' || s[n - 1] != ']') {
        return false;
    }
    for (size_t i = 1; i < n; i += 2) {
        if (s[i] != '0' && s[i] != '1') {
            return false;
        }
        *out |= (uint8_t)((s[i] - '0') << (i / 2));
    }
    return true;
}

/* What the text says of SDWA and DPP; valu_lanes.c takes it from the encoding. */
static bool is_lane_mode(const char *s, size_t n)
{
    static const char *const names[] = {"dst_sel:", "dst_unused:", "src0_sel:", "src1_sel:", "quad_perm:", "row_", "wave_", "bank_mask:",
                                        "bound_ctrl:"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (n >= strlen(names[i]) && starts(s, names[i])) {
            return true;
        }
    }
    return false;
}

/* false: no modifier of this name. */
static bool parse_modifier(struct emu_inst *inst, const char *s, size_t n, const uint32_t *code, unsigned *used)
{
    static const struct {
        const char *name;
        uint16_t mod;
    } flags[] = {{"sc0", EMU_SC0}, {"glc", EMU_SC0}, {"sc1", EMU_SC1}, {"scc", EMU_SC1}, {"nt", EMU_NT}, {"slc", EMU_NT},
                 {"lds", EMU_LDS_FLAG}, {"offen", EMU_OFFEN}, {"idxen", EMU_IDXEN}, {"gds", EMU_GDS}};
    const char *colon = memchr(s, ':', n), *value;
    size_t name, length;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (token_is(s, n, flags[i].name)) {
            inst->mods |= flags[i].mod;
            return true;
        }
    }
    if (token_is(s, n, "clamp")) {
        inst->clamp = true;
        *used |= EMU_ALLOW_CLAMP;
        return true;
    }
    if (inst->lane_mode != EMU_LANES_PLAIN && is_lane_mode(s, n)) {
        return true;
    }
    if (colon == NULL) {
        return false;
    }
    name = (size_t)(colon - s);
    value = colon + 1;
    length = n - name - 1;
    if (token_is(s, name, "offset") || token_is(s, name, "offset0")) {
        inst->offset = starts(value, "swizzle(") ? (int32_t)(code[0] & 0xffff) : (int32_t)strtol(value, NULL, 0);
    } else if (token_is(s, name, "offset1")) {
        inst->offset1 = (int32_t)strtol(value, NULL, 0);
    } else if (token_is(s, name, "mul")) {
        inst->omod = *value == '2' ? 1 : 2;
        *used |= EMU_ALLOW_OMOD;
    } else if (token_is(s, name, "div")) {
        inst->omod = 3;
        *used |= EMU_ALLOW_OMOD;
    } else if (token_is(s, name, "op_sel")) {
        *used |= EMU_ALLOW_OPSEL;
        return bit_list(&inst->op_sel, value, length);
    } else if (token_is(s, name, "op_sel_hi")) {
        *used |= EMU_ALLOW_PACKED;
        return bit_list(&inst->op_sel_hi, value, length);
    } else if (token_is(s, name, "neg_lo")) {
        *used |= EMU_ALLOW_PACKED;
        return bit_list(&inst->neg_lo, value, length);
    } else if (token_is(s, name, "neg_hi")) {
        *used |= EMU_ALLOW_PACKED;
        return bit_list(&inst->neg_hi, value, length);
    } else if (token_is(s, name, "bitop3")) {
        inst->offset = (int32_t)strtol(value, NULL, 0);
        *used |= EMU_ALLOW_BITOP3;
    } else if (token_is(s, name, "cbsz")) {
        inst->cbsz = (uint8_t)strtol(value, NULL, 0);
    } else if (token_is(s, name, "abid")) {
        inst->abid = (uint8_t)strtol(value, NULL, 0);
    } else if (token_is(s, name, "blgp")) {
        inst->blgp = (uint8_t)strtol(value, NULL, 0);
    } else {
        return false;
    }
    return true;
}

/* The next token: up to a comma or a space outside brackets. */
static size_t token_length(const char *s)
{
    size_t n = 0;
    int depth = 0;

    for (; s[n] != 0 && (depth > 0 || (s[n] != ',' && s[n] != ' ')); n++) {
        depth += s[n] == '[' || s[n] == '(' ? 1 : s[n] == ']' || s[n] == ')' ? -1 : 0;
    }
    return n;
}

/* s_nop, s_waitcnt, branches and the like: a 16-bit constant and nothing else. */
static void parse_sopp(struct emu_inst *inst, const char *mnemonic, uint32_t code)
{
    inst->offset = (int16_t)(uint16_t)code;
    if (starts(mnemonic, "s_branch") || starts(mnemonic, "s_cbranch")) {
        inst->target = inst->pc + 4 + (uint32_t)inst->offset * 4;
    } else if (strcmp(mnemonic, "s_waitcnt") == 0) {
        unsigned vm = (code & 15) | (code >> 10 & 0x30), lgkm = code >> 8 & 15, exp = code >> 4 & 7;

        inst->vmcnt = vm == 63 ? -1 : (int16_t)vm; /* the largest count of a field waits for nothing */
        inst->lgkmcnt = lgkm == 15 ? -1 : (int16_t)lgkm;
        inst->expcnt = exp == 7 ? -1 : (int16_t)exp;
    }
}

static bool parse_operands(struct emu_inst *inst, const char *s, const char *mnemonic, const uint32_t *code, unsigned *used)
{
    enum type type = source_type(mnemonic);
    bool more = true; /* an operand may come: at the start and behind a comma */

    while (*s != 0) {
        size_t n = token_length(s);
        struct emu_operand *o = &inst->ops[inst->num_operands];

        if (parse_modifier(inst, s, n, code, used)) {
            more = false;
        } else if (!more || inst->num_operands == EMU_MAX_OPERANDS || !parse_operand(o, s, n, type)) {
            return false;
        } else {
            inst->num_operands++;
            *used |= o->neg || o->abs ? EMU_ALLOW_NEG : 0;
            more = s[n] == ',';
        }
        s += n;
        s += strspn(s, ", ");
    }
    return true;
}

bool emu_parse(struct emu_inst *inst, const char *text, const uint32_t *code, char mnemonic[EMU_MAX_MNEMONIC], unsigned *used)
{
    static const char *const suffixes[] = {"_e32", "_e64", "_sdwa", "_dpp"};
    static const uint8_t modes[] = {EMU_LANES_PLAIN, EMU_LANES_PLAIN, EMU_LANES_SDWA, EMU_LANES_DPP};
    size_t n;
    bool packed;

    *used = 0;
    inst->vmcnt = inst->lgkmcnt = inst->expcnt = -1;
    n = strcspn(text, " \t");
    if (n >= EMU_MAX_MNEMONIC) {
        return false;
    }
    memcpy(mnemonic, text, n);
    mnemonic[n] = 0;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        size_t length = strlen(suffixes[i]);

        if (n > length && strcmp(mnemonic + n - length, suffixes[i]) == 0) {
            mnemonic[n - length] = 0;
            inst->lane_mode = modes[i];
            break;
        }
    }
    if (code[0] >> 23 == 0x17f) {
        parse_sopp(inst, mnemonic, code[0]);
        return true;
    }
    packed = starts(mnemonic, "v_pk_");
    inst->op_sel_hi = packed ? 7 : 0; /* what the text leaves out */
    if (!parse_operands(inst, text + n + strspn(text + n, " \t"), mnemonic, code, used)) {
        return false;
    }
    if (code[0] >> 28 == 0xb && (code[0] >> 23 & 31) < 0x1d) { /* SOPK; the codes above are SOP1, SOPC, SOPP */
        for (unsigned i = 0; i < inst->num_operands && i < 2; i++) {
            if (inst->ops[i].kind == EMU_IMM && (i == 0 || inst->ops[0].kind != EMU_IMM)) {
                inst->ops[i].value = (uint32_t)(int16_t)(uint16_t)code[0];
                inst->ops[i].high = (uint32_t)((int32_t)inst->ops[i].value >> 31);
            }
        }
        inst->target = inst->pc + 4 + (uint32_t)(int16_t)(uint16_t)code[0] * 4; /* s_call_b64 */
    }
    for (unsigned i = 1; packed && i < inst->num_operands; i++) {
        /* The documentation leaves open what the upper half of a constant is. */
        if (inst->ops[i].kind == EMU_IMM && inst->ops[i].value != 0 && ((inst->op_sel | inst->op_sel_hi) >> (i - 1) & 1) != 0 &&
            strcmp(mnemonic, "v_pk_mov_b32") != 0) {
            return false;
        }
    }
    return true;
}
