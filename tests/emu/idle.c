/* SPDX-License-Identifier: MIT
 *
 * Who only polls, and what is done about it. A wave polls if since the gang last made progress it has slept (s_sleep) or loaded past a cache, and has not
 * run for long without either. A gang whose live waves all poll is waiting. Of a shared run that means idling: turns are long enough for a poll, moods that slow accesses down are off,
 * and after each round of turns the processor is given away, at first to whoever wants it, then for as long as the round took, later for four times as
 * long. Kernels look for aborts and deaths after every so many polls of one wave, so one wave, the favourite, polls often in a round; and rounds are long, since on a loaded
 * machine a pause costs a time slice of everybody else. */
#include "idle.h"

#include <sched.h>
#include <time.h>

#define BUSY_INSTRUCTIONS 600 /* no poll takes so many */
#define FAVOUR_TURNS 1100     /* of 1024 polls, after which kernels look at the pages of their peers */
#define ROUND_FAVOUR 64 /* turns of a round for the favourite, and on average for each wave: */
#define ROUND_TURNS 3
#define YIELD_ROUNDS 4
#define SHORT_ROUNDS 64 /* then pauses are four times as long */
#define SHORTEST_NAP_NS 50000
#define LONGEST_NAP_NS 2000000

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static uint32_t round_turns(const struct emu_gang *gang)
{
    return ROUND_FAVOUR + ROUND_TURNS * gang->num_live;
}

static void begin_round(struct emu_gang *gang)
{
    gang->idle.turns = 0;
    gang->idle.round_began = now_ns();
}

static void nap(struct emu_gang *gang)
{
    int64_t took;

    if (gang->idle.rounds++ < YIELD_ROUNDS) {
        sched_yield();
    } else {
        took = (now_ns() - gang->idle.round_began) * (gang->idle.rounds > SHORT_ROUNDS ? 4 : 1);
        took = took < SHORTEST_NAP_NS ? SHORTEST_NAP_NS : took > LONGEST_NAP_NS ? LONGEST_NAP_NS : took;
        nanosleep(&(struct timespec){.tv_nsec = took}, NULL);
    }
    begin_round(gang);
}

static void count_polling(struct emu_gang *gang, struct emu_wave *w, uint64_t instructions)
{
    bool polls = w->polls_since == gang->progress;

    w->busy = w->polled ? 0 : w->busy + (uint32_t)instructions;
    if (w->polled && !polls) {
        w->polls_since = gang->progress;
        gang->idle.num_polling++;
    } else if (polls && w->busy > BUSY_INSTRUCTIONS) {
        w->polls_since = 0;
        gang->idle.num_polling--;
    }
}

void emu_idle_turn(struct emu_gang *gang, struct emu_wave *w, uint64_t instructions)
{
    bool was = gang->idling;

    if (gang->idle.progress != gang->progress) {
        gang->idle.progress = gang->progress;
        gang->idle.num_polling = 0;
    }
    count_polling(gang, w, instructions);
    gang->waiting = gang->num_live > 0 && gang->idle.num_polling >= gang->num_live;
    gang->idling = gang->waiting && gang->options->shared;
    if (!gang->idling) {
        return;
    }
    if (!was) {
        gang->idle.rounds = 0;
        begin_round(gang);
    } else if (++gang->idle.turns >= round_turns(gang)) {
        nap(gang);
    }
}

uint32_t emu_idle_next(struct emu_gang *gang)
{
    uint32_t i = gang->idle.favourite;

    if (emu_below(&gang->fate.rng, round_turns(gang)) >= ROUND_FAVOUR) {
        return emu_below(&gang->fate.rng, gang->num_live);
    }
    if (i >= gang->num_live || gang->idle.favours-- == 0) {
        gang->idle.favours = FAVOUR_TURNS;
        i = gang->idle.favourite = emu_below(&gang->fate.rng, gang->num_live);
    }
    return i;
}
