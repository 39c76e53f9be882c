/* SPDX-License-Identifier: MIT
 *
 * Push, direct: advert, payload into the peer's receive buffer, flag word, exit rule, scrub at entry. N ranks run one
 * operation after the other for ever: all-gather on one block or on two, or broadcast from rank 0. Blocks of a rank
 * run one after the other, as on one CPU thread. Every store to a peer is delivered late and in any order; RELEASE
 * waits until all own stores are delivered; a reader may see a stale cached line of its receive buffer until it
 * acquires. Between operations the user owns the receive buffer.
 *
 * Scrub: of the ROWS rows of flag words, row n mod ROWS, and only if operation n does not use it; at any time between
 * the advert and the end of the kernel. Words of silent sources in rows that are used are rewritten when the block
 * leaves.
 *
 * Checked: late_store   no store of a peer lands in a receive buffer that the user owns, or that serves another
 *                       operation;
 *          wrong_data   what the user reads after the operation is the data of this operation;
 *          no rank stays stuck (invalid end state).
 *
 * Seeds: NO_ADVERT_WAIT, ONE_ADVERT_SLOT, NO_RELEASE, NO_ACQUIRE, NO_FLAG_WAIT, NO_SCRUB, SCRUB_USED, NO_SILENT. */
#include "model.h"
#ifndef N
#define N 2
#endif
#define ROWS 2
#ifdef ONE_ADVERT_SLOT
#define SLOT(n) 0
#else
#define SLOT(n) PAR(n)
#endif
#define ADV(at, from, p) (((at) * N + (from)) * 2 + (p))
#define ROW(at, from, b) (((at) * N + (from)) * ROWS + (b))

#define FRESH 1
#define STALE 2

#define GATHER1 0
#define GATHER2 1
#define BCAST 2
#define GRID(n) (KIND(n) == GATHER2 -> 2 : 1)
#define SENDS(n, r) (KIND(n) != BCAST || (r) == 0)

byte adv[N * N * 2] = NONE;   /* first word of the advert line */
#ifdef WHERE
byte where[N * N * 2] = NONE, p_where[N * N * 2] = NONE; /* last word of the same line, with its own tag */
#endif
byte flag[N * N * ROWS] = NONE;
byte mem[N * N * ROWS] = NONE;  /* receive buffer: part of a source and block; poisoned when an operation begins */
byte line[N * N * ROWS];        /* the reader's cached copy of it: 0 none, FRESH, or STALE since a store passed it by */
byte p_adv[N * N * 2] = NONE, p_flag[N * N * ROWS] = NONE, p_mem[N * N * ROWS] = NONE; /* in flight */
byte granted[N] = NONE; /* operation that the receive buffer belongs to, NONE: the user's */
byte kind[KINDS] = NONE;
byte left[KINDS];
hidden byte late_store, wrong_data;

#define DELIVER(word, i) atomic { p_##word[i] != NONE -> word[i] = p_##word[i]; p_##word[i] = NONE }
#define DELIVER_DATA(i)                                 \
    atomic {                                            \
        p_mem[i] != NONE ->                             \
        CHECK(late_store, granted[at] == p_mem[i]);     \
        mem[i] = p_mem[i];                              \
        p_mem[i] = NONE;                                \
        if :: line[i] == FRESH -> line[i] = STALE :: else fi \
    }

proctype net(byte from; byte at)
{
end:
    do
    :: DELIVER(adv, ADV(at, from, 0))
    :: DELIVER(adv, ADV(at, from, 1))
#ifdef WHERE
    :: DELIVER(where, ADV(at, from, 0))
    :: DELIVER(where, ADV(at, from, 1))
#endif
    :: DELIVER(flag, ROW(at, from, 0))
    :: DELIVER(flag, ROW(at, from, 1))
    :: DELIVER_DATA(ROW(at, from, 0))
    :: DELIVER_DATA(ROW(at, from, 1))
    od
}

#ifdef WHERE
#define WHERE_QUIET(at) (p_where[ADV(at, me, 0)] == NONE && p_where[ADV(at, me, 1)] == NONE)
#define WHERE_EQ(j, n) EQ(where[ADV(me, j, SLOT(n))], n)
#else
#define WHERE_QUIET(at) true
#define WHERE_EQ(j, n) true
#endif
#define QUIET(at) \
    (p_adv[ADV(at, me, 0)] == NONE && p_adv[ADV(at, me, 1)] == NONE && WHERE_QUIET(at) && \
     p_flag[ROW(at, me, 0)] == NONE && p_flag[ROW(at, me, 1)] == NONE && \
     p_mem[ROW(at, me, 0)] == NONE && p_mem[ROW(at, me, 1)] == NONE)

