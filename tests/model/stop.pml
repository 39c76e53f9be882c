/* SPDX-License-Identifier: MIT
 * pan flags: -E
 *
 * Bit 31 of the operation word ("stopped") and blocks that come late. Two ranks, one operation of two blocks, each
 * pushing one tile into the peer's user buffer; then, on ranks whose launch failed, a replay of the launch. The number
 * is drawn at entry: fetch-and-add on {number, stopped, drawn}, the last to draw advances the number in a second step.
 * A block that fails (mismatch, LEFT, revoked advert, abort by the application) sets the bit, having seen its rank's
 * own advert. A block that finds the bit at entry is late in a failing launch if the own advert of the number it drew
 * is there, and goes the way of a failing block from there on: revoke, LEFT, drain. Else it belongs to a replay and
 * leaves without a store.
 *
 * REVOKE_FIRST: the bit is set only after the revocation and its fence; then a late block need not revoke again
 * (LATE_NO_REVOKE is no fault then). SERIAL: blocks of a rank run one after the other, as on one CPU thread; else in
 * any overlap. Advert and revocation are followed by a fence (revoke.pml has the form without one on the sender's
 * side).
 *
 * Checked: late_store     no store lands in a user buffer whose owner's launch has ended;
 *          incomplete     a block that leaves without an error has its tiles;
 *          stuck          when nothing moves any more, every launched block has left, on every rank;
 *          replay_stores  a block of a replay sends no advert, no data and no LEFT;
 *          late_silent    a block of the first launch never takes itself for a replay.
 *
 * Seeds: LATE_SILENT (a late block leaves without a word), LATE_NO_DRAIN, LATE_NO_REVOKE (a late block drains without
 * having revoked itself), LATE_NO_BUMP (a late block that is the last to draw does not advance the number), STOP_EARLY
 * (the bit is set before the own advert was seen). */
#include "model.h"
#define N 2
#define G 2
#define PEER (1 - me)
#define AT(at, from) ((at) * N + (from))
#define ROW(at, from, b) (((at) * N + (from)) * G + (b))

#define ABSENT 0 /* adverts: this, or the call (1, 2), or REVOKED */
#define REVOKED 3
#define DONE 1 /* flag words: 0, DONE or LEFT */
#define LEFT 2

byte adv[N * N], p_adv[N * N]; /* p_: in flight, 0 = nothing */
byte own_adv[N];               /* number of the own advert; kept over the replay, as in the other parity's line */
byte flag[N * N * G];
bool p_data[N * N * G], data[N * N * G];
byte number[N], drawn[N];      /* op */
bool stopped[N];
bool stop[N];                  /* device word for slow polls; abort word of the host page, set for everybody at once */
byte call[N];
byte launch[N], outs[N];       /* launch 1 or 2 (replay) is running; blocks that have left it */
bool failed[N];
bool inside[N];                /* the user buffer belongs to the launch */
hidden byte late_store, incomplete, stuck, replay_stores, late_silent;

#define DELIVER_DATA(i) atomic { p_data[i] -> CHECK(late_store, inside[at]); data[i] = true; p_data[i] = false }

proctype net(byte from; byte at)
{
end:
    do
    :: atomic { p_adv[AT(at, from)] != 0 -> adv[AT(at, from)] = p_adv[AT(at, from)]; p_adv[AT(at, from)] = 0 }
    :: DELIVER_DATA(ROW(at, from, 0))
    :: DELIVER_DATA(ROW(at, from, 1))
    od
}

/* The abort words of all ranks; written one by one in the code, which only adds moments that abort.pml has. */
#define RAISE d_step { stop[0] = true; stop[1] = true }

/* To the peer, then a fence. */
inline send_advert(value)
{
    atomic { p_adv[AT(PEER, me)] == 0 -> p_adv[AT(PEER, me)] = value };
    (p_adv[AT(PEER, me)] == 0)
}

