/* SPDX-License-Identifier: MIT
 *
 * Proves that peers that are dead, have left, or are stopped hold nobody up in a deregistration longer than the
 * limit, and that an id they may still map is not used again before they have answered. */
/* CTEST: labels tsan */
#include "heap_world.h"

#include <signal.h>

#include "heap/window.h"

/* One rank is done early and closes; the others deregister without waiting for it, but the id it may still map is
 * not used again. */
static void early_leaver(struct world *world)
{
    struct team team = team_open(world, MIB);
    char *mine = device_memory(REGION);
    void *handle;
    struct ccl_window_hit hit = {0}, again = {0};
    TEST_OK(ccl_heap_register(team.heap, mine, REGION, &handle));
    await_mapped(&team, mine, team.n - 1);
    barrier(&team);
    if (team.rank == 0) {
        team_close(&team, true);
        TEST_OK(ccl_bootstrap_barrier(world->boot));
        TEST_OK(ccl_bootstrap_barrier(world->boot));
    } else {
        TEST_OK(ccl_bootstrap_barrier(world->boot));
        await_mapped(&team, mine, team.n - 2); /* the goodbye has come */
        uint64_t begin = ccl_now_ns();
        TEST_CHECK(ccl_heap_find(team.heap, mine, 1, &hit));
        TEST_OK(ccl_heap_deregister(team.heap, handle));
        TEST_OK(ccl_heap_register(team.heap, mine, REGION, &handle)); /* the leaver is not told */
        TEST_CHECK(ccl_heap_find(team.heap, mine, 1, &again) && again.id != hit.id);
        TEST_OK(ccl_heap_deregister(team.heap, handle));
        TEST_CHECK(since_ms(begin) < 1000);
        TEST_OK(ccl_bootstrap_barrier(world->boot));
        team_close(&team, true);
    }
    TEST_OK(ccl_runtime_host.mem_free(mine));
    TEST_OK(ccl_bootstrap_barrier(world->boot));
}

/* Until the process of a rank is stopped by a signal; a rank that only meant to stop would still answer. */
static void await_stopped(const struct world *world, int rank)
{
    char path[64], state = '?';
    uint64_t end = ccl_now_ns() + UINT64_C(10000000000);
    snprintf(path, sizeof(path), "/proc/%d/stat", atomic_load(&world->shared->pids[rank]));
    while (state != 'T' && ccl_now_ns() < end) {
        FILE *file = fopen(path, "r");
        if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
            state = '?';
        }
        if (file != NULL) {
            fclose(file);
        }
        usleep(1000);
    }
    TEST_EQ(state, 'T');
}

/* The last rank is killed while two ranks have memory registered with it; one waits for it in deregister. */
static void killed(struct world *world)
{
    struct team team = team_open(world, MIB);
    char *mine = device_memory(REGION);
    void *handle;
    struct ccl_window_hit hit = {0}, again = {0};
    TEST_OK(ccl_heap_register(team.heap, mine, REGION, &handle));
    await_mapped(&team, mine, team.n - 1);
    TEST_CHECK(ccl_heap_find(team.heap, mine, REGION, &hit));
    barrier(&team);
    if (team.rank == world->victim) {
        kill(getpid(), SIGSTOP); /* so that the deregistrations below wait */
        pause();
    }
    await_stopped(world, world->victim);
    atomic_fetch_add(&world->shared->done, 1);
    if (team.rank == 0) {
        while (atomic_load(&world->shared->done) < 2) {
            usleep(1000);
        }
        pid_t killer = fork();
        if (killer == 0) {
            usleep(400000);
            kill(atomic_load(&world->shared->pids[world->victim]), SIGKILL);
            _exit(0);
        }
    }
    uint64_t begin = ccl_now_ns();
    TEST_OK(ccl_heap_deregister(team.heap, handle));
    TEST_CHECK(since_ms(begin) > 100 && since_ms(begin) < 1900);
    TEST_OK(ccl_heap_register(team.heap, mine, REGION, &handle));
    TEST_CHECK(ccl_heap_find(team.heap, mine, REGION, &again));
    TEST_EQ(again.id, hit.id); /* a dead peer counts as acknowledged */
    await_mapped(&team, mine, team.n - 2);
    atomic_fetch_add(&world->shared->done, 1);
    while (atomic_load(&world->shared->done) < 4) { /* the other survivor still needs answers */
        usleep(1000);
    }
    team_close(&team, true);
    TEST_OK(ccl_runtime_host.mem_free(mine));
}