inline release()
{
    for (k : 0 .. N - 1) {
        QUIET(k)
    }
    k = 0
}

inline scrub()
{
    atomic {
        row = n % ROWS;
#ifndef NO_SCRUB
        if
#ifdef SCRUB_USED
        :: true ->
#else
        :: row >= GRID(n) ->
#endif
            for (k : 0 .. N - 1) { flag[ROW(me, k, row)] = NONE }
        :: else
        fi;
#endif
        scrubbed = true;
        row = 0;
        k = 0
    }
}

proctype rank(byte me)
{
    byte n = 1, b, j, k, row;
    bool scrubbed;

    do
    ::
        /* the stream has reached the operation: the receive buffer is free; earlier kernels' stores are visible */
        atomic {
            granted[me] = n;
            for (j : 0 .. N * ROWS - 1) { mem[me * N * ROWS + j] = NONE }
            if
            :: KIND(n) != NONE
            :: KIND(n) == NONE -> KIND(n) = GATHER1
            :: KIND(n) == NONE -> KIND(n) = GATHER2
            :: KIND(n) == NONE -> KIND(n) = BCAST
            fi
        }
        release();
        atomic {
            for (j : 0 .. N - 1) {
                if
                :: j != me ->
                    p_adv[ADV(j, me, SLOT(n))] = n;
#ifdef WHERE
                    p_where[ADV(j, me, SLOT(n))] = n
#endif
                :: else
                fi
            }
        }
        if
        :: scrub()
        :: true
        fi;
        for (b : 0 .. GRID(n) - 1) {
            for (j : 0 .. N - 1) {
                if
                :: j != me && SENDS(n, me) ->
#ifndef NO_ADVERT_WAIT
                    (EQ(adv[ADV(me, j, SLOT(n))], n) && WHERE_EQ(j, n));
#endif
                    p_mem[ROW(j, me, b)] = n
                :: else
                fi
            }
#ifndef NO_RELEASE
            release();
#endif
            atomic {
                for (j : 0 .. N - 1) {
                    if :: j != me && SENDS(n, me) -> p_flag[ROW(j, me, b)] = n :: else fi
                }
            }
            for (j : 0 .. N - 1) {
                if
                :: j != me && SENDS(n, j) ->
#ifndef NO_FLAG_WAIT
                    (EQ(flag[ROW(me, j, b)], n))
#else
                    skip
#endif
#ifndef NO_SILENT
                :: j != me && !SENDS(n, j) -> flag[ROW(me, j, b)] = NONE /* nobody writes it before my advert n + 1 */
#endif
                :: else
                fi
            }
        }
#ifndef NO_ACQUIRE
        atomic {
            for (j : 0 .. N * ROWS - 1) { line[me * N * ROWS + j] = 0 }
        }
#endif
        /* exit rule: adverts of all peers seen */
        for (j : 0 .. N - 1) {
            (j == me || EQ(adv[ADV(me, j, SLOT(n))], n))
        }
        if
        :: scrubbed
        :: !scrubbed -> scrub()
        fi;
        /* the user's next kernel reads the buffer; his reads leave lines in the cache */
        atomic {
            granted[me] = NONE;
            scrubbed = false;
            for (b : 0 .. GRID(n) - 1) {
                for (j : 0 .. N - 1) {
                    if
                    :: j != me && SENDS(n, j) ->
                        CHECK(wrong_data, line[ROW(me, j, b)] != STALE && mem[ROW(me, j, b)] == n);
                        line[ROW(me, j, b)] = FRESH
                    :: else
                    fi
                }
            }
            left[n % KINDS]++;
            if :: left[n % KINDS] == N -> KIND(n) = NONE; left[n % KINDS] = 0 :: else fi;
            n = NEXT(n);
            b = 0;
            j = 0
        }
    od
}

init
{
    byte a, b;

    atomic {
        for (a : 0 .. N - 1) {
            for (b : 0 .. N - 1) {
                if :: a != b -> run net(a, b) :: else fi
            }
            run rank(a)
        }
    }
}
