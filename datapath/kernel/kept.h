/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is kept of connections' handshakes for edges of other versions. All other state begins anew when its version changes; window
 * scales cannot be learnt again. So this map has no version, its layout never changes, and a new one would need another name.
 *
 * An entry is made when both sides' SYNs were seen, so a guest needs somebody who answers to make one; a limit of both directions makes
 * two. Nothing removes them: the oldest go when there is no more room. Of a connection that finds nothing here only the window is not
 * read, as of one that was there before the edge. An entry may become another's between lookup and copy, which would have to happen
 * within the instructions of one packet.
 */
#ifndef SV_KEPT_H
#define SV_KEPT_H

#include "../conntrack.h"

/* sv_kept_key.scope: a network's number, or, of a limit, this and the port's ifindex. */
#define SV_KEPT_LIMIT 0x80000000u

struct sv_kept_key {
	struct sv_flow_key key;
	u32 scope;
};

SV_ASSERT_SIZE(struct sv_kept_key, 44);

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct sv_kept_key);
	__type(value, struct sv_handshake);
} handshakes SEC(".maps");

/* `conn` is what the lock guards, and tells how the connection stands. Returns what was kept of it, if it has to be recalled. */
static __noinline struct sv_handshake *keep_or_find(const struct sv_kept_key *k, const struct sv_conn *conn)
{
	struct sv_handshake h;

	if (!k || !conn)
		return 0;
	if (!sv_conn_knows_scale(conn))
		return bpf_map_lookup_elem(&handshakes, k);
	h = sv_conn_handshake(conn);
	bpf_map_update_elem(&handshakes, k, &h, BPF_ANY);
	return 0;
}

#endif
