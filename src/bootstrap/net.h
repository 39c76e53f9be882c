/* SPDX-License-Identifier: MIT
 *
 * Deadlines, blocking transfers on non-blocking sockets, abstract socket names, and the client's half of the handshake.
 */
#ifndef CCL_BOOTSTRAP_NET_H
#define CCL_BOOTSTRAP_NET_H

#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "bootstrap/wire.h"

/* After its deadline a client waits this long for the server to name the culprit. */
#define CCL_NET_GRACE_NS 1000000000u

uint64_t ccl_net_deadline(uint64_t timeout_ns);
uint64_t ccl_net_add(uint64_t deadline_ns, uint64_t more_ns); /* saturates */
/* For poll: rounded up, 0 when it has passed. */
int ccl_net_poll_ms(uint64_t deadline_ns);
/* It has passed, or the thread's waits are cancelled. */
bool ccl_net_expired(uint64_t deadline_ns);
/* While *flag is true, deadlines count as passed in the calling thread. NULL: never. */
void ccl_net_set_cancel(const bool *flag);
/* Wait for events (POLLIN, POLLOUT); false when the deadline passed first. */
bool ccl_net_wait(int fd, short events, uint64_t deadline_ns);

/* Receive until *done == bytes; *done carries partial progress over several calls. 0, ETIMEDOUT, ECONNRESET (closed) or
 * another errno. */
int ccl_net_read(int fd, void *data, size_t bytes, size_t *done, uint64_t deadline_ns);
int ccl_net_write(int fd, const void *data, size_t bytes, uint64_t deadline_ns);

cclResult_t ccl_net_random(void *data, size_t bytes);
/* Listen on the abstract unix socket named by token. */
cclResult_t ccl_net_listen(const uint8_t token[16], int *fd);
cclResult_t ccl_net_connect_unix(const uint8_t token[16], uint64_t deadline_ns, int *fd);
/* The socket may not be there yet. */
cclResult_t ccl_net_connect_unix_early(const uint8_t token[16], uint64_t deadline_ns, int *fd);
/* Same user at the other end? Fills *pid as seen from here (0: not visible). */
bool ccl_net_peer_ok(int fd, pid_t *pid);

/* Who this process is: boot id of the machine, pid namespace. */
void ccl_net_host(uint8_t host[16]);
void ccl_net_pidns(uint64_t pidns[2]);

void ccl_net_claim_mac(const uint8_t secret[CCL_SECRET_BYTES], enum ccl_wire_purpose purpose,
                       const uint8_t server_nonce[CCL_NONCE_BYTES], const struct ccl_wire_claim *claim,
                       uint8_t mac[CCL_MAC_BYTES]);
void ccl_net_answer_mac(const uint8_t secret[CCL_SECRET_BYTES], enum ccl_wire_purpose purpose,
                        const uint8_t server_nonce[CCL_NONCE_BYTES], const uint8_t client_nonce[CCL_NONCE_BYTES],
                        const struct ccl_wire_answer_body *body, uint8_t mac[CCL_MAC_BYTES]);
/* Prove the secret, claim a rank, and wait for the answer, which is verified; its code is for the caller to look at.
 * server: for messages. */
cclResult_t ccl_net_knock(int fd, const char *server, const uint8_t secret[CCL_SECRET_BYTES],
                          enum ccl_wire_purpose purpose, const struct ccl_wire_claim_body *body, uint64_t deadline_ns,
                          struct ccl_wire_answer_body *answer);

/* Does a list as NCCL_SOCKET_IFNAME has it name this interface? Prefixes with commas between; "=" in front: whole names; "^" in front: all but these;
 * "^=": both. */
bool ccl_net_name_listed(const char *list, const char *name);
/* "rank 3", "ranks 2, 5", "ranks 0-6, 9": those with in[r], of n. Cut with "..." when the buffer is short. */
void ccl_net_rank_list(char *text, size_t bytes, const bool *in, int n);

#endif
