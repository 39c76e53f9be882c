/* SPDX-License-Identifier: MIT
 *
 * Proves that the gpu backend does what runtime.h promises over a fake runtime of either vendor, and that when each call of the runtime in turn fails at
 * its 1st, 2nd or 3rd use: the error names the call and its code, nothing is leaked, the thread's current device is as it was, nothing hangs. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "fake_test.h"
#include "runtime/runtime.h"

#define CODE 719 /* hipErrorLaunchFailure, CUDA_ERROR_LAUNCH_FAILED: nothing the backend treats specially */
#define BYTES ((size_t)100000)
#define TIMES 3

static const struct fake_control *fake;

/* A peer process with an allocation, and what it has said about it. */
struct peer {
    pid_t pid;
    int failed;
    struct ccl_mem_handle handle;
};
static struct peer *peer; /* shared */

static void serve_peer(int hold)
{
    const struct ccl_runtime_ops *rt;
    void *ptr;
    char byte;
    peer->failed = ccl_runtime_get(&rt) != cclSuccess || rt->mem_alloc(CCL_MEM_FLAG, BYTES, &ptr) != cclSuccess ||
                   rt->fill(ptr, 7, BYTES, NULL) != cclSuccess || rt->stream_sync(NULL) != cclSuccess ||
                   rt->mem_export(ptr, &peer->handle) != cclSuccess;
    __atomic_store_n(&peer->pid, getpid(), __ATOMIC_RELEASE);
    _exit(read(hold, &byte, 1) == 0 ? 0 : 1); /* until the test ends */
}

static void start_peer(void)
{
    int hold[2];
    peer = mmap(NULL, sizeof(*peer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (peer == MAP_FAILED || pipe(hold) != 0) {
        exit(1);
    }
    if (fork() == 0) {
        close(hold[1]);
        serve_peer(hold[0]);
    }
    close(hold[0]);
    fcntl(hold[1], F_SETFD, FD_CLOEXEC);
    while (__atomic_load_n(&peer->pid, __ATOMIC_ACQUIRE) == 0) {
        usleep(1000);
    }
    TEST_EQ(peer->failed, 0);
}

/* What a scenario holds. */
struct scene {
    const struct ccl_runtime_ops *rt;
    const char *step; /* the call that failed */
    void *memory[3], *imported, *own, *page;
    bool registered;
    struct cclStream *stream, *other;
    struct cclEvent *first, *second;
    struct ccl_chain *chain;
    struct cclGraph *graph;
    bool capturing;
    cclComm_t comm;
    void *heap, *plain, *handle;
    int fd;
};

#define STEP(call)                       \
    do {                                 \
        cclResult_t step_rc_ = (call);   \
        if (step_rc_ != cclSuccess) {    \
            s->step = #call;             \
            return step_rc_;             \
        }                                \
    } while (0)

static bool pointer_attribute_fails; /* what memory is cannot be told then */

static cclResult_t use_memory(struct scene *s)
{
    struct ccl_pointer_attr attr;
    struct ccl_mem_handle handle = peer->handle;
    static unsigned char back[64]; /* a copy to it may still run when this returns with an error */
    char path[64];
    for (int type = 0; type < 3; type++) {
        STEP(s->rt->mem_alloc((enum ccl_mem_type)type, BYTES, &s->memory[type]));
        STEP(s->rt->pointer_query((char *)s->memory[type] + 5, &attr));
        TEST_CHECK(attr.base == s->memory[type] && attr.size_bytes >= BYTES && attr.exportable);
        for (size_t i = 0; i < BYTES; i++) {
            if (((unsigned char *)s->memory[type])[i] != 0) {
                TEST_FAIL("byte %zu of memory of type %d is %d", i, type, ((unsigned char *)s->memory[type])[i]);
                break;
            }
        }
    }
    STEP(s->rt->mem_export(s->memory[1], &handle));
    s->fd = handle.fd;
    STEP(s->rt->mem_import(&handle, &s->own));
    TEST_CHECK(s->own == s->memory[1]);
    if (s->fd >= 0) {
        close(s->fd);
    }
    s->fd = -1;
    handle = peer->handle;
    if (handle.fd >= 0) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)peer->pid, handle.fd);
        s->fd = handle.fd = open(path, O_RDWR | O_CLOEXEC);
        TEST_CHECK(handle.fd >= 0);
    }
    STEP(s->rt->mem_import(&handle, &s->imported));
    if (s->fd >= 0) {
        close(s->fd);
    }
    s->fd = -1;
    STEP(s->rt->copy(back, (char *)s->imported + BYTES - sizeof(back), sizeof(back), NULL));
    STEP(s->rt->stream_sync(NULL));
    TEST_EQ(back[0], 7);
    TEST_EQ(back[63], 7);
    void *dev = NULL;
    s->page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    STEP(s->rt->host_register(s->page, 8192, &dev));
    s->registered = true;
    STEP(s->rt->pointer_query(s->page, &attr));
    TEST_CHECK(attr.device == -1 || pointer_attribute_fails);
    STEP(s->rt->pointer_query(back, &attr));
    TEST_CHECK(attr.device == -1 && attr.base == NULL && !attr.exportable);
    return cclSuccess;
}

