/* SPDX-License-Identifier: MIT
 *
 * What a failed run says. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* "name at file:line" of an instruction, from the unstripped copy of the program; nothing without one. */
static void ask_symbolizer(const struct emu_program *program, uint32_t pc, char *text, size_t bytes)
{
    static const char *const names[] = {"llvm-symbolizer", "llvm-symbolizer-22"};

    text[0] = 0;
    for (size_t i = 0; program->debug_path != NULL && text[0] == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        char command[1024], function[256], place[512];
        FILE *pipe;

        if ((size_t)snprintf(command, sizeof(command), "%s --no-inlines -e '%s' 0x%llx 2>/dev/null", names[i], program->debug_path,
                             (unsigned long long)(program->text_vaddr + pc)) >= sizeof(command)) {
            return;
        }
        pipe = popen(command, "r");
        if (pipe == NULL) {
            return;
        }
        if (fgets(function, sizeof(function), pipe) != NULL && fgets(place, sizeof(place), pipe) != NULL && strncmp(place, "??", 2) != 0) {
            function[strcspn(function, "\n")] = 0;
            place[strcspn(place, "\n")] = 0;
            snprintf(text, bytes, "\n  source: %s in %s", place, function);
        }
        pclose(pipe);
    }
}

/* Many schedules of a wrong kernel fail at one place. */
static void source_line(const struct emu_program *program, uint32_t pc, char *text, size_t bytes)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        char path[256], text[800];
        uint32_t pc;
    } known[32];
    static unsigned next;
    unsigned i = 0;

    text[0] = 0;
    if (program->debug_path == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    while (i < 32 && (known[i].pc != pc || strncmp(known[i].path, program->debug_path, sizeof(known[i].path)) != 0)) {
        i++;
    }
    if (i == 32) {
        i = next++ % 32;
        known[i].pc = pc;
        snprintf(known[i].path, sizeof(known[i].path), "%s", program->debug_path);
        ask_symbolizer(program, pc, known[i].text, sizeof(known[i].text));
    }
    snprintf(text, bytes, "%s", known[i].text);
    pthread_mutex_unlock(&lock);
}

bool emu_wave_fail(struct emu_wave *w, const char *format, ...)
{
    struct emu_gang *gang = emu_gang_of(w);
    const struct emu_grid *grid = w->group->grid;
    char what[EMU_TEXT / 2], source[800];
    va_list args;

    if (gang->failed) {
        return false;
    }
    gang->failed = gang->result->failed = true;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    source_line(grid->program, w->inst != NULL ? w->inst->pc : w->pc, source, sizeof(source));
    snprintf(gang->result->text, EMU_TEXT, "%s\n  kernel %s on device %d (%s), workgroup %u of %u, wave %u of %u, step %llu, seed %llu\n  at 0x%x: %s%s",
             what, grid->kernel->name, grid->device->number, grid->program->arch_name, w->group->id, grid->launch->grid, w->index, w->group->num_waves,
             (unsigned long long)gang->steps, (unsigned long long)gang->options->seed, w->inst != NULL ? w->inst->pc : w->pc,
             w->inst != NULL ? w->inst->text : "no instruction", source);
    return false;
}

/* Waves that stand at one place are one line. */
void emu_report_hang(struct emu_gang *gang)
{
    char *text = gang->result->text;
    size_t used = (size_t)snprintf(text, EMU_TEXT, "no end after %llu steps, seed %llu; waves that have not ended:", (unsigned long long)gang->steps,
                                   (unsigned long long)gang->options->seed);

    gang->failed = gang->result->failed = true;
    for (uint32_t i = 0; i < gang->num_all && used < EMU_TEXT - 1; i++) {
        const struct emu_wave *w = gang->all[i];
        uint32_t same = 0, before = 0;
        char source[800];

        for (uint32_t j = 0; j < gang->num_all && !w->ended; j++) {
            const struct emu_wave *other = gang->all[j];

            if (!other->ended && other->pc == w->pc && other->group->grid == w->group->grid && other->at_barrier == w->at_barrier) {
                same++;
                before += j < i;
            }
        }
        if (same == 0 || before > 0) {
            continue;
        }
        source_line(w->group->grid->program, w->pc, source, sizeof(source));
        used += (size_t)snprintf(text + used, EMU_TEXT - used,
                                 "\n  device %d %s: %u waves%s at 0x%x (workgroup %u wave %u first)%s",
                                 w->group->grid->device->number, w->group->grid->kernel->name, same,
                                 w->at_barrier ? " at a barrier" : "", w->pc, w->group->id, w->index, source);
    }
    for (uint32_t g = 0; g < gang->num_grids && used < EMU_TEXT - 1; g++) {
        if (!gang->grids[g].started) {
            used += (size_t)snprintf(text + used, EMU_TEXT - used, "\n  device %d %s has not begun", gang->grids[g].device->number,
                                     gang->grids[g].kernel->name);
        }
    }
}
