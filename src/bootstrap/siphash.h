/* SPDX-License-Identifier: MIT
 *
 * SipHash-2-4 with 128-bit output (Aumasson, Bernstein): the keyed hash with which both ends of a bootstrap connection
 * prove that they know the secret of the unique id. */
#ifndef CCL_BOOTSTRAP_SIPHASH_H
#define CCL_BOOTSTRAP_SIPHASH_H

#include "util/base.h"

#define CCL_SECRET_BYTES 16
#define CCL_MAC_BYTES 16

void ccl_siphash(const uint8_t key[CCL_SECRET_BYTES], const void *data, size_t bytes, uint8_t mac[CCL_MAC_BYTES]);
/* The time does not depend on where the two differ. */
bool ccl_mac_equal(const uint8_t a[CCL_MAC_BYTES], const uint8_t b[CCL_MAC_BYTES]);

#endif