static cclResult_t use_streams(struct scene *s)
{
    float ms = -1;
    uint64_t id = 7;
    char *data = s->memory[0];
    STEP(s->rt->stream_create(&s->stream));
    STEP(s->rt->stream_create(&s->other));
    STEP(s->rt->event_create(&s->first));
    STEP(s->rt->event_create(&s->second));
    STEP(s->rt->event_record(s->first, s->stream));
    STEP(s->rt->fill(data, 0x5a, 1000, s->stream));
    STEP(s->rt->event_record(s->second, s->stream));
    STEP(s->rt->event_wait(s->other, s->second));
    STEP(s->rt->copy(data + 1000, data, 1000, s->other));
    STEP(s->rt->copy_2d(data + 3000, 20, data, 10, 10, 7, s->other));
    if (fake_is_cuda()) {
        uint64_t map[CCL_TENSOR_MAP_BYTES / 8];
        STEP(s->rt->tensor_map(map, data, 30, 20, 40, 128, 0));
        TEST_CHECK(map[0] == (uint64_t)(uintptr_t)data && map[1] == 20 && map[2] == 30 && map[3] == 80 && map[4] == 64 && map[5] == 128);
    } else {
        TEST_EQ(s->rt->tensor_map(data, data, 30, 20, 40, 128, 0), cclInvalidUsage);
    }
    STEP(s->rt->stream_sync(s->other));
    TEST_EQ(data[1999], 0x5a);
    TEST_EQ(data[3000 + 6 * 20 + 9], 0x5a);
    TEST_EQ(data[3000 + 6 * 20 + 10], 0);
    STEP(s->rt->event_sync(s->second));
    STEP(s->rt->event_elapsed(&ms, s->first, s->second));
    TEST_CHECK(ms >= 0);
    STEP(s->rt->stream_query(s->other));
    STEP(s->rt->capture_query(s->stream, &id));
    TEST_EQ(id, 0);
    return cclSuccess;
}

/* Two fills in one graph, chained with an eager one before and after. */
static cclResult_t use_graphs(struct scene *s)
{
    char *data = s->memory[0];
    uint64_t id = 0;
    STEP(s->rt->chain_create(&s->chain));
    STEP(s->rt->chain_before(s->chain, s->stream));
    STEP(s->rt->fill(data, 1, 100, s->stream));
    STEP(s->rt->chain_after(s->chain, s->stream));
    STEP(s->rt->graph_begin(s->stream, true));
    s->capturing = true;
    STEP(s->rt->capture_query(s->stream, &id));
    TEST_CHECK(id != 0);
    for (int i = 0; i < 2; i++) {
        STEP(s->rt->chain_before(s->chain, s->stream));
        STEP(s->rt->fill(data + 50 * i, 2 + i, 50, s->stream));
        STEP(s->rt->chain_after(s->chain, s->stream));
    }
    s->capturing = false;
    STEP(s->rt->graph_end(s->stream, &s->graph));
    STEP(s->rt->graph_launch(s->graph, s->other));
    STEP(s->rt->chain_before(s->chain, s->stream));
    STEP(s->rt->copy(data + 100, data, 100, s->stream));
    STEP(s->rt->chain_after(s->chain, s->stream));
    STEP(s->rt->stream_sync(s->stream));
    TEST_EQ(data[100], 2);
    TEST_EQ(data[199], 3);
    return cclSuccess;
}

