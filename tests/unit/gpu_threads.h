/* SPDX-License-Identifier: MIT
 *
 * Every thread of every block of every rank is a coroutine; at a wait, a barrier and before some accesses it gives way to one drawn at random.
 * Included after gpu_shim.h and the kernels, by one file of a test. */
#ifndef CCL_GPU_THREADS_H
#define CCL_GPU_THREADS_H

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#ifndef RANKS
#define RANKS 4
#endif
#define GRID 6
#define THREADS 128
#define STACK (48u << 10)

extern char __start_gpu_shared[], __stop_gpu_shared[];

typedef void (*kernel_fn)(const struct ccl_k_coll_args *);

struct block {
    uint32_t index, grid, threads, alive, arrived, turn;
    uint32_t named_arrived[16], named_turn[16];
    uint64_t told[THREADS / 32 + 1]; /* lanes of a warp to each other */
    uint32_t of_lane[THREADS / 32 + 1][32];
    uint32_t warp_alive[THREADS / 32 + 1], warp_arrived[THREADS / 32 + 1], warp_turn[THREADS / 32 + 1];
    char *shared;
    kernel_fn fn;
    const struct ccl_k_coll_args *args;
    struct thread *first;
};

struct thread {
    ucontext_t context;
    struct block *block;
    uint32_t tid;
    int done;
    char *stack;
};

static ucontext_t scheduler;
static struct thread *running;
static uint32_t seed = 1, failures;

static uint32_t dice(uint32_t sides)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * sides) >> 32);
}

uint32_t ccl_tid(void) { return running->tid; }
uint32_t ccl_bid(void) { return running->block->index; }
uint32_t ccl_grid(void) { return running->block->grid; }
uint32_t ccl_threads(void) { return running->block->threads; }
void ccl_pause(void) { swapcontext(&running->context, &scheduler); }

void gpu_maybe_yield(void)
{
    if (dice(8) == 0) {
        ccl_pause();
    }
}

uint64_t ccl_clock_ns(void)
{
    static uint64_t now;
    return now += 1000;
}

static void rendezvous(uint32_t *arrived, uint32_t *turn, const uint32_t *alive)
{
    uint32_t mine = *turn;
    (*arrived)++;
    while (*turn == mine) {
        if (*arrived >= *alive) {
            *arrived = 0;
            (*turn)++;
            return;
        }
        ccl_pause();
    }
}

void ccl_block_sync(void)
{
    struct block *b = running->block;
    rendezvous(&b->arrived, &b->turn, &b->alive);
}

void ccl_warp_sync(void)
{
    struct block *b = running->block;
    uint32_t w = running->tid / 32;
    rendezvous(&b->warp_arrived[w], &b->warp_turn[w], &b->warp_alive[w]);
}

uint32_t ccl_warp_ballot(uint32_t x)
{
    struct block *b = running->block;
    uint32_t w = running->tid / 32;
    b->told[w] = 0;
    ccl_warp_sync();
    b->told[w] |= (uint64_t)(x != 0) << (running->tid % 32);
    ccl_warp_sync();
    uint32_t all = (uint32_t)b->told[w];
    ccl_warp_sync();
    return all;
}

uint32_t ccl_of_lane(uint32_t v, uint32_t lane)
{
    uint32_t *all = running->block->of_lane[running->tid / 32];
    all[running->tid % 32] = v;
    ccl_warp_sync();
    v = all[lane];
    ccl_warp_sync();
    return v;
}

uint64_t ccl_warp_first_u64(uint64_t v)
{
    struct block *b = running->block;
    uint32_t w = running->tid / 32;
    if (running->tid % 32 == 0) {
        b->told[w] = v;
    }
    ccl_warp_sync();
    v = b->told[w];
    ccl_warp_sync();
    return v;
}

/* Its threads are those of the launch: who has left will not come. */
void ccl_barrier_arrive(uint32_t barrier)
{
    struct block *b = running->block;
    if (++b->named_arrived[barrier] == b->threads) {
        b->named_arrived[barrier] = 0;
        b->named_turn[barrier]++;
    }
}

void ccl_barrier_sync(uint32_t barrier)
{
    struct block *b = running->block;
    uint32_t mine = b->named_turn[barrier];
    ccl_barrier_arrive(barrier);
    while (b->named_turn[barrier] == mine) {
        ccl_pause();
    }
}

static void enter(void)
{
    struct thread *t = running;
    t->block->fn(t->block->args);
    t->done = 1;
    t->block->alive--;
    t->block->warp_alive[t->tid / 32]--;
    for (;;) {
        swapcontext(&t->context, &scheduler);
    }
}

#endif
