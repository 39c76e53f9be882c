/* SPDX-License-Identifier: MIT
 *
 * LL on a GPU for all collectives but all-gather (included by parts.hip): the host chooses it on CPUs only, so far. */

CCL_DEVICE void parts_ll_body(CCL_PARTS p) { (void)p; }
