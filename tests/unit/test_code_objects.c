/* SPDX-License-Identifier: MIT
 *
 * Proves that every embedded GPU image is what its row in ccl_code_objects says (for AMD an ELF, or a bundle with one for each architecture, a CUDA
 * fatbin), and that each architecture has every kernel that kernel_list.h promises it exactly once, with its descriptor, and no other. */
/* CTEST: labels quick */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "bundle.h"
#include "kernel_list.h"
#include "runtime/code_objects.h"
#include "test.h"

#define MAX_ARCHS 64 /* times two forms */
#define MAX_NAMES 512 /* the same, times files */
#define OSABI_AMDGPU_HSA 64
#define MACHINE_AMDGPU 224
#define FLAGS_MACH 0xffu
#define FLAGS_XNACK_BIT 8
#define FLAGS_SRAMECC_BIT 10
#define FATBIN_MAGIC 0xba55ed50u
#define DESCRIPTOR_BYTES 64
#define HEAD_MOST 4096 /* what the HIP of ROCm 7 reads of a bundle to find an entry */

static const char *const kernel_names[] = {
#define CCL_K(name, args) "ccl_k_" #name,
    CCL_KERNEL_LIST(CCL_K)
    CCL_CUDA_KERNEL_LIST(CCL_K)
    CCL_MATMUL_KERNEL_LIST(CCL_K) /* in the files named matmul, of what has matrix cores for them */
#undef CCL_K
};

/* In the files named gemm, of the architectures that have matrix cores for them. */
static const char *const matrix_names[] = {
#define CCL_K(name, args) "ccl_k_" #name,
    CCL_MATRIX_KERNEL_LIST(CCL_K)
#undef CCL_K
};
#define NUM_MATRIX ((int)(sizeof(matrix_names) / sizeof(matrix_names[0])))

/* The numbers of the architectures in the flags of an AMD ELF. */
static const struct {
    const char *arch;
    uint32_t mach;
} amd_archs[] = {{"gfx90a", 0x3f}, {"gfx942", 0x4c}, {"gfx950", 0x4f}, {"gfx1100", 0x41}, {"gfx1201", 0x4e}, {"gfx1250", 0x49}};

/* How often each kernel was found for one architecture and form. */
static struct arch_count {
    const char *arch;
    bool traced;
    enum ccl_code_kind kind;
    int code[CCL_NUM_KERNELS], descriptors[CCL_NUM_KERNELS];
    int matrix[NUM_MATRIX], gemm_files;
    int matmul[3]; /* files with kernels of AMD, with matmul_mma, with matmul_wgmma */
} counts[MAX_ARCHS];
static int num_counts;

static bool is_matmul(const struct ccl_code_object *object)
{
    return strcmp(object->file, "matmul") == 0 || strcmp(object->file, "matmul_traced") == 0;
}

static struct arch_count *count_of(const struct ccl_code_object *object)
{
    bool traced = strstr(object->file, "_traced") != NULL;
    for (int i = 0; i < num_counts; i++) {
        const bool same = object->kind == CCL_CODE_CUDA_FATBIN ? counts[i].kind == object->kind : strcmp(counts[i].arch, object->arch) == 0;
        if (same && counts[i].traced == traced) {
            return &counts[i];
        }
    }
    if (num_counts == MAX_ARCHS) {
        TEST_FAIL("more than %d architectures", MAX_ARCHS);
        return NULL;
    }
    counts[num_counts].arch = object->arch;
    counts[num_counts].traced = traced;
    counts[num_counts].kind = object->kind;
    return &counts[num_counts++];
}

static bool inside(const struct ccl_code_object *object, uint64_t off, uint64_t bytes)
{
    uint64_t size = (uint64_t)(object->end - object->begin);
    return off <= size && bytes <= size - off;
}

