//! The host's interfaces, as netlink tells them.

use super::error::{Error, Result};
use super::watch::{Change, Watch};
use futures_util::TryStreamExt;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoNetkit, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, NetkitScrub,
};
use rtnetlink::packet_route::route::{RouteAttribute, RouteFlags, RouteMessage};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::time::Instant;

/// Changes that come in a burst are looked at together.
const SETTLE: Duration = Duration::from_millis(30);
/// Between two looks: a guest can take its end up and down as fast as it likes.
const INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) loopback: bool,
    /// Its packets have no Ethernet header.
    pub(super) bare: bool,
    pub(super) mtu: u32,
    pub(super) mac: Option<[u8; 6]>,
    pub(super) other_end: Option<PairEnd>,
    /// Of a netkit pair: marks and priorities of what the other end sends stay, also from another namespace (Linux 6.13).
    pub(super) keeps_marks: bool,
    /// Of the other end of a pair, where it was looked up.
    pub(super) peer_mac: Option<[u8; 6]>,
    pub(super) peer_mtu: Option<u32>,
    /// Usable as source: no tentative ones; in the kernel's order.
    pub(super) addresses: Vec<IpAddr>,
}

/// The other end of a veth or netkit pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PairEnd {
    pub(super) ifindex: u32,
    /// This namespace's number for the other's, if that is another one.
    pub(super) namespace: Option<i32>,
}

impl Interface {
    /// Why it can be no port with a network: what comes from it is dropped there. One that keeps marks has no sound limit either.
    pub(super) fn unfit(&self) -> Option<&'static str> {
        if self.other_end.is_some() && self.mac == Some([0; 6]) {
            return Some("its pair has no Ethernet addresses, as netkit's L3 mode makes them; make it in L2 mode");
        }
        self.keeps_marks.then_some("its pair keeps marks that the guest sets, by which it passes limits and checks; make it with the peer's scrub at its default")
    }

    /// One end of a pair whose other end is in another namespace.
    pub(super) fn is_pair_into_namespace(&self) -> bool {
        self.other_end.is_some_and(|peer| peer.namespace.is_some())
    }
}

/// By ifindex.
pub(super) type Interfaces = BTreeMap<u32, Interface>;

pub(super) fn by_name<'a>(interfaces: &'a Interfaces, name: &str) -> Option<(u32, &'a Interface)> {
    interfaces.iter().find(|(_, i)| i.name == name).map(|(index, i)| (*index, i))
}

/// Asks and is told by netlink.
pub(super) struct Netlink {
    handle: Handle,
    watch: Watch,
    /// Something changed that nobody was told of yet; until when more is waited for.
    pending: Option<Instant>,
    /// When changes were last told of.
    last: Option<Instant>,
    /// The kernel had more to tell than there was room for.
    lost: bool,
    /// Interfaces that ended since the last look: their numbers may be others' by now.
    ended: BTreeSet<u32>,
    /// What [`Netlink::peer`] found, by ifindex of this namespace's end.
    peers: BTreeMap<u32, Option<([u8; 6], u32)>>,
}

impl Netlink {
    /// `routes`: be told of changed routes too.
    pub(super) fn new(routes: bool) -> Result<Netlink> {
        let failed = |e| Error::System("open netlink", e);
        let watch = Watch::new(routes).map_err(failed)?;
        let (connection, handle, _) = rtnetlink::new_connection().map_err(failed)?;
        tokio::spawn(connection);
        let (ended, peers) = (BTreeSet::new(), BTreeMap::new());
        Ok(Netlink { handle, watch, pending: None, last: None, lost: false, ended, peers })
    }

    /// Returns a moment after something changed. Safe to drop at any await.
    ///
    /// # Errors
    /// Netlink ended.
    pub(super) async fn changed(&mut self) -> Result<()> {
        let failed = |e| Error::System("watch interfaces", e);
        let until = match self.pending {
            Some(until) => until, // asked again: it is not to begin anew each time
            None => {
                self.watch.ready().await.map_err(failed)?;
                let settled = Instant::now() + SETTLE;
                *self.pending.insert(self.last.map_or(settled, |last| settled.max(last + INTERVAL)))
            }
        };
        // What comes meanwhile waits in the kernel.
        tokio::time::sleep_until(until).await;
        let Netlink { watch, ended, peers, lost, .. } = self;
        watch
            .take(|change| match change {
                Change::Link(ifindex) => drop(peers.remove(&ifindex)),
                Change::LinkGone(ifindex) => {
                    ended.insert(ifindex);
                    peers.remove(&ifindex);
                }
                Change::Lost => {
                    *lost = true;
                    peers.clear();
                }
                Change::Other => {}
            })
            .map_err(failed)?;
        self.pending = None;
        self.last = Some(until);
        Ok(())
    }

    /// Looks everything up anew from now on.
    pub(super) fn forget(&mut self) {
        self.peers.clear();
    }

    /// Looks up anew what the other end of `ifindex` is like.
    pub(super) fn forget_peer(&mut self, ifindex: u32) {
        self.peers.remove(&ifindex);
    }

