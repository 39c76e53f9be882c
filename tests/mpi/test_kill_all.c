/* SPDX-License-Identifier: MIT
 *
 * Proves that kill -9 of all ranks in full work leaves nothing behind: no file in /dev/shm, /tmp or /run, no
 * socket, no process. */
/* CTEST: ranks 1; labels mpi host quick; timeout 60 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forked.h"

#define COUNT 200000

/* Names of unix sockets (by inode) and of files in memory or on disk that the process holds. */
struct holdings {
    unsigned long inodes[256];
    int num_inodes;
    char paths[256][512];
    int num_paths;
};

static bool suspicious(const char *path)
{
    /* what a GPU's driver and its MPS daemon keep is theirs */
    if (strstr(path, "/cuda.shm.") != NULL || strstr(path, "nvidia") != NULL || strstr(path, "mps") != NULL) {
        return false;
    }
    return strstr(path, "(deleted)") == NULL && (strncmp(path, "/dev/shm/", 9) == 0 || strncmp(path, "/tmp/", 5) == 0 ||
                                                 strncmp(path, "/run/", 5) == 0 || strncmp(path, "/var/tmp/", 9) == 0);
}

static void note_path(struct holdings *h, const char *path)
{
    if (suspicious(path) && h->num_paths < 256) {
        snprintf(h->paths[h->num_paths++], sizeof(h->paths[0]), "%s", path);
    }
}

static void collect(pid_t pid, struct holdings *h)
{
    char name[64], line[512];
    struct dirent *entry;
    FILE *maps;
    DIR *dir;

    snprintf(name, sizeof(name), "/proc/%d/fd", (int)pid);
    dir = opendir(name);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        ssize_t length = readlinkat(dirfd(dir), entry->d_name, line, sizeof(line) - 1);
        unsigned long inode;

        if (length > 0) {
            line[length] = '\0';
            note_path(h, line);
            if (sscanf(line, "socket:[%lu]", &inode) == 1 && h->num_inodes < 256) {
                h->inodes[h->num_inodes++] = inode;
            }
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
    maps = fopen(name, "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        char *path = strchr(line, '/');

        line[strcspn(line, "\n")] = '\0';
        if (path != NULL && strstr(path, ".so") == NULL && access(path, X_OK) != 0) {
            note_path(h, path);
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
}

static int sockets_alive(const struct holdings *h)
{
    FILE *table = fopen("/proc/self/net/unix", "r");
    char line[512];
    int alive = 0;

    while (table != NULL && fgets(line, sizeof(line), table) != NULL) {
        unsigned long inode;
        char path[256] = "";

        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu %255s", &inode, path) >= 1) {
            for (int i = 0; i < h->num_inodes; i++) {
                alive += h->inodes[i] == inode ? 1 : 0;
            }
        }
    }
    if (table != NULL) {
        fclose(table);
    }
    return alive;
}

static int count_names(const char *folder, const char *part)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int number = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        number += strstr(entry->d_name, part) != NULL ? 1 : 0;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return number;
}

static int body_busy(int unused)
{
    cclComm_t comm = tf_join(0, false), child = NULL;
    cclStream_t stream = tm_stream_create();
    void *heap = NULL, *plain = NULL, *handle = NULL;

    (void)unused;
    TM_MUST(cclMemAlloc(comm, &heap, (size_t)COUNT * (size_t)tf_n));
    TM_MUST(cclDeviceMalloc(&plain, COUNT));
    TM_MUST(cclCommRegister(comm, plain, COUNT, &handle));
    TM_MUST(cclCommSplit(comm, tf_me % 2, 0, &child, NULL));
    for (unsigned i = 0;; i++) {
        if (cclAllGather(plain, heap, i % 2 == 0 ? COUNT : 40, cclUint8, comm, stream) != cclSuccess ||
            cclStreamSynchronize(stream) != cclSuccess) {
            tm_sleep_ms(1); /* peers are dead already, the parent is about to kill me too */
        }
        if (i == 10) {
            tf_reach(5);
        }
    }
    return 0;
}

/* Kill all ranks at once in full work: no file, no socket, no process of theirs is left. */
static void nothing_left(void)
{
    struct holdings *h = calloc(1, sizeof(*h));
    int before = count_names("/dev/shm", "ccl"), status;
    pid_t pids[TF_MOST_RANKS];
    double end;

    tf_new_world(4, -1);
    tm_at("kill -9 of all ranks");
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* processes the ranks started would come to us */
    for (int r = 0; r < tf_n; r++) {
        pids[r] = tf_start(r, body_busy, 0);
    }
    for (int r = 0; r < tf_n; r++) {
        tf_wait_step(r, 5);
    }
    for (int r = 0; r < tf_n; r++) {
        collect(pids[r], h);
    }
    TEST_CHECK(h->num_inodes > 0); /* else this test looks at the wrong place */
    for (int i = 0; i < h->num_paths; i++) {
        TEST_FAIL("a rank holds a file that a kill would leave behind: %s", h->paths[i]);
    }
    for (int r = 0; r < tf_n; r++) {
        kill(pids[r], SIGKILL);
    }
    for (int r = 0; r < tf_n; r++) {
        waitpid(pids[r], &status, 0);
    }
    TEST_EQ(waitpid(-1, &status, WNOHANG), -1); /* no process of theirs lives */
    TEST_EQ(errno, ECHILD);
    end = tm_now() + 1.0;
    while (sockets_alive(h) > 0 && tm_now() < end) {
        tm_sleep_ms(5); /* the kernel closes asynchronously */
    }
    TEST_EQ(sockets_alive(h), 0);
    TEST_CHECK(count_names("/dev/shm", "ccl") <= before);
    free(h);
}

int main(int argc, char **argv)
{
    tm_init_plain(argc, argv, &test_failures, &test_rank);
    tf_init();
    nothing_left();
    return tm_finish();
}
