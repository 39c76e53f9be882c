/* SPDX-License-Identifier: MIT
 *
 * Fused all-gather + product: tickets, roles, ready words with tags, DONE, reuse call after call. N ranks; a launch has G blocks, of which R are resident at a time,
 * and the device starts them in any order. The first FETCHERS blocks in (by the number they draw, not by their index) fetch until there is nothing left to
 * fetch, then multiply like the others. A call has one or two fetches a rank and as many ready words; which, is open, and agreed. The last block out waits for
 * the peers' DONE, resets the tickets, scrubs one word and advances the epoch, whose low bits are the tag of ready words. When a kernel is over its user
 * overwrites A at once. Operation number and epoch are counted modulo TAGS, so reuse after the wrap is in every run.
 *
 * Pull: a fetch waits for the peer's advert, reads the peer's A and stores to the own workspace. -DPUSH: it waits for the peer's advert and stores to the peer's.
 *
 * Checked: wrong_data  what is fetched and what is multiplied is A of this very call;
 *          twice       every ticket is drawn once a call;
 *          a hang: invalid end state.
 *
 * Seeds: ROLES_BY_INDEX (the block with the highest index fetches), ADVERT_BY_BLOCK0 (block index 0 sends the adverts, not the first one in), NO_ADVERT_WAIT,
 * NO_EXIT (the last block out does not wait for DONE), EARLY_DONE (DONE after the own first fetch, not after the last one of all blocks), NO_TAG (ready words are
 * booleans), NO_SCRUB, RESET_EARLY (the first block out resets the tickets), EARLY_READY (the ready word is set before the data are there). */
#include "model.h"
#ifndef N
#define N 2
#endif
#ifndef G
#define G 2
#endif
#ifndef R
#define R 1
#endif
#ifndef FETCHERS
#define FETCHERS 1
#endif
#ifndef EPOCH_TAGS
#define EPOCH_TAGS TAGS /* of ready words; 2: fewer states, as every word is scrubbed within two calls */
#endif
#define WORDS 2
#define TILES 2
#define AT(at, from) ((at) * N + (from))
#define WORD(rank, w) ((rank) * WORDS + (w))

/* Words of peers: low bits of the operation. */
byte adv[N * N] = NONE;
byte ended[N * N] = NONE;
byte A[N] = NONE;
/* Workspace of a rank; two ranks: all words are of the one peer. */
byte stage[N * WORDS] = NONE;
byte ready[N * WORDS] = NONE;
/* Private memory. */
byte op[N];
byte epoch[N];
byte drawn[N];
byte fetch[N];
byte tile[N];
byte fetched[N];
byte outs[N];
/* The device: resident blocks, blocks to be started; the agreed number of fetches by operation. */
byte resident[N];
bool go[N * G];
bool running[N];
byte kind[KINDS];
hidden byte wrong_data, twice;
bool taken[N * 4]; /* tickets of this call: fetches, then tiles */

#define FOR_PEERS(k) for (k : 0 .. N - 1) { if :: k != me ->
#define END_PEERS :: else fi }

inline send_adverts()
{
    FOR_PEERS(j) adv[AT(j, me)] = n END_PEERS
}

#define TAKE(counter, base, most)                                                                                    \
    atomic {                                                                                                         \
        i = counter[me];                                                                                             \
        if                                                                                                           \
        :: i < most -> CHECK(twice, !taken[me * 4 + base + i]); taken[me * 4 + base + i] = true; counter[me]++       \
        :: else                                                                                                      \
        fi                                                                                                           \
    }

inline set_ready(at, w)
{
#ifdef NO_TAG
    ready[WORD(at, w)] = 1
#else
    ready[WORD(at, w)] = e
#endif
}

