/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Probes of path discovery (docs/wire.md). They are for no guest, so only packets for nobody come here. The program answers them by
 * itself, so that an agent that waits for a processor, or is being replaced, delays no answer. Only for edge.bpf.c.
 */
#ifndef SV_PROBE_H
#define SV_PROBE_H

struct sv_probed {
	u64 since; /* when the interval began, ns */
	u32 n[2];  /* its probes, its replies */
};

/* By the agent's number for the peer. CPUs share a row without a lock: a peer may get a few more. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SV_MAX_PEERS + 1);
	__type(key, u32);
	__type(value, struct sv_probed);
} probed SEC(".maps");

/* Is there room for one more of this peer in its interval? */
static __noinline int may_probe(u32 id, u32 replies, u64 now)
{
	struct sv_probed *p = bpf_map_lookup_elem(&probed, &id);

	if (!p)
		return 0;
	if (now - p->since >= SV_EMIT_INTERVAL_NS) {
		p->since = now;
		p->n[0] = p->n[1] = 0;
	}
	return p->n[replies & 1]++ < (replies ? SV_REPLY_PEER_MAX : SV_PROBE_PEER_MAX);
}

/* The probe goes back where it came from, as a reply, with all that a new packet has in its headers. */
static __noinline int answer_probe(struct __sk_buff *skb, const struct sv_peer *peer, const struct sv_outer *o)
{
	struct sv_encap e = { .version = SV_ENCAP_V2, .shim = 1 };
	u8 *data = data_of(skb), *end = end_of(skb), mac[12];

	if (!peer || !o || data + SV_ENCAP_LEN4 + SV_SHIM_LEN > end)
		return TC_ACT_SHOT;
	e.vni = o->encap.vni;
	for (int i = 0; i < 6; i++) {
		mac[i] = data[6 + i];
		mac[6 + i] = data[i];
	}
	if (peer->tunnel.family == 4) {
		sv_encap_write4(data, &peer->tunnel, &e, o->sport, SV_ECN_NOT_ECT, SV_SHIM_LEN + SV_ETH_LEN);
		data[SV_ENCAP_LEN4] = SV_SHIM_REPLY;
	} else {
		if (data + SV_ENCAP_LEN6 + SV_SHIM_LEN > end)
			return TC_ACT_SHOT;
		sv_encap_write6(data, &peer->tunnel, &e, o->sport, SV_ECN_NOT_ECT, SV_SHIM_LEN + SV_ETH_LEN);
		data[SV_ENCAP_LEN6] = SV_SHIM_REPLY;
	}
	for (int i = 0; i < 12; i++)
		data[i] = mac[i];
	bpf_set_hash(skb, sv_encap_hash(&peer->tunnel, o->sport));
	return bpf_redirect(skb->ifindex, 0);
}

/*
 * A probe is answered, and the agent told of a reply if it wants to know: both of peers only, whom we may speak version 2 to, and at a
 * bounded rate, of which one peer takes a part. Returns a verdict, or UNANSWERED for everything else.
 */
static __noinline int take_probe(struct __sk_buff *skb, struct sv_counters *counters, const struct sv_config *conf,
				 const struct sv_outer *o)
{
	struct sv_event *event;
	struct sv_heard *h;
	struct sv_peer *peer;
	u32 id, differs = 0;
	int replies;
	u64 now;

	if (!counters || !conf || !o || o->encap.version != SV_ENCAP_V2 || !o->encap.shim || skb->len != o->add_len + SV_ETH_LEN)
		return UNANSWERED;
	replies = o->shim[0] == SV_SHIM_REPLY;
	if (!replies && o->shim[0] != SV_SHIM_PROBE)
		return UNANSWERED;
	id = peer_of(o->saddr);
	peer = id ? bpf_map_lookup_elem(&peers, &id) : 0;
	if (!peer || peer->tunnel.version != SV_ENCAP_V2)
		return UNANSWERED;
	for (int i = 0; i < 4; i++)
		differs |= peer->tunnel.local[i] ^ o->daddr[i];
	if (differs)
		return UNANSWERED;
	now = stages_now(conf, 1);
	/* A peer whose guests only receive is heard in no other way: without it their packets would never ask for marks (hygenicc.h). */
	h = bpf_map_lookup_elem(&heard, &id);
	if (h)
		sv_heard_note(h, SV_ENCAP_V2, 0, now);
	if (replies && !(conf->flags & SV_CONFIG_DISCOVERS))
		return TC_ACT_SHOT;
	if (!may_probe(id, replies, now) ||
	    !may_ask(replies ? ASKED_REPLY : ASKED_PROBE, replies ? SV_REPLY_MAX : SV_PROBE_MAX, now))
		return drop(counters, SV_COUNT_PROBES_WITHHELD);
	if (!replies) {
		count(counters, SV_COUNT_PROBES_ANSWERED, 1);
		return answer_probe(skb, peer, o);
	}
	event = begin_event(SV_EVENT_REPLY, skb->ifindex, o->saddr, (u32)o->shim[2] << 24 | (u32)o->shim[3] << 16 | o->sport, now);
	if (event) {
		bpf_ringbuf_submit(event, 0);
		count(counters, SV_COUNT_PROBE_REPLIES, 1);
	}
	return TC_ACT_SHOT;
}

#endif
