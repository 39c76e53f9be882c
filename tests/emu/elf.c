/* SPDX-License-Identifier: MIT
 *
 * Loads AMD code objects (ELF, code object versions 4 and 5): the segments at their distances and the kernels that the metadata names. Every
 * read is checked against the image: a broken file is an error with a reason. Format: LLVM's "User Guide for AMDGPU Backend", section ELF Code
 * Object. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "load.h"

#define EM_AMDGPU_ 224
#define OSABI_AMDGPU_HSA 64
#define MAX_IMAGE (1u << 30)

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct loader {
    struct emu_program *program;
    const uint8_t *file;
    size_t bytes;
    uint64_t base; /* lowest address of the segments */
    uint64_t symbols, strings, strings_bytes, hash, rela, rela_bytes;
    uint32_t num_symbols;
    char *why;
};

static const struct {
    const char *name;
    uint32_t mach; /* EF_AMDGPU_MACH */
    enum emu_arch arch;
} archs[] = {
    {"gfx90a", 0x3f, EMU_GFX90A},
    {"gfx942", 0x4c, EMU_GFX942},
    {"gfx950", 0x4f, EMU_GFX950},
};

/* ---- segments ---- */

/* Loaded bytes at an ELF address, or NULL. */
static uint8_t *loaded(const struct loader *l, uint64_t address, uint64_t bytes)
{
    uint64_t offset = address - l->base;

    return address < l->base || offset > l->program->image_bytes || bytes > l->program->image_bytes - offset ? NULL : l->program->image + offset;
}

static bool segment(const struct loader *l, unsigned i, Elf64_Phdr *ph)
{
    Elf64_Ehdr h;

    memcpy(&h, l->file, sizeof(h));
    if (i >= h.e_phnum) {
        return false;
    }
    memcpy(ph, l->file + h.e_phoff + i * sizeof(*ph), sizeof(*ph));
    return true;
}

static bool load_segments(struct loader *l)
{
    struct emu_program *p = l->program;
    uint64_t low = UINT64_MAX, high = 0;
    Elf64_Phdr ph;

    for (unsigned i = 0; segment(l, i, &ph); i++) {
        if (ph.p_type != PT_LOAD) {
            continue;
        }
        if (ph.p_filesz > ph.p_memsz || ph.p_offset > l->bytes || ph.p_filesz > l->bytes - ph.p_offset) {
            return emu_load_fail(l->why, "segment %u lies outside the file", i);
        }
        if (ph.p_vaddr > MAX_IMAGE || ph.p_memsz > MAX_IMAGE - ph.p_vaddr) {
            return emu_load_fail(l->why, "segment %u ends beyond %u bytes", i, MAX_IMAGE);
        }
        low = ph.p_vaddr < low ? ph.p_vaddr : low;
        high = max64(high, ph.p_vaddr + ph.p_memsz);
    }
    if (low >= high) {
        return emu_load_fail(l->why, "the ELF file has no segments to load");
    }
    l->base = low & ~(uint64_t)4095;
    p->image_bytes = (high - l->base + 4095) & ~(uint64_t)4095;
    p->image = aligned_alloc(4096, p->image_bytes);
    if (p->image == NULL) {
        return emu_load_fail(l->why, "out of memory for %zu bytes of segments", p->image_bytes);
    }
    memset(p->image, 0, p->image_bytes);
    for (unsigned i = 0; segment(l, i, &ph); i++) {
        if (ph.p_type != PT_LOAD) {
            continue;
        }
        memcpy(p->image + (ph.p_vaddr - l->base), l->file + ph.p_offset, ph.p_filesz);
        if ((ph.p_flags & PF_X) != 0) {
            if (p->text != NULL) {
                return emu_load_fail(l->why, "the ELF file has more than one executable segment");
            }
            p->text = p->image + (ph.p_vaddr - l->base);
            p->text_bytes = (uint32_t)ph.p_filesz & ~3u;
            p->text_vaddr = ph.p_vaddr;
        }
    }
    if (p->text == NULL || p->text_bytes == 0 || p->text_vaddr % 4 != 0) {
        return emu_load_fail(l->why, "the ELF file has no code");
    }
    return true;
}