static cclResult_t use_comm(struct scene *s)
{
    cclUniqueId id;
    unsigned char *data, *plain;
    int blocks = 0;
    STEP(s->rt->max_resident(CCL_KERNEL_push_2, 512, 0, &blocks));
    TEST_CHECK(blocks >= 64);
    STEP(cclGetUniqueId(&id));
    STEP(cclCommInitRank(&s->comm, 1, id, 0));
    STEP(cclMemAlloc(s->comm, &s->heap, 4096));
    STEP(cclDeviceMalloc(&s->plain, 4096));
    STEP(cclCommRegister(s->comm, s->plain, 4096, &s->handle));
    data = s->heap, plain = s->plain;
    fake->make_current(0); /* the communicator is on device 1 */
    STEP(s->rt->fill(plain, 9, 4096, s->stream));
    STEP(cclAllGather(plain, data, 4096, cclUint8, s->comm, s->stream));
    STEP(cclBarrier(s->comm, s->stream));
    STEP(s->rt->stream_sync(s->stream));
    TEST_EQ(data[4095], 9);
    return cclSuccess;
}

static cclResult_t play(struct scene *s)
{
    struct ccl_device_props props;
    int count = 0, device = -1;
    STEP(ccl_runtime_get(&s->rt));
    TEST_CHECK(strcmp(s->rt->name, "gpu") == 0);
    STEP(s->rt->device_count(&count));
    TEST_EQ(count, 2);
    STEP(s->rt->device_get(&device));
    STEP(s->rt->device_props(1, &props));
    TEST_CHECK(strstr(props.name, "fake") != NULL && !props.is_host && props.units == 64 && props.uid != 0);
    STEP(use_memory(s));
    STEP(use_streams(s));
    STEP(use_graphs(s));
    return use_comm(s);
}

static int errors_on_the_way_out;

static void quietly(cclResult_t rc)
{
    errors_on_the_way_out += rc != cclSuccess;
}

static void clean_up(struct scene *s)
{
    if (s->rt == NULL) {
        return;
    }
    if (s->capturing) {
        struct cclGraph *graph = NULL;
        if (s->rt->graph_end(s->stream, &graph) == cclSuccess) {
            quietly(s->rt->graph_destroy(graph));
        }
    }
    if (s->stream != NULL) {
        quietly(s->rt->stream_sync(s->stream));
    }
    if (s->handle != NULL) {
        quietly(cclCommDeregister(s->comm, s->handle));
    }
    if (s->heap != NULL) {
        quietly(cclMemFree(s->comm, s->heap));
    }
    quietly(cclDeviceFree(s->plain));
    if (s->comm != NULL) {
        quietly(cclCommDestroy(s->comm));
    }
    quietly(s->rt->graph_destroy(s->graph));
    s->rt->chain_destroy(s->chain);
    quietly(s->rt->event_destroy(s->first));
    quietly(s->rt->event_destroy(s->second));
    quietly(s->rt->stream_destroy(s->stream));
    quietly(s->rt->stream_destroy(s->other));
    if (s->registered) {
        quietly(s->rt->host_unregister(s->page));
    }
    if (s->imported != NULL) {
        quietly(s->rt->mem_close(s->imported));
    }
    if (s->own != NULL) {
        quietly(s->rt->mem_close(s->own));
    }
    for (int i = 0; i < 3; i++) {
        quietly(s->rt->mem_free(s->memory[i]));
    }
    /* Events of chains are destroyed by the next call that may. */
    struct ccl_chain *chain = NULL;
    fake->settle();
    if (s->rt->chain_create(&chain) == cclSuccess) {
        s->rt->chain_destroy(chain);
    }
}

/* More than streams of the two devices and their modules, which stay, is a leak. */
static void check_leaks(const char *failed)
{
    struct fake_counts c = fake->counts();
    const struct {
        const char *what;
        int count, allowed;
    } rows[] = {{"allocations", c.allocations, 0},     {"mappings", c.mappings, 0}, {"registrations", c.registrations, 0},
                {"streams", c.streams, 2},             {"events", c.events, 0},     {"graphs", c.graphs, 0},
                {"executable graphs", c.execs, 0},     {"objects", c.objects, 0},   {"handles", c.handles, 0},
                {"reservations", c.reservations, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].count > rows[i].allowed) {
            TEST_FAIL("%s: %d %s are left", failed, rows[i].count, rows[i].what);
        }
    }
}

struct failure {
    const char *call;
    int nth;
};

