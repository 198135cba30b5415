/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The shared stages (../edge.h), called with what the kernel's tables know of a flow, a peer and a guest. Only for edge.bpf.c. */
#ifndef SV_STAGES_H
#define SV_STAGES_H

static __always_inline void rewrite_for_test(struct sv_packet *p)
{
	if (sv_test.rewrite & SV_REWRITE_WINDOW && p->proto == SV_PROTO_TCP) {
		p->window |= 1;
		p->dirty |= SV_DIRTY_WINDOW;
	}
	if (sv_test.rewrite & SV_REWRITE_ECN && p->ecn == SV_ECN_NOT_ECT) {
		p->ecn = SV_ECN_ECT0;
		p->dirty |= SV_DIRTY_ECN;
	}
}

static __noinline u32 hash_of(const struct sv_packet *p, u64 seed)
{
	struct sv_flow_key key;

	if (!p)
		return 0;
	sv_flow_key(p, &key);
	return sv_flow_hash(&key, seed);
}

/* Of a connection whose handshake was just seen, or was not: another edge may have seen it, or come to need it. */
static __noinline int recall(struct sv_flow_slot *slot, const struct sv_packet *p, u32 vni, u32 how)
{
	struct sv_handshake *kept, h = {0};
	struct sv_flow_slot_key of = {0};
	struct sv_kept_key key = {0};

	if (!slot || !p)
		return 0;
	key_of(&of, p, vni, how);
	key.key = of.key;
	key.scope = vni;
	kept = keep_or_find(&key, &slot->vcc.conn);
	if (kept)
		h = *kept;
	bpf_spin_lock(&slot->lock);
	sv_vcc_follow(&slot->vcc, sv_conn_recall(&slot->vcc.conn, kept ? &h : 0));
	bpf_spin_unlock(&slot->lock);
	return 0;
}

static __always_inline void recall_if_due(struct sv_flow_slot *slot, const struct sv_packet *p, u32 vni, u32 how)
{
	if (slot && p->proto == SV_PROTO_TCP && sv_conn_recalls(&slot->vcc.conn, p))
		recall(slot, p, vni, how);
}

/* Stages of the guest's segment in `scratch`, to the peer with the number `id`. Returns their result bits. */
static __always_inline u32 run_egress(struct sv_flow_slot *slot, const struct sv_config *conf,
				      const struct sv_peer *peer, u32 id, u32 vni, struct sv_scratch *scratch, int congested)
{
	struct sv_ctx c = {0};
	struct sv_packet *p;
	u32 result = 0;

	if (!conf || !peer || !scratch)
		return 0;
	p = &scratch->packet;
	c.conf = &conf->conf;
	c.now = scratch->now;
	if (congested || sv_balance_measures_time(&conf->conf.balance))
		c.now = stages_now(conf, 1);
	c.paths.labels = peer->labels;
	c.paths.n = peer->n_labels;
	c.paths.prompt = 1;
	c.paths.path = PATHS_ELSEWHERE;
	c.peer = id;
	if (slot) {
		c.flow = &slot->flow;
		c.balance = &slot->balance;
		c.flow_lock = &slot->lock;
		c.hash = slot->hash;
		c.counts = &slot->counts;
	} else {
		result = SV_NO_ROOM;
	}
	if (!c.hash) {
		c.hash = hash_of(p, conf->seed);
		if (slot)
			slot->hash = c.hash;
	}
	if (congested)
		use_congestion(&c, slot, vni);
	result |= sv_egress(&c, p);
	if (sv_balance_keeps(&conf->conf.balance) && peer->tunnel.version != SV_ENCAP_PLAIN && !(result & SV_POLICED))
		tell_peer(id, c.now, p);
	p->label = sv_encap_port(p->label, c.hash);
	rewrite_for_test(p);
	return result;
}

/* Two of each, so that what congestion control costs is not paid without it. */
static __noinline u32 egress(struct sv_flow_slot *slot, const struct sv_config *conf,
			     const struct sv_peer *peer, u32 id, struct sv_scratch *scratch)
{
	return run_egress(slot, conf, peer, id, 0, scratch, 0);
}

/* `whose`: the peer's number, and above it the network. */
static __noinline u32 egress_congested(struct sv_flow_slot *slot, const struct sv_config *conf,
				       const struct sv_peer *peer, u64 whose, struct sv_scratch *scratch)
{
	struct sv_counters *counters = find_counters();
	u32 vni = (u32)(whose >> 32), result = run_egress(slot, conf, peer, (u32)whose, vni, scratch, 1);
	struct sv_packet *p;

	if (!scratch)
		return 0;
	p = &scratch->packet;
	if (counters && slot)
		count_congestion(counters, p, result, 1, 0);
	recall_if_due(slot, p, vni, OUT);
	if (slot && slot->timer)
		note_timer(slot, scratch->now);
	else if (slot && is_outstanding(&slot->vcc.conn))
		find_timer(slot, p, vni, scratch->now);
	return sv_forget8(result);
}

