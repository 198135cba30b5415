/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The MSS option of a SYN, lowered to what fits through the overlay (the practice of RFC 4459 section 3.2): guests that do
 * not hear ICMP still send what passes.
 */
#ifndef SV_MSS_H
#define SV_MSS_H

#include "arith.h"
#include "packet.h"
#include "parse.h"

/* The largest MSS for packets of `mtu` bytes; 0: no limit. Options count against what the MSS says (RFC 6691 section 2). */
SV_FN u16 sv_mss_limit(u8 family, u32 mtu)
{
	u32 headers = family == 4 ? 40 : 60;

	return mtu > headers && mtu <= 0xffff ? (u16)(mtu - headers) : 0;
}

/* Of two MTUs the smaller one; 0: none, which is one below the smallest. Without a branch: the verifier would follow all ways. */
SV_FN u32 sv_mtu_of_both(u32 a, u32 b)
{
	u32 x = a - 1, y = b - 1;

	return sv_select32(sv_is_above(x, y), y, x) + 1;
}

/*
 * The offset of the MSS option's value among `len` bytes of options that begin at `cur`, or 0. The last one, should there
 * be several: that is the one that receivers heed.
 */
SV_FN u32 sv_mss_find(const u8 *cur, const u8 *end, u32 len)
{
	u32 off = 0, found = 0;

	for (int i = 0; i < SV_TCP_MAX_OPTIONS; i++) {
		const u8 *opt = cur + (off & 63);
		u32 size;

		if (off >= len || !SV_FITS(opt, 1, end) || opt[0] == 0)
			break;
		if (opt[0] == 1) {
			off = sv_forget8(off + 1);
			continue;
		}
		if (off + 2 > len || !SV_FITS(opt, 2, end))
			break;
		size = opt[1];
		if (size < 2 || off + size > len)
			break;
		if (opt[0] == 2 && size == 4)
			found = off + 2;
		off = sv_forget8(off + size); /* at most `len` */
	}
	return found;
}

/* A 16-bit field at an odd offset adds to the checksum with its bytes exchanged (RFC 1071 section 2). */
SV_FN u16 sv_mss_as_summed(u16 value, u32 offset)
{
	return offset & 1 ? (u16)(value << 8 | value >> 8) : value;
}

/*
 * Lower the MSS of the TCP header in [tcp, end) to `limit`. Returns 1 if it was larger. For complete checksums; the kernel
 * program does the same with the kernel's helper, which knows those that offload left unfinished.
 */
SV_FN int sv_mss_clamp(u8 *tcp, u8 *end, u16 limit)
{
	u32 len, at;
	u16 old;

	if (!limit || !SV_FITS(tcp, 20, end) || !(tcp[13] & SV_TCP_SYN))
		return 0;
	len = (u32)(tcp[12] >> 4) * 4;
	if (len < 20 || !SV_FITS(tcp, len, end))
		return 0;
	at = sv_mss_find(tcp + 20, end, len - 20);
	if (!at)
		return 0;
	at += 20;
	old = sv_get16(tcp + at);
	if (old <= limit)
		return 0;
	sv_put16(tcp + at, limit);
	sv_put16(tcp + 16, sv_csum_update(sv_get16(tcp + 16), sv_mss_as_summed(old, at), sv_mss_as_summed(limit, at)));
	return 1;
}

#endif
