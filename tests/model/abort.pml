/* SPDX-License-Identifier: MIT
 * pan flags: -E
 *
 * Mismatch, abort, death, drain. N ranks, one operation: a direct push of one tile (call 1) or two (call 2) into the
 * peers' user buffers, which hold as many. Each rank calls 1 or 2, early or late, or never comes; the application may
 * abort at any time; a rank may die at any point. Adverts are sent by block 0, data by another block. The abort word
 * of every rank is in shared host memory; it is looked at only by those who wait.
 *
 * LAST_ABSENT: the last rank never comes (keeps N=3 small).
 *
 * Checked: late_store  no store of a live peer lands in a user buffer whose owner's kernel has left;
 *          overrun     no store lands behind the end of a smaller buffer;
 *          incomplete  a rank that leaves without an error has all tiles;
 *          stuck       when nothing moves any more: a rank that has begun has left or died, unless nothing went wrong
 *                      and a peer never came (waiting without limit is legal then);
 *          uninformed  then, too: if anybody's abort word is set, everybody's is, so that hosts of ranks that never
 *                      came can report.
 *
 * Seeds: NO_OWN (pushes before its own adverts are out), NO_DRAIN, NO_REVOKE, NO_FORWARD (sets only its own abort
 * word), NO_LEFT, NO_SIG (calls are not compared). */
#include "model.h"
#ifndef N
#define N 2
#endif
#define AT(at, from) ((at) * N + (from))

#define ABSENT 0 /* adverts: this, or the call (1, 2), or REVOKED */
#define REVOKED 3
#define DONE 1 /* flag words: 0, DONE or LEFT */
#define LEFT 2

byte adv[N * N], p_adv[N * N]; /* p_: in flight, 0 = nothing */
bool own_adv[N];               /* the rank's adverts are out */
byte flag[N * N];
byte p_data[N * N];            /* tiles in flight */
byte data[N * N];              /* tiles landed */
bool abort_word[N];
bool dead[N];                  /* the operating system says so; its stores are over */
bool inside[N];                /* the user buffer belongs to the kernel */
byte call[N];
byte state[N];
#define NOT_BEGUN 0
#define RUNNING 1
#define GONE 2
#define NEVER 3
hidden byte late_store, overrun, incomplete, stuck, uninformed;

proctype net(byte from; byte at)
{
end:
    do
    :: atomic { p_adv[AT(at, from)] != 0 -> adv[AT(at, from)] = p_adv[AT(at, from)]; p_adv[AT(at, from)] = 0 }
    :: atomic {
           p_data[AT(at, from)] > 0 ->
           CHECK(late_store, inside[at] || dead[at]);
           p_data[AT(at, from)]--;
           data[AT(at, from)]++;
           CHECK(overrun, data[AT(at, from)] <= call[at])
       }
    od
}

/* An error found by this rank: everybody's abort word. */
inline raise()
{
#ifdef NO_FORWARD
    abort_word[me] = true
#else
    for (k : 0 .. N - 1) { abort_word[k] = true }
#endif
}

proctype adverts(byte me)
{
    byte k;
end:
    (call[me] != 0);
    for (k : 0 .. N - 1) {
        if
        :: k != me -> atomic { if :: !dead[me] -> p_adv[AT(k, me)] = call[me] :: else fi }
        :: else
        fi
    }
    for (k : 0 .. N - 1) { (p_adv[AT(k, me)] == 0) } /* fence */
    own_adv[me] = true
}

inline push()
{
    for (j : 0 .. N - 1) {
        if
        :: j == me || failed
        :: j != me && !failed ->
            if
            :: adv[AT(me, j)] != ABSENT
            :: abort_word[me] -> failed = true
            fi;
            if
            :: failed || adv[AT(me, j)] == call[me]
            :: !failed && adv[AT(me, j)] == REVOKED -> failed = true
            :: !failed && adv[AT(me, j)] != REVOKED && adv[AT(me, j)] != call[me] ->
#ifdef NO_SIG
                skip
#else
                failed = true;
                raise()
#endif
            fi;
            for (x : 1 .. call[me]) {
                if :: dead[me] -> goto out :: else fi;
                atomic { if :: !failed && !dead[me] -> p_data[AT(j, me)]++ :: else fi }
            }
            if
            :: failed
            :: !failed ->
                (p_data[AT(j, me)] == 0); /* release */
                if :: dead[me] -> goto out :: else fi;
                flag[AT(j, me)] = DONE
            fi
        fi
    }
}

