//! Mirrors of `datapath/vcc.h`.

#[cfg(test)]
mod claims;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod held;
#[cfg(test)]
mod life;
#[cfg(test)]
mod limiter_tests;
#[cfg(test)]
mod long_path_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod spec;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod two;

use wire::{FlowKey, Packet};

/// `SV_MAX_CLASSES`, `SV_MAX_RULES`
pub(crate) const MAX_CLASSES: usize = 16;
pub(crate) const MAX_RULES: usize = 32;

/// `SV_LAW_*`
pub(crate) const LAW_NONE: u8 = 0;
pub(crate) const LAW_DCTCP: u8 = 1;
pub(crate) const LAW_RENO: u8 = 2;
pub(crate) const LAW_CUBIC: u8 = 3;

/// `SV_CLASS_*`
pub(crate) const CLASS_POLICE: u8 = 1;
pub(crate) const CLASS_OBSERVE: u8 = 2;
pub(crate) const CLASS_OFF: u8 = 4;

/// `SV_CONN_BEGUN`, of `Conn::flags`
pub(crate) const BEGUN: u16 = 0x0001;
/// `SV_CONN_SND`
pub(crate) const SND: u16 = 0x0002;
/// `SV_CONN_OUT_SYN` and `SV_CONN_IN_SYN`
pub(crate) const BOTH_SYNS: u16 = 0x0018;
/// `SV_CONN_OUT_SCALE` and `SV_CONN_IN_SCALE`
pub(crate) const BOTH_SCALES: u16 = 0x0060;
/// `SV_REPORT_AWARE`, of `Report::flags`
pub(crate) const AWARE: u8 = 0x01;

/// `SV_VCC_CONF_DUPACKS`
pub(crate) const CONF_DUPACKS: u32 = 1;
/// `SV_VCC_CONF_TWO`
pub(crate) const CONF_TWO: u32 = 2;

/// `SV_CONN_DUPACKS`
pub(crate) const DUPACKS: usize = 3;

/// `SV_DCTCP_ONE`: 1.0 of alpha and beta.
pub(crate) const ONE: u16 = 1024;

/// `struct sv_vcc_class`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct VccClass {
    pub(crate) clamp: u32,
    pub(crate) floor: u32,
    pub(crate) beta: u16,
    pub(crate) law: u8,
    pub(crate) flags: u8,
}
const _: () = assert!(size_of::<VccClass>() == 12);

/// `struct sv_policy_rule`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PolicyRule {
    pub(crate) local: [u32; 4],
    pub(crate) local_mask: [u32; 4],
    pub(crate) remote: [u32; 4],
    pub(crate) remote_mask: [u32; 4],
    pub(crate) tenant: u32,
    pub(crate) port_first: u16,
    pub(crate) port_last: u16,
    pub(crate) class: u8,
    pub(crate) pad: [u8; 3],
}
const _: () = assert!(size_of::<PolicyRule>() == 76);

/// `struct sv_vcc_conf`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct VccConf {
    pub(crate) rto_min_ns: u64,
    pub(crate) n_rules: u32,
    pub(crate) flags: u32,
    pub(crate) class: [VccClass; MAX_CLASSES],
    pub(crate) rule: [PolicyRule; MAX_RULES],
}
const _: () = assert!(size_of::<VccConf>() == 2640);

/// `struct sv_cubic`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cubic {
    pub(crate) epoch_ns: u64,
    pub(crate) est: u64,
    pub(crate) w_max: u32,
    pub(crate) k: u32,
}
const _: () = assert!(size_of::<Cubic>() == 24);

/// `struct sv_conn`: what is tracked of a connection.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Conn {
    pub(crate) progress_ns: u64,
    pub(crate) rtt_start_ns: u64,
    pub(crate) srtt_ns: u32,
    pub(crate) rtt_seq: u32,
    pub(crate) iss: u32,
    pub(crate) snd_una: u32,
    pub(crate) snd_nxt: u32,
    pub(crate) granted: u32,
    pub(crate) round_end: u32,
    pub(crate) flight: u32,
    pub(crate) last_flight: u32,
    pub(crate) irs: u32,
    pub(crate) rcv_nxt: u32,
    pub(crate) new_seq: u32,
    pub(crate) new_mss: u16,
    pub(crate) mss: u16,
    pub(crate) window_in: u16,
    pub(crate) window_out: u16,
    pub(crate) flags: u16,
    pub(crate) new_scale: u8,
    pub(crate) in_scale: u8,
    pub(crate) out_scale: u8,
    pub(crate) dupacks: u8,
    pub(crate) backoff: u8,
    pub(crate) life: u8,
}
const _: () = assert!(size_of::<Conn>() == 80);

