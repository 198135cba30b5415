/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for the inline functions of edge.h. A connection without `vcc_conf` is followed for its limiter alone. */
#ifdef SV_BALANCE_TEST
#include "toy.h"
#endif
#include "edge.h"
#include "owed.h"
#include "divert.h"
#include "relay.h"
#include "sparse.h"
#include "delay.h"

void sv_edge_flow_key(const struct sv_packet *p, int reverse, struct sv_flow_key *k);
u32 sv_edge_hash(const struct sv_flow_key *k, u64 seed);
u16 sv_edge_dctcp_alpha(u16 alpha, u32 total, u32 marked);
u32 sv_edge_dctcp_cut(u32 cwnd, u16 alpha, u16 beta);
u32 sv_edge_cube_root(u64 x);
u32 sv_edge_cubic_window(const struct sv_cubic *c, u32 mss, u32 t);
u32 sv_edge_egress(const struct sv_conf *conf, const struct sv_vcc_conf *vcc_conf, const struct sv_limit *limit,
		   struct sv_limit_queue *queue, struct sv_flow *flow, struct sv_balance *balance, struct sv_vcc *vcc,
		   struct sv_hyg *hyg, const struct sv_paths *paths, u32 hash, u64 now, struct sv_packet *p);
u32 sv_edge_ingress(const struct sv_conf *conf, const struct sv_vcc_conf *vcc_conf, const struct sv_limit *limit,
		    struct sv_limit_queue *queue, struct sv_flow *flow, struct sv_balance *balance, struct sv_vcc *vcc,
		    struct sv_hyg *hyg, const struct sv_paths *paths, u64 now, struct sv_packet *p);
u8 sv_edge_ecn_departs(const struct sv_packet *p);
int sv_edge_ecn_arrives(struct sv_packet *p, u8 outer, u8 wire);
u32 sv_edge_tick(const struct sv_conf *conf, const struct sv_vcc_conf *vcc_conf, struct sv_flow *flow,
		 struct sv_vcc *vcc, u64 now);
void sv_edge_hear(const struct sv_conf *conf, const struct sv_paths *paths, const struct sv_path_news *news, u64 now);
void sv_edge_tick_paths(const struct sv_conf *conf, const struct sv_paths *paths, u64 now);
void sv_edge_path_bind(struct sv_path *path, u64 rtt, u64 now);
u64 sv_edge_path_age(const struct sv_path *path, u64 now);
int sv_edge_path_congested(const struct sv_balance_conf *conf, const struct sv_path *path, u64 now);
u64 sv_edge_relay_ns(const struct sv_balance_conf *conf);
u32 sv_edge_takes(const struct sv_balance_conf *conf);
void sv_edge_relay_return(struct sv_relay *r, const struct sv_path_news *news);
void sv_edge_relay_note(struct sv_relay *r, const struct sv_path_news *news);
void sv_edge_relay_harvest(struct sv_relay *r, const struct sv_packet *p, u16 label);
int sv_edge_relay_take(const struct sv_conf *conf, struct sv_relay *r, u64 now, struct sv_path_news *news);
void sv_edge_relay_arrived(struct sv_relay *r, u16 label, u16 stamp, u64 now);
void sv_edge_relay_pay(const struct sv_conf *conf, struct sv_relay *r, u64 now, struct sv_packet *p);
u32 sv_edge_stamps(const struct sv_balance_conf *conf);
int sv_edge_keeps(const struct sv_balance_conf *conf);
u64 sv_edge_deadline(const struct sv_vcc_conf *conf, const struct sv_vcc *v);
u32 sv_edge_window(const struct sv_vcc_conf *conf, const struct sv_vcc *v);
int sv_edge_due(const struct sv_vcc_conf *conf, const struct sv_vcc *v, u64 now);
void sv_edge_fack(const struct sv_packet *p, struct sv_packet *fack);
void sv_edge_ack(const struct sv_vcc_conf *conf, struct sv_vcc *v, const struct sv_flow_key *k, int update,
		 struct sv_packet *p);
int sv_edge_balance(const struct sv_balance_conf *conf, struct sv_balance *b, const u16 *labels, u32 n, u32 prompt,
		    u32 hash, u64 now, struct sv_packet *p);
