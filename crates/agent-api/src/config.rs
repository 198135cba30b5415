//! What an agent is told to do, after every check that needs no kernel.

pub use super::rates::{
    Annotated, LawKind, Limits, Pacing, PortLimits, Rate, Tenant, MAX_PAIRS, MAX_RATE, MAX_TENANTS, MIN_RATE,
};
use edge::reorder::Timeout;
use edge::Balance;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use units::{BitRate, Bytes, Time};

/// Largest network number a guest may have; the one above is the GRO device's.
pub const MAX_NETWORK: u32 = 0xff_fffe;
/// Most ports, and most peers: the maps have no more room.
pub const MAX_PORTS: usize = 4096;
pub const MAX_PEERS: usize = 4096;
/// Addresses learned on one port: unless told otherwise, and at most.
pub const LEARN_LIMIT: u32 = 16;
pub const MAX_LEARNED: u32 = 64;
/// Rows of the map `routes`: addresses and ranges. As many of them may be configured; the rest is for what is learned.
pub const MAX_ROUTES: usize = 65_536;
pub const MAX_CONFIGURED: usize = 60_000;

/// Adaptive waiting of the kernel edge's receiver: at least 1 ms, 2 ms before a first gap has filled, at most 20 ms.
///
/// More patient than the engine's own. The segments behind one gap wait for anything from nothing to the paths' difference, half
/// of it on average: twice the average leaves no slack, and a thread that has to wait for a processor needs some.
pub const ADAPTIVE: Timeout = Timeout::Adaptive {
    start: Time::from_us(500),
    min: Time::from_us(250),
    max: Time::from_ms(5),
    alpha: 4,
    beta: 2,
    late: false,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Directory in a bpffs.
    pub pins: PathBuf,
    /// Unix socket of `selvedge ctl`.
    pub socket: PathBuf,
    /// Loopback only.
    pub metrics: Option<SocketAddr>,
    pub max_flows: u32,
    /// Of these, one port's and one network's at most; beyond the shares that they may have in any case.
    pub max_flows_per_port: u32,
    pub max_flows_per_network: u32,
    /// ns without a packet after which a flow is forgotten.
    pub flow_idle_ns: u64,
    /// Of our programs among those of others on the same interfaces.
    pub place: Place,
    /// Run although something of [`super::operator::unmet`] is missing.
    pub unchecked: bool,
    /// Names of the interfaces towards the fabric; none: ports are only limited.
    pub uplinks: Vec<String>,
    /// Guests' packets leave as they are, without a tunnel.
    pub plain: bool,
    /// Outer source address; `None`: the first of the first uplink that has one of the peer's family.
    pub address: Option<IpAddr>,
    /// Of the tunnel; 0: there is none.
    pub udp_port: u16,
    /// Add the device that makes the kernel merge encapsulated packets.
    pub gro: bool,
    pub balance: Balance,
    /// Of TCP only: what else there is keeps one path.
    pub tcp_only: bool,
    /// Of peers that have none of their own. Empty where `balance` takes none.
    pub labels: Vec<u16>,
    /// `labels` are the operator's own choice, before those of discovered paths.
    pub labels_listed: bool,
    /// What traces the paths to peers; `None`: nothing does.
    pub discovery: Option<discovery::Config>,
    /// Presto's receiver, and how long it waits for gaps to fill; `None`: segments are handed on as they come.
    pub reorder: Option<Timeout>,
    /// Virtual congestion control of guests; `None`: TCP is left alone.
    pub congestion: Option<edge::vcc::Config>,
    /// Of rates, over all ports; each port has its own.
    pub limits: Limits,
    /// How guests share the uplink; `None`: they send as they like.
    pub tenants: Option<Shares>,
    /// What this host drops of its guests' TCP is sent again; `None`: guests notice by themselves.
    pub fastlane: Option<FastLane>,
    /// Where switches tell what they dropped; needs `fastlane`.
    pub reports: Option<DropReports>,
    pub ports: Vec<PortRule>,
    pub peers: Vec<PeerRule>,
    /// Who says in which order labels are taken.
    pub controller: Option<ControllerRule>,
}

