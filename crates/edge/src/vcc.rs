//! Virtual congestion control (AC/DC TCP): the administrator's settings, and the state that the edge reports.

use crate::names::{Amount, Named, Names, Preset, Setting};
use crate::native::{self, PolicyRule, Vcc, VccClass, VccConf};
use std::ops::RangeInclusive;
use units::{Bytes, Time};
use wire::Packet;

pub use native::Vcc as State;

/// 1.0 of [`Class::beta`] and [`Connection::alpha`].
pub const ONE: u16 = native::ONE;

/// Which window the edge computes for a connection of its guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// None but the clamp.
    None,
    /// DCTCP (RFC 8257), with the priority beta of He 2017, equation 3.2. Has no effect towards a peer whose edge does
    /// not report marks.
    Dctcp,
    /// RFC 6582.
    NewReno,
    /// RFC 9438.
    Cubic,
}

/// [`Class::beta`]
pub static BETA: Setting = Setting {
    name: "beta",
    of_port: None,
    about: "priority: 1 cuts as DCTCP does, 0 by twice as much",
    preset: Preset::Is(Amount::Share(1.0)),
    least: Amount::Share(0.0),
    most: Amount::Share(1.0),
};

/// [`Class::clamp`]
pub static CLAMP: Setting = Setting {
    name: "clamp",
    of_port: None,
    about: "largest window",
    preset: Preset::Off,
    least: Amount::Bytes(Bytes(1)),
    most: Amount::Bytes(Bytes(1 << 30)),
};

/// [`Class::floor`]
pub static FLOOR: Setting = Setting {
    name: "floor",
    of_port: None,
    about: "least window, at most the clamp",
    preset: Preset::Off,
    least: Amount::Bytes(Bytes(1)),
    most: Amount::Bytes(Bytes(1 << 30)),
};

/// The choices of an administrator. `None`: connections are left alone.
impl Names for Option<Law> {
    fn table() -> &'static [Named<Option<Law>>] {
        const WINDOW: &[&Setting] = &[&CLAMP, &FLOOR];
        static TABLE: [Named<Option<Law>>; 5] = [
            Named {
                value: Some(Law::Dctcp),
                name: "dctcp",
                aliases: &[],
                about: "DCTCP (RFC 8257) with the priority `beta`",
                settings: &[&BETA, &CLAMP, &FLOOR],
            },
            Named {
                value: Some(Law::NewReno),
                name: "newreno",
                aliases: &["reno"],
                about: "NewReno (RFC 6582)",
                settings: WINDOW,
            },
            Named { value: Some(Law::Cubic), name: "cubic", aliases: &[], about: "CUBIC (RFC 9438)", settings: WINDOW },
            Named { value: Some(Law::None), name: "none", aliases: &[], about: "only the clamp", settings: &[&CLAMP] },
            Named {
                value: None,
                name: "off",
                aliases: &[],
                about: "the edge leaves the connections alone",
                settings: &[],
            },
        ];
        &TABLE
    }
}

/// A share as [`Class::beta`] has it.
pub fn units_of(share: f64) -> u16 {
    (share * f64::from(ONE)).round() as u16
}

/// How flows of a kind are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    pub law: Law,
    /// Priority in 1/[`ONE`]: [`ONE`] cuts as DCTCP does, 0 by twice as much. Larger values count as [`ONE`].
    pub beta: u16,
    /// The window is never larger.
    pub clamp: Option<Bytes>,
    /// The window is never smaller; `None`: one segment. Windows below a segment make real guests wait for their persist
    /// timer: that is for studies.
    pub floor: Option<Bytes>,
    /// Drop segments that a guest sends beyond the granted window.
    pub police: bool,
    /// Compute and report only; windows and ECN stay as they are.
    pub observe: bool,
}

impl Class {
    /// Not treated at all: neither marked nor reported.
    pub const OFF: Class = Class { law: Law::None, beta: ONE, clamp: None, floor: None, police: false, observe: true };
}

impl Default for Class {
    /// DCTCP with beta 1, no clamp, a floor of one segment, policing.
    fn default() -> Class {
        Class { law: Law::Dctcp, beta: units_of(BETA.share()), clamp: None, floor: None, police: true, observe: false }
    }
}

/// The first `len` bits of an address in the form of [`wire::Packet::saddr`]: IPv4 prefixes begin at bit 96.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    pub addr: [u32; 4],
    pub len: u8,
}

