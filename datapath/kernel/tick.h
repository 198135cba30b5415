/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the agent has done to flows, by BPF_PROG_TEST_RUN: the timer laws, classes anew, the end of those that expired. A call
 * sees so few flows that packets do not wait for it. Only for edge.bpf.c.
 */
#ifndef SV_TICK_H
#define SV_TICK_H

/* Of one flow; bits. */
#define TOUCHED 0x1
#define STAYS 0x2     /* data is outstanding */
#define NO_EVENT 0x4  /* no room for one */

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

/* A function of its own, global: the verifier proves it once, not for each round of the loop. */
__noinline int tick_flow(const struct sv_flow_slot_key *which, u32 what, u64 now)
{
	struct sv_flow_slot_key key;
	struct sv_flow_slot *slot;
	struct sv_config *conf;
	struct sv_ctx c = {0};
	u32 zero = 0;
	int did;

	conf = bpf_map_lookup_elem(&config, &zero);
	c.vcc_conf = bpf_map_lookup_elem(&congestion, &zero);
	if (!which || !conf || !c.vcc_conf)
		return 0;
	key = *which;
	slot = bpf_map_lookup_elem(&flows, &key);
	if (!slot)
		return 0;
	if (what == SV_TICK_EXPIRE)
		return expire(slot, &key, conf->conf.idle, now);
	if (what == SV_TICK_TIMED) {
		if (!slot->timed)
			return 0; /* a flow of the same name was forgotten meanwhile */
		/* Most of them, every time. Read without the lock: whatever follows looks again. */
		if (is_outstanding(&slot->vcc) && !sv_vcc_due(&slot->vcc, c.vcc_conf, now))
			return STAYS;
	}
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
		c.vcc->flags = 0;
		SV_UNLOCK(c.flow_lock);
		return TOUCHED;
	}
	did = apply_timers(&c, &key);
	if (what != SV_TICK_TIMED || did & NO_EVENT)
		return did | STAYS;
	SV_LOCK(c.flow_lock);
	if (is_outstanding(c.vcc))
		did |= STAYS;
	else
		slot->timed = 0;
	SV_UNLOCK(c.flow_lock);
	return did;
}

/*
 * The next flow with data outstanding. Returns SV_TICK_DONE when this round has seen all, SV_TICK_FULL, or how many it touched. A
 * function of its own for the same reason.
 */
__noinline int tick_timed(u32 round, u64 now)
{
	struct sv_timed next = {0};
	u32 seen;
	int did;

	if (bpf_map_pop_elem(&timed, &next))
		return SV_TICK_DONE;
	seen = next.round == round;
	next.round = round;
	if (seen) {
		bpf_map_push_elem(&timed, &next, 0);
		return SV_TICK_DONE;
	}
	did = tick_flow(&next.key, SV_TICK_TIMED, now);
	if (did & NO_EVENT)
		next.round = round - 1;
	if (did & STAYS && bpf_map_push_elem(&timed, &next, 0))
		return 0; /* packets filled the place meanwhile: it is seen at the next sweep */
	return did & NO_EVENT ? SV_TICK_FULL : did & TOUCHED;
}

SEC("tc")
int selvedge_tick(struct __sk_buff *skb)
{
	struct sv_tick_call call = {0};
	struct sv_flow_slot_key key;
	u32 did = 0, result;
	u64 now = bpf_ktime_get_ns();

	if (bpf_skb_load_bytes(skb, SV_ETH_LEN, &call, sizeof(call)))
		return 0;
	if (call.what == SV_TICK_TIMED) {
		for (u32 i = 0; i < SV_TICK_MAX_TIMED; i++) {
			result = (u32)tick_timed(call.round, now);
			if (result & (SV_TICK_DONE | SV_TICK_FULL))
				return (int)(did | result);
			did = sv_forget32(did + result);
		}
		return (int)did;
	}
	if (call.what == SV_TICK_EXPIRE)
		now = call.now;
	for (u32 i = 0; i < SV_TICK_MAX; i++) {
		if (i >= call.count)
			break;
		if (bpf_skb_load_bytes(skb, SV_ETH_LEN + sizeof(call) + i * sizeof(key), &key, sizeof(key)))
			break;
		result = (u32)tick_flow(&key, call.what, now);
		if (result & NO_EVENT)
			return (int)(did | SV_TICK_FULL);
		did = sv_forget32(did + (result & TOUCHED));
	}
	return (int)did;
}

#endif
