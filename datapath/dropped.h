/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What edges tell one another of packets that one of them has dropped on their way to its guest (docs/wire.md). The edge that has dropped
 * them keeps their bytes for a while, and tells the edge of their sender at once (SV_SHIM_DROP). That one decides as it does of what its
 * own host drops (fastlane.h), and may ask to have them sent again (SV_SHIM_AGAIN). So no payload crosses the network twice, and one
 * edge alone knows which copies of a packet are under way.
 *
 * Behind the shim comes an IP packet between the guests, of a protocol that no guest's transport has. Its payload is the TCP header of the
 * first of the packets, as their sender wrote it, without options. Its window says how long ago they were dropped: edges' agents may be
 * late, and what the sender's guest has sent again since then is none of these packets.
 *
 * And what a switch between the edges tells: the notification of a packet that it has dropped in the tunnel.
 */
#ifndef SV_DROPPED_H
#define SV_DROPPED_H

#include "encap.h"
#include "packet.h"
#include "parse.h"
#include "shim.h"

#define SV_DROPPED_PROTO 253 /* for experiments (RFC 3692), as counts of marks use it */
#define SV_DROPPED_TCP_LEN 20
#define SV_DROPPED_MAX_PACKETS 128 /* of one message; no stack makes larger segments */

/* Of SV_SHIM_DROP: how long ago it was, in sv_packet.window, in units of 16384 ns; 0: nobody knows. */
#define SV_DROPPED_AGE_SHIFT 14
#define SV_DROPPED_AGE_MAX 0xffffu

SV_FN u16 sv_dropped_age(u64 ns)
{
	u64 age = (ns >> SV_DROPPED_AGE_SHIFT) + 1;

	return (u16)(age < SV_DROPPED_AGE_MAX ? age : SV_DROPPED_AGE_MAX);
}

/* When it was dropped, by the clock of who hears of it at `now`, ns; 0: nobody knows. */
SV_FN u64 sv_dropped_at(u16 age, u64 now)
{
	u64 ns = (u64)age << SV_DROPPED_AGE_SHIFT;

	return age && ns < now ? now - ns : 0;
}

/* The DSCP of notifications, of the pool for local use (RFC 2474, section 6); in the tunnel that of the outer header. */
#define SV_NOTIFICATION_DSCP 43

/* Does the IP header of the frame say that it is a notification? */
SV_FN int sv_notification_is(const u8 *data, const u8 *end)
{
	if (!SV_FITS(data, SV_ETH_LEN + 2, end))
		return 0;
	if (sv_word16(data + 12) == SV_ETHERTYPE_IPV4)
		return data[SV_ETH_LEN + 1] >> 2 == SV_NOTIFICATION_DSCP;
	return sv_word16(data + 12) == SV_ETHERTYPE_IPV6 && (sv_word16(data + SV_ETH_LEN) >> 6 & 0x3f) == SV_NOTIFICATION_DSCP;
}

SV_FN void sv_dropped_swap(struct sv_packet *p)
{
	for (int i = 0; i < 4; i++) {
		u32 from = p->daddr[i];

		p->daddr[i] = p->saddr[i];
		p->saddr[i] = from;
	}
}

/*
 * `p`: the packet behind the tunnel's headers of a notification. Returns 0 unless it is TCP's. Then `p` describes the packet that was dropped,
 * as its sender sent it: of it only the headers are there.
 */
SV_FN int sv_notification_read(struct sv_packet *p)
{
	if (p->proto != SV_PROTO_TCP)
		return 0;
	sv_dropped_swap(p);
	p->segment_size = 0;
	return 1;
}

/* Is there something to send again? After a pure ACK the next one says the same. */
SV_FN int sv_notification_matters(const struct sv_packet *p)
{
	return p->payload || p->tcp_flags & (SV_TCP_SYN | SV_TCP_FIN);
}

/*
 * `tcp`: SV_DROPPED_TCP_LEN bytes behind the IP header, which `p` describes. Returns 0 unless this tells of dropped packets. Then `p`
 * describes them as their sender sent them.
 */
SV_FN int sv_dropped_read(const u8 *shim, const u8 *tcp, struct sv_packet *p)
{
	struct sv_shim s;

	if (p->proto != SV_DROPPED_PROTO || !sv_shim_read(shim, &s) || (s.type != SV_SHIM_DROP && s.type != SV_SHIM_AGAIN))
		return 0;
	if (s.value > 0xffff || s.id > s.value || (s.id && s.value > (u32)s.id * SV_DROPPED_MAX_PACKETS))
		return 0;
	if (!s.value && !(tcp[13] & (SV_TCP_SYN | SV_TCP_FIN)))
		return 0;
	if (s.type == SV_SHIM_DROP)
		sv_dropped_swap(p);
	p->proto = SV_PROTO_TCP;
	p->sport = sv_get16(tcp);
	p->dport = sv_get16(tcp + 2);
	p->seq = sv_get32(tcp + 4);
	p->ack = sv_get32(tcp + 8);
	p->tcp_flags = tcp[13];
	p->window = sv_get16(tcp + 14);
	p->l4_header_len = SV_DROPPED_TCP_LEN;
	p->payload = s.value;
	p->segment_size = s.id < s.value ? s.id : 0;
	return 1;
}

/* Writes the shim and the TCP header that tell of `p`. `type`, `detail`: of the shim. */
SV_FN void sv_dropped_write(u8 *shim, u8 *tcp, const struct sv_packet *p, u8 type, u8 detail)
{
	struct sv_shim s = {0};

	s.type = type;
	s.detail = detail;
	s.value = p->payload;
	s.id = p->segment_size;
	sv_shim_write(shim, &s);
	sv_put16(tcp, p->sport);
	sv_put16(tcp + 2, p->dport);
	sv_put32(tcp + 4, p->seq);
	sv_put32(tcp + 8, p->ack);
	sv_put16(tcp + 12, (u16)(SV_DROPPED_TCP_LEN / 4 << 12 | p->tcp_flags));
	sv_put16(tcp + 14, p->window);
	for (int i = 16; i < SV_DROPPED_TCP_LEN; i++)
		tcp[i] = 0;
}

#endif