/* Which word a block that waits looks at first is open: all guards that hold are tried. */
inline operation()
{
    if
    :: b == 0 ->
        CHECK(replay_stores, round == 1);
        send_advert(call[me]);
        own_adv[me] = n
    :: else
    fi;
#ifdef STOP_EARLY
    if
    :: own_adv[me] == n
    :: stop[me] -> failing = true
    fi;
#else
    (own_adv[me] == n);
#endif
    if
    :: failing
    :: atomic { !failing && adv[AT(me, PEER)] == call[me] -> p_data[ROW(PEER, me, b)] = true };
        atomic { !p_data[ROW(PEER, me, b)] -> flag[ROW(PEER, me, b)] = DONE; sent = true }
    :: !failing && adv[AT(me, PEER)] != ABSENT && adv[AT(me, PEER)] != call[me] -> failing = true
    :: !failing && stop[me] -> failing = true
    fi;
    if
    :: failing
    :: atomic { !failing && flag[ROW(me, PEER, b)] == DONE -> CHECK(incomplete, data[ROW(me, PEER, b)]) }
    :: !failing && flag[ROW(me, PEER, b)] == LEFT -> failing = true
    :: !failing && stop[me] -> failing = true
    fi
}

inline leave_failing()
{
    RAISE;
    failed[me] = true;
#ifndef REVOKE_FIRST
    stopped[me] = true;
#endif
#ifdef STOP_EARLY
    if
    :: own_adv[me] != n -> goto out
    :: else
    fi;
#endif
#ifdef LATE_NO_REVOKE
    if
    :: late
    :: !late -> send_advert(REVOKED)
    fi;
#else
    send_advert(REVOKED);
#endif
#ifdef REVOKE_FIRST
    stopped[me] = true;
#endif
    atomic { if :: !sent -> flag[ROW(PEER, me, b)] = LEFT :: else fi };
    if
    :: flag[ROW(me, PEER, b)] != 0
    :: adv[AT(me, PEER)] == ABSENT
#ifdef LATE_NO_DRAIN
    :: late
#endif
    fi
}

#ifdef SERIAL
#define TURN (launch[me] == 3 || outs[me] == b)
#else
#define TURN true
#endif

proctype block(byte me; byte b)
{
    byte round, n;
    bool last, late, failing, sent;

    for (round : 1 .. 2) {
        /* the replay comes only where the first launch failed */
        atomic {
            TURN && launch[me] >= round ->
            if
            :: launch[me] == 3 -> break
            :: else
            fi;
            n = number[me];
            late = stopped[me];
            drawn[me]++;
            last = (drawn[me] == G)
        }
        if
#ifdef LATE_NO_BUMP
        :: last && !late ->
#else
        :: last ->
#endif
            atomic { number[me] = n + 1; drawn[me] = 0 }
        :: else
        fi;
        if
        :: late && own_adv[me] == n ->
            CHECK(replay_stores, round == 1);
#ifndef LATE_SILENT
            leave_failing()
#endif
        :: late && own_adv[me] != n -> CHECK(late_silent, round == 2)
        :: !late ->
            operation();
            if
            :: failing -> leave_failing()
            :: else
            fi
        fi;
out:
        atomic {
            outs[me]++;
            if
            :: outs[me] == G ->
                outs[me] = 0;
                inside[me] = false;
                if :: round == 1 && failed[me] -> launch[me] = 2 :: else -> launch[me] = 3 fi
            :: else
            fi;
            late = false;
            last = false;
            failing = false;
            sent = false;
            n = 0
        }
    }
}

/* The stream reaches the launch some time; the call of each rank is the same, or not. */
proctype host(byte me)
{
    atomic {
        if
        :: call[me] = 1
        :: me != 0 -> call[me] = 2
        fi;
        inside[me] = true;
        number[me] = 1;
        launch[me] = 1
    }
}

/* The application aborts, or not. */
proctype user()
{
    if
    :: RAISE
    :: true
    fi
}

active proctype judge()
{
    byte r;

    timeout;
    for (r : 0 .. N - 1) {
        CHECK(stuck, launch[r] == 3)
    }
}

init
{
    byte a, b;

    atomic {
        for (a : 0 .. N - 1) {
            run host(a);
            for (b : 0 .. G - 1) { run block(a, b) }
            for (b : 0 .. N - 1) {
                if :: a != b -> run net(a, b) :: else fi
            }
        }
        run user()
    }
}
