/* SPDX-License-Identifier: MIT
 *
 * Push, staged: rings with credits. N ranks run the same all-gather of C chunks a block over and over; blocks of a
 * rank run one after the other, as on one CPU thread. Flag and credit words hold {number, step}. Every store is
 * delivered late and in any order.
 *
 * Default: a ring of K slots for each (sender, receiver, block), at the receiver. SHARED: all ranks are on one device;
 * a block has one ring, at the sender, into which it writes each chunk once; the staged peers read it there, and a
 * slot is free when the credits of all of them are in. DIRECT_LAST: the last rank has its receive buffer in a window,
 * so nobody stages for it, and it sends no credits (it is a sender like all others). LAG: chunk s - LAG is drained in
 * step s; with LAG > 0 a step first waits for both, the credits and the flags (as on a GPU).
 *
 * Every word is used in every operation, so none grows old enough to be taken after the wrap: no scrub here.
 *
 * Checked: wrong_chunk  a chunk is drained with the content of this operation and step;
 *          lost_chunk   a direct receive buffer is complete;
 *          not_quiet    when a rank leaves, no store issued towards it for this operation is in flight (Q; SHARED:
 *                       words only, nobody stores into a peer's ring);
 *          no rank stays stuck (invalid end state).
 *
 * Seeds: NO_ADVERT_WAIT, NO_CREDIT, NO_RELEASE, OLD_CREDIT (credits without number), DRAIN_FIRST, REVERSED (odd ranks
 * run their blocks from the last to the first), ALL_CREDITS (every chunk is credited, needed or not); with SHARED:
 * ONE_CREDIT (one peer's credit is enough), DIRECT_CREDIT (with DIRECT_LAST: waits for the credit of a direct peer as
 * well). */
#ifndef N
#define N 2
#endif
#ifndef B
#define B 2
#endif
#ifndef K
#define K 1
#endif
#ifndef C
#define C 2
#endif
#ifndef LAG
#define LAG 0
#endif
#include "model.h"
#define WORD(n, step) ((n) * 16 + (step))
#define REACHED(x, n, s) ((x) != NONE && (x) / 16 == (n) && ((x) & 15) >= (s))
#define OTHER(x) ((x) == NONE || (x) / 16 != n)
#define ADV(at, from, p) (((at) * N + (from)) * 2 + (p))
#define CH(at, from, b) (((at) * N + (from)) * B + (b))
#define SLOT(at, from, b, k) (CH(at, from, b) * K + (k))
#ifdef DIRECT_LAST
#define STAGED(r) ((r) != N - 1)
#else
#define STAGED(r) true
#endif
#ifdef SHARED
#define RING(reader, writer, b, k) SLOT(writer, writer, b, k)
#else
#define RING(reader, writer, b, k) SLOT(reader, writer, b, k)
#endif

byte adv[N * N * 2] = NONE, p_adv[N * N * 2] = NONE; /* p_: in flight */
byte ring[N * N * B * K] = NONE, p_ring[N * N * B * K] = NONE;
byte flag[N * N * B] = NONE, p_flag[N * N * B] = NONE;
byte credit[N * N * B] = NONE, p_credit[N * N * B] = NONE; /* at the sender, from the receiver */
#ifdef DIRECT_LAST
bool landed[N * B * C]; /* chunks in the receive buffer of the last rank */
#endif
hidden byte wrong_chunk, lost_chunk, not_quiet;

#define DELIVER(word, i) atomic { p_##word[i] != NONE -> word[i] = p_##word[i]; p_##word[i] = NONE }

proctype net(byte from; byte at)
{
end:
    do
    :: DELIVER(adv, ADV(at, from, 0))
    :: DELIVER(adv, ADV(at, from, 1))
    :: DELIVER(flag, CH(at, from, 0))
    :: DELIVER(credit, CH(at, from, 0))
    :: DELIVER(ring, SLOT(at, from, 0, 0))
#if B > 1
    :: DELIVER(flag, CH(at, from, 1))
    :: DELIVER(credit, CH(at, from, 1))
    :: DELIVER(ring, SLOT(at, from, 1, 0))
#endif
#if K > 1
    :: DELIVER(ring, SLOT(at, from, 0, 1))
#if B > 1
    :: DELIVER(ring, SLOT(at, from, 1, 1))
#endif
#endif
    od
}

#define HAS_CREDIT(j, c) REACHED(credit[CH(me, j, b)], n, (c) - K + 1)

