/* SPDX-License-Identifier: MIT
 *
 * Operations that run ahead on the host (kernels/parts_ahead.h) among ordinary ones. N ranks run one operation after the other for ever; the first to begin
 * picks the call. ROOT0, ROOT1: that rank has data for all others, every rank stores a line {data, tag} at every other, and waits for the root's line only;
 * every RUN-th in a row waits for all lines. FULL: LL with two parities, all wait for all; it comes behind a meeting only, which is an operation that
 * runs ahead in which all wait for all. Slots of lines: K. With DIFFER one operation may be called differently by one rank; from then on a rank that waits
 * also looks at the word of the other kind, and what nobody waited for is compared at the meeting: its word is the history since all met.
 *
 * Stores of a rank reach another one in order (x86), so they are immediate here, data and tag in two steps.
 *
 * Checked: wrong_data   data taken by a tag belong to this operation;
 *          disagreed    no meeting ends well behind an operation in which calls differ;
 *          hang         (with DIFFER) when nothing moves any more, every rank has left with an error.
 * Seeds: NO_MEETING (FULL without one), LONG_RUN (RUN = K: one slot too few), ONE_WAY_NO_LINE (only the root stores a line), NO_LOOK (at the other kind's word),
 * NO_HISTORY (the word of a meeting says only what is called now). */
#define TAG_BITS 3
#include "model.h"
#ifndef N
#define N 2
#endif
#define K 4
#ifdef LONG_RUN
#define RUN 4
#else
#define RUN 3
#endif
#define LINE(at, from, n) (((at) * N + (from)) * K + (n) % K)
#define WORD(at, from, n) (((at) * N + (from)) * 2 + PAR(n))
#define FAR(n) (((n) + TAGS / 2) % TAGS) /* nobody is so far ahead: an old tag */

#define ROOT0 1
#define ROOT1 2
#define MEET 3
#define FULL 4
#define AHEAD(c) ((c) != FULL)

byte line_tag[N * N * K] = NONE, line_data[N * N * K] = NONE, line_word[N * N * K];
byte ll_tag[N * N * 2] = NONE, ll_data[N * N * 2] = NONE;
byte kind[8], left[8];
bool differ; /* some operation was called differently */
bool abort_word[N], ended[N];
hidden byte wrong_data, disagreed, hang;

proctype rank(byte me)
{
    byte n = 1, call, j, since, history, word;
    bool meets, bad;

    do
    ::
        atomic {
            /* The call: as the first one, or (once) another. */
            if
            :: kind[n] == 0 ->
                if
                :: since == 0 && !abort_word[me] -> call = FULL
#ifdef NO_MEETING
                :: since > 0 -> call = FULL
#endif
                :: since > 0 -> call = MEET
                :: call = ROOT0
                :: call = ROOT1
                fi;
                kind[n] = call
            :: kind[n] != 0 -> call = kind[n]
#ifdef DIFFER
            :: kind[n] == ROOT0 && !differ -> call = ROOT1; differ = true
            :: kind[n] == ROOT1 && !differ && since > 0 -> call = MEET; differ = true
            :: kind[n] == FULL && !differ -> call = ROOT1; differ = true
            :: kind[n] == ROOT1 && !differ && since == 0 -> call = FULL; differ = true
#endif
            fi;
            meets = (call == MEET || (AHEAD(call) && since + 1 == RUN));
            history = history * 4 + call;
#ifdef NO_HISTORY
            word = call;
#else
            word = (meets -> history : call);
#endif
            /* scrub */
            for (j : 0 .. N - 1) {
                if :: ll_tag[WORD(me, j, n)] == FAR(n) -> ll_tag[WORD(me, j, n)] = NONE :: else fi;
                if :: line_tag[LINE(me, j, n)] == FAR(n) -> line_tag[LINE(me, j, n)] = NONE :: else fi
            }
            j = 0
        }
        for (j : 0 .. N - 1) {
            if
            :: j != me && AHEAD(call) ->
#ifdef ONE_WAY_NO_LINE
                if
                :: meets || call == ROOT0 + me ->
#endif
                line_data[LINE(j, me, n)] = n;
                atomic {
                    line_word[LINE(j, me, n)] = word;
                    line_tag[LINE(j, me, n)] = n
                }
#ifdef ONE_WAY_NO_LINE
                :: else
                fi
#endif
            :: j != me && !AHEAD(call) ->
                ll_data[WORD(j, me, n)] = n;
                ll_tag[WORD(j, me, n)] = n
            :: else
            fi
        }
        bad = false;
        for (j : 0 .. N - 1) {
            if
            :: j == me || bad || (AHEAD(call) && !meets && call != ROOT0 + j)
            :: else ->
                if
                :: AHEAD(call) && line_tag[LINE(me, j, n)] == n ->
                    if
                    :: line_word[LINE(me, j, n)] != word -> bad = true
                    :: else -> CHECK(wrong_data, line_data[LINE(me, j, n)] == n)
                    fi
                :: !AHEAD(call) && ll_tag[WORD(me, j, n)] == n -> CHECK(wrong_data, ll_data[WORD(me, j, n)] == n)
#ifdef DIFFER
#ifndef NO_LOOK
                :: AHEAD(call) && line_tag[LINE(me, j, n)] != n && ll_tag[WORD(me, j, n)] == n -> bad = true
                :: !AHEAD(call) && ll_tag[WORD(me, j, n)] != n && line_tag[LINE(me, j, n)] == n -> bad = true
#endif
                :: abort_word[me] -> bad = true
#endif
                fi
            fi
        }
        if
        :: bad ->
            atomic {
                for (j : 0 .. N - 1) { abort_word[j] = true }
                ended[me] = true
            }
            break
        :: abort_word[me] -> ended[me] = true; break
        :: else
        fi;
        atomic {
            if
            :: meets || !AHEAD(call) -> CHECK(disagreed, !differ); since = 0; history = 0
            :: else -> since++
            fi;
            for (j : 0 .. N - 1) {
                if
                :: !AHEAD(call) -> ll_tag[WORD(me, j, n)] = NONE; ll_data[WORD(me, j, n)] = NONE
                :: AHEAD(call) && line_tag[LINE(me, j, n)] == n && (meets || call == ROOT0 + j) ->
                    line_tag[LINE(me, j, n)] = NONE; line_data[LINE(me, j, n)] = NONE; line_word[LINE(me, j, n)] = 0
                :: else
                fi
            }
            left[n]++;
            if :: left[n] == N -> kind[n] = 0; left[n] = 0 :: else fi;
            n = NEXT(n);
            call = 0; j = 0; word = 0
        }
    od
}

#ifdef DIFFER
active proctype judge()
{
    byte r;

    timeout;
    for (r : 0 .. N - 1) {
        CHECK(hang, ended[r])
    }
}
#endif

init
{
    byte a;

    atomic {
        for (a : 0 .. N - 1) {
            run rank(a)
        }
    }
}
