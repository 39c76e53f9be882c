/* SPDX-License-Identifier: MIT
 *
 * LL as on the host backend, against push and against itself. One cache line a (parity, source) holds data and a tag
 * word {number, signature}, stored last, with release. The packet is the advert: an LL operation sends no advert line.
 * A push operation sends an advert line {number, signature} and, after the peer's, its payload (not modelled) and a
 * flag word. N ranks run one operation after the other for ever; in each, the first to begin picks the call, the
 * others call the same, or, from then on in disagreement, another.
 *
 * Looks. An LL rank that waits for a packet also looks at the peer's advert line: its number there = the peer called
 * something else. A push rank that waits for an advert also looks at the peer's LL tag word of this parity. Everybody
 * who waits looks at its own abort word, which whoever finds an error sets at every rank.
 *
 * Scrub at entry, BEFORE the own packet or advert goes out: an LL operation rewrites the advert lines of its parity
 * and the flag words, a push operation the LL tag words of its parity. (N is small: all sources at once, not one by
 * number.) A rank in disagreement may store into exactly these words at this time, so the scrub can destroy the only
 * sign of its call at this rank; but then the other rank had sent before I scrubbed, so had scrubbed before I sent,
 * and sees my call.
 *
 * Checked: wrong_data   data taken by a tag word belong to this operation;
 *          wrong_word   a tag, advert or flag word taken was sent in this operation;
 *          false_alarm  nobody raises a mismatch where all calls agree;
 *          disagreed    an operation in which calls differ ends well on no rank;
 *          hang         when nothing moves any more, every rank has left with an error.
 *
 * Seeds: NO_RELEASE, NO_SCRUB, SCRUB_USED, SCRUB_LATE (after the own packet or advert), ONE_PARITY. Looks left out:
 * NO_LOOK_ADVERT, NO_LOOK_LL, NO_ABORT_WORD; with SCRUB_SPARES (a scrub that never destroys a word of its own number,
 * by compare-and-swap) fewer looks are needed: README.md has the table. */
#include "model.h"
#ifndef N
#define N 2
#endif
#ifdef ONE_PARITY
#define HALF(n) 0
#else
#define HALF(n) PAR(n)
#endif
#define AT(at, from) ((at) * N + (from))
#define AT2(at, from, p) (((at) * N + (from)) * 2 + (p))

/* calls; the signature of a word is its call times SIG */
#define LL_A 1
#define LL_B 2
#define PUSH 3
#define IS_LL(c) ((c) < PUSH)
#define SIG 16
#define SIG_OF(x) ((x) / SIG & 3)
#define OLD 8 /* added to a word: its operation is over, or it was scrubbed; looks the same */
#define FRESH(x) (((x) & OLD) == 0)

byte tag[N * N * 2] = NONE, p_tag[N * N * 2] = NONE; /* LL tag words; p_: in flight */
byte data[N * N * 2] = NONE, p_data[N * N * 2] = NONE;
byte adv[N * N * 2] = NONE, p_adv[N * N * 2] = NONE;
byte flag[N * N] = NONE, p_flag[N * N] = NONE;
bool abort_word[N];
bool raised;        /* an error was found anywhere */
bool ended[N];      /* left with an error: enqueues nothing any more */
byte kind[KINDS];   /* call of the first, 0: nobody has begun */
bool differ[KINDS]; /* calls differ */
byte left[KINDS];
hidden byte wrong_data, wrong_word, false_alarm, disagreed, hang;

#define DELIVER(word, i) atomic { p_##word[i] != NONE -> word[i] = p_##word[i]; p_##word[i] = NONE }

proctype net(byte from; byte at)
{
end:
    do
    :: DELIVER(tag, AT2(at, from, 0))
    :: DELIVER(tag, AT2(at, from, 1))
    :: DELIVER(data, AT2(at, from, 0))
    :: DELIVER(data, AT2(at, from, 1))
    :: DELIVER(adv, AT2(at, from, 0))
    :: DELIVER(adv, AT2(at, from, 1))
    :: DELIVER(flag, AT(at, from))
    od
}

#define NUMBER_IS(x) ((x) != NONE && ((x) & (TAGS - 1)) == n)
#define MINE(x) (NUMBER_IS(x) && SIG_OF(x) == call)

/* A peer's call differs from mine: everybody's abort word. */
inline mismatch()
{
    CHECK(false_alarm, differ[n % KINDS]);
    raised = true;
#ifdef NO_ABORT_WORD
    abort_word[me] = true;
#else
    for (k : 0 .. N - 1) { abort_word[k] = true }
    k = 0;
#endif
    failed = true
}

inline old(word)
{
    if :: NUMBER_IS(word) -> word = word | OLD :: else fi
}

inline erase(word)
{
#ifdef SCRUB_SPARES
    if :: NUMBER_IS(word) && FRESH(word) :: else -> word = NONE fi
#else
    word = NONE
#endif
}

