//! Switches' reports of what they dropped: a socket for them, and whom it hears (docs/fastlane.md).
//!
//! Whoever can send under a switch's address can say anything. So what is passed on is bounded here, and what it does is decided by
//! what the data path knows of the connection.

use super::error::{Error, Result};
use super::reconcile::Agent;
use agent_api::config::{Config, DropReports, PeerRule};
use kernel::state::address;
use nix::errno::Errno;
use nix::sys::socket::sockopt::IpFreebind;
use nix::sys::socket::{bind, setsockopt, socket, AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tracing::warn;
use wire::telemetry::{Group, Reported};

/// The longest UDP datagram.
const LONGEST: usize = 65_535;
/// Datagrams that are read at a time.
const BATCH: usize = 64;
/// Without a tunnel there is one network.
const PLAIN_NETWORK: u32 = 0;
/// Reports that may come at once: those of this part of a second.
const BURST: u32 = 10;

/// What came, in reports unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) datagrams: u64,
    /// Datagrams from addresses that are no switch's.
    pub(super) strangers: u64,
    /// Datagrams that contradict themselves, or of another version.
    pub(super) malformed: u64,
    /// Of packets that were not dropped.
    pub(super) others: u64,
    /// Of drops, beyond the rate.
    pub(super) withheld: u64,
    /// Of drops, without a TCP packet that can be told.
    pub(super) unreadable: u64,
    /// Of packets that no guest of this host has sent.
    pub(super) unmatched: u64,
    /// That went to FastLane.
    pub(super) passed: u64,
}

impl Stats {
    /// Name, help and value of each.
    fn counters(&self) -> [(&'static str, &'static str, u64); 8] {
        [
            ("drop_report_datagrams", "Datagrams at the address for switches' reports", self.datagrams),
            (
                "drop_report_strangers",
                "Of these, those from addresses that are not in fastlane.reports_from",
                self.strangers,
            ),
            (
                "drop_report_malformed",
                "Of these, those that contradict themselves or are of another version",
                self.malformed,
            ),
            ("drop_reports_of_others", "Switches' reports of packets that were not dropped", self.others),
            ("drop_reports_withheld", "Switches' reports beyond fastlane.reports_per_second", self.withheld),
            (
                "drop_reports_unreadable",
                "Switches' reports of drops without the headers of a TCP packet",
                self.unreadable,
            ),
            (
                "drop_reports_unmatched",
                "Switches' reports of packets that no guest of this host has sent",
                self.unmatched,
            ),
            ("drop_reports_passed", "Switches' reports about connections of this host's guests", self.passed),
        ]
    }
}

/// Of an address that is none of this host's.
pub(super) fn nowhere(at: IpAddr) -> String {
    format!("fastlane.reports: this host has no address {at} yet; reports are heard once it has")
}

/// A socket at that address. The host may get the address later: interfaces come and go while the agent runs, and at boot it may be first.
fn listen(at: SocketAddr) -> io::Result<UdpSocket> {
    let family = if at.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Datagram, flags, SockProtocol::Udp)?;
    let to = SockaddrStorage::from(at);
    let bound = bind(socket.as_raw_fd(), &to);
    if bound == Err(Errno::EADDRNOTAVAIL) {
        warn!("{}", nowhere(at.ip()));
        // The option of IPv4 holds for IPv6, too.
        setsockopt(&socket, IpFreebind, &true)?;
        bind(socket.as_raw_fd(), &to)?;
    } else {
        bound?;
    }
    UdpSocket::from_std(socket.into())
}

#[derive(Debug)]
pub(super) struct Reports {
    config: DropReports,
    socket: UdpSocket,
    buffer: Vec<u8>,
    /// Reports that may be passed on now, in billionths.
    allowance: u64,
    refilled: Instant,
}

impl Reports {
    /// Listens, where the configuration says so.
    ///
    /// # Errors
    /// [`Error::Unresolved`] with the reason.
    pub(super) fn open(config: &Config, now: Instant) -> Result<Option<Reports>> {
        let Some(wanted) = &config.reports else { return Ok(None) };
        Reports::bind(wanted, now).map(Some).map_err(|e| {
            let remedy = "give fastlane.reports a port that nobody has";
            Error::Unresolved(format!("cannot listen for drop reports at {}: {e}; {remedy}", wanted.at))
        })
    }

    pub(super) fn bind(config: &DropReports, now: Instant) -> io::Result<Reports> {
        let socket = listen(config.at)?;
        Ok(Reports { config: config.clone(), socket, buffer: vec![0; LONGEST], allowance: most(config), refilled: now })
    }

    pub(super) fn config(&self) -> &DropReports {
        &self.config
    }

    /// Other senders, or another rate, at the same address.
    pub(super) fn follow(&mut self, config: &DropReports) {
        self.config.clone_from(config);
        self.allowance = self.allowance.min(most(config));
    }

    /// Until there may be a datagram.
    pub(super) async fn readable(&self) {
        if self.socket.readable().await.is_err() {
            std::future::pending().await
        }
    }

