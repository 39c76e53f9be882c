/* SPDX-License-Identifier: MIT
 * pan flags: -E
 *
 * Variant copy: meet, fetch, say DONE. N ranks, one operation. Each rank calls 1 or 2 (which do not fit) or never comes; the application may abort at
 * any time. What a rank enqueued behind copy_open cannot be taken back: its fetches run whatever copy_open finds, then copy_close does
 * nothing. When a rank has left, its user overwrites the input at once.
 *
 * Checked: late_store  nothing is stored into an output whose owner's operation has not begun, is over, or is another one;
 *          wrong_data  a rank that leaves without an error has everybody's input as it was in the operation;
 *          stuck       when nothing moves any more, a rank that has begun has left, unless a peer never came and nobody aborted.
 *
 * Seeds: PUSH (ranks store into the peers' outputs instead of fetching), NO_COMPARE, NO_WAIT (copy_close does not wait for DONE),
 * NO_LEFT (who fails in copy_close leaves its DONE standing), LATE_LEFT (LEFT is stored when the user has the input back). */
#include "model.h"
#ifndef N
#define N 2
#endif
#define AT(at, from) ((at) * N + (from))

#define DONE 1 /* words: 0, DONE or LEFT */
#define LEFT 2
#define CHANGED 3 /* input: the call's number, then this */

byte adv[N * N];  /* 0, or the call */
byte word[N * N];
byte input[N];
byte got[N * N];  /* what a rank has of each peer: 0, or what the input was */
byte call[N];
bool aborted, inside[N];
byte state[N];
#define NOT_BEGUN 0
#define RUNNING 1
#define GONE 2
#define NEVER 3
hidden byte late_store, wrong_data, stuck;

proctype rank(byte me)
{
    byte k;
    bool bad;
    if
    :: call[me] = 1
    :: call[me] = 2
    :: state[me] = NEVER; goto end
    fi;
    atomic { state[me] = RUNNING; inside[me] = true; input[me] = call[me] }

    /* copy_open */
    for (k : 0 .. N - 1) { adv[AT(k, me)] = call[me] }
    for (k : 0 .. N - 1) {
        if
        :: adv[AT(me, k)] != 0 ->
#ifndef NO_COMPARE
           bad = bad || adv[AT(me, k)] != call[me]
#else
           skip
#endif
        :: atomic { aborted && adv[AT(me, k)] == 0 -> bad = true }
        fi
    }
    if
    :: bad ->
       aborted = true;
       for (k : 0 .. N - 1) { word[AT(k, me)] = LEFT }
    :: else
    fi;

    /* the copies */
    for (k : 0 .. N - 1) {
#ifdef PUSH
        atomic { CHECK(late_store, inside[k] && call[k] == call[me]); got[AT(k, me)] = input[me] }
#else
        got[AT(me, k)] = input[k]
#endif
    }

    /* copy_close */
    if
    :: !bad ->
       for (k : 0 .. N - 1) { word[AT(k, me)] = DONE }
       for (k : 0 .. N - 1) {
#ifndef NO_WAIT
           if
           :: word[AT(me, k)] != 0 -> bad = bad || word[AT(me, k)] == LEFT
           :: atomic { aborted && word[AT(me, k)] == 0 -> bad = true }
           fi
#else
           skip
#endif
       }
       if
       :: bad ->
          aborted = true;
#ifdef LATE_LEFT
          input[me] = CHANGED;
#endif
#ifndef NO_LEFT
          for (k : 0 .. N - 1) { word[AT(k, me)] = LEFT }
#endif
       :: else ->
          for (k : 0 .. N - 1) { CHECK(wrong_data, got[AT(me, k)] == call[me]) }
       fi
    :: else
    fi;
    atomic { inside[me] = false; state[me] = GONE }
    input[me] = CHANGED;
end:
    skip
}

proctype application()
{
    if
    :: aborted = true
    :: skip
    fi
}

init {
    byte k;
    bool absent;
    atomic {
        for (k : 0 .. N - 1) { run rank(k) }
        run application()
    }
    timeout;
    atomic {
        for (k : 0 .. N - 1) { absent = absent || state[k] == NEVER }
        for (k : 0 .. N - 1) { CHECK(stuck, state[k] != RUNNING || (absent && !aborted)) }
    }
}
