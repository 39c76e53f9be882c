/* SPDX-License-Identifier: MIT
 *
 * Proves on a machine with a GPU that the table of runtime calls is complete, that memory allocated by one process is the same memory in
 * another one by each way of sharing (and lives on there after a counted owner has freed it), that a world of one rank runs its kernels, and that
 * no call changes the thread's current device. Each way has processes of its own, forked before the GPU is touched. */
/* CTEST: labels quick; timeout 120 */
#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ccl/ccl.h"
#include "runtime/gpu_memory.h"
#include "runtime/runtime_select.h"
#include "test.h"

#define BYTES ((size_t)3 << 20)
#define OK(call) TEST_EQ(call, cclSuccess)

static const struct ccl_runtime_ops *const ops = &ccl_runtime_gpu;

static const char *const kernel_names[] = {
#define CCL_K(name, args) #name,
    CCL_KERNEL_LIST(CCL_K)
    CCL_CUDA_KERNEL_LIST(CCL_K)
#undef CCL_K
};

static void print_missing(void)
{
    void *library = dlopen(ccl_gpu.library, RTLD_NOW);
    bool amd = ccl_gpu.vendor == CCL_GPU_AMD;
    const char *const names[][2] = {
#define CCL_GPU(field, hip, cuda, params) {hip, cuda},
#define CCL_HIP(field, hip, params) {hip, NULL},
#define CCL_CUDA(field, cuda, params) {NULL, cuda},
#include "runtime/gpu_api.def"
    };
    int missing = 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(names); i++) {
        const char *name = names[i][amd ? 0 : 1];
        if (name != NULL && dlsym(library, name) == NULL) {
            printf("missing in %s: %s\n", ccl_gpu.library, name);
            missing++;
        }
    }
    printf("%s: %d of %zu calls missing\n", ccl_gpu.library, missing, CCL_ARRAY_LEN(names));
    dlclose(library);
}

static void print_device(int device)
{
    struct ccl_device_props p;
    int blocks;
    OK(ops->device_props(device, &p));
    printf("device %d: %s, %s, uid %016llx, %d units, %d blocks, flags %u bytes apart, bulk copies %d\n", device, p.name, p.arch,
           (unsigned long long)p.uid, p.units, p.max_blocks, p.flag_stride, p.bulk_copy);
    TEST_CHECK(p.uid != 0 && p.units > 0 && p.max_blocks >= p.units && !p.is_host);
    OK(ops->device_set(device));
    for (int k = 0; k < (p.ll_words ? CCL_FIRST_MATMUL_KERNEL : CCL_NUM_COMMON_KERNELS); k++) {
        struct ccl_gpu_function f = {NULL, 0};
        OK(ccl_gpu_find_kernel(device, (enum ccl_kernel)k, false, &f));
        OK(ops->max_resident((enum ccl_kernel)k, 512, 0, &blocks));
        printf("  %-10s %4d blocks of 512 threads at once, at most %u bytes of dynamic shared memory\n", kernel_names[k], blocks,
               f.max_shared);
    }
}

/* NVIDIA: a thread without a context has none after any call. */
static void check_no_context(const char *where)
{
    void *context = NULL;
    if (ccl_gpu.vendor == CCL_GPU_NVIDIA) {
        TEST_EQ(ccl_gpu.ctx_get(&context), 0);
        if (context != NULL) {
            TEST_FAIL("%s has left a context behind", where);
        }
    }
}

static void sync_copy(void *dst, const void *src, size_t bytes)
{
    struct cclStream *stream;
    OK(ops->stream_create(&stream));
    OK(ops->copy(dst, src, bytes, stream));
    OK(ops->stream_sync(stream));
    OK(ops->stream_destroy(stream));
}

static void expect_bytes(const void *dev, int want, const char *what)
{
    static unsigned char host[BYTES];
    memset(host, 0xee, BYTES);
    sync_copy(host, dev, BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        if (host[i] != want) {
            TEST_FAIL("%s: byte %zu is %d, want %d", what, i, host[i], want);
            return;
        }
    }
}

