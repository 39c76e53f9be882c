/* SPDX-License-Identifier: MIT
 *
 * The metadata note of a code object. */
#ifndef EMU_METADATA_H
#define EMU_METADATA_H

#include "program.h"

/* Appends the kernels that the note describes to the program: names, arguments, register counts. false: why says what is broken. */
bool emu_metadata_read(struct emu_program *program, const uint8_t *note, size_t bytes, char *why);

#endif