static void count_symbols(const struct ccl_code_object *object, const Elf64_Shdr *table, const Elf64_Shdr *names,
                          struct arch_count *count)
{
    if (!inside(object, table->sh_offset, table->sh_size) || !inside(object, names->sh_offset, names->sh_size)) {
        TEST_FAIL("%s %s: a section lies outside the image", object->arch, object->file);
        return;
    }
    const Elf64_Sym *symbols = (const Elf64_Sym *)(object->begin + table->sh_offset);
    const char *text = (const char *)(object->begin + names->sh_offset);
    for (uint64_t i = 0; i < table->sh_size / sizeof(*symbols); i++) {
        const char *name = symbols[i].st_name < names->sh_size ? text + symbols[i].st_name : "";
        for (int k = 0; k < NUM_MATRIX; k++) {
            count->matrix[k] += strcmp(name, matrix_names[k]) == 0 && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC;
        }
        for (int k = 0; k < CCL_NUM_KERNELS; k++) {
            size_t length = strlen(kernel_names[k]);
            if (strncmp(name, kernel_names[k], length) != 0) {
                continue;
            }
            if (name[length] == '\0' && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC) {
                count->code[k]++;
            } else if (strcmp(name + length, ".kd") == 0) {
                TEST_EQ(symbols[i].st_size, DESCRIPTOR_BYTES);
                count->descriptors[k]++;
            }
        }
    }
}

static void check_amd(const struct ccl_code_object *object, struct arch_count *count)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)object->begin;
    if (!inside(object, 0, sizeof(*head)) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) {
        TEST_FAIL("%s %s: %td bytes, no ELF", object->arch, object->file, object->end - object->begin);
        return;
    }
    count->gemm_files += strcmp(object->file, "gemm") == 0;
    count->matmul[0] += is_matmul(object);
    TEST_EQ(head->e_ident[EI_CLASS], ELFCLASS64);
    TEST_EQ(head->e_ident[EI_OSABI], OSABI_AMDGPU_HSA);
    TEST_EQ(head->e_machine, MACHINE_AMDGPU);
    bool known = false;
    for (size_t i = 0; i < sizeof(amd_archs) / sizeof(amd_archs[0]); i++) {
        if (strcmp(object->arch, amd_archs[i].arch) == 0) {
            known = true;
            TEST_EQ(head->e_flags & FLAGS_MACH, amd_archs[i].mach);
            /* 0: the architecture has no such setting, 1: any setting, 2 and 3: only for one */
            TEST_CHECK((head->e_flags >> FLAGS_XNACK_BIT & 3) <= 1 && (head->e_flags >> FLAGS_SRAMECC_BIT & 3) <= 1);
        }
    }
    if (!known) {
        TEST_FAIL("%s: no such architecture in the test", object->arch);
    }
    if (!inside(object, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr))) {
        TEST_FAIL("%s %s: the section table lies outside the image", object->arch, object->file);
        return;
    }
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(object->begin + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < head->e_shnum) {
            count_symbols(object, &sections[i], &sections[sections[i].sh_link], count);
        }
    }
}

/* What a row of a bundle stands for: one row for each word of its text and the entry that HIP would take. The host's entry is the first, and empty. */
static void check_bundle(const struct ccl_code_object *object)
{
    size_t bytes = (size_t)(object->end - object->begin);
    struct bundle_entry e;
    const char *why, *word = object->arch;
    uint64_t entries = 1;
    static char names[MAX_NAMES][16];
    static int num_names;
    for (; *word != '\0'; entries++) {
        size_t length = strcspn(word, " ");
        if (length >= sizeof(names[0]) || num_names == MAX_NAMES) {
            TEST_FAIL("%s: more or longer architectures than the test has room for", object->arch);
            return;
        }
        char *name = names[num_names++];
        memcpy(name, word, length);
        if (!bundle_find(object->begin, bytes, name, &e, &why)) {
            TEST_FAIL("%s: the bundle %s: %s", object->file, why, name);
            return;
        }
        TEST_EQ(e.offset % 4096, 0);
        struct ccl_code_object part = {name, object->file, CCL_CODE_AMD_ELF, object->begin + e.offset, object->begin + e.offset + e.bytes};
        struct arch_count *count = count_of(&part);
        if (count != NULL) {
            check_amd(&part, count);
        }
        word += length + (word[length] == ' ');
    }
    if (!bundle_entry(object->begin, bytes, 0, &e, &why) || e.bytes != 0 || e.id_bytes < 5 || memcmp(e.id, "host-", 5) != 0) {
        TEST_FAIL("%s: the first entry is not the empty one of the host", object->file);
    }
    if (!bundle_entry(object->begin, bytes, entries - 1, &e, &why) || e.head_bytes > HEAD_MOST) {
        TEST_FAIL("%s: less than %d entries in its first %d bytes", object->file, (int)entries, HEAD_MOST);
    }
    if (bundle_entry(object->begin, bytes, entries, &e, &why) || why != NULL) {
        TEST_FAIL("%s: more than %d entries", object->file, (int)entries);
    }
}

