/* SPDX-License-Identifier: MIT
 *
 * Revocation against advert: the pair of stores and loads on which the drain of a failing rank rests, with the
 * machine's store buffers. N ranks in one operation, one block each. Every rank stores its advert at each peer; then
 * it either fails, at any point, or loads the peers' adverts and stores into the user buffers they name. A rank that
 * fails revokes its adverts and then leaves without waiting for a peer whose advert is absent. Stores of a rank go
 * through one buffer, in order (total store order).
 *
 * Two forms. FENCE: advert, fence, load; revocation, fence, load. Default: the sender has only a compiler barrier
 * between its advert and its load of a peer's advert; the failing rank calls membarrier() between revocation and load,
 * which makes every other rank pass a full fence at some moment of the call: one step a rank, in which its buffer is
 * empty.
 *
 * Checked: late_store  no store of a peer lands in a user buffer whose owner has left;
 *          incomplete  a rank that leaves without an error has all data;
 *          no rank stays stuck (invalid end state).
 *
 * Seeds: NO_MEMBARRIER (the failing rank fences only itself), NO_REVOKE, NO_DRAIN; with FENCE: NO_FENCE_SENDER,
 * NO_FENCE_REVOKER. */
#include "model.h"
#ifndef N
#define N 2
#endif
#define AT(at, from) ((at) * N + (from))

#define ABSENT 0
#define HERE 1
#define REVOKED 2
#define DONE 1
#define LEFT 2

mtype = { ADVERT, DATA, FLAG };
chan buffer[N] = [8] of { mtype, byte, byte }; /* what, at which rank, value */
byte adv[N * N];
byte flag[N * N];
bool data[N * N];
bool inside[N]; /* the user buffer of the rank belongs to the operation */
hidden byte late_store, incomplete;

proctype memory(byte me)
{
    byte at, value;
end:
    do
    :: atomic { buffer[me] ? ADVERT(at, value) -> adv[AT(at, me)] = value; at = 0; value = 0 }
    :: atomic { buffer[me] ? FLAG(at, value) -> flag[AT(at, me)] = value; at = 0; value = 0 }
    :: atomic {
           buffer[me] ? DATA(at, value) ->
           CHECK(late_store, inside[at]);
           data[AT(at, me)] = true;
           at = 0;
           value = 0
       }
    od
}

proctype rank(byte me)
{
    byte j;
    bool failed, sent[N];

    for (j : 0 .. N - 1) {
        if :: j != me -> buffer[me] ! ADVERT(j, HERE) :: else fi
    }
#if defined(FENCE) && !defined(NO_FENCE_SENDER)
    empty(buffer[me]);
#endif
    for (j : 0 .. N - 1) {
        if
        :: j == me || failed
        :: j != me && !failed && adv[AT(me, j)] == HERE ->
            buffer[me] ! DATA(j, 0);
            buffer[me] ! FLAG(j, DONE);
            sent[j] = true
        :: j != me && !failed && adv[AT(me, j)] == REVOKED -> failed = true
        :: j != me && !failed -> failed = true /* an error of its own, or an abort */
        fi
    }
    for (j : 0 .. N - 1) {
        if
        :: j == me || failed
        :: j != me && !failed && flag[AT(me, j)] == DONE
        :: j != me && !failed && flag[AT(me, j)] == LEFT -> failed = true
        :: j != me && !failed -> failed = true
        fi
    }
    if
    :: failed ->
#ifndef NO_REVOKE
        for (j : 0 .. N - 1) {
            if :: j != me -> buffer[me] ! ADVERT(j, REVOKED) :: else fi
        }
#endif
#ifdef FENCE
#ifndef NO_FENCE_REVOKER
        empty(buffer[me]);
#endif
#else
        empty(buffer[me]);
#ifndef NO_MEMBARRIER
        for (j : 0 .. N - 1) {
            empty(buffer[j]) /* the moment at which rank j passes its fence */
        }
#endif
#endif
        for (j : 0 .. N - 1) {
            if :: j != me && !sent[j] -> buffer[me] ! FLAG(j, LEFT) :: else fi
        }
#ifndef NO_DRAIN
        for (j : 0 .. N - 1) {
            if
            :: j == me
            :: j != me && flag[AT(me, j)] != 0
            :: j != me && adv[AT(me, j)] == ABSENT
            fi
        }
#endif
    :: else ->
        for (j : 0 .. N - 1) {
            CHECK(incomplete, j == me || data[AT(me, j)])
        }
    fi;
    inside[me] = false
}

init
{
    byte i;

    atomic {
        for (i : 0 .. N - 1) {
            inside[i] = true;
            run memory(i);
            run rank(i)
        }
    }
}
