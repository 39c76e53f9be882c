/* SPDX-License-Identifier: MIT
 *
 * Reductions by rings on a GPU (kernels/reduce_steps.h): contribution, join and copying out of C chunks, one word a step. N ranks run the same operation over and over. Each
 * rank owns a piece of every chunk: peers store their elements of it into `give`, the owner stores results into `result` of all that get them. Every store is delivered late and in
 * any order. Every word is used in every operation: no scrub here.
 *
 * Default: all ranks get results. SCATTER: none does. ROOT: rank 0 does.
 *
 * Checked: wrong_in   what is joined is the contribution of this operation and chunk;
 *          wrong_out  what is copied out is the result of this operation and chunk;
 *          not_quiet  when a rank leaves, no store issued towards it for this operation is in flight (Q);
 *          no rank stays stuck (invalid end state).
 *
 * Seeds: WAIT_LESS (a step earlier than what is used), NO_RELEASE, NO_ADVERT_WAIT, TELL_ALL (words that nobody waits for); and L with K < 2 L. */
#ifndef N
#define N 2
#endif
#ifndef K
#define K 2
#endif
#ifndef L
#define L 1
#endif
#ifndef C
#define C 3
#endif
#include "model.h"
#define WORD(n, step) ((n) * 16 + (step))
#define REACHED(x, n, s) ((x) != NONE && (x) / 16 == (n) && ((x) & 15) >= (s))
#define OTHER(x) ((x) == NONE || (x) / 16 != n)
#define ADV(at, from, p) (((at) * N + (from)) * 2 + (p))
#define CH(at, from) ((at) * N + (from))
#define SLOT(at, from, k) (CH(at, from) * K + (k))
#if defined(SCATTER)
#define RECEIVES(r) false
#elif defined(ROOT)
#define RECEIVES(r) ((r) == 0)
#else
#define RECEIVES(r) true
#endif
#define STEPS(r) (C + (RECEIVES(r) -> 2 * L : L))
#ifdef WAIT_LESS
#define WANT (s - L)
#else
#define WANT (s - L + 1)
#endif

byte adv[N * N * 2] = NONE, p_adv[N * N * 2] = NONE; /* p_: in flight */
byte give[N * N * K] = NONE, p_give[N * N * K] = NONE;
byte result[N * N * K] = NONE, p_result[N * N * K] = NONE;
byte flag[N * N] = NONE, p_flag[N * N] = NONE;
hidden byte wrong_in, wrong_out, not_quiet;

#define DELIVER(word, i) atomic { p_##word[i] != NONE -> word[i] = p_##word[i]; p_##word[i] = NONE }

proctype net(byte from; byte at)
{
end:
    do
    :: DELIVER(adv, ADV(at, from, 0))
    :: DELIVER(adv, ADV(at, from, 1))
    :: DELIVER(flag, CH(at, from))
    :: DELIVER(give, SLOT(at, from, 0))
    :: DELIVER(result, SLOT(at, from, 0))
#if K > 1
    :: DELIVER(give, SLOT(at, from, 1))
    :: DELIVER(result, SLOT(at, from, 1))
#endif
#if K > 2
    :: DELIVER(give, SLOT(at, from, 2))
    :: DELIVER(result, SLOT(at, from, 2))
    :: DELIVER(give, SLOT(at, from, 3))
    :: DELIVER(result, SLOT(at, from, 3))
#endif
    od
}

inline step()
{
    for (j : 0 .. N - 1) {
        (j == me || s < L || REACHED(flag[CH(me, j)], n, WANT))
    }
    atomic {
        for (j : 0 .. N - 1) {
            if :: j != me && s < C -> p_give[SLOT(j, me, s % K)] = WORD(n, s) :: else fi
        }
    }
    atomic {
        for (j : 0 .. N - 1) {
            if
            :: j != me && s >= L && s < C + L ->
                CHECK(wrong_in, give[SLOT(me, j, (s - L) % K)] == WORD(n, s - L));
                if :: RECEIVES(j) -> p_result[SLOT(j, me, (s - L) % K)] = WORD(n, s - L) :: else fi
            :: else
            fi
        }
    }
    atomic {
        for (j : 0 .. N - 1) {
            if
            :: j != me && s >= 2 * L && RECEIVES(me) -> CHECK(wrong_out, result[SLOT(me, j, (s - 2 * L) % K)] == WORD(n, s - 2 * L))
            :: else
            fi
        }
    }
#ifndef NO_RELEASE
    for (j : 0 .. N - 1) {
        for (k : 0 .. K - 1) {
            (j == me || (p_give[SLOT(j, me, k)] == NONE && p_result[SLOT(j, me, k)] == NONE))
        }
    }
#endif
    atomic {
        for (j : 0 .. N - 1) {
            if
#ifdef TELL_ALL
            :: j != me ->
#else
            :: j != me && s + L < STEPS(j) ->
#endif
                p_flag[CH(j, me)] = WORD(n, s + 1)
            :: else
            fi
        }
    }
}

proctype rank(byte me)
{
    byte n = 1, s, j, k;

    do
    ::
        atomic {
            for (j : 0 .. N - 1) {
                if :: j != me -> p_adv[ADV(j, me, PAR(n))] = n :: else fi
            }
            j = 0
        }
#ifndef NO_ADVERT_WAIT
        for (j : 0 .. N - 1) {
            (j == me || EQ(adv[ADV(me, j, PAR(n))], n))
        }
#endif
        for (s : 0 .. STEPS(me) - 1) {
            step()
        }
        atomic {
            for (j : 0 .. N - 1) {
                CHECK(not_quiet, OTHER(p_flag[CH(me, j)]));
                for (k : 0 .. K - 1) { CHECK(not_quiet, OTHER(p_give[SLOT(me, j, k)]) && OTHER(p_result[SLOT(me, j, k)])) }
            }
            n = NEXT(n);
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
                if :: a != z -> run net(a, z) :: else fi
            }
        }
    }
}
