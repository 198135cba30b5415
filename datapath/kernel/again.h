/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a guest sends again: does it leave beside the edge's own copies, and what do those behind it need? Only for fastlane.bpf.c, behind its
 * maps.
 */
#ifndef SV_AGAIN_H
#define SV_AGAIN_H

/*
 * The timestamp of a TCP segment where it stands alone at the front of the options, as RFC 7323 recommends (appendix A). Returns 0 if
 * there is none.
 */
static __always_inline int read_stamp(struct __sk_buff *skb, const struct sv_packet *p, u32 *stamp)
{
	u8 option[8] = {0};

	if (p->l4_header_len < 32 || p->tcp_flags & SV_TCP_SYN ||
	    bpf_skb_load_bytes(skb, SV_ETH_LEN + p->ip_header_len + 20, option, sizeof(option)) ||
	    sv_get32(option) != 0x0101080a)
		return 0;
	*stamp = sv_get32(option + 4);
	return 1;
}

/* The guest sends it again: with which timestamp? */
static __noinline int note_stamp(struct __sk_buff *skb, struct sv_fast *f, const struct sv_packet *p)
{
	u32 stamp = 0;

	if (!f || !p || !read_stamp(skb, p, &stamp))
		return 0;
	bpf_spin_lock(&f->lock);
	sv_stamp_note(&f->stamp, p->seq, f->lane.conn.snd_una, f->lane.conn.snd_nxt, stamp);
	bpf_spin_unlock(&f->lock);
	return 0;
}

/* What the guest has sent again, from this number on, goes no further. */
static __noinline int forget_again(struct sv_fast *f, u32 seq)
{
	if (!f)
		return 0;
	bpf_spin_lock(&f->lock);
	sv_retrans_forget(&f->again, seq);
	bpf_spin_unlock(&f->lock);
	return 0;
}

/*
 * Queues in this host are long and grow: a copy passes them in less than two round trips as they were measured before, and where few
 * were, in less than this. Guests' timeouts are longer, and get through.
 */
#define ROUND_TRIPS 2
#define LEAST_PATIENCE_NS 10000000u

/* Under the lock. */
static __always_inline u64 patience(const struct sv_fast *f)
{
	u64 rtt = sv_fastlane_rtt(&f->lane);

	rtt = ROUND_TRIPS * (rtt > f->longest ? rtt : f->longest);
	return rtt > LEAST_PATIENCE_NS ? rtt : LEAST_PATIENCE_NS;
}

/*
 * One packet that the guest sends again: is the edge's own copy of it under way, of all its bytes before `end`? With `leaves`, it counts
 * as one more. Global: the verifier proves it once, not for each round of the loop.
 */
__noinline int one_again(const struct sv_fast_copy_key *key, u32 end, u32 leaves)
{
	u64 now = bpf_ktime_get_ns();
	struct sv_fastlane_copy *c;
	struct sv_fast *f;
	int under_way = 0;

	if (!key)
		return 0;
	f = bpf_map_lookup_elem(&fast, &key->of);
	c = bpf_map_lookup_elem(&fast_copies, key);
	if (!f || !c)
		return 0;
	bpf_spin_lock(&f->lock);
	if (c->seq == key->seq) {
		/* What waits to be sent again is as good as under way, for no longer than that could be. */
		under_way = sv_fastlane_under_way(c, patience(f), now) ||
			    (c->waits == SV_FASTLANE_WAITS_TIME && now < c->sent + patience(f));
		/* Guests put what they send again together anew: of the rest there is no copy. */
		under_way = under_way && !sv_seq_after(end, c->end);
		if (leaves && c->copies < 0xffff)
			c->copies++;
	}
	bpf_spin_unlock(&f->lock);
	return under_way;
}

#define MAX_PACKETS 64

/*
 * The entries of packets that the segment repeats: with `leaves` they count one copy more. Returns 1 if copies of all that it has are
 * under way. Guests cut anew what they send again; so where no entry begins with it, those before and behind that are looked for at the
 * distances at which others begin. Global: the verifier proves it once.
 */
__noinline int packets_again(const struct sv_packet *p, u32 ifindex, u32 leaves)
{
	struct sv_fast_copy_key key = {0};
	u32 size, all = 1, n, ahead, end;
	struct sv_fast *f;

	if (!p)
		return 0;
	fast_key(&key.of, p, ifindex, 1);
	key.seq = p->seq;
	f = bpf_map_lookup_elem(&fast, &key.of);
	if (!f)
		return 0;
	size = p->segment_size ? p->segment_size : p->payload;
	if (f->size && !bpf_map_lookup_elem(&fast_copies, &key)) {
		size = f->size;
		ahead = sv_seq_after(f->place, p->seq) ? (f->place - p->seq) % size : size - (p->seq - f->place) % size;
		key.seq = p->seq - (size - ahead) % size;
	}
	end = sv_conn_end(p);
	for (n = 0; n < MAX_PACKETS; n++) {
		if (n && (!size || !sv_seq_after(p->seq + p->payload, key.seq)))
			break;
		if (!one_again(&key, size && sv_seq_after(end, key.seq + size) ? key.seq + size : end, leaves))
			all = 0;
		if (!all && !leaves)
			break;
		key.seq += size;
	}
	return n < MAX_PACKETS && all;
}

#endif
