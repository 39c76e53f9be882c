/* SPDX-License-Identifier: MIT
 *
 * Messages of an ordered pair, small ones through a ring of E slots at the receiver, large ones behind their advert. One rank sends for ever, one
 * receives; which messages are small is open, and in one of them the two may disagree. Every store to the other rank is delivered late and in any
 * order; the receiver's own stores of harmless words too, until it releases them.
 *
 * Advert (at the sender): {number, kind}; header of a slot: {number, small} or a harmless {number, nothing}; done (`full` in the kernel): {number, done} or harmless.
 * SEEN: the sender looks at the advert only if the one it remembers is not enough (the host).
 *
 * Checked: overrun     a slot is stored to only when the message that had it before is over;
 *          wrong_data  the data of a slot are those of the message;
 *          old_word    a header, `full` or an advert that is taken is of this very message, not of the one a tag ago;
 *          unnoticed   no message on which the two disagree goes through;
 *          nobody stays stuck (invalid end state), also when they disagree: one side says so, and that ends the other.
 *
 * Seeds: CREDIT_MORE (one message too many ahead), NO_RELEASE, NO_LOOK (the receiver of a large message does not look for a small one), NO_SCRUB_HEAD,
 * NO_SCRUB_FULL, SCRUB_EARLY (the harmless header is stored when the large message begins), SCRUB_LATE (it is not released before the next advert);
 * with SEEN: SEEN_OLD (large messages do not renew what is remembered). */
#ifndef E
#define E 2
#endif
#ifndef TAG_BITS
#define TAG_BITS 3
#endif
#include "model.h"
#define SMALL 0
#define LARGE 1
#define NOTHING 2
#define WORD(n, what) ((n) + 16 * (what))
#define WHAT(x) ((x) / 16)
#ifdef CREDIT_MORE
#define MAY(t, x) ((((t) + TAGS - ((x) & (TAGS - 1))) % TAGS) <= E)
#else
#define MAY(t, x) ((((t) + TAGS - ((x) & (TAGS - 1))) % TAGS) < E)
#endif

byte adv = WORD(0, LARGE), p_adv = NONE;
byte head[E] = WORD(0, NOTHING), p_head[E] = NONE;
byte own_head[E] = NONE, own_done = NONE; /* the receiver's harmless words, in flight */
byte data[E] = NONE, p_data[E] = NONE;
byte done = WORD(0, NOTHING), p_done = NONE;
byte kind[KINDS] = NONE; /* who comes first says it, who comes second takes it out */
bool error;               /* raised */
byte odd = NONE;         /* the message about which they disagree */
byte begun;              /* by the receiver */
bool in_slot[E], in_done; /* stored and not taken */
hidden byte overrun, wrong_data, old_word, unnoticed;

#define DELIVER(word) atomic { p_##word != NONE -> word = p_##word; p_##word = NONE }
#define DELIVER_OWN(word) atomic { own_##word != NONE -> word = own_##word; own_##word = NONE }

active proctype net()
{
    byte i;
end:
    do
    :: DELIVER(adv)
    :: DELIVER(done)
    :: DELIVER(head[0])
    :: DELIVER(head[1])
    :: DELIVER(data[0])
    :: DELIVER(data[1])
    :: DELIVER_OWN(head[0])
    :: DELIVER_OWN(head[1])
    :: DELIVER_OWN(done)
    od
}

/* What this side takes message n for. */
inline agree(n, mine)
{
    if
    :: KIND(n) == NONE ->
        if :: mine = SMALL :: mine = LARGE fi;
        KIND(n) = mine
    :: else ->
        mine = KIND(n);
        KIND(n) = NONE;
        if
        :: odd == NONE -> odd = n; mine = 1 - mine
        :: true
        fi
    fi
}

active proctype sender()
{
    byte t = 1, mine;
#ifdef SEEN
    byte seen = 0;
#endif
    do
    ::
        atomic { agree(t, mine) }
        if
        :: mine == SMALL ->
#ifdef SEEN
            if
            :: MAY(t, seen) -> skip
            :: else -> atomic { (MAY(t, adv) || error) -> seen = adv & (TAGS - 1) }
            fi;
#else
            (MAY(t, adv) || error);
#endif
            if :: error -> break :: else fi;
            CHECK(overrun, !in_slot[t % E] && p_data[t % E] == NONE);
            p_data[t % E] = t;
#ifndef NO_RELEASE
            (p_data[t % E] == NONE);
#endif
            atomic { p_head[t % E] = WORD(t, SMALL); in_slot[t % E] = true }
        :: else ->
            (EQ(adv, t) || error);
            if :: error -> break :: else fi;
            CHECK(old_word, begun == t);
#if defined(SEEN) && !defined(SEEN_OLD)
            seen = t;
#endif
            if :: WHAT(adv) == SMALL -> error = true; break :: else fi;
            atomic { p_done = WORD(t, LARGE); in_done = true }
        fi;
        atomic { t = NEXT(t); mine = 0 }
    od
}

active proctype receiver()
{
    byte t = 1, mine;
    do
    ::
        atomic { agree(t, mine); begun = t; p_adv = WORD(t, mine) }
        if
        :: mine == SMALL ->
            (EQ(head[t % E], t) || error);
            if :: error -> break :: else fi;
            CHECK(old_word, in_slot[t % E] && WHAT(head[t % E]) == SMALL);
            CHECK(wrong_data, data[t % E] == t);
            atomic { in_slot[t % E] = false; data[t % E] = NONE }
#ifndef NO_SCRUB_FULL
            own_done = WORD(t, NOTHING);
            (own_done == NONE)
#endif
        :: else ->
#ifdef SCRUB_EARLY
            own_head[t % E] = WORD(t, NOTHING);
            (own_head[t % E] == NONE);
#endif
#ifdef NO_LOOK
            ((EQ(done, t) && WHAT(done) == LARGE) || error);
#else
            ((EQ(done, t) && WHAT(done) == LARGE) || (EQ(head[t % E], t) && WHAT(head[t % E]) == SMALL) || error);
#endif
            if
            :: error -> break
            :: else ->
                if
                :: EQ(done, t) && WHAT(done) == LARGE -> skip
                :: else -> CHECK(old_word, in_slot[t % E]); error = true; break
                fi
            fi;
            CHECK(old_word, in_done);
            in_done = false;
#if !defined(NO_SCRUB_HEAD) && !defined(SCRUB_EARLY)
            own_head[t % E] = WORD(t, NOTHING);
#ifndef SCRUB_LATE
            (own_head[t % E] == NONE)
#endif
#endif
        fi;
        CHECK(unnoticed, odd != t);
        atomic { t = NEXT(t); mine = 0 }
    od
}