static bool load_dynamic(struct loader *l)
{
    Elf64_Phdr ph;
    uint32_t hash[2];

    for (unsigned i = 0; segment(l, i, &ph); i++) {
        for (uint64_t at = 0; ph.p_type == PT_DYNAMIC && at < ph.p_memsz; at += sizeof(Elf64_Dyn)) {
            const void *from = loaded(l, ph.p_vaddr + at, sizeof(Elf64_Dyn));
            Elf64_Dyn d;

            if (from == NULL) {
                return emu_load_fail(l->why, "the dynamic section lies outside the segments");
            }
            memcpy(&d, from, sizeof(d));
            if (d.d_tag == DT_NULL) {
                break;
            }
            *(d.d_tag == DT_SYMTAB ? &l->symbols : d.d_tag == DT_STRTAB ? &l->strings : d.d_tag == DT_STRSZ ? &l->strings_bytes :
              d.d_tag == DT_HASH ? &l->hash : d.d_tag == DT_RELA ? &l->rela : d.d_tag == DT_RELASZ ? &l->rela_bytes : &(uint64_t){0}) = d.d_un.d_val;
        }
    }
    if (l->symbols == 0 || l->strings == 0 || l->hash == 0 || loaded(l, l->hash, 8) == NULL || loaded(l, l->strings, l->strings_bytes) == NULL) {
        return emu_load_fail(l->why, "the ELF file has no dynamic symbols");
    }
    memcpy(hash, loaded(l, l->hash, 8), 8);
    l->num_symbols = hash[1]; /* length of the chain array */
    if (loaded(l, l->symbols, (uint64_t)l->num_symbols * sizeof(Elf64_Sym)) == NULL) {
        return emu_load_fail(l->why, "the dynamic symbols lie outside the segments");
    }
    return true;
}

static bool find_symbol(const struct loader *l, const char *name, size_t name_bytes, uint64_t *value)
{
    const char *strings = (const char *)loaded(l, l->strings, l->strings_bytes);

    for (uint32_t i = 0; i < l->num_symbols; i++) {
        Elf64_Sym s;

        memcpy(&s, loaded(l, l->symbols + (uint64_t)i * sizeof(s), sizeof(s)), sizeof(s));
        if (s.st_shndx != SHN_UNDEF && s.st_name < l->strings_bytes && l->strings_bytes - s.st_name > name_bytes &&
            memcmp(strings + s.st_name, name, name_bytes) == 0 && strings[s.st_name + name_bytes] == 0) {
            *value = s.st_value;
            return true;
        }
    }
    return false;
}

/* Pointers in constant data: R_AMDGPU_RELATIVE64 (13) and R_AMDGPU_ABS64 (3). */
static bool relocate(struct loader *l)
{
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= l->rela_bytes; at += sizeof(Elf64_Rela)) {
        const void *from = loaded(l, l->rela + at, sizeof(Elf64_Rela));
        Elf64_Rela r;
        Elf64_Sym s = {0};
        uint64_t value;
        uint8_t *to;

        if (from == NULL) {
            return emu_load_fail(l->why, "the relocations lie outside the segments");
        }
        memcpy(&r, from, sizeof(r));
        to = loaded(l, r.r_offset, 8);
        if (to == NULL || ELF64_R_SYM(r.r_info) >= l->num_symbols) {
            return emu_load_fail(l->why, "a relocation points outside the segments");
        }
        if (ELF64_R_TYPE(r.r_info) == 3) {
            memcpy(&s, loaded(l, l->symbols + ELF64_R_SYM(r.r_info) * sizeof(s), sizeof(s)), sizeof(s));
        } else if (ELF64_R_TYPE(r.r_info) != 13) {
            return emu_load_fail(l->why, "unknown relocation type %u", (unsigned)ELF64_R_TYPE(r.r_info));
        }
        value = (uint64_t)(uintptr_t)l->program->image - l->base + s.st_value + (uint64_t)r.r_addend;
        memcpy(to, &value, 8);
    }
    return true;
}

/* ---- kernels ---- */

static bool load_kernels(struct loader *l)
{
    struct emu_program *p = l->program;
    Elf64_Phdr ph;

    for (unsigned i = 0; segment(l, i, &ph); i++) {
        uint64_t at = 0;

        if (ph.p_type != PT_NOTE || ph.p_offset > l->bytes || ph.p_filesz > l->bytes - ph.p_offset) {
            continue;
        }
        while (ph.p_filesz - at >= sizeof(Elf64_Nhdr)) {
            const uint8_t *note = l->file + ph.p_offset + at;
            Elf64_Nhdr n;
            uint64_t name, end;

            memcpy(&n, note, sizeof(n));
            name = ((uint64_t)n.n_namesz + 3) & ~3ull;
            end = at + sizeof(n) + name + (((uint64_t)n.n_descsz + 3) & ~3ull);
            if (end > ph.p_filesz) {
                return emu_load_fail(l->why, "a note ends behind its segment");
            }
            if (n.n_type == 32 && n.n_namesz == 7 && memcmp(note + sizeof(n), "AMDGPU", 7) == 0) {
                if (!emu_metadata_read(p, note + sizeof(n) + name, n.n_descsz, l->why)) {
                    return false;
                }
            }
            at = end;
        }
    }
    if (p->num_kernels == 0) {
        return emu_load_fail(l->why, "the ELF file's metadata name no kernels");
    }
    for (uint32_t i = 0; i < p->num_kernels; i++) {
        struct emu_kernel *k = &p->kernels[i];
        char *symbol = malloc(strlen(k->name) + 4);
        uint64_t address = 0;
        bool found;

        if (symbol == NULL) {
            return emu_load_fail(l->why, "out of memory");
        }
        sprintf(symbol, "%s.kd", k->name);
        found = find_symbol(l, symbol, strlen(symbol), &address);
        free(symbol);
        if (!found) {
            return emu_load_fail(l->why, "kernel %s has no descriptor", k->name);
        }
        k->program = p;
        k->stats = calloc(1, sizeof(*k->stats));
        if (k->stats == NULL) {
            return emu_load_fail(l->why, "out of memory");
        }
        if (loaded(l, address, 64) == NULL) {
            return emu_load_fail(l->why, "kernel %s: its descriptor lies outside the segments", k->name);
        }
        if (!emu_descriptor_read(k, loaded(l, address, 64), address, l->why)) {
            return false;
        }
    }
    return true;
}