/// Where among the programs of others, or of filters where tcx does not exist, ours are put. What ours let pass, those
/// behind them see; what they send on, drop or answer, only those in front of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In front of those that are there.
    First,
    /// Behind those that are there.
    #[default]
    Last,
}

/// A `[controller]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerRule {
    /// `https://HOST:PORT`, asked in turn until one answers.
    pub urls: Vec<String>,
    /// This host's name in the controller's topology.
    pub edge: String,
    /// PEM files: the authority's certificates, our own, and its key.
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Which interfaces a `[[port]]` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    Name(String),
    /// `*` stands for any characters, `?` for one.
    Pattern(String),
}

impl Selector {
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Selector::Name(own) => own == name,
            Selector::Pattern(pattern) => glob(pattern.as_bytes(), name.as_bytes()),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Selector::Name(text) | Selector::Pattern(text)) = self;
        f.write_str(text)
    }
}

/// Linear in time: the last `*` is the only one worth returning to.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    n = eaten + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// A `[[port]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRule {
    pub selector: Selector,
    /// Of the overlay; `None`: the guest has another network, and the edge only its limits.
    pub network: Option<u32>,
    pub addresses: Vec<IpAddr>,
    /// Addresses that may be learned from what the guest sends.
    pub learn: Vec<Prefix>,
    /// At most so many of them at a time.
    pub learn_limit: u32,
    /// The guest's.
    pub mac: Option<Mac>,
    /// Of the guest's packets, bytes; `None`: what the uplink leaves.
    pub mtu: Option<u32>,
    /// Drop what comes from other addresses than the port's, is tagged, or does not parse.
    pub strict: bool,
    /// What is for no guest may reach the host's stack.
    pub host: bool,
    /// Of its share of the uplink, 1 to 65535.
    pub weight: u16,
    pub limits: PortLimits,
}

/// `[tenants]`: HyGenICC's fair shares of the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    pub conf: edge::hygenicc::Conf,
    /// Bytes of a guest that may wait for their turn; 0: what exceeds its rate is dropped.
    pub backlog: u64,
}

/// `[fastlane]`: what this host drops is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastLane {
    /// Of one guest's dropped frames, so much is looked at.
    pub rate: BitRate,
    /// Of one guest's packets, and of all, that wait to be sent again.
    pub store_per_guest: Bytes,
    pub store: Bytes,
    /// Switches notify of what they drop in the tunnel.
    pub notifications: bool,
}

/// `reports` of `[fastlane]`: where switches tell what they dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropReports {
    /// UDP.
    pub at: SocketAddr,
    /// Addresses of switches: nobody else is heard.
    pub from: Vec<Prefix>,
    /// Most reports that are looked at.
    pub per_second: u32,
}

/// A `[[peer]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRule {
    pub name: String,
    pub address: IpAddr,
    pub plain_vxlan: bool,
    pub labels: Option<Vec<u16>>,
    pub guests: Vec<GuestRule>,
}

/// Who is behind a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestRule {
    pub network: u32,
    pub prefix: Prefix,
    pub mac: Option<Mac>,
}

/// A range of inner addresses, without host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

impl Prefix {
    /// A single address.
    pub fn host(addr: IpAddr) -> Prefix {
        Prefix { addr, len: bits(addr) }
    }
    pub fn addr(self) -> IpAddr {
        self.addr
    }
    #[allow(clippy::len_without_is_empty)] // of a prefix, not of a collection
    pub fn len(self) -> u8 {
        self.len
    }
    pub fn is_host(self) -> bool {
        self.len == bits(self.addr)
    }
    pub fn contains(self, addr: IpAddr) -> bool {
        self.addr.is_ipv4() == addr.is_ipv4() && cut(addr, self.len) == self.addr
    }
}