inline scrub()
{
#ifndef NO_SCRUB
    atomic {
        for (j : 0 .. N - 1) {
            if
            :: IS_LL(call) -> erase(adv[AT2(me, j, HALF(n))]); flag[AT(me, j)] = NONE
            :: else
            fi;
#ifdef SCRUB_USED
            erase(tag[AT2(me, j, HALF(n))])
#else
            if :: !IS_LL(call) -> erase(tag[AT2(me, j, HALF(n))]) :: else fi
#endif
        }
        j = 0
    }
#else
    skip
#endif
}

proctype rank(byte me)
{
    byte n = 1, call, j, k;
    bool failed;

    do
    ::
        atomic {
            if
            :: kind[n % KINDS] == 0 -> if :: call = LL_A :: call = PUSH fi; kind[n % KINDS] = call
            :: kind[n % KINDS] != 0 -> call = kind[n % KINDS]
            :: kind[n % KINDS] != 0 && !raised ->
                if
                :: kind[n % KINDS] == PUSH -> call = LL_A
                :: kind[n % KINDS] == LL_A -> call = LL_B
                :: kind[n % KINDS] == LL_A -> call = PUSH
                fi;
                differ[n % KINDS] = true
            fi
        }
#ifndef SCRUB_LATE
        scrub();
#endif
        if
        :: IS_LL(call) ->
            atomic {
                for (j : 0 .. N - 1) {
                    if :: j != me -> p_data[AT2(j, me, HALF(n))] = n :: else fi
                }
                j = 0
            }
#ifndef NO_RELEASE
            for (j : 0 .. N - 1) { (p_data[AT2(j, me, HALF(n))] == NONE) }
#endif
            atomic {
                for (j : 0 .. N - 1) {
                    if :: j != me -> p_tag[AT2(j, me, HALF(n))] = n + call * SIG :: else fi
                }
                j = 0
            }
        :: else ->
            atomic {
                for (j : 0 .. N - 1) {
                    if :: j != me -> p_adv[AT2(j, me, HALF(n))] = n + call * SIG :: else fi
                }
                j = 0
            }
        fi;
#ifdef SCRUB_LATE
        scrub();
#endif
        for (j : 0 .. N - 1) {
            if
            :: j == me || failed
            :: atomic {
                   j != me && !failed && IS_LL(call) && MINE(tag[AT2(me, j, HALF(n))]) ->
                   CHECK(wrong_word, FRESH(tag[AT2(me, j, HALF(n))]));
                   CHECK(wrong_data, data[AT2(me, j, HALF(n))] == n)
               }
            :: atomic { j != me && !failed && !IS_LL(call) && MINE(adv[AT2(me, j, HALF(n))]) ->
                   CHECK(wrong_word, FRESH(adv[AT2(me, j, HALF(n))])) }
            :: atomic {
                   j != me && !failed && NUMBER_IS(tag[AT2(me, j, HALF(n))]) && IS_LL(call) &&
                   SIG_OF(tag[AT2(me, j, HALF(n))]) != call -> mismatch()
               }
            :: atomic {
                   j != me && !failed && NUMBER_IS(adv[AT2(me, j, HALF(n))]) && !IS_LL(call) &&
                   SIG_OF(adv[AT2(me, j, HALF(n))]) != call -> mismatch()
               }
#ifndef NO_LOOK_ADVERT
            :: atomic { j != me && !failed && IS_LL(call) && NUMBER_IS(adv[AT2(me, j, HALF(n))]) -> mismatch() }
#endif
#ifndef NO_LOOK_LL
            :: atomic { j != me && !failed && !IS_LL(call) && NUMBER_IS(tag[AT2(me, j, HALF(n))]) -> mismatch() }
#endif
            :: j != me && !failed && abort_word[me] -> failed = true
            fi
        }
        if
        :: !IS_LL(call) && !failed ->
            atomic {
                for (j : 0 .. N - 1) {
                    if :: j != me -> p_flag[AT(j, me)] = n + call * SIG :: else fi
                }
                j = 0
            }
            for (j : 0 .. N - 1) {
                if
                :: j == me || failed
                :: atomic { j != me && !failed && MINE(flag[AT(me, j)]) -> CHECK(wrong_word, FRESH(flag[AT(me, j)])) }
                :: j != me && !failed && abort_word[me] -> failed = true
                fi
            }
        :: else
        fi;
        if
        :: failed -> ended[me] = true; break
        :: else
        fi;
        atomic {
            CHECK(disagreed, !differ[n % KINDS]);
            for (j : 0 .. N - 1) {
                old(tag[AT2(me, j, HALF(n))]);
                old(adv[AT2(me, j, HALF(n))]);
                old(flag[AT(me, j)])
            }
            for (j : 0 .. N - 1) { data[AT2(me, j, HALF(n))] = NONE }
            left[n % KINDS]++;
            if :: left[n % KINDS] == N -> kind[n % KINDS] = 0; left[n % KINDS] = 0 :: else fi;
            n = NEXT(n);
            call = 0;
            j = 0
        }
    od
}

active proctype judge()
{
    byte r;

    timeout;
    for (r : 0 .. N - 1) {
        CHECK(hang, ended[r])
    }
}

init
{
    byte a, b;

    atomic {
        for (a : 0 .. N - 1) {
            run rank(a);
            for (b : 0 .. N - 1) {
                if :: a != b -> run net(a, b) :: else fi
            }
        }
    }
}
