/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The stages of the edge, and their order: it stands here and nowhere else.
 *
 * The caller looks the state up and passes pointers; nothing is kept. Each state is guarded by its own lock, one at a
 * time, never nested. In BPF the includer defines sv_lock, SV_LOCK and SV_UNLOCK as bpf_spin_lock before including this
 * file; natively an edge is owned by one thread and they are nothing.
 */
#ifndef SV_EDGE_H
#define SV_EDGE_H

#include "arith.h"
#include "flow.h"
#include "flowcell.h"
#include "packet.h"

#ifndef SV_LOCK
#define SV_LOCK(lock) ((void)(lock))
#define SV_UNLOCK(lock) ((void)(lock))
typedef int sv_lock;
#endif

/* sv_conf.balance */
#define SV_BALANCE_ECMP 0     /* label 0: the fabric hashes the five-tuple */
#define SV_BALANCE_FLOWCELL 1

struct sv_conf {
	u64 idle;	  /* ns without a packet after which a flow is forgotten */
	u32 balance;	  /* SV_BALANCE_* */
	u32 cell_bytes;	  /* flowcell threshold, payload bytes */
};

SV_ASSERT_SIZE(struct sv_conf, 16);

/* What one call may use. */
struct sv_ctx {
	const struct sv_conf *conf;
	struct sv_flow *flow;	      /* NULL: the flow table is full */
	struct sv_flowcell *flowcell; /* NULL exactly when flow is */
	sv_lock *flow_lock;	      /* guards both */
	const u16 *labels;	      /* schedule of the destination, immutable */
	u32 n_labels;
	u32 hash;		      /* of the flow, sv_flow_hash */
	u64 now;		      /* ns, never decreasing */
};

/* Result bits of the stages. */
#define SV_BEGAN 0x1	  /* a connection began with this packet: state beyond this context must start anew too */
#define SV_CELL_OPENED 0x2
#define SV_CELL_LATE 0x4  /* a newer flowcell was seen before */

/* A flow without state keeps one path; without cells, because nothing could number them. */
SV_FN void sv_label_by_hash(const struct sv_ctx *c, struct sv_packet *p)
{
	u32 n = c->n_labels > SV_MAX_LABELS ? SV_MAX_LABELS : c->n_labels;

	if (!n)
		return;
	p->label = c->labels[sv_mask(c->hash % n, SV_MAX_LABELS - 1)];
	p->dirty |= SV_DIRTY_LABEL;
}

/* From the guest to the fabric: track the flow, then label. Returns SV_BEGAN, SV_CELL_OPENED. */
SV_FN u32 sv_egress(struct sv_ctx *c, struct sv_packet *p)
{
	u32 result = 0;

	if (!c->flow || !c->flowcell) {
		if (c->conf->balance == SV_BALANCE_FLOWCELL)
			sv_label_by_hash(c, p);
		return 0;
	}
	SV_LOCK(c->flow_lock);
	if (sv_flow_track(c->flow, p, c->conf->idle, c->now)) {
		struct sv_flowcell zero = {0};

		*c->flowcell = zero;
		result |= SV_BEGAN;
	}
	/* Cell and label are read and committed under this one hold, or two CPUs could mix two cells' labels. */
	if (c->conf->balance == SV_BALANCE_FLOWCELL &&
	    sv_flowcell_assign(c->flowcell, c->conf->cell_bytes, c->labels, c->n_labels, c->hash, p))
		result |= SV_CELL_OPENED;
	SV_UNLOCK(c->flow_lock);
	return result;
}

/*
 * From the fabric to the guest: track the flow, note the flowcell. Holding and reordering come last and are the
 * caller's: a kernel program cannot hold packets. Returns SV_BEGAN, SV_CELL_LATE.
 */
SV_FN u32 sv_ingress(struct sv_ctx *c, struct sv_packet *p)
{
	u32 result = 0;

	if (!c->flow || !c->flowcell)
		return 0;
	SV_LOCK(c->flow_lock);
	if (sv_flow_track(c->flow, p, c->conf->idle, c->now)) {
		struct sv_flowcell zero = {0};

		*c->flowcell = zero;
		result |= SV_BEGAN;
	}
	if (sv_flow_note_cell(c->flow, p))
		result |= SV_CELL_LATE;
	SV_UNLOCK(c->flow_lock);
	return result;
}

/* The timer laws of one flow. Returns 1 when the flow has expired and its state is to be freed. */
SV_FN int sv_tick(struct sv_ctx *c)
{
	int expired;

	if (!c->flow)
		return 0;
	SV_LOCK(c->flow_lock);
	expired = sv_flow_expired(c->flow, c->conf->idle, c->now);
	SV_UNLOCK(c->flow_lock);
	return expired;
}

#endif
