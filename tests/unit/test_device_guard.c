/* SPDX-License-Identifier: MIT
 *
 * Proves that every public function works for a communicator of another device than the caller's current one, does its work on the
 * communicator's device, and returns with the current device unchanged: also when any member of the runtime fails, at any of its calls. The
 * runtime is a table with three devices whose members check the device, count, fail on demand, and else are the host backend's. */
/* CTEST: labels quick; timeout 120; env CCL_INIT_TIMEOUT=1 */
#include <pthread.h>
#include <string.h>

#include "comm/comm.h"
#include "test.h"
#include "util/log.h"

#define DEVICES 3
#define RANKS 2
#define COUNT 30000 /* bytes a rank */
#define MOST_FAILURES 6 /* calls of a member that fail in turn */

static const int device_of[RANKS] = {2, 1}; /* the caller stays on 0 */

enum member {
#define MEMBERS(X)                                                                                                       \
    X(device_count) X(device_get) X(device_set) X(device_props) X(mem_alloc) X(mem_free) X(host_register)                \
    X(host_unregister) X(pointer_query) X(mem_export) X(mem_import) X(mem_close) X(copy) X(copy_2d) X(fill)              \
    X(stream_create) X(stream_destroy) X(stream_sync) X(stream_query) X(event_create) X(event_destroy) X(event_record)   \
    X(event_wait) X(chain_create) X(chain_before) X(chain_after) X(launch)
#define X(name) M_##name,
    MEMBERS(X)
#undef X
        NUM_MEMBERS
};
static const char *const member_names[NUM_MEMBERS] = {
#define X(name) #name,
    MEMBERS(X)
#undef X
};

static _Thread_local int current_device;
static int failing = -1, fail_at; /* member, and which of its calls from now on */
static int calls[NUM_MEMBERS], device_changes;

/* Where each object was made. Slots are reused only for the same address. */
static struct {
    const void *object;
    int device;
} places[4096];
static int num_places;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Without the device, which could not be made current, objects are released all the same. */
static bool lost(void)
{
    return failing == M_device_get || failing == M_device_set;
}

static void note_place(const void *object)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < num_places && places[i].object != object) {
        i++;
    }
    if (i < (int)(sizeof(places) / sizeof(places[0]))) {
        places[i].object = object;
        places[i].device = current_device;
        num_places += i == num_places;
    }
    pthread_mutex_unlock(&lock);
}

/* NULL and what was made elsewhere (imports give the owner's address back) have no place of their own. */
static void check_place(const void *object, enum member member)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; object != NULL && i < num_places; i++) {
        if (places[i].object == object && places[i].device != current_device && !lost()) {
            TEST_FAIL("%s on device %d of an object of device %d (failing: %s)", member_names[member], current_device,
                      places[i].device, failing >= 0 ? member_names[failing] : "nothing");
        }
    }
    pthread_mutex_unlock(&lock);
}

static bool injected(enum member member)
{
    int number = __atomic_add_fetch(&calls[member], 1, __ATOMIC_RELAXED);
    return failing == (int)member && number == fail_at;
}

/* Work for a communicator never happens on the caller's device. */
static void check_busy(enum member member)
{
    if (current_device == 0 && !lost()) {
        TEST_FAIL("%s on the caller's device (failing: %s)", member_names[member],
                  failing >= 0 ? member_names[failing] : "nothing");
    }
}