    /// Since the last call, were there changes that nobody told of?
    pub(super) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// Must any that is `known` be looked at anew, whatever it looks like?
    pub(super) fn is_unsure_of(&self, known: impl Fn(u32) -> bool) -> bool {
        self.lost || self.ended.iter().any(|ifindex| known(*ifindex))
    }

    /// Interfaces that ended since the last call.
    pub(super) fn take_ended(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.ended)
    }

    /// All interfaces and addresses now.
    pub(super) async fn interfaces(&self) -> Result<Interfaces> {
        let failed = |e| Error::Netlink("list interfaces", e);
        let mut found = Interfaces::new();
        let mut links = self.handle.link().get().execute();
        while let Some(link) = links.try_next().await.map_err(failed)? {
            found.insert(link.header.index, interface(&link));
        }
        let mut addresses = self.handle.address().get().execute();
        while let Some(message) = addresses.try_next().await.map_err(failed)? {
            if let Some(interface) = found.get_mut(&message.header.index) {
                interface.addresses.extend(address(&message));
            }
        }
        Ok(found)
    }

    /// Where the host's routes lead for a destination, if anywhere.
    pub(super) async fn route(&self, to: IpAddr) -> Option<u32> {
        let route: RouteMessage = self.handle.route().get(question(to)).execute().try_next().await.ok()??;
        route.attributes.iter().find_map(|a| match a {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        })
    }

    /// Does a route of the host lead to a destination by that interface?
    pub(super) async fn has_route(&self, to: IpAddr, ifindex: u32) -> bool {
        let mut message = question(to);
        message.attributes.push(RouteAttribute::Oif(ifindex));
        // The route itself: without one, the kernel would take the destination for a neighbour.
        message.header.flags |= RouteFlags::FibMatch;
        self.handle.route().get(message).execute().try_next().await.is_ok_and(|route| route.is_some())
    }

    /// MAC address and MTU of the other end of `ifindex`, a pair's, if its namespace may be looked into. Remembered until
    /// something about `ifindex` changes: what happens in the other namespace is not told.
    pub(super) async fn peer(&mut self, ifindex: u32, peer: PairEnd) -> Option<([u8; 6], u32)> {
        if let Some(known) = self.peers.get(&ifindex) {
            return *known;
        }
        let mut request = self.handle.link().get().match_index(peer.ifindex);
        request.message_mut().attributes.extend(peer.namespace.map(LinkAttribute::IfNetnsId));
        let link = request.execute().try_next().await.ok().flatten();
        let found = link.map(|link| interface(&link)).and_then(|other| Some((other.mac?, other.mtu)));
        self.peers.insert(ifindex, found);
        found
    }

    pub(super) async fn set_mtu(&self, ifindex: u32, mtu: u32) -> std::result::Result<(), rtnetlink::Error> {
        self.handle.link().set(LinkUnspec::new_with_index(ifindex).mtu(mtu).build()).execute().await
    }
}

/// Which route leads there?
fn question(to: IpAddr) -> RouteMessage {
    match to {
        IpAddr::V4(v4) => RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(v4, 32).build(),
        IpAddr::V6(v6) => RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(v6, 128).build(),
    }
}

fn interface(link: &LinkMessage) -> Interface {
    let mut found = Interface {
        up: link.header.flags.contains(LinkFlags::Up) && link.header.flags.contains(LinkFlags::Running),
        loopback: link.header.flags.contains(LinkFlags::Loopback),
        bare: !matches!(link.header.link_layer_type, LinkLayerType::Ether | LinkLayerType::Loopback),
        ..Interface::default()
    };
    let (mut pair, mut peer, mut namespace, mut keeps_marks) = (false, None, None, false);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => found.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => found.mtu = *mtu,
            LinkAttribute::Address(mac) => found.mac = mac.as_slice().try_into().ok(),
            LinkAttribute::Link(ifindex) => peer = Some(*ifindex),
            LinkAttribute::LinkNetNsId(id) => namespace = Some(*id),
            LinkAttribute::LinkInfo(infos) => {
                pair = infos.iter().any(|info| matches!(info, LinkInfo::Kind(InfoKind::Veth | InfoKind::Netkit)));
                keeps_marks = infos.iter().any(|info| {
                    let LinkInfo::Data(InfoData::Netkit(own)) = info else { return false };
                    own.contains(&InfoNetkit::PeerScrub(NetkitScrub::None))
                });
            }
            _ => {}
        }
    }
    found.keeps_marks = keeps_marks;
    found.other_end = peer.filter(|_| pair).map(|ifindex| PairEnd { ifindex, namespace });
    found
}

fn address(message: &AddressMessage) -> Option<IpAddr> {
    use rtnetlink::packet_route::address::AddressHeaderFlags as Flags;
    if message.header.flags.intersects(Flags::Tentative | Flags::Dadfailed | Flags::Deprecated) {
        return None;
    }
    // Of a point-to-point interface, `Local` is the host's own and `Address` the other end's.
    let local = message.attributes.iter().find_map(|a| match a {
        AddressAttribute::Local(addr) => Some(*addr),
        _ => None,
    });
    let usable = |addr: &IpAddr| match addr {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    let any = message.attributes.iter().find_map(|a| match a {
        AddressAttribute::Address(addr) => Some(*addr),
        _ => None,
    });
    local.or(any).filter(usable)
}