impl Prefix {
    pub const ANY: Prefix = Prefix { addr: [0; 4], len: 0 };

    fn mask(&self) -> [u32; 4] {
        let len = u32::from(self.len.min(128));
        [0, 32, 64, 96].map(|before| u32::MAX.checked_shl(32 - len.saturating_sub(before).min(32)).unwrap_or(0))
    }

    /// An IPv4 prefix; lengths above 32 count as 32.
    pub fn v4(addr: [u8; 4], len: u8) -> Prefix {
        Prefix { addr: wire::v4(addr), len: 96 + len.min(32) }
    }
}

/// Flows that get another class than the default one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The guest's address.
    pub local: Prefix,
    pub remote: Prefix,
    /// One of the two ports lies in here.
    pub ports: RangeInclusive<u16>,
    /// The guest's tenant, 0: any. An [`Edge`](crate::Edge) has no tenants: all its guests are of tenant 0.
    pub tenant: u32,
    pub class: Class,
}

impl Rule {
    /// A rule that matches every flow.
    pub fn all(class: Class) -> Rule {
        Rule { local: Prefix::ANY, remote: Prefix::ANY, ports: 0..=u16::MAX, tenant: 0, class }
    }
}

/// How [`Rule::tenant`] names a network: 0 means any.
pub fn tenant(network: u32) -> u32 {
    network + 1
}

/// The data path's tables are small: they are walked for each new flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TooMany {
    #[error("more than {} rules; merge some", native::MAX_RULES)]
    Rules,
    #[error("more than {} different classes, the default one included; let some rules share one", native::MAX_CLASSES)]
    Classes,
}

/// Congestion control for all flows of an edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    conf: Box<VccConf>,
    classes: usize,
}

impl Config {
    /// Every flow gets `default`; a timeout is inferred after 10 ms or four round trips, and then the guest is made to
    /// retransmit by duplicate ACKs.
    pub fn new(default: Class) -> Config {
        let mut conf = Box::new(VccConf { rto_min_ns: 10_000_000, flags: native::CONF_DUPACKS, ..VccConf::default() });
        conf.class[0] = mirror(&default);
        Config { conf, classes: 1 }
    }

    /// Adds a rule; the first that matches a flow counts.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn rule(mut self, rule: &Rule) -> Result<Config, TooMany> {
        let n = self.conf.n_rules as usize;
        let class = mirror(&rule.class);
        let index = match self.conf.class[..self.classes].iter().position(|known| *known == class) {
            Some(index) => index,
            None => {
                *self.conf.class.get_mut(self.classes).ok_or(TooMany::Classes)? = class;
                self.classes += 1;
                self.classes - 1
            }
        };
        *self.conf.rule.get_mut(n).ok_or(TooMany::Rules)? = PolicyRule {
            local: rule.local.addr,
            local_mask: rule.local.mask(),
            remote: rule.remote.addr,
            remote_mask: rule.remote.mask(),
            tenant: rule.tenant,
            port_first: *rule.ports.start(),
            port_last: *rule.ports.end(),
            class: index as u8,
            pad: [0; 3],
        };
        self.conf.n_rules += 1;
        Ok(self)
    }

    /// The least time without progress that counts as a timeout. Default 10 ms.
    pub fn rto_min(mut self, time: Time) -> Config {
        self.conf.rto_min_ns = time.as_ns().max(1);
        self
    }

    /// Whether an inferred timeout makes the guest retransmit. Default true.
    pub fn duplicate_acks(self, on: bool) -> Config {
        self.flag(native::CONF_DUPACKS, on)
    }

    /// Whether HyGenICC gives guests shares beside it: then no window is below two segments, so that no guest waits for the ACK of a single
    /// one. Default false.
    pub fn beside_shares(self, on: bool) -> Config {
        self.flag(native::CONF_TWO, on)
    }

    fn flag(mut self, flag: u32, on: bool) -> Config {
        self.conf.flags = self.conf.flags & !flag | if on { flag } else { 0 };
        self
    }

    pub(crate) fn conf(&self) -> Box<VccConf> {
        self.conf.clone()
    }

    /// `struct sv_vcc_conf`, as a kernel program reads it.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: repr(C), integers only, and the sizes of its parts add up to its own: no byte of it is padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(&*self.conf).cast(), size_of::<VccConf>()) }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new(Class::default())
    }
}