static bool is_word(unsigned char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Parts of a fatbin, all or those of this name; the row's text names them. */
static int parts_of(const char *text, const char *only)
{
    int parts = 0;
    for (const char *word = text; *word != '\0'; word += strcspn(word, " "), word += *word == ' ') {
        const size_t length = strcspn(word, " ");
        parts += only == NULL || (strlen(only) == length && strncmp(only, word, length) == 0);
    }
    return parts;
}

/* The parts of a fatbin are not unpacked: a kernel is there when its name is, as a whole word, at least once a part. Core wgmma is for sm_90a, mma for all others. */
static void check_cuda(const struct ccl_code_object *object, struct arch_count *count)
{
    uint32_t magic = 0;
    size_t size = (size_t)(object->end - object->begin);
    memcpy(&magic, object->begin, size < sizeof(magic) ? size : sizeof(magic));
    TEST_EQ(magic, FATBIN_MAGIC);
    const int all = parts_of(object->arch, NULL), hopper = parts_of(object->arch, "sm_90a");
    count->matmul[1] += is_matmul(object) && all > hopper;
    count->matmul[2] += is_matmul(object) && hopper > 0;
    for (int k = 0; k < CCL_NUM_KERNELS; k++) {
        size_t length = strlen(kernel_names[k]);
        int found = 0;
        const unsigned char *p = object->begin;
        while ((p = memmem(p, (size_t)(object->end - p), kernel_names[k], length)) != NULL) {
            bool whole = (p == object->begin || !is_word(p[-1])) && (p + length == object->end || !is_word(p[length]));
            found += whole;
            p += length;
        }
        count->code[k] += found > 0 && found >= (k >= CCL_KERNEL_matmul_wgmma ? hopper : k == CCL_KERNEL_matmul_mma ? all - hopper : all);
        count->descriptors[k] = count->code[k];
    }
}

int main(void)
{
    for (const struct ccl_code_object *object = ccl_code_objects; object->arch != NULL; object++) {
        if (object->kind == CCL_CODE_AMD_BUNDLE) {
            check_bundle(object);
            continue;
        }
        struct arch_count *count = count_of(object);
        if (count != NULL && object->kind == CCL_CODE_AMD_ELF) {
            check_amd(object, count);
        } else if (count != NULL) {
            check_cuda(object, count);
        }
    }
    if (num_counts == 0) {
        TEST_SKIP_NOW("no GPU code objects in this build");
    }
    for (int i = 0; i < num_counts; i++) {
        int kernels = 0;
        for (int k = 0; k < CCL_NUM_KERNELS; k++) {
            int want = k < CCL_NUM_COMMON_KERNELS || (counts[i].kind == CCL_CODE_CUDA_FATBIN && !counts[i].traced);
            want = k >= CCL_FIRST_MATMUL_KERNEL ? counts[i].matmul[k < CCL_KERNEL_matmul_mma ? 0 : k == CCL_KERNEL_matmul_mma ? 1 : 2] : want;
            if (counts[i].code[k] != want || counts[i].descriptors[k] != want) {
                TEST_FAIL("%s%s: %s found %d times, its descriptor %d times, want %d", counts[i].arch,
                          counts[i].traced ? " traced" : "", kernel_names[k], counts[i].code[k], counts[i].descriptors[k], want);
            }
            kernels += want;
        }
        for (int k = 0; k < NUM_MATRIX; k++) {
            if (counts[i].matrix[k] != counts[i].gemm_files) {
                TEST_FAIL("%s: %s found %d times in %d files", counts[i].arch, matrix_names[k], counts[i].matrix[k], counts[i].gemm_files);
            }
        }
        printf("%s%s: %d kernels\n", counts[i].arch, counts[i].traced ? ", traced" : "", kernels);
    }
    return test_result();
}
