/* SPDX-License-Identifier: MIT
 *
 * Decodes instructions through the C disassembler API of libLLVM, which is loaded when the first program is. Each instruction is decoded once,
 * when it is first executed, and kept. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"
#include "program.h"

#define NEWEST_LLVM 32
#define OLDEST_LLVM 20 /* the first that knows gfx950 */
#define MAX_TEXT 512

static struct {
    void *(*create)(const char *triple, const char *cpu, void *info, int tag, void *get_op, void *look_up);
    size_t (*disassemble)(void *context, uint8_t *bytes, uint64_t size, uint64_t pc, char *text, size_t text_bytes);
    void (*dispose)(void *context);
    const char *missing;
} llvm;

static pthread_once_t once = PTHREAD_ONCE_INIT;

struct emu_decoder {
    pthread_mutex_t lock;
    void *context;
};

/* ---- the tables, sorted by name ---- */

static const struct emu_op **sorted;
static size_t num_sorted;

static int compare_ops(const void *a, const void *b)
{
    return strcmp((*(const struct emu_op *const *)a)->name, (*(const struct emu_op *const *)b)->name);
}

static void sort_tables(void)
{
    const struct emu_op *const tables[] = {emu_ops_salu, emu_ops_control, emu_ops_valu, emu_ops_valu_wide, emu_ops_valu_float, emu_ops_valu_divide,
                                           emu_ops_valu_half, emu_ops_valu_packed, emu_ops_valu_convert, emu_ops_valu_compare,
                                           emu_ops_mfma, emu_ops_smem, emu_ops_vmem, emu_ops_ds, emu_ops_sched};
    size_t n = 0;

    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const struct emu_op *op = tables[t]; op->name != NULL; op++) {
            n++;
        }
    }
    sorted = malloc(n * sizeof(*sorted));
    if (sorted == NULL) {
        llvm.missing = "out of memory";
        return;
    }
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const struct emu_op *op = tables[t]; op->name != NULL; op++) {
            sorted[num_sorted++] = op;
        }
    }
    qsort(sorted, num_sorted, sizeof(*sorted), compare_ops);
}

const struct emu_op *emu_find_op(const char *name)
{
    struct emu_op key = {.name = name};
    const struct emu_op *p = &key, **found = bsearch(&p, sorted, num_sorted, sizeof(*sorted), compare_ops);

    return found == NULL ? NULL : *found;
}

/* ---- libLLVM ---- */

static void *open_llvm(void)
{
    static const char *const forms[] = {"libLLVM.so.%d.1", "libLLVM-%d.so.1", "libLLVM-%d.so"};

    for (int version = NEWEST_LLVM; version >= OLDEST_LLVM; version--) {
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
            char name[64];
            void *handle;

            snprintf(name, sizeof(name), forms[i], version);
            handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
            if (handle != NULL) {
                return handle;
            }
        }
    }
    return NULL;
}

static void load_llvm(void)
{
    static const char *const initialisers[] = {"LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTargetMC",
                                               "LLVMInitializeAMDGPUDisassembler"};
    void *handle;

    sort_tables();
    handle = llvm.missing == NULL ? open_llvm() : NULL;
    if (handle == NULL) {
        llvm.missing = llvm.missing != NULL ? llvm.missing : "no libLLVM of version 20 or later found";
        return;
    }
    for (size_t i = 0; i < sizeof(initialisers) / sizeof(initialisers[0]); i++) {
        void (*init)(void);

        *(void **)&init = dlsym(handle, initialisers[i]);
        if (init == NULL) {
            llvm.missing = "libLLVM has no AMDGPU target";
            return;
        }
        init();
    }
    *(void **)&llvm.create = dlsym(handle, "LLVMCreateDisasmCPU");
    *(void **)&llvm.disassemble = dlsym(handle, "LLVMDisasmInstruction");
    *(void **)&llvm.dispose = dlsym(handle, "LLVMDisasmDispose");
    if (llvm.create == NULL || llvm.disassemble == NULL || llvm.dispose == NULL) {
        llvm.missing = "libLLVM has no C disassembler API";
    }
}