/* Before the first chunk: adverts. Before chunk c >= K: the slot is free. */
inline wait_push(c)
{
    for (j : 0 .. N - 1) {
        if
        :: j != me && (c) < C ->
#ifndef NO_ADVERT_WAIT
            EQ(adv[ADV(me, j, PAR(n))], n);
#endif
#ifdef NO_CREDIT
            skip
#else
            if
#ifdef DIRECT_CREDIT
            :: c >= K ->
#else
            :: c >= K && STAGED(j) ->
#endif
#ifdef OLD_CREDIT
                (credit[CH(me, j, b)] != NONE && (credit[CH(me, j, b)] & 15) >= c - K + 1)
#elif defined(ONE_CREDIT)
                (HAS_CREDIT((me + 1) % N, c) || HAS_CREDIT((me + N - 1) % N, c))
#else
                HAS_CREDIT(j, c)
#endif
            :: else
            fi
#endif
        :: else
        fi
    }
}

inline push(c)
{
#ifdef SHARED
    if
    :: (c) < C ->
        p_ring[RING(0, me, b, (c) % K)] = WORD(n, (c));
#ifndef NO_RELEASE
        (p_ring[RING(0, me, b, (c) % K)] == NONE)
#endif
    :: else
    fi;
#endif
    for (j : 0 .. N - 1) {
        if
        :: j != me && (c) < C ->
#ifdef DIRECT_LAST
            if :: !STAGED(j) -> landed[(me * B + b) * C + (c)] = true :: else fi;
#endif
#ifndef SHARED
            if
            :: STAGED(j) ->
                p_ring[RING(j, me, b, (c) % K)] = WORD(n, (c));
#ifndef NO_RELEASE
                (p_ring[RING(j, me, b, (c) % K)] == NONE)
#endif
            :: else
            fi;
#endif
            p_flag[CH(j, me, b)] = WORD(n, (c) + 1)
        :: else
        fi
    }
}

inline wait_drain(c)
{
    for (j : 0 .. N - 1) {
        (j == me || (c) >= C || REACHED(flag[CH(me, j, b)], n, (c) + 1))
    }
}

inline drain(c)
{
    for (j : 0 .. N - 1) {
        if
        :: j != me && (c) < C && STAGED(me) ->
            CHECK(wrong_chunk, ring[RING(me, j, b, (c) % K)] == WORD(n, (c)));
            /* only credits that somebody waits for */
#ifdef ALL_CREDITS
            p_credit[CH(j, me, b)] = WORD(n, (c) + 1)
#else
            if :: (c) + K < C -> p_credit[CH(j, me, b)] = WORD(n, (c) + 1) :: else fi
#endif
        :: j != me && (c) < C && !STAGED(me) ->
#ifdef DIRECT_LAST
            CHECK(lost_chunk, landed[(j * B + b) * C + (c)]);
            landed[(j * B + b) * C + (c)] = false
#else
            skip
#endif
        :: else
        fi
    }
}

proctype rank(byte me)
{
    byte n = 1, i, b, s, j, k;

    do
    ::
        atomic {
            for (j : 0 .. N - 1) {
                if :: j != me -> p_adv[ADV(j, me, PAR(n))] = n :: else fi
            }
            j = 0
        }
        for (i : 0 .. B - 1) {
#ifdef REVERSED
            b = ((me & 1) -> B - 1 - i : i);
#else
            b = i;
#endif
            for (s : 0 .. C - 1 + LAG) {
#ifdef DRAIN_FIRST
                wait_drain(s);
                drain(s);
                wait_push(s);
                push(s)
#elif LAG == 0
                wait_push(s);
                push(s);
                wait_drain(s);
                drain(s)
#else
                wait_push(s);
                if :: s >= LAG -> wait_drain(s - LAG) :: else fi;
                push(s);
                if :: s >= LAG -> drain(s - LAG) :: else fi
#endif
            }
        }
        /* exit rule: holds already where every block has waited for all adverts (that is, unless NO_ADVERT_WAIT) */
        for (j : 0 .. N - 1) {
            (j == me || EQ(adv[ADV(me, j, PAR(n))], n))
        }
        atomic {
            for (j : 0 .. N - 1) {
                for (b : 0 .. B - 1) {
                    CHECK(not_quiet, OTHER(p_flag[CH(me, j, b)]) && OTHER(p_credit[CH(me, j, b)]));
#ifndef SHARED
                    for (k : 0 .. K - 1) { CHECK(not_quiet, OTHER(p_ring[SLOT(me, j, b, k)])) }
#endif
                }
            }
            n = NEXT(n);
            i = 0;
            b = 0;
            s = 0;
            j = 0;
            k = 0
        }
    od
}

init
{
    byte a, z;

    atomic {
        for (a : 0 .. N - 1) {
            run rank(a);
            for (z : 0 .. N - 1) {
#ifdef SHARED
                run net(a, z) /* own ring too: written early, visible late */
#else
                if :: a != z -> run net(a, z) :: else fi
#endif
            }
        }
    }
}
