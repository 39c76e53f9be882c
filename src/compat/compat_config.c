/* SPDX-License-Identifier: MIT
 *
 * ncclConfig_t, whatever version of it the program was built with. The struct only ever grew at its end: as many bytes are taken as both sides know;
 * fields newer than the version that the struct states keep their default, so what a program's stack left behind an old struct does no harm. */
#include "compat.h"

#include <string.h>

#include "util/config.h"

#define MAGIC 0xcafebeefu
#define UNDEF NCCL_CONFIG_UNDEF_INT
#define NUM_FLAGS (NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO)

_Static_assert(sizeof(struct ccl_compat_config) == 80 && offsetof(struct ccl_compat_config, comm_name) == 48 &&
                   offsetof(struct ccl_compat_config, channels_per_net_peer) == 72,
               "the layout of NCCL 2.28");
_Static_assert(offsetof(ncclConfig_t, nvlsCTAs) == offsetof(struct ccl_compat_config, nvls_ctas), "as in the header");

static const struct ccl_compat_config defaults = {.size = sizeof(defaults),
                                                  .magic = MAGIC,
                                                  .version = 22809,
                                                  .blocking = 1,
                                                  .cga_cluster_size = 4,
                                                  .min_ctas = 1,
                                                  .max_ctas = 64,
                                                  .traffic_class = UNDEF,
                                                  .nvls_ctas = UNDEF,
                                                  .channels_per_net_peer = UNDEF};

/* The integer fields; pointers are taken as they are, for nothing here reads what they point to. */
static const struct field {
    const char *name;
    size_t off;
    unsigned since;
    int min, max;
    bool may_be_undef; /* also as the final value */
} fields[] = {
#define FIELD(member, name, since, min, max, undef) {name, offsetof(struct ccl_compat_config, member), since, min, max, undef}
    FIELD(blocking, "blocking", 21400, 0, 1, false),
    FIELD(cga_cluster_size, "cgaClusterSize", 21700, 0, INT_MAX, false),
    FIELD(min_ctas, "minCTAs", 21700, 1, INT_MAX, false),
    FIELD(max_ctas, "maxCTAs", 21700, 1, INT_MAX, false),
    FIELD(split_share, "splitShare", 21800, 0, 1, false),
    FIELD(traffic_class, "trafficClass", 22600, 0, INT_MAX, true),
    FIELD(collnet_enable, "collnetEnable", 22700, 0, 1, false),
    FIELD(cta_policy, "CTAPolicy", 22700, 0, NUM_FLAGS, false),
    FIELD(shrink_share, "shrinkShare", 22700, 0, 1, false),
    FIELD(nvls_ctas, "nvlsCTAs", 22700, 1, INT_MAX, true),
    FIELD(channels_per_net_peer, "nChannelsPerNetPeer", 22800, 1, INT_MAX, true),
    FIELD(nvlink_centric_sched, "nvlinkCentricSched", 22800, 0, 1, false),
#undef FIELD
};

static int *int_at(struct ccl_compat_config *config, size_t off)
{
    return (int *)((char *)config + off);
}

/* A value the program left open comes from base; one that it set must be in range. */
static ncclResult_t settle(struct ccl_compat_config *config, const struct ccl_compat_config *base, const struct field *f, const char *func)
{
    int *value = int_at(config, f->off);
    if (config->version < f->since || *value == UNDEF) {
        memcpy(value, (const char *)base + f->off, sizeof(*value));
        return ncclSuccess;
    }
    CCL_COMPAT_CHECK(*value >= f->min && *value <= f->max, ncclInvalidArgument, "%s: config: %s is %d, not %d to %d", func, f->name, *value, f->min,
                     f->max);
    return ncclSuccess;
}

ncclResult_t ccl_compat_read_config(const ncclConfig_t *user, const struct ccl_compat_config *parent, const char *func, struct ccl_compat_config *out)
{
    const struct ccl_compat_config *base = parent != NULL ? parent : &defaults;
    struct ccl_compat_config config = *base;
    if (user != NULL) {
        size_t size;
        memcpy(&size, user, sizeof(size));
        CCL_COMPAT_CHECK(size >= offsetof(struct ccl_compat_config, blocking), ncclInvalidArgument,
                         "%s: config: its size is %zu, was it initialised with NCCL_CONFIG_INITIALIZER?", func, size);
        memcpy(&config, user, ccl_min_size(size, sizeof(config)));
        CCL_COMPAT_CHECK(config.magic == MAGIC, ncclInvalidArgument,
                         "%s: config: its magic is %#x, was it initialised with NCCL_CONFIG_INITIALIZER?", func, config.magic);
        for (size_t i = 0; i < CCL_ARRAY_LEN(fields); i++) {
            CCL_COMPAT_TRY(settle(&config, base, &fields[i], func));
        }
        CCL_COMPAT_CHECK(config.min_ctas <= config.max_ctas, ncclInvalidArgument, "%s: config: minCTAs is %d, more than maxCTAs, %d", func,
                         config.min_ctas, config.max_ctas);
    }
    config.size = sizeof(config);
    config.version = defaults.version;
    config.net_name = config.comm_name = NULL; /* the program's memory, which it may free */
    int64_t blocking = ccl_env_get()->nccl_blocking;
    config.blocking = blocking != CCL_UNSET ? (int)blocking : config.blocking;
    *out = config;
    return ncclSuccess;
}