inline fetch_one(w)
{
    FOR_PEERS(j)
#ifndef NO_ADVERT_WAIT
        EQ(adv[AT(me, j)], n);
#endif
#ifdef EARLY_READY
        set_ready(me, w);
#endif
#ifdef PUSH
        stage[WORD(j, w)] = A[me];
        set_ready(j, w)
#else
        v = A[j];
        CHECK(wrong_data, v == n);
        stage[WORD(me, w)] = v;
        set_ready(me, w)
#endif
    END_PEERS
}

proctype block(byte me; byte b)
{
    byte n, e, f, position, i, j, v;
    bool fetches;
    do
    :: atomic {
           go[me * G + b] && resident[me] < R ->
           go[me * G + b] = false; resident[me]++;
           n = op[me]; e = epoch[me]; f = KIND(n); position = drawn[me]; drawn[me]++;
           if
           :: drawn[me] == G -> drawn[me] = 0; op[me] = NEXT(n)
           :: else
           fi
       }
#ifdef ADVERT_BY_BLOCK0
       if :: b == 0 -> send_adverts() :: else fi;
#else
       if :: position == 0 -> send_adverts() :: else fi;
#endif
#ifdef ROLES_BY_INDEX
       fetches = b == G - 1;
#else
       fetches = position < FETCHERS;
#endif
       do
       :: fetches ->
          TAKE(fetch, 0, f);
          if
          :: i < f ->
             fetch_one(i);
             atomic {
                 fetched[me]++;
#ifdef EARLY_DONE
                 v = fetched[me] == 1;
#else
                 v = fetched[me] == f;
#endif
             }
             if
             :: v -> FOR_PEERS(j) ended[AT(j, me)] = n END_PEERS
             :: else
             fi
          :: else -> break
          fi
       :: else -> break
       od;
       do
       :: TAKE(tile, 2, TILES);
          if
          :: i < TILES ->
             for (j : 0 .. f - 1) {
#ifdef NO_TAG
                 ready[WORD(me, j)] == 1;
#else
                 EQ(ready[WORD(me, j)], e);
#endif
                 CHECK(wrong_data, stage[WORD(me, j)] == n)
             }
          :: else -> break
          fi
       od;
       atomic {
           outs[me]++; resident[me]--;
#ifdef RESET_EARLY
           if :: outs[me] == 1 -> fetch[me] = 0; tile[me] = 0 :: else fi;
#endif
           v = outs[me] == G
       }
       if
       :: v ->
#ifndef NO_EXIT
          FOR_PEERS(j) EQ(ended[AT(me, j)], n) END_PEERS
#endif
          atomic {
              outs[me] = 0; fetched[me] = 0;
#ifndef RESET_EARLY
              fetch[me] = 0; tile[me] = 0;
#endif
              for (j : 0 .. 3) { taken[me * 4 + j] = false }
#ifndef NO_SCRUB
              ready[WORD(me, e % WORDS)] = NONE;
#endif
              epoch[me] = (e + 1) % EPOCH_TAGS;
              A[me] = NONE; running[me] = false; n = 0; e = 0; f = 0; position = 0; i = 0; j = 0; v = 0; fetches = false
          }
       :: else -> atomic { n = 0; e = 0; f = 0; position = 0; i = 0; j = 0; v = 0; fetches = false }
       fi
    od
}

/* The user: A for the next call is written when the last one is over. Who comes first to a call decides how many fetches it has. */
proctype user(byte me)
{
    byte b;
    do
    :: atomic {
           !running[me] ->
           running[me] = true; A[me] = op[me];
           if
           :: kind[(op[me] + 1) % KINDS] = 0;
              if
              :: KIND(op[me]) == 0 -> if :: KIND(op[me]) = 1 :: KIND(op[me]) = 2 fi
              :: else
              fi
           fi;
           for (b : 0 .. G - 1) { go[me * G + b] = true }
           b = 0
       }
    od
}

init {
    byte k, b;
    atomic {
        for (k : 0 .. N - 1) {
            op[k] = 1; epoch[k] = 1;
            run user(k);
            for (b : 0 .. G - 1) { run block(k, b) }
        }
    }
}
