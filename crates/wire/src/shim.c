/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Symbols for the inline functions of parse.h, option.h, encap.h and dropped.h. */
#include <stddef.h>

#include "dropped.h"
#include "ecn.h"
#include "encap.h"
#include "option.h"
#include "parse.h"

int sv_wire_parse(const u8 *data, size_t len, struct sv_packet *p);
int sv_wire_write_back(const struct sv_packet *p, u8 *data, size_t len);

int sv_wire_parse(const u8 *data, size_t len, struct sv_packet *p)
{
	const u8 *end = data + len;
	int parsed = sv_parse(data, end, len > 0xffffffffu ? 0xffffffffu : (u32)len, p);
	u16 ethertype = 0;

	if (parsed == SV_PARSE_OK && p->proto == SV_PROTO_TCP)
		sv_option_parse(data + sv_ethernet_len(data, end, &ethertype) + p->ip_header_len, end, p);
	return parsed;
}

int sv_wire_write_back(const struct sv_packet *p, u8 *data, size_t len)
{
	struct sv_packet none = *p;
	int checked;

	/* All or nothing: look before the first of the two writes. */
	none.dirty = 0;
	checked = sv_write_back(&none, data, data + len);
	if (checked == SV_PARSE_OK)
		checked = sv_option_write_flags(p, data, data + len);
	return checked == SV_PARSE_OK ? sv_write_back(p, data, data + len) : checked;
}

void sv_wire_option_put(const struct sv_packet *p, u8 *option);

/* `option` has room for 8 bytes. */
void sv_wire_option_put(const struct sv_packet *p, u8 *option)
{
	sv_option_put(option, p);
}

void sv_wire_encap_pack(const struct sv_encap *e, u32 *first, u32 *second);
int sv_wire_encap_unpack(u32 first, u32 second, struct sv_encap *e);
int sv_wire_encap_read(const u8 *data, size_t len, u16 port, struct sv_outer *o);
u32 sv_wire_encap_cell(u32 newest, u8 cell);
int sv_wire_encap_ecn(u8 inner, u8 outer);

void sv_wire_encap_pack(const struct sv_encap *e, u32 *first, u32 *second)
{
	sv_encap_pack(e, first, second);
}

int sv_wire_encap_unpack(u32 first, u32 second, struct sv_encap *e)
{
	return sv_encap_unpack(first, second, e);
}

int sv_wire_encap_read(const u8 *data, size_t len, u16 port, struct sv_outer *o)
{
	return sv_encap_read(data, data + len, port, o);
}

u32 sv_wire_encap_cell(u32 newest, u8 cell)
{
	return sv_encap_cell(newest, cell);
}

int sv_wire_encap_ecn(u8 inner, u8 outer)
{
	return sv_ecn_merge(inner, outer);
}

int sv_wire_notification_is(const u8 *frame, size_t len);
int sv_wire_notification_read(struct sv_packet *p);

int sv_wire_notification_is(const u8 *frame, size_t len)
{
	return sv_notification_is(frame, frame + len);
}

int sv_wire_notification_read(struct sv_packet *p)
{
	return sv_notification_read(p);
}

int sv_wire_shim_read(const u8 *bytes, struct sv_shim *shim);
void sv_wire_shim_write(u8 *bytes, const struct sv_shim *shim);
void sv_wire_heard_note(struct sv_heard *heard, const struct sv_encap *e, u64 now);
void sv_wire_heard_sent(struct sv_heard *heard, u64 now);
u8 sv_wire_heard_version(const struct sv_heard *heard, u8 most, u64 now);
u32 sv_wire_heard_age(const struct sv_heard *heard, u64 now);
int sv_wire_arrives(struct sv_packet *p, u8 outer, u8 wire);
u8 sv_wire_departs(const struct sv_packet *p);

int sv_wire_shim_read(const u8 *bytes, struct sv_shim *shim)
{
	return sv_shim_read(bytes, shim);
}

void sv_wire_shim_write(u8 *bytes, const struct sv_shim *shim)
{
	sv_shim_write(bytes, shim);
}

void sv_wire_heard_note(struct sv_heard *heard, const struct sv_encap *e, u64 now)
{
	sv_heard_note(heard, sv_encap_claim(e), e->version == SV_ENCAP_PLAIN, now);
}

void sv_wire_heard_sent(struct sv_heard *heard, u64 now)
{
	sv_heard_sent(heard, now);
}

u8 sv_wire_heard_version(const struct sv_heard *heard, u8 most, u64 now)
{
	return sv_heard_version(heard, most, now);
}

u32 sv_wire_heard_age(const struct sv_heard *heard, u64 now)
{
	return sv_heard_tick(now) - heard->at;
}

int sv_wire_arrives(struct sv_packet *p, u8 outer, u8 wire)
{
	return sv_ecn_arrives(p, outer, wire);
}

u8 sv_wire_departs(const struct sv_packet *p)
{
	return sv_ecn_departs(p);
}

int sv_wire_dropped_read(const u8 *shim, const u8 *frame, size_t len, struct sv_packet *p);
void sv_wire_dropped_write(u8 *shim, u8 *tcp, const struct sv_packet *p, u8 type, u8 detail);
u16 sv_wire_dropped_age(u64 ns);
u64 sv_wire_dropped_at(u16 age, u64 now);

/* As an edge does: the inner frame is parsed before. */
int sv_wire_dropped_read(const u8 *shim, const u8 *frame, size_t len, struct sv_packet *p)
{
	u16 ethertype = 0;
	size_t at;

	if (sv_ethernet_len(frame, frame + len, &ethertype) != SV_ETH_LEN)
		return 0; /* tagged */
	if (sv_parse(frame, frame + len, len > 0xffffffffu ? 0xffffffffu : (u32)len, p) != SV_PARSE_NOT_TRANSPORT)
		return 0;
	at = SV_ETH_LEN + (size_t)p->ip_header_len;
	return at + SV_DROPPED_TCP_LEN <= len && sv_dropped_read(shim, frame + at, p);
}

void sv_wire_dropped_write(u8 *shim, u8 *tcp, const struct sv_packet *p, u8 type, u8 detail)
{
	sv_dropped_write(shim, tcp, p, type, detail);
}

u16 sv_wire_dropped_age(u64 ns)
{
	return sv_dropped_age(ns);
}

u64 sv_wire_dropped_at(u16 age, u64 now)
{
	return sv_dropped_at(age, now);
}
