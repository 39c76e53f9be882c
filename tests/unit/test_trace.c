/* SPDX-License-Identifier: MIT
 *
 * Proves that the trace writer makes the exact file from given records: names escaped, times exact to the nanosecond, blocks that left
 * early, an empty and an overrun ring; and that patterns and paths that cannot be used are errors that name them. */
/* CTEST: labels quick */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test.h"
#include "trace/trace.h"

#define OPS 4
#define BLOCKS 2

static struct ccl_k_trace_op ops[OPS];
static struct ccl_k_trace_event events[OPS][BLOCKS];
static char text[16384];

static void name_call(const struct ccl_k_trace_op *op, char *out, size_t bytes)
{
    snprintf(out, bytes, "call \"%u\"", op->variant);
}

static struct ccl_trace_dump dump_of(uint32_t drawn)
{
    return (struct ccl_trace_dump){.rank = 1, .ranks = 2, .world = 0xabc, .backend = "host", .device = "a \"b\\c\"\x01\xe9", .ops = OPS,
                                   .blocks = BLOCKS, .drawn = drawn, .op = ops, .event = &events[0][0],
                                   .clock_offset_ns = -1500, .clock_error_ns = 42, .clock_drift_ns = -7, .name = name_call};
}

static void record(uint32_t n, uint32_t op, uint32_t variant, uint32_t block, uint64_t start, const uint64_t *after, int count)
{
    struct ccl_k_trace_event *e = &events[n % OPS][block];
    ops[n % OPS] = (struct ccl_k_trace_op){.op = n, .word1 = op, .variant = variant, .blocks = BLOCKS, .rows = 1, .count = 5};
    e->op[CCL_TRACE_START] = n;
    e->at_ns[CCL_TRACE_START] = start;
    for (int i = 0; i < count; i++) {
        e->op[i + 1] = n;
        e->at_ns[i + 1] = after[i];
    }
}

/* The file's text. */
static const char *written(const struct ccl_trace_dump *dump)
{
    char path[] = "/tmp/ccl_trace_unit_XXXXXX";
    int fd = mkstemp(path);
    text[0] = '\0';
    TEST_EQ(ccl_trace_write(dump, path), cclSuccess);
    ssize_t got = read(fd, text, sizeof(text) - 1);
    TEST_EQ(got > 0, 1);
    text[got > 0 ? got : 0] = '\0';
    close(fd);
    unlink(path);
    return text;
}

static void has(const char *needle)
{
    if (strstr(text, needle) == NULL) {
        TEST_FAIL("no %s in %.1500s", needle, text);
    }
}

static void has_not(const char *needle)
{
    if (strstr(text, needle) != NULL) {
        TEST_FAIL("%s in %.1500s", needle, text);
    }
}

static void test_empty(void)
{
    struct ccl_trace_dump d = dump_of(0);
    written(&d);
    has("\"operations\":0,\"kept\":0,\"lost\":0");
    has("\"name\":\"rank 1 of 2, a \\\"b\\\\c\\\"\\u0001\\u00e9\"");
    has("\"world\":\"0000000000000abc\"");
    has("\"clock_error_us\":0.042,\"clock_drift_us\":-0.007");
    has_not("\"ph\":\"X\"");
}

static void test_spans(void)
{
    const uint64_t at[] = {3001, 4500, 1000004500};
    struct ccl_trace_dump d = dump_of(2);
    record(1, CCL_OP_ALL_GATHER, cclVariantStaged, 0, 2000, at, 3);
    record(1, CCL_OP_ALL_GATHER, cclVariantStaged, 1, 500, at, 1); /* left after it had met its peers */
    record(2, CCL_OP_ALL_GATHER, cclVariantLL, 1, 2000, at, 3);
    written(&d);
    has("{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":0.500,\"dur\":1000002.500,\"cat\":\"operation\",\"name\":\"call \\\"3\\\" op 1\","
        "\"args\":{\"op\":1,\"rows\":1,\"count\":5,\"blocks\":2,\"tile_m\":0,\"tile_n\":0,\"ended\":true}}");
    has("\"tid\":0,\"ts\":0.500,\"dur\":1.001,\"cat\":\"phase\",\"name\":\"wait\"");
    has("\"tid\":0,\"ts\":1.501,\"dur\":1.499,\"cat\":\"phase\",\"name\":\"send\"");
    has("\"tid\":0,\"ts\":3.000,\"dur\":1000000.000,\"cat\":\"phase\",\"name\":\"drain\"");
    has("\"tid\":1,\"ts\":-1.000,\"dur\":2.501,\"cat\":\"operation\",\"name\":\"call \\\"3\\\" op 1\"");
    has("\"ended\":false");
    has("\"tid\":1,\"ts\":0.500,\"dur\":2.500,\"cat\":\"phase\",\"name\":\"send\",\"args\":{\"op\":2}");
    has("\"name\":\"block 1\"");
    has_not("\"name\":\"block 2\"");
}

static void test_overrun(void)
{
    const uint64_t at[] = {3001, 4500, 5000};
    struct ccl_trace_dump d = dump_of(9);
    for (uint32_t n = 6; n <= 9; n++) {
        record(n, CCL_OP_BARRIER, cclVariantStaged, 0, 2000, at, 3);
    }
    events[7 % OPS][0].op[CCL_TRACE_START] = 3; /* a block that never came to 7: an old record is none of it */
    ops[8 % OPS].op = 4;                         /* operation 8 has no name, so its blocks are left out */
    written(&d);
    has("\"operations\":9,\"kept\":4,\"lost\":5");
    has(" op 6\"");
    has(" op 9\"");
    has_not(" op 7\"");
    has_not(" op 8\"");
    has_not(" op 5\"");
    has_not("\"drain\"");
}

static void test_paths(void)
{
    char path[64], want[64];
    struct ccl_trace_dump d = dump_of(0);
    TEST_EQ(ccl_trace_path("a%r.%%%p", 12, 1, path, sizeof(path)), cclSuccess);
    snprintf(want, sizeof(want), "a12.%%%d", (int)getpid());
    TEST_EQ(strcmp(path, want), 0);
    TEST_EQ(ccl_trace_path("%w", 0, 0x1234, path, sizeof(path)), cclSuccess);
    TEST_EQ(strcmp(path, "0000000000001234"), 0);
    TEST_EQ(ccl_trace_path("x%", 0, 0, path, sizeof(path)), cclInvalidArgument);
    TEST_EQ(ccl_trace_path("x%d", 0, 0, path, sizeof(path)), cclInvalidArgument);
    TEST_EQ(strstr(cclGetLastError(NULL), "x%d") != NULL, 1);
    TEST_EQ(ccl_trace_path("", 0, 0, path, sizeof(path)), cclInvalidArgument);
    TEST_EQ(ccl_trace_path("123", 0, 0, path, 4), cclSuccess);
    TEST_EQ(ccl_trace_path("1234", 0, 0, path, 4), cclInvalidArgument);
    TEST_EQ(ccl_trace_write(&d, "/no/such/folder"), cclSystemError);
    TEST_EQ(strstr(cclGetLastError(NULL), "/no/such/folder: No such file") != NULL, 1);
    TEST_EQ(ccl_trace_write(&d, "/dev/full"), cclSystemError);
    TEST_EQ(strstr(cclGetLastError(NULL), "/dev/full: No space") != NULL, 1);
}

int main(void)
{
    test_empty();
    test_spans();
    memset(ops, 0, sizeof(ops));
    memset(events, 0, sizeof(events));
    test_overrun();
    test_paths();
    return test_result();
}
