/* SPDX-License-Identifier: MIT
 *
 * Every instruction of the AMD code objects named on the command line is one that the interpreter executes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "test.h"

static void *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;

    *bytes = 0;
    if (file != NULL) {
        size_t got;

        do {
            char *more = realloc(data, *bytes + 65536);

            if (more == NULL) {
                abort();
            }
            data = more;
            got = fread(data + *bytes, 1, 65536, file);
            *bytes += got;
        } while (got > 0);
        fclose(file);
    }
    return data;
}

/* push_gfx942.co: the arch stands behind the last underscore. */
static void arch_of(const char *path, char arch[16])
{
    const char *from = strrchr(path, '_');

    snprintf(arch, 16, "%.*s", from == NULL ? 0 : (int)strcspn(from + 1, "."), from == NULL ? "" : from + 1);
}

static void check_kernel(const struct emu_kernel *k)
{
    struct emu_kernel_info info;

    emu_kernel_info(k, &info);
    TEST_CHECK(info.name != NULL && info.explicit_bytes > 0 && info.kernarg_bytes >= info.explicit_bytes);
    TEST_CHECK(info.vgprs > 0 && info.vgprs <= 512 && info.max_threads >= 64 && info.max_threads <= 1024);
    TEST_CHECK(k->private_bytes == 0);
    TEST_EQ(k->mode & 0xf0, 0xf0); /* denormals are kept */
}

/* Number of instructions. */
static unsigned check(const char *path)
{
    struct emu_program *p;
    const struct emu_kernel *k;
    char arch[16], why[EMU_TEXT];
    unsigned n = 0;
    size_t bytes;
    void *data = read_file(path, &bytes);

    arch_of(path, arch);
    p = emu_program_load(data, bytes, arch, NULL, why);
    free(data);
    if (p == NULL) {
        TEST_FAIL("%s: %.500s", path, why);
        return 0;
    }
    for (uint32_t pc = 0; pc < p->text_bytes;) {
        const struct emu_inst *inst = emu_decode(p, pc);

        if (inst == NULL) {
            TEST_FAIL("%s: no instruction at text + 0x%x", path, (unsigned)pc);
            break;
        }
        if (inst->exec == NULL) {
            TEST_FAIL("%s: unknown instruction %s", path, inst->text);
        }
        TEST_CHECK(inst->bytes % 4 == 0 && inst->bytes > 0);
        pc += inst->bytes;
        n++;
    }
    for (k = emu_program_next(p, NULL); k != NULL; k = emu_program_next(p, k)) {
        check_kernel(k);
        TEST_CHECK(emu_program_kernel(p, k->name) == k);
    }
    TEST_CHECK(emu_program_kernel(p, "no such kernel") == NULL);
    emu_program_free(p);
    return n;
}

int main(int argc, char **argv)
{
    unsigned n = 0;

    if (argc < 2) {
        TEST_SKIP_NOW("no AMD code objects were built");
    }
    for (int i = 1; i < argc; i++) {
        n += check(argv[i]);
    }
    printf("%d code objects, %u instructions\n", argc - 1, n);
    return test_result();
}
