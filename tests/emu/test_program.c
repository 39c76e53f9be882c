/* SPDX-License-Identifier: MIT
 *
 * Code objects of versions 4 and 5 load, alone and out of a bundle, and their kernels learn the right launch; a broken or foreign file is
 * refused with a reason and never read outside its bytes (run with the address sanitizer). */
#include <sys/mman.h>

#include "test_alu.h"

#define GRID 3
#define THREADS 100 /* two waves, the second one not full */
#define BUNDLE "__CLANG_OFFLOAD_BUNDLE__"

struct file {
    uint8_t *data;
    size_t bytes;
    char arch[16];
    int version;
};

struct row {
    uint32_t group, item, group_size, grid_size, value, table;
};

static struct row *rows;

static bool find_region(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host)
{
    *host = false;
    *base = (uint64_t)(uintptr_t)rows;
    *bytes = GRID * THREADS * sizeof(*rows);
    return addr >= *base && addr - *base < *bytes;
}

/* launch_v4_gfx942.co */
static void read_file(struct file *f, const char *path)
{
    FILE *file = fopen(path, "rb");
    const char *from = strrchr(path, '_');

    f->data = malloc(1u << 20);
    f->bytes = file == NULL || f->data == NULL ? 0 : fread(f->data, 1, 1u << 20, file);
    if (f->bytes == 0 || from == NULL || from - path < 2) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    f->data = realloc(f->data, f->bytes); /* so that the sanitizer sees reads behind the end */
    f->version = from[-1] - '0';
    snprintf(f->arch, sizeof(f->arch), "%.*s", (int)strcspn(from + 1, "."), from + 1);
}

/* ---- running what was compiled ---- */

static void check_rows(const struct file *f, uint32_t value)
{
    static const uint32_t table[] = {3, 1, 4, 1, 5, 9, 2, 6};

    for (uint32_t group = 0; group < GRID; group++) {
        for (uint32_t item = 0; item < THREADS; item++) {
            const struct row *r = &rows[group * THREADS + item], want = {group, item, THREADS, GRID * THREADS, value,
                                                                         table[(value & 1 ? 4 : 1) + (item & 3)]};

            if (memcmp(r, &want, sizeof(want)) != 0) {
                TEST_FAIL("%s v%d: workgroup %u workitem %u got %u %u size %u of %u value %u table %u", f->arch, f->version, group, item, r->group,
                          r->item, r->group_size, r->grid_size, r->value, r->table);
                return;
            }
        }
    }
}

static void check_runs(const struct file *f, const void *image, size_t bytes)
{
    char why[EMU_TEXT] = "";
    struct emu_program *p = emu_program_load(image, bytes, f->arch, NULL, why);
    struct emu_device *device = emu_device_new(0, f->arch, 1);
    struct emu_kernel_info info;

    if (p == NULL) {
        TEST_FAIL("%s v%d: %.500s", f->arch, f->version, why);
        return;
    }
    TEST_EQ(p->code_object, f->version);
    for (uint32_t value = 6; value < 10; value++) {
        struct {
            struct row *out;
            uint32_t value;
        } args = {rows, value};
        struct emu_launch launch = {.kernel = emu_program_kernel(p, "where"), .device = device, .grid = GRID, .threads = THREADS, .args = &args};
        struct emu_options options = {.seed = value, .max_steps = 100000};
        struct emu_result result = {0};

        TEST_CHECK(launch.kernel != NULL);
        emu_kernel_info(launch.kernel, &info);
        TEST_EQ(info.explicit_bytes, 12);
        TEST_EQ(info.max_threads, 256);
        memset(rows, 0xff, GRID * THREADS * sizeof(*rows));
        if (!emu_run(&launch, 1, &options, &result)) {
            TEST_FAIL("%s v%d: %.1500s", f->arch, f->version, result.text);
            break;
        }
        check_rows(f, value);
        launch.threads = 257;
        TEST_CHECK(emu_launch_refused(&launch) != NULL);
        launch.threads = 256;
        TEST_CHECK(emu_launch_refused(&launch) == NULL);
        launch.dynamic_lds = 1u << 20;
        TEST_CHECK(emu_launch_refused(&launch) != NULL);
    }
    TEST_CHECK(emu_program_kernel(p, "nothing") != NULL);
    emu_device_free(device);
    emu_program_free(p);
}

/* ---- registers at the start, of a kernel whose descriptor asks for everything ---- */

static void check_start(void)
{
    struct emu_program p = {.arch = EMU_GFX942};
    struct emu_kernel k = {.program = &p, .entry = 64, .kernarg_bytes = 32, .user = EMU_USER_DISPATCH_PTR | EMU_USER_QUEUE_PTR | EMU_USER_KERNARG_PTR,
                           .num_user_sgprs = 9, .preload_dwords = 3, .preload_offset = 2, .group_id = {true, true, false}, .mode = 0x3f0};
    struct emu_launch launch = {.kernel = &k, .grid = 8, .threads = 70};
    uint32_t kernarg[8] = {10, 11, 12, 13, 14, 15, 16, 17};
    struct emu_dispatch_packet packet = {0};
    struct emu_wave w = {.index = 1, .v = calloc(EMU_MAX_VGPRS, sizeof(emu_lanes))};

    emu_wave_start(&w, &launch, 5, kernarg, &packet);
    TEST_CHECK(get_s64(&w, 0) == (uint64_t)(uintptr_t)&packet);
    TEST_CHECK(get_s64(&w, 4) == (uint64_t)(uintptr_t)kernarg);
    TEST_EQ(w.s[6], 12);
    TEST_EQ(w.s[8], 14);
    TEST_EQ(w.s[9], 5);
    TEST_EQ(w.s[10], 0);
    TEST_EQ(w.s_known[0], 0x7f3); /* not the queue pointer, nothing above the workgroup ids */
    TEST_CHECK(w.s_known[1] == 3ull << (EMU_EXEC - 64));
    TEST_EQ(emu_exec_mask(&w), 63); /* 6 of 64 */
    TEST_EQ(w.v[0][5], 69);
    TEST_EQ(w.v_known[0], 1);
    TEST_EQ(w.v_known[4], 0);
    TEST_EQ(w.pc, 64);
    free(w.v);
}

