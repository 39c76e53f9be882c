/* SPDX-License-Identifier: MIT
 *
 * Proves that the keyed hash is SipHash-2-4-128, that lists of ranks read well, and that the interface is chosen by
 * CCL_SOCKET_IFNAME. */
#include "test_bootstrap.h"

#include "bootstrap/fds.h"
#include "bootstrap/net.h"
#include "bootstrap/rendezvous.h"

static void test_siphash(void)
{
    /* From the authors' vectors: key 00..0f, message 00..n-1. */
    static const struct {
        size_t n;
        uint8_t mac[16];
    } vectors[] = {
        {0, {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}},
        {1, {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}},
        {2, {0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff, 0xe4}},
    };
    uint8_t key[16], message[64], mac[16];
    for (int i = 0; i < 64; i++) {
        message[i] = (uint8_t)i;
        key[i % 16] = (uint8_t)(i % 16);
    }
    for (size_t v = 0; v < CCL_ARRAY_LEN(vectors); v++) {
        ccl_siphash(key, message, vectors[v].n, mac);
        TEST_CHECK(ccl_mac_equal(mac, vectors[v].mac));
    }
    /* Every bit of key and message counts, at all lengths around a word. */
    for (size_t n = 0; n < 40; n++) {
        uint8_t base[16];
        ccl_siphash(key, message, n, base);
        for (size_t bit = 0; bit < (16 + n) * 8; bit++) {
            uint8_t *byte = bit < 128 ? &key[bit / 8] : &message[bit / 8 - 16];
            *byte ^= (uint8_t)(1u << bit % 8);
            ccl_siphash(key, message, n, mac);
            TEST_CHECK(!ccl_mac_equal(mac, base));
            *byte ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void check_list(const char *members, const char *want)
{
    bool in[MAX_RANKS] = {false};
    char text[128];
    int n = (int)strlen(members);
    for (int i = 0; i < n; i++) {
        in[i] = members[i] == 'x';
    }
    ccl_net_rank_list(text, sizeof(text), in, n);
    if (strcmp(text, want) != 0) {
        TEST_FAIL("list %s: got \"%s\", want \"%s\"", members, text, want);
    }
}

static void test_rank_list(void)
{
    check_list("x", "rank 0");
    check_list("...x", "rank 3");
    check_list("..x..x..", "ranks 2, 5");
    check_list("xx..xx", "ranks 0, 1, 4, 5");
    check_list("xxx.xxxx", "ranks 0-2, 4-7");
    bool in[2000];
    char text[100];
    for (int i = 0; i < 2000; i++) {
        in[i] = i % 2 == 0;
    }
    ccl_net_rank_list(text, sizeof(text), in, 2000);
    TEST_CHECK(strlen(text) < sizeof(text) && strstr(text, ", ...") != NULL);
}

static void test_name_lists(void)
{
    static const struct {
        const char *list, *name;
        bool want;
    } cases[] = {
        {"lo", "lo", true},         {"lo", "lo1", true},        {"=lo", "lo1", false},        {"=lo", "lo", true},           {"eth,ib", "ib0", true},
        {"eth,ib", "lo", false},    {"^docker,lo", "lo", false}, {"^docker,lo", "eth0", true}, {"^=eth0", "eth01", true},     {"^=eth0", "eth0", false},
        {"=eth0,eth1", "eth1", true}, {",,lo,", "lo", true},    {",,", "lo", false},          {"^", "lo", true},             {"=", "lo", false},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(cases); i++) {
        if (ccl_net_name_listed(cases[i].list, cases[i].name) != cases[i].want) {
            TEST_FAIL("list %s, interface %s: not %d", cases[i].list, cases[i].name, cases[i].want);
        }
    }
}

/* Each in a process of its own, because the environment is read once. */
static int with_ifname(const char *name)
{
    cclUniqueId id;
    struct ccl_wire_id wire;
    setenv("CCL_SOCKET_IFNAME", name, 1);
    if (ccl_bootstrap_get_id(&id) != cclSuccess) {
        return strstr(ccl_error_last(), name) != NULL ? 1 : 2;
    }
    return ccl_id_decode(&id, &wire) == cclSuccess && wire.port != 0 && (wire.family != AF_INET || wire.addr[0] == 127)
               ? 0
               : 3;
}

static void test_ifname(void)
{
    static const struct {
        const char *name;
        int want;
    } cases[] = {{"lo", 0}, {"", 0}, {"nosuch", 1}, {"=lo", 0}, {"nosuch,lo", 0}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(cases); i++) {
        int status = -1;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            _exit(with_ifname(cases[i].name));
        }
        waitpid(pid, &status, 0);
        TEST_EQ(WEXITSTATUS(status), cases[i].want);
    }
}

/* CCL_INIT_TIMEOUT ends a rendezvous to which nobody comes. */
static void test_root_deadline(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        cclUniqueId id;
        setenv("CCL_INIT_TIMEOUT", "1", 1);
        int fds = count_fds(), threads = count_threads(), bad = ccl_bootstrap_get_id(&id) != cclSuccess;
        bad |= count_threads() <= threads || count_fds() <= fds;
        threads = count_threads() - 1; /* a sanitizer may have added its own at the first */
        usleep(1000000);
        settle(fds, threads);
        bad |= count_threads() > threads || count_fds() != fds;
        _exit(bad);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    TEST_EQ(status, 0);
}

static void test_fork_closes(void)
{
    int fd = ccl_fds_socket(AF_UNIX), other = ccl_fds_socket(AF_UNIX);
    ccl_fds_close(other);
    unsigned before = ccl_fds_generation();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        _exit(read(fd, &byte, 1) == 0 || ccl_fds_generation() == before);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    TEST_EQ(status, 0);
    TEST_EQ(ccl_fds_generation(), before);
    ccl_fds_close(fd);
    ccl_fds_close(-1);
}

int main(void)
{
    test_siphash();
    test_rank_list();
    test_name_lists();
    test_ifname();
    test_root_deadline();
    test_fork_closes();
    return test_result();
}
