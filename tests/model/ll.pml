/* SPDX-License-Identifier: MIT
 *
 * LL as on a GPU: packets {data, tag} in two parities, adverts apart, mixed with push operations, broadcasts and
 * barriers on different grids. Ranks run one operation after the other for ever. Blocks are processes; a helper beside
 * block 0 sends the adverts, scrubs and applies the exit rule while the blocks move data. A block draws the operation
 * number at entry; the last to draw advances it in a second step. Every store to a peer is delivered late and in any
 * order. A packet stands for a whole 64-byte line of packets.
 *
 * Operations: LL all-gather of LINES lines on B blocks or of one line on one block, LL broadcast of LINES lines from
 * rank 0 on one block, push all-gather on B blocks, barrier (adverts only).
 *
 * Scrub in operation n: line (n >> 1) mod LINES of parity n, and row n mod B of the flag words, and only what n does
 * not use; the line gets {tag n} like any other. Every line is passed once in LINES operations of its parity, so LINES
 * < TAGS / 2.
 *
 * Checked: wrong_number  all blocks of a launch draw the number of this launch;
 *          wrong_packet  a packet taken by its tag was sent in this very operation;
 *          wrong_flag    a flag word taken by its tag was sent in this very operation;
 *          no rank stays stuck (invalid end state).
 *
 * Seeds: NO_EXIT_RULE, ONE_PARITY, NO_SCRUB, SCRUB_USED, SCRUB_BY_LINE (a line that the operation uses counts as used
 * for the sources that send nothing, too), SCRUB_BY_N (LINES=2; line n mod LINES: half of the lines are never passed),
 * SCRUB_BY_GRID (a row inside the grid counts as used, although an LL operation uses no row), BUMP_BY_BLOCK0 (B=2). */
#include "model.h"
#ifndef N
#define N 2
#endif
#ifndef B
#define B 1
#endif
#ifndef LINES
#define LINES 1
#endif
#ifndef OPS
#define OPS 31 /* bits of the operations that are mixed */
#endif
#ifdef ONE_PARITY
#define HALF(n) 0
#else
#define HALF(n) PAR(n)
#endif
#define ADV(at, from, p) (((at) * N + (from)) * 2 + (p))
#define LL(at, from, p, l) ((((at) * N + (from)) * 2 + (p)) * LINES + (l))
#define ROW(at, from, b) (((at) * N + (from)) * B + (b))

#define GATHER_LARGE 0
#define GATHER_SMALL 1
#define BCAST 2
#define PUSH 3
#define BARRIER 4
#define IS_LL(n) (KIND(n) <= BCAST)
#define GRID(n) ((KIND(n) == GATHER_LARGE || KIND(n) == PUSH) -> B : 1)
#define LINES_OF(n) ((KIND(n) == GATHER_LARGE || KIND(n) == BCAST) -> LINES : (KIND(n) == GATHER_SMALL -> 1 : 0))
#define SENDS(n, r) (KIND(n) != BCAST || (r) == 0)
#define OLD 32 /* added to a number, the tag stays: scrubbed, or the operation is over at the reader */

byte adv[N * N * 2] = NONE, p_adv[N * N * 2] = NONE; /* p_: in flight */
byte ll[N * N * 2 * LINES] = NONE, p_ll[N * N * 2 * LINES] = NONE;
byte flag[N * N * B] = NONE, p_flag[N * N * B] = NONE;
byte op[N], drawn[N]; /* device memory of each rank: number, blocks that have drawn it */
byte outs[N];         /* blocks, and the helper, that have left; only S uses it: the end of the kernel */
bool go[N * B], help[N];
bool running[N];
byte launch[N]; /* the true number of the running launch */
byte kind[KINDS] = NONE;
byte left[KINDS];
hidden byte wrong_number, wrong_packet, wrong_flag;

#define DELIVER(word, i) atomic { p_##word[i] != NONE -> word[i] = p_##word[i]; p_##word[i] = NONE }

proctype net(byte from; byte at)
{
end:
    do
    :: DELIVER(adv, ADV(at, from, 0))
    :: DELIVER(adv, ADV(at, from, 1))
    :: DELIVER(ll, LL(at, from, 0, 0))
    :: DELIVER(ll, LL(at, from, 1, 0))
#if LINES > 1
    :: DELIVER(ll, LL(at, from, 0, 1))
    :: DELIVER(ll, LL(at, from, 1, 1))
#endif
    :: DELIVER(flag, ROW(at, from, 0))
#if B > 1
    :: DELIVER(flag, ROW(at, from, 1))
#endif
    od
}

inline old(word)
{
    if :: EQ(word, n) && word < OLD -> word = word + OLD :: else fi
}

/* The kernel ends with its last block or helper. */
inline leave()
{
    atomic {
        outs[me]++;
        if
        :: outs[me] == GRID(n) + 1 ->
            outs[me] = 0;
            for (j : 0 .. N * LINES - 1) {
                old(ll[LL(me, j / LINES, HALF(n), j % LINES)])
            }
            for (j : 0 .. N * B - 1) {
                old(flag[ROW(me, j / B, j % B)])
            }
            left[n % KINDS]++;
            if :: left[n % KINDS] == N -> KIND(n) = NONE; left[n % KINDS] = 0 :: else fi;
            running[me] = false
        :: else
        fi;
        n = 0;
        j = 0
    }
}

