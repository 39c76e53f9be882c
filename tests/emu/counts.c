/* SPDX-License-Identifier: MIT
 *
 * Sums of the kernels that ran. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "counts.h"

/* Kernels that ran, for the table; a program that is freed takes its kernels out. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ran {
    struct ran *next;
    const struct emu_kernel *kernel;
} *first;

void emu_counts_add(const struct emu_grid *grid)
{
    struct emu_kernel_stats *stats = grid->kernel->stats;
    uint64_t *sum = (uint64_t *)&stats->counts;
    const uint64_t *add = (const uint64_t *)&grid->counts;

    pthread_mutex_lock(&lock);
    if (stats->launches++ == 0) {
        struct ran *ran = malloc(sizeof(*ran));

        if (ran != NULL) {
            ran->kernel = grid->kernel;
            ran->next = first;
            first = ran;
        }
    }
    for (size_t i = 0; i < sizeof(stats->counts) / sizeof(*sum); i++) {
        sum[i] += add[i];
    }
    pthread_mutex_unlock(&lock);
}

void emu_counts_forget(const struct emu_program *program)
{
    pthread_mutex_lock(&lock);
    for (struct ran **link = &first; *link != NULL;) {
        struct ran *ran = *link;

        if (ran->kernel->program == program) {
            *link = ran->next;
            free(ran);
        } else {
            link = &ran->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

void emu_counts_of(const struct emu_kernel *kernel, struct emu_counts *counts, uint64_t *launches)
{
    pthread_mutex_lock(&lock);
    *counts = kernel->stats->counts;
    *launches = kernel->stats->launches;
    pthread_mutex_unlock(&lock);
}

static double per(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : (double)a / (double)b;
}

void emu_counts_print(void *file)
{
    FILE *out = file;

    fprintf(out, "%-32s %-7s %8s %11s %5s %5s %5s %5s %5s %10s %10s %6s %6s %9s %7s %9s %9s %6s %10s\n", "kernel", "arch", "launches", "instr.", "salu%",
            "valu%", "mfma%", "vmem%", "lds%", "load B", "store B", "seg/ld", "seg/st", "conflicts", "waits", "w. stores",
            "barriers", "wb+inv", "mfma cyc.");
    pthread_mutex_lock(&lock);
    for (const struct ran *ran = first; ran != NULL; ran = ran->next) {
        const struct emu_counts *c = &ran->kernel->stats->counts;
        double all = c->wave_instructions == 0 ? 1 : (double)c->wave_instructions / 100;

        fprintf(out, "%-32s %-7s %8llu %11llu %5.1f %5.1f %5.1f %5.1f %5.1f %10llu %10llu %6.2f %6.2f %9llu %7llu %9llu %9llu %6llu %10llu\n",
                ran->kernel->name, ran->kernel->program->arch_name, (unsigned long long)ran->kernel->stats->launches, (unsigned long long)c->wave_instructions,
                (double)c->salu / all, (double)c->valu / all, (double)c->mfma / all, (double)c->vmem / all, (double)c->lds / all,
                (unsigned long long)c->load_bytes, (unsigned long long)c->store_bytes, per(c->load_transactions, c->loads),
                per(c->store_transactions, c->stores), (unsigned long long)c->lds_conflict_cycles, (unsigned long long)c->waits,
                (unsigned long long)c->waits_for_stores, (unsigned long long)c->barriers, (unsigned long long)(c->write_backs + c->invalidates),
                (unsigned long long)c->mfma_cycles);
    }
    pthread_mutex_unlock(&lock);
}
