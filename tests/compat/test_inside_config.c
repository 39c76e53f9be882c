/* SPDX-License-Identifier: MIT
 *
 * Proves how an ncclConfig_t of any version is read: as many bytes as both sides know, newer fields than its version reset, open fields from the
 * defaults or the parent, values out of range refused by name. */
/* CTEST: labels quick */
#include <limits.h>
#include <string.h>

#include "compat/compat.h"
#include "test.h"

#define UNDEF INT_MIN

/* What a program of NCCL 2.32 would pass: our fields, and more behind. */
struct large {
    struct ccl_compat_config known;
    int more[10];
};

static struct large config_of(size_t size, unsigned version)
{
    struct large l;
    memset(&l, 0xee, sizeof(l)); /* what a program's stack left there */
    l.known = (struct ccl_compat_config){.size = size,
                                         .magic = 0xcafebeef,
                                         .version = version,
                                         .blocking = UNDEF,
                                         .cga_cluster_size = UNDEF,
                                         .min_ctas = UNDEF,
                                         .max_ctas = UNDEF,
                                         .split_share = UNDEF,
                                         .traffic_class = UNDEF,
                                         .collnet_enable = UNDEF,
                                         .cta_policy = UNDEF,
                                         .shrink_share = UNDEF,
                                         .nvls_ctas = UNDEF,
                                         .channels_per_net_peer = UNDEF,
                                         .nvlink_centric_sched = UNDEF};
    return l;
}

static ncclResult_t read_it(const struct large *l, const struct ccl_compat_config *parent, struct ccl_compat_config *out)
{
    return ccl_compat_read_config((const ncclConfig_t *)l, parent, "test", out);
}

static void test_versions(void)
{
    static const struct {
        size_t size;
        unsigned version;
    } known[] = {{24, 21400}, {40, 21703}, {48, 21800}, {48, 22504}, {48, 22602}, {72, 22707}, {80, 22809}, {88, 22900}, {96, 23004}, {112, 23100}, {120, 23200}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(known); i++) {
        struct ccl_compat_config got;
        struct large l = config_of(known[i].size, known[i].version);
        size_t past = known[i].size < sizeof(l) ? known[i].size : sizeof(l);
        memset((char *)&l + past, 0xee, sizeof(l) - past);
        l.known.blocking = 0;
        TEST_EQ(read_it(&l, NULL, &got), ncclSuccess);
        TEST_EQ(got.blocking, 0);
        TEST_EQ(got.cga_cluster_size, 4);
        TEST_EQ(got.min_ctas, 1);
        TEST_EQ(got.max_ctas, 64);
        TEST_EQ(got.split_share, 0);
        TEST_EQ(got.traffic_class, UNDEF);
        TEST_EQ(got.collnet_enable, 0);
        TEST_EQ(got.nvls_ctas, UNDEF);
        TEST_EQ(got.channels_per_net_peer, UNDEF);
        TEST_EQ(got.nvlink_centric_sched, 0);
    }
    /* A size larger than its version: what lies behind the fields of that version is not looked at. */
    struct large l = config_of(80, 21400);
    struct ccl_compat_config got;
    l.known.min_ctas = -7;
    l.known.split_share = 99;
    l.known.nvlink_centric_sched = 99;
    TEST_EQ(read_it(&l, NULL, &got), ncclSuccess);
    TEST_EQ(got.min_ctas, 1);
    TEST_EQ(got.split_share, 0);
    /* The same in a struct of 2.17 is. */
    l.known.version = 21700;
    TEST_EQ(read_it(&l, NULL, &got), ncclInvalidArgument);
}

static void test_values(void)
{
    static const struct {
        size_t off;
        int bad, good;
    } rows[] = {
#define ROW(member, bad, good) {offsetof(struct ccl_compat_config, member), bad, good}
        ROW(blocking, 2, 1),       ROW(blocking, -1, 0),      ROW(cga_cluster_size, -1, 0), ROW(min_ctas, 0, 1),
        ROW(max_ctas, 0, 1),       ROW(max_ctas, -3, 200),    ROW(split_share, 2, 1),       ROW(traffic_class, -1, 5),
        ROW(collnet_enable, 2, 1), ROW(cta_policy, 4, 2),     ROW(cta_policy, -1, 1),       ROW(shrink_share, -1, 1),
        ROW(nvls_ctas, 0, 16),     ROW(channels_per_net_peer, 0, 2), ROW(nvlink_centric_sched, 2, 1),
#undef ROW
    };
    struct ccl_compat_config got;
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        struct large l = config_of(80, 22809);
        int *value = (int *)((char *)&l + rows[i].off);
        *value = rows[i].bad;
        ncclResult_t bad = read_it(&l, NULL, &got);
        *value = rows[i].good;
        ncclResult_t good = read_it(&l, NULL, &got);
        if (bad != ncclInvalidArgument || good != ncclSuccess) {
            TEST_FAIL("offset %zu: %d gives %d, %d gives %d", rows[i].off, rows[i].bad, (int)bad, rows[i].good, (int)good);
        }
    }
    struct large l = config_of(80, 22809);
    l.known.min_ctas = 9;
    l.known.max_ctas = 8;
    TEST_EQ(read_it(&l, NULL, &got), ncclInvalidArgument);
    l.known.max_ctas = 9;
    TEST_EQ(read_it(&l, NULL, &got), ncclSuccess);
    l.known.min_ctas = 65; /* more than the default maximum */
    l.known.max_ctas = UNDEF;
    TEST_EQ(read_it(&l, NULL, &got), ncclInvalidArgument);
}

static void test_shape(void)
{
    struct ccl_compat_config got = {.blocking = 17}, parent;
    struct large l = config_of(80, 22809);
    l.known.magic = 0xcafebeee;
    TEST_EQ(read_it(&l, NULL, &got), ncclInvalidArgument);
    l = config_of(8, 22809); /* too short to have a magic */
    TEST_EQ(read_it(&l, NULL, &got), ncclInvalidArgument);
    l = config_of(0, 22809);
    TEST_EQ(read_it(&l, NULL, &got), ncclInvalidArgument);
    TEST_EQ(got.blocking, 17); /* not written */
    l = config_of(4000, 99999); /* of a version to come: its size is believed, its end is not read */
    TEST_EQ(read_it(&l, NULL, &got), ncclSuccess);

    l = config_of(80, 22809);
    l.known.blocking = 0;
    l.known.max_ctas = 7;
    TEST_EQ(read_it(&l, NULL, &parent), ncclSuccess);
    TEST_EQ(read_it(NULL, &parent, &got), ncclSuccess);
    TEST_EQ(got.blocking, 0);
    TEST_EQ(got.max_ctas, 7);
    l.known.blocking = 1;
    l.known.max_ctas = UNDEF;
    TEST_EQ(read_it(&l, &parent, &got), ncclSuccess);
    TEST_EQ(got.blocking, 1);
    TEST_EQ(got.max_ctas, 7);
    TEST_EQ(read_it(NULL, NULL, &got), ncclSuccess);
    TEST_EQ(got.blocking, 1);
    /* The header's own initializer. */
    ncclConfig_t header = NCCL_CONFIG_INITIALIZER;
    TEST_EQ(ccl_compat_read_config(&header, NULL, "test", &got), ncclSuccess);
}

int main(void)
{
    test_versions();
    test_values();
    test_shape();
    return test_result();
}