s32 sv_edge_limit_sample(struct sv_limit_queue *q, const struct sv_limit *l);
u32 sv_edge_spring_window(const struct sv_limit *l, s32 gradient, u32 mss, u32 window, u32 *ssthresh);
void sv_edge_limit_widen(struct sv_limit *l, u64 rate);
u32 sv_edge_spring_even(const struct sv_limit *l, u32 had, u32 mss, u32 before, u32 after);
int sv_edge_goes_first(struct sv_sparse *s, struct sv_sparse_flow *flows, u32 hash, u64 rate, u32 queued, u32 unpaid, u32 bytes,
		       u64 now);
u32 sv_edge_bulk_flows(const struct sv_sparse *s);
u32 sv_edge_pacer_backlog(const struct sv_pacer *s, u64 rate, u64 now);
u64 sv_edge_pacer_take(struct sv_pacer *s, u64 rate, u32 bytes, u64 now);
u32 sv_edge_divert_segment(struct sv_divert *r, const struct sv_packet *p, u32 now, int ready, struct sv_place *place);
void sv_edge_divert_drained(struct sv_divert *r, u16 number, u32 now);
void sv_edge_divert_restart(struct sv_divert *r);
int sv_edge_pacer_admit(struct sv_pacer *s, u64 rate, u64 horizon, u32 bytes, u64 now, u64 *at);
u32 sv_edge_limit_bytes(const struct sv_packet *p, u32 len);
void sv_edge_delay_count(struct sv_delays *d, u64 ns);
u64 sv_edge_delay_ns(u64 bytes, u64 rate);
void sv_edge_owed_count(struct sv_owed_marks *m, u32 marked);
void sv_edge_owed_pay(struct sv_relay *r, struct sv_owed_marks *m, u32 least, u32 stamps, u32 tick, struct sv_packet *p);
u32 sv_edge_told_new(struct sv_told *t, u16 count, u32 sent, u64 now);

void sv_edge_flow_key(const struct sv_packet *p, int reverse, struct sv_flow_key *k)
{
	if (reverse)
		sv_flow_key_reverse(p, k);
	else
		sv_flow_key(p, k);
}

u32 sv_edge_hash(const struct sv_flow_key *k, u64 seed)
{
	return sv_flow_hash(k, seed);
}

u32 sv_edge_egress(const struct sv_conf *conf, const struct sv_vcc_conf *vcc_conf, const struct sv_limit *limit,
		   struct sv_limit_queue *queue, struct sv_flow *flow, struct sv_balance *balance, struct sv_vcc *vcc,
		   struct sv_hyg *hyg, const struct sv_paths *paths, u32 hash, u64 now, struct sv_packet *p)
{
	struct sv_ctx c = {
		.conf = conf,
		.flow = flow,
		.balance = balance,
		.vcc = vcc_conf ? vcc : 0,
		.vcc_conf = vcc_conf,
		.conn = vcc && !vcc_conf ? &vcc->conn : 0,
		.bound = vcc && !vcc_conf ? &vcc->bound : 0,
		.limit = limit,
		.queue = queue,
		.hyg = hyg,
		.paths = *paths,
		.hash = hash,
		.now = now,
	};

	return sv_egress(&c, p);
}

u32 sv_edge_ingress(const struct sv_conf *conf, const struct sv_vcc_conf *vcc_conf, const struct sv_limit *limit,
		    struct sv_limit_queue *queue, struct sv_flow *flow, struct sv_balance *balance, struct sv_vcc *vcc,
		    struct sv_hyg *hyg, const struct sv_paths *paths, u64 now, struct sv_packet *p)
{
	struct sv_ctx c = {
		.conf = conf,
		.flow = flow,
		.balance = balance,
		.vcc = vcc_conf ? vcc : 0,
		.vcc_conf = vcc_conf,
		.conn = vcc && !vcc_conf ? &vcc->conn : 0,
		.bound = vcc && !vcc_conf ? &vcc->bound : 0,
		.limit = limit,
		.queue = queue,
		.hyg = hyg,
		.paths = *paths,
		.now = now,
	};

	return sv_ingress(&c, p);
}