#define BEGIN(member)                                                                                              \
    do {                                                                                                           \
        if (injected(M_##member)) {                                                                                \
            return ccl_error_set(cclUnhandledDeviceError, CCL_RT, "injected failure of %s", #member);              \
        }                                                                                                          \
    } while (0)

static cclResult_t fake_device_count(int *count)
{
    BEGIN(device_count);
    *count = DEVICES;
    return cclSuccess;
}
static cclResult_t fake_device_get(int *device)
{
    BEGIN(device_get);
    *device = current_device;
    return cclSuccess;
}
static cclResult_t fake_device_set(int device)
{
    if (device != 0) { /* the way back is what is tested, it never fails */
        BEGIN(device_set);
    }
    __atomic_add_fetch(&device_changes, 1, __ATOMIC_RELAXED);
    current_device = device;
    return cclSuccess;
}
static cclResult_t fake_device_props(int device, struct ccl_device_props *props)
{
    BEGIN(device_props);
    CCL_TRY(ccl_runtime_host.device_props(0, props));
    props->is_host = false;
    props->uid += (uint64_t)device;
    return cclSuccess;
}
static cclResult_t fake_mem_alloc(enum ccl_mem_type type, size_t bytes, void **ptr)
{
    BEGIN(mem_alloc);
    check_busy(M_mem_alloc);
    CCL_TRY(ccl_runtime_host.mem_alloc(type, bytes, ptr));
    note_place(*ptr);
    return cclSuccess;
}
static cclResult_t fake_mem_free(void *ptr)
{
    BEGIN(mem_free);
    check_place(ptr, M_mem_free);
    return ccl_runtime_host.mem_free(ptr);
}
static cclResult_t fake_host_register(void *ptr, size_t bytes, void **dev)
{
    BEGIN(host_register);
    check_busy(M_host_register);
    return ccl_runtime_host.host_register(ptr, bytes, dev);
}
static cclResult_t fake_host_unregister(void *ptr)
{
    BEGIN(host_unregister);
    check_busy(M_host_unregister);
    return ccl_runtime_host.host_unregister(ptr);
}
static cclResult_t fake_pointer_query(const void *ptr, struct ccl_pointer_attr *attr)
{
    BEGIN(pointer_query);
    cclResult_t rc = ccl_runtime_host.pointer_query(ptr, attr);
    attr->device = device_of[0]; /* the buffers that this test registers are rank 0's */
    return rc;
}
static cclResult_t fake_mem_export(void *base, struct ccl_mem_handle *handle)
{
    BEGIN(mem_export);
    check_place(base, M_mem_export);
    return ccl_runtime_host.mem_export(base, handle);
}
static cclResult_t fake_mem_import(const struct ccl_mem_handle *handle, void **base)
{
    BEGIN(mem_import);
    check_busy(M_mem_import);
    return ccl_runtime_host.mem_import(handle, base);
}
static cclResult_t fake_mem_close(void *base)
{
    BEGIN(mem_close);
    check_busy(M_mem_close);
    return ccl_runtime_host.mem_close(base);
}
static cclResult_t fake_copy(void *dst, const void *src, size_t bytes, struct cclStream *stream)
{
    BEGIN(copy);
    check_busy(M_copy);
    check_place(stream, M_copy);
    return ccl_runtime_host.copy(dst, src, bytes, stream);
}
static cclResult_t fake_copy_2d(void *dst, size_t ld_dst, const void *src, size_t ld_src, size_t row_bytes, size_t rows,
                                struct cclStream *stream)
{
    BEGIN(copy_2d);
    check_busy(M_copy_2d);
    check_place(stream, M_copy_2d);
    return ccl_runtime_host.copy_2d(dst, ld_dst, src, ld_src, row_bytes, rows, stream);
}
static cclResult_t fake_fill(void *dst, int byte, size_t bytes, struct cclStream *stream)
{
    BEGIN(fill);
    check_place(stream, M_fill);
    return ccl_runtime_host.fill(dst, byte, bytes, stream);
}
static cclResult_t fake_stream_create(struct cclStream **stream)
{
    BEGIN(stream_create);
    check_busy(M_stream_create);
    CCL_TRY(ccl_runtime_host.stream_create(stream));
    note_place(*stream);
    return cclSuccess;
}
static cclResult_t fake_stream_destroy(struct cclStream *stream)
{
    BEGIN(stream_destroy);
    check_place(stream, M_stream_destroy);
    return ccl_runtime_host.stream_destroy(stream);
}
static cclResult_t fake_stream_sync(struct cclStream *stream)
{
    check_place(stream, M_stream_sync);
    CCL_TRY(ccl_runtime_host.stream_sync(stream)); /* a GPU that reports an error works no more */
    BEGIN(stream_sync);
    return cclSuccess;
}
static cclResult_t fake_stream_query(struct cclStream *stream)
{
    BEGIN(stream_query);
    check_place(stream, M_stream_query);
    return ccl_runtime_host.stream_query(stream);
}
static cclResult_t fake_event_create(struct cclEvent **event)
{
    BEGIN(event_create);
    check_busy(M_event_create);
    CCL_TRY(ccl_runtime_host.event_create(event));
    note_place(*event);
    return cclSuccess;
}
static cclResult_t fake_event_destroy(struct cclEvent *event)
{
    BEGIN(event_destroy);
    check_place(event, M_event_destroy);
    return ccl_runtime_host.event_destroy(event);
}
static cclResult_t fake_event_record(struct cclEvent *event, struct cclStream *stream)
{
    BEGIN(event_record);
    check_place(event, M_event_record);
    check_place(stream, M_event_record);
    return ccl_runtime_host.event_record(event, stream);
}
static cclResult_t fake_event_wait(struct cclStream *stream, struct cclEvent *event)
{
    BEGIN(event_wait);
    check_place(stream, M_event_wait);
    return ccl_runtime_host.event_wait(stream, event);
}
static cclResult_t fake_chain_create(struct ccl_chain **chain)
{
    BEGIN(chain_create);
    check_busy(M_chain_create);
    CCL_TRY(ccl_runtime_host.chain_create(chain));
    note_place(*chain);
    return cclSuccess;
}
static cclResult_t fake_chain_before(struct ccl_chain *chain, struct cclStream *stream)
{
    BEGIN(chain_before);
    check_place(chain, M_chain_before);
    return ccl_runtime_host.chain_before(chain, stream);
}
static cclResult_t fake_chain_after(struct ccl_chain *chain, struct cclStream *stream)
{
    BEGIN(chain_after);
    check_place(chain, M_chain_after);
    return ccl_runtime_host.chain_after(chain, stream);
}
static cclResult_t fake_launch(struct cclStream *stream, const struct ccl_launch *l)
{
    struct ccl_launch host = *l;
    BEGIN(launch);
    check_place(stream, M_launch);
    TEST_EQ(l->device, current_device);
    host.threads = 1;
    return ccl_runtime_host.launch(stream, &host);
}

static struct ccl_runtime_ops fake;

/* In place of the one in src/runtime/runtime.c. */
cclResult_t ccl_runtime_get(const struct ccl_runtime_ops **ops)
{
    *ops = &fake;
    return cclSuccess;
}

/* ---- the life of a world, all from one thread whose device is 0 ---- */

static cclComm_t comms[RANKS], children[RANKS];
static cclStream_t streams[RANKS];
static void *send[RANKS], *recv[RANKS], *handle;

/* One public call: the device must be what it was. Errors end the story, which a failing member may. */
#define STEP(call)                                                                                           \
    do {                                                                                                     \
        cclResult_t step_rc_ = (call);                                                                       \
        if (current_device != 0) {                                                                           \
            TEST_FAIL("%s left device %d current (failing: %s)", #call, current_device,                      \
                      failing >= 0 ? member_names[failing] : "nothing");                                     \
            current_device = 0;                                                                              \
        }                                                                                                    \
        if (step_rc_ != cclSuccess) {                                                                        \
            return step_rc_;                                                                                 \
        }                                                                                                    \
    } while (0)

static cclResult_t gather_all(int variant, bool own_streams)
{
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    config.variant = variant;
    STEP(cclGroupStart());
    for (int i = 0; i < RANKS; i++) {
        cclResult_t rc = cclAllGather2D(send[i], COUNT / 10, recv[i], COUNT / 10 + 2, 8, COUNT / 10, cclUint8, &config, comms[i],
                                        own_streams ? streams[i] : NULL);
        (void)rc; /* is End's too */
        TEST_EQ(current_device, 0);
    }
    STEP(cclGroupEnd());
    for (int i = 0; i < RANKS; i++) {
        current_device = device_of[i]; /* a user's own business */
        cclResult_t rc = cclStreamSynchronize(own_streams ? streams[i] : NULL);
        TEST_EQ(current_device, device_of[i]);
        current_device = 0;
        if (rc != cclSuccess) {
            return rc;
        }
    }
    return cclSuccess;
}

static cclResult_t in_group(cclResult_t (*one)(int rank))
{
    STEP(cclGroupStart());
    for (int i = 0; i < RANKS; i++) {
        (void)one(i);
        TEST_EQ(current_device, 0);
    }
    STEP(cclGroupEnd());
    return cclSuccess;
}

static cclResult_t alloc_send(int i) { return cclMemAlloc(comms[i], &send[i], COUNT); }
static cclResult_t alloc_recv(int i) { return cclMemAlloc(comms[i], &recv[i], RANKS * COUNT); }
static cclResult_t free_recv(int i) { return cclMemFree(comms[i], recv[i]); }
static cclResult_t split(int i) { return cclCommSplit(comms[i], 0, i, &children[i], NULL); }

static cclResult_t live(void)
{
    static const int variants[] = {cclVariantLL, cclVariantStaged, cclVariantDirect, cclVariantCopy};
    STEP(cclCommInitAll(comms, RANKS, device_of));
    for (int i = 0; i < RANKS; i++) {
        current_device = device_of[i];
        cclResult_t rc = cclStreamCreate(&streams[i]);
        current_device = 0;
        if (rc != cclSuccess) {
            return rc;
        }
    }
    CCL_TRY(in_group(alloc_send));
    CCL_TRY(in_group(alloc_recv));
    for (size_t v = 0; v < CCL_ARRAY_LEN(variants); v++) {
        CCL_TRY(gather_all(variants[v], true));
    }
    STEP(cclCommRegister(comms[0], send[0], COUNT, &handle));
    STEP(cclCommDeregister(comms[0], handle));
    CCL_TRY(in_group(split));
    for (int i = 0; i < RANKS; i++) {
        int device = -1;
        STEP(cclCommDevice(children[i], &device));
        TEST_EQ(device, device_of[i]); /* the parent's */
        cclComm_t child = children[i];
        children[i] = NULL;
        STEP(cclCommDestroy(child));
    }
    CCL_TRY(in_group(free_recv));
    STEP(cclCommFinalize(comms[0]));
    return cclSuccess;
}

/* Nothing fails here. */
static void end(void)
{
    failing = -1;
    for (int i = 0; i < RANKS; i++) {
        TEST_EQ(cclCommAbort(children[i]), cclSuccess);
        TEST_EQ(current_device, 0);
        TEST_EQ(i == 0 ? cclCommAbort(comms[i]) : cclCommDestroy(comms[i]), cclSuccess);
        TEST_EQ(current_device, 0);
        children[i] = comms[i] = NULL;
    }
    for (int i = 0; i < RANKS; i++) {
        current_device = device_of[i];
        if (streams[i] != NULL) {
            (void)cclStreamSynchronize(streams[i]);
            TEST_EQ(cclStreamDestroy(streams[i]), cclSuccess);
        }
        streams[i] = NULL;
        current_device = 0;
    }
}

/* More ranks of a process on one device than it has hardware queues. */
static void too_many_ranks(void)
{
    enum { MOST = 9 };
    cclComm_t many[MOST];
    int devices[MOST];
    for (int i = 0; i < MOST; i++) {
        devices[i] = 2;
    }
    TEST_EQ(cclCommInitAll(many, MOST, devices), cclInvalidUsage);
    TEST_CHECK(strstr(cclGetLastError(NULL), "9 ranks") != NULL && strstr(cclGetLastError(NULL), "CUDA_DEVICE_MAX_CONNECTIONS") != NULL);
    TEST_EQ(current_device, 0);
    for (int i = 0; i < MOST; i++) {
        TEST_CHECK(many[i] == NULL);
    }
    TEST_EQ(cclCommInitAll(many, MOST - 1, devices), cclSuccess);
    for (int i = 0; i < MOST - 1; i++) {
        TEST_EQ(cclCommDestroy(many[i]), cclSuccess);
    }
    TEST_EQ(current_device, 0);
}

int main(void)
{
    int usual[NUM_MEMBERS];
    fake = ccl_runtime_host;
    fake.name = "fake";
#define X(name) fake.name = fake_##name;
    MEMBERS(X)
#undef X
    TEST_EQ(ccl_runtime_host.init(), cclSuccess);
    TEST_EQ(live(), cclSuccess);
    end();
    memcpy(usual, calls, sizeof(usual));
    TEST_CHECK(device_changes > 2 * RANKS);
    for (int m = 0; m < NUM_MEMBERS; m++) {
        for (int k = 1; k <= usual[m] && k <= MOST_FAILURES; k++) {
            memset(calls, 0, sizeof(calls));
            fail_at = usual[m] <= MOST_FAILURES ? k : 1 + (k - 1) * (usual[m] - 1) / (MOST_FAILURES - 1);
            failing = m;
            (void)live(); /* some failures are survived: a registration that stays staged, memory that is kept */
            end();
        }
    }
    failing = -1;
    too_many_ranks();
    return test_result();
}
