/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a flow keeps of what was found for it in `ports`, `routes` and `remotes`. Only for edge.bpf.c. */
#ifndef SV_FOUND_H
#define SV_FOUND_H

/* Changed by the agent while packets pass: read once, before the tables, so that what is found there is not newer. */
static __always_inline u32 epoch_of(const struct sv_config *conf)
{
	return *(const volatile u32 *)&conf->epoch;
}

/* A CPU that was slow must not put what it found before a change under the epoch that followed. */
static __always_inline int is_older(u32 epoch, u32 kept)
{
	return kept && (s32)(epoch - kept) < 0;
}

/* Of the addresses of a network of 65,536, a /16 or a /112, each has another one. */
static __always_inline u16 fold(const u32 *address)
{
	u32 all = address[0] ^ address[1] ^ address[2] ^ address[3];

	return (u16)(all ^ all >> 16);
}

/*
 * What was found for a flow is kept in two steps, each under the lock. Readers take no lock: between the steps there is no epoch,
 * and unlocking orders the steps for them. Between the steps the flow must still be found where it was: if it was forgotten
 * meanwhile, its place may be another flow's. And nobody else must have begun to keep something, which `turn` tells.
 */
static __always_inline void cache_egress_lookup(struct sv_flow_slot *slot, const struct sv_packet *p, u32 vni, u32 epoch, u32 port,
				     const struct sv_route *route)
{
	struct sv_found *f = &slot->found;
	int older;
	u8 turn;

	bpf_spin_lock(&slot->lock);
	older = is_older(epoch, f->out_epoch);
	turn = f->out_turn;
	if (!older) {
		f->out_epoch = 0;
		f->out_port = port;
		f->out_peer = route->target;
		__builtin_memcpy(f->out_mac, route->mac, 6);
		f->out_turn = ++turn;
	}
	bpf_spin_unlock(&slot->lock);
	if (older || find_flow(p, vni, OUT) != slot)
		return;
	bpf_spin_lock(&slot->lock);
	if (f->out_turn == turn)
		f->out_epoch = epoch;
	bpf_spin_unlock(&slot->lock);
}

static __always_inline void cache_ingress_lookup(struct sv_flow_slot *slot, const struct sv_packet *p, u32 vni, u32 epoch, u32 port,
				    const u32 *from, u32 peer, u8 most)
{
	struct sv_found *f = &slot->found;
	int older;
	u8 turn;

	bpf_spin_lock(&slot->lock);
	older = is_older(epoch, f->in_epoch);
	turn = f->in_turn;
	if (!older) {
		f->in_epoch = 0;
		f->in_port = port;
		for (int i = 0; i < 4; i++)
			f->in_from[i] = from[i];
		f->in_peer = peer;
		f->in_most = most;
		f->in_to = fold(p->daddr);
		f->in_turn = ++turn;
	}
	bpf_spin_unlock(&slot->lock);
	if (older || find_flow(p, vni, IN) != slot)
		return;
	bpf_spin_lock(&slot->lock);
	if (f->in_turn == turn)
		f->in_epoch = epoch;
	bpf_spin_unlock(&slot->lock);
}

/*
 * Is what stands in `f` under `kept`, its epoch of one direction, of this epoch? Returns where to read it, or 0. The pointer depends
 * on the epoch that was read, which every processor heeds: nothing behind it is read before.
 */
static __always_inline const struct sv_found *found_in(const struct sv_found *f, const u32 *kept, u32 epoch)
{
	u64 read = *(const volatile u32 *)kept;

	if (!epoch || read != epoch)
		return 0;
	asm volatile("%0 &= 0" : "+r"(read));
	return (const void *)f + read;
}

/* Where the segments of a flow go to, and who sends them. */
struct sv_arrival {
	u32 port, peer, most;
};

/*
 * Does what was kept hold for `p`, which came `from` there? Then it is in `a`. The place may become another flow's meanwhile, whose
 * guest has another address: for whom it is, is read last, and every processor heeds that, as in found_in.
 */
static __always_inline int kept_in(const struct sv_found *f, u32 epoch, const struct sv_packet *p, const u32 *from,
				   struct sv_arrival *a)
{
	u64 read;

	f = found_in(f, &f->in_epoch, epoch);
	if (!f || f->in_from[0] != from[0] || f->in_from[1] != from[1] || f->in_from[2] != from[2] || f->in_from[3] != from[3])
		return 0;
	a->port = *(const volatile u32 *)&f->in_port;
	a->peer = *(const volatile u32 *)&f->in_peer;
	a->most = *(const volatile u8 *)&f->in_most;
	read = a->port ^ a->peer ^ a->most;
	asm volatile("%0 &= 0" : "+r"(read));
	f = (const void *)f + read;
	return a->port && *(const volatile u16 *)&f->in_to == fold(p->daddr);
}

#endif
