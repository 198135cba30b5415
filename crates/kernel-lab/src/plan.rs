//! What a fabric consists of: nodes, interfaces, addresses and routes. Decides everything and touches nothing.

use super::{Error, Node, Overlay, Shape};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes that VXLAN over IPv4 adds to a guest's packet (RFC 7348 section 5, without the outer Ethernet header).
const TUNNEL_BYTES: u32 = 50;
/// The guests' network (VNI).
pub const NETWORK: u32 = 7;
/// A host's interface to the fabric.
pub const UPLINK: &str = "u0";
/// A guest's interface.
pub const GUEST: &str = "eth0";
/// Of net.ipv4.fib_multipath_hash_fields: source and destination, protocol, source and destination port.
const HASH_FIELDS: u32 = 0x37;
/// The kernel's own types whose rate is limited, without "time exceeded" (11).
const ICMP_RATEMASK: u32 = 6168 & !(1 << 11);
/// The same of ICMPv6, where that is 3.
const ICMPV6_RATEMASK: &str = "0-1,4-127";

/// Two interfaces joined by a veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub ends: [(Node, String); 2],
}

impl Shape {
    pub fn host_count(&self) -> u16 {
        self.leaves * self.hosts
    }

    /// The leaf that host `host` hangs off; hosts are numbered through from 1.
    pub fn leaf_of(&self, host: u16) -> u16 {
        (host - 1) / self.hosts + 1
    }

