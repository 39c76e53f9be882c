/* SPDX-License-Identifier: MIT
 *
 * Reads clang offload bundles (LLVM: "Clang Offload Bundler", Bundled Code Object Layout): magic, number of entries, and for each entry offset, size and id,
 * all little-endian 64-bit words but the texts. Every read is checked against the size. For the tests, the fake HIP runtime and the interpreter; HIP
 * itself reads the bundles that the library embeds. */
#ifndef TEST_BUNDLE_H
#define TEST_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BUNDLE_MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define BUNDLE_MAGIC_BYTES (sizeof(BUNDLE_MAGIC) - 1)
#define BUNDLE_ANY_SIZE (SIZE_MAX / 4) /* for a loader that is told where an image begins and not where it ends */

struct bundle_entry {
    const char *id; /* "hipv4-amdgcn-amd-amdhsa--gfx942", not terminated */
    size_t id_bytes, offset, bytes;
    size_t head_bytes; /* of the bundle, up to the end of this id */
};

static inline bool is_bundle(const void *image, size_t bytes)
{
    /* Byte by byte: the image may be shorter than the magic where its size is not known. */
    const char *p = (const char *)image;
    size_t i = 0;
    while (i < BUNDLE_MAGIC_BYTES && i < bytes && p[i] == BUNDLE_MAGIC[i]) {
        i++;
    }
    return i == BUNDLE_MAGIC_BYTES;
}

/* Entry number n. False: why says what is wrong, or is NULL when the bundle has n entries. */
static inline bool bundle_entry(const void *image, size_t bytes, uint64_t n, struct bundle_entry *e, const char **why)
{
    const char *p = (const char *)image;
    uint64_t count, fields[3]; /* offset, size, length of the id */
    size_t at = BUNDLE_MAGIC_BYTES + sizeof(count);
    *why = "is no offload bundle";
    if (!is_bundle(image, bytes)) {
        return false;
    }
    *why = "ends in its list of entries";
    if (bytes < at) {
        return false;
    }
    memcpy(&count, p + BUNDLE_MAGIC_BYTES, sizeof(count));
    for (uint64_t i = 0; i < count && i <= n; i++) {
        if (bytes - at < sizeof(fields)) {
            return false;
        }
        memcpy(fields, p + at, sizeof(fields));
        at += sizeof(fields);
        if (fields[2] > bytes - at) {
            return false;
        }
        e->id = p + at;
        e->id_bytes = (size_t)fields[2];
        at += e->id_bytes;
    }
    *why = NULL;
    if (n >= count) {
        return false;
    }
    *why = "has an entry that lies outside of it or over its list of entries";
    if (fields[0] > bytes || fields[1] > bytes - fields[0] || (fields[1] > 0 && fields[0] < at)) {
        return false;
    }
    e->offset = (size_t)fields[0];
    e->bytes = (size_t)fields[1];
    e->head_bytes = at;
    return true;
}

/* Whether the target id "gfx942:sramecc+:xnack-" of a device has the feature "xnack+" of the n bytes at feature. */
static inline bool target_has(const char *target, const char *feature, size_t n)
{
    for (const char *p = strchr(target, ':'); p != NULL; p = strchr(p, ':')) {
        p++;
        if (strcspn(p, ":") == n && strncmp(p, feature, n) == 0) {
            return true;
        }
    }
    return false;
}

/* An entry is for a device when it is for HIP, for its processor, and the device has every setting that the entry's target id names; a setting that is not
 * named may be either. target: "gfx942", "gfx942:sramecc+:xnack-". */
static inline bool bundle_fits(const struct bundle_entry *e, const char *target)
{
    static const char *const starts[] = {"hipv4-amdgcn-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--"};
    size_t processor = strcspn(target, ":");
    const char *end = e->id + e->id_bytes;
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        size_t start = strlen(starts[i]);
        if (e->id_bytes < start + processor || memcmp(e->id, starts[i], start) != 0 || memcmp(e->id + start, target, processor) != 0) {
            continue;
        }
        const char *p = e->id + start + processor;
        while (p < end && *p == ':') {
            const char *feature = p + 1, *stop = (const char *)memchr(feature, ':', (size_t)(end - feature));
            stop = stop != NULL ? stop : end;
            if (!target_has(target, feature, (size_t)(stop - feature))) {
                return false;
            }
            p = stop;
        }
        return p == end;
    }
    return false;
}

/* The code object for a device. False: why says what is wrong. */
static inline bool bundle_find(const void *image, size_t bytes, const char *target, struct bundle_entry *e, const char **why)
{
    for (uint64_t n = 0; bundle_entry(image, bytes, n, e, why); n++) {
        if (bundle_fits(e, target)) {
            return true;
        }
    }
    *why = *why != NULL ? *why : "has no entry for this architecture";
    return false;
}

#endif
