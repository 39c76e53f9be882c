/* SPDX-License-Identifier: MIT
 *
 * Reads the metadata note of a code object: a MessagePack map whose "amdhsa.kernels" describe the kernels and their arguments (LLVM's "User Guide
 * for AMDGPU Backend", section Code Object V5 Metadata). Only what a loader needs of MessagePack; unknown keys are skipped. */
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define MAX_DEPTH 16

struct reader {
    const uint8_t *p, *end;
    bool bad;
};

enum kind { KIND_INT, KIND_STRING, KIND_ARRAY, KIND_MAP, KIND_OTHER };

struct value {
    enum kind kind;
    uint64_t n;          /* integer or boolean, or number of elements or pairs */
    const char *string;  /* n bytes, no zero behind */
};

static uint64_t big_endian(struct reader *r, unsigned bytes)
{
    uint64_t n = 0;

    if ((size_t)(r->end - r->p) < bytes) {
        r->bad = true;
        return 0;
    }
    while (bytes-- > 0) {
        n = n << 8 | *r->p++;
    }
    return n;
}

static struct value bytes_value(struct reader *r, enum kind kind, uint64_t n)
{
    struct value v = {kind, n, (const char *)r->p};

    if (r->bad || n > (uint64_t)(r->end - r->p)) {
        r->bad = true;
        v.n = 0;
    } else {
        r->p += n;
    }
    return v;
}

/* The next value; of arrays and maps its head only. */
static struct value next(struct reader *r)
{
    unsigned t = (unsigned)big_endian(r, 1);

    if (r->bad) {
        return (struct value){KIND_OTHER, 0, NULL};
    } else if (t < 0x80 || t >= 0xe0) {
        return (struct value){KIND_INT, (uint64_t)(int64_t)(int8_t)t, NULL};
    } else if (t < 0x90) {
        return (struct value){KIND_MAP, t & 15, NULL};
    } else if (t < 0xa0) {
        return (struct value){KIND_ARRAY, t & 15, NULL};
    } else if (t < 0xc0) {
        return bytes_value(r, KIND_STRING, t & 31);
    }
    switch (t) {
    case 0xc0: return (struct value){KIND_OTHER, 0, NULL};
    case 0xc2: case 0xc3: return (struct value){KIND_INT, t & 1, NULL};
    case 0xc4: case 0xc5: case 0xc6: return bytes_value(r, KIND_OTHER, big_endian(r, 1u << (t - 0xc4)));
    case 0xca: case 0xcb: big_endian(r, t == 0xca ? 4 : 8); return (struct value){KIND_OTHER, 0, NULL};
    case 0xcc: case 0xcd: case 0xce: case 0xcf: return (struct value){KIND_INT, big_endian(r, 1u << (t - 0xcc)), NULL};
    case 0xd0: return (struct value){KIND_INT, (uint64_t)(int64_t)(int8_t)big_endian(r, 1), NULL};
    case 0xd1: return (struct value){KIND_INT, (uint64_t)(int64_t)(int16_t)big_endian(r, 2), NULL};
    case 0xd2: return (struct value){KIND_INT, (uint64_t)(int64_t)(int32_t)big_endian(r, 4), NULL};
    case 0xd3: return (struct value){KIND_INT, big_endian(r, 8), NULL};
    case 0xd9: case 0xda: case 0xdb: return bytes_value(r, KIND_STRING, big_endian(r, 1u << (t - 0xd9)));
    case 0xdc: case 0xdd: return (struct value){KIND_ARRAY, big_endian(r, t == 0xdc ? 2 : 4), NULL};
    case 0xde: case 0xdf: return (struct value){KIND_MAP, big_endian(r, t == 0xde ? 2 : 4), NULL};
    default: r->bad = true; return (struct value){KIND_OTHER, 0, NULL}; /* extensions do not occur */
    }
}

static void skip(struct reader *r, unsigned depth)
{
    struct value v = next(r);
    uint64_t n = v.kind == KIND_ARRAY ? v.n : v.kind == KIND_MAP ? 2 * v.n : 0;

    if (depth == 0) {
        r->bad = true;
    }
    for (uint64_t i = 0; i < n && !r->bad; i++) {
        skip(r, depth - 1);
    }
}

static uint64_t expect(struct reader *r, enum kind kind)
{
    struct value v = next(r);

    if (v.kind != kind) {
        r->bad = true;
        return 0;
    }
    return v.n;
}

static bool is(const struct value *key, const char *text)
{
    return key->kind == KIND_STRING && key->n == strlen(text) && memcmp(key->string, text, key->n) == 0;
}

static uint32_t number(struct reader *r)
{
    uint64_t n = expect(r, KIND_INT);

    if (n > UINT32_MAX) {
        r->bad = true;
        return 0;
    }
    return (uint32_t)n;
}