/* ---- broken files ---- */

static void check_refused(const void *image, size_t bytes, const char *arch, const char *part)
{
    char why[EMU_TEXT] = "";
    struct emu_program *p = emu_program_load(image, bytes, arch, NULL, why);

    if (p != NULL || strstr(why, part) == NULL) {
        TEST_FAIL("expected a refusal with \"%s\", got \"%.500s\"", part, p != NULL ? "success" : why);
    }
    emu_program_free(p);
}

/* Whatever the bytes are, loading ends well, and what loads can be decoded. */
static unsigned try_image(const void *image, size_t bytes, const char *arch)
{
    char why[EMU_TEXT] = "";
    struct emu_program *p = emu_program_load(image, bytes, arch, NULL, why);

    if (p == NULL) {
        TEST_CHECK(why[0] != 0);
        return 0;
    }
    for (uint32_t k = 0; k < p->num_kernels; k++) {
        TEST_CHECK(p->kernels[k].entry < p->text_bytes);
        emu_decode(p, p->kernels[k].entry);
    }
    emu_decode(p, p->text_bytes - 4);
    TEST_CHECK(emu_decode(p, p->text_bytes) == NULL && emu_decode(p, 2) == NULL);
    emu_program_free(p);
    return 1;
}

static void check_broken(const struct file *f, unsigned flips)
{
    uint8_t *copy;
    unsigned loaded = 0;

    for (size_t bytes = 0; bytes < f->bytes; bytes += 1 + bytes / 50) {
        copy = malloc(bytes + 1);
        memcpy(copy, f->data, bytes);
        loaded += try_image(copy, bytes, f->arch);
        free(copy);
    }
    copy = malloc(f->bytes);
    for (unsigned i = 0; i < flips; i++) {
        size_t at = rnd() % (i % 2 ? f->bytes : f->bytes < 0x700 ? f->bytes : 0x700); /* headers and metadata stand in front */

        memcpy(copy, f->data, f->bytes);
        copy[at] ^= i % 3 == 0 ? (uint8_t)rnd() : (uint8_t)(1u << rnd() % 8);
        loaded += try_image(copy, f->bytes, f->arch);
    }
    free(copy);
    TEST_CHECK(loaded > 0); /* a flip in the comment section is none of the loader's business */
    check_refused(f->data, f->bytes, strcmp(f->arch, "gfx942") == 0 ? "gfx950" : "gfx942", "machine");
    check_refused(f->data, f->bytes, "gfx906", "no such arch");
    check_refused(f->data, 10, f->arch, "neither");
    TEST_CHECK(emu_image_bytes(f->data) > f->bytes - 8 && emu_image_bytes(f->data) <= f->bytes);
    TEST_CHECK(emu_image_bytes("nothing that anybody knows") == 0);
}

/* Appends an entry's three numbers and its id. */
static size_t add_entry(uint8_t *to, uint64_t offset, uint64_t size, const char *id)
{
    uint64_t fields[3] = {offset, size, strlen(id)};

    memcpy(to, fields, sizeof(fields));
    memcpy(to + sizeof(fields), id, strlen(id));
    return sizeof(fields) + strlen(id);
}

static void check_bundle(const struct file *f)
{
    size_t head = strlen(BUNDLE), at = head + 8, bytes = 4096 + f->bytes;
    uint8_t *bundle = calloc(1, bytes);
    uint64_t count = 3;
    char id[64];

    memcpy(bundle, BUNDLE, head);
    memcpy(bundle + head, &count, 8);
    at += add_entry(bundle + at, 4096, 0, "host-x86_64-unknown-linux--");
    at += add_entry(bundle + at, 4096, 8, "hipv4-amdgcn-amd-amdhsa--gfx1100");
    snprintf(id, sizeof(id), "hipv4-amdgcn-amd-amdhsa--%s", f->arch);
    add_entry(bundle + at, 4096, f->bytes, id);
    memcpy(bundle + 4096, f->data, f->bytes);
    TEST_CHECK(emu_image_bytes(bundle) == bytes);
    check_runs(f, bundle, bytes);
    check_refused(bundle, bytes, strcmp(f->arch, "gfx942") == 0 ? "gfx950" : "gfx942", "no entry");
    check_refused(bundle, 4096 + f->bytes / 2, f->arch, "outside");
    check_refused(bundle, bytes, "gfx1100", "not an ELF");
    for (size_t cut = 0; cut < 200; cut += 7) {
        try_image(bundle, cut, f->arch);
    }
    free(bundle);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        TEST_SKIP_NOW("no code objects were built");
    }
    rows = mmap(NULL, GRID * THREADS * sizeof(*rows), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (rows == MAP_FAILED) {
        return 1;
    }
    emu_set_regions(find_region);
    check_start();
    for (int i = 1; i < argc; i++) {
        struct file f;

        read_file(&f, argv[i]);
        check_runs(&f, f.data, f.bytes);
        check_bundle(&f);
        check_broken(&f, 400);
        free(f.data);
    }
    munmap(rows, GRID * THREADS * sizeof(*rows));
    return test_result();
}