    /// Leaves, spines, hosts, guests.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = (1..=self.leaves).map(Node::Leaf).collect();
        nodes.extend((1..=self.spines).map(Node::Spine));
        nodes.extend((1..=self.host_count()).map(Node::Host));
        nodes.extend((1..=self.host_count()).flat_map(|h| (1..=self.guests).map(move |g| Node::Guest(h, g))));
        nodes
    }

    pub fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for (leaf, spine, k) in self.cables() {
            let ends = [(Node::Leaf(leaf), format!("s{spine}-{k}")), (Node::Spine(spine), format!("l{leaf}-{k}"))];
            links.push(Link { ends });
        }
        for host in 1..=self.host_count() {
            let leaf = (Node::Leaf(self.leaf_of(host)), format!("h{host}"));
            links.push(Link { ends: [leaf, (Node::Host(host), UPLINK.into())] });
            for guest in 1..=self.guests {
                let port = (Node::Host(host), port(guest));
                links.push(Link { ends: [port, (Node::Guest(host, guest), GUEST.into())] });
            }
        }
        links
    }

    /// (leaf, spine, parallel link)
    fn cables(&self) -> impl Iterator<Item = (u16, u16, u16)> + '_ {
        let spines = move |leaf| (1..=self.spines).flat_map(move |s| (1..=self.links).map(move |k| (leaf, s, k)));
        (1..=self.leaves).flat_map(spines)
    }

    /// Addresses of both ends of a cable between leaf and spine.
    fn cable_addresses(&self, (leaf, spine, k): (u16, u16, u16)) -> [(Ipv4Addr, Ipv6Addr); 2] {
        let cable = ((leaf - 1) * self.spines + spine - 1) * self.links + k - 1;
        [0, 1].map(|end| {
            let [high, low] = (cable * 2 + end).to_be_bytes();
            (Ipv4Addr::new(10, 254, high, low), Ipv6Addr::new(0xfd5e, 2, 0, 0, 0, 0, cable, end))
        })
    }

    /// Underlay addresses of the leaf's end (1) and the host's end (2) of a host's uplink.
    fn uplink_address(&self, host: u16, end: u8) -> (Ipv4Addr, Ipv6Addr) {
        let leaf = self.leaf_of(host);
        let v4 = Ipv4Addr::new(10, leaf as u8, host as u8, end);
        (v4, Ipv6Addr::new(0xfd5e, 1, leaf, host, 0, 0, 0, end.into()))
    }

    /// Where the fabric reaches a host.
    pub fn host_address(&self, host: u16) -> (Ipv4Addr, Ipv6Addr) {
        self.uplink_address(host, 2)
    }

    /// Bytes of the largest IP packet of a guest.
    pub fn guest_mtu(&self) -> u32 {
        match self.overlay {
            Overlay::Edge | Overlay::Vxlan => self.mtu - TUNNEL_BYTES,
            Overlay::Routed | Overlay::None => self.mtu,
        }
    }

    /// Commands for `ip -batch` that set a node up, all its interfaces being there. `names` gives the lab's namespaces.
    pub(super) fn setup(&self, node: Node) -> Vec<String> {
        let mut lines = vec!["link set lo up".to_owned()];
        match node {
            Node::Leaf(leaf) => self.set_up_leaf(leaf, &mut lines),
            Node::Spine(spine) => self.set_up_spine(spine, &mut lines),
            Node::Host(host) => self.set_up_host(host, &mut lines),
            Node::Guest(host, guest) => self.set_up_guest(host, guest, &mut lines),
        }
        lines
    }

    fn set_up_leaf(&self, leaf: u16, lines: &mut Vec<String>) {
        let cables: Vec<_> = self.cables().filter(|cable| cable.0 == leaf).collect();
        for &(_, spine, k) in &cables {
            let [(v4, v6), _] = self.cable_addresses((leaf, spine, k));
            self.interface(&format!("s{spine}-{k}"), v4, 31, v6, 127, lines);
        }
        for host in (1..=self.host_count()).filter(|h| self.leaf_of(*h) == leaf) {
            let (v4, v6) = self.uplink_address(host, 1);
            self.interface(&format!("h{host}"), v4, 30, v6, 64, lines);
            if self.overlay == Overlay::Routed {
                let (via4, via6) = self.host_address(host);
                lines.push(format!("route add {} via {via4}", guests_v4(host)));
                lines.push(format!("route add {} via {via6}", guests_v6(host)));
            }
        }
        let up = |cable: (u16, u16, u16)| (self.cable_addresses(cable)[1], format!("s{}-{}", cable.1, cable.2));
        let hops = nexthops(cables.into_iter().map(up));
        for other in (1..=self.leaves).filter(|other| *other != leaf) {
            self.routes_to_leaf(other, &hops, lines);
        }
    }

    fn set_up_spine(&self, spine: u16, lines: &mut Vec<String>) {
        for leaf in 1..=self.leaves {
            let cables = || (1..=self.links).map(move |k| (leaf, spine, k));
            for cable in cables() {
                let [_, (v4, v6)] = self.cable_addresses(cable);
                self.interface(&format!("l{leaf}-{}", cable.2), v4, 31, v6, 127, lines);
            }
            let down = |cable: (u16, u16, u16)| (self.cable_addresses(cable)[0], format!("l{leaf}-{}", cable.2));
            self.routes_to_leaf(leaf, &nexthops(cables().map(down)), lines);
        }
    }

    /// Everything behind a leaf, over equal-cost next hops of both families.
    fn routes_to_leaf(&self, leaf: u16, (hops4, hops6): &(String, String), lines: &mut Vec<String>) {
        lines.push(format!("route add 10.{leaf}.0.0/16{hops4}"));
        lines.push(format!("route add fd5e:1:{leaf:x}::/48{hops6}"));
        if self.overlay == Overlay::Routed {
            for host in (1..=self.host_count()).filter(|h| self.leaf_of(*h) == leaf) {
                lines.push(format!("route add {}{hops4}", guests_v4(host)));
                lines.push(format!("route add {}{hops6}", guests_v6(host)));
            }
        }
    }

    fn set_up_host(&self, host: u16, lines: &mut Vec<String>) {
        let (v4, v6) = self.host_address(host);
        self.interface(UPLINK, v4, 30, v6, 64, lines);
        let (gateway4, gateway6) = self.uplink_address(host, 1);
        lines.push(format!("route add default via {gateway4}"));
        lines.push(format!("route add default via {gateway6}"));
        if self.overlay == Overlay::Vxlan {
            lines.push("link add br0 type bridge".into());
            lines.push(format!("link set br0 mtu {} up", self.guest_mtu()));
            lines.push(format!("link add vx0 type vxlan id {NETWORK} local {v4} dstport 4789"));
            lines.push(format!("link set vx0 mtu {} master br0 up", self.guest_mtu()));
        }
        for guest in 1..=self.guests {
            let port = port(guest);
            let master = if self.overlay == Overlay::Vxlan { " master br0" } else { "" };
            lines.push(format!("link set {port} mtu {}{master} up", self.guest_mtu()));
            if self.overlay == Overlay::Routed {
                let (v4, v6) = guest_address(host, guest);
                lines.push(format!("addr add 169.254.1.1/32 dev {port}"));
                lines.push(format!("addr add fe80::1/64 dev {port} nodad"));
                lines.push(format!("route add {v4}/32 dev {port}"));
                lines.push(format!("route add {v6}/128 dev {port}"));
            }
        }
    }

    fn set_up_guest(&self, host: u16, guest: u16, lines: &mut Vec<String>) {
        let (v4, v6) = guest_address(host, guest);
        lines.push(format!("link set {GUEST} address {} mtu {} up", guest_mac(host, guest), self.guest_mtu()));
        // Tunnelled guests share one segment; routed ones know nobody but their host.
        let (len4, len6) = if self.overlay == Overlay::Routed { (32, 128) } else { (16, 64) };
        lines.push(format!("addr add {v4}/{len4} dev {GUEST}"));
        lines.push(format!("addr add {v6}/{len6} dev {GUEST} nodad"));
        if self.overlay == Overlay::Routed {
            lines.push(format!("route add 169.254.1.1 dev {GUEST} scope link"));
            lines.push(format!("route add default via 169.254.1.1 dev {GUEST}"));
            lines.push(format!("route add default via fe80::1 dev {GUEST}"));
        }
    }

    fn interface(&self, name: &str, v4: Ipv4Addr, len4: u8, v6: Ipv6Addr, len6: u8, lines: &mut Vec<String>) {
        lines.push(format!("link set {name} mtu {} up", self.mtu));
        lines.push(format!("addr add {v4}/{len4} dev {name}"));
        lines.push(format!("addr add {v6}/{len6} dev {name} nodad"));
    }

    /// Commands for `bridge -batch` on a host whose overlay is the kernel's VXLAN device: flood to all other hosts.
    pub(super) fn flood_list(&self, host: u16) -> Vec<String> {
        let others = (1..=self.host_count()).filter(|other| *other != host);
        others.map(|o| format!("fdb append 00:00:00:00:00:00 dev vx0 dst {}", self.host_address(o).0)).collect()
    }

    /// Files below /proc/sys/net, what goes in, and whether the kernel may lack them.
    pub(super) fn sysctls(&self, node: Node) -> Vec<(&'static str, String, bool)> {
        let mut files = vec![
            ("ipv6/conf/all/disable_ipv6", "0".into(), false),
            ("ipv6/conf/default/disable_ipv6", "0".into(), false),
            ("ipv6/conf/default/accept_dad", "0".into(), false),
        ];
        if !matches!(node, Node::Guest(..)) {
            files.push(("ipv4/ip_forward", "1".into(), false));
            files.push(("ipv6/conf/all/forwarding", "1".into(), false));
            // Replies may come back over another path.
            files.push(("ipv4/conf/all/rp_filter", "0".into(), false));
            files.push(("ipv4/conf/default/rp_filter", "0".into(), false));
        }
        if let Node::Leaf(_) | Node::Spine(_) = node {
            // Addresses, protocol and ports, as the headers have them. Policy 1 reads these only where the sender's kernel left no
            // hash on the packet: all routers of one machine would choose alike.
            for (policy, fields) in [
                ("ipv4/fib_multipath_hash_policy", "ipv4/fib_multipath_hash_fields"),
                ("ipv6/fib_multipath_hash_policy", "ipv6/fib_multipath_hash_fields"),
            ] {
                files.push((policy, "3".into(), false));
                files.push((fields, HASH_FIELDS.to_string(), false));
            }
            // Path discovery: hops say of every probe that its TTL ran out, and by which link it came.
            files.push(("ipv4/icmp_ratemask", ICMP_RATEMASK.to_string(), false));
            files.push(("ipv6/icmp/ratemask", ICMPV6_RATEMASK.into(), true)); // since Linux 5.2
            files.push(("ipv4/icmp_errors_use_inbound_ifaddr", "1".into(), false));
            // Since Linux 6.11. With one seed for all, spines would repeat the leaf's choice and use half their links;
            // with fixed ones, a label takes the same path in every lab of the same shape.
            let seed = match node {
                Node::Leaf(n) => 0x1eaf_0000 + u32::from(n),
                Node::Spine(n) | Node::Host(n) | Node::Guest(n, _) => 0x5417_0000 + u32::from(n),
            };
            files.push(("ipv4/fib_multipath_hash_seed", seed.to_string(), true));
        }
        files
    }

    /// # Errors
    /// [`Error::Shape`] on the first number out of range.
    pub fn check(&self) -> Result<(), Error> {
        let limits = [
            ("leaves", self.leaves, 16),
            ("spines", self.spines, 16),
            ("links", self.links, 8),
            ("hosts", self.hosts, 32),
            ("guests", self.guests, 64),
        ];
        for (key, value, max) in limits {
            if !(1..=max).contains(&value) {
                return Err(Error::Shape { key, value: value.into(), range: format!("1 to {max}") });
            }
        }
        if self.host_count() > 250 {
            let range = format!("at most {} with {} leaves", 250 / self.leaves, self.leaves);
            return Err(Error::Shape { key: "hosts", value: self.hosts.into(), range });
        }
        if !(1400..=65_000).contains(&self.mtu) {
            // Below, a guest behind a tunnel would be left less than IPv6 asks for (RFC 8200 section 5).
            return Err(Error::Shape { key: "mtu", value: self.mtu, range: "1400 to 65000".into() });
        }
        self.check_queues()
    }
}

