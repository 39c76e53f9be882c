/* SPDX-License-Identifier: MIT
 *
 * What an image is: an ELF file or a clang offload bundle of them (format: "Clang Offload Bundler" of the clang documentation). */
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "load.h"

#define BUNDLE_MAGIC "__CLANG_OFFLOAD_BUNDLE__"

bool emu_load_fail(char *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, EMU_TEXT, format, args);
    va_end(args);
    return false;
}

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The entries of an offload bundle; false when there is no entry number n. */
static bool bundle_entry(const uint8_t *bundle, size_t bytes, uint64_t n, uint64_t *offset, uint64_t *size, const char **id, uint64_t *id_bytes)
{
    uint64_t at = sizeof(BUNDLE_MAGIC) - 1, count, fields[3];

    if (bytes < at + 8) {
        return false;
    }
    memcpy(&count, bundle + at, 8);
    at += 8;
    if (n >= count) {
        return false;
    }
    for (uint64_t i = 0;; i++) {
        if (bytes - at < sizeof(fields)) {
            return false;
        }
        memcpy(fields, bundle + at, sizeof(fields));
        at += sizeof(fields);
        if (fields[2] > bytes - at) {
            return false;
        }
        if (i == n) {
            *offset = fields[0];
            *size = fields[1];
            *id = (const char *)bundle + at;
            *id_bytes = fields[2];
            return true;
        }
        at += fields[2];
    }
}

static bool is_bundle(const void *image, size_t bytes)
{
    return bytes >= sizeof(BUNDLE_MAGIC) - 1 && memcmp(image, BUNDLE_MAGIC, sizeof(BUNDLE_MAGIC) - 1) == 0;
}

static bool is_elf(const void *image, size_t bytes)
{
    return bytes >= sizeof(Elf64_Ehdr) && memcmp(image, ELFMAG, SELFMAG) == 0;
}

size_t emu_image_bytes(const void *image)
{
    const uint8_t *p = image;
    uint64_t end = 0;

    /* The magic first: nothing else may be read of bytes that are neither. */
    if (memcmp(p, ELFMAG, SELFMAG) == 0) {
        Elf64_Ehdr h;

        memcpy(&h, p, sizeof(h));
        end = max64(h.e_phoff + (uint64_t)h.e_phnum * sizeof(Elf64_Phdr), h.e_shoff + (uint64_t)h.e_shnum * sizeof(Elf64_Shdr));
        for (unsigned i = 0; i < h.e_phnum; i++) {
            Elf64_Phdr ph;

            memcpy(&ph, p + h.e_phoff + i * sizeof(ph), sizeof(ph));
            end = max64(end, ph.p_offset + ph.p_filesz);
        }
    } else if (strncmp((const char *)p, BUNDLE_MAGIC, sizeof(BUNDLE_MAGIC) - 1) == 0) {
        uint64_t offset, size, id_bytes;
        const char *id;

        for (uint64_t i = 0; bundle_entry(p, SIZE_MAX / 2, i, &offset, &size, &id, &id_bytes); i++) {
            end = max64(end, offset + size);
        }
    }
    return end;
}

bool emu_find_elf(const uint8_t **image, size_t *bytes, const char *arch, char *why)
{
    uint64_t offset, size, id_bytes;
    const char *id;

    if (is_elf(*image, *bytes)) {
        return true;
    }
    if (!is_bundle(*image, *bytes)) {
        return emu_load_fail(why, "the image is neither an ELF file nor an uncompressed clang offload bundle");
    }
    for (uint64_t i = 0; bundle_entry(*image, *bytes, i, &offset, &size, &id, &id_bytes); i++) {
        const char *dash = NULL, *end = memchr(id, ':', id_bytes); /* hipv4-amdgcn-amd-amdhsa--gfx942:xnack+ */

        if (end == NULL) {
            end = id + id_bytes;
        }
        for (const char *c = id; c < end; c++) {
            dash = *c == '-' ? c + 1 : dash;
        }
        if (dash == NULL || (size_t)(end - dash) != strlen(arch) || memcmp(dash, arch, strlen(arch)) != 0) {
            continue;
        }
        if (offset > *bytes || size > *bytes - offset) {
            return emu_load_fail(why, "the bundle's entry %.*s lies outside the bundle", (int)(id_bytes < 200 ? id_bytes : 200), id);
        }
        *image += offset;
        *bytes = size;
        return is_elf(*image, *bytes) || emu_load_fail(why, "the bundle's entry for %s is not an ELF file", arch);
    }
    return emu_load_fail(why, "the bundle has no entry for %s", arch);
}