/// `struct sv_law`: the window that virtual congestion control computes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct WindowLaw {
    pub(crate) cubic: Cubic,
    pub(crate) cut_end: u32,
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) rest: u32,
    pub(crate) sum_total: u32,
    pub(crate) sum_ce: u32,
    pub(crate) policed: u32,
    pub(crate) alpha: u16,
    pub(crate) class: u8,
    pub(crate) flags: u8,
}
const _: () = assert!(size_of::<WindowLaw>() == 56);

/// `struct sv_report`: what was received and is owed, and what the peer reported.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Report {
    pub(crate) rcv_total: u32,
    pub(crate) rcv_ce: u32,
    pub(crate) told_total: u32,
    pub(crate) told_ce: u32,
    pub(crate) fb_total: u32,
    pub(crate) fb_ce: u32,
    pub(crate) marked: u32,
    pub(crate) flags: u8,
    pub(crate) stale: u8,
    pub(crate) pad: [u8; 2],
}
const _: () = assert!(size_of::<Report>() == 32);

/// `struct sv_bound`: what competes with the law for the receive window.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bound {
    pub(crate) spring: u32,
    pub(crate) spring_since: u16,
    pub(crate) spring_path: u16,
}
const _: () = assert!(size_of::<Bound>() == 8);

/// `struct sv_vcc`: what an edge remembers of a connection for virtual congestion control. Plain data without padding,
/// of 176 bytes, that a kernel program and its agent exchange; nothing but zeros before the connection's first packet.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vcc {
    pub(crate) conn: Conn,
    pub(crate) law: WindowLaw,
    pub(crate) report: Report,
    pub(crate) bound: Bound,
}
const _: () = assert!(size_of::<Vcc>() == 176);

extern "C" {
    #[cfg(test)]
    fn sv_edge_dctcp_alpha(alpha: u16, total: u32, marked: u32) -> u16;
    #[cfg(test)]
    fn sv_edge_dctcp_cut(cwnd: u32, alpha: u16, beta: u16) -> u32;
    #[cfg(test)]
    fn sv_edge_cube_root(x: u64) -> u32;
    #[cfg(test)]
    fn sv_edge_cubic_window(c: *const Cubic, mss: u32, t: u32) -> u32;
    fn sv_edge_deadline(conf: *const VccConf, v: *const Vcc) -> u64;
    fn sv_edge_window(conf: *const VccConf, v: *const Vcc) -> u32;
    fn sv_edge_due(conf: *const VccConf, v: *const Vcc, now: u64) -> std::ffi::c_int;
    fn sv_edge_fack(p: *const Packet, fack: *mut Packet);
    fn sv_edge_ack(conf: *const VccConf, v: *mut Vcc, k: *const FlowKey, update: std::ffi::c_int, p: *mut Packet);
}

impl Vcc {
    /// `sv_vcc_deadline`, ns; `None`: nothing is outstanding.
    pub(crate) fn deadline(&self, conf: &VccConf) -> Option<u64> {
        // SAFETY: reads two structs, whose mirrors assert the layouts.
        Some(unsafe { sv_edge_deadline(conf, self) }).filter(|&due| due != 0)
    }

    /// `sv_vcc_window`, bytes; `u32::MAX`: any.
    pub(crate) fn window(&self, conf: &VccConf) -> u32 {
        // SAFETY: as in `deadline`.
        unsafe { sv_edge_window(conf, self) }
    }

    /// `sv_vcc_due`
    pub(crate) fn due(&self, conf: &VccConf, now_ns: u64) -> bool {
        // SAFETY: as in `deadline`.
        unsafe { sv_edge_due(conf, self, now_ns) != 0 }
    }

    /// `sv_vcc_ack`: `key` is that of the guest's direction.
    pub(crate) fn ack(&mut self, conf: &VccConf, key: &FlowKey, update: bool) -> Packet {
        let mut packet = Packet::default();
        // SAFETY: as in `deadline`; writes the state and the packet.
        unsafe { sv_edge_ack(conf, self, key, update.into(), &mut packet) };
        packet
    }
}

/// `sv_vcc_fack`: the feedback packet that goes before `packet`.
pub(crate) fn fack(packet: &Packet) -> Packet {
    let mut fack = Packet::default();
    // SAFETY: reads one packet and writes another, whose mirror asserts the layout.
    unsafe { sv_edge_fack(packet, &mut fack) };
    fack
}