static bool check_header(struct loader *l, const char *arch)
{
    Elf64_Ehdr h;

    memcpy(&h, l->file, sizeof(h));
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_AMDGPU_ ||
        h.e_ident[EI_OSABI] != OSABI_AMDGPU_HSA || h.e_type != ET_DYN) {
        return emu_load_fail(l->why, "not an AMD HSA code object (machine %u, type %u)", h.e_machine, h.e_type);
    }
    l->program->code_object = h.e_ident[EI_ABIVERSION] + 2;
    if (l->program->code_object != 4 && l->program->code_object != 5) {
        return emu_load_fail(l->why, "code object version %d: 4 and 5 are supported", l->program->code_object);
    }
    if (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phoff > l->bytes || (uint64_t)h.e_phnum * sizeof(Elf64_Phdr) > l->bytes - h.e_phoff) {
        return emu_load_fail(l->why, "the program headers lie outside the file");
    }
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        if (strcmp(arch, archs[i].name) == 0) {
            l->program->arch = archs[i].arch;
            snprintf(l->program->arch_name, sizeof(l->program->arch_name), "%s", arch);
            return (h.e_flags & 0xff) == archs[i].mach ||
                   emu_load_fail(l->why, "the code object is for machine 0x%x, not for %s", (unsigned)(h.e_flags & 0xff), arch);
        }
    }
    return emu_load_fail(l->why, "no such arch: %s", arch);
}

struct emu_program *emu_program_load(const void *image, size_t bytes, const char *arch, const char *debug_path, char *why)
{
    struct loader l = {.file = image, .bytes = bytes, .why = why};
    struct emu_program *p;

    if (!emu_find_elf(&l.file, &l.bytes, arch, why)) {
        return NULL;
    }
    p = calloc(1, sizeof(*p));
    if (p == NULL) {
        emu_load_fail(why, "out of memory");
        return NULL;
    }
    l.program = p;
    if (check_header(&l, arch) && load_segments(&l) && load_dynamic(&l) && relocate(&l) && load_kernels(&l) && emu_decoder_open(p, why)) {
        p->debug_path = debug_path != NULL ? strdup(debug_path) : NULL;
        return p;
    }
    emu_program_free(p);
    return NULL;
}

void emu_program_free(struct emu_program *p)
{
    if (p == NULL) {
        return;
    }
    emu_counts_forget(p);
    emu_decoder_close(p);
    for (uint32_t i = 0; i < p->num_kernels; i++) {
        free(p->kernels[i].name);
        free(p->kernels[i].stats);
    }
    free(p->kernels);
    free(p->image);
    free(p->debug_path);
    free(p);
}

const struct emu_kernel *emu_program_kernel(const struct emu_program *p, const char *name)
{
    for (uint32_t i = 0; i < p->num_kernels; i++) {
        if (strcmp(p->kernels[i].name, name) == 0) {
            return &p->kernels[i];
        }
    }
    return NULL;
}

const struct emu_kernel *emu_program_next(const struct emu_program *p, const struct emu_kernel *kernel)
{
    uint32_t next = kernel == NULL ? 0 : (uint32_t)(kernel - p->kernels) + 1;

    return next < p->num_kernels ? &p->kernels[next] : NULL;
}

void emu_kernel_info(const struct emu_kernel *k, struct emu_kernel_info *info)
{
    *info = (struct emu_kernel_info){k->name, k->explicit_bytes, k->kernarg_bytes, k->lds_bytes, k->vgprs, k->agprs, k->sgprs, k->max_threads};
}
