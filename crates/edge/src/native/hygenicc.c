/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols of hygenicc.h and quota.h. */
#ifdef SV_BALANCE_TEST
#include "toy.h"
#endif
#include "edge.h"
#include "quota.h"

u32 sv_edge_hyg_tick(struct sv_hyg_bucket *b, u32 n, struct sv_hyg_uplink *u, const struct sv_hyg_conf *c, u64 now);
int sv_edge_hyg_schedule(struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 backlog, u64 bytes, u64 now, u64 *at);
void sv_edge_hyg_set_rate(struct sv_hyg_bucket *b, const struct sv_hyg_uplink *u, const struct sv_hyg_conf *c, u64 now);
int sv_edge_hyg_rests(const struct sv_hyg_bucket *b, const struct sv_hyg_uplink *u, const struct sv_hyg_conf *c);
u16 sv_edge_hyg_asks(struct sv_hyg_pair *q);
void sv_edge_hyg_hear(struct sv_hyg *h, u16 count, u64 now);
u64 sv_edge_hyg_bytes(const struct sv_packet *p);
u32 sv_edge_hold(struct sv_hyg *h, u64 bytes, u64 now);
void sv_edge_hyg_egress(struct sv_hyg *h, struct sv_packet *p, u64 now);
int sv_edge_hyg_ingress(struct sv_hyg *h, const struct sv_packet *p, u64 now);
int sv_edge_hyg_is_feedback(const struct sv_packet *p);
int sv_edge_hyg_counts(const struct sv_packet *p);
int sv_edge_hyg_overdue(const struct sv_hyg_pair *q, const struct sv_hyg_conf *c, u64 now);
int sv_edge_hyg_refuses(const struct sv_hyg_part *to, const struct sv_hyg_conf *c, int refusing, u64 now);
void sv_edge_pay(const struct sv_conf *conf, struct sv_relay *r, struct sv_hyg_pair *q, u64 now, struct sv_packet *p);
u32 sv_edge_quota_admit(const struct sv_bounds *b, const struct sv_tally *table, const struct sv_tally *port, u32 began);
u32 sv_edge_quota_began(const struct sv_packet *p, int egress);
u8 sv_edge_flow_saw(u8 seen, int egress);

u32 sv_edge_hyg_tick(struct sv_hyg_bucket *b, u32 n, struct sv_hyg_uplink *u, const struct sv_hyg_conf *c, u64 now)
{
	return sv_hyg_tick(b, n, u, c, now);
}

int sv_edge_hyg_schedule(struct sv_hyg_bucket *b, const struct sv_hyg_conf *c, u64 backlog, u64 bytes, u64 now, u64 *at)
{
	return sv_hyg_schedule(b, c, backlog, bytes, now, at);
}

void sv_edge_hyg_set_rate(struct sv_hyg_bucket *b, const struct sv_hyg_uplink *u, const struct sv_hyg_conf *c, u64 now)
{
	sv_hyg_set_rate(b, u, c, now);
}

int sv_edge_hyg_rests(const struct sv_hyg_bucket *b, const struct sv_hyg_uplink *u, const struct sv_hyg_conf *c)
{
	return sv_hyg_rests(b, u, c);
}

u16 sv_edge_hyg_asks(struct sv_hyg_pair *q)
{
	return sv_hyg_asks(q);
}

void sv_edge_hyg_hear(struct sv_hyg *h, u16 count, u64 now)
{
	sv_hyg_hear(h, count, now);
}

u64 sv_edge_hyg_bytes(const struct sv_packet *p)
{
	return sv_hyg_bytes(p);
}

u32 sv_edge_hold(struct sv_hyg *h, u64 bytes, u64 now)
{
	return sv_hold(h, 0, bytes, now);
}

void sv_edge_hyg_egress(struct sv_hyg *h, struct sv_packet *p, u64 now)
{
	sv_hyg_egress(h, p, now);
}

int sv_edge_hyg_ingress(struct sv_hyg *h, const struct sv_packet *p, u64 now)
{
	return sv_hyg_ingress(h, p, now);
}

int sv_edge_hyg_is_feedback(const struct sv_packet *p)
{
	return sv_hyg_is_feedback(p);
}

int sv_edge_hyg_counts(const struct sv_packet *p)
{
	return sv_hyg_counts(p);
}

int sv_edge_hyg_overdue(const struct sv_hyg_pair *q, const struct sv_hyg_conf *c, u64 now)
{
	return sv_hyg_overdue(q, c, now);
}

int sv_edge_hyg_refuses(const struct sv_hyg_part *to, const struct sv_hyg_conf *c, int refusing, u64 now)
{
	return sv_hyg_refuses(to, c, refusing, now);
}

void sv_edge_pay(const struct sv_conf *conf, struct sv_relay *r, struct sv_hyg_pair *q, u64 now, struct sv_packet *p)
{
	sv_hyg_pay(r, q, sv_balance_relay(&conf->balance), sv_balance_stamps(&conf->balance), sv_path_tick(now), p);
}

u32 sv_edge_quota_admit(const struct sv_bounds *b, const struct sv_tally *table, const struct sv_tally *port, u32 began)
{
	return sv_quota_admit(b, table, port, 0, began);
}

u32 sv_edge_quota_began(const struct sv_packet *p, int egress)
{
	return sv_quota_began(p, egress);
}

u8 sv_edge_flow_saw(u8 seen, int egress)
{
	return sv_flow_saw(seen, egress);
}