u8 sv_edge_ecn_departs(const struct sv_packet *p)
{
	return sv_ecn_departs(p);
}

int sv_edge_ecn_arrives(struct sv_packet *p, u8 outer, u8 wire)
{
	return sv_ecn_arrives(p, outer, wire);
}

u32 sv_edge_tick(const struct sv_conf *conf, const struct sv_vcc_conf *vcc_conf, struct sv_flow *flow,
		 struct sv_vcc *vcc, u64 now)
{
	struct sv_ctx c = { .conf = conf, .flow = flow, .vcc = vcc_conf ? vcc : 0, .vcc_conf = vcc_conf, .now = now };

	return sv_tick(&c);
}

void sv_edge_hear(const struct sv_conf *conf, const struct sv_paths *paths, const struct sv_path_news *news, u64 now)
{
	struct sv_ctx c = { .conf = conf, .paths = *paths, .news = *news, .now = now };

	sv_hear(&c);
}

void sv_edge_tick_paths(const struct sv_conf *conf, const struct sv_paths *paths, u64 now)
{
	struct sv_ctx c = { .conf = conf, .paths = *paths, .now = now };

	sv_tick_paths(&c);
}

void sv_edge_path_bind(struct sv_path *path, u64 rtt, u64 now)
{
	sv_path_bind(path, rtt, now);
}

u64 sv_edge_path_age(const struct sv_path *path, u64 now)
{
	return sv_path_age(path, now);
}

int sv_edge_path_congested(const struct sv_balance_conf *conf, const struct sv_path *path, u64 now)
{
	return sv_balance_path_congested(conf, path, now);
}

u64 sv_edge_relay_ns(const struct sv_balance_conf *conf)
{
	return (u64)sv_balance_relay(conf) << SV_PATH_SHIFT;
}

u32 sv_edge_takes(const struct sv_balance_conf *conf)
{
	return sv_balance_takes(conf);
}

void sv_edge_relay_return(struct sv_relay *r, const struct sv_path_news *news)
{
	sv_relay_return(r, news);
}

void sv_edge_relay_note(struct sv_relay *r, const struct sv_path_news *news)
{
	sv_relay_note(r, news);
}

void sv_edge_relay_harvest(struct sv_relay *r, const struct sv_packet *p, u16 label)
{
	sv_relay_harvest(r, p, label);
}

int sv_edge_relay_take(const struct sv_conf *conf, struct sv_relay *r, u64 now, struct sv_path_news *news)
{
	return sv_relay_take(r, sv_balance_relay(&conf->balance), sv_path_tick(now), news);
}

void sv_edge_relay_arrived(struct sv_relay *r, u16 label, u16 stamp, u64 now)
{
	sv_relay_arrived(r, label, stamp, sv_path_tick(now));
}

void sv_edge_relay_pay(const struct sv_conf *conf, struct sv_relay *r, u64 now, struct sv_packet *p)
{
	sv_owed_pay(r, 0, sv_balance_relay(&conf->balance), sv_balance_stamps(&conf->balance), sv_path_tick(now), p);
}

u32 sv_edge_stamps(const struct sv_balance_conf *conf)
{
	return sv_balance_stamps(conf);
}

int sv_edge_keeps(const struct sv_balance_conf *conf)
{
	return sv_balance_keeps(conf);
}

u16 sv_edge_dctcp_alpha(u16 alpha, u32 total, u32 marked)
{
	return sv_dctcp_alpha(alpha, total, marked);
}

u32 sv_edge_dctcp_cut(u32 cwnd, u16 alpha, u16 beta)
{
	return sv_dctcp_cut(cwnd, alpha, beta);
}

u32 sv_edge_cube_root(u64 x)
{
	return sv_cube_root(x);
}

u32 sv_edge_cubic_window(const struct sv_cubic *c, u32 mss, u32 t)
{
	return sv_cubic_window(c, mss, t);
}

u64 sv_edge_deadline(const struct sv_vcc_conf *conf, const struct sv_vcc *v)
{
	return sv_vcc_deadline(v, conf);
}

