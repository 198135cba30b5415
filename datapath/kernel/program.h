/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What each object of BPF programs begins with, before the shared headers: helpers, and what those headers take locks for. */
#ifndef SV_PROGRAM_H
#define SV_PROGRAM_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef struct bpf_spin_lock sv_lock;
#define SV_LOCK(lock) bpf_spin_lock(lock)
#define SV_UNLOCK(lock) bpf_spin_unlock(lock)
#define SV_SYN_OPTIONS_APART

#endif