/* The last rank is stopped for longer than the limit. */
static void stopped(struct world *world)
{
    struct team team = team_open(world, MIB);
    char *mine = device_memory(REGION), *more = device_memory(REGION);
    void *handle, *second;
    int last = team.n - 1;
    struct ccl_window_hit hit = {0}, again = {0};
    TEST_OK(ccl_heap_register(team.heap, mine, REGION, &handle));
    TEST_OK(ccl_heap_register(team.heap, more, REGION, &second));
    await_mapped(&team, mine, last);
    await_mapped(&team, more, last);
    TEST_CHECK(ccl_heap_find(team.heap, mine, REGION, &hit));
    barrier(&team);
    if (team.rank == last) {
        kill(getpid(), SIGSTOP);
    } else {
        pid_t pid = atomic_load(&world->shared->pids[last]);
        await_stopped(world, last);
        uint64_t begin = ccl_now_ns();
        TEST_OK(ccl_heap_deregister(team.heap, handle));
        TEST_CHECK(since_ms(begin) > 1900 && since_ms(begin) < 4000);
        TEST_CHECK(!ccl_heap_find(team.heap, mine, 1, &again));
        begin = ccl_now_ns();
        TEST_OK(ccl_heap_deregister(team.heap, second)); /* waited for once only */
        TEST_CHECK(since_ms(begin) < 500);
        TEST_OK(ccl_heap_register(team.heap, mine, REGION, &handle));
        TEST_CHECK(ccl_heap_find(team.heap, mine, REGION, &again) &&
                   again.id != hit.id); /* it may still map the old one */
        usleep(100000);
        kill(pid, SIGCONT);
        await_mapped(&team, mine, last); /* so its earlier answers have come as well */
        TEST_OK(ccl_heap_register(team.heap, more, REGION, &second));
        TEST_CHECK(ccl_heap_find(team.heap, more, REGION, &again));
        TEST_EQ(again.id, hit.id);
        for (int i = 0; i < 20; i++) { /* it is waited for again, so the id is free at once */
            TEST_OK(ccl_heap_deregister(team.heap, second));
            TEST_OK(ccl_heap_register(team.heap, more, REGION, &second));
            TEST_CHECK(ccl_heap_find(team.heap, more, REGION, &again) && again.id == hit.id);
        }
        TEST_OK(ccl_heap_deregister(team.heap, handle));
        TEST_OK(ccl_heap_deregister(team.heap, second));
    }
    barrier(&team);
    team_close(&team, true);
    TEST_OK(ccl_runtime_host.mem_free(mine));
    TEST_OK(ccl_runtime_host.mem_free(more));
}

struct goodbye {
    struct team *team;
    int peer;
};

static void *say_goodbye(void *arg)
{
    struct goodbye *goodbye = arg;
    struct ccl_heap_msg msg = {.type = CCL_MSG_LEAVE};
    usleep(300000);
    ccl_heap_on_message(goodbye->team->heap, goodbye->peer, &msg, sizeof(msg), -1);
    return NULL;
}

/* The last rank leaves, here by a message put in by hand, while its answer is waited for. */
static void leaves_meanwhile(struct world *world)
{
    struct team team = team_open(world, MIB);
    char *mine = device_memory(REGION);
    void *handle;
    int last = team.n - 1;
    TEST_OK(ccl_heap_register(team.heap, mine, REGION, &handle));
    await_mapped(&team, mine, last);
    barrier(&team);
    if (team.rank == last) {
        kill(getpid(), SIGSTOP);
    } else {
        struct goodbye goodbye = {&team, last};
        pthread_t thread;
        await_stopped(world, last);
        uint64_t begin = ccl_now_ns();
        TEST_EQ(pthread_create(&thread, NULL, say_goodbye, &goodbye), 0);
        TEST_OK(ccl_heap_deregister(team.heap, handle));
        TEST_CHECK(since_ms(begin) > 200 && since_ms(begin) < 1500);
        pthread_join(thread, NULL);
        kill(atomic_load(&world->shared->pids[last]), SIGCONT);
    }
    barrier(&team);
    team_close(&team, true);
    TEST_OK(ccl_runtime_host.mem_free(mine));
}

int main(void)
{
    run_processes("early leaver", 3, early_leaver);
    run_threads("early leaver", 3, early_leaver);
    run_world("killed", (struct world){.fn = killed, .size = 3, .processes = true, .victim = 2});
    run_processes("stopped", 2, stopped);
    run_processes("leaves meanwhile", 2, leaves_meanwhile);
    return test_result();
}
