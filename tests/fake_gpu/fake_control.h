/* SPDX-License-Identifier: MIT
 *
 * What a test can ask a fake runtime in its own process. */
#ifndef FAKE_CONTROL_H
#define FAKE_CONTROL_H

/* What is alive in this process. Tests look the control functions up with dlsym and compare two states. */
struct fake_counts {
    int allocations, mappings, registrations, streams, events, modules, graphs, execs, objects, handles, reservations;
};
struct fake_control {
    const char *(*call_name)(int call); /* NULL behind the last, "" of the other vendor */
    int (*call_count)(int call);        /* since the start or reset */
    void (*reset)(void);                /* counts to 0, no failures planned */
    void (*fail)(const char *call, int nth, int code);
    void (*set)(const char *name, const char *value); /* an environment variable of above, from now on */
    struct fake_counts (*counts)(void);
    void (*settle)(void);             /* wait until no stream has work */
    int (*current)(void);             /* device of this thread, -1: none */
    void (*make_current)(int device); /* as another library of the program would */
};

#endif