/// The host's end of a guest's link.
pub fn port(guest: u16) -> String {
    format!("g{guest}")
}

pub fn guest_address(host: u16, guest: u16) -> (Ipv4Addr, Ipv6Addr) {
    (Ipv4Addr::new(172, 20, host as u8, guest as u8), Ipv6Addr::new(0xfd5e, 7, 0, 0, 0, 0, host, guest))
}

pub fn guest_mac(host: u16, guest: u16) -> String {
    format!("02:5e:00:07:{:02x}:{:02x}", host as u8, guest as u8)
}

fn guests_v4(host: u16) -> String {
    format!("172.20.{host}.0/24")
}

fn guests_v6(host: u16) -> String {
    format!("fd5e:7::{host:x}:0/112")
}

/// The route's next hops, IPv4 and IPv6.
fn nexthops(hops: impl Iterator<Item = ((Ipv4Addr, Ipv6Addr), String)>) -> (String, String) {
    hops.fold(Default::default(), |(mut all4, mut all6), ((v4, v6), device)| {
        let _ = write!(all4, " nexthop via {v4} dev {device}"); // writing to a string cannot fail
        let _ = write!(all6, " nexthop via {v6} dev {device}");
        (all4, all6)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn shape() -> Shape {
        Shape::default()
    }

    #[test]
    fn the_default_has_two_leaves_two_spines_and_eight_cables_between_them() {
        let links = shape().links();
        let cables = links.iter().filter(|l| matches!(l.ends[1].0, Node::Spine(_))).count();
        assert_eq!((shape().nodes().len(), cables, links.len()), (2 + 2 + 4 + 4, 8, 8 + 4 + 4));
    }

    #[test]
    fn a_leaf_reaches_the_other_over_all_spines_and_links() {
        let lines = shape().setup(Node::Leaf(1));
        for route in ["route add 10.2.0.0/16", "route add fd5e:1:2::/48", "route add 172.20.3.0/24"] {
            let line = lines.iter().find(|l| l.starts_with(route)).expect(route);
            assert_eq!(line.matches("nexthop via").count(), 4, "{line}");
        }
        assert!(!lines.iter().any(|l| l.starts_with("route add 10.1.")), "its own hosts are connected");
    }

    #[test]
    fn interface_names_and_addresses_are_unique_in_the_largest_fabric() {
        let shape = Shape { leaves: 16, spines: 16, links: 8, hosts: 15, guests: 64, ..shape() };
        shape.check().unwrap();
        let mut ends = BTreeSet::new();
        for end in shape.links().into_iter().flat_map(|l| l.ends) {
            assert!(end.1.len() < 16);
            assert!(ends.insert((end.0.to_string(), end.1.clone())), "{end:?} twice");
        }
        let mut addresses = BTreeSet::new();
        for node in shape.nodes() {
            for line in shape.setup(node).iter().filter(|l| l.starts_with("addr add") && !l.contains("add fe80")) {
                let address = line.split_whitespace().nth(2).unwrap();
                assert!(address == "169.254.1.1/32" || addresses.insert(address.to_owned()), "{address} twice");
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let wrong = [
            (Shape { leaves: 0, ..shape() }, "--leaves 0: give 1 to 16"),
            (Shape { links: 9, ..shape() }, "--links 9: give 1 to 8"),
            (Shape { leaves: 16, hosts: 16, ..shape() }, "--hosts 16: give at most 15 with 16 leaves"),
            (Shape { mtu: 1000, ..shape() }, "--mtu 1000: give 1400 to 65000"),
        ];
        for (shape, message) in wrong {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }
}