inline scrub()
{
    atomic {
#ifdef SCRUB_BY_N
        i = n % LINES;
#else
        i = (n >> 1) % LINES;
#endif
        for (j : 0 .. N - 1) {
            if
#ifdef SCRUB_USED
            :: true ->
#elif defined(SCRUB_BY_LINE)
            :: i >= LINES_OF(n) ->
#else
            :: i >= LINES_OF(n) || !SENDS(n, j) ->
#endif
                ll[LL(me, j, HALF(n), i)] = n + OLD
            :: else
            fi
        }
        i = n % B;
        if
#ifdef SCRUB_BY_GRID
        :: i >= GRID(n) ->
#else
        :: KIND(n) != PUSH || i >= GRID(n) ->
#endif
            for (j : 0 .. N - 1) { flag[ROW(me, j, i)] = n + OLD }
        :: else
        fi;
        i = 0;
        j = 0
    }
}

#define SEEN(j) ((j) == me || EQ(adv[ADV(me, j, HALF(n))], n))
#if N == 2
#define ALL_SEEN (SEEN(0) && SEEN(1))
#else
#define ALL_SEEN (SEEN(0) && SEEN(1) && SEEN(2))
#endif

/* The scrub touches words that no peer may store into in this operation: its first and its last moment are enough. */
proctype helper(byte me)
{
    byte n, i, j;
    bool scrubbed;
end:
    do
    :: atomic {
           help[me] -> help[me] = false;
           n = launch[me]; /* = what block 0 drew: asserted there */
           for (j : 0 .. N - 1) {
               if :: j != me -> p_adv[ADV(j, me, HALF(n))] = n :: else fi
           }
           j = 0;
#ifndef NO_SCRUB
           if
           :: scrub(); scrubbed = true
           :: true
           fi
#endif
       }
       atomic {
#ifndef NO_EXIT_RULE
           ALL_SEEN ->
#endif
#ifndef NO_SCRUB
           if :: scrubbed :: else -> scrub() fi;
           scrubbed = false;
#endif
           leave()
       }
    od
}

inline bump()
{
    if
    :: last -> atomic { op[me] = NEXT(n); drawn[me] = 0; last = false }
    :: else
    fi
}

proctype block(byte me; byte b)
{
    byte n, j, l;
    bool last;
end:
    do
    :: atomic {
           go[me * B + b] -> go[me * B + b] = false;
           /* entry: one fetch-and-add gives the number and the position */
           n = op[me];
           drawn[me]++;
           CHECK(wrong_number, n == launch[me]);
           last = (drawn[me] == GRID(n));
           if :: b == 0 -> help[me] = true :: else fi;
#if B == 1 && !defined(BUMP_BY_BLOCK0)
           bump();
#endif
           /* lines are dealt to the blocks of the grid in turn */
           if
           :: IS_LL(n) && SENDS(n, me) ->
               for (l : 0 .. LINES_OF(n) - 1) {
                   if
                   :: l % GRID(n) == b ->
                       for (j : 0 .. N - 1) {
                           if :: j != me -> p_ll[LL(j, me, HALF(n), l)] = n :: else fi
                       }
                   :: else
                   fi
               }
               l = 0;
               j = 0
           :: else
           fi
       }
#if B > 1 && !defined(BUMP_BY_BLOCK0)
       bump();
#endif
       if
       :: KIND(n) == PUSH ->
           for (j : 0 .. N - 1) {
               if
               :: j != me -> atomic { EQ(adv[ADV(me, j, HALF(n))], n) -> p_flag[ROW(j, me, b)] = n }
               :: else
               fi
           }
       :: else
       fi;
       if
       :: IS_LL(n) ->
           for (l : 0 .. LINES_OF(n) - 1) {
               if
               :: l % GRID(n) == b ->
                   for (j : 0 .. N - 1) {
                       if
                       :: j != me && SENDS(n, j) ->
                           atomic {
                               EQ(ll[LL(me, j, HALF(n), l)], n) ->
                               CHECK(wrong_packet, ll[LL(me, j, HALF(n), l)] == n)
                           }
                       :: else
                       fi
                   }
               :: else
               fi
           }
       :: KIND(n) == PUSH ->
           for (j : 0 .. N - 1) {
               if
               :: j != me -> atomic { EQ(flag[ROW(me, j, b)], n) -> CHECK(wrong_flag, flag[ROW(me, j, b)] == n) }
               :: else
               fi
           }
       :: else
       fi;
#ifdef BUMP_BY_BLOCK0
       if
       :: b == 0 -> atomic { op[me] = NEXT(n); drawn[me] = 0 }
       :: else
       fi;
#endif
       l = 0;
       leave()
    od
}

/* The stream: one launch after the other (S). */
proctype host(byte me)
{
    byte b;
end:
    do
    :: atomic {
           !running[me] -> launch[me] = NEXT(launch[me]);
           running[me] = true;
           if
           :: KIND(launch[me]) != NONE
           :: KIND(launch[me]) == NONE && (OPS >> GATHER_LARGE & 1) -> KIND(launch[me]) = GATHER_LARGE
           :: KIND(launch[me]) == NONE && (OPS >> GATHER_SMALL & 1) -> KIND(launch[me]) = GATHER_SMALL
           :: KIND(launch[me]) == NONE && (OPS >> BCAST & 1) -> KIND(launch[me]) = BCAST
           :: KIND(launch[me]) == NONE && (OPS >> PUSH & 1) -> KIND(launch[me]) = PUSH
           :: KIND(launch[me]) == NONE && (OPS >> BARRIER & 1) -> KIND(launch[me]) = BARRIER
           fi;
           for (b : 0 .. GRID(launch[me]) - 1) { go[me * B + b] = true }
           b = 0
       }
    od
}

init
{
    byte a, b;

    atomic {
        for (a : 0 .. N - 1) {
            op[a] = 1;
            run host(a);
            run helper(a);
            for (b : 0 .. B - 1) { run block(a, b) }
            for (b : 0 .. N - 1) {
                if :: a != b -> run net(a, b) :: else fi
            }
        }
    }
}