static enum emu_hidden hidden_kind(const struct value *name)
{
    static const char *const names[EMU_NUM_HIDDEN] = {
        [EMU_HIDDEN_BLOCK_COUNT_X] = "hidden_block_count_x", [EMU_HIDDEN_BLOCK_COUNT_Y] = "hidden_block_count_y",
        [EMU_HIDDEN_BLOCK_COUNT_Z] = "hidden_block_count_z", [EMU_HIDDEN_GROUP_SIZE_X] = "hidden_group_size_x",
        [EMU_HIDDEN_GROUP_SIZE_Y] = "hidden_group_size_y", [EMU_HIDDEN_GROUP_SIZE_Z] = "hidden_group_size_z",
        [EMU_HIDDEN_REMAINDER_X] = "hidden_remainder_x", [EMU_HIDDEN_REMAINDER_Y] = "hidden_remainder_y",
        [EMU_HIDDEN_REMAINDER_Z] = "hidden_remainder_z", [EMU_HIDDEN_GLOBAL_OFFSET_X] = "hidden_global_offset_x",
        [EMU_HIDDEN_GLOBAL_OFFSET_Y] = "hidden_global_offset_y", [EMU_HIDDEN_GLOBAL_OFFSET_Z] = "hidden_global_offset_z",
        [EMU_HIDDEN_GRID_DIMS] = "hidden_grid_dims", [EMU_HIDDEN_DYNAMIC_LDS_SIZE] = "hidden_dynamic_lds_size",
    };

    for (int i = 0; i < EMU_NUM_HIDDEN; i++) {
        if (names[i] != NULL && is(name, names[i])) {
            return (enum emu_hidden)i;
        }
    }
    return EMU_HIDDEN_ZERO;
}

static void read_argument(struct reader *r, struct emu_kernel *k)
{
    uint64_t pairs = expect(r, KIND_MAP);
    struct emu_hidden_arg arg = {0};
    struct value kind = {KIND_OTHER, 0, NULL};

    for (uint64_t i = 0; i < pairs && !r->bad; i++) {
        struct value key = next(r);

        if (is(&key, ".offset")) {
            arg.offset = number(r);
        } else if (is(&key, ".size")) {
            arg.bytes = number(r);
        } else if (is(&key, ".value_kind")) {
            kind = next(r);
        } else {
            skip(r, MAX_DEPTH);
        }
    }
    if (kind.kind != KIND_STRING || arg.offset > 1u << 20 || arg.bytes > 1u << 20) {
        r->bad = true;
    } else if (kind.n < 7 || memcmp(kind.string, "hidden_", 7) != 0) {
        k->explicit_bytes = arg.offset + arg.bytes > k->explicit_bytes ? arg.offset + arg.bytes : k->explicit_bytes;
    } else if (k->num_hidden == EMU_MAX_HIDDEN) {
        r->bad = true;
    } else {
        arg.kind = hidden_kind(&kind);
        k->hidden[k->num_hidden++] = arg;
    }
}

static void read_kernel(struct reader *r, struct emu_kernel *k)
{
    uint64_t pairs = expect(r, KIND_MAP), n;
    struct value name = {KIND_OTHER, 0, NULL};

    k->max_threads = 1024;
    for (uint64_t i = 0; i < pairs && !r->bad; i++) {
        struct value key = next(r);

        if (is(&key, ".name")) {
            name = next(r);
        } else if (is(&key, ".max_flat_workgroup_size")) {
            k->max_threads = number(r);
        } else if (is(&key, ".sgpr_count")) {
            k->sgprs = number(r);
        } else if (is(&key, ".vgpr_count")) {
            k->vgprs = number(r);
        } else if (is(&key, ".agpr_count")) {
            k->agprs = number(r);
        } else if (is(&key, ".reqd_workgroup_size")) {
            n = expect(r, KIND_ARRAY);
            for (uint64_t j = 0; j < n && !r->bad; j++) {
                uint32_t size = number(r);

                k->reqd_threads = j == 0 ? size : size < 2048 ? k->reqd_threads * size : UINT32_MAX;
            }
        } else if (is(&key, ".args")) {
            n = expect(r, KIND_ARRAY);
            for (uint64_t j = 0; j < n && !r->bad; j++) {
                read_argument(r, k);
            }
        } else {
            skip(r, MAX_DEPTH);
        }
    }
    if (name.kind != KIND_STRING || name.n == 0 || memchr(name.string, 0, name.n) != NULL) {
        r->bad = true;
    } else if (!r->bad) {
        k->name = strndup(name.string, name.n);
        r->bad = k->name == NULL;
    }
}

bool emu_metadata_read(struct emu_program *program, const uint8_t *note, size_t bytes, char *why)
{
    struct reader r = {note, note + bytes, false};
    uint64_t pairs = expect(&r, KIND_MAP);

    for (uint64_t i = 0; i < pairs && !r.bad; i++) {
        struct value key = next(&r);
        uint64_t n;

        if (!is(&key, "amdhsa.kernels")) {
            skip(&r, MAX_DEPTH);
            continue;
        }
        n = expect(&r, KIND_ARRAY);
        for (uint64_t j = 0; j < n && !r.bad; j++) {
            struct emu_kernel *kernels = realloc(program->kernels, (program->num_kernels + 1) * sizeof(*kernels));

            if (kernels == NULL) {
                r.bad = true;
                break;
            }
            program->kernels = kernels;
            memset(&kernels[program->num_kernels], 0, sizeof(*kernels));
            read_kernel(&r, &kernels[program->num_kernels++]); /* counted even when broken, so that it is freed */
        }
    }
    if (r.bad) {
        emu_load_fail(why, "the metadata note is broken at byte %td of %zu", r.p - note, bytes);
    }
    return !r.bad;
}