static void set_bytes(void *dev, int value)
{
    struct cclStream *stream;
    OK(ops->stream_create(&stream));
    OK(ops->fill(dev, value, BYTES, stream));
    OK(ops->stream_sync(stream));
    OK(ops->stream_destroy(stream));
}

/* One byte in each direction keeps the two processes in step. */
static void tell(int sock)
{
    TEST_EQ(write(sock, "x", 1), 1);
}

static bool hear(int sock)
{
    char c;
    return read(sock, &c, 1) == 1;
}

static int importer(int sock)
{
    struct ccl_mem_handle h;
    void *first = NULL, *again = NULL;
    int fd = -1;
    if (recv(sock, &h, sizeof(h), MSG_WAITALL) != (ssize_t)sizeof(h)) {
        return 0; /* no GPU */
    }
    if (h.fd >= 0) {
        char c;
        struct iovec iov = {&c, 1};
        union {
            struct cmsghdr align;
            char space[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        TEST_EQ(recvmsg(sock, &msg, 0), 1);
        TEST_CHECK(CMSG_FIRSTHDR(&msg) != NULL);
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
    }
    h.fd = fd;
    OK(ops->init());
    OK(ops->mem_import(&h, &first));
    OK(ops->mem_import(&h, &again));
    TEST_CHECK(first == again && first != NULL);
    check_no_context("an import");
    expect_bytes(first, 5, "imported memory");
    set_bytes(first, 6);
    OK(ops->mem_close(again));
    tell(sock);
    TEST_CHECK(hear(sock)); /* the owner has seen 6, and freed it if that is allowed */
    if (h.counted) {
        expect_bytes(first, 6, "imported memory after its owner freed it");
    }
    OK(ops->mem_close(first));
    TEST_EQ(ops->mem_close(first), cclInvalidArgument);
    check_no_context("a close");
    tell(sock);
    return test_result();
}

static void send_handle(int sock, const struct ccl_mem_handle *h)
{
    char c = 0;
    struct iovec iov = {&c, 1};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    TEST_EQ(write(sock, h, sizeof(*h)), sizeof(*h));
    if (h->fd >= 0) {
        struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);
        *cm = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(cm), &h->fd, sizeof(int));
        TEST_EQ(sendmsg(sock, &msg, 0), 1);
        close(h->fd);
    }
}

static void share_with(int sock, enum ccl_mem_type type)
{
    struct ccl_mem_handle h;
    struct ccl_pointer_attr attr;
    void *ptr = NULL, *own = NULL;
    OK(ops->mem_alloc(type, BYTES, &ptr));
    check_no_context("an allocation");
    expect_bytes(ptr, 0, "new memory");
    set_bytes(ptr, 5);
    OK(ops->pointer_query((char *)ptr + 4097, &attr));
    TEST_CHECK(attr.base == ptr && attr.size_bytes >= BYTES && attr.device == 0 && attr.exportable);
    OK(ops->mem_export(ptr, &h));
    printf("shared as kind %u, %llu bytes, fd %d, counted %d\n", h.kind, (unsigned long long)h.size_bytes, h.fd, h.counted);
    OK(ops->mem_import(&h, &own)); /* in the owner: the same memory */
    TEST_CHECK(own == ptr);
    OK(ops->mem_close(own));
    send_handle(sock, &h);
    TEST_CHECK(hear(sock));
    expect_bytes(ptr, 6, "memory that a peer wrote");
    if (h.counted) {
        OK(ops->mem_free(ptr));
    }
    tell(sock);
    TEST_CHECK(hear(sock));
    if (!h.counted) {
        OK(ops->mem_free(ptr));
    }
    TEST_EQ(ops->mem_free(ptr), cclInvalidArgument);
    check_no_context("freeing");
}

