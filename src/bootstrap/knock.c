/* SPDX-License-Identifier: MIT
 *
 * The hashes of the handshake and its client half. The server half is gate.c. */
#include <errno.h>
#include <string.h>

#include "bootstrap/net.h"
#include "util/log.h"

/* Direction and purpose come first, so that a hash made for one use never fits another. */
struct mac_head {
    char label[4];
    uint32_t purpose;
    uint8_t server_nonce[CCL_NONCE_BYTES], client_nonce[CCL_NONCE_BYTES];
};

static void head_init(struct mac_head *head, const char label[4], enum ccl_wire_purpose purpose,
                      const uint8_t *server_nonce, const uint8_t *client_nonce)
{
    memcpy(head->label, label, sizeof(head->label));
    head->purpose = (uint32_t)purpose;
    memcpy(head->server_nonce, server_nonce, CCL_NONCE_BYTES);
    memcpy(head->client_nonce, client_nonce, CCL_NONCE_BYTES);
}

void ccl_net_claim_mac(const uint8_t secret[CCL_SECRET_BYTES], enum ccl_wire_purpose purpose,
                       const uint8_t server_nonce[CCL_NONCE_BYTES], const struct ccl_wire_claim *claim,
                       uint8_t mac[CCL_MAC_BYTES])
{
    struct {
        struct mac_head head;
        struct ccl_wire_claim_body body;
    } all;
    memset(&all, 0, sizeof(all)); /* padding is hashed too */
    head_init(&all.head, "clm", purpose, server_nonce, claim->nonce);
    memcpy(&all.body, &claim->body, sizeof(all.body));
    ccl_siphash(secret, &all, sizeof(all), mac);
}

void ccl_net_answer_mac(const uint8_t secret[CCL_SECRET_BYTES], enum ccl_wire_purpose purpose,
                        const uint8_t server_nonce[CCL_NONCE_BYTES], const uint8_t client_nonce[CCL_NONCE_BYTES],
                        const struct ccl_wire_answer_body *body, uint8_t mac[CCL_MAC_BYTES])
{
    struct {
        struct mac_head head;
        struct ccl_wire_answer_body body;
    } all;
    memset(&all, 0, sizeof(all));
    head_init(&all.head, "ans", purpose, server_nonce, client_nonce);
    memcpy(&all.body, body, sizeof(all.body));
    ccl_siphash(secret, &all, sizeof(all), mac);
}

static cclResult_t knock_failed(const char *server, const char *doing, int err)
{
    return ccl_error_set(err == ETIMEDOUT ? cclSystemError : cclRemoteError, CCL_BOOT, "%s: %s: %s", server, doing,
                         err == ETIMEDOUT    ? "no answer before the deadline"
                         : err == ECONNRESET ? "closed the connection: it is gone, or serves another unique id"
                                             : strerror(err));
}

cclResult_t ccl_net_knock(int fd, const char *server, const uint8_t secret[CCL_SECRET_BYTES],
                          enum ccl_wire_purpose purpose, const struct ccl_wire_claim_body *body, uint64_t deadline_ns,
                          struct ccl_wire_answer_body *out)
{
    struct ccl_wire_hello hello;
    size_t done = 0;
    int err = ccl_net_read(fd, &hello, sizeof(hello), &done, deadline_ns);
    if (err != 0) {
        return knock_failed(server, "waiting for its greeting", err);
    }
    CCL_CHECK(hello.magic == CCL_WIRE_MAGIC && hello.wire == CCL_WIRE_VERSION, cclSystemError, CCL_BOOT,
              "%s: greets with magic %08x wire version %u, expected %08x %u", server, hello.magic, hello.wire,
              CCL_WIRE_MAGIC, CCL_WIRE_VERSION);

    struct ccl_wire_claim claim;
    memset(&claim, 0, sizeof(claim));
    CCL_TRY(ccl_net_random(claim.nonce, sizeof(claim.nonce)));
    memcpy(&claim.body, body, sizeof(claim.body));
    uint64_t now = ccl_now_ns();
    claim.body.timeout_ns = deadline_ns > now ? deadline_ns - now : 0;
    ccl_net_claim_mac(secret, purpose, hello.nonce, &claim, claim.mac);
    err = ccl_net_write(fd, &claim, sizeof(claim), deadline_ns);
    if (err != 0) {
        return knock_failed(server, "sending my rank", err);
    }

    struct ccl_wire_answer answer;
    uint8_t mac[CCL_MAC_BYTES];
    done = 0;
    err = ccl_net_read(fd, &answer, sizeof(answer), &done, ccl_net_add(deadline_ns, CCL_NET_GRACE_NS));
    if (err != 0) {
        return knock_failed(server, "waiting for its answer", err);
    }
    ccl_net_answer_mac(secret, purpose, hello.nonce, claim.nonce, &answer.body, mac);
    CCL_CHECK(ccl_mac_equal(mac, answer.mac), cclSystemError, CCL_BOOT, "%s: does not know the secret of the unique id",
              server);
    answer.body.text[CCL_WIRE_TEXT - 1] = '\0';
    memcpy(out, &answer.body, sizeof(*out));
    return cclSuccess;
}