/* For sv_hyg.bucket where only its being there counts: for what a guest that is held sees of ECN. */
#define SHARE_ELSEWHERE ((struct sv_hyg_bucket *)1)

/* Is what a packet brings about times of paths, or what it is to show of them? Most packets are neither, and the exact time costs. */
static __always_inline int says_of_paths(const struct sv_flow_slot *slot, const struct sv_balance_conf *conf, const struct sv_encap *e)
{
	return sv_balance_keeps(conf) && (e->feedback || e->path || e->value || (slot && slot->balance.choice.ect) ||
					  !sv_balance_shows_law(conf));
}

/* Stages of the segment in `scratch` from the fabric; `from`: number of the peer that sent it, or 0. Returns their result bits. */
static __always_inline u32 run_ingress(struct sv_flow_slot *slot, const struct sv_config *conf,
				       struct sv_scratch *scratch, u32 from, u32 share, int congested)
{
	const struct sv_outer *o = &scratch->outer;
	struct sv_packet *p = &scratch->packet;
	struct sv_hyg shown = { .bucket = SHARE_ELSEWHERE };
	struct sv_ctx c = {0};
	u32 result = 0;

	if (!conf)
		return 0;
	c.conf = &conf->conf;
	c.now = scratch->now;
	if (congested || says_of_paths(slot, &conf->conf.balance, &o->encap))
		c.now = stages_now(conf, 1);
	if (slot) {
		c.flow = &slot->flow;
		c.balance = &slot->balance;
		c.flow_lock = &slot->lock;
		c.counts = &slot->counts;
		if (o->encap.has_cell) {
			p->has_cell = 1;
			p->cell = sv_encap_cell(slot->flow.in_cell, o->encap.cell);
		}
	} else {
		result = SV_NO_ROOM;
	}
	c.news.kind = o->encap.feedback;
	c.news.path = o->encap.path;
	c.news.value = o->encap.value;
	c.paths.path = PATHS_ELSEWHERE;
	c.peer = from;
	if (share)
		c.hyg = &shown;
	if (sv_balance_answers(&conf->conf.balance) && sv_ecn_path_marked(p))
		note_mark(from, p);
	if (sv_balance_stamps(&conf->conf.balance) && p->wire == SV_WIRE_2 && !o->encap.feedback && (o->encap.path || o->encap.value))
		note_stamp(from, (u32)p->label << 16 | (u32)o->encap.path << 8 | o->encap.value, c.now);
	if (congested)
		use_congestion(&c, slot, o->encap.vni);
	if (congested && sv_report_is_in(p))
		result |= SV_REPORTED;
	result |= sv_ingress(&c, p);
	rewrite_for_test(p);
	return result;
}

/* Inline: after calls, verifiers before Linux 6.4 hold all numbers to be of importance, and prove the rest once for each. */
static __always_inline u32 ingress(struct sv_flow_slot *slot, const struct sv_config *conf,
				   struct sv_scratch *scratch, u32 from, u32 share)
{
	return run_ingress(slot, conf, scratch, from, share, 0);
}

static __always_inline u32 ingress_congested(struct sv_flow_slot *slot, const struct sv_config *conf,
					     struct sv_scratch *scratch, u32 from, u32 share)
{
	struct sv_counters *counters = find_counters();
	u32 result = run_ingress(slot, conf, scratch, from, share, 1);
	struct sv_packet *p = &scratch->packet;

	if (counters && slot)
		count_congestion(counters, p, result, 0, !!(result & SV_REPORTED));
	recall_if_due(slot, p, scratch->outer.encap.vni, IN);
	if (slot && slot->timer)
		note_timer(slot, scratch->now);
	return sv_forget8(result);
}

/* What both directions count and report of the stages' results. `ifindex`: where it came from. */
static __always_inline void note_results(u32 ifindex, struct sv_counters *counters, const struct sv_packet *p, u32 result)
{
	if (result & SV_BEGAN)
		count(counters, SV_COUNT_FLOWS_BEGUN, 1);
	if (result & SV_CELL_OPENED)
		count(counters, SV_COUNT_FLOWCELLS, 1);
	if (result & SV_CELL_LATE)
		count(counters, SV_COUNT_IN_LATE, 1);
	if (result & SV_NO_ROOM)
		count(counters, SV_COUNT_FLOW_TABLE_FULL, 1);
	if (p->emit)
		send_emit(ifindex, p);
}

#endif
