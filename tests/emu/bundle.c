/* SPDX-License-Identifier: MIT
 *
 * What an image is: an ELF file or a clang offload bundle of them (format: "Clang Offload Bundler" of the clang documentation). */
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bundle.h"
#include "load.h"

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
    } else if (is_bundle(p, BUNDLE_ANY_SIZE)) {
        struct bundle_entry e;
        const char *wrong;

        for (uint64_t i = 0; bundle_entry(p, BUNDLE_ANY_SIZE, i, &e, &wrong); i++) {
            end = max64(end, e.offset + e.bytes);
        }
    }
    return end;
}

bool emu_find_elf(const uint8_t **image, size_t *bytes, const char *arch, char *why)
{
    struct bundle_entry e;
    const char *wrong;
    char target[64];

    if (is_elf(*image, *bytes)) {
        return true;
    }
    if (!is_bundle(*image, *bytes)) {
        return emu_load_fail(why, "the image is neither an ELF file nor an uncompressed clang offload bundle");
    }
    snprintf(target, sizeof(target), "%s:sramecc+:xnack-", arch); /* as these GPUs are run */
    if (!bundle_find(*image, *bytes, target, &e, &wrong)) {
        return emu_load_fail(why, "the bundle %s (%s)", wrong, arch);
    }
    *image += e.offset;
    *bytes = e.bytes;
    return is_elf(*image, *bytes) || emu_load_fail(why, "the bundle's entry for %s is not an ELF file", arch);
}