bool emu_decoder_open(struct emu_program *program, char *why)
{
    struct emu_decoder *d;

    pthread_once(&once, load_llvm);
    if (llvm.missing != NULL) {
        snprintf(why, EMU_TEXT, "cannot decode AMD instructions: %s", llvm.missing);
        return false;
    }
    d = calloc(1, sizeof(*d));
    program->decoded = calloc(program->text_bytes / 4, sizeof(*program->decoded));
    if (d == NULL || program->decoded == NULL) {
        free(d);
        snprintf(why, EMU_TEXT, "out of memory");
        return false;
    }
    program->decoder = d;
    pthread_mutex_init(&d->lock, NULL);
    d->context = llvm.create("amdgcn-amd-amdhsa", program->arch_name, NULL, 0, NULL, NULL);
    if (d->context == NULL) {
        snprintf(why, EMU_TEXT, "libLLVM cannot disassemble %s", program->arch_name);
        return false;
    }
    return true;
}

void emu_decoder_close(struct emu_program *program)
{
    struct emu_decoder *d = program->decoder;

    for (uint32_t i = 0; program->decoded != NULL && i < program->text_bytes / 4; i++) {
        union {
            const struct emu_inst *held;
            struct emu_inst *owned;
        } inst = {atomic_load_explicit(&program->decoded[i], memory_order_relaxed)};

        if (inst.held != NULL) {
            free(inst.owned->priv);
            free(inst.owned);
        }
    }
    free(program->decoded);
    program->decoded = NULL;
    if (d != NULL) {
        if (d->context != NULL) {
            llvm.dispose(d->context);
        }
        pthread_mutex_destroy(&d->lock);
        free(d);
    }
    program->decoder = NULL;
}

/* ---- instructions ---- */

static const struct emu_inst *decode(struct emu_program *program, uint32_t pc)
{
    uint8_t bytes[20] = {0}; /* the longest instruction, and for the shorter ones at the end zeroes behind the text */
    uint32_t code[5], left = program->text_bytes - pc;
    char text[MAX_TEXT], mnemonic[EMU_MAX_MNEMONIC];
    const char *trimmed;
    const struct emu_op *op;
    struct emu_inst *inst;
    unsigned used;
    size_t length;

    left = left < sizeof(bytes) ? left : (uint32_t)sizeof(bytes);
    memcpy(bytes, program->text + pc, left);
    memcpy(code, bytes, sizeof(code));
    length = llvm.disassemble(program->decoder->context, bytes, left, pc, text, sizeof(text));
    if (length == 0 || length > left) {
        return NULL;
    }
    trimmed = text + strspn(text, " \t");
    inst = calloc(1, sizeof(*inst) + strlen(trimmed) + 1);
    if (inst == NULL) {
        return NULL;
    }
    inst->pc = pc;
    inst->bytes = (uint32_t)length;
    inst->text = strcpy((char *)(inst + 1), trimmed);
    if (emu_parse(inst, inst->text, code, mnemonic, &used)) {
        op = emu_find_op(mnemonic);
        if (op != NULL) {
            bool memory = op->unit == EMU_SMEM || op->unit == EMU_VMEM || op->unit == EMU_DS;

            if ((op->allow & EMU_WANTS_TEXT) != 0 && inst->num_operands < EMU_MAX_OPERANDS) {
                struct emu_operand *o = &inst->ops[inst->num_operands++];

                o->kind = EMU_IMM;
                o->value = (uint32_t)(uintptr_t)program->text;
                o->high = (uint32_t)((uint64_t)(uintptr_t)program->text >> 32);
            }
            used &= op->allow & EMU_ALLOW_PACKED ? ~(unsigned)EMU_ALLOW_OPSEL : ~0u;
            inst->unit = op->unit;
            inst->sub = op->sub;
            inst->width = op->width;
            if ((used & ~(unsigned)op->allow) == 0 && (memory || inst->mods == 0) && (inst->cbsz | inst->abid | inst->blgp) == 0) {
                inst->exec = op->exec;
                if (inst->lane_mode != EMU_LANES_PLAIN && !emu_lane_mode(inst, code)) {
                    inst->exec = NULL;
                }
            }
        }
    }
    return inst;
}

const struct emu_inst *emu_decode(struct emu_program *program, uint32_t pc)
{
    const struct emu_inst *inst;

    if (pc >= program->text_bytes || pc % 4 != 0) {
        return NULL;
    }
    inst = atomic_load_explicit(&program->decoded[pc / 4], memory_order_acquire); /* pairs with the release below */
    if (inst != NULL) {
        return inst;
    }
    pthread_mutex_lock(&program->decoder->lock);
    inst = atomic_load_explicit(&program->decoded[pc / 4], memory_order_relaxed);
    if (inst == NULL) {
        inst = decode(program, pc);
        atomic_store_explicit(&program->decoded[pc / 4], inst, memory_order_release);
    }
    pthread_mutex_unlock(&program->decoder->lock);
    return inst;
}