/* Calls that give back: what they were to give back is lost when they fail, and the error comes out of the clean-up. */
static bool gives_back(const char *call)
{
    static const char *const words[] = {"Free", "Destroy", "Unregister", "Close", "Release", "Unmap", "EndCapture"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(call, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* Calls whose failure has another way out or loses nothing but a message. */
static bool tolerated(const char *call)
{
    static const char *const words[] = {
        "DeviceGetUuid", "DeviceGetPCIBusId",                                            /* the other one will do */
        "PointerGetAttribute",                                                           /* unknown memory is staged */
        "MemGetAllocationGranularity", "cuMemCreate", "cuMemExportToShareableHandle",    /* then legacy IPC is used */
        "cuMemRelease",                                                                  /* of the probe for that */
        "ThreadExchangeStreamCaptureMode", "hipSetDevice", "cuCtxSetCurrent",            /* on the way back */
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(call, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static int run_one(const void *arg)
{
    const struct failure *failure = arg;
    struct scene scene = {.fd = -1};
    char label[128];
    fake->make_current(1);
    if (failure->call != NULL) {
        pointer_attribute_fails = strstr(failure->call, "PointerGetAttribute") != NULL;
        fake->fail(failure->call, failure->nth, CODE);
    }
    cclResult_t rc = play(&scene);
    char text[512];
    snprintf(text, sizeof(text), "%s", ccl_error_last());
    int now = fake->current();
    snprintf(label, sizeof(label), "%s failing at use %d (%s)", failure->call != NULL ? failure->call : "nothing", failure->nth,
             scene.step != NULL ? scene.step : "not noticed");
    bool switches = failure->call != NULL && (strcmp(failure->call, "hipSetDevice") == 0 || strcmp(failure->call, "cuCtxSetCurrent") == 0);
    if (now != 0 && now != 1 && !switches) {
        TEST_FAIL("%s: the current device became %d", label, now);
    }
    if (scene.step != NULL) {
        char code[32];
        snprintf(code, sizeof(code), "%d", CODE);
        bool named = failure->call != NULL && strstr(text, failure->call) != NULL && strstr(text, code) != NULL;
        /* The peer shares its memory in a way that this process has found it cannot. */
        bool follows = failure->call != NULL && tolerated(failure->call) && strstr(text, "descriptors (vmm)") != NULL;
        if (!named && !follows) {
            TEST_FAIL("%s: the error is %d: %s", label, rc, text);
        }
    }
    fake->make_current(0);
    if (scene.fd >= 0) {
        close(scene.fd);
    }
    fake->settle(); /* where a wait has failed, work may still be using what is freed now */
    clean_up(&scene);
    if (fake->current() != 0 && !switches) {
        TEST_FAIL("%s: the current device became %d while cleaning up", label, fake->current());
    }
    int reached = 0;
    for (int i = 0; failure->call != NULL && fake->call_name(i) != NULL; i++) {
        reached = strcmp(fake->call_name(i), failure->call) == 0 ? fake->call_count(i) : reached;
    }
    bool happened = failure->call != NULL && reached >= failure->nth;
    if (!happened || !gives_back(failure->call)) {
        check_leaks(label);
    }
    if (!happened && errors_on_the_way_out != 0) {
        TEST_FAIL("%s: %d errors while cleaning up: %s", label, errors_on_the_way_out, ccl_error_last());
    }
    bool told = scene.step != NULL || (happened && strstr(ccl_error_last(), failure->call) != NULL);
    if (happened && !told && !tolerated(failure->call)) {
        TEST_FAIL("%s: nobody noticed", label);
    }
    if (getenv("FAKE_TEST_VERBOSE") != NULL) {
        printf("%s: reached %d, rc %d, %s\n", label, reached, rc, scene.step != NULL ? text : "");
    }
    return test_result();
}

int main(int argc, char **argv)
{
    struct failure none = {NULL, 0};
    if (getenv("LD_LIBRARY_PATH") == NULL || getenv("FAKE_GPU") == NULL) {
        TEST_SKIP_NOW("run by CTest, which sets LD_LIBRARY_PATH and FAKE_GPU");
    }
    setenv("CCL_BACKEND", "gpu", 1);
    setenv("FAKE_GPU_DEVICES", "2", 1);
    setenv("CCL_DEBUG", "none", 0);
    start_peer();
    fake = fake_open();
    TEST_EQ(run_case(run_one, &none), 0);
    if (test_failures != 0) {
        return test_result();
    }
    int cases = 1;
    for (int i = 0; fake->call_name(i) != NULL; i++) {
        for (int nth = 1; nth <= TIMES; nth++) {
            struct failure failure = {fake->call_name(i), nth};
            if (failure.call[0] == '\0' || (argc > 1 && strcmp(argv[1], failure.call) != 0)) {
                continue;
            }
            int rc = run_case(run_one, &failure);
            cases++;
            if (rc != 0) {
                fprintf(stderr, "%s failing at use %d: the case ended with %d%s\n", failure.call, nth, rc, rc < 0 ? " (hang or crash)" : "");
                test_failures += rc != 0;
            }
        }
    }
    printf("%d cases\n", cases);
    return test_result();
}
