/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the agent has done to flows, by BPF_PROG_TEST_RUN: the timer laws, classes anew, the end of those that expired. A call
 * sees so few flows that packets do not wait for it. Only for edge.bpf.c.
 */
#ifndef SV_TICK_H
#define SV_TICK_H

/* Of one flow; bits. */
#define TOUCHED 0x1
#define NO_EVENT 0x2 /* no room for one */

/* The timer laws, if they are due. */
static __always_inline int apply_timers(struct sv_ctx *c, const struct sv_flow_slot_key *key)
{
	struct sv_event *event;
	u32 result;
	u8 emit;

	/* Read without the lock: sv_tick looks again. */
	if (!sv_vcc_due(c->vcc, c->vcc_conf, c->now))
		return 0;
	event = begin_event(SV_EVENT_TIMER, key->vni, key->key.saddr, 0, c->now);
	if (!event)
		return NO_EVENT;
	result = sv_tick(c);
	emit = result & SV_EXPIRED ? 0 : SV_TICK_EMIT(result);
	if (!emit) {
		bpf_ringbuf_discard(event, 0);
		return TOUCHED;
	}
	SV_LOCK(c->flow_lock);
	sv_vcc_ack(c->vcc, c->vcc_conf, &key->key, emit & SV_EMIT_WINDOW, &event->packet);
	SV_UNLOCK(c->flow_lock);
	event->value = emit;
	bpf_ringbuf_submit(event, 0);
	return TOUCHED;
}

static __always_inline int expire(const struct sv_flow_slot *slot, const struct sv_flow_slot_key *key, u64 idle, u64 now)
{
	u32 port = slot->port, outside = slot->outside;

	if (!sv_flow_expired(&slot->flow, idle, now) || bpf_map_delete_elem(&flows, key))
		return 0;
	if (port)
		charge(SV_TABLE_FLOWS, port, key->vni, -1, outside ? -1 : 0);
	return TOUCHED;
}

/* A function of its own, global: the verifier proves it once, not for each round of the loop. `timer`: of SV_TICK_TIMED. */
__noinline int tick_flow(const struct sv_flow_slot_key *which, u32 what, u32 timer, u64 now)
{
	struct sv_flow_slot_key key;
	struct sv_flow_slot *slot;
	struct sv_config *conf;
	struct sv_ctx c = {0};
	u32 zero = 0;
	u64 *at;
	int did;

	conf = bpf_map_lookup_elem(&config, &zero);
	c.vcc_conf = bpf_map_lookup_elem(&congestion, &zero);
	at = bpf_map_lookup_elem(&timers, &timer);
	if (!which || !conf || !c.vcc_conf || !at)
		return 0;
	key = *which;
	slot = bpf_map_lookup_elem(&flows, &key);
	if (what == SV_TICK_TIMED && (!slot || slot->timer != timer)) {
		*at = 0; /* the flow was forgotten */
		return 0;
	}
	if (!slot)
		return 0;
	if (what == SV_TICK_EXPIRE)
		return expire(slot, &key, conf->conf.idle, now);
	c.conf = &conf->conf;
	c.flow = &slot->flow;
	c.vcc = &slot->vcc;
	c.flow_lock = &slot->lock;
	c.tenant = tenant_of(key.vni);
	c.now = now;
	if (what == SV_TICK_RECLASSIFY) {
		sv_reclassify(&c, &key.key);
		return TOUCHED;
	}
	if (what == SV_TICK_FORGET) {
		SV_LOCK(c.flow_lock);
		c.vcc->conn.flags = 0;
		SV_UNLOCK(c.flow_lock);
		return TOUCHED;
	}
	did = apply_timers(&c, &key);
	if (what != SV_TICK_TIMED || did & NO_EVENT)
		return did;
	SV_LOCK(c.flow_lock);
	if (slot->timer == timer) {
		set_timer(slot, c.vcc_conf, 0, at);
		if (!*at)
			slot->timer = 0; /* at rest */
	}
	SV_UNLOCK(c.flow_lock);
	return did;
}

/* The flow at a place of `timers` that is due. A function of its own for the same reason. */
__noinline int tick_timer(u32 timer, u64 now)
{
	struct sv_flow_slot_key *which = bpf_map_lookup_elem(&timed, &timer), key;
	u64 *at = bpf_map_lookup_elem(&timers, &timer);

	if (!at || !which || !*at || *at > now)
		return 0;
	key = *which;
	return tick_flow(&key, SV_TICK_TIMED, timer, now);
}

/*
 * The `i`th flow of a call. The only function that the loop calls: Linux 6.1 takes two ways that meet behind calls for a loop
 * without end.
 */
__noinline int tick_next(struct __sk_buff *skb, u32 what, u32 i, u64 now)
{
	u32 at = SV_ETH_LEN + sizeof(struct sv_tick_call), timer = 0;
	struct sv_flow_slot_key key;

	if (i >= SV_TICK_MAX)
		return 0;
	if (what == SV_TICK_TIMED) {
		if (bpf_skb_load_bytes(skb, at + i * sizeof(timer), &timer, sizeof(timer)))
			return 0;
		return tick_timer(timer, now);
	}
	if (bpf_skb_load_bytes(skb, at + i * sizeof(key), &key, sizeof(key)))
		return 0;
	return tick_flow(&key, what, 0, now);
}

SEC("tc")
int selvedge_tick(struct __sk_buff *skb)
{
	struct sv_tick_call call = {0};
	u64 now = bpf_ktime_get_ns();
	u32 did = 0, result;

	if (bpf_skb_load_bytes(skb, SV_ETH_LEN, &call, sizeof(call)))
		return 0;
	if (call.what == SV_TICK_EXPIRE)
		now = call.now;
	for (u32 i = 0; i < SV_TICK_MAX; i++) {
		if (i >= call.count)
			break;
		result = (u32)tick_next(skb, call.what, i, now);
		if (result & NO_EVENT)
			return (int)(did | SV_TICK_FULL);
		did = sv_forget32(did + (result & TOUCHED));
	}
	return (int)did;
}

#endif
