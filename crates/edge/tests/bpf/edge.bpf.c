/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The smallest tc programs around edge.h, to show that it compiles for BPF. The few kernel definitions are written out
 * so that clang alone suffices.
 */
struct bpf_spin_lock {
	unsigned int val;
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static unsigned long long (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;

typedef struct bpf_spin_lock sv_lock;
#define SV_LOCK(lock) bpf_spin_lock(lock)
#define SV_UNLOCK(lock) bpf_spin_unlock(lock)

#include "edge.h"
#include "fastlane.h"
#include "option.h"
#include "parse.h"

#define SEC(name) __attribute__((section(name), used))

/* The beginning of the kernel's struct of that name. */
struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
};

struct flow_value {
	struct bpf_spin_lock lock;
	struct sv_flow flow;
	struct sv_balance balance;
	struct sv_vcc vcc;
};

_Static_assert(sizeof(struct flow_value) <= 320, "a flow must not take more than AC/DC's own 320 bytes");

/* The class of a limiter; something else keeps its backlog. */
struct limit_value {
	struct bpf_spin_lock lock;
	struct sv_limit_queue queue;
	struct sv_limit limit;
	struct sv_pacer pacer;
	u64 rate;
};

struct schedule_value {
	u32 n;
	u16 labels[SV_MAX_LABELS];
};

struct {
	int (*type)[1]; /* BPF_MAP_TYPE_HASH */
	int (*max_entries)[1024];
	struct sv_flow_key *key;
	struct flow_value *value;
} flows SEC(".maps");

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	int (*max_entries)[1];
	u32 *key;
	struct schedule_value *value;
} schedules SEC(".maps");

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	int (*max_entries)[1];
	u32 *key;
	struct sv_vcc_conf *value;
} congestion SEC(".maps");

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	int (*max_entries)[1];
	u32 *key;
	struct limit_value *value;
} limits SEC(".maps");

static const struct sv_conf conf = { .idle = 60000000000ULL, .balance = { SV_BALANCE_FLOWCELL, .flowcell = { 65536 } } };

SEC("tc") int egress(struct __sk_buff *skb)
{
	u8 *data = (u8 *)(long)skb->data, *end = (u8 *)(long)skb->data_end;
	struct schedule_value *schedule;
	struct sv_vcc_conf *vcc_conf;
	struct flow_value *value;
	struct limit_value *limited;
	struct sv_flow_key key;
	struct sv_limit limit;
	struct sv_packet p;
	u32 zero = 0;

	if (sv_parse(data, end, skb->len, &p) != SV_PARSE_OK)
		return 0;
	sv_flow_key(&p, &key);
	schedule = bpf_map_lookup_elem(&schedules, &zero);
	value = bpf_map_lookup_elem(&flows, &key);
	vcc_conf = bpf_map_lookup_elem(&congestion, &zero);
	limited = bpf_map_lookup_elem(&limits, &zero);
	if (!schedule || !value || !vcc_conf || !limited)
		return 0;
	limit = limited->limit;
	limit.backlog = sv_pacer_backlog(&limited->pacer, limited->rate, bpf_ktime_get_ns());

	struct sv_ctx c = {
		.conf = &conf,
		.flow = &value->flow,
		.balance = &value->balance,
		.vcc = &value->vcc,
		.vcc_conf = vcc_conf,
		.flow_lock = &value->lock,
		.limit = &limit,
		.queue = &limited->queue,
		.queue_lock = &limited->lock,
		.paths = { .labels = schedule->labels, .n = schedule->n },
		.hash = sv_flow_hash(&key, 1),
		.now = bpf_ktime_get_ns(),
	};

	if (sv_egress(&c, &p) & SV_POLICED)
		return 2;
	SV_LOCK(&limited->lock);
	sv_pacer_take(&limited->pacer, limited->rate, skb->len, c.now);
	SV_UNLOCK(&limited->lock);
	sv_write_back(&p, data, end);
	sv_option_write_flags(&p, data, end);
	skb->mark = p.label | (u32)p.emit << 16;
	return 0;
}

SEC("tc") int ingress(struct __sk_buff *skb)
{
	u8 *data = (u8 *)(long)skb->data, *end = (u8 *)(long)skb->data_end;
	struct sv_vcc_conf *vcc_conf;
	struct flow_value *value;
	struct limit_value *limited;
	struct sv_flow_key key;
	struct sv_limit limit;
	struct sv_packet p;
	u32 zero = 0;

	if (sv_parse(data, end, skb->len, &p) != SV_PARSE_OK)
		return 0;
	sv_option_parse(data + SV_ETH_LEN + p.ip_header_len, end, &p);
	sv_flow_key_reverse(&p, &key);
	value = bpf_map_lookup_elem(&flows, &key);
	vcc_conf = bpf_map_lookup_elem(&congestion, &zero);
	limited = bpf_map_lookup_elem(&limits, &zero);
	if (!value || !vcc_conf || !limited)
		return 0;
	limit = limited->limit;
	limit.backlog = sv_pacer_backlog(&limited->pacer, limited->rate, bpf_ktime_get_ns());

	struct sv_ctx c = {
		.conf = &conf,
		.flow = &value->flow,
		.balance = &value->balance,
		.vcc = &value->vcc,
		.vcc_conf = vcc_conf,
		.flow_lock = &value->lock,
		.limit = &limit,
		.queue = &limited->queue,
		.queue_lock = &limited->lock,
		.now = bpf_ktime_get_ns(),
	};

	if (sv_tick(&c) & SV_EXPIRED)
		return 0;
	if (sv_ingress(&c, &p) & SV_CONSUMED)
		return 2;
	sv_write_back(&p, data, end);
	sv_option_write_flags(&p, data, end);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
