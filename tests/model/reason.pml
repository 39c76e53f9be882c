/* SPDX-License-Identifier: MIT
 *
 * Which reason a failed operation gets. Blocks of one rank: one may see an error (a mismatch, say); it sets `stop`, which ends the waits of the others,
 * and then claims the record and writes it. A block whose wait was ended by `stop` knows no reason; the application's abort word is one. A
 * block without a reason waits until somebody has claimed or the abort word is there, then passes on what that says.
 *
 * Checked: no_reason  a record is never claimed by a block that knows nothing while nothing is known;
 *          no block stays stuck (invalid end state) once something has failed.
 *
 * Seeds: NO_AWAIT (a block without a reason claims at once), NO_ABORT (it waits for a claim only, not for the abort word). */
#include "model.h"
#ifndef B
#define B 3
#endif

bool stop, claimed, written, aborted;
hidden byte no_reason;

proctype block()
{
    bool knows;

    /* the wait: it ends by an error of its own, by `stop`, by the abort word (which the slow poll passes on), or well */
    if
    :: knows = true; stop = true /* only blocks whose awaited word shows the error */
    :: stop
    :: aborted -> stop = true
    :: goto out
    fi;
    /* ccl_raise */
#if defined(NO_ABORT)
    (knows || claimed);
#elif !defined(NO_AWAIT)
    (knows || claimed || aborted);
#endif
    if
    :: atomic { !claimed -> claimed = true; CHECK(no_reason, knows || aborted) };
        aborted = true;
        written = true
    :: claimed -> (written)
    fi;
out:
    skip
}

proctype user()
{
    if
    :: aborted = true
    :: true
    fi
}

init
{
    byte b;

    atomic {
        for (b : 1 .. B) { run block() }
        run user()
    }
}
