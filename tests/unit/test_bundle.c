/* SPDX-License-Identifier: MIT
 *
 * Proves that the tests' reader of offload bundles finds the entry for a device and its settings, and that a bundle that is cut off or garbled anywhere in its
 * list is an error with a reason and never a read outside of it (each copy has exactly its size, for the address sanitizer). */
/* CTEST: labels quick */
#include <stdlib.h>

#include "bundle.h"
#include "test.h"

#define PART 64 /* bytes of a made-up code object */
#define MAX_BYTES 2048

struct bundle {
    unsigned char data[MAX_BYTES];
    size_t bytes, head_bytes;
};

static void put(struct bundle *b, size_t *at, const void *data, size_t bytes)
{
    memcpy(b->data + *at, data, bytes);
    *at += bytes;
}

/* Entry i of n bytes holds the byte i; the first is empty, as the host's. */
static void make(struct bundle *b, const char *const *ids, uint64_t n)
{
    size_t at = 0, from;
    memset(b, 0, sizeof(*b));
    for (int pass = 0; pass < 2; pass++) { /* the second knows where the list ends */
        from = b->head_bytes = at;
        at = 0;
        put(b, &at, BUNDLE_MAGIC, BUNDLE_MAGIC_BYTES);
        put(b, &at, &n, sizeof(n));
        for (uint64_t i = 0; i < n; i++) {
            uint64_t fields[3] = {from, i == 0 ? 0 : PART, strlen(ids[i])};
            put(b, &at, fields, sizeof(fields));
            put(b, &at, ids[i], strlen(ids[i]));
            from += fields[1];
        }
    }
    for (uint64_t i = 1; i < n; i++) {
        memset(b->data + at + (i - 1) * PART, (int)i, PART);
    }
    b->bytes = at + (n - 1) * PART;
}

static const char *const ids[] = {"host-x86_64-unknown-linux-gnu",
                                  "openmp-amdgcn-amd-amdhsa--gfx906",
                                  "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
                                  "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
                                  "hipv4-amdgcn-amd-amdhsa--gfx942",
                                  "hip-amdgcn-amd-amdhsa--gfx1100"};
#define IDS (sizeof(ids) / sizeof(ids[0]))

/* Number of the entry for a device; -1: none. */
static int found(const struct bundle *b, const char *target)
{
    struct bundle_entry e;
    const char *why = NULL;
    if (!bundle_find(b->data, b->bytes, target, &e, &why)) {
        TEST_CHECK(why != NULL && strstr(why, "no entry for this architecture") != NULL);
        return -1;
    }
    TEST_EQ(e.bytes, PART);
    return b->data[e.offset];
}

static void check_targets(const struct bundle *b)
{
    TEST_EQ(found(b, "gfx942"), 4);
    TEST_EQ(found(b, "gfx942:sramecc+:xnack-"), 4);
    TEST_EQ(found(b, "gfx94"), -1);
    TEST_EQ(found(b, "gfx9420"), -1);
    TEST_EQ(found(b, "gfx906"), -1); /* not for HIP */
    TEST_EQ(found(b, "gfx1100"), 5);
    TEST_EQ(found(b, "gfx90a:sramecc+:xnack-"), 2);
    TEST_EQ(found(b, "gfx90a:sramecc+:xnack+"), 3);
    TEST_EQ(found(b, "gfx90a:sramecc-:xnack-"), -1);
    TEST_EQ(found(b, "gfx90a"), -1);
}

static int count_entries(const unsigned char *data, size_t bytes, const char **why)
{
    struct bundle_entry e;
    int n = 0;
    while (n < 1000 && bundle_entry(data, bytes, (uint64_t)n, &e, why)) {
        n++;
    }
    return n;
}

static void check_truncated(const struct bundle *b)
{
    const char *why;
    TEST_EQ(count_entries(b->data, b->bytes, &why), IDS);
    TEST_CHECK(why == NULL);
    for (size_t bytes = 0; bytes < b->bytes; bytes++) {
        unsigned char *copy = malloc(bytes > 0 ? bytes : 1);
        memcpy(copy, b->data, bytes);
        struct bundle_entry last;
        const char *want = bytes < BUNDLE_MAGIC_BYTES ? "no offload bundle" : bytes < b->head_bytes ? "ends in its list" : "lies outside";
        if (bundle_entry(copy, bytes, IDS - 1, &last, &why) || why == NULL || strstr(why, want) == NULL) {
            TEST_FAIL("cut off after %zu of %zu bytes: \"%s\", want \"%s\"", bytes, b->bytes, why != NULL ? why : "found", want);
        }
        TEST_CHECK(count_entries(copy, bytes, &why) < (int)IDS && why != NULL);
        free(copy);
    }
}

/* Every bit of the list turned over: never a read outside, and what is still found lies inside. */
static void check_garbled(const struct bundle *b)
{
    const char *why;
    unsigned char *copy = malloc(b->bytes);
    int wrong = 0;
    for (size_t bit = 0; bit < 8 * b->head_bytes; bit++) {
        struct bundle_entry e;
        memcpy(copy, b->data, b->bytes);
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        wrong += count_entries(copy, b->bytes, &why) != IDS || why != NULL;
        if (bundle_find(copy, b->bytes, "gfx942", &e, &why)) {
            TEST_CHECK(e.offset >= e.head_bytes && e.offset + e.bytes <= b->bytes);
        } else {
            TEST_CHECK(why != NULL);
        }
    }
    /* At least the magic, the count, and the high bytes of all offsets and sizes must be noticed. */
    TEST_CHECK(wrong >= 8 * (int)(BUNDLE_MAGIC_BYTES + 8 + (IDS - 1) * 2 * 6));
    printf("%d of %zu single-bit errors in the list of entries noticed\n", wrong, 8 * b->head_bytes);
    free(copy);
}

int main(void)
{
    static struct bundle b;
    make(&b, ids, IDS);
    check_targets(&b);
    check_truncated(&b);
    check_garbled(&b);
    return test_result();
}