fn mirror(class: &Class) -> VccClass {
    let bytes = |size: Option<Bytes>| size.map_or(0, |size| u32::try_from(size.get()).unwrap_or(u32::MAX).max(1));
    let flag = |on, flag| if on { flag } else { 0 };
    let off = *class == Class::OFF;
    VccClass {
        clamp: bytes(class.clamp),
        floor: bytes(class.floor),
        beta: class.beta.min(ONE),
        law: match class.law {
            Law::None => native::LAW_NONE,
            Law::Dctcp => native::LAW_DCTCP,
            Law::NewReno => native::LAW_RENO,
            Law::Cubic => native::LAW_CUBIC,
        },
        flags: flag(class.police, native::CLASS_POLICE)
            | flag(class.observe, native::CLASS_OBSERVE)
            | flag(off, native::CLASS_OFF),
    }
}

/// The edge's state of a guest's sending on one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The window that law and clamp allow; `None`: any.
    pub window: Option<Bytes>,
    /// The law's congestion window.
    pub cwnd: Bytes,
    /// DCTCP's share of marked bytes, in 1/[`ONE`].
    pub alpha: u16,
    pub snd_una: u32,
    pub snd_nxt: u32,
    /// Payload of a full packet.
    pub mss: Bytes,
    /// Zero before the first sample.
    pub srtt: Time,
    pub law: Law,
    /// Shift of the peer's windows (RFC 7323 section 2.2); `None`: the handshake was not seen, and no window is changed.
    pub scale: Option<u8>,
    /// The peer's edge reports marks.
    pub aware: bool,
    /// Payload that the peer's edge reported as marked, modulo 2^32.
    pub marked: Bytes,
    /// Segments of the guest that were dropped because they exceeded its window.
    pub policed_segments: u32,
    /// SPRING's window, where a limiter is in force.
    pub limit: Option<Bytes>,
}

impl Connection {
    /// `conf`: `None` where the connection is followed for a limiter alone.
    pub(crate) fn new(state: &Vcc, conf: Option<&VccConf>) -> Connection {
        let Vcc { conn, law, report, bound } = state;
        let window = conf.map_or(u32::MAX, |conf| state.window(conf));
        Connection {
            window: (window != u32::MAX).then_some(Bytes(window.into())),
            cwnd: Bytes(law.cwnd.into()),
            alpha: law.alpha,
            snd_una: conn.snd_una,
            snd_nxt: conn.snd_nxt,
            mss: Bytes(conn.mss.into()),
            srtt: Time::from_ns(conn.srtt_ns.into()),
            law: match conf
                .and_then(|conf| conf.class.get(usize::from(law.class)))
                .map_or(native::LAW_NONE, |class| class.law)
            {
                native::LAW_DCTCP => Law::Dctcp,
                native::LAW_RENO => Law::NewReno,
                native::LAW_CUBIC => Law::Cubic,
                _ => Law::None,
            },
            scale: (conn.flags & native::BOTH_SYNS == native::BOTH_SYNS)
                .then_some(if conn.flags & native::BOTH_SCALES == native::BOTH_SCALES { conn.in_scale } else { 0 }),
            aware: report.flags & native::AWARE != 0,
            marked: Bytes(report.marked.into()),
            policed_segments: law.policed,
            limit: Some(Bytes(bound.spring.into())).filter(|window| window.get() != 0),
        }
    }
}

impl State {
    /// What has been found out under `config`; `None` if the connection is not one that is looked at.
    pub fn connection(&self, config: &Config) -> Option<Connection> {
        (self.conn.flags & native::BEGUN != 0).then(|| Connection::new(self, Some(&config.conf)))
    }

    /// Is it time to apply the timer laws: to infer a timeout, or to tell the guest of a larger window? `now_ns` is on the
    /// clock of the packets.
    pub fn is_due(&self, config: &Config, now_ns: u64) -> bool {
        self.due(&config.conf, now_ns)
    }
}

/// The packet that carries the report for which `packet`, as the stages left it, had no room. It goes to the same peer.
pub fn feedback_packet(packet: &Packet) -> Packet {
    native::fack(packet)
}

/// Copies of a duplicate ACK that make a guest retransmit (RFC 5681 section 3.2).
pub const DUPLICATE_ACKS: usize = native::DUPACKS;