    /// Reads what has come, a batch at most. `port`: the tunnel's. `pass` takes a dropped packet, and says whether it is of a guest of
    /// this host.
    pub(super) fn hear(&mut self, now: Instant, port: u16, stats: &mut Stats, mut pass: impl FnMut(&Reported) -> bool) {
        self.refill(now);
        for _ in 0..BATCH {
            // Errors are of what was sent, which is nothing.
            let Ok((len, from)) = self.socket.try_recv_from(&mut self.buffer) else { return };
            stats.datagrams += 1;
            let from = from.ip().to_canonical();
            if !self.config.from.iter().any(|known| known.contains(from)) {
                stats.strangers += 1;
                continue;
            }
            let Ok(group) = Group::read(&self.buffer[..len]) else {
                stats.malformed += 1;
                continue;
            };
            for report in group.reports() {
                let count = match (report.dropped, self.allowance >= ONE) {
                    (false, _) => &mut stats.others,
                    (true, false) => &mut stats.withheld,
                    (true, true) => {
                        self.allowance -= ONE;
                        match report.packet(port) {
                            None => &mut stats.unreadable,
                            Some(found) if pass(&found) => &mut stats.passed,
                            Some(_) => &mut stats.unmatched,
                        }
                    }
                };
                *count += 1;
            }
        }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled).min(Duration::from_secs(1));
        self.allowance =
            most(&self.config).min(self.allowance + passed.as_nanos() as u64 * u64::from(self.config.per_second));
        self.refilled = now;
    }
}

impl Agent {
    /// A switch has dropped a packet. False if no guest of this host has sent it, in a tunnel of this host's to a peer.
    pub(super) fn hear_of_drop(&self, found: &Reported) -> bool {
        let network = match &found.outer {
            Some(outer) if !self.config.plain => {
                let (from, to) = (address(outer.saddr), address(outer.daddr));
                let ours = |(peer, (local, _)): (&PeerRule, &(IpAddr, u32))| *local == from && peer.address == to;
                if !self.config.peers.iter().zip(&self.resolved.peers).any(ours) {
                    return false;
                }
                outer.encap.vni
            }
            None if self.config.plain => PLAIN_NETWORK,
            _ => return false,
        };
        self.report_drop(network, &found.packet)
    }

    /// What came of switches' reports; nothing where none are expected.
    pub(super) fn report_counters(&self, stats: &Stats) -> Vec<(&'static str, &'static str, u64)> {
        let expected = self.config.reports.is_some();
        stats.counters().into_iter().filter(|_| expected).collect()
    }
}

/// One report of the allowance.
const ONE: u64 = 1_000_000_000;

fn most(config: &DropReports) -> u64 {
    u64::from((config.per_second / BURST).max(1)) * ONE
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a socket's time is the machine's")]
mod tests {
    use super::*;
    use agent_api::config::Prefix;

    const PLAIN: u16 = 0;

    /// A group of `count` reports of one dropped packet, without a tunnel.
    fn datagram(count: usize) -> Vec<u8> {
        let packet =
            wire::Packet { payload: 100, proto: wire::proto::TCP, family: 4, sport: 1, dport: 2, ..Default::default() };
        let frame = wire::emit(&packet, &Default::default()).unwrap();
        let mut bytes = vec![0x20, 0, 0, 1, 0, 0, 0, 9];
        for _ in 0..count {
            bytes.extend([0x04, 10, 0, 0x80]);
            bytes.extend(&frame[14..54]);
        }
        bytes
    }

    async fn heard(from: &str, per_second: u32, datagrams: &[Vec<u8>], accept: bool) -> Stats {
        let from = vec![from.parse::<Prefix>().unwrap()];
        let config = DropReports { at: "127.0.0.1:0".parse().unwrap(), from, per_second };
        let start = Instant::now();
        let mut reports = Reports::bind(&config, start).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut stats = Stats::default();
        for datagram in datagrams {
            sender.send_to(datagram, reports.socket.local_addr().unwrap()).await.unwrap();
            reports.readable().await;
            reports.hear(start, PLAIN, &mut stats, |found| found.outer.is_none() && accept);
        }
        stats
    }

    fn run(from: &str, per_second: u32, datagrams: &[Vec<u8>], accept: bool) -> Stats {
        super::super::runtime::runtime().unwrap().block_on(heard(from, per_second, datagrams, accept))
    }

    #[test]
    fn an_address_may_come_later_and_a_port_has_one_listener() {
        super::super::runtime::runtime().unwrap().block_on(async {
            for at in ["192.0.2.77:0", "[2001:db8::77]:0"] {
                let config = |at| DropReports { at, from: Vec::new(), per_second: 10 };
                let first = Reports::bind(&config(at.parse().unwrap()), Instant::now()).unwrap();
                let taken = first.socket.local_addr().unwrap();
                let error = Reports::bind(&config(taken), Instant::now()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            }
        });
    }

    #[test]
    fn each_report_is_counted_once() {
        let mut kept = datagram(1);
        kept[11] = 0x20; // not dropped
        let mut unreadable = datagram(1);
        unreadable[8] = 0x00; // no packet
        let all = [datagram(2), kept, unreadable, vec![0x10; 40], vec![], datagram(1)[..20].to_vec()];
        let told = Stats { datagrams: 6, malformed: 3, others: 1, unreadable: 1, passed: 2, ..Stats::default() };
        assert_eq!(run("127.0.0.0/8", 1000, &all, true), told);
        assert_eq!(run("127.0.0.1", 1000, &all, false), Stats { passed: 0, unmatched: 2, ..told });
    }

    #[test]
    fn strangers_are_not_read() {
        let told = run("127.0.0.2", 1000, &[datagram(3), vec![1]], true);
        assert_eq!(told, Stats { datagrams: 2, strangers: 2, ..Stats::default() });
    }

    #[test]
    fn no_more_than_the_rate_is_passed_on() {
        let told = run("127.0.0.1", 1000, &[datagram(90), datagram(90)], true);
        assert_eq!(
            told,
            Stats { datagrams: 2, passed: 100, withheld: 80, ..Stats::default() },
            "a tenth of a second's"
        );
    }
}