static void check_pointers(void)
{
    static char word[64];
    struct ccl_pointer_attr attr;
    void *dev = NULL;
    OK(ops->pointer_query(word, &attr));
    TEST_CHECK(attr.device == -1 && !attr.exportable);
    OK(ops->pointer_query(NULL, &attr));
    TEST_EQ(attr.device, -1);
    if (ccl_gpu.vendor == CCL_GPU_NVIDIA) {
        struct ccl_gpu_guard guard;
        OK(ccl_gpu_enter(0, &guard));
        TEST_EQ(ccl_gpu.mem_alloc(&dev, BYTES), 0);
        ccl_gpu_leave(&guard);
        OK(ops->pointer_query((char *)dev + 5, &attr));
        TEST_CHECK(attr.base == dev && attr.size_bytes == BYTES && attr.device == 0 && attr.exportable);
        OK(ccl_gpu_enter(0, &guard));
        TEST_EQ(ccl_gpu.mem_free(dev), 0);
        ccl_gpu_leave(&guard);
    }
}

/* A world of one rank: the control memory, the page and the launches are those of any world. */
static void check_world_of_one(void)
{
    cclUniqueId id;
    cclComm_t comm = NULL;
    cclStream_t stream = NULL;
    static unsigned char in[1000], out[1000];
    void *src = NULL, *dst = NULL;
    for (size_t i = 0; i < sizeof(in); i++) {
        in[i] = (unsigned char)(i * 7 + 3);
    }
    OK(cclGetUniqueId(&id));
    OK(cclCommInitRank(&comm, 1, id, 0));
    if (comm == NULL) {
        return;
    }
    OK(cclStreamCreate(&stream));
    OK(cclDeviceMalloc(&src, sizeof(in)));
    OK(cclMemAlloc(comm, &dst, sizeof(out)));
    OK(cclMemcpyAsync(src, in, sizeof(in), stream));
    OK(cclAllGather(src, dst, sizeof(in), cclUint8, comm, stream));
    OK(cclBarrier(comm, stream));
    OK(cclMemcpyAsync(out, dst, sizeof(out), stream));
    OK(cclStreamSynchronize(stream));
    TEST_CHECK(memcmp(in, out, sizeof(in)) == 0);
    OK(cclMemFree(comm, dst));
    OK(cclDeviceFree(src));
    OK(cclCommDestroy(comm));
    OK(cclStreamDestroy(stream));
    check_no_context("a world of one rank");
}

/* In a process of its own, before anything touched the GPU. */
static int session(const char *ipc, enum ccl_mem_type type, bool first)
{
    int sock[2];
    setenv("CCL_IPC", ipc, 1);
    setenv("CCL_BACKEND", "gpu", 1);
    TEST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(sock[0]);
        _exit(importer(sock[1]));
    }
    close(sock[1]);
    const char *why = ccl_gpu_unusable(true);
    if (why != NULL) {
        printf("SKIPPED: %s\n", why);
        fflush(stdout);
        close(sock[0]);
        waitpid(child, NULL, 0);
        return TEST_SKIP;
    }
    OK(ops->init());
    check_no_context("init");
    share_with(sock[0], type);
    check_pointers();
    check_world_of_one();
    if (first) {
        int count = 0;
        print_missing();
        OK(ops->device_count(&count));
        for (int d = 0; d < count; d++) {
            print_device(d);
        }
    }
    int status = 0;
    TEST_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fflush(stdout);
    return test_result();
}

int main(void)
{
    static const struct {
        const char *ipc;
        enum ccl_mem_type type;
    } ways[] = {{"auto", CCL_MEM_FLAG}, {"auto", CCL_MEM_DATA}, {"hipipc", CCL_MEM_DATA}, {"auto", CCL_MEM_HOST}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(ways); i++) {
        int status = 0;
        printf("CCL_IPC=%s, memory type %d\n", ways[i].ipc, (int)ways[i].type);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            _exit(session(ways[i].ipc, ways[i].type, i == 0));
        }
        TEST_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP) {
            return TEST_SKIP;
        }
        TEST_EQ(WEXITSTATUS(status), 0);
    }
    return test_result();
}
