/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The feedback option and TCP's reserved bits, in bytes. A reserved bit announces the option, which stands last in the
 * header, where edges put it: no walk through other options, whose bytes may look like anything.
 *
 *   kind 253 (RFC 4727) | length 8 | payload bytes received, 24 bits | of these, bytes marked, 24 bits
 *
 * Adding it to a frame or cutting it out needs the driver's own way to change a frame's length; where that is dear, an
 * option is blanked by eight no-operations instead, which any TCP skips.
 */
#ifndef SV_OPTION_H
#define SV_OPTION_H

#include "feedback.h"
#include "packet.h"
#include "parse.h"

#define SV_OPTION_KIND 253

/* What `tcp`, whose whole header lies before `end`, says to edges. Follows sv_parse. */
SV_FN void sv_option_parse(const u8 *tcp, const u8 *end, struct sv_packet *p)
{
	u32 len = p->l4_header_len;
	const u8 *option = tcp + sv_mask(len - SV_PACK_LEN, 63);

	if (!SV_FITS(tcp, 20, end))
		return;
	p->tcp_reserved = tcp[12] & SV_RESERVED_MASK;
	if (!(p->tcp_reserved & SV_RESERVED_EDGE) || !(p->tcp_reserved & SV_RESERVED_PACK))
		return;
	p->pack = SV_PACK_MALFORMED;
	if (len < 20 + SV_PACK_LEN || p->tcp_flags & SV_TCP_SYN || !SV_FITS(option, SV_PACK_LEN, end) ||
	    option[0] != SV_OPTION_KIND || option[1] != SV_PACK_LEN)
		return;
	p->pack = SV_PACK_OK;
	for (int i = 0; i < 3; i++) {
		p->pack_total[i] = option[2 + i];
		p->pack_ce[i] = option[5 + i];
	}
}

SV_FN void sv_option_put(u8 *option, const struct sv_packet *p)
{
	option[0] = SV_OPTION_KIND;
	option[1] = SV_PACK_LEN;
	for (int i = 0; i < 3; i++) {
		option[2 + i] = p->pack_total[i];
		option[5 + i] = p->pack_ce[i];
	}
}

/* Bytes 12 and 13 of a TCP header as `p` wants them; `old` are those of the frame. */
SV_FN u16 sv_option_flags(const struct sv_packet *p, u16 old)
{
	u32 ours = SV_RESERVED_MASK | (p->dirty & SV_DIRTY_AE ? SV_TCP_AE : 0);

	return (u16)((old & ~(ours << 8) & 0xff00u) | (u32)(p->tcp_reserved & SV_RESERVED_MASK) << 8 | p->tcp_flags);
}

/*
 * Write flags and reserved bits of `p` into the frame it was parsed from, if they are dirty, and repair the checksum. As
 * sv_write_back.
 */
SV_FN int sv_option_write_flags(const struct sv_packet *p, u8 *data, u8 *end)
{
	u16 ethertype = 0;
	u32 l2 = sv_ethernet_len(data, end, &ethertype);
	u8 *tcp = data + l2 + p->ip_header_len;

	if (!(p->dirty & SV_DIRTY_FLAGS))
		return SV_PARSE_OK;
	if (!l2)
		return SV_PARSE_SHORT;
	if (p->proto != SV_PROTO_TCP || p->ip_header_len < 20)
		return SV_PARSE_MALFORMED;
	if (!SV_FITS(tcp, 20, end))
		return SV_PARSE_SHORT;
	sv_replace16(tcp, 12, sv_option_flags(p, sv_get16(tcp + 12)));
	return SV_PARSE_OK;
}

#endif