inline wait_all()
{
    for (j : 0 .. N - 1) {
        if
        :: j == me || failed
        :: j != me && !failed && flag[AT(me, j)] == DONE && (adv[AT(me, j)] == call[me] || adv[AT(me, j)] == REVOKED)
        :: j != me && !failed && adv[AT(me, j)] != ABSENT && adv[AT(me, j)] != call[me] ->
            if :: adv[AT(me, j)] == REVOKED :: else -> raise() fi;
            failed = true
        :: j != me && !failed && flag[AT(me, j)] == LEFT -> failed = true; raise()
        :: j != me && !failed && abort_word[me] -> failed = true
        fi
    }
}

inline revoke()
{
    for (k : 0 .. N - 1) {
        if
        :: k != me && !dead[me] -> (p_adv[AT(k, me)] == 0); p_adv[AT(k, me)] = REVOKED
        :: else
        fi
    }
    for (k : 0 .. N - 1) { (p_adv[AT(k, me)] == 0 || dead[me]) } /* fence */
}

inline drain()
{
    for (j : 0 .. N - 1) {
        if
        :: j == me
        :: j != me && flag[AT(me, j)] != 0      /* it is through */
        :: j != me && dead[j]                   /* it is gone */
        :: j != me && adv[AT(me, j)] == ABSENT  /* it will see the revocation */
        fi
    }
}

proctype rank(byte me)
{
    byte j, k, x;
    bool failed;

#ifdef LAST_ABSENT
    if :: me == N - 1 -> state[me] = NEVER; goto out :: else fi;
#endif
    if
    :: atomic { call[me] = 1; state[me] = RUNNING; inside[me] = true }
    :: atomic { call[me] = 2; state[me] = RUNNING; inside[me] = true }
    :: state[me] = NEVER; goto out
    fi;
#ifndef NO_OWN
    if
    :: own_adv[me]
    :: dead[me] -> goto out
    fi;
#endif
    push();
    wait_all();
    if
    :: failed ->
        raise();
#ifndef NO_REVOKE
        revoke();
#endif
#ifndef NO_LEFT
        for (k : 0 .. N - 1) {
            if
            :: k != me && flag[AT(k, me)] == 0 -> (p_data[AT(k, me)] == 0); flag[AT(k, me)] = LEFT
            :: else
            fi
        }
#endif
#ifndef NO_DRAIN
        drain()
#endif
    :: !failed ->
        for (j : 0 .. N - 1) {
            CHECK(incomplete, j == me || data[AT(me, j)] == call[me])
        }
    fi;
    atomic { inside[me] = false; state[me] = GONE };
out:
    skip
}

/* The application aborts, or the operating system reports a death to the survivors' monitors, or neither. */
proctype world()
{
    byte r, k;

    if
    :: r = 0
    :: r = N - 1
    fi;
    if
    :: for (k : 0 .. N - 1) { abort_word[k] = true }
    :: atomic {
           dead[r] = true;
           for (k : 0 .. N - 1) { p_data[AT(k, r)] = 0; p_adv[AT(k, r)] = 0 }
       };
       for (k : 0 .. N - 1) { abort_word[k] = true }
    :: skip
    fi
}

active proctype judge()
{
    byte r;
    bool waits, wrong;

    timeout;
    for (r : 0 .. N - 1) {
        if :: state[r] == NEVER -> waits = true :: else fi;
        if :: abort_word[r] -> wrong = true :: else fi
    }
    for (r : 0 .. N - 1) {
        CHECK(stuck, state[r] != RUNNING || dead[r] || (waits && !wrong));
        CHECK(uninformed, !wrong || abort_word[r])
    }
}

init
{
    byte a, b;

    atomic {
        for (a : 0 .. N - 1) {
            run rank(a);
            run adverts(a);
            for (b : 0 .. N - 1) {
                if :: a != b -> run net(a, b) :: else fi
            }
        }
        run world()
    }
}
