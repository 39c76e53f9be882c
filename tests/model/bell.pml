/* SPDX-License-Identifier: MIT
 *
 * The bell (futex event count) of the host backend. P publishers store ROUNDS values each into their word; W waiters
 * of one rank wait for all of them. Stores are buffered: a publisher's word and a waiter's waiting++ become visible
 * late (weaker than x86, where the increment is a locked instruction). The futex compares and queues in one step, in
 * the kernel. There is no time limit: the 100 ms of the code are a safety net, not part of the argument.
 *
 * Two forms. FENCE: publisher and waiter fence between their store and their load. Default: the publisher has only a
 * compiler barrier, the waiter calls membarrier(), which makes every publisher pass a full fence at some moment of the
 * call: one step a publisher, in which its buffer is empty.
 *
 * Checked: no lost wake-up (a waiter that sleeps for ever is an invalid end state).
 *
 * Seeds: NO_MEMBARRIER (the waiter fences only itself), NO_RECHECK, LATE_TICKET (bell read after the second look);
 * with FENCE: NO_FENCE_PUB, NO_FENCE_WAIT. */
#ifndef P
#define P 2
#endif
#ifndef W
#define W 1
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

byte word[P];    /* as everybody sees it */
byte buffer[P];  /* the publisher's store buffer, 0 = empty */
byte waiting;    /* of the rank that waits */
bool pending[W]; /* waiting++ of a waiter, not yet visible */
byte bell;
bool asleep[W];

/* Store buffers drain by themselves, some time: one process a buffer, blocked while it is empty. */
proctype drain_word(byte i)
{
end:
    do
    :: atomic { buffer[i] != 0 -> word[i] = buffer[i]; buffer[i] = 0 }
    od
}

proctype drain_waiting(byte i)
{
end:
    do
    :: atomic { pending[i] -> waiting++; pending[i] = false }
    od
}

proctype publisher(byte me)
{
    byte round, k;

    for (round : 1 .. ROUNDS) {
        buffer[me] = round; /* release store; a newer value replaces an older one that is still in the buffer */
#if defined(FENCE) && !defined(NO_FENCE_PUB)
        (buffer[me] == 0);
#endif
        if
        :: waiting != 0 ->
            bell++;
            d_step {
                for (k : 0 .. W - 1) {
                    asleep[k] = false; /* futex_wake, all */
                }
            }
        :: waiting == 0
        fi
    }
}

proctype waiter(byte me)
{
    byte round, i, k, ticket;

    for (round : 1 .. ROUNDS) {
        for (i : 0 .. P - 1) {
            do
            :: word[i] >= round -> break
            :: word[i] < round ->
#ifndef LATE_TICKET
                ticket = bell;
#endif
                pending[me] = true; /* waiting++ */
#ifdef FENCE
#ifndef NO_FENCE_WAIT
                (!pending[me]);
#endif
#else
                (!pending[me]);
#ifndef NO_MEMBARRIER
                for (k : 0 .. P - 1) {
                    (buffer[k] == 0); /* the moment at which publisher k passes its fence */
                }
#endif
#endif
#ifndef NO_RECHECK
                if
                :: word[i] >= round
                :: word[i] < round ->
#endif
#ifdef LATE_TICKET
                    ticket = bell;
#endif
                    atomic { if :: bell == ticket -> asleep[me] = true :: else fi }; /* futex_wait */
                    (!asleep[me]);
#ifndef NO_RECHECK
                fi;
#endif
                /* waiting-- */
                atomic { if :: pending[me] -> pending[me] = false :: else -> waiting-- fi }
            od
        }
    }
}

init
{
    byte i;

    atomic {
        for (i : 0 .. P - 1) { run drain_word(i); run publisher(i) }
        for (i : 0 .. W - 1) { run drain_waiting(i); run waiter(i) }
    }
}