fn bits(addr: IpAddr) -> u8 {
    if addr.is_ipv4() {
        32
    } else {
        128
    }
}

fn cut(addr: IpAddr, len: u8) -> IpAddr {
    match addr {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

impl FromStr for Prefix {
    type Err = String;
    /// `10.1.2.0/24`, or a single address.
    fn from_str(text: &str) -> Result<Prefix, String> {
        let shown: String = text.chars().take(60).collect();
        let (addr, len) = text.split_once('/').map_or((text, None), |(addr, len)| (addr, Some(len)));
        let addr: IpAddr =
            addr.parse().map_err(|_| format!("{shown:?} is not a range of addresses: write \"10.1.2.0/24\""))?;
        let most = bits(addr);
        let len = match len {
            None => most,
            Some(len) => len
                .parse()
                .ok()
                .filter(|len| *len <= most)
                .ok_or_else(|| format!("{shown:?} is not a range of addresses: the length is 0 to {most}"))?,
        };
        let whole = Prefix { addr: cut(addr, len), len };
        if whole.addr != addr {
            return Err(format!("{shown:?} has bits beyond its length: write \"{whole}\""));
        }
        Ok(whole)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// An Ethernet address of one station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;
    fn from_str(text: &str) -> Result<Mac, String> {
        let shown: String = text.chars().take(40).collect();
        let fail = |why: &str| format!("{shown:?} {why}: write \"02:00:00:00:00:02\"");
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
            let part = part.ok_or_else(|| fail("is not an Ethernet address"))?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| fail("is not an Ethernet address"))?;
        }
        if parts.next().is_some() {
            return Err(fail("is not an Ethernet address"));
        }
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(fail("is not the address of one station"));
        }
        Ok(Mac(mac))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, matches) in [
            ("lxc*", "lxc0", true),
            ("lxc*", "lxc", true),
            ("lxc*", "xlxc", false),
            ("*", "", true),
            ("v?th*1", "veth21", true),
            ("v?th*1", "veth2", false),
            ("*a*b", "xaab", true),
            ("a", "ab", false),
            ("", "", true),
        ] {
            assert_eq!(Selector::Pattern(pattern.into()).matches(name), matches, "{pattern} {name}");
        }
        assert!(!Selector::Name("a*".into()).matches("ab"));
    }

    #[test]
    fn prefixes_have_no_host_bits() {
        let prefix: Prefix = "10.1.2.0/24".parse().unwrap();
        assert!(prefix.contains("10.1.2.255".parse().unwrap()) && !prefix.contains("10.1.3.0".parse().unwrap()));
        assert!(!prefix.contains("::a01:200".parse().unwrap()));
        assert!("fd00::7".parse::<Prefix>().unwrap().is_host());
        assert!("0.0.0.0/0".parse::<Prefix>().unwrap().contains("1.2.3.4".parse().unwrap()));
        assert!("::/0".parse::<Prefix>().unwrap().contains("fe80::1".parse().unwrap()));
        let error = "10.1.2.3/24".parse::<Prefix>().unwrap_err();
        assert!(error.ends_with("write \"10.1.2.0/24\""), "{error}");
        for bad in ["", "10.1.2", "10.1.2.0/33", "fd00::/129", "10.0.0.0/-1", "10.0.0.0/", "/8"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn macs_are_of_one_station() {
        assert_eq!("02:00:0a:07:00:0F".parse::<Mac>().unwrap().to_string(), "02:00:0a:07:00:0f");
        for bad in
            ["", "01:00:5e:00:00:01", "00:00:00:00:00:00", "2:0:0:0:0:1", "02:00:00:00:00:01:02", "+2:00:00:00:00:01"]
        {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in ".{0,40}") {
            if let Ok(prefix) = text.parse::<Prefix>() {
                prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
            }
            let _ = text.parse::<Mac>();
        }
    }
}
