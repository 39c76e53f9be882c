/* SPDX-License-Identifier: MIT
 *
 * SipHash-2-4-128. Bytes are little endian whatever the machine is, so the published vectors hold. */
#include "bootstrap/siphash.h"

struct sip_state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

static void store_le64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

static uint64_t rotl(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_rounds(struct sip_state *s, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        s->v0 += s->v1;
        s->v1 = rotl(s->v1, 13) ^ s->v0;
        s->v0 = rotl(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = rotl(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = rotl(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = rotl(s->v1, 17) ^ s->v2;
        s->v2 = rotl(s->v2, 32);
    }
}

static void sip_word(struct sip_state *s, uint64_t m)
{
    s->v3 ^= m;
    sip_rounds(s, 2);
    s->v0 ^= m;
}

void ccl_siphash(const uint8_t key[CCL_SECRET_BYTES], const void *data, size_t bytes, uint8_t mac[CCL_MAC_BYTES])
{
    const uint8_t *p = data;
    uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
    struct sip_state s = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee, k0 ^ 0x6c7967656e657261u,
                          k1 ^ 0x7465646279746573u};
    size_t whole = bytes / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        sip_word(&s, load_le64(p + i));
    }
    uint8_t last[8] = {0};
    for (size_t i = whole; i < bytes; i++) {
        last[i - whole] = p[i];
    }
    last[7] = (uint8_t)bytes;
    sip_word(&s, load_le64(last));
    s.v2 ^= 0xee;
    sip_rounds(&s, 4);
    store_le64(mac, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
    s.v1 ^= 0xdd;
    sip_rounds(&s, 4);
    store_le64(mac + 8, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
}

bool ccl_mac_equal(const uint8_t a[CCL_MAC_BYTES], const uint8_t b[CCL_MAC_BYTES])
{
    unsigned differ = 0;
    for (int i = 0; i < CCL_MAC_BYTES; i++) {
        differ |= (unsigned)(a[i] ^ b[i]);
    }
    return differ == 0;
}
