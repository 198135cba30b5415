/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps of the kernel edge, counters and events. Only for edge.bpf.c. */
#ifndef SV_MAPS_H
#define SV_MAPS_H

#include "tables.h"

/* The agent sizes `flows` before it loads this. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct sv_flow_slot_key);
	__type(value, struct sv_flow_slot);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sv_reorder_alive);
} receiver SEC(".maps");

/*
 * The receiver's device. The kernel takes it out when the device ends, as it does with the agent. Each load of the programs
 * has its own: it is not pinned.
 */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32); /* ifindex */
} receiver_device SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SV_EVENT_KINDS);
	__type(key, u32);
	__type(value, u64); /* when an event of this kind was last sent, ns */
} event_times SEC(".maps");

/*
 * What the programs hold of the packet at hand, one for each: what is written here, unlike on the stack, the verifier
 * forgets, and need not follow anew for each combination of values. Each load has its own: it is not pinned.
 */
struct sv_scratch {
	struct sv_packet packet;
	struct sv_outer outer;
	u8 mac[8]; /* inner destination, in six of them */
	u64 now;   /* stages_now, not exact */
	u64 exact; /* the same, exact; of guests with a share */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct sv_scratch);
} scratch SEC(".maps");

static __always_inline struct sv_scratch *this_scratch(u32 which)
{
	return bpf_map_lookup_elem(&scratch, &which);
}

/* With a packet that is zero; what else is there is written before it is read. */
static __always_inline struct sv_scratch *new_scratch(u32 which)
{
	struct sv_scratch *s = this_scratch(which);

	if (s)
		__builtin_memset(__builtin_assume_aligned(s, 8), 0, sizeof(s->packet));
	return s;
}

static __always_inline struct sv_counters *find_counters(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

/* One CPU, and softirqs do not nest: nobody else writes. */
static __always_inline void count(struct sv_counters *c, u32 index, u64 n)
{
	c->n[index] += n;
}

static __always_inline int drop(struct sv_counters *c, u32 reason)
{
	count(c, reason, 1);
	return TC_ACT_SHOT;
}

static __always_inline struct sv_event *begin_event(u32 kind, u32 ifindex, const u32 *addr, u32 value, u64 now)
{
	struct sv_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	__builtin_memset(event, 0, sizeof(*event));
	event->time = now;
	event->kind = kind;
	event->ifindex = ifindex;
	for (int i = 0; i < 4; i++)
		event->addr[i] = addr[i];
	event->value = value;
	return event;
}

/* For the log: strangers can cause these, so each kind is sent once in a while only. `p`: the packet, or none. */
static __noinline int send_notice_of(u32 kind, u32 ifindex, const u32 *addr, u32 value, const struct sv_packet *p)
{
	u64 now = bpf_ktime_get_ns(), *last = bpf_map_lookup_elem(&event_times, &kind);
	struct sv_event *event;

	if (!addr || !last || (*last && now - *last < SV_EVENT_INTERVAL_NS))
		return 0;
	*last = now;
	event = begin_event(kind, ifindex, addr, value, now);
	if (!event)
		return 0;
	if (p)
		event->packet = *p;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline int send_notice(u32 kind, u32 ifindex, const u32 *addr, u32 value)
{
	return send_notice_of(kind, ifindex, addr, value, 0);
}

/* The guest's MAC address may have changed: the agent looks. Of each port for itself, so that no guest hides another's news. */
static __noinline int tell_mac(u32 ifindex, struct sv_port *port, const u32 *addr)
{
	u64 now = bpf_ktime_get_ns();
	struct sv_event *event;

	if (!port || !addr || (port->mac_at && now - port->mac_at < SV_EVENT_INTERVAL_NS))
		return 0;
	event = begin_event(SV_EVENT_MAC, ifindex, addr, 0, now);
	if (!event)
		return 0; /* and again with its next segment */
	port->mac_at = now;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* A segment that is carried without flow state. */
static __always_inline void count_untracked(struct sv_counters *c, int parsed, const struct sv_packet *p)
{
	count(c, SV_COUNT_UNTRACKED, 1);
	if (parsed == SV_PARSE_FRAGMENT)
		count(c, SV_COUNT_UNTRACKED_FRAGMENTS, 1);
	else if (sv_hides_transport(p))
		count(c, SV_COUNT_UNTRACKED_HEADERS, 1);
}

struct sv_asked {
	u64 since; /* when the interval began, ns */
	u64 n;	   /* packets asked for in it */
};

/*
 * What is counted apart: requests to the agent, answered probes, replies that the agent is told of, counts of marks that it is to send, and
 * what peers say of dropped packets.
 */
#define ASKED_EMIT 0
#define ASKED_PROBE 1
#define ASKED_REPLY 2
#define ASKED_MARKS 3
#define ASKED_TOLD 4

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 5);
	__type(key, u32);
	__type(value, struct sv_asked);
} asked SEC(".maps");

/* Is there room for one more in this CPU's interval? */
static __noinline int may_ask(u32 what, u64 most, u64 now)
{
	struct sv_asked *a = bpf_map_lookup_elem(&asked, &what);

	if (!a)
		return 0;
	if (now - a->since >= SV_EMIT_INTERVAL_NS) {
		a->since = now;
		a->n = 0;
	}
	return a->n++ < most;
}

/* A stage asks for packets: p->emit says which. Guests can make it ask at every segment; the agent has other work. */
static __noinline int send_emit(u32 ifindex, const struct sv_packet *p)
{
	struct sv_counters *counters = find_counters();
	u64 now = bpf_ktime_get_ns();
	struct sv_event *event;

	if (!p || !counters)
		return 0;
	if (!may_ask(ASKED_EMIT, SV_EMIT_MAX, now)) {
		count(counters, SV_COUNT_FACKS_WITHHELD, 1);
		return 0;
	}
	event = begin_event(SV_EVENT_EMIT, ifindex, p->daddr, p->emit, now);
	if (!event)
		return 0;
	event->packet = *p;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

#endif