u32 sv_edge_window(const struct sv_vcc_conf *conf, const struct sv_vcc *v)
{
	return sv_law_window(&v->law, sv_vcc_class_of(v, conf), v->report.flags & SV_REPORT_AWARE);
}

int sv_edge_due(const struct sv_vcc_conf *conf, const struct sv_vcc *v, u64 now)
{
	return sv_vcc_due(v, conf, now);
}

void sv_edge_fack(const struct sv_packet *p, struct sv_packet *fack)
{
	sv_report_fack(p, fack);
}

void sv_edge_ack(const struct sv_vcc_conf *conf, struct sv_vcc *v, const struct sv_flow_key *k, int update,
		 struct sv_packet *p)
{
	sv_vcc_ack(v, conf, k, update, p);
}

int sv_edge_balance(const struct sv_balance_conf *conf, struct sv_balance *b, const u16 *labels, u32 n, u32 prompt,
		    u32 hash, u64 now, struct sv_packet *p)
{
	struct sv_paths paths = { .labels = labels, .n = n, .prompt = (u16)prompt };

	return sv_balance_egress(conf, b, &paths, hash, now, p);
}

s32 sv_edge_limit_sample(struct sv_limit_queue *q, const struct sv_limit *l)
{
	return sv_limit_sample(q, l);
}

u32 sv_edge_spring_window(const struct sv_limit *l, s32 gradient, u32 mss, u32 window, u32 *ssthresh)
{
	return sv_spring_window(l, gradient, mss, window, ssthresh);
}

u32 sv_edge_pacer_backlog(const struct sv_pacer *s, u64 rate, u64 now)
{
	return sv_pacer_backlog(s, rate, now);
}

u64 sv_edge_pacer_take(struct sv_pacer *s, u64 rate, u32 bytes, u64 now)
{
	return sv_pacer_take(s, rate, bytes, now);
}

u32 sv_edge_divert_segment(struct sv_divert *r, const struct sv_packet *p, u32 now, int ready, struct sv_place *place)
{
	return sv_divert_segment(r, p, now, ready, place);
}

void sv_edge_divert_drained(struct sv_divert *r, u16 number, u32 now)
{
	sv_divert_drained(r, number, now);
}

void sv_edge_divert_restart(struct sv_divert *r)
{
	sv_divert_restart(r);
}

int sv_edge_pacer_admit(struct sv_pacer *s, u64 rate, u64 horizon, u32 bytes, u64 now, u64 *at)
{
	return sv_pacer_admit(s, rate, horizon, bytes, now, at);
}

void sv_edge_limit_widen(struct sv_limit *l, u64 rate)
{
	sv_limit_widen(l, rate);
}

u32 sv_edge_spring_even(const struct sv_limit *l, u32 had, u32 mss, u32 before, u32 after)
{
	return sv_spring_even(l, mss, sv_spring_share(l, had), before, after);
}

int sv_edge_goes_first(struct sv_sparse *s, struct sv_sparse_flow *flows, u32 hash, u64 rate, u32 queued, u32 unpaid, u32 bytes,
		       u64 now)
{
	return sv_sparse_goes_first(s, &flows[sv_sparse_set(hash)], hash, rate, queued, unpaid, bytes, now);
}

u32 sv_edge_bulk_flows(const struct sv_sparse *s)
{
	return sv_sparse_count(&s->in_bulk);
}

u32 sv_edge_limit_bytes(const struct sv_packet *p, u32 len)
{
	return sv_limit_bytes(p, len);
}

void sv_edge_delay_count(struct sv_delays *d, u64 ns)
{
	sv_delay_count(d, ns);
}

u64 sv_edge_delay_ns(u64 bytes, u64 rate)
{
	return sv_delay_ns(bytes, rate);
}

void sv_edge_owed_count(struct sv_owed_marks *m, u32 marked)
{
	sv_owed_count(m, marked);
}

void sv_edge_owed_pay(struct sv_relay *r, struct sv_owed_marks *m, u32 least, u32 stamps, u32 tick, struct sv_packet *p)
{
	sv_owed_pay(r, m, least, stamps, tick, p);
}

u32 sv_edge_told_new(struct sv_told *t, u16 count, u32 sent, u64 now)
{
	return sv_told_new(t, count, sent, now);
}
