/* SPDX-License-Identifier: MIT
 *
 * The parts of the loader: bundle.c finds the ELF, elf.c loads it, metadata.c and descriptor.c describe its kernels. */
#ifndef EMU_LOAD_H
#define EMU_LOAD_H

#include "program.h"

/* Writes the reason into why (EMU_TEXT bytes); returns false. */
bool emu_load_fail(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes (*image, *bytes) the ELF for arch. */
bool emu_find_elf(const uint8_t **image, size_t *bytes, const char *arch, char *why);

/* Appends the kernels that the metadata note describes to the program: names, arguments, register counts. */
bool emu_metadata_read(struct emu_program *program, const uint8_t *note, size_t bytes, char *why);

/* Fills k (program, name and arguments are known) from its 64-byte descriptor d at an ELF address. */
bool emu_descriptor_read(struct emu_kernel *k, const uint8_t *d, uint64_t address, char *why);

#endif
