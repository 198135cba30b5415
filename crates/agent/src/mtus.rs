//! MTUs of the host's ends of veth pairs: what the agent changed goes back.

use super::interfaces::{Interfaces, Netlink};
use super::remembered::RememberedPort;

/// With less, an interface loses its IPv6 addresses; what the guest does to its own end is not to do that to the host's.
pub(crate) const LEAST: u32 = 1280;

/// Unless somebody else changed it meanwhile.
pub(crate) async fn restore(netlink: &Netlink, interfaces: &Interfaces, port: &RememberedPort) {
    let interface = interfaces.get(&port.ifindex).filter(|i| i.name == port.interface);
    if let (Some(interface), Some(mtu)) = (interface, port.mtu) {
        if interface.mtu == mtu.set {
            let _ = netlink.set_mtu(port.ifindex, mtu.original).await; // the interface may just be ending
        }
    }
}
