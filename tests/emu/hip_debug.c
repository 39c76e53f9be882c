/* SPDX-License-Identifier: MIT
 *
 * Finds the unstripped twin of a code object (cmake/kernels.cmake keeps them), by its machine code: the embedded images do not say which file they came
 * from, and a twin with other code would name wrong lines. */
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu/fake.h"

#include "hip_module.h"
#include "program.h"

static void *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0) {
        data = malloc((size_t)size);
    }
    if (data != NULL && fread(data, 1, (size_t)size, file) != (size_t)size) {
        free(data);
        data = NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    *bytes = data != NULL ? (size_t)size : 0;
    return data;
}

/* The file is an ELF with this executable segment. */
static bool has_text(const unsigned char *file, size_t bytes, const struct emu_program *program)
{
    Elf64_Ehdr head;
    Elf64_Phdr segment;
    if (bytes < sizeof(head) || memcmp(file, ELFMAG, SELFMAG) != 0) {
        return false;
    }
    memcpy(&head, file, sizeof(head));
    for (unsigned i = 0; i < head.e_phnum && head.e_phoff + (i + 1) * sizeof(segment) <= bytes; i++) {
        memcpy(&segment, file + head.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && segment.p_filesz == program->text_bytes && segment.p_offset <= bytes &&
            bytes - segment.p_offset >= program->text_bytes) {
            return memcmp(file + segment.p_offset, program->text, program->text_bytes) == 0;
        }
    }
    return false;
}

static bool is_debug_file(const char *name, const char *arch)
{
    char end[48];
    snprintf(end, sizeof(end), "_%s.debug.co", arch);
    return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* True: path is the twin. */
static bool find_twin(const struct emu_program *program, const char *arch, char *path, size_t path_bytes)
{
    char folder[512];
    Dl_info info;
    bool found = false;
    const char *own = dladdr(&ccl_fake_gpu, &info) != 0 ? info.dli_fname : "", *slash = strrchr(own, '/');
    snprintf(folder, sizeof(folder), "%.*skernels", slash != NULL ? (int)(slash + 1 - own) : 0, own);
    const char *place = fake_setting("CCL_EMU_DEBUG_DIR", folder);
    DIR *dir = opendir(place);
    for (struct dirent *entry; dir != NULL && !found && (entry = readdir(dir)) != NULL;) {
        size_t bytes;
        snprintf(path, path_bytes, "%s/%s", place, entry->d_name);
        unsigned char *file = is_debug_file(entry->d_name, arch) ? read_file(path, &bytes) : NULL;
        found = file != NULL && has_text(file, bytes, program);
        free(file);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

struct emu_program *emu_hip_load(const void *image, size_t bytes, const char *arch, char *why)
{
    char path[1024];
    struct emu_program *program = emu_program_load(image, bytes, arch, NULL, why);
    if (program != NULL && find_twin(program, arch, path, sizeof(path))) {
        emu_program_free(program);
        program = emu_program_load(image, bytes, arch, path, why);
    }
    return program;
}
